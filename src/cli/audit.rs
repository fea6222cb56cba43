//! `elastick audit`: shows records of audit logs, and checks that none is damaged or missing.

use super::{CliError, command_for, settings_of};
use crate::config::{Program, Settings, options};
use clap::{Arg, ArgMatches, Command};
use serde::Deserialize;
use std::collections::HashMap;
use std::fs::File;
use std::io::{self, BufRead, BufReader, BufWriter, Read, Write};
use std::path::PathBuf;

/// Longest line that is read; a record is shorter.
const MAX_LINE_BYTES: u64 = 16 << 20;
/// Reports of damage that are printed.
const MAX_REPORTS: usize = 20;

/// The fields that are shown, filtered and checked.
#[derive(Deserialize)]
struct Record {
    n: u64,
    time: String,
    process: String,
    #[serde(default)]
    user: Option<String>,
    #[serde(default)]
    address: Option<String>,
    #[serde(default)]
    handle: Option<i32>,
    call: String,
    #[serde(default)]
    text: Option<String>,
    #[serde(default)]
    sha256: Option<String>,
    #[serde(default)]
    tables: Vec<String>,
    #[serde(default)]
    rows: Option<u64>,
    #[serde(default)]
    duration_ns: Option<u64>,
    #[serde(default)]
    missing: Option<u64>,
    outcome: String,
}

pub fn command() -> Command {
    let files = Arg::new("files")
        .value_name("FILE")
        .help("Audit log; give rotated files before the current one")
        .required(true)
        .num_args(1..)
        .value_parser(clap::value_parser!(PathBuf));
    command_for(Program::Audit).about("Show records of audit logs, and check that none is damaged or missing").arg(files).after_help(
        "Examples:\n  elastick audit audit.2026* audit\n  elastick audit audit --user ann --outcome failed\n  elastick audit audit --call query \
         --since 2026-11-24T09:00 --until 2026-11-24T10:00 --json\n\nThe whole of each file is checked, whatever is shown: the exit code is 1 \
         if a line is no record, or if a number is missing between two records of a process.",
    )
}

pub fn run(matches: &ArgMatches) -> Result<(), CliError> {
    let settings = settings_of(Program::Audit, matches)?;
    let filter = Filter::of(&settings)?;
    let is_json = settings.is_on(&options::JSON)?;
    let mut out = BufWriter::new(io::stdout().lock());
    let mut check = Check::default();
    if !is_json {
        writeln!(out, "{HEAD}")?;
    }
    for path in matches.get_many::<PathBuf>("files").into_iter().flatten() {
        let wrong = |error: io::Error| CliError::Failed(format!("{}: {error}", path.display()));
        let mut lines = BufReader::new(File::open(path).map_err(wrong)?);
        let mut line = Vec::new();
        for number in 1_u64.. {
            line.clear();
            let read = lines.by_ref().take(MAX_LINE_BYTES).read_until(b'\n', &mut line).map_err(wrong)?;
            if read == 0 {
                break;
            }
            let Some(record) = check.record(&line, &format!("{}:{number}", path.display())) else { continue };
            match is_json {
                _ if !filter.admits(&record) => {}
                true => out.write_all(&line)?,
                false => writeln!(out, "{}", shown(&record))?,
            }
        }
    }
    out.flush()?;
    check.result()
}

/// Which records are shown.
struct Filter {
    user: Option<String>,
    call: Option<String>,
    outcome: Option<String>,
    since: Option<String>,
    until: Option<String>,
}

impl Filter {
    fn of(settings: &Settings) -> Result<Filter, CliError> {
        Ok(Filter {
            user: settings.find(&options::AUDIT_USER)?,
            call: settings.find(&options::AUDIT_CALL)?,
            outcome: settings.find(&options::AUDIT_OUTCOME)?,
            since: settings.find(&options::AUDIT_SINCE)?,
            until: settings.find(&options::AUDIT_UNTIL)?,
        })
    }

    fn admits(&self, record: &Record) -> bool {
        let is = |wanted: &Option<String>, value: &str| wanted.as_ref().is_none_or(|wanted| wanted == value);
        let outcome = match self.outcome.as_deref() {
            None => true,
            Some("failed") => record.outcome != "ok",
            Some("ok") => record.outcome == "ok",
            Some(text) => record.outcome.contains(text),
        };
        // Times have one length and form, so their texts are in the order of time.
        outcome
            && is(&self.user, record.user.as_deref().unwrap_or_default())
            && is(&self.call, &record.call)
            && self.since.as_ref().is_none_or(|since| record.time >= *since)
            && self.until.as_ref().is_none_or(|until| record.time < *until)
    }
}

/// Finds lines that are no records, and records that are missing.
#[derive(Default)]
struct Check {
    /// Number of the last record of each process.
    last: HashMap<String, u64>,
    wrong: u64,
    reports: Vec<String>,
    missing: u64,
}

impl Check {
    fn record(&mut self, line: &[u8], place: &str) -> Option<Record> {
        let record: Record = match serde_json::from_slice(line) {
            Ok(record) if line.ends_with(b"\n") => record,
            Ok(_) => return self.report(format!("{place}: the last line is not complete")),
            Err(error) => return self.report(format!("{place}: not a record: {error}")),
        };
        let before = self.last.insert(record.process.clone(), record.n);
        let is_next = before.is_none_or(|before| before.checked_add(1) == Some(record.n));
        let is_start = record.n == 1 && record.call == "start";
        if !is_next && !is_start {
            let before = before.unwrap_or_default();
            let process = record.process.escape_debug();
            let _: Option<()> =
                self.report(format!("{place}: record {} of {process} follows record {before}", record.n));
        }
        self.missing = self.missing.saturating_add(record.missing.unwrap_or_default());
        Some(record)
    }

    fn report<T>(&mut self, text: String) -> Option<T> {
        self.wrong = self.wrong.saturating_add(1);
        if self.reports.len() < MAX_REPORTS {
            self.reports.push(text);
        }
        None
    }

    fn result(self) -> Result<(), CliError> {
        if self.missing > 0 {
            eprintln!("{} records were dropped when they were to be written (--limit-audit-queue)", self.missing);
        }
        if self.wrong == 0 {
            return Ok(());
        }
        let more = self.wrong.saturating_sub(self.reports.len() as u64);
        let more = if more > 0 { format!("\nand {more} more") } else { String::new() };
        Err(CliError::Failed(format!("{}{more}", self.reports.join("\n"))))
    }
}

const HEAD: &str = "time                           user             address          handle call         rows       milliseconds outcome  what";

fn shown(record: &Record) -> String {
    // What a client has sent must not move the cursor of a terminal.
    let plain = |text: &str| text.escape_debug().to_string().replace("\\\"", "\"").replace("\\'", "'");
    let of = |text: &Option<String>| plain(text.as_deref().unwrap_or_default());
    let number = |value: Option<String>| value.unwrap_or_default();
    let what = [record.tables.join(","), record.text.clone().or(record.sha256.clone()).unwrap_or_default()];
    let what = what.iter().filter(|part| !part.is_empty()).map(|part| plain(part)).collect::<Vec<_>>().join(" ");
    format!(
        "{:30} {:16} {:16} {:>6} {:12} {:>10} {:>12} {:8} {what}",
        plain(&record.time),
        of(&record.user),
        of(&record.address),
        number(record.handle.map(|handle| handle.to_string())),
        plain(&record.call),
        number(record.rows.map(|rows| rows.to_string())),
        number(record.duration_ns.map(|ns| format!("{:.3}", ns as f64 / 1e6))),
        plain(&record.outcome),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(n: u64, call: &str) -> Vec<u8> {
        format!("{{\"n\":{n},\"time\":\"2026-11-24T10:00:00.000000000Z\",\"process\":\"tick\",\"call\":\"{call}\",\"outcome\":\"ok\"}}\n")
            .into_bytes()
    }

    fn wrong(lines: &[Vec<u8>]) -> Vec<String> {
        let mut check = Check::default();
        lines.iter().zip(1..).for_each(|(line, at)| drop(check.record(line, &at.to_string())));
        check.reports
    }

    #[test]
    fn a_missing_record_is_found_and_a_new_start_is_none() {
        let whole = [line(5, "query"), line(6, "stop"), line(1, "start"), line(2, "query")];
        assert!(wrong(&whole).is_empty());
        assert_eq!(wrong(&[line(5, "query"), line(7, "query")]), ["2: record 7 of tick follows record 5"]);
        assert_eq!(wrong(&[line(5, "query"), line(1, "query")]).len(), 1, "a number only begins again with a start");
    }

    #[test]
    fn a_line_that_is_no_record_is_found() {
        let torn = line(1, "start").get(..20).expect("longer").to_vec();
        let unfinished = line(2, "query").strip_suffix(b"\n").expect("a line").to_vec();
        assert_eq!(wrong(&[torn, line(2, "query"), unfinished]).len(), 2);
    }

    #[test]
    fn what_is_shown_obeys_no_escape() {
        let mut check = Check::default();
        let mut record = check.record(&line(1, "query"), "1").expect("a record");
        record.text = Some("a \"b\"\u{1b}[2J\n".to_string());
        assert!(shown(&record).ends_with("a \"b\"\\u{1b}[2J\\n"));
    }
}
