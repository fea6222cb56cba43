//! Publishing and subscribing through a real tickerplant.

use crate::tick_support::*;
use elastick::net::client::ClientError;
use proto::Value;

#[test]
fn a_sync_update_is_answered_under_every_durability() {
    for durability in ["none", "os", "group(2ms)", "each"] {
        let tick = Tick::start("tick-durability", &["--durability", durability]);
        let mut feed = tick.client();
        for i in 0..20 {
            assert!(feed.request(&trades(i..i + 1)).unwrap().is_null(), "{durability}");
        }
        assert_eq!(feed.query(".u.i").unwrap(), Value::Long(20));
    }
}

#[test]
fn updates_that_came_together_are_answered_together_under_group_commit() {
    let tick = Tick::start("tick-group", &["--durability", "group(5ms)"]);
    let mut feed = tick.client();
    for i in 0..500 {
        feed.send_with(proto::MessageKind::Sync, |writer| {
            let mut object = Vec::new();
            proto::encode::encode_object(&trades(i..i + 1), &mut object)?;
            writer.raw(&object);
            Ok(())
        })
        .unwrap();
    }
    feed.flush().unwrap();
    for _ in 0..500 {
        let answer = feed.next_message(None).unwrap().unwrap();
        assert_eq!(answer.header.kind, proto::MessageKind::Response);
    }
    assert_eq!(feed.query(".u.stats`durable").unwrap(), Value::Long(500));
}

#[test]
fn an_answer_and_the_updates_after_it_leave_no_gap() {
    let tick = Tick::start("tick-atomic", &[]);
    let mut feed = tick.client();
    feed.send_raw(&(0..2000).flat_map(|i| async_bytes(&trades(i..i + 1))).collect::<Vec<u8>>()).unwrap();
    feed.flush().unwrap();
    let mut late = tick.client();
    let answer = late.query("(.u.sub[`;`];.u `i`L)").unwrap();
    let first = answer.item(1).and_then(|place| place.item(0)).and_then(|i| i.as_long()).unwrap();
    let count = usize::try_from(2000 - first).unwrap();
    assert_eq!(take_ids(&mut late, count), (first..2000).collect::<Vec<i64>>());
}

#[test]
fn a_subscriber_of_batches_that_does_not_read_gets_every_row_once() {
    let tick = Tick::start("tick-slow-batch", &["-t", "5", "--limit-outbox", "64KiB"]);
    let mut feed = tick.client();
    let mut slow = tick.client();
    slow.request(&all("trade")).unwrap();
    let updates = 3000;
    for i in 0..updates {
        feed.send_async(&trades(i * 100..i * 100 + 100)).unwrap();
    }
    feed.request(&Value::chars("1")).unwrap();
    let count = usize::try_from(updates * 100).unwrap();
    assert_eq!(take_ids(&mut slow, count), (0..updates * 100).collect::<Vec<i64>>());
    assert!(feed.query(".u.stats`demotions").unwrap().as_long().unwrap() > 0);
}

#[test]
fn a_subscriber_that_is_behind_when_the_day_ends_gets_both_days() {
    let tick = Tick::start("tick-slow-day", &["--limit-outbox", "64KiB"]);
    let mut feed = tick.client();
    let mut slow = tick.client();
    slow.request(&all("trade")).unwrap();
    for day in 0..2 {
        for i in 0..1000 {
            let first = day * 100_000 + i * 100;
            feed.send_async(&trades(first..first + 100)).unwrap();
        }
        feed.query("1").unwrap();
        feed.query(".u.endofday[`force]").unwrap();
    }
    for day in 0..2 {
        let mut taken = Vec::new();
        loop {
            let message = told(&mut slow);
            if name_of(&message) == ".u.end" {
                break;
            }
            taken.extend(ids(&message));
        }
        assert_eq!(taken, (day * 100_000..day * 100_000 + 100_000).collect::<Vec<i64>>(), "day {day}");
    }
}

#[test]
fn a_general_column_travels_as_it_was_sent() {
    let tick = Tick::start("tick-general", &[]);
    let mut client = tick.client();
    client.request(&all("note")).unwrap();
    let row = Value::list([Value::symbol("A"), Value::chars("some words")]);
    client.request(&call(".u.upd", [Value::symbol("note"), row])).unwrap();
    let table = told(&mut client).item(2).unwrap();
    assert_eq!(table.column("text"), Some(&Value::list([Value::chars("some words")])));
}

#[test]
fn users_of_a_file_are_let_in_with_their_password() {
    let users = std::env::temp_dir().join(format!("elastick-it-users-{}", std::process::id()));
    std::fs::write(&users, "test:secret\n").unwrap();
    let tick = Tick::start("tick-users", &["-U", &users.to_string_lossy()]);
    std::fs::remove_file(&users).unwrap();
    let connect = |password: &str| {
        let address = format!("127.0.0.1:{}:test:{password}", tick.port).parse().unwrap();
        elastick::net::Client::connect(&address, PATIENCE, proto::Limits::default())
    };
    assert!(matches!(connect("wrong"), Err(ClientError::Refused(_))));
    assert!(connect("secret").is_ok());
}

#[test]
fn an_expression_that_never_ends_is_ended() {
    let tick = Tick::start("tick-time", &["-T", "1"]);
    let (mut busy, mut other) = (tick.client(), tick.client());
    busy.send_async(&Value::chars("while[1b;1]")).unwrap();
    busy.flush().unwrap();
    // Other clients are served meanwhile, and this one gets its reply in the end.
    assert!(other.request(&trades(0..1)).is_ok());
    let ended = busy.query("while[1b;1]");
    assert!(matches!(&ended, Err(ClientError::Server(name)) if name == b"stop"), "{ended:?}");
}

#[test]
fn clients_may_define_names_but_not_the_tickerplants_own() {
    let tick = Tick::start("tick-define", &[]);
    let mut client = tick.client();
    client.query("double:{2*x}").unwrap();
    assert_eq!(client.query("double 21").unwrap(), Value::Long(42));
    for own in [".u.i:5", "trade:1", ".u.x:1", "`trade insert (0Nn;`A;1)"] {
        let refused = client.query(own);
        assert!(
            matches!(&refused, Err(ClientError::Server(name)) if name.starts_with(b"noupdate")),
            "{own}: {refused:?}"
        );
    }
}

#[test]
fn globals_of_clients_are_bounded() {
    let tick = Tick::start("tick-globals", &["--limit-globals", "1MiB"]);
    let mut client = tick.client();
    assert!(client.query("a:til 1000").is_ok());
    let refused = client.query("b:til 1000000");
    assert!(matches!(&refused, Err(ClientError::Server(name)) if name == b"wsfull"), "{refused:?}");
}

#[test]
fn clients_read_only_where_the_operator_says_so() {
    let tick = Tick::start("tick-read-only", &["-b"]);
    let refused = tick.client().query("a:1");
    assert!(matches!(&refused, Err(ClientError::Server(name)) if name.starts_with(b"noupdate")), "{refused:?}");
}

#[test]
fn the_namespace_of_the_tickerplant_lists_what_it_has() {
    let tick = Tick::start("tick-key", &[]);
    let mut client = tick.client();
    assert_eq!(client.query("`asg in key`.u").unwrap(), Value::Bool(true));
    assert_eq!(client.query("all `t`w`i`L`d`sub`upd`end in key`.u").unwrap(), Value::Bool(true));
}

#[test]
fn a_namespace_stays_with_the_connection() {
    let tick = Tick::start("tick-namespace", &[]);
    let mut client = tick.client();
    assert_eq!(client.query("system\"d .own\";`g set 7;string system\"d\"").unwrap(), Value::chars(".own"));
    assert_eq!(client.query("(string system\"d\";g;`own in key`)~(\".own\";7;1b)").unwrap(), Value::Bool(true));
    let mut other = tick.client();
    assert_eq!(other.query("(string system\"d\";.own.g)~(enlist\".\";7)").unwrap(), Value::Bool(true));
    client.query("\\d .").unwrap();
    // Its own tables take rows by name, as on a node.
    client.query("mine:([]a:1 2);`mine insert 3;`mine upsert ([]a:4 5)").unwrap();
    assert_eq!(client.query("exec a from mine").unwrap(), Value::longs(vec![1, 2, 3, 4, 5]));
    client.query("system\"P 3\"").unwrap();
    assert_eq!(client.query(".Q.s1 1%3").unwrap(), Value::chars("0.333"));
    assert_eq!(other.query(".Q.s1 1%3").unwrap(), Value::chars("0.3333333"));
    client.query(".own.deep.er:1").unwrap();
    assert_eq!(client.query("(.own[`deep;`er];key`.own)~(1;``g`deep)").unwrap(), Value::Bool(true));
    let refused = client.query("system\"d .u\";upd:1");
    assert!(matches!(&refused, Err(ClientError::Server(name)) if name.starts_with(b"noupdate")), "{refused:?}");
}

#[test]
fn the_day_rolls_by_the_clock() {
    let soon = jiff::Timestamp::now() + jiff::SignedDuration::from_secs(3);
    let roll = format!("{} UTC", soon.to_zoned(jiff::tz::TimeZone::UTC).strftime("%H:%M:%S"));
    let tick = Tick::start("tick-clock", &["--roll", &roll]);
    let mut client = tick.client();
    client.request(&all("trade")).unwrap();
    let Value::Date(today) = client.query(".u.d").unwrap() else { panic!("a date") };
    assert_eq!(told(&mut client), call(".u.end", [Value::Date(today)]));
    assert_eq!(client.query(".u.d").unwrap(), Value::Date(today + 1));
}
