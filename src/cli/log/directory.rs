//! `log info` of a directory: the days that it holds.

use super::{Job, counted};
use crate::cli::error::CliError;
use crate::cli::json;
use crate::config::options;
use crate::env::SystemDisk;
use crate::log::days::{Day, days};
use crate::log::retention::{Fate, fates};
use jiff::civil::Date;
use serde::Serialize;
use std::io::Write;
use std::path::Path;

/// A day, as `--json` prints it.
#[derive(Serialize)]
struct DayDocument<'a> {
    src: &'a str,
    date: String,
    path: String,
    /// Updates and other records: the side file does not tell them apart.
    records: Option<u64>,
    bytes: u64,
    files: usize,
    whole: bool,
    state: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    kept: Option<String>,
}

/// Prints one line for each day of a directory.
pub fn info(job: &Job, dir: &Path, out: &mut impl Write) -> Result<(), CliError> {
    let found = days(&SystemDisk, dir, None).map_err(CliError::failed)?;
    let keep = job.settings.find(&options::KEEP_DAYS)?;
    let fates = keep.map(|keep| fates(&found, today(), keep, false));
    let kept = |at: usize| fates.as_ref().and_then(|fates| fates.get(at)).map(kept);
    if job.json()? {
        for (at, day) in found.iter().enumerate() {
            let document = DayDocument {
                src: &day.src,
                date: date(day),
                path: day.log.to_string_lossy().into_owned(),
                records: day.records,
                bytes: day.bytes(),
                files: day.files.len(),
                whole: day.state == crate::log::days::DayState::Whole,
                state: day.state.to_string(),
                kept: kept(at),
            };
            json::print(out, &document)?;
        }
        return Ok(());
    }
    let bytes = found.iter().fold(0_u64, |sum, day| sum.saturating_add(day.bytes()));
    writeln!(out, "{}: {}, {bytes} bytes", dir.display(), counted(found.len(), "day"))?;
    if found.is_empty() {
        return Ok(());
    }
    let width = found.iter().map(|day| day.src.chars().count()).max().unwrap_or_default().max(3);
    let title = if keep.is_some() { "kept until  " } else { "" };
    writeln!(
        out,
        "  {:width$} {:10} {:>12} {:>16} {:>5}  {title}by its side file",
        "src", "date", "records", "bytes", "files"
    )?;
    for (at, day) in found.iter().enumerate() {
        let records = day.records.map_or_else(String::new, |records| records.to_string());
        let kept = kept(at).map(|kept| format!("{kept:12}")).unwrap_or_default();
        let (src, date, bytes, files) = (&day.src, date(day), day.bytes(), day.files.len());
        writeln!(out, "  {src:width$} {date} {records:>12} {bytes:>16} {files:>5}  {kept}{}", day.state)?;
    }
    writeln!(out, "  the logs themselves were not read: `elastick log verify` reads them")?;
    Ok(())
}

/// The date of this machine's clock.
pub fn today() -> Date {
    jiff::Zoned::now().date()
}

fn date(day: &Day) -> String {
    day.date.strftime("%Y.%m.%d").to_string()
}

fn kept(fate: &Fate) -> String {
    match fate {
        Fate::Until(date) => date.strftime("%Y.%m.%d").to_string(),
        Fate::Newest => "newer days".to_string(),
        Fate::Held(_) => "forced".to_string(),
        Fate::Delete => "due".to_string(),
    }
}
