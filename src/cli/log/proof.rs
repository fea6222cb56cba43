//! `log proof`: prints the proof that a node with this window of the log must return from `.rdb.windows`.

use super::Job;
use super::report::DamageDocument;
use crate::cli::error::CliError;
use crate::cli::json;
use crate::log::{DamagedRange, Keep, LogError, Proof, damaged_in, survey, window_proof};
use serde::Serialize;
use std::io::Write;
use std::time::Instant;

/// Prints the proof of each log's window.
pub fn proof(job: &Job) -> Result<(), CliError> {
    let (tables, is_json) = (job.tables()?, job.json()?);
    let mut out = std::io::stdout().lock();
    for path in &job.files {
        let mut reader = job.reader(path)?;
        let window = job.window(&mut reader)?;
        // An end that is given needs no scan of the log.
        let last = match window.end {
            u64::MAX => {
                survey(path, job.limits, job.chunk_bytes, false, &mut |_, _| {}).map_err(CliError::failed)?.records
            }
            last => last,
        };
        if window.start > last {
            return Err(CliError::Usage(format!(
                "the log has {last} records, so it ends before index {}",
                window.start
            )));
        }
        let window = window.start..last;
        let is_selected = |table: &[u8]| tables.is_empty() || tables.iter().any(|name| name == table);
        // The deadline is now: updates that are not in the log yet are not waited for.
        let proof: Result<Proof, LogError> =
            window_proof(&mut reader, window.clone(), Instant::now(), |_, record, _| match is_selected(record.table) {
                true => Keep::Whole,
                false => Keep::Skip,
            });
        let proof = proof.map_err(CliError::failed)?;
        let damage = damaged_in(path, window.clone()).map_err(CliError::failed)?;
        match is_json {
            true => {
                let damage = DamageDocument::all(&damage);
                json::print(
                    &mut out,
                    &ProofDocument { first: window.start, last: window.end, tables: &proof, damage },
                )?;
            }
            false => print(&mut out, window.start, window.end, &proof, &damage)?,
        }
    }
    Ok(())
}

/// A window's proof, as `--json` prints it.
#[derive(Serialize)]
struct ProofDocument<'a> {
    first: u64,
    last: u64,
    tables: &'a Proof,
    damage: Vec<DamageDocument>,
}

fn print(out: &mut impl Write, first: u64, last: u64, proof: &Proof, damage: &[DamagedRange]) -> std::io::Result<()> {
    writeln!(out, "[{first}, {last})")?;
    for (name, table) in proof.iter() {
        let name = String::from_utf8_lossy(name);
        writeln!(out, "  {name} {} updates {} rows {:016x}", table.updates, table.rows, table.hash)?;
    }
    for damage in damage {
        writeln!(out, "  DAMAGED: {damage}")?;
    }
    Ok(())
}
