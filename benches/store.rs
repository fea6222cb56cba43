//! The store of a node: bytes a row, rows a second, what the index saves, and how long ingest stands still while a query
//! reads everything.
//!
//!     cargo bench --bench store [-- ROWS]
//!
//! Prints figures; asserts nothing.

use elastick::sys::memory::Sources;
use elastick::table::schema::ColumnSchema;
use elastick::table::store::Store;
use elastick::table::vector::Attr;
use elastick::table::{Items, Schema, Sym, Value, symbol};
use proto::{Writer, types};
use std::hint::black_box;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

const ROWS_AT_ONCE: usize = 100;
const SYMBOLS: usize = 5000;
const QUERY: Duration = Duration::from_secs(10);

fn sym(text: &str) -> Sym {
    symbol::intern(text.as_bytes()).expect("room")
}

fn trade() -> Schema {
    let column =
        |(name, ty)| ColumnSchema { name: sym(name), ty, attr: if name == "sym" { Attr::Grouped } else { Attr::None } };
    let columns = [("time", 16), ("sym", 11), ("price", 9), ("size", 7), ("side", 10), ("ex", 11)];
    Schema { name: sym("trade"), columns: columns.map(column).to_vec(), keys: 0 }
}

/// Column bytes of `rows` trades.
fn update(random: &mut fastrand::Rng, rows: usize) -> Vec<u8> {
    let mut out = Vec::new();
    let mut w = Writer::new(&mut out);
    w.vector(types::TIMESPAN, 0, &(0..rows).map(|_| random.i64(0..86_400_000_000_000)).collect::<Vec<_>>());
    w.symbols((0..rows).map(|_| format!("SYM{}", random.usize(0..SYMBOLS))).collect::<Vec<_>>());
    w.vector(types::FLOAT, 0, &(0..rows).map(|_| 100.0 * random.f64()).collect::<Vec<_>>());
    w.vector(types::LONG, 0, &(0..rows).map(|_| random.i64(1..1000)).collect::<Vec<_>>());
    w.vector(types::CHAR, 0, &(0..rows).map(|_| b"BS"[random.usize(0..2)]).collect::<Vec<_>>());
    w.symbols((0..rows).map(|_| ["N", "Q", "Z"][random.usize(0..3)]).collect::<Vec<_>>());
    w.finish().expect("encodes");
    out
}

fn fill(store: &mut Store, updates: &[Vec<u8>], rows: usize) -> Duration {
    let began = Instant::now();
    for update in updates.iter().cycle().take(rows / ROWS_AT_ONCE) {
        store.append(0, 6, update).expect("taken");
    }
    began.elapsed()
}

fn own_bytes() -> f64 {
    Sources::default().own_bytes().expect("figures") as f64
}

fn main() {
    let rows = std::env::args().skip(1).find_map(|argument| argument.parse().ok()).unwrap_or(20_000_000);
    let mut random = fastrand::Rng::with_seed(7);
    let updates: Vec<Vec<u8>> = (0..1000).map(|_| update(&mut random, ROWS_AT_ONCE)).collect();
    let singles: Vec<Vec<u8>> = (0..100_000).map(|_| update(&mut random, 1)).collect();
    let mut store = Store::new(4 << 30);
    store.define([trade()]).expect("address space");

    let before = own_bytes();
    let took = fill(&mut store, &updates, rows);
    let resident = own_bytes() - before;
    let usage = store.usage();
    let per_row = |bytes: f64| bytes / rows as f64;
    println!("rows                         {rows} of {} bytes, {ROWS_AT_ONCE} an update", trade().row_bytes());
    println!("columns, accounted           {:.2} bytes a row", per_row(usage.column_bytes as f64));
    println!("index, accounted             {:.2} bytes a row", per_row(usage.index_bytes as f64));
    println!("resident, columns and index  {:.2} bytes a row", per_row(resident));
    println!(
        "resident against width       {:.3} (index apart)",
        (resident - usage.index_bytes as f64) / (rows * trade().row_bytes()) as f64
    );
    println!("taken                        {:.1} million rows a second", rows as f64 / took.as_secs_f64() / 1e6);
    let began = Instant::now();
    for update in singles.iter().cycle().take(1_000_000) {
        store.append(0, 6, update).expect("taken");
    }
    println!("taken, one row an update     {:.2} million updates a second", 1.0 / began.elapsed().as_secs_f64());

    let shared = store.shared();
    let tables = shared.current();
    let table = tables.get(sym("trade")).expect("table");
    let Value::Table(snapshot) = table.snapshot(usize::MAX) else { return };
    let Some(Items::Sym(symbols)) = snapshot.columns.get(1).map(|c| c.items.clone()) else { return };
    let wanted = sym("SYM42");
    let began = Instant::now();
    let found = table.index_of(&symbols).map_or(0, |index| index.rows(&symbols, wanted).len());
    let by_index = began.elapsed();
    let began = Instant::now();
    let scanned = symbols.iter().filter(|symbol| **symbol == wanted).count();
    println!(
        "rows of one symbol           {found} by index in {by_index:?}, {scanned} by scan in {:?}",
        began.elapsed()
    );

    let (busy, idle) = (gaps(&mut store, &updates, true), gaps(&mut store, &updates, false));
    println!("longest time of one update   {busy:?} while a query reads for {QUERY:?}, {idle:?} without");

    drop((snapshot, symbols, tables));
    let began = Instant::now();
    store.clear().expect("address space");
    let cleared = began.elapsed();
    while own_bytes() - before > 0.02 * resident {
        std::thread::yield_now();
    }
    println!("cleared                      in {cleared:?}, memory given back after {:?}", began.elapsed());
}

/// The longest time between two updates taken in, at an even rate far below the most, with or without a query that reads all
/// rows over and over.
fn gaps(store: &mut Store, updates: &[Vec<u8>], with_query: bool) -> Duration {
    let done = AtomicBool::new(false);
    let shared = store.shared();
    std::thread::scope(|scope| {
        if with_query {
            scope.spawn(|| {
                while !done.load(Ordering::Relaxed) {
                    let tables = shared.current();
                    let Some(Value::Table(table)) = tables.get(sym("trade")).map(|t| t.snapshot(usize::MAX)) else {
                        return;
                    };
                    if let Some(Items::Float(prices)) = table.columns.get(2).map(|c| &c.items) {
                        black_box(prices.iter().sum::<f64>());
                    }
                }
            });
        }
        let (began, mut longest, mut last) = (Instant::now(), Duration::ZERO, Instant::now());
        for update in updates.iter().cycle() {
            if began.elapsed() >= QUERY {
                break;
            }
            let start = Instant::now();
            store.append(0, 6, update).expect("taken");
            longest = longest.max(start.elapsed());
            last += Duration::from_micros(200);
            while Instant::now() < last {
                std::hint::spin_loop();
            }
        }
        done.store(true, Ordering::Relaxed);
        longest
    })
}
