//! How long a node's ingest stands still while a client's query runs for ten seconds: a node process, fed an update a millisecond
//! by a tickerplant that this program plays, and asked all the time which update it expects next.
//!
//!     cargo bench --bench stall [-- ROWS]
//!
//! Prints figures; asserts nothing. The longest time without progress is an upper bound: it has the question's own way to the
//! node and back in it.

#[path = "../tests/it/harness.rs"]
#[allow(dead_code)]
mod harness;
#[path = "../tests/it/rdb_support.rs"]
#[allow(dead_code)]
mod rdb_support;

use elastick::config::Address;
use elastick::net::client::{Client, ClientError};
use proto::{Limits, Value, Writer, types};
use rdb_support::{Door, Guest};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

const NAMES: [&str; 6] = ["time", "sym", "price", "size", "side", "ex"];
const ROWS_AT_ONCE: usize = 100;
const EVERY: Duration = Duration::from_millis(1);
const QUERY_SECONDS: u64 = 10;
/// Ends by its time limit.
const QUERY: &str = "while[1b;exec size wavg price by sym from trade]";

fn tables(w: &mut Writer<'_>) {
    w.list_head(1);
    w.list_head(2);
    w.symbol("trade");
    w.table_head(NAMES);
    columns(w, 0);
}

fn columns(w: &mut Writer<'_>, rows: usize) {
    let longs: Vec<i64> = (0..rows as i64).collect();
    w.vector(types::TIMESPAN, types::ATTR_NONE, &longs);
    w.vector_head(types::SYMBOL, types::ATTR_GROUPED, rows);
    longs.iter().for_each(|value| w.symbol_item(format!("SYM{}", value * 37 % 5000)));
    w.vector(types::FLOAT, types::ATTR_NONE, &longs.iter().map(|value| *value as f64).collect::<Vec<_>>());
    w.vector(types::LONG, types::ATTR_NONE, &longs);
    w.vector(types::CHAR, types::ATTR_NONE, &vec![b'B'; rows]);
    w.symbols(vec!["N"; rows]);
}

fn connect(port: u16) -> Client {
    let address: Address = format!("127.0.0.1:{port}").parse().expect("an address");
    let mut client = Client::connect(&address, Duration::from_secs(30), Limits::default()).expect("connected");
    client.set_timeout(None);
    client
}

fn next(client: &mut Client) -> i64 {
    match client.query("max .rdb.windows`last") {
        Ok(Value::Long(next)) => next,
        other => panic!("{other:?}"),
    }
}

/// Feeds for as long as a query takes, and answers the longest and the mean time without progress.
fn feed(guest: &mut Guest, index: &mut u64, port: u16, with_query: bool) -> (Duration, Duration) {
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let poller = scope.spawn(|| {
            let mut client = connect(port);
            let (mut longest, mut total, mut steps) = (Duration::ZERO, Duration::ZERO, 0u32);
            let (mut seen, mut since) = (next(&mut client), Instant::now());
            // The first step is the feed's beginning.
            while next(&mut client) == seen && !done.load(Ordering::Relaxed) {
                std::hint::spin_loop();
            }
            while !done.load(Ordering::Relaxed) {
                let now = next(&mut client);
                if now != seen {
                    let gap = since.elapsed();
                    if steps > 0 {
                        longest = longest.max(gap);
                        total += gap;
                    }
                    steps += 1;
                    (seen, since) = (now, Instant::now());
                }
            }
            (longest, total / steps.max(1))
        });
        let query = scope.spawn(move || {
            let began = Instant::now();
            if !with_query {
                return;
            }
            match connect(port).query(QUERY) {
                Err(ClientError::Server(name)) => {
                    println!("the query ended with '{} after {:?}", name.escape_ascii(), began.elapsed());
                }
                other => println!("the query ended with {other:?}"),
            }
        });
        let began = Instant::now();
        let mut at = Instant::now();
        while began.elapsed() < Duration::from_secs(QUERY_SECONDS + 1) {
            guest.feed_columns("trade", &NAMES, |w| columns(w, ROWS_AT_ONCE), *index);
            *index += 1;
            at += EVERY;
            std::thread::sleep(at.saturating_duration_since(Instant::now()));
        }
        query.join().expect("the query's thread");
        done.store(true, Ordering::Relaxed);
        poller.join().expect("the poller")
    })
}

fn main() {
    let rows: u64 = std::env::args().skip(1).find_map(|argument| argument.parse().ok()).unwrap_or(5_000_000);
    let door = Door::open_with(tables);
    let address = format!("127.0.0.1:{}", door.port());
    let limit = QUERY_SECONDS.to_string();
    let arguments = ["rdb", &address, "-p", "0", "--memory", "4GiB", "-T", &limit, "--query-threads", "2"];
    let mut node = harness::Process::start(&mut harness::elastick(&arguments));
    let mut guest = door.accept();
    guest.join(9821, 0, false);
    let port = node.number_after("listening on");
    guest.make_live(0, 0, 9821, None);
    guest.call(".u.asg.from");
    let mut index = 0;
    while index * 10_000 < rows {
        guest.feed_columns("trade", &NAMES, |w| columns(w, 10_000), index);
        index += 1;
    }
    let mut client = connect(port);
    while next(&mut client) < index as i64 {}
    println!("{rows} rows, then {ROWS_AT_ONCE} rows every {EVERY:?}; query: {QUERY}");
    for with_query in [false, true] {
        let (longest, mean) = feed(&mut guest, &mut index, port, with_query);
        let what = if with_query { "while a query runs for 10 s" } else { "without a query" };
        println!("longest time without progress, {what}: {longest:?} (mean between steps {mean:?})");
    }
}
