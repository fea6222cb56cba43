//! Rejected updates: shown as values, kept over a restart, published again after a fix, or discarded.

use crate::tick_support::{Tick, all, call, ids, told};
use elastick::net::Client;
use proto::Value;
use std::path::Path;

fn upd(table: &str, data: Value) -> Value {
    call(".u.upd", [Value::symbol(table), data])
}

/// Trades as a Python program sends them: symbols as strings.
fn strings() -> Value {
    Value::list([Value::list([Value::chars("AAPL"), Value::chars("MSFT")]), Value::longs([1, 2])])
}

fn answer(client: &mut Client, question: &str) -> Value {
    client.query(question).expect("an answer")
}

#[test]
fn rejected_updates_are_a_table_with_their_data() {
    let tick = Tick::start("rejected-table", &[]);
    let mut client = tick.client();
    client.send_async(&upd("trade", strings())).expect("sent");
    client.request(&upd("trades", Value::list([Value::symbol("A"), Value::Long(1)]))).expect_err("no such table");
    assert_eq!(answer(&mut client, "exec id from .u.rejected"), Value::longs([0, 1]));
    assert_eq!(answer(&mut client, "exec data from .u.rejected").item(0), Some(strings()));
    assert_eq!(answer(&mut client, "exec tab from .u.rejected"), Value::symbols(["trade", "trades"]));
    assert_eq!(answer(&mut client, "exec user from .u.rejected"), Value::symbols(["test", "test"]));
    assert_eq!(answer(&mut client, "exec address from .u.rejected"), Value::symbols(["127.0.0.1", "127.0.0.1"]));
    assert_eq!(
        answer(&mut client, "exec reason from .u.rejected"),
        Value::list([
            Value::chars(
                "type: trade.sym is symbol, got list of strings: send symbols, or start the tickerplant with --coerce"
            ),
            Value::chars("trades: no such table; there are trade, note, idle"),
        ])
    );
    assert_eq!(answer(&mut client, "(count .u.quarantine;.u.refused)"), Value::longs([2, 2]));
    // The older name has the columns of before, with bytes.
    let columns = ["time", "handle", "feed", "tab", "error", "reason", "bytes", "message"];
    assert_eq!(answer(&mut client, "cols .u.quarantine"), Value::symbols(columns));
    assert_eq!(answer(&mut client, "type first exec message from .u.quarantine"), Value::Short(4));
}

#[test]
fn a_function_among_rejected_data_is_shown_as_bytes() {
    let tick = Tick::start("rejected-lambda", &[]);
    let mut client = tick.client();
    let evil = Value::list([Value::symbols(["A"]), Value::list([Value::lambda("{.u.endofday[]}")])]);
    client.request(&upd("trade", evil)).expect_err("a lambda is no long");
    assert_eq!(answer(&mut client, "type first exec data from .u.rejected"), Value::Short(4));
    client.request(&upd("trade", Value::lambda("{.u.endofday[]}"))).expect_err("a lambda is no data");
    assert_eq!(answer(&mut client, "type each exec data from .u.rejected"), Value::shorts([4, 4]));
}

#[test]
fn data_with_more_symbols_than_a_query_may_add_is_shown_as_bytes() {
    let tick = Tick::start("rejected-symbols", &["--limit-query-symbols", "100"]);
    let mut client = tick.client();
    let new: Vec<String> = (0..500).map(|number| format!("rejected-symbol-{number}")).collect();
    client.request(&upd("trade", Value::list([Value::symbols(&new)]))).expect_err("a column is missing");
    client.request(&upd("trade", strings())).expect_err("strings");
    client.request(&upd(&"t".repeat(5000), strings())).expect_err("no such table");
    assert_eq!(answer(&mut client, "type each exec data from .u.rejected"), Value::shorts([4, 0, 0]));
    assert_eq!(answer(&mut client, "count each string exec tab from .u.rejected"), Value::longs([5, 5, 128]));
}

#[test]
fn they_are_kept_over_a_restart_and_published_after_a_fix() {
    let mut tick = Tick::start("rejected-restart", &[]);
    let mut client = tick.client();
    for _ in 0..10 {
        client.send_async(&upd("trade", strings())).expect("sent");
    }
    client.request(&upd("trades", strings())).expect_err("no such table");
    // Without the fix a retry says why, and changes nothing.
    let again = answer(&mut client, ".u.retry 0 99");
    assert_eq!(again.column("error"), Some(&Value::symbols(["type", "domain"])));
    assert_eq!(answer(&mut client, "(count .u.rejected;.u.i;.u.refused)"), Value::longs([11, 0, 11]));
    drop(client);
    tick = tick.restarted_after(&["--coerce"], |_| {});
    let (mut client, mut subscriber) = (tick.client(), tick.client());
    assert_eq!(answer(&mut client, "exec id from .u.rejected"), Value::longs((0..11).collect::<Vec<i64>>()));
    subscriber.request(&all("trade")).expect("subscribed");
    let done = answer(&mut client, ".u.retry exec id from .u.rejected");
    let wanted: Vec<&str> = [""; 10].into_iter().chain(["table"]).collect();
    assert_eq!(done.column("error"), Some(&Value::symbols(wanted)));
    (0..10).for_each(|_| assert_eq!(ids(&told(&mut subscriber)), [1, 2]));
    assert_eq!(answer(&mut client, "(count .u.rejected;.u.i;.u.stats`coerced)"), Value::longs([1, 10, 10]));
    // What was published does not come back, and ids are used once.
    drop((client, subscriber));
    tick = tick.restarted_after(&[], |_| {});
    let mut client = tick.client();
    assert_eq!(answer(&mut client, "exec id from .u.rejected"), Value::longs([10]));
    client.request(&upd("trades", strings())).expect_err("no such table");
    assert_eq!(answer(&mut client, "exec id from .u.rejected"), Value::longs([10, 11]));
    let unknown = client.request(&call(".u.discard", [Value::longs([10, 99])])).expect_err("no such id");
    assert!(unknown.to_string().contains("there is no rejected update 99"), "{unknown}");
    assert_eq!(answer(&mut client, "exec id from .u.rejected"), Value::longs([10, 11]));
    client.request(&call(".u.discard", [Value::NULL])).expect("discarded");
    assert_eq!(answer(&mut client, "count .u.rejected"), Value::Long(0));
}

/// Asserts the data of the rejected updates, in a round of a test.
fn assert_kept(tick: &Tick, kept: &[Value], round: i64) {
    let found = answer(&mut tick.client(), "exec data from .u.rejected");
    assert_eq!(found, Value::list(kept.to_vec()), "round {round}");
}

#[test]
fn a_rejection_that_its_publisher_knows_of_is_there_after_kill_9() {
    let mut tick = Tick::start("rejected-kill", &[]);
    let data = |id: i64| Value::list([Value::list([Value::chars("AAPL")]), Value::longs([id])]);
    let mut kept = Vec::new();
    for round in 0..3 {
        let mut client = tick.client();
        // Two at once: the second comes while the first is written.
        for id in [10 * round, 10 * round + 1] {
            client.request(&upd("trade", data(id))).expect_err("strings");
            kept.push(data(id));
        }
        tick = tick.restarted(&[]);
        assert_kept(&tick, &kept, round);
        let mut client = tick.client();
        for id in [10 * round + 2, 10 * round + 3] {
            client.send_async(&upd("trade", data(id))).expect("sent");
            kept.push(data(id));
        }
        let confirmed = client.request(&call(".u.confirm", [Value::NULL])).expect("an answer");
        assert_eq!(confirmed.lookup("rejected"), Some(Value::Long(2)));
        tick = tick.restarted(&[]);
        assert_kept(&tick, &kept, round);
        // As well as what became of it.
        let mut client = tick.client();
        let first = answer(&mut client, "exec first id from .u.rejected");
        client.request(&call(".u.discard", [first])).expect("discarded");
        kept.remove(0);
        tick = tick.restarted(&[]);
        assert_kept(&tick, &kept, round);
    }
}

/// The update of publisher feed1 with a number.
fn numbered(data: Value, seq: i64) -> Value {
    call(".u.upd", [Value::symbol("trade"), data, Value::symbol("feed1"), Value::Long(seq)])
}

fn seq(client: &mut Client) -> Value {
    client.request(&call(".u.seq", [Value::symbol("feed1")])).expect("the id is free")
}

#[test]
fn a_rejected_update_with_a_number_is_published_once() {
    let mut tick = Tick::start("rejected-number", &[]);
    let good = |id: i64| Value::list([Value::symbols(["AAPL"]), Value::longs([id])]);
    let mut feed = tick.client();
    seq(&mut feed);
    // 1 is skipped by its publisher, 3 is sent again, and 4 is the last.
    for number in [1, 3, 4] {
        feed.request(&numbered(strings(), number)).expect_err("strings");
        feed.request(&numbered(strings(), number)).expect_err("again");
        match number {
            1 => drop(feed.request(&numbered(good(2), 2)).expect("accepted")),
            3 => drop(feed.request(&numbered(good(3), 3)).expect("accepted")),
            _ => {}
        }
    }
    feed.request(&upd("trade", strings())).expect_err("without a number");
    let publishers = ["feed1", "feed1", "feed1", "feed1", "feed1", "feed1", ""];
    assert_eq!(answer(&mut feed, "exec publisher from .u.rejected"), Value::symbols(publishers));
    assert_eq!(answer(&mut feed, "exec seq from .u.rejected"), Value::longs([1, 1, 3, 3, 4, 4, i64::MIN]));
    // Whatever the tickerplant remembers survives a kill, and a clean end.
    tick = tick.restarted(&["--coerce"]);
    tick = tick.restarted_after(&["--coerce"], |_| {});
    let (mut feed, mut operator) = (tick.client(), tick.client());
    assert_eq!(seq(&mut feed), Value::Long(3));
    let done = answer(&mut operator, ".u.retry til 7");
    assert_eq!(done.column("error"), Some(&Value::symbols(["", "seq", "seq", "seq", "", "seq", ""])));
    let reason = answer(&mut operator, ".u.retry[2]`reason").item(0).expect("one");
    let reason = String::from_utf8_lossy(reason.as_text().expect("text")).into_owned();
    assert!(reason.contains("with the number 3 was accepted after this one was rejected"), "{reason}");
    // The number of the last is taken: its publisher cannot add it again either.
    assert_eq!(seq(&mut feed), Value::Long(4));
    let index = feed.request(&numbered(good(4), 4)).expect("a duplicate");
    assert!(matches!(index, Value::Long(0..)), "{index:?}");
    assert_eq!(answer(&mut operator, ".u.stats`updates`duplicates"), Value::longs([3, 1]));
    assert_eq!(answer(&mut operator, "exec id from .u.rejected"), Value::longs([1, 2, 3, 5]));
    // Also after another kill.
    drop((feed, operator));
    tick = tick.restarted(&["--coerce"]);
    let done = answer(&mut tick.client(), ".u.retry exec id from .u.rejected");
    assert_eq!(done.column("error"), Some(&Value::symbols(["seq", "seq", "seq", "seq"])));
}

#[test]
fn a_damaged_or_missing_file_stops_no_start() {
    let mut tick = Tick::start("rejected-damage", &[]);
    let reject = |tick: &Tick| tick.client().request(&upd("trade", strings())).expect_err("strings");
    let damages: [fn(&Path); 4] = [
        |file| std::fs::remove_file(file).expect("removed"),
        |file| std::fs::write(file, "no records").expect("written"),
        |file| {
            let bytes = std::fs::read(file).expect("read");
            std::fs::write(file, bytes.get(..bytes.len() - 3).expect("some")).expect("written");
        },
        |file| {
            std::fs::remove_file(file).expect("removed");
            std::fs::create_dir(file).expect("made");
        },
    ];
    for damage in damages {
        reject(&tick);
        tick = tick.restarted_after(&[], |directory| damage(&directory.join("sym.rejected")));
        assert_eq!(answer(&mut tick.client(), "count .u.rejected"), Value::Long(0));
        assert_eq!(answer(&mut tick.client(), ".u.i"), Value::Long(0));
    }
    // A directory at its place: rejections are in memory only.
    reject(&tick);
    assert_eq!(answer(&mut tick.client(), "count .u.rejected"), Value::Long(1));
}

#[test]
fn coercion_publishes_what_is_logged_and_counts() {
    let tick = Tick::start("rejected-coerce", &["--coerce"]);
    let (mut client, mut subscriber) = (tick.client(), tick.client());
    subscriber.request(&all("trade")).expect("subscribed");
    client.request(&upd("trade", strings())).expect("converted");
    client.request(&upd("trade", Value::list([Value::chars("AAPL"), Value::Int(3)]))).expect("converted");
    client.request(&upd("trade", Value::list([Value::symbol("AAPL"), Value::Long(4)]))).expect("as it is");
    let updates: Vec<Value> = (0..3).map(|_| told(&mut subscriber)).collect();
    assert_eq!(updates.iter().map(ids).collect::<Vec<_>>(), [vec![1, 2], vec![3], vec![4]]);
    let symbols = updates.first().and_then(|update| update.item(2)).and_then(|table| table.column("sym").cloned());
    assert_eq!(symbols, Some(Value::symbols(["AAPL", "MSFT"])));
    assert_eq!(answer(&mut client, ".u.stats`updates`coerced`refused"), Value::longs([3, 2, 0]));
}
