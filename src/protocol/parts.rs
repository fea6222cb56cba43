//! Encoders and decoders of parts that several messages share.

use super::Malformed;
use super::read::Fields;
use crate::log::{LogId, MAX_SAMPLES, Proof, Sample, TableProof};
use proto::view::TableView;
use proto::{View, Writer, types};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// Converts an update index to a q long.
pub fn long(index: u64) -> i64 {
    i64::try_from(index).unwrap_or(i64::MAX)
}

/// Writes the file handle of a log, `:` and its path; the empty symbol without a log.
pub(super) fn put_path(writer: &mut Writer<'_>, path: Option<&Path>) {
    match path {
        Some(path) => writer.symbol([b":", path.as_os_str().as_bytes()].concat()),
        None => writer.symbol(""),
    }
}

/// Writes the identity of a log or writer; the empty symbol if there is none.
pub(super) fn put_id(writer: &mut Writer<'_>, id: Option<LogId>) {
    writer.symbol(id.map(|id| id.to_string()).unwrap_or_default());
}

/// Decodes the identity of a log or writer; `None` if it is missing or invalid.
pub(super) fn read_id(fields: &Fields<'_>, key: &str) -> Option<LogId> {
    std::str::from_utf8(fields.get(key)?.symbol()?).ok()?.parse().ok()
}

/// Writes samples of a log as a flat list: offset, length and checksum of each.
pub(super) fn put_samples(writer: &mut Writer<'_>, samples: &[Sample]) {
    let words = |of: &Sample| [long(of.offset_bytes), long(of.length_bytes), i64::from(of.crc)];
    let words: Vec<i64> = samples.iter().flat_map(words).collect();
    writer.vector(types::LONG, types::ATTR_NONE, &words);
}

/// Decodes samples of a log: the first [`MAX_SAMPLES`] of them, none from a tickerplant that does not send the key.
pub(super) fn read_samples(fields: &Fields<'_>) -> Result<Vec<Sample>, Malformed> {
    let Some(words) = fields.get("samples") else { return Ok(Vec::new()) };
    let wrong = || fields.wrong("samples");
    let words = words.vector().and_then(|words| words.to_vec::<i64>()).ok_or_else(wrong)?;
    sampled(&words).ok_or_else(wrong)
}

/// Decodes samples of a log from a flat list, the first [`MAX_SAMPLES`] of them; `None` if it is none.
pub(super) fn sampled(words: &[i64]) -> Option<Vec<Sample>> {
    let (samples, []) = words.as_chunks::<3>() else { return None };
    let sample = |[offset, length, crc]: &[i64; 3]| {
        let (offset_bytes, length_bytes) = (u64::try_from(*offset).ok()?, u64::try_from(*length).ok()?);
        Some(Sample { offset_bytes, length_bytes, crc: u32::try_from(*crc).ok()? })
    };
    samples.iter().take(MAX_SAMPLES).map(sample).collect()
}

/// Writes a proof as a table `tab updates rows hash`, with hashes as longs of the same bits.
pub(super) fn put_proof(writer: &mut Writer<'_>, proof: &Proof) {
    writer.table_head(["tab", "updates", "rows", "hash"]);
    let column =
        |of: fn(&TableProof) -> u64| -> Vec<i64> { proof.iter().map(|(_, table)| of(&table).cast_signed()).collect() };
    writer.symbols(proof.iter().map(|(name, _)| name.to_vec()).collect::<Vec<_>>());
    writer.vector(types::LONG, types::ATTR_NONE, &column(|table| table.updates));
    writer.vector(types::LONG, types::ATTR_NONE, &column(|table| table.rows));
    writer.vector(types::LONG, types::ATTR_NONE, &column(|table| table.hash));
}

/// Decodes a proof written by [`put_proof`].
pub(super) fn read_proof(args: &[View<'_>], at: usize) -> Result<Proof, Malformed> {
    let proof = args.get(at).and_then(View::table).and_then(|table| proof_of(&table));
    proof.ok_or_else(|| Malformed::of_type("a proof must be a table with columns tab updates rows hash"))
}

fn proof_of(table: &TableView<'_>) -> Option<Proof> {
    let longs = |name: &[u8]| -> Option<Vec<i64>> { table.column(name)?.vector()?.to_vec() };
    let tabs = super::read::symbols(&table.column(b"tab")?)?;
    let (updates, rows, hash) = (longs(b"updates")?, longs(b"rows")?, longs(b"hash")?);
    let tables = tabs.into_iter().zip(updates).zip(rows).zip(hash).map(|(((tab, updates), rows), hash)| {
        let own =
            TableProof { updates: updates.cast_unsigned(), rows: rows.cast_unsigned(), hash: hash.cast_unsigned() };
        (tab.into(), own)
    });
    Some(tables.collect())
}
