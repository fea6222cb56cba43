//! Proof of a window: the checksum and counts that agree if two processes hold the same updates.
//!
//! An update's hash covers the bytes of its columns: the objects in the list of columns, without the list's own head. A window's hash is
//! the wrapping sum of its updates' hashes, so proofs add up in any order.

use super::error::LogError;
use super::reader::LogReader;
use super::record::LIST_HEAD_BYTES;
use proto::View;
use proto::log::Record;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::ops::{ControlFlow, Range};
use std::time::Instant;

/// Bit mixer (finaliser of SplitMix64).
pub const fn mix64(mut word: u64) -> u64 {
    word ^= word >> 30;
    word = word.wrapping_mul(0xbf58_476d_1ce4_e5b9);
    word ^= word >> 27;
    word = word.wrapping_mul(0x94d0_49bb_1331_11eb);
    word ^ (word >> 31)
}

/// Returns the hash of an update, given its column bytes.
pub fn update_hash(column_bytes: &[u8]) -> u64 {
    let crc = u64::from(crc32c::crc32c(column_bytes));
    mix64(crc ^ ((column_bytes.len() as u64) << 32))
}

/// Checksum and counts of one table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct TableProof {
    pub updates: u64,
    pub rows: u64,
    /// Wrapping sum of the updates' hashes.
    #[serde(with = "hex")]
    pub hash: u64,
}

/// A hash as 16 hexadecimal digits: numbers in JSON lose the low bits of 64-bit integers.
mod hex {
    use serde::de::{Deserialize, Deserializer, Error};
    use serde::ser::Serializer;

    pub fn serialize<S: Serializer>(hash: &u64, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&format_args!("{hash:016x}"))
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u64, D::Error> {
        let digits = String::deserialize(deserializer)?;
        u64::from_str_radix(&digits, 16).map_err(|_| D::Error::custom(format!("{digits:?} is no hash")))
    }
}

impl TableProof {
    /// Adds one update.
    pub fn add(&mut self, rows: u64, hash: u64) {
        self.merge(TableProof { updates: 1, rows, hash });
    }

    pub fn merge(&mut self, other: TableProof) {
        self.updates = self.updates.wrapping_add(other.updates);
        self.rows = self.rows.wrapping_add(other.rows);
        self.hash = self.hash.wrapping_add(other.hash);
    }

    pub fn subtract(&mut self, other: TableProof) {
        self.updates = self.updates.wrapping_sub(other.updates);
        self.rows = self.rows.wrapping_sub(other.rows);
        self.hash = self.hash.wrapping_sub(other.hash);
    }
}

/// Checksum and counts of each table, by name. Tables without updates are ignored in comparisons.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(from = "BTreeMap<String, TableProof>", into = "BTreeMap<String, TableProof>")]
pub struct Proof {
    /// Sorted by name.
    tables: Vec<(Box<[u8]>, TableProof)>,
}

impl Proof {
    pub fn new() -> Proof {
        Proof::default()
    }

    /// Returns the table's proof, inserting an empty one if it is missing.
    pub fn table_mut(&mut self, table: &[u8]) -> &mut TableProof {
        let at = match self.tables.binary_search_by(|(name, _)| name.as_ref().cmp(table)) {
            Ok(at) => at,
            Err(at) => {
                self.tables.insert(at, (table.into(), TableProof::default()));
                at
            }
        };
        // `at` was found or inserted just now.
        &mut self.tables[at].1
    }

    /// Returns the table's proof, empty if it is unknown.
    pub fn table(&self, table: &[u8]) -> TableProof {
        let found = self.tables.binary_search_by(|(name, _)| name.as_ref().cmp(table)).ok();
        found.and_then(|at| self.tables.get(at)).map(|(_, proof)| *proof).unwrap_or_default()
    }

    /// Adds one update.
    pub fn add(&mut self, table: &[u8], rows: u64, hash: u64) {
        self.table_mut(table).add(rows, hash);
    }

    /// Whether the table has a proof that is not empty.
    pub fn has(&self, table: &[u8]) -> bool {
        self.table(table) != TableProof::default()
    }

    pub fn merge(&mut self, other: &Proof) {
        for (table, proof) in other.iter() {
            self.table_mut(table).merge(proof);
        }
    }

    pub fn subtract(&mut self, other: &Proof) {
        for (table, proof) in other.iter() {
            self.table_mut(table).subtract(proof);
        }
    }

    /// Iterates over the tables with a non-empty proof, by name.
    pub fn iter(&self) -> impl Iterator<Item = (&[u8], TableProof)> {
        self.tables
            .iter()
            .map(|(name, proof)| (name.as_ref(), *proof))
            .filter(|(_, proof)| *proof != TableProof::default())
    }

    /// Sum over all tables.
    pub fn total(&self) -> TableProof {
        let mut total = TableProof::default();
        self.iter().for_each(|(_, proof)| total.merge(proof));
        total
    }
}

impl From<Proof> for BTreeMap<String, TableProof> {
    fn from(proof: Proof) -> Self {
        proof.iter().map(|(name, table)| (String::from_utf8_lossy(name).into_owned(), table)).collect()
    }
}

impl From<BTreeMap<String, TableProof>> for Proof {
    fn from(tables: BTreeMap<String, TableProof>) -> Proof {
        tables.into_iter().map(|(name, table)| (name.into_bytes().into(), table)).collect()
    }
}

/// Tables in any order; those of one name are added. Sorts once, because a peer chooses number and order: inserting one after the other would
/// take quadratic time.
impl FromIterator<(Box<[u8]>, TableProof)> for Proof {
    fn from_iter<I: IntoIterator<Item = (Box<[u8]>, TableProof)>>(tables: I) -> Proof {
        let mut tables: Vec<(Box<[u8]>, TableProof)> = tables.into_iter().collect();
        tables.sort_by(|(a, _), (b, _)| a.cmp(b));
        tables.dedup_by(|(name, table), (kept, sum)| {
            let is_same = name == kept;
            if is_same {
                sum.merge(*table);
            }
            is_same
        });
        Proof { tables }
    }
}

impl PartialEq for Proof {
    fn eq(&self, other: &Proof) -> bool {
        self.iter().eq(other.iter())
    }
}

impl Eq for Proof {}

/// Returns an update's column bytes and its number of rows, which is the length of the first column.
///
/// `data` is a list of columns, a row of atoms (a vector if the atoms are of one type, as kdb+ collapses it), or a table.
pub fn columns_of<'a>(data: &View<'a>) -> (&'a [u8], u64) {
    match data.table().map(|table| table.columns).or_else(|| data.list()) {
        Some(columns) => (columns.body, columns.iter().next().map_or(0, |first| first.count() as u64)),
        None => (data.raw().get(LIST_HEAD_BYTES..).unwrap_or_default(), 1),
    }
}

/// How an update counts in a proof.
pub enum Keep {
    /// As it is in the log.
    Whole,
    /// With `rows` rows and the column bytes in the buffer.
    Encoded { rows: u64 },
    /// Not at all.
    Skip,
}

/// Computes the proof of a window from the log. `keep` decides for each update; for a subscriber with a symbol filter it writes the column
/// bytes of the matching rows to the buffer, which is empty at each call.
pub fn window_proof(
    reader: &mut LogReader,
    window: Range<u64>,
    deadline: Instant,
    mut keep: impl FnMut(u64, &Record<'_>, &mut Vec<u8>) -> Keep,
) -> Result<Proof, LogError> {
    let mut proof = Proof::new();
    let mut encoded = Vec::new();
    reader.replay(window, 1 << 20, deadline, |chunk| {
        for (index, record) in chunk.records() {
            let Some(record) = record.filter(|record| !record.is_schema()) else { continue };
            encoded.clear();
            match keep(index, &record, &mut encoded) {
                Keep::Whole => {
                    let (bytes, rows) = columns_of(&record.columns);
                    proof.add(record.table, rows, update_hash(bytes));
                }
                Keep::Encoded { rows } => proof.add(record.table, rows, update_hash(&encoded)),
                Keep::Skip => {}
            }
        }
        ControlFlow::Continue(())
    })?;
    Ok(proof)
}
