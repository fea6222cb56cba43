//! `log slice`, `log join`, `log repair` and `log index`: the actions that write files.

use super::Job;
use super::report::DamageDocument;
use crate::cli::error::CliError;
use crate::cli::json;
use crate::cli::progress::Progress;
use crate::config::{ChangedBlocks, options};
use crate::log::{self, Copied, DamagedRange, FaultKind, SliceError, repair as mend};
use serde::Serialize;
use std::borrow::Cow;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::ops::Range;
use std::path::Path;

/// A repaired log, as `--json` prints it.
#[derive(Serialize)]
struct RepairDocument<'a> {
    path: Cow<'a, str>,
    records: u64,
    bytes: u64,
    lost: Vec<DamageDocument>,
    changed_blocks: Vec<DamageDocument>,
    changed_blocks_are: &'static str,
    torn_bytes: u64,
    has_checksums: bool,
    original: Cow<'a, str>,
}

/// A new side file, as `--json` prints it.
#[derive(Serialize)]
struct IndexDocument<'a> {
    path: Cow<'a, str>,
    blocks: u64,
    records: u64,
    damage: Vec<DamageDocument>,
}

/// Copies a range of updates, optionally of some tables, to a new log or to standard output.
pub fn slice(job: &Job) -> Result<(), CliError> {
    let path = job.one_file()?;
    let tables = job.tables()?;
    let out = job.settings.get(&options::OUT)?;
    let mut reader = job.reader(path)?;
    let window = job.window(&mut reader)?;
    job.warn_of_damage(path, window.clone())?;
    write_to(job, &out, |to| log::slice(&mut reader, window, &tables, job.chunk_bytes, to))
}

/// Writes the updates of several logs to a new one.
pub fn join(job: &Job) -> Result<(), CliError> {
    for path in &job.files {
        job.warn_of_damage(path, 0..u64::MAX)?;
    }
    let mut readers = job.files.iter().map(|path| job.reader(path)).collect::<Result<Vec<_>, _>>()?;
    // Before a file is created.
    log::different(&readers).map_err(failed)?;
    let out = job.settings.get(&options::OUT)?;
    write_to(job, &out, |to| log::join(&mut readers, job.chunk_bytes, to))
}

fn failed(error: SliceError) -> CliError {
    match error {
        SliceError::Output(error) => CliError::Output(error),
        error => CliError::failed(error),
    }
}

/// Writes a log to standard output (`-`), or to a file that must not exist, and prints its number of records.
///
/// # Errors
/// Also, with the new log in place, if a log ended in an unfinished record and nobody has allowed that.
fn write_to(
    job: &Job,
    out: &Path,
    write: impl FnOnce(&mut dyn Write) -> Result<Copied, SliceError>,
) -> Result<(), CliError> {
    let copied = if out.as_os_str() == "-" {
        write(&mut BufWriter::new(io::stdout().lock())).map_err(failed)?
    } else {
        let file = File::create_new(out).map_err(|error| CliError::Failed(format!("{}: {error}", out.display())))?;
        let copied = write(&mut BufWriter::with_capacity(1 << 20, &file)).map_err(failed)?;
        file.sync_all()?;
        eprintln!("{}: {} records", out.display(), copied.updates);
        copied
    };
    for (path, Range { start, end }) in &copied.unfinished {
        let bytes = end.saturating_sub(*start);
        eprintln!(
            "{}: LEFT OUT: unfinished record at the end: {bytes} bytes at byte {start} (torn, or being written now)",
            path.display()
        );
    }
    if copied.unfinished.is_empty() || job.settings.is_on(&options::ALLOW_TORN)? {
        return Ok(());
    }
    Err(CliError::Failed(format!(
        "what {} has is whole, but a log is incomplete (--allow-torn accepts that)",
        named(out)
    )))
}

/// Names the place of a new log.
fn named(out: &Path) -> String {
    if out.as_os_str() == "-" { "standard output".to_string() } else { out.display().to_string() }
}

/// Rewrites a damaged log without its unreadable parts, to another file or in place; a log with only a torn end is truncated.
pub fn repair(job: &Job) -> Result<(), CliError> {
    let path = job.one_file()?;
    let mut progress = Progress::new(path.display().to_string());
    let found = log::survey(path, job.limits, job.chunk_bytes, true, &mut |done, total| progress.at(done, total))
        .map_err(CliError::failed)?;
    drop(progress);
    let in_place = job.settings.is_on(&options::IN_PLACE)?;
    let changed_blocks = job.settings.get(&options::CHANGED_BLOCKS)?;
    let out = job.settings.find(&options::OUT)?;
    if let Some(out) = out {
        let done = mend::rewrite(path, &out, job.limits, changed_blocks).map_err(CliError::failed)?;
        return report(job, &out, &done);
    }
    let in_the_middle = |damage: &&DamagedRange| match damage.fault.kind {
        // Already marked.
        FaultKind::Unconfirmed => changed_blocks == ChangedBlocks::Cut,
        _ => true,
    };
    let to_mend: Vec<_> = found.damage.iter().filter(in_the_middle).collect();
    match (to_mend.is_empty(), found.torn) {
        (true, None) => {
            let state = if found.is_whole() { "whole, " } else { "" };
            println!("{}: {state}nothing to repair", path.display());
            found.damage.iter().for_each(|damage| println!("  DAMAGED: {damage}"));
            Ok(())
        }
        (true, Some((offset, bytes))) => {
            mend::cut_tail(path, offset).map_err(CliError::failed)?;
            println!("{}: cut off {bytes} bytes of an unfinished record at byte {offset}", path.display());
            println!("  {} updates are left", found.updates());
            Ok(())
        }
        (false, _) if in_place => {
            let done = mend::replace(path, job.limits, changed_blocks).map_err(CliError::failed)?;
            report(job, path, &done)
        }
        (false, _) => {
            for damage in to_mend {
                eprintln!("{}: {damage}", path.display());
            }
            Err(CliError::Usage(
                "the log is damaged in the middle: write the readable part with --out FILE, or use --in-place. \
                 Blocks whose checksums differ are kept and marked; --changed-blocks cut drops them"
                    .to_string(),
            ))
        }
    }
}

fn report(job: &Job, new: &Path, done: &mend::Repaired) -> Result<(), CliError> {
    let mut out = io::stdout().lock();
    if job.json()? {
        let report = RepairDocument {
            path: new.to_string_lossy(),
            records: done.updates,
            bytes: done.bytes,
            lost: DamageDocument::all(&done.damage),
            changed_blocks: DamageDocument::all(&done.blocks),
            changed_blocks_are: match done.changed_blocks {
                ChangedBlocks::Keep => "kept, marked as damaged",
                ChangedBlocks::Cut => "left out",
            },
            torn_bytes: done.torn_bytes,
            has_checksums: done.has_checksums,
            original: done.original.to_string_lossy(),
        };
        return Ok(json::print(&mut out, &report)?);
    }
    writeln!(out, "{}: {} records, {} bytes", new.display(), done.updates, done.bytes)?;
    for damage in &done.damage {
        writeln!(out, "  lost: {damage}")?;
    }
    for damage in &done.blocks {
        match done.changed_blocks {
            ChangedBlocks::Keep => writeln!(out, "  kept, marked as damaged: {damage}")?,
            ChangedBlocks::Cut => writeln!(out, "  left out: {damage}")?,
        }
    }
    if done.torn_bytes > 0 {
        writeln!(out, "  lost: {} bytes of an unfinished record at the end", done.torn_bytes)?;
    }
    if !done.has_checksums {
        writeln!(out, "  no readable side file: the values cannot be checked")?;
    }
    writeln!(out, "  the log as it was: {}", done.original.display())?;
    Ok(())
}

/// Rebuilds the side files of logs.
pub fn index(job: &Job) -> Result<(), CliError> {
    for path in &job.files {
        let mut progress = Progress::new(path.display().to_string());
        let log::Rebuilt { blocks, updates: records, damage } =
            log::rebuild(path, job.limits, job.chunk_bytes, &mut |done, total| progress.at(done, total))
                .map_err(CliError::failed)?;
        drop(progress);
        if job.json()? {
            let damage = DamageDocument::all(&damage);
            let report = IndexDocument { path: path.to_string_lossy(), blocks, records, damage };
            json::print(&mut io::stdout().lock(), &report)?;
        } else {
            println!("{}: {blocks} blocks, {records} records", log::side_path(path).display());
            damage.iter().for_each(|damage| println!("  marked as damaged: {damage}"));
        }
    }
    Ok(())
}
