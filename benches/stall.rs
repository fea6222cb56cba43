//! How long a node's ingest stands still while a client's query runs for ten seconds: a node process, fed an update a millisecond
//! by a tickerplant that this program plays. What it has taken in is read off its page of metrics, which waits for no thread that
//! evaluates; beside it a client queries `.rdb.stats`.
//!
//!     cargo bench --bench stall [-- ROWS]
//!
//! Prints figures; asserts nothing. The longest time without progress is an upper bound: it has the page's own way to the node
//! and back in it, and the moment between two looks.

#[path = "../tests/it/harness.rs"]
#[allow(dead_code)]
mod harness;
#[path = "../tests/it/rdb_support.rs"]
#[allow(dead_code)]
mod rdb_support;

use elastick::config::Address;
use elastick::net::client::{Client, ClientError};
use proto::{Limits, Writer, types};
use rdb_support::{Door, Guest};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

const NAMES: [&str; 6] = ["time", "sym", "price", "size", "side", "ex"];
const ROWS_AT_ONCE: usize = 100;
const EVERY: Duration = Duration::from_millis(1);
const QUERY_SECONDS: u64 = 10;
/// Between two looks.
const LOOK: Duration = Duration::from_micros(500);
/// Each ends by its time limit.
const QUERIES: [(&str, Option<&str>); 4] = [
    ("no query", None),
    ("reads", Some("while[1b;exec size wavg price by sym from trade]")),
    ("peach over 2 threads", Some("while[1b;{exec size wavg price by sym from trade}peach 0 1]")),
    ("assigns", Some("while[1b;kept::exec size wavg price by sym from trade]")),
];

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

/// The page of metrics, again and again over one connection.
struct Page(BufReader<TcpStream>);

impl Page {
    fn open(port: u16) -> Page {
        let stream = TcpStream::connect(("127.0.0.1", port)).expect("connected");
        stream.set_nodelay(true).expect("a socket");
        Page(BufReader::new(stream))
    }

    /// Updates taken in.
    fn updates(&mut self) -> u64 {
        self.0.get_mut().write_all(b"GET /metrics HTTP/1.1\r\nHost: h\r\n\r\n").expect("sent");
        let (mut line, mut length) = (String::new(), 0);
        while line != "\r\n" {
            line.clear();
            self.0.read_line(&mut line).expect("a header");
            if let Some(value) = line.strip_prefix("Content-Length: ") {
                length = value.trim().parse().expect("a length");
            }
        }
        let mut body = vec![0; length];
        self.0.read_exact(&mut body).expect("a body");
        let body = String::from_utf8(body).expect("text");
        let value = body.lines().find_map(|line| line.strip_prefix("elastick_updates_total")).expect("the metric");
        value.rsplit(' ').next().and_then(|value| value.parse().ok()).expect("a number")
    }
}

/// Times of something, the longest and their mean.
#[derive(Default)]
struct Times {
    longest: Duration,
    total: Duration,
    count: u32,
}

impl Times {
    fn add(&mut self, time: Duration) {
        self.longest = self.longest.max(time);
        self.total += time;
        self.count += 1;
    }
}

impl std::fmt::Display for Times {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let ms = |time: Duration| time.as_secs_f64() * 1e3;
        write!(f, "longest {:.1} ms, mean {:.2} ms", ms(self.longest), ms(self.total / self.count.max(1)))
    }
}

/// Times between two moments at which more had been taken in.
fn watch(port: u16, done: &AtomicBool) -> Times {
    let (mut page, mut times) = (Page::open(port), Times::default());
    let begin = page.updates();
    // The first step is the feed's beginning.
    let mut seen = begin;
    while seen == begin && !done.load(Ordering::Relaxed) {
        seen = page.updates();
    }
    let mut since = Instant::now();
    while !done.load(Ordering::Relaxed) {
        let now = page.updates();
        if now != seen {
            times.add(since.elapsed());
            (seen, since) = (now, Instant::now());
        }
        std::thread::sleep(LOOK);
    }
    times
}

/// Times that a client waits for `.rdb.stats`.
fn ask(port: u16, done: &AtomicBool) -> Times {
    let (mut client, mut times) = (connect(port), Times::default());
    while !done.load(Ordering::Relaxed) {
        let asked = Instant::now();
        client.query(".rdb.stats").expect("answered");
        times.add(asked.elapsed());
        std::thread::sleep(LOOK * 10);
    }
    times
}

fn query(port: u16, text: &str) {
    match connect(port).query(text) {
        Err(ClientError::Server(name)) if name == b"stop" => {}
        other => println!("the query ended with {other:?}"),
    }
}

/// Feeds for as long as a query takes; times between steps of ingest, and of `.rdb.stats`.
fn feed(guest: &mut Guest, index: &mut u64, port: u16, text: Option<&'static str>) -> (Times, Times) {
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let watching = scope.spawn(|| watch(port, &done));
        let asking = scope.spawn(|| ask(port, &done));
        let querying = scope.spawn(move || text.into_iter().for_each(|text| query(port, text)));
        let began = Instant::now();
        let mut at = Instant::now();
        while began.elapsed() < Duration::from_secs(QUERY_SECONDS) {
            guest.feed_columns("trade", &NAMES, |w| columns(w, ROWS_AT_ONCE), *index);
            *index += 1;
            at += EVERY;
            std::thread::sleep(at.saturating_duration_since(Instant::now()));
        }
        done.store(true, Ordering::Relaxed);
        querying.join().expect("the query's thread");
        (watching.join().expect("the watcher"), asking.join().expect("the client"))
    })
}

fn main() {
    let rows: u64 = std::env::args().skip(1).find_map(|argument| argument.parse().ok()).unwrap_or(5_000_000);
    let door = Door::open_with(tables);
    let address = format!("127.0.0.1:{}", door.port());
    let limit = QUERY_SECONDS.to_string();
    let arguments = ["rdb", &address, "-p", "0", "--memory", "4GiB", "-T", &limit, "--query-threads", "2", "-s", "2"];
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
    let mut page = Page::open(port);
    while page.updates() < index {}
    println!("{rows} rows, then {ROWS_AT_ONCE} rows every {EVERY:?}");
    for (name, text) in QUERIES {
        let (steps, answers) = feed(&mut guest, &mut index, port, text);
        println!("{name:>20}: ingest {steps}; .rdb.stats {answers}");
    }
}
