//! What a remote caller wrote keeps the caller's rights, wherever it is evaluated later.

use elastick_q::session::{Session, Start};
use elastick_q::{Caller, Limits, eval_text};
use std::path::PathBuf;

/// A client's attempts to write a file with the owner's rights: definitions of the owner, messages of a client, and the owner's
/// event that follows. `FILE` stands for the file's symbol.
const WAYS: [(&str, &str, &str); 38] = [
    ("job:\"\"", "job::\"FILE set 1\"", "\"q\"@job"),
    ("job:\"\"", "job::\"FILE set 1\"", "value job"),
    ("job:\"\"", "job::\"FILE set 1\"", "get job"),
    ("job:\"\"", "job::\"FILE set 1\"", "value each enlist job"),
    ("job:\"\"", "job::\"FILE set 1\"", "@[value;job;{x}]"),
    ("job:\"\"", "job::\"FILE set 1\"", ".[value;enlist job;{x}]"),
    ("job:\"\"", "job::\"FILE set 1\"", "0 job"),
    ("job:\"\"", "job::\"echo 1 > PATH\"", "system job"),
    ("job:\"\"", "job::\"FILE set 1\"", "eval parse job"),
    ("job:\"\"", "job::\"FILE set 1\"", "j:parse job; eval j"),
    ("job:\"\"", "job::\"FILE set 1\"", "copy:job"),
    ("job:\"\"", "job::(`set;enlist FILE;1)", "eval job"),
    ("job:\"\"", "job::(`set;FILE;1)", "value job"),
    ("job:\"\"", "job::(`set;FILE;1)", "(job 0)[job 1;job 2]"),
    ("job:\"\"", "job::(`set;FILE;1)", "(job 0) . 1_job"),
    ("job:\"\"", "job::(set;FILE;1)", "value job"),
    ("job:\"\"", "job::{FILE set 1}", "job[]"),
    ("job:\"\"", "job::{x set 1}[FILE]", "job[]"),
    ("job:\"\"", "job::-8!{FILE set 1}", "(-9!job)[]"),
    ("job:\"\"", "job::enlist[`a]!enlist \"FILE set 1\"", "value job`a"),
    ("job:\"\"", "job::([]a:enlist \"FILE set 1\")", "value first exec a from job"),
    ("job:\"\"", "job::([]a:enlist \"FILE set 1\")", "exec value each a from job"),
    ("jobs:()", "jobs,:enlist \"FILE set 1\"", "value first jobs"),
    ("jobs:()", "`jobs upsert enlist \"FILE set 1\"", "value first jobs"),
    ("jobs:([]a:())", "`jobs insert enlist enlist \"FILE set 1\"", "value first exec a from jobs"),
    ("jobs:1 2!(\"\";\"\")", "jobs[1]:\"FILE set 1\"", "value jobs 1"),
    ("jobs:1 2!(\"\";\"\")", "@[`jobs;1;:;\"FILE set 1\"]", "value jobs 1"),
    ("jobs:1 2!(\"\";\"\")", ".[`jobs;enlist 1;:;\"FILE set 1\"]", "value jobs 1"),
    ("", "`.work.job set \"FILE set 1\"", "value .work.job"),
    ("", "`.work.job set \"FILE set 1\"", "value .work[`job]"),
    ("", "`.work.job set \"FILE set 1\"", "value last value `.work"),
    ("", "job::\"FILE set 1\"", "value value first key `."),
    ("", "`$\"FILE set 1\"; (`$\"FILE set 1\") set 1", "value string first system \"v\""),
    ("v::value job", "job::\"FILE set 1\"", "v"),
    ("job:\"\"; t:([]a:1 2)", "job::(`set;FILE;1)", "?[t;();0b;(enlist`a)!enlist(job 0;enlist FILE;1)]"),
    ("write:{FILE set 1}", "name::`write", "name[]"),
    ("write:{FILE set 1}; job:()", "job::(`write;0)", "value job"),
    (".z.pg:{job::x; 0}", "FILE set 1", "value job"),
];

fn client() -> Caller {
    Caller { handle: 7, remote: true, ..Caller::default() }
}

struct World {
    session: Session,
    path: PathBuf,
}

impl World {
    fn new(name: &str) -> World {
        let path = std::env::temp_dir().join(format!("elastickrights{name}{}", std::process::id()));
        let _ = std::fs::remove_file(&path);
        World { session: Session::console(Start::default(), None), path }
    }

    /// Evaluates a line of this caller; its error is part of what is tried.
    fn line(&mut self, caller: Caller, text: &str) -> Result<String, String> {
        let path = self.path.display().to_string();
        let text = text.replace("FILE", &format!("`:{path}")).replace("PATH", &path);
        self.session.set_caller(caller);
        let result = eval_text(&mut self.session, text.as_bytes(), &Limits::default());
        result.map(|v| String::from_utf8_lossy(&elastick_q::one_line(&v)).into_owned()).map_err(|e| e.to_string())
    }

    fn owner(&mut self, text: &str) -> Result<String, String> {
        self.line(Caller::default(), text)
    }
}

#[test]
fn key_of_a_table_reads_nothing_of_clients() {
    let mut world = World::new("keyof");
    for line in
        ["quote:([k:1 2]v:3 4)", "upd:{[x]key`quote;}", "dump:{[x]x set 1}", "event:{value(`upd;1);value(`dump;FILE)}"]
    {
        world.owner(line).expect(line);
    }
    world.line(client(), "n:1").expect("its own variable");
    world.owner("event[]").expect("the owner's event");
    assert!(std::fs::remove_file(&world.path).is_ok());
}

#[test]
fn a_clients_value_never_runs_with_the_owners_rights() {
    for (number, (setup, message, event)) in WAYS.into_iter().enumerate() {
        // The same of the owner has the effect: the way leads there.
        let mut world = World::new(&format!("own{number}"));
        world.owner(setup).expect(setup);
        let message = if setup.contains(".z.pg") { format!(".z.pg\"{message}\"") } else { message.to_string() };
        let _ = (world.owner(&message), world.owner(event), world.owner("value copy"));
        assert!(std::fs::remove_file(&world.path).is_ok(), "{setup}; {message}; {event} does nothing");

        let mut world = World::new(&format!("way{number}"));
        world.owner(setup).expect(setup);
        let sent = world.line(client(), &message);
        sent.unwrap_or_else(|error| panic!("{message}: {error}"));
        // A second event sees what the first one stored.
        for text in [event, "value copy"] {
            let result = world.owner(text);
            assert!(!world.path.exists(), "{setup}; {message}; {event}: {result:?}");
        }
    }
}

#[test]
fn a_client_reads_the_default_handlers_and_sets_none() {
    let mut world = World::new("handlers");
    for name in [".z.pg", ".z.ps"] {
        assert_eq!(world.line(client(), &format!("@[value;`{name};{{{name}:value}}]")).as_deref(), Ok(".:"));
        assert!(world.line(client(), &format!("{name}:{{x}}")).is_err());
        assert!(world.owner(name).is_err(), "none is set");
        world.owner(&format!("{name}:{{0}}")).expect("the owner's");
        assert_eq!(world.line(client(), name).as_deref(), Ok("{0}"));
    }
}

#[test]
fn the_owners_code_stores_clients_data() {
    let mut world = World::new("stored");
    world.owner("usage:([]who:`$();what:()); note:{`usage insert (x;enlist y)}").expect("definitions");
    world.line(client(), "note[`ann;\"1+1\"]").expect("a call");
    world.owner("FILE set usage").expect("the owner stores a client's data");
    assert!(world.path.exists());
    let _ = std::fs::remove_file(&world.path);
}

#[test]
fn a_record_put_into_a_namespace_assigns_with_the_clients_rights() {
    let mut world = World::new("space");
    world.owner(".cfg.f:{1}; cfg:{2}; ns:{`.cfg upsert x}; root:{`. upsert x}").expect("definitions");
    for call in ["ns enlist[`f]!enlist 8", "root enlist[`cfg]!enlist 9", "root`free`cfg!1 9"] {
        assert!(world.line(client(), call).is_err(), "{call}");
    }
    // All names of a record are assigned, or none.
    assert_eq!(world.owner("(.cfg.f[];cfg[];@[value;`free;{`none}])"), Ok("(1;2;`none)".to_string()));
    world.line(client(), "root`mine`yours!1 2").expect("names of its own");
    assert_eq!(world.line(client(), "mine,yours"), Ok("1 2".to_string()));
}

#[test]
fn text_of_the_owner_keeps_the_owners_rights() {
    let mut world = World::new("own");
    world.owner("job:\"FILE set 1\"; n:0").expect("definitions");
    world.line(client(), "n::5").expect("a client's assignment");
    world.owner("value job").expect("nothing of a client was read");
    assert!(world.path.exists());
    let _ = std::fs::remove_file(&world.path);
}

#[test]
fn an_error_trace_reads_nothing_of_clients() {
    let mut world = World::new("trace");
    world.line(client(), "theirs:{x}").expect("a client's assignment");
    world.owner(".[{'`oops};enlist 1;{x}]; value\"FILE set 1\"").expect("no client's value was read");
    assert!(world.path.exists());
    let _ = std::fs::remove_file(&world.path);
}

#[test]
fn handlers_arguments_are_a_clients() {
    let mut world = World::new("login");
    world.session.set_caller(Caller::default());
    world.session.serve_caller();
    let text = format!("last_password:\"`:{} set 1\"", world.path.display());
    eval_text(&mut world.session, text.replace("last_password", "seen").as_bytes(), &Limits::default()).expect("set");
    let _ = world.owner("value seen");
    assert!(!world.path.exists());
}

#[test]
fn clients_query_the_partitioned_tables_that_the_owner_has_loaded() {
    let mut world = World::new("shown");
    let root = world.path.display().to_string();
    for made in [
        "`:PATH/2024.01.01/t/ set ([]a:1 2;b:(\"x\";\"yz\"))",
        "`:PATH/2024.01.02/t/ set ([]a:3 4;b:(\"x\";\"yz\"))",
        "`:PATH/secret/2024.01.01/t/ set ([]a:5 6)",
        "`:PATH/secret/u/ set ([]a:7 8)",
        "\\l PATH",
    ] {
        world.owner(made).expect(made);
    }
    assert_eq!(world.line(client(), "exec a from t where date=2024.01.02"), Ok("3 4".to_string()));
    assert_eq!(world.line(client(), "exec sum a by date from t"), Ok("`s#2024.01.01 2024.01.02!3 7".to_string()));
    assert_eq!(world.line(client(), "reval(parse\"exec last b from t\")"), Ok("\"yz\"".to_string()));
    assert_eq!(world.line(client(), ".Q.cn t"), Ok("2 2".to_string()));
    assert_eq!(world.line(client(), "exec a from .Q.ind[t;1 2]"), Ok("2 3".to_string()));
    // Nothing else of the files, whatever a client says of the database.
    for (message, query) in [
        ("0", "get`:2024.01.01/t/a"),
        ("0", "select from get`:2024.01.01/t/"),
        ("0", "select from flip`a`b!`:2024.01.01/t/"),
        (".Q.pd:.Q.PD:2#`:PATH/secret", "select from t"),
        (".Q.pd:.Q.PD:2#`:secret", "select from t"),
        (".Q.pv:date:`secret`secret", "select from t"),
        ("t:flip(enlist`$\"../../secret/u/a\")!`t", "select from t where date=2024.01.01"),
        ("`t set flip(enlist`$\"../../secret/u/a\")!`t", "value flip select from t where date=2024.01.01"),
        ("1", "select from flip(enlist`$\"../../secret/u/a\")!`t"),
        (".Q.pt:enlist`$\"../secret/u\"; `$\"../secret/u\") set t", "select from (`$\"../secret/u\")"),
    ] {
        let mut world = World::new("shown");
        world.owner(&format!("\\l {root}")).expect("loads");
        let _ = world.line(client(), message);
        let answer = world.line(client(), query);
        assert!(
            answer.is_err() || answer.as_ref().is_ok_and(|a| !a.contains('5') && !a.contains('7')),
            "{query}: {answer:?}"
        );
        if message == "0" {
            assert!(answer.as_ref().is_err_and(|e| e.contains("access")), "{query}: {answer:?}");
        }
    }
    // What a client has loaded, with a right that it lost since, is shown to nobody.
    let mut world = World::new("loaded");
    let trusted = Caller { grants: elastick_q::Grants { files: true, ..Default::default() }, ..client() };
    let _ = world.line(trusted, &format!("\\l {root}"));
    assert!(world.line(client(), "select from t").is_err());
    std::fs::remove_dir_all(root).expect("removed");
}

#[test]
fn code_of_the_owner_uses_modules_whatever_clients_assign() {
    let mut world = World::new("module");
    std::fs::create_dir_all(&world.path).expect("made");
    std::fs::write(world.path.join("good.q"), "export:([f:{x+1}])\n").expect("written");
    world.owner(".Q.m.SP:enlist\"PATH\"").expect("assigned");
    world.owner("job:{m:use`good;(m[`f]1;@[key;FILE;{x}])}").expect("defined");
    let expected = world.owner("job[]").expect("runs");
    for text in ["zz:1", ".a.export:1", ".b.c:{1}", "use:{x}", "`use set {x}", ".use:1"] {
        let _ = world.line(client(), text);
        assert_eq!(world.owner("job[]"), Ok(expected.clone()), "{text}");
    }
    std::fs::remove_dir_all(&world.path).expect("removed");
}

#[test]
fn a_query_of_the_owners_code_reads_no_namespace_that_a_client_chose() {
    let mut world = World::new("current");
    world.owner("t:([]a:1 2 3);.lib.f:{select from `.[`t] where a<lim}").expect("defined");
    world.line(client(), ".evil.lim:2").expect("assigned");
    assert!(world.line(client(), "system\"d .evil\";.lib.f[]").is_err());
}

#[test]
fn functions_that_the_owner_puts_into_a_value_are_the_owners() {
    for (made, planted) in [
        ("d:`a`b!(1 2;`x)", "d[`a]:{x+1}"),
        ("d:(1 2;`x;3)", "d[0]:{x+1}"),
        ("d:`a`b!((1 2;`x);3)", "d[`a;1]:{x+1}"),
        ("d:`a`b!(1 2;`x)", ".[`d;enlist`a;:;{x+1}]"),
        ("d:(1 2;`x)", "d,:enlist{x+1}"),
        ("d:(1 2;`x)", "d[0],:{x+1}"),
        ("d:([]a:(1 2;`x))", "d[0;`a]:{x+1}"),
    ] {
        let mut world = World::new("planted");
        world.owner(made).expect("made");
        world.owner(planted).expect("planted");
        assert!(world.line(client(), "d:5").is_err(), "{planted}");
        assert!(world.line(client(), "d[0]:{666}").is_err(), "{planted}");
    }
}

#[test]
fn a_refused_assignment_over_a_namespace_deletes_nothing() {
    let mut world = World::new("over");
    world.owner(".lib.d:42").expect("defined");
    world.owner(".lib.f:{x}").expect("defined");
    for assignment in [".lib:5", ".lib:`a`b!1 2", "`.lib set 7", ".lib.f:(enlist`g)!enlist 1"] {
        assert!(world.line(client(), assignment).is_err(), "{assignment}");
        assert_eq!(world.owner("(.lib.d;.lib.f 3)"), Ok("42 3".to_owned()), "{assignment}");
    }
    world.line(client(), ".own.a.b:1").expect("defined");
    world.line(client(), ".own.a:5").expect("assigned");
    assert_eq!(world.owner("(.own.a;key`.own)"), Ok("(5;``a)".to_owned()));
}

#[test]
fn the_owner_names_something_new_whatever_clients_have_assigned() {
    let mut world = World::new("fresh");
    world.line(client(), "job::\"FILE set 1\"").expect("assigned");
    world.owner(".fresh.a:1;.fresh.a.b:2;.fresh:3;value \"FILE set 2\"").expect("the owner's text");
    assert!(world.path.exists());
    let _ = std::fs::remove_file(&world.path);
}

#[test]
fn a_path_that_a_client_has_written_is_not_read_to_be_compressed() {
    let mut world = World::new("packed");
    world.owner("v:1 2 3;FILE set 4 5 6").expect("set");
    world.line(client(), "v::FILE").expect("assigned");
    let packed = world.owner("((`$string[FILE],\".out\");17;2;6)set v");
    let out = world.path.with_extension("out");
    let is_there = out.exists();
    let _ = std::fs::remove_file(out);
    let _ = std::fs::remove_file(&world.path);
    assert!(packed.is_err() && !is_there, "{packed:?}");
}

#[test]
fn a_client_sees_no_text_of_a_handler_in_a_backtrace() {
    let mut world = World::new("levels");
    let levels = ".Q.trp[{1+x};`a;{count y}]";
    assert_eq!(world.line(client(), &format!("{{{levels}}}[]")), Ok("4".to_owned()));
    world.owner(".z.pg:{s:\"SECRET\";value x}").expect("set");
    let shown = world.line(client(), ".z.pg\".Q.trp[{1+x};`a;{.Q.sbt y}]\"").expect("a text");
    assert!(!shown.contains("SECRET"), "{shown}");
    // Lambdas that the client wrote are its own.
    let own = world.line(client(), ".z.pg\"{.Q.trp[{1+x};x;{.Q.sbt y}]}`a\"").expect("a text");
    assert!(own.contains("[1]  {.Q.trp[") && !own.contains("SECRET"), "{own}");
}
