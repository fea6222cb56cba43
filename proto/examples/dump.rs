//! Prints the records of a tickerplant log: `cargo run --example dump -- sym2026.11.21`.

use std::io;

use elastick_proto::{Limits, log};

fn main() -> io::Result<()> {
    let Some(path) = std::env::args().nth(1) else {
        return Err(io::Error::other("usage: dump LOG"));
    };
    let bytes = std::fs::read(path)?;
    if !log::is_log_head(&bytes) {
        return Err(io::Error::other("not a tickerplant log"));
    }
    let mut at = log::FILE_HEAD.len();
    loop {
        match log::next_record(bytes.get(at..).unwrap_or_default(), &Limits::default()) {
            Ok(None) => return Ok(()),
            Ok(Some((used, view))) => {
                match log::record(view) {
                    Some(update) => {
                        println!("{at}: {} {} columns", update.table.escape_ascii(), update.columns.count())
                    }
                    None => println!("{at}: {:?}", view.to_value()),
                }
                at += used;
            }
            Err(error) if error.is_incomplete() => {
                println!("{at}: torn tail of {} bytes", bytes.len() - at);
                return Ok(());
            }
            Err(error) => return Err(io::Error::other(error.shifted(at as u64))),
        }
    }
}
