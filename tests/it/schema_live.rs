//! A schema that changes without a restart, with real processes.

use crate::harness::elastick;
use crate::schema_change::{BEFORE, Day, filled, holds, trade};
use crate::tick_support::{eventually, told};
use elastick::net::Client;
use proto::Value;

const ADDED: &str =
    ".u.schema[`trade;([]time:`timespan$();sym:`symbol$();id:`long$();cond:`char$();who:`symbol$();note:())]";

fn publish(feed: &mut Client, ids: std::ops::Range<i64>) {
    ids.for_each(|id| drop(feed.request(&trade(id, id >= 10)).expect("taken")));
}

/// Output of an elastick command.
fn printed(arguments: &[&str]) -> String {
    let output = elastick(arguments).output().expect("it runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
fn every_node_gets_columns_added_without_a_restart_at_the_same_update() {
    let mut day = Day::new("schema-live");
    let (first, mut asks_first) = day.node("first", &[]);
    let (_some, mut asks_some) = day.node("some", &["--queue", "some", "--symbols", "A"]);
    let mut feed = day.client();
    publish(&mut feed, 0..4);
    eventually(&mut asks_first, "count trade", &Value::Long(4));
    eventually(&mut asks_some, "count trade", &Value::Long(2));
    let (_waits, mut asks_waits) = day.node("waits", &[]);
    eventually(&mut feed, "exec state from .u.asg.tab where node=`waits", &Value::symbols(["waiting"]));

    let mut stock = day.client();
    stock.query(".u.sub[`trade;`]").expect("subscribed");
    feed.query(ADDED).expect("changed");
    // The change counts as an update, and a repeated call changes nothing.
    feed.query(ADDED).expect("as it is");
    assert_eq!(feed.query(".u.i").expect("an answer"), Value::Long(5));
    assert_eq!(feed.query("count cols trade").expect("an answer"), Value::Long(6));
    for asks in [&mut asks_first, &mut asks_some, &mut asks_waits] {
        eventually(asks, "count cols trade", &Value::Long(6));
    }
    let error = feed.request(&trade(9, false)).expect_err("of the columns before").to_string();
    assert!(error.contains("length"), "{error}");
    publish(&mut feed, 10..14);
    // A stock subscriber sees the change only as columns of the next update.
    let Value::List { items: update, .. } = told(&mut stock) else { panic!("no update") };
    assert_eq!((update.first(), update.len()), (Some(&Value::symbol("upd")), 3));
    let all = filled(&[0, 1, 2, 3, 10, 11, 12, 13]);
    holds(&mut asks_first, &all);
    holds(&mut asks_some, &filled(&[0, 2, 10, 12]));

    // A node that takes over replays across the change.
    drop((first, asks_first));
    holds(&mut asks_waits, &all);
    // The schema file is unchanged: the logged schema applies.
    day.start(BEFORE);
    let mut feed = day.client();
    publish(&mut feed, 14..16);
    let all = filled(&[0, 1, 2, 3, 10, 11, 12, 13, 14, 15]);
    holds(&mut asks_waits, &all);
    let (_late, mut asks_late) = day.node("late", &["--queue", "late"]);
    holds(&mut asks_late, &all);
    // Without `SRCdate.schema`, the log's records decide.
    std::fs::remove_file(day.log_file(".schema")).expect("removed");
    day.start(BEFORE);
    let mut feed = day.client();
    publish(&mut feed, 16..17);
    let all = filled(&[0, 1, 2, 3, 10, 11, 12, 13, 14, 15, 16]);
    for asks in [&mut asks_waits, &mut asks_late] {
        holds(asks, &all);
        assert_eq!(asks.query(".rdb.stats`missing").expect("an answer"), Value::Long(0));
    }
    let log = feed.query(".u.L").expect("a log");
    let Value::Symbol(log) = log else { panic!("{log:?}") };
    let log = String::from_utf8_lossy(&log).trim_start_matches(':').to_string();
    assert!(printed(&["log", "verify", &log]).contains("whole"));
    assert!(printed(&["log", "proof", &log]).contains("11"), "{}", printed(&["log", "proof", &log]));
    for node in ["waits", "some", "late"] {
        eventually(&mut feed, &format!("exec first refused from .u.asg.tab where node=`{node}"), &Value::Long(0));
    }
    feed.query(".u.endofday[]").expect("the day ends");
    eventually(&mut feed, ".u.stats`verified`differing", &Value::longs([3, 0]));
    // The new day has the columns too, also after a restart.
    publish(&mut feed, 20..21);
    day.start(BEFORE);
    publish(&mut day.client(), 21..22);
    holds(&mut asks_late, &filled(&[20, 21]));
}

#[test]
fn other_changes_without_a_restart_are_rejected_in_words() {
    let day = Day::new("schema-live-other");
    let mut feed = day.client();
    publish(&mut feed, 0..1);
    for (asks, says) in [
        (".u.schema[`gone;([]time:`timespan$();sym:`symbol$())]", "gone: no such table"),
        (
            ".u.schema[`trade;([]time:`timespan$();sym:`symbol$())]",
            "mismatch: column 3 of table trade was id of type long, missing",
        ),
        (".u.schema[`trade;([]time:`timespan$();sym:`symbol$();id:`int$();x:`int$())]", "mismatch: column 3"),
        (".u.schema[`trade;([]time:`timespan$();sym:`symbol$();x:`int$();id:`long$())]", "mismatch: column 3"),
        (".u.schema[`trade;([]time:1#0D;sym:1#`a;id:1#1;x:1#1)]", "length"),
        (".u.schema[`trade;1 2 3]", "type"),
    ] {
        let error = feed.query(asks).map(|answer| format!("{answer:?}")).unwrap_or_else(|error| error.to_string());
        assert!(error.contains(says), "{asks}: {error}");
    }
    let mut other = day.client_of("other");
    let error = other.query(ADDED).expect_err("no operator").to_string();
    assert!(error.contains("access"), "{error}");
    assert_eq!(feed.query(".u.i").expect("an answer"), Value::Long(1));
}
