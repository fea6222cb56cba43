//! `log slice`, `log repair` and `log index`: the actions that write files.

use super::Job;
use super::report::DamageDocument;
use crate::cli::error::CliError;
use crate::cli::json;
use crate::cli::progress::Progress;
use crate::config::{ChangedBlocks, options};
use crate::env::Env;
use crate::log::{self, DamagedRange, FaultKind, LogReader, SliceError, repair as mend};
use serde::Serialize;
use std::borrow::Cow;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;

/// A repaired log, as `--json` prints it.
#[derive(Serialize)]
struct RepairDocument<'a> {
    path: Cow<'a, str>,
    updates: u64,
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
    updates: u64,
    damage: Vec<DamageDocument>,
}

/// Copies a range of updates, optionally of some tables, to a new log or to standard output.
pub fn slice(job: &Job) -> Result<(), CliError> {
    let path = job.one_file()?;
    let (window, tables) = (job.window()?, job.tables()?);
    let out = job.settings.get(&options::OUT)?;
    job.warn_of_damage(path, window.clone())?;
    let mut reader = LogReader::open(&Env::system(), path, job.limits, job.chunk_bytes).map_err(CliError::failed)?;
    let mut write = |to: &mut dyn Write| {
        log::slice(&mut reader, window.clone(), &tables, job.chunk_bytes, to).map_err(|error| match error {
            SliceError::Output(error) => CliError::Output(error),
            SliceError::Log(error) => CliError::failed(error),
        })
    };
    if out.as_os_str() == "-" {
        write(&mut BufWriter::new(io::stdout().lock()))?;
        return Ok(());
    }
    let file = File::create_new(&out).map_err(|error| CliError::Failed(format!("{}: {error}", out.display())))?;
    let updates = write(&mut BufWriter::with_capacity(1 << 20, &file))?;
    file.sync_all()?;
    eprintln!("{}: {updates} updates", out.display());
    Ok(())
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
        return say(job, &out, &done);
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
            println!("  {} updates are left", found.updates);
            Ok(())
        }
        (false, _) if in_place => {
            let done = mend::replace(path, job.limits, changed_blocks).map_err(CliError::failed)?;
            say(job, path, &done)
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

fn say(job: &Job, new: &Path, done: &mend::Repaired) -> Result<(), CliError> {
    let mut out = io::stdout().lock();
    if job.json()? {
        let report = RepairDocument {
            path: new.to_string_lossy(),
            updates: done.updates,
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
    writeln!(out, "{}: {} updates, {} bytes", new.display(), done.updates, done.bytes)?;
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
        let log::Rebuilt { blocks, updates, damage } =
            log::rebuild(path, job.limits, job.chunk_bytes, &mut |done, total| progress.at(done, total))
                .map_err(CliError::failed)?;
        drop(progress);
        if job.json()? {
            let damage = DamageDocument::all(&damage);
            let report = IndexDocument { path: path.to_string_lossy(), blocks, updates, damage };
            json::print(&mut io::stdout().lock(), &report)?;
        } else {
            println!("{}: {blocks} blocks, {updates} updates", log::side_path(path).display());
            damage.iter().for_each(|damage| println!("  marked as damaged: {damage}"));
        }
    }
    Ok(())
}
