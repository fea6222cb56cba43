//! `log cat`: prints updates as q shows them, or as JSON.

use super::Job;
use crate::cli::error::CliError;
use crate::cli::json;
use crate::config::{LogPosition, options};
use crate::log::{LogError, columns_of, parts, show};
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
    let (tables, is_json) = (job.tables()?, job.json()?);
    let most_items = usize::try_from(job.settings.get(&options::ITEMS)?).unwrap_or(usize::MAX);
    let mut out = BufWriter::new(io::stdout().lock());
    for path in &job.files {
        let mut reader = job.reader(path)?;
        let window = job.window(&mut reader)?;
        job.warn_of_damage(path, window.clone())?;
        let (mut written, mut is_empty, first) = (Ok(()), true, window.start);
        let read = reader.replay(window, job.chunk_bytes, Instant::now(), |chunk| {
            for (index, bytes) in chunk.iter() {
                is_empty = false;
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
        if is_empty && !is_whole(job)? {
            let updates = match (&read, job.settings.get(&options::FROM)?) {
                (Err(LogError::NotReached { have_index, .. }), _) => format!("; the log has {have_index} updates"),
                (_, LogPosition::Index(_)) => String::new(),
                _ => format!("; the log has {first} updates"),
            };
            out.flush()?;
            eprintln!("{}: no update is between --from and --to{updates}", path.display());
        }
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

/// Whether the whole log is requested, so that an empty log is no surprise.
fn is_whole(job: &Job) -> Result<bool, CliError> {
    let (from, to) = (job.settings.get(&options::FROM)?, job.settings.find(&options::TO)?);
    Ok(from == LogPosition::Index(0) && to.is_none())
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
