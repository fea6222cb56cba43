//! `log info` and `log verify`.

use super::Job;
use super::directory::{self, today};
use crate::cli::error::CliError;
use crate::cli::json;
use crate::cli::progress::Progress;
use crate::env::SystemDisk;
use crate::log::days::{DayState, days};
use crate::log::{DamagedRange, SideState, Survey, date_of, survey};
use serde::Serialize;
use std::borrow::Cow;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

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
        if path.is_dir() && !checksums {
            directory::info(job, path, &mut out)?;
            out.flush()?;
            continue;
        }
        for path in &logs_at(path)? {
            let mut progress = Progress::new(path.display().to_string());
            let survey =
                survey(path, job.limits, job.chunk_bytes, checksums, &mut |done, total| progress.at(done, total))
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
    }
    Ok(bad)
}

/// Returns the logs of a directory, or the log itself.
fn logs_at(path: &Path) -> Result<Vec<PathBuf>, CliError> {
    if !path.is_dir() {
        return Ok(vec![path.to_path_buf()]);
    }
    let found = days(&SystemDisk, path, None).map_err(CliError::failed)?;
    let logs: Vec<PathBuf> =
        found.into_iter().filter(|day| day.state != DayState::Missing).map(|day| day.log).collect();
    match logs.is_empty() {
        true => Err(CliError::Failed(format!("{}: no logs there", path.display()))),
        false => Ok(logs),
    }
}

fn print(out: &mut impl Write, survey: &Survey) -> std::io::Result<()> {
    writeln!(out, "{}: {} updates, {} bytes", survey.path.display(), survey.updates(), survey.bytes)?;
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
    if date_of(&survey.path).is_some_and(|date| date > today()) {
        writeln!(
            out,
            "  the date is ahead of this machine's clock. Unless the day rolls before midnight, it began too early: \
             `elastick log join` makes one log of it and of the day before"
        )?;
    }
    if survey.other_records > 0 {
        let (others, records) = (survey.other_records, survey.records);
        writeln!(
            out,
            "  records other than updates: {others}, as the numbers of publishers; {records} records in all (-11!)"
        )?;
    }
    match &survey.side {
        SideState::Missing => writeln!(out, "  side file: none")?,
        SideState::Foreign => writeln!(out, "  side file: cannot be used; `elastick log index` makes a new one")?,
        SideState::Covers { blocks, records, checked } => {
            let checked = if *checked { ", checksums compared" } else { "" };
            writeln!(out, "  side file: {blocks} blocks, {records} records{checked}")?;
            if *records > survey.records {
                let missing = records - survey.records;
                // The scan leaves out the records of a damaged range: these may be the ones that are missing.
                match survey.damage.is_empty() {
                    true => writeln!(out, "  records that were logged after the end and are missing: {missing}")?,
                    false => {
                        writeln!(out, "  records that the side file counts and that cannot be read here: {missing}")?
                    }
                }
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
            SideState::Covers { records, .. } if records < survey.records => {
                writeln!(out, "  whole up to record {records}; readable after that, without checksums to compare")?;
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
    records: u64,
    bytes: u64,
    tables: Vec<TableDocument<'a>>,
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
        records: u64,
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
            updates: survey.updates(),
            records: survey.records,
            bytes: survey.bytes,
            tables: tables.collect(),
            side: match survey.side {
                SideState::Missing => SideDocument::Missing,
                SideState::Foreign => SideDocument::Unusable,
                SideState::Covers { blocks, records, checked } => {
                    SideDocument::Covers { blocks, records, checksums_compared: checked }
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::log::{Fault, FaultKind};

    fn printed(damage: Vec<DamagedRange>) -> String {
        let survey = Survey {
            path: "sym2026.11.20".into(),
            bytes: 900,
            records: 9,
            other_records: 0,
            tables: Default::default(),
            damage,
            torn: None,
            side: SideState::Covers { blocks: 1, records: 10, checked: true },
        };
        let mut out = Vec::new();
        print(&mut out, &survey).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn records_in_a_damaged_range_are_not_said_to_follow_the_end() {
        let fault = Fault { kind: FaultKind::Zeros, offset_bytes: 0 };
        let damage = DamagedRange { first_byte: 100, last_byte: 200, first_index: 1, last_index: Some(2), fault };
        let text = printed(vec![damage]);
        assert!(text.contains("cannot be read here: 1") && !text.contains("after the end"), "{text}");
        assert!(printed(Vec::new()).contains("logged after the end and are missing: 1"));
    }
}
