//! A tickerplant whose directory was changed while it was down: lock file missing, emptied, or restored to an earlier state.

use crate::harness::wait_for;
use crate::tick_support::*;
use elastick::net::Client;
use proto::Value;
use std::path::Path;

/// Identity of the log, epoch and writer, as a node remembers them.
type Remembered = (String, i64, String);

/// A join of a node that was live from update 0, with its next expected update and date.
fn joining(open: Option<(i64, Value)>, remembered: Option<&Remembered>) -> Value {
    let mut keys = vec!["proto", "node", "queue", "tabs", "syms", "port", "date", "held", "live", "first", "next"];
    let (next, date) = open.map_or((None, Value::Date(i32::MIN)), |(next, date)| (Some(next), date));
    let mut values = vec![
        Value::Long(1),
        Value::symbol("n"),
        Value::symbol("q"),
        Value::symbol(""),
        Value::symbol(""),
        Value::Int(0),
        date,
        Value::longs([]),
        Value::Bool(next.is_some()),
        Value::Long(next.map_or(i64::MIN, |_| 0)),
        Value::Long(next.unwrap_or(i64::MIN)),
    ];
    if let Some((id, epoch, writer)) = remembered {
        keys.extend(["id", "epoch", "writer"]);
        values.extend([Value::symbol(id.as_str()), Value::Long(*epoch), Value::symbol(writer.as_str())]);
    }
    call(".u.asg.join", [Value::dict(Value::symbols(keys), Value::list(values))])
}

/// Joins. Returns whether the node must drop its rows, and the log's identity, epoch and writer.
fn join(client: &mut Client, message: &Value) -> (bool, Remembered) {
    let answer = client.request(message).expect("an answer");
    let get = |key: &str| answer.lookup(key).unwrap_or_else(|| panic!("{key} in {answer:?}"));
    let text = |key: &str| String::from_utf8_lossy(get(key).as_symbol().expect("a symbol")).into_owned();
    let drop = matches!(get("drop"), Value::Bool(true));
    (drop, (text("id"), get("epoch").as_long().expect("a long"), text("writer")))
}

/// A tickerplant that has logged five updates, the log's identity, and the date.
fn logged(name: &str) -> (Tick, Remembered, Value) {
    let tick = Tick::start(name, &["--durability", "each"]);
    let mut client = tick.client();
    (0..5).for_each(|i| drop(client.request(&trades(i..i + 1)).expect("logged")));
    let (drop, whose) = join(&mut client, &joining(None, None));
    assert!(!drop);
    let date = client.query(".u.d").expect("a date");
    (tick, whose, date)
}

/// The same after a restart on a changed directory, with the join reply to a node that holds three earlier updates.
fn after(name: &str, change: impl Fn(&Path)) -> (Tick, Remembered, bool, Remembered) {
    let (tick, before, date) = logged(name);
    let tick = tick.restarted_after(&["--durability", "each"], change);
    let (drop, now) = join(&mut tick.client(), &joining(Some((3, date)), Some(&before)));
    (tick, before, drop, now)
}

#[test]
fn a_lock_file_that_is_gone_costs_no_node_its_rows() {
    for spoil in [
        |lock: &Path| std::fs::remove_file(lock).expect("removed"),
        |lock: &Path| std::fs::write(lock, "garbage").expect("written"),
    ] {
        let (_tick, before, drop, now) = after("tick-lock-gone", |directory| spoil(&directory.join("sym.lock")));
        assert!(!drop);
        assert_eq!((&now.0, now.1), (&before.0, before.1 + 1));
    }
}

#[test]
fn an_emptied_directory_is_another_log_and_nodes_forget_the_rows_of_the_former() {
    let (tick, before, drop, now) = after("tick-emptied", |directory| {
        let files = std::fs::read_dir(directory).expect("listed").flatten().map(|entry| entry.path());
        files.filter(|path| path.extension().is_none_or(|ending| ending != "q")).for_each(|path| {
            std::fs::remove_file(path).expect("removed");
        });
    });
    assert!(drop && now.0 != before.0, "{before:?} {now:?}");
    // The tickerplant accepts updates.
    tick.client().request(&trades(0..1)).expect("logged");
}

#[test]
fn a_directory_restored_from_a_backup_goes_on_as_another_log() {
    let (tick, mut seen, date) = logged("tick-restored");
    // Epochs that nodes saw before the restore, and that the restored directory lacks.
    seen.1 += 7;
    let (drop, now) = join(&mut tick.client(), &joining(Some((3, date.clone())), Some(&seen)));
    assert!(drop && now.0 != seen.0 && now.1 > seen.1, "{seen:?} {now:?}");
    tick.client().request(&trades(5..6)).expect("logged");
    // The same after another restart.
    let tick = tick.restarted_after(&["--durability", "each"], |_| {});
    let (drop, later) = join(&mut tick.client(), &joining(Some((3, date)), Some(&now)));
    assert!(!drop);
    assert_eq!((&later.0, later.1), (&now.0, now.1 + 1));
}

#[test]
fn a_node_that_has_more_of_an_epoch_than_the_log_kept_forgets_it_before_the_log_has_grown_past_it() {
    let (tick, before, date) = logged("tick-lost-tail");
    let tick = tick.restarted_after(&["--durability", "each"], |directory| {
        let log = std::fs::read_dir(directory).expect("listed").flatten().map(|entry| entry.path());
        let log = { log }.find(|path| elastick::log::date_of(path).is_some()).expect("a log");
        let size = std::fs::metadata(&log).expect("there").len();
        let file = std::fs::OpenOptions::new().write(true).open(&log).expect("opened");
        file.set_len(size - 1).expect("cut");
    });
    let mut client = tick.client();
    // New updates have taken the place of the lost one.
    (0..3).for_each(|i| drop(client.request(&trades(i..i + 1)).expect("logged")));
    let (drop, now) = join(&mut client, &joining(Some((5, date.clone())), Some(&before)));
    assert!(drop, "update 4 is another one now");
    assert_eq!(now.0, before.0);
    let (drop, _) = join(&mut tick.client(), &joining(Some((4, date)), Some(&before)));
    assert!(!drop, "what the log has, it may keep");
}

/// Copies the newest log, with its side file, to a date.
fn copy_to(directory: &Path, date: &str) {
    let is_log = |name: &str| name.starts_with("sym2") && name.matches('.').count() == 2;
    let names = std::fs::read_dir(directory).expect("listed").flatten().map(|entry| entry.file_name());
    let log = names.map(|name| name.to_string_lossy().into_owned()).filter(|name| is_log(name)).max().expect("a log");
    for ending in ["", ".index"] {
        let (from, to) = (format!("{log}{ending}"), format!("sym{date}{ending}"));
        std::fs::copy(directory.join(from), directory.join(to)).expect("copied");
    }
}

#[test]
fn days_past_their_time_are_deleted_when_a_day_begins() {
    let (tick, _, _) = logged("retention");
    let tick = tick.restarted_after(&["--keep-days", "2", "--durability", "each"], |directory| {
        (1..=5).for_each(|day| copy_to(directory, &format!("2020.01.0{day}")));
        std::fs::remove_file(directory.join("sym2020.01.02.index")).expect("removed");
    });
    let directory = tick.directory.path().to_path_buf();
    let left = |day: u8| directory.join(format!("sym2020.01.0{day}")).exists();
    wait_for("the start to delete what is due", || {
        let series = crate::metrics::scrape(tick.port);
        (series["elastick_log_days_deleted_total"] == 2.0 && series["elastick_log_days_held"] == 1.0).then_some(())
    });
    assert_eq!((1..=5).map(left).collect::<Vec<_>>(), [false, true, false, true, true]);
    tick.client().query(".u.endofday[]").expect("the day ends");
    wait_for("the roll to delete the next one", || (!left(4)).then_some(()));
    assert!(left(2) && left(5), "the log without a side file, and one of the newest");
    assert_eq!(tick.client().query(".u.i").expect("an answer"), Value::Long(0));
}
