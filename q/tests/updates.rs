//! `-l`: messages that change data are logged, what fails is undone, and a start evaluates the log with the rights of clients.

use elastick_q::session::{Session, Start};
use elastick_q::{Caller, Limits, eval_message, eval_text, one_line};
use proptest::prelude::*;
use std::path::PathBuf;

struct Place(PathBuf);

impl Place {
    fn new(name: &str) -> Place {
        let path = std::env::temp_dir().join(format!("elastick-updates-{}-{name}", std::process::id()));
        let _ = std::fs::remove_dir_all(&path);
        std::fs::create_dir_all(&path).expect("a directory");
        Place(path)
    }

    fn file(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    fn log_bytes(&self) -> u64 {
        std::fs::metadata(self.file("t.log")).expect("a log").len()
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn client() -> Caller {
    Caller { handle: 7, user: b"ann".to_vec(), remote: true, ..Caller::default() }
}

/// A session with a log, after the owner has evaluated a script.
fn begun(place: &Place, script: &str) -> Result<Session, String> {
    let mut session = Session::console(Start::default(), None);
    owner(&mut session, script);
    let log = session.log_updates(&place.file("t"), true, Caller { remote: true, ..Caller::default() });
    log.map(|()| session).map_err(|error| format!("{}: {error}", String::from_utf8_lossy(&error.name)))
}

fn owner(session: &mut Session, text: &str) -> String {
    session.set_caller(Caller::default());
    shown(eval_text(session, text.as_bytes(), &Limits::default()))
}

/// A message of a client; the error's name after a quote.
fn sent(session: &mut Session, text: &str) -> String {
    session.set_caller(client());
    let message = columns::table::Value::chars(text);
    let result = session.updating(&message, |session| eval_message(session, &message, &Limits::default()));
    session.set_caller(Caller::default());
    shown(result)
}

fn shown(result: Result<columns::table::Value, elastick_q::QError>) -> String {
    match result {
        Ok(value) => String::from_utf8_lossy(&one_line(&value)).into_owned(),
        Err(error) => format!("'{}", String::from_utf8_lossy(&error.name)),
    }
}

const TRADE: &str = "trade:([]sym:`g#`symbol$();price:`float$()); n:0; upd:{[t;x]t insert x}; f:{x+1}";

#[test]
fn what_clients_change_is_there_after_a_restart() {
    let place = Place::new("restart");
    let mut session = begun(&place, TRADE).expect("it starts");
    sent(&mut session, "`trade insert(`a;1.5)");
    sent(&mut session, "upd[`trade;(`b`c;2 3f)]");
    sent(&mut session, "n+:5; m:n*2; k:([id:1 2]v:3 4); k[3]:9; delete from `trade where sym=`b");
    let bytes = place.log_bytes();
    // What changes nothing, only a namespace, or fails, is not logged.
    for text in ["count trade", ".a.b:1", "m", "zz:1;'oops", "select from trade where price>2"] {
        sent(&mut session, text);
    }
    owner(&mut session, "own:1");
    assert_eq!(place.log_bytes(), bytes);
    // A message of the process to itself is one.
    owner(&mut session, "0\"w:42\"");
    assert!(place.log_bytes() > bytes);
    drop(session);

    let mut again = begun(&place, TRADE).expect("it starts again");
    let all = "(trade;n;m;k;w;`own`zz in key`.)";
    assert_eq!(owner(&mut again, all), "(+`sym`price!(`a`c;1.5 3);5;10;(+(,`id)!,1 2 3)!+(,`v)!,3 4 9;42;00b)");
}

#[test]
fn a_failed_message_leaves_everything_as_it_was() {
    let place = Place::new("undone");
    let mut session = begun(&place, TRADE).expect("it starts");
    sent(&mut session, "`trade insert(`a`b;1 2f); d:`x`y!1 2; l:1 2 3; e:()");
    let all = "(trade;attr trade`sym;n;d;l;e;asc key`.)";
    let before = owner(&mut session, all);
    let bytes = place.log_bytes();
    for text in [
        "`trade insert(`c;3f);'oops",
        "trade,:([]sym:`d`e;price:4 5f); trade[0;`price]:9f; '`x",
        "`trade insert(`c;3f); trade:1; 1+`a",
        "trade:1; trade:2; 1+`a",
        "n:7; n+:1; l,:4; l[0]:9; l,:5; 1+`a",
        "d[`z]:3; d[`x]:9; e,:1; e,:2; 1+`a",
        "delete trade from `.; delete d from `.; 1+`a",
        "delete from `trade where sym=`a; `sym xasc `trade; update price:0f from `trade; 1+`a",
        "new:1; other:([]a:1 2); `other insert 3; 1+`a",
        "@[`trade;`price;:;8 9f]; .[`l;();,;7]; `n set 8; 1+`a",
        "`trade upsert(`c;3f); trade:reverse trade; `trade insert(`d;4f); 1+`a",
    ] {
        assert!(sent(&mut session, text).starts_with('\''), "{text} succeeds");
        assert_eq!(owner(&mut session, all), before, "{text}");
        assert_eq!(place.log_bytes(), bytes, "{text}");
    }
    // A trap within the message is no failure.
    sent(&mut session, "n:3; @[{n::4;'x};0;::]");
    assert_eq!(owner(&mut session, "n"), "4");
    assert!(place.log_bytes() > bytes);
}

#[test]
fn a_checkpoint_replaces_the_log() {
    let place = Place::new("checkpoint");
    let script = format!("{TRADE}; sym:`u#`a`b; e:([]s:`sym$`a`b)");
    let mut session = begun(&place, &script).expect("it starts");
    sent(&mut session, "`trade insert(`a;1.5); g:{x*2}; sym,:`c; n:5");
    sent(&mut session, "v::n+1");
    assert_eq!(sent(&mut session, "system\"l\""), "'access");
    assert_eq!(owner(&mut session, "\\l"), "::");
    assert_eq!(place.log_bytes(), 8);
    sent(&mut session, "n+:1; `e insert`sym$`c");
    drop(session);

    let mut again = begun(&place, &script).expect("it starts again");
    let all = "(trade;n;v;g 4;f 4;sym;type e`s;e`s)";
    assert_eq!(owner(&mut again, all), "(+`sym`price!(`g#,`a;,1.5);6;7;8;5;`u#`a`b`c;20h;`sym$`a`b`c)");
    assert_eq!(owner(&mut again, "\\l"), "::");
    assert_eq!(owner(&mut again, "n:100; v"), "101");
    drop(again);
    let mut last = begun(&place, &script).expect("it starts once more");
    assert_eq!(owner(&mut last, "(n;count e)"), "6 3");
}

#[test]
fn an_interrupted_checkpoint_loses_and_repeats_nothing() {
    let place = Place::new("interrupted");
    let mut session = begun(&place, "n:0").expect("it starts");
    sent(&mut session, "n+:1");
    owner(&mut session, "\\l");
    sent(&mut session, "n+:1");
    drop(session);
    let (log, qdb) =
        (std::fs::read(place.file("t.log")).expect("read"), std::fs::read(place.file("t.qdb")).expect("read"));
    // Before the new checkpoint is there: the log was only set aside.
    std::fs::rename(place.file("t.log"), place.file("t.log.2")).expect("renamed");
    std::fs::write(place.file("t.qdb.new"), b"cut").expect("written");
    assert_eq!(owner(&mut begun(&place, "n:0").expect("it starts"), "n"), "2");
    assert!(!place.file("t.log.2").exists());
    // After it: the log's messages are in it.
    let mut session = begun(&place, "n:0").expect("it starts");
    owner(&mut session, "\\l");
    drop(session);
    assert_ne!(std::fs::read(place.file("t.qdb")).expect("read"), qdb);
    std::fs::rename(place.file("t.log"), place.file("gone")).expect("renamed");
    std::fs::write(place.file("t.log.2"), log).expect("written");
    assert_eq!(owner(&mut begun(&place, "n:0").expect("it starts"), "n"), "2");
    assert!(!place.file("t.log.2").exists() && place.log_bytes() == 8);
}

#[test]
fn a_damaged_log_is_named() {
    let place = Place::new("damaged");
    let mut session = begun(&place, "n:0").expect("it starts");
    sent(&mut session, "n+:1");
    drop(session);
    let whole = std::fs::read(place.file("t.log")).expect("read");
    std::fs::write(place.file("t.log"), &whole[..whole.len() - 2]).expect("written");
    let error = begun(&place, "n:0").err().expect("an error");
    assert!(error.starts_with("badtail"), "{error}");
    // A head that a crash has cut off holds nothing.
    std::fs::write(place.file("t.log"), &whole[..3]).expect("written");
    let error = begun(&place, "n:0").err();
    assert_eq!(error, None);
}

#[test]
fn a_restart_gives_clients_no_rights() {
    let place = Place::new("rights");
    let file = place.file("stolen");
    let mut session = begun(&place, "upd:{x}; job:{1}").expect("it starts");
    let write = format!("`:{} set 1", file.display());
    sent(&mut session, &format!("a:1; @[{{{write}}};0;::]"));
    sent(&mut session, &format!("run:{{{write}}}; text:\"{write}\""));
    assert!(sent(&mut session, "upd:{2}").starts_with('\''));
    drop(session);
    for _ in 0..2 {
        let mut again = begun(&place, "upd:{x}; job:{1}").expect("it starts again");
        assert!(!file.exists());
        for text in ["run[]", "value text", "job:run; job[]"] {
            owner(&mut again, text);
            assert!(!file.exists(), "{text}");
        }
        // The second time from a checkpoint.
        owner(&mut again, "\\l");
    }
}

/// Changes of a client, with a number.
fn change() -> impl Strategy<Value = String> {
    (0usize..14, 0i64..5).prop_map(|(form, x)| match form {
        0 => format!("`t insert({x};`s{x})"),
        1 => format!("t,:([]a:{x} {x};s:`p`q)"),
        2 => format!("t:update a:{x} from t where a>1"),
        3 => format!("delete from `t where a={x}"),
        4 => format!("`k upsert({x};{x})"),
        5 => format!("k[{x}]:7"),
        6 => format!("l,:{x}"),
        7 => format!("l[0]:{x}"),
        8 => format!("l:til {x}"),
        9 => format!("d[`x{x}]:{x}"),
        10 => "delete l from `.".to_owned(),
        11 => "l:1 2 3".to_owned(),
        12 => format!("`t upsert([]a:enlist {x};s:enlist`u)"),
        _ => format!("g,:enlist til {x}"),
    })
}

const START: &str = "t:([]a:`s#0 1 2;s:`g#`a`b`c);k:([i:1 2]v:3 4);l:`s#1 2 3;d:`x1`x2!1 2;g:(1 2;`a)";

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    /// Messages that fail leave no trace, and a restart gives what the others left.
    #[test]
    fn messages_happen_wholly_or_not_at_all(messages in prop::collection::vec((prop::collection::vec(change(), 1..5), any::<bool>()), 1..8)) {
        let place = Place::new("random");
        let mut session = begun(&place, START).expect("it starts");
        let all = "{(x;attr each(t`a;t`s;@[value;`l;0]))}{x!value each x}asc key`.";
        for (changes, fails) in messages {
            let before = owner(&mut session, all);
            let text = changes.join(";");
            let result = sent(&mut session, &if fails { format!("{text};'oops") } else { text.clone() });
            if result.starts_with('\'') {
                prop_assert_eq!(owner(&mut session, all), before, "{}", text);
            }
        }
        let last = owner(&mut session, all);
        drop(session);
        prop_assert_eq!(owner(&mut begun(&place, START).expect("it starts again"), all), last);
    }
}
