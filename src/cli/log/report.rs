//! `log info` and `log verify`.

use super::Job;
use crate::cli::error::CliError;
use crate::cli::json;
use crate::cli::progress::Progress;
use crate::log::{DamagedRange, SideState, Survey, survey};
use serde::Serialize;
use std::borrow::Cow;
use std::io::{BufWriter, Write};

/// Prints a summary of each log without a check of its checksums.
pub fn info(job: &Job) -> Result<(), CliError> {
    each(job, false).map(drop)
}

/// Prints a summary of each log with a check of its checksums; a log that is damaged or ends in an unfinished record is an error.
pub fn verify(job: &Job) -> Result<(), CliError> {
    match each(job, true)? {
        0 => Ok(()),
        1 => Err(CliError::Failed("one log is damaged or incomplete".to_string())),
        bad => Err(CliError::Failed(format!("{bad} logs are damaged or incomplete"))),
    }
}

/// Reports on every log and returns the number of those that are damaged or end in an unfinished record.
fn each(job: &Job, checksums: bool) -> Result<usize, CliError> {
    let is_json = job.json()?;
    let mut bad = 0;
    let mut out = BufWriter::new(std::io::stdout().lock());
    for path in &job.files {
        let mut progress = Progress::new(path.display().to_string());
        let survey = survey(path, job.limits, job.chunk_bytes, checksums, &mut |done, total| progress.at(done, total))
            .map_err(CliError::failed)?;
        drop(progress);
        bad += usize::from(!survey.is_whole());
        if is_json {
            json::print(&mut out, &LogDocument::from(&survey))?;
        } else {
            print(&mut out, &survey)?;
        }
        out.flush()?;
    }
    Ok(bad)
}

fn print(out: &mut impl Write, survey: &Survey) -> std::io::Result<()> {
    writeln!(out, "{}: {} updates, {} bytes", survey.path.display(), survey.updates, survey.bytes)?;
    if !survey.tables.is_empty() {
        let names = survey.tables.keys().map(|name| String::from_utf8_lossy(name));
        let width = names.map(|name| name.chars().count()).max().unwrap_or_default().max(5);
        writeln!(out, "  {:width$} {:>12} {:>14} {:>16}  first .. last", "table", "updates", "rows", "bytes")?;
        for (name, table) in &survey.tables {
            let name = String::from_utf8_lossy(name);
            let (updates, rows, bytes) = (table.updates, table.rows, table.bytes);
            writeln!(out, "  {name:width$} {updates:>12} {rows:>14} {bytes:>16}  {} .. {}", table.first, table.last)?;
        }
    }
    if survey.other_messages > 0 {
        writeln!(out, "  messages other than updates: {}", survey.other_messages)?;
    }
    match &survey.side {
        SideState::Missing => writeln!(out, "  side file: none")?,
        SideState::Foreign => writeln!(out, "  side file: cannot be used; `elastick log index` makes a new one")?,
        SideState::Covers { blocks, updates, checked } => {
            let checked = if *checked { ", checksums compared" } else { "" };
            writeln!(out, "  side file: {blocks} blocks, up to update {updates}{checked}")?;
            if *updates > survey.updates {
                writeln!(
                    out,
                    "  updates that were logged after the end and are missing: {}",
                    updates - survey.updates
                )?;
            }
        }
    }
    for damage in &survey.damage {
        writeln!(out, "  DAMAGED: {damage}")?;
    }
    if let Some((offset, bytes)) = survey.torn {
        writeln!(out, "  unfinished record at the end: {bytes} bytes at byte {offset} (torn, or being written now)")?;
    }
    if survey.is_whole() {
        match survey.side {
            SideState::Covers { checked: false, .. } => {
                writeln!(out, "  whole, checksums not compared: `elastick log verify` compares them")?;
            }
            SideState::Covers { updates, .. } if updates < survey.updates => {
                writeln!(out, "  whole up to update {updates}; readable after that, without checksums to compare")?;
            }
            SideState::Covers { .. } => writeln!(out, "  whole")?,
            SideState::Missing | SideState::Foreign => {
                writeln!(out, "  whole, but without checksums to compare the values with")?;
            }
        }
    }
    Ok(())
}

/// A log, as `--json` prints it.
#[derive(Serialize)]
struct LogDocument<'a> {
    path: Cow<'a, str>,
    whole: bool,
    updates: u64,
    bytes: u64,
    tables: Vec<TableDocument<'a>>,
    other_messages: u64,
    side: SideDocument,
    damage: Vec<DamageDocument>,
    torn: Option<TornDocument>,
}

#[derive(Serialize)]
struct TableDocument<'a> {
    table: Cow<'a, str>,
    updates: u64,
    rows: u64,
    bytes: u64,
    first: &'a str,
    last: &'a str,
}

#[derive(Serialize)]
#[serde(rename_all = "lowercase")]
enum SideDocument {
    Missing,
    Unusable,
    #[serde(untagged)]
    Covers {
        blocks: u64,
        updates: u64,
        checksums_compared: bool,
    },
}

#[derive(Serialize)]
struct TornDocument {
    offset: u64,
    bytes: u64,
}

impl<'a> From<&'a Survey> for LogDocument<'a> {
    fn from(survey: &'a Survey) -> Self {
        let tables = survey.tables.iter().map(|(name, table)| TableDocument {
            table: String::from_utf8_lossy(name),
            updates: table.updates,
            rows: table.rows,
            bytes: table.bytes,
            first: &table.first,
            last: &table.last,
        });
        LogDocument {
            path: survey.path.to_string_lossy(),
            whole: survey.is_whole(),
            updates: survey.updates,
            bytes: survey.bytes,
            tables: tables.collect(),
            other_messages: survey.other_messages,
            side: match survey.side {
                SideState::Missing => SideDocument::Missing,
                SideState::Foreign => SideDocument::Unusable,
                SideState::Covers { blocks, updates, checked } => {
                    SideDocument::Covers { blocks, updates, checksums_compared: checked }
                }
            },
            damage: DamageDocument::all(&survey.damage),
            torn: survey.torn.map(|(offset, bytes)| TornDocument { offset, bytes }),
        }
    }
}

/// A damaged range, as `--json` prints it.
#[derive(Serialize)]
pub struct DamageDocument {
    first_byte: u64,
    last_byte: u64,
    first_index: u64,
    last_index: Option<u64>,
    reason: String,
    at_byte: u64,
}

impl DamageDocument {
    pub fn all(damage: &[DamagedRange]) -> Vec<DamageDocument> {
        let document = |damage: &DamagedRange| DamageDocument {
            first_byte: damage.first_byte,
            last_byte: damage.last_byte,
            first_index: damage.first_index,
            last_index: damage.last_index,
            reason: damage.fault.kind.to_string(),
            at_byte: damage.first_byte.saturating_add(damage.fault.offset_bytes),
        };
        damage.iter().map(document).collect()
    }
}
