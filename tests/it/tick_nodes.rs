//! The tickerplant's side of elastick's own protocol, against fake nodes, message by message.

use crate::tick_support::*;
use elastick::log::{Proof, update_hash};
use elastick::net::Client;
use proto::{Value, encode};

pub fn joining(node: &str, queue: &str) -> Value {
    let keys = ["proto", "node", "queue", "tabs", "syms", "port", "date", "held", "live", "first", "next"];
    let values = [
        Value::Long(1),
        Value::symbol(node),
        Value::symbol(queue),
        Value::symbol(""),
        Value::symbol(""),
        Value::Int(0),
        Value::Date(i32::MIN),
        Value::longs([]),
        Value::Bool(false),
        Value::Long(i64::MIN),
        Value::Long(i64::MIN),
    ];
    call(".u.asg.join", [Value::dict(Value::symbols(keys), Value::list(values))])
}

/// A node of the queue `q`.
fn node(tick: &Tick, name: &str) -> Client {
    let mut client = tick.client();
    let answer = client.request(&joining(name, "q")).unwrap();
    assert!(answer.lookup("tip").is_some(), "{answer:?}");
    client
}

fn field(message: &Value, key: &str) -> i64 {
    message.item(1).and_then(|d| d.lookup(key)).and_then(|v| v.as_long()).unwrap()
}

/// The proof of a node that has ingested these updates.
fn proof_of(updates: &[Value]) -> Proof {
    let mut proof = Proof::new();
    for update in updates {
        let Some(Value::Table { columns, .. }) = update.item(2) else { panic!("{update:?}") };
        let mut bytes = Vec::new();
        columns.iter().for_each(|column| encode::encode_object(column, &mut bytes).unwrap());
        proof.add(b"trade", ids(update).len() as u64, update_hash(&bytes));
    }
    proof
}

fn proof_table(proof: &Proof) -> Value {
    let longs = |of: fn(&elastick::log::TableProof) -> u64| {
        Value::longs(proof.iter().map(|(_, own)| of(&own).cast_signed()).collect::<Vec<i64>>())
    };
    Value::table([
        ("tab", Value::symbols(proof.iter().map(|(name, _)| name.to_vec()))),
        ("updates", longs(|own| own.updates)),
        ("rows", longs(|own| own.rows)),
        ("hash", longs(|own| own.hash)),
    ])
}

fn rolling(next: i64, proof: &Proof, date: Value) -> Value {
    call(".u.asg.rolling", [Value::Long(next), proof_table(proof), date])
}

#[test]
fn a_first_node_is_live_at_once_and_is_fed_from_where_it_says() {
    let tick = Tick::start("tick-from", &[]);
    let mut feed = tick.client();
    (0..5).for_each(|i| drop(feed.request(&trades(i..i + 1)).unwrap()));
    let mut node = node(&tick, "n");
    let live = told(&mut node);
    assert_eq!((name_of(&live).as_str(), field(&live, "first"), field(&live, "tip")), (".u.asg.live", 0, 5));
    feed.request(&trades(5..7)).unwrap();
    node.send_async(&call(".u.asg.from", [Value::Long(2)])).unwrap();
    node.flush().unwrap();
    let updates: Vec<Value> = (0..4).map(|_| told(&mut node)).collect();
    assert_eq!(updates.iter().map(index).collect::<Vec<_>>(), [2, 3, 4, 5]);
    assert_eq!(updates.iter().flat_map(ids).collect::<Vec<_>>(), [2, 3, 4, 5, 6]);
    feed.request(&trades(7..8)).unwrap();
    assert_eq!(index(&told(&mut node)), 6);
}

/// In u.q anybody may call `.u.del` for any handle. For a node's handle it would stop the updates of a window that only this node holds.
#[test]
fn no_call_changes_what_a_node_is_sent() {
    let tick = Tick::start("tick-kept", &[]);
    let mut feed = tick.client();
    let mut node = node(&tick, "n");
    assert_eq!(name_of(&told(&mut node)), ".u.asg.live");
    node.send_async(&call(".u.asg.from", [Value::Long(0)])).unwrap();
    node.flush().unwrap();
    feed.request(&trades(0..1)).unwrap();
    assert_eq!(ids(&told(&mut node)), [0]);
    let subscribers = feed.query(".u.w").unwrap();
    for text in [".u.del[`trade;h]", ".u.del[`;h]", ".u.subInner[`trade;`A;h]", ".u.add[`trade;`A;h]"] {
        let error = feed.query(&format!("h:first first .u.w`trade;{text}")).unwrap_err().to_string();
        assert!(error.contains("access"), "{text}: {error}");
    }
    assert_eq!(feed.query(".u.w").unwrap(), subscribers);
    feed.request(&trades(1..2)).unwrap();
    assert_eq!(ids(&told(&mut node)), [1]);
}

/// A live node with five trades, and a standby.
fn handover(name: &str) -> (Tick, Client, Client, Client, Vec<Value>) {
    let tick = Tick::start(name, &[]);
    let mut feed = tick.client();
    let mut first = node(&tick, "first");
    assert_eq!(name_of(&told(&mut first)), ".u.asg.live");
    first.send_async(&call(".u.asg.from", [Value::Long(0)])).unwrap();
    first.flush().unwrap();
    (0..5).for_each(|i| drop(feed.request(&trades(i..i + 1)).unwrap()));
    let updates = (0..5).map(|_| told(&mut first)).collect();
    let second = node(&tick, "second");
    (tick, feed, first, second, updates)
}

#[test]
fn a_handover_whose_proof_agrees_is_shown_as_verified() {
    let (_tick, mut feed, mut first, mut second, updates) = handover("tick-proof");
    let date = feed.query(".u.d").unwrap();
    first.send_async(&rolling(5, &proof_of(&updates), date)).unwrap();
    first.flush().unwrap();
    let live = told(&mut second);
    assert_eq!((name_of(&live).as_str(), field(&live, "first")), (".u.asg.live", 5));
    eventually(&mut feed, "exec verified from .u.asg.tab where node=`first", &Value::symbols(["yes"]));
}

#[test]
fn a_handover_whose_proof_differs_is_rebuilt() {
    let (_tick, mut feed, mut first, mut second, updates) = handover("tick-differs");
    let date = feed.query(".u.d").unwrap();
    // A proof that lacks an update.
    first.send_async(&rolling(5, &proof_of(&updates[1..]), date)).unwrap();
    first.flush().unwrap();
    let recheck = told(&mut first);
    assert_eq!(name_of(&recheck), ".u.asg.recheck");
    assert_eq!(name_of(&told(&mut second)), ".u.asg.live");
    assert_eq!(feed.query(".u.stats`differing").unwrap(), Value::Long(1));
}

#[test]
fn a_window_is_streamed_to_a_rebuilding_node_that_cannot_read_the_log() {
    let (tick, mut feed, mut first, mut second, updates) = handover("tick-stream");
    let mut third = node(&tick, "third");
    let date = feed.query(".u.d").unwrap();
    // Its proof lacks an update, so its window is rebuilt.
    first.send_async(&rolling(5, &proof_of(&updates[1..]), date)).unwrap();
    first.flush().unwrap();
    assert_eq!(name_of(&told(&mut second)), ".u.asg.live");
    assert_eq!(name_of(&told(&mut third)), ".u.asg.rebuild");
    // The first range is not inside its window.
    for (first, last) in [(4, 6), (3, 5)] {
        third.send_async(&call(".u.asg.stream", [Value::Long(first), Value::Long(last)])).unwrap();
    }
    third.flush().unwrap();
    assert_eq!((0..2).map(|_| index(&told(&mut third))).collect::<Vec<_>>(), [3, 4]);
    let done = told(&mut third);
    assert_eq!(
        (name_of(&done).as_str(), done.item(1), done.item(2)),
        (".u.asg.streamed", Some(Value::Long(3)), Some(Value::Long(5)))
    );
}

#[test]
fn nodes_are_notified_that_the_tickerplant_ends() {
    let mut tick = Tick::start("tick-bye", &[]);
    let mut node = node(&tick, "n");
    assert_eq!(name_of(&told(&mut node)), ".u.asg.live");
    assert!(tick.process.stop().success());
    assert_eq!(name_of(&told(&mut node)), ".u.asg.bye");
}

#[test]
fn a_node_that_replays_while_the_day_ends_is_fed_the_new_day_from_its_start() {
    let tick = Tick::start("tick-late-from", &[]);
    let mut feed = tick.client();
    (0..3).for_each(|i| drop(feed.request(&trades(i..i + 1)).unwrap()));
    let mut node = node(&tick, "n");
    assert_eq!(name_of(&told(&mut node)), ".u.asg.live");
    feed.query(".u.endofday[]").unwrap();
    (10..15).for_each(|i| drop(feed.request(&trades(i..i + 1)).unwrap()));
    // The index belongs to the day that has ended.
    node.send_async(&call(".u.asg.from", [Value::Long(3)])).unwrap();
    node.flush().unwrap();
    assert_eq!(name_of(&told(&mut node)), ".u.end");
    assert_eq!(take_ids(&mut node, 5), [10, 11, 12, 13, 14]);
}

#[test]
fn a_paper_subscriber_of_some_symbols_rolls_at_the_update_that_it_counts() {
    let tick = Tick::start("tick-paper-count", &[]);
    let mut feed = tick.client();
    (0..4).for_each(|i| drop(feed.request(&trades(i..i + 1)).unwrap()));
    let mut first = tick.client();
    let subscribe = |queue: &str| {
        call(".u.asg.sub", [Value::symbols(["trade"]), Value::list([Value::symbols(["A"])]), Value::symbol(queue)])
    };
    first.send_async(&subscribe("q")).unwrap();
    first.flush().unwrap();
    let replay = told(&mut first);
    assert_eq!((name_of(&replay).as_str(), replay.item(3)), (".sub.rep", Some(Value::longs([0, 4]))));
    // Trades 6 and 9 match its symbols; it has counted four updates of the replay and two messages.
    (4..12).for_each(|i| drop(feed.request(&trades(i..i + 1)).unwrap()));
    assert_eq!(take_ids(&mut first, 2), [6, 9]);
    let roll = Value::list([Value::lambda("{.u.asg.roll[.z.w;x]}"), Value::Long(6)]);
    first.send_async(&roll).unwrap();
    first.flush().unwrap();
    let mut second = tick.client();
    eventually(&mut feed, "exec lastI from .u.asg.tab where not null rolled", &Value::longs([10]));
    second.send_async(&subscribe("q")).unwrap();
    second.flush().unwrap();
    assert_eq!(told(&mut second).item(3), Some(Value::longs([10, 12])));
}

#[test]
fn the_queue_is_remembered_over_a_restart() {
    let mut tick = Tick::start("tick-queue-restart", &[]);
    let mut node = node(&tick, "n");
    assert_eq!(name_of(&told(&mut node)), ".u.asg.live");
    tick.process.kill();
    let tick = tick.restarted(&[]);
    let mut client = tick.client();
    assert_eq!(client.query("exec node from .u.asg.tab").unwrap(), Value::symbols(["n"]));
}

#[test]
fn a_node_that_does_not_come_back_is_given_up() {
    let (_tick, _feed, first, mut second, _) = handover("tick-gone");
    drop(first);
    let live = told(&mut second);
    assert_eq!((name_of(&live).as_str(), field(&live, "first")), (".u.asg.live", 0));
}

#[test]
fn the_open_window_is_verified_at_the_end_of_the_day() {
    let (_tick, mut feed, mut first, _second, updates) = handover("tick-end-proof");
    let date = feed.query(".u.d").unwrap();
    feed.query(".u.endofday[]").unwrap();
    assert_eq!(name_of(&told(&mut first)), ".u.end");
    let proved = |last: i64, updates: &[Value], date: &Value| {
        call(".u.asg.proved", [Value::Long(0), Value::Long(last), proof_table(&proof_of(updates)), date.clone()])
    };
    first.send_async(&proved(5, &updates, &date)).unwrap();
    first.flush().unwrap();
    eventually(&mut feed, ".u.stats`verified`differing", &Value::longs([1, 0]));
    // It is compared once, of days that ended here, however many the node sends.
    first.send_async(&proved(5, &updates[1..], &date)).unwrap();
    first.send_async(&proved(5, &updates[1..], &Value::Date(0))).unwrap();
    feed.request(&trades(5..6)).unwrap();
    let update = told(&mut first);
    let next_date = feed.query(".u.d").unwrap();
    feed.query(".u.endofday[`force]").unwrap();
    assert_eq!(name_of(&told(&mut first)), ".u.end");
    first.send_async(&proved(1, &[update], &next_date)).unwrap();
    first.flush().unwrap();
    // Comparisons are made in order.
    eventually(&mut feed, ".u.stats`verified`differing", &Value::longs([2, 0]));
}

#[test]
fn the_open_window_of_an_ended_day_may_differ() {
    let (_tick, mut feed, mut first, _second, updates) = handover("tick-end-differs");
    let date = feed.query(".u.d").unwrap();
    feed.query(".u.endofday[]").unwrap();
    let proof = proof_table(&proof_of(&updates[1..]));
    first.send_async(&call(".u.asg.proved", [Value::Long(0), Value::Long(5), proof, date])).unwrap();
    first.flush().unwrap();
    eventually(&mut feed, ".u.stats`verified`differing", &Value::longs([0, 1]));
}

#[test]
fn a_node_that_sends_proofs_without_end_costs_the_others_none_of_theirs() {
    let (tick, mut feed, mut first, mut second, updates) = handover("tick-proofs");
    let Value::Date(today) = feed.query(".u.d").unwrap() else { panic!("a date") };
    let mut other = tick.client();
    other.request(&joining("other", "elsewhere")).unwrap();
    assert_eq!(name_of(&told(&mut other)), ".u.asg.live");
    for day in 1..=5000 {
        other.send_async(&rolling(i64::from(day), &Proof::new(), Value::Date(today + day))).unwrap();
    }
    // After the reply all of them have been handled.
    other.query("1+1").unwrap();
    first.send_async(&rolling(5, &proof_of(&updates), Value::Date(today))).unwrap();
    first.flush().unwrap();
    assert_eq!(name_of(&told(&mut second)), ".u.asg.live");
    eventually(&mut feed, "exec verified from .u.asg.tab where node=`first", &Value::symbols(["yes"]));
}

/// A proof with very many tables in the worst order.
#[test]
fn a_proof_of_very_many_tables_holds_up_nobody() {
    let (_tick, mut feed, mut first, _second, _) = handover("tick-proof-tables");
    let date = feed.query(".u.d").unwrap();
    let count = 400_000;
    let names = (0..count).rev().map(|table| format!("{table:07}"));
    let longs = || Value::longs(vec![1; count]);
    let proof =
        Value::table([("tab", Value::symbols(names)), ("updates", longs()), ("rows", longs()), ("hash", longs())]);
    first.send_async(&call(".u.asg.rolling", [Value::Long(5), proof, date])).unwrap();
    first.flush().unwrap();
    eventually(&mut feed, ".u.stats`verified`differing", &Value::longs([0, 1]));
}

/// As in u.q, a call of `.u.end` notifies subscribers without ending the day. Nodes must not be notified: the log's day goes on, and with a
/// quiet feed nothing would reveal that a node has dropped its windows too early.
#[test]
fn an_end_of_day_that_a_client_announces_is_not_sent_to_nodes() {
    let tick = Tick::start("tick-end-announced", &[]);
    let (mut feed, mut node, mut subscriber) = (tick.client(), node(&tick, "n"), tick.client());
    assert_eq!(name_of(&told(&mut node)), ".u.asg.live");
    feed.request(&trades(0..3)).unwrap();
    node.send_async(&call(".u.asg.from", [Value::Long(0)])).unwrap();
    node.flush().unwrap();
    assert_eq!(ids(&told(&mut node)), [0, 1, 2]);
    subscriber.request(&all("trade")).unwrap();
    let Value::Date(today) = feed.query(".u.d").unwrap() else { panic!("a date") };
    feed.query(".u.end .u.d").unwrap();
    feed.request(&trades(3..5)).unwrap();
    assert_eq!(told(&mut subscriber), call(".u.end", [Value::Date(today)]));
    assert_eq!(ids(&told(&mut subscriber)), [3, 4]);
    let update = told(&mut node);
    assert_eq!((name_of(&update).as_str(), index(&update), ids(&update)), ("upd", 1, vec![3, 4]));
    feed.query(".u.endofday[]").unwrap();
    assert_eq!(told(&mut node), call(".u.end", [Value::Date(today)]));
    assert_eq!(feed.query("exec firstI from .u.asg.tab").unwrap(), Value::longs([0]));
    assert_eq!(feed.query(".u.i").unwrap(), Value::Long(0));
}

#[test]
fn an_invalid_date_ends_no_day() {
    let tick = Tick::start("tick-end-argument", &[]);
    let mut client = tick.client();
    for argument in [Value::Date(i32::MIN), Value::Int(0), Value::Int(i32::MIN), Value::Long(0), Value::symbol("x")] {
        let error = client.request(&call(".u.end", [argument.clone()])).expect_err("refused").to_string();
        assert!(error.contains("type: .u.end takes a non-null date"), "{argument:?}: {error}");
    }
    client.request(&call(".u.end", [Value::Date(9_000)])).expect("sent to whom it concerns");
    let nameless = call(".u.upd", [Value::symbol(""), Value::list([])]);
    let error = client.request(&nameless).expect_err("refused").to_string();
    assert!(error.contains("type: the name of the table is missing"), "{error}");
}
