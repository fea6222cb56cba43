//! Loads the tables of `perf/rdb/gen_data.py` into a node, as a tickerplant would, and leaves it listening for clients such as
//! `run_queries.py`.
//!
//!     cargo bench --bench queries -- FOLDER [OPTION OF elastick rdb]…
//!
//! Prints the port and how long loading took; ends, with the node, at the end of its input.

#[path = "../tests/it/harness.rs"]
#[allow(dead_code)]
mod harness;
#[path = "../tests/it/rdb_support.rs"]
#[allow(dead_code)]
mod rdb_support;

use elastick::config::Address;
use elastick::net::client::Client;
use proto::{Limits, Value, Writer, types};
use rdb_support::{Door, Guest};
use std::fs::File;
use std::io::{BufReader, Read};
use std::path::Path;
use std::time::{Duration, Instant};

const ROWS_AT_ONCE: usize = 10_000;
const DATE: i32 = 9821;
const EXCHANGES: &[u8] = b"ABCDIJKMNPQZ";

/// What a column of a file becomes.
#[derive(Clone, Copy)]
enum As {
    Timespan,
    /// A number of two bytes is the place of a name.
    Symbol,
    Float,
    Long,
    /// A number of one byte is the place of a character.
    Char(&'static [u8]),
}

type Columns = &'static [(&'static str, As)];

const TRADE: Columns = &[
    ("time", As::Timespan),
    ("sym", As::Symbol),
    ("price", As::Float),
    ("size", As::Long),
    ("side", As::Char(b"BS")),
    ("ex", As::Char(EXCHANGES)),
];

const QUOTE: Columns = &[
    ("time", As::Timespan),
    ("sym", As::Symbol),
    ("bid", As::Float),
    ("ask", As::Float),
    ("bsize", As::Long),
    ("asize", As::Long),
];

fn empty_tables(w: &mut Writer<'_>) {
    w.list_head(2);
    for (name, columns) in [("trade", TRADE), ("quote", QUOTE)] {
        w.list_head(2);
        w.symbol(name);
        w.table_head(columns.iter().map(|(name, _)| *name));
        for (_, kind) in columns {
            put(w, *kind, &[], &[]);
        }
    }
}

/// Little-endian items of a file as a column.
fn put(w: &mut Writer<'_>, kind: As, items: &[u8], names: &[String]) {
    match kind {
        As::Timespan | As::Long => {
            let longs: Vec<i64> = items.as_chunks().0.iter().map(|item| i64::from_le_bytes(*item)).collect();
            let number = if matches!(kind, As::Long) { types::LONG } else { types::TIMESPAN };
            w.vector(number, types::ATTR_NONE, &longs);
        }
        As::Float => {
            let floats: Vec<f64> = items.as_chunks().0.iter().map(|item| f64::from_le_bytes(*item)).collect();
            w.vector(types::FLOAT, types::ATTR_NONE, &floats);
        }
        As::Symbol => {
            let places = items.as_chunks().0;
            w.vector_head(types::SYMBOL, types::ATTR_GROUPED, places.len());
            places.iter().for_each(|place| w.symbol_item(&names[usize::from(u16::from_le_bytes(*place))]));
        }
        As::Char(characters) => {
            let text: Vec<u8> = items.iter().map(|place| characters[usize::from(*place)]).collect();
            w.vector(types::CHAR, types::ATTR_NONE, &text);
        }
    }
}

/// The items of a `.npy` file, its head read.
fn open(path: &Path) -> BufReader<File> {
    let mut file = BufReader::new(File::open(path).unwrap_or_else(|error| panic!("{}: {error}", path.display())));
    let mut head = [0; 10];
    file.read_exact(&mut head).expect("a head");
    assert!(head.starts_with(b"\x93NUMPY\x01"), "{} is no .npy file of version 1", path.display());
    let mut rest = vec![0; usize::from(u16::from_le_bytes([head[8], head[9]]))];
    file.read_exact(&mut rest).expect("a head");
    file
}

fn load(guest: &mut Guest, folder: &Path, table: &str, columns: Columns, names: &[String], index: &mut u64) {
    let width = |kind: As| match kind {
        As::Symbol => 2,
        As::Char(_) => 1,
        _ => 8,
    };
    let mut files: Vec<BufReader<File>> =
        columns.iter().map(|(column, _)| open(&folder.join(format!("{table}.{column}.npy")))).collect();
    let headings: Vec<&str> = columns.iter().map(|(column, _)| *column).collect();
    loop {
        let mut parts: Vec<Vec<u8>> = Vec::new();
        for (file, (_, kind)) in files.iter_mut().zip(columns) {
            let mut items = Vec::new();
            file.take((ROWS_AT_ONCE * width(*kind)) as u64).read_to_end(&mut items).expect("items");
            parts.push(items);
        }
        if parts[0].is_empty() {
            return;
        }
        let put_all = |w: &mut Writer<'_>| {
            for (items, (_, kind)) in parts.iter().zip(columns) {
                put(w, *kind, items, names);
            }
        };
        guest.feed_columns(table, &headings, put_all, *index);
        *index += 1;
    }
}

fn main() {
    let mut arguments = std::env::args().skip(1).filter(|argument| argument != "--bench");
    let folder = arguments.next().expect("the folder that gen_data.py made");
    let folder = Path::new(&folder);
    let meta = std::fs::read(folder.join("meta.json")).expect("meta.json");
    let meta: serde_json::Value = serde_json::from_slice(&meta).expect("meta.json is JSON");
    let names = meta["names"].as_array().expect("names").iter();
    let names: Vec<String> = names.map(|name| name.as_str().expect("a name").to_string()).collect();
    let door = Door::open_with(empty_tables);
    let address = format!("127.0.0.1:{}", door.port());
    let mut options: Vec<String> = ["rdb", &address, "-p", "0", "--memory", "12GiB"].map(String::from).to_vec();
    options.extend(arguments);
    let options: Vec<&str> = options.iter().map(String::as_str).collect();
    let mut node = harness::Process::start(&mut harness::elastick(&options));
    let mut guest = door.accept();
    guest.join(DATE, 0, false);
    let port = node.number_after("listening on");
    guest.make_live(0, 0, DATE, None);
    guest.call(".u.asg.from");
    let began = Instant::now();
    let mut index = 0;
    load(&mut guest, folder, "trade", TRADE, &names, &mut index);
    load(&mut guest, folder, "quote", QUOTE, &names, &mut index);
    let address: Address = format!("127.0.0.1:{port}").parse().expect("an address");
    let mut client = Client::connect(&address, Duration::from_secs(30), Limits::default()).expect("connected");
    while client.query("max .rdb.windows`lastI").expect("an answer") != Value::Long(index as i64) {
        std::thread::sleep(Duration::from_millis(20));
    }
    let rows = client.query("count each (trade;quote)").expect("an answer");
    println!("process {} listening on {port}: {rows:?} rows loaded in {:?}", node.id(), began.elapsed());
    std::io::copy(&mut std::io::stdin(), &mut std::io::sink()).expect("readable input");
}
