//! The tickerplant's core and the node's intake: what one update costs on the publish path, without sockets or disks.
//!
//!     cargo bench --bench core [-- ROUNDS]
//!
//! Prints nanoseconds an update (best and median of the rounds); asserts nothing.

use elastick::rdb::update::update;
use elastick::table::schema::ColumnSchema;
use elastick::table::store::Store;
use elastick::table::vector::Attr;
use elastick::table::{Schema, symbol};
use elastick::tick::core::{Batch, Rules, Stamp, Tables, call, publish};
use elastick::tick::filter::{Filter, Symbols};
use proto::{Limits, Writer, types};
use std::hint::black_box;
use std::time::Instant;

const UPDATES: usize = 20_000;

fn schema() -> Schema {
    let sym = |text: &str| symbol::intern(text.as_bytes()).expect("room");
    let columns = [("time", 16), ("sym", 11), ("price", 9), ("size", 7), ("side", 10)];
    let columns = columns.map(|(name, ty)| ColumnSchema { name: sym(name), ty, attr: Attr::None });
    Schema { name: sym("trade"), columns: columns.to_vec(), keys: 0 }
}

/// A publisher's call: one row of atoms, or columns of `rows`.
fn body(rows: usize) -> Vec<u8> {
    let mut out = Vec::new();
    let mut w = Writer::new(&mut out);
    w.list_head(3);
    w.symbol(".u.upd");
    w.symbol("trade");
    w.list_head(4);
    if rows == 1 {
        w.symbol("SYM1");
        w.atom_float(100.5);
        w.atom_long(7);
        w.atom_char(b'B');
    } else {
        w.symbols((0..rows).map(|row| format!("SYM{}", row % 50)).collect::<Vec<_>>());
        w.vector(types::FLOAT, 0, &vec![100.5; rows]);
        w.vector(types::LONG, 0, &vec![7i64; rows]);
        w.vector(types::CHAR, 0, &vec![b'B'; rows]);
    }
    w.finish().expect("encodes");
    out
}

/// Times a step `rounds` times; the step does [`UPDATES`] updates.
fn time(what: &str, rounds: usize, mut step: impl FnMut()) {
    let mut taken: Vec<f64> = (0..rounds)
        .map(|_| {
            let began = Instant::now();
            step();
            began.elapsed().as_nanos() as f64 / UPDATES as f64
        })
        .collect();
    taken.sort_by(f64::total_cmp);
    let (best, median) = (taken.first().copied().unwrap_or(0.0), taken.get(rounds / 2).copied().unwrap_or(0.0));
    println!("{what:<28} best {best:>9.1} ns  median {median:>9.1} ns");
}

fn main() {
    let rounds = std::env::args().skip(1).find_map(|argument| argument.parse().ok()).unwrap_or(100);
    let (limits, stamp) = (Limits::default(), Stamp { timestamp_ns: 846_000_000_123_456_789 });
    let tables = Tables::new([schema()]).expect("time and sym come first");
    let filter = Filter::new(&Symbols::Some([b"SYM1".to_vec(), b"SYM2".to_vec()].into()));
    for rows in [1, 10, 100] {
        let body = body(rows);
        let mut batch = Batch::new(0);
        time(&format!("publish, rows {rows}"), rounds, || {
            batch.start_over();
            for _ in 0..UPDATES {
                let call = call::recognise(black_box(&body)).expect("a call");
                publish(&tables, &call, stamp, Rules::exact(&limits), &mut batch).expect("accepted");
            }
            black_box(batch.bytes().len());
        });
        let record = batch.updates().first().map(|first| batch.bytes()[..first.end].to_vec()).expect("one update");
        let (spec, first) = (tables.get(0).expect("trade"), batch.updates()[0]);
        let columns = batch.columns(&first).to_vec();
        let mut out = Vec::new();
        time(&format!("filter, rows {rows}"), rounds, || {
            for _ in 0..UPDATES {
                out.clear();
                black_box(filter.select(spec, black_box(&columns), rows, &mut out));
            }
        });
        time(&format!("recognise, rows {rows}"), rounds, || {
            for _ in 0..UPDATES {
                black_box(update(black_box(&record)).expect("an update"));
            }
        });
        let mut store = Store::new(4 << 30);
        store.define([schema()]).expect("address space");
        time(&format!("append, rows {rows}"), rounds, || {
            store.clear().expect("address space");
            for _ in 0..UPDATES {
                store.append(0, 5, black_box(&columns)).expect("taken");
            }
        });
    }
}
