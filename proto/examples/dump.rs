//! Prints the records of a tickerplant log: `cargo run --example dump -- sym2026.11.21`.

use std::io::{self, Write};

use elastick_proto::{Limits, log, types};

fn main() -> io::Result<()> {
    let Some(path) = std::env::args().nth(1) else {
        return Err(io::Error::other("usage: dump LOG"));
    };
    let bytes = std::fs::read(path)?;
    if !log::is_log_head(&bytes) {
        return Err(io::Error::other("not a tickerplant log"));
    }
    let mut out = io::stdout().lock();
    let mut at = log::FILE_HEAD.len();
    loop {
        match log::next_record(bytes.get(at..).unwrap_or_default(), &Limits::default()) {
            Ok(None) => return Ok(()),
            Ok(Some((used, view))) => {
                match log::record(view) {
                    Some(update) => {
                        let (table, data) = (update.table.escape_ascii(), update.columns);
                        writeln!(out, "{at}: {table} {} of {}", types::name(data.type_code()), data.count())?;
                    }
                    None => writeln!(out, "{at}: {:?}", view.to_value())?,
                }
                at += used;
            }
            Err(error) if error.is_incomplete() => {
                writeln!(out, "{at}: torn tail of {} bytes", bytes.len() - at)?;
                return Ok(());
            }
            Err(error) => return Err(io::Error::other(error.shifted(at as u64))),
        }
    }
}
