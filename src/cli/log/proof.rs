//! `log proof`: prints the proof that a node with this window of the log must return from `.rdb.windows`.

use super::Job;
use super::report::damage_json;
use crate::cli::error::CliError;
use crate::log::{DamagedRange, Keep, LogError, LogReader, Proof, TableProof, damaged_in, survey, window_proof};
use serde_json::{Map, Value as Json, json};
use std::io::Write;
use std::time::Instant;

/// Prints the proof of each log's window.
pub fn proof(job: &Job) -> Result<(), CliError> {
    let (window, tables, json) = (job.window()?, job.tables()?, job.json()?);
    let mut out = std::io::stdout().lock();
    for path in &job.files {
        // An end that is given needs no scan of the log.
        let last = match window.end {
            u64::MAX => {
                survey(path, job.limits, job.chunk_bytes, false, &mut |_, _| {}).map_err(CliError::failed)?.updates
            }
            last => last,
        };
        if window.start > last {
            return Err(CliError::Usage(format!("the log ends before update {}, it has {last}", window.start)));
        }
        let window = window.start..last;
        let mut reader = LogReader::open(path, job.limits, job.chunk_bytes).map_err(CliError::failed)?;
        let wanted = |table: &[u8]| tables.is_empty() || tables.iter().any(|name| name == table);
        // The deadline is now: updates that are not in the log yet are not waited for.
        let proof: Result<Proof, LogError> =
            window_proof(&mut reader, window.clone(), Instant::now(), |_, record, _| match wanted(record.table) {
                true => Keep::Whole,
                false => Keep::Skip,
            });
        let proof = proof.map_err(CliError::failed)?;
        let damage = damaged_in(path, window.clone()).map_err(CliError::failed)?;
        match json {
            true => writeln!(out, "{}", to_json(window.start, window.end, &proof, &damage))?,
            false => print(&mut out, window.start, window.end, &proof, &damage)?,
        }
    }
    Ok(())
}

fn to_json(first: u64, last: u64, proof: &Proof, damage: &[DamagedRange]) -> Json {
    let table = |(name, table): (&[u8], TableProof)| {
        // As a string: JSON numbers lose the low bits of 64-bit integers.
        let hash = format!("{:016x}", table.hash);
        let value = json!({ "updates": table.updates, "rows": table.rows, "hash": hash });
        (String::from_utf8_lossy(name).into_owned(), value)
    };
    let tables: Map<String, Json> = proof.iter().map(table).collect();
    let damage: Vec<Json> = damage.iter().map(damage_json).collect();
    json!({ "first": first, "last": last, "tables": tables, "damage": damage })
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
