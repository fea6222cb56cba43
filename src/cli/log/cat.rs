//! `log cat`: prints updates as q shows them, or as JSON.

use super::Job;
use crate::cli::error::CliError;
use crate::cli::json;
use crate::config::options;
use crate::env::Env;
use crate::log::{LogError, LogReader, columns_of, parts, show};
use proto::{Endian, View};
use serde::Serialize;
use std::borrow::Cow;
use std::io::{self, BufWriter, Write};
use std::ops::ControlFlow;
use std::time::Instant;

/// An update, as `--json` prints it.
#[derive(Serialize)]
struct UpdateDocument<'a> {
    index: u64,
    function: Cow<'a, str>,
    table: Cow<'a, str>,
    rows: u64,
    data: serde_json::Value,
}

/// A record that is no update of a table, as `--json` prints it.
#[derive(Serialize)]
struct MessageDocument {
    index: u64,
    message: serde_json::Value,
}

pub fn cat(job: &Job) -> Result<(), CliError> {
    let (window, tables, is_json) = (job.window()?, job.tables()?, job.json()?);
    let most_items = usize::try_from(job.settings.get(&options::ITEMS)?).unwrap_or(usize::MAX);
    let mut out = BufWriter::new(io::stdout().lock());
    for path in &job.files {
        job.warn_of_damage(path, window.clone())?;
        let mut reader =
            LogReader::open(&Env::system(), path, job.limits, job.chunk_bytes).map_err(CliError::failed)?;
        let mut written = Ok(());
        let read = reader.replay(window.clone(), job.chunk_bytes, Instant::now(), |chunk| {
            for (index, bytes) in chunk.iter() {
                let table = parts(bytes, &job.limits).map(|record| record.table);
                if !tables.is_empty() && !tables.iter().any(|selected| Some(selected.as_slice()) == table) {
                    continue;
                }
                written = print(&mut out, index, bytes, &job.limits, is_json, most_items);
                if written.is_err() {
                    return ControlFlow::Break(());
                }
            }
            ControlFlow::Continue(())
        });
        written?;
        match read {
            // The log ends before the window.
            Ok(_) | Err(LogError::NotReached { .. }) => {}
            Err(error) => {
                out.flush()?;
                return Err(CliError::failed(error));
            }
        }
    }
    Ok(out.flush()?)
}

fn print(
    out: &mut impl Write,
    index: u64,
    bytes: &[u8],
    limits: &proto::Limits,
    is_json: bool,
    most_items: usize,
) -> io::Result<()> {
    let text = |view: &View<'_>| {
        let mut out = String::new();
        show::text(view, most_items, &mut out);
        out
    };
    match (parts(bytes, limits), is_json) {
        (Some(record), true) => {
            let line = UpdateDocument {
                index,
                function: String::from_utf8_lossy(record.function),
                table: String::from_utf8_lossy(record.table),
                rows: columns_of(&record.columns).1,
                data: show::json(&record.columns),
            };
            json::print(out, &line)
        }
        (Some(record), false) => {
            let (function, table) = (String::from_utf8_lossy(record.function), String::from_utf8_lossy(record.table));
            let rows = columns_of(&record.columns).1;
            let rows = if rows == 1 { "1 row".to_string() } else { format!("{rows} rows") };
            write!(out, "{index} {function} {table} {rows}")?;
            match record.columns.list() {
                Some(columns) => columns.iter().try_for_each(|column| write!(out, " | {}", text(&column)))?,
                None => write!(out, " | {}", text(&record.columns))?,
            }
            writeln!(out)
        }
        (None, is_json) => {
            // Cannot fail: the reader returns validated records only.
            let Ok((view, _)) = View::parse(bytes, Endian::Little, limits) else { return Ok(()) };
            if is_json {
                json::print(out, &MessageDocument { index, message: show::json(&view) })
            } else {
                writeln!(out, "{index} {}", text(&view))
            }
        }
    }
}
