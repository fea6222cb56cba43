//! The record that holds a publisher's sequence number.
//!
//! `` ({[user;publisher;seq;hash]};`ann;`feed1;42;hash) `` stands right before the update that the publisher sent with that number. Update and
//! number are in one file in one order, so no crash separates them. kdb+'s `-11!` evaluates a function that does nothing. The record has an
//! index, like every message of a log.
//!
//! `hash` is that of the update's columns. A record whose update is missing (the log ended between the two) is void: the next update has
//! another hash. A null hash stands for an update without rows, which has no record.

use super::proof::{columns_of, update_hash};
use super::reader::walked_parts;
use proto::{EncodeError, Endian, View, Writer};

/// Source of the function in the record.
const FUNCTION: &[u8] = b"{[user;publisher;seq;hash]}";
/// Items of the record's list.
const ITEMS: usize = 5;

/// Sequence number of an update.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sequence<'a> {
    pub user: &'a [u8],
    pub publisher: &'a [u8],
    pub seq: i64,
}

impl Sequence<'_> {
    /// Appends the record with a null hash, which [`set_hash`] replaces.
    ///
    /// # Errors
    /// A name that is too long.
    pub fn append(&self, out: &mut Vec<u8>) -> Result<(), EncodeError> {
        let mut writer = Writer::new(out);
        writer.list_head(ITEMS);
        writer.lambda(b"", FUNCTION);
        writer.symbol(self.user);
        writer.symbol(self.publisher);
        writer.atom_long(self.seq);
        writer.atom_long(proto::types::NULL_LONG);
        writer.finish()
    }
}

/// Sets the hash of the update in a record of [`Sequence::append`].
pub fn set_hash(record: &mut [u8], columns: &[u8]) {
    if let Some(hash) = record.last_chunk_mut() {
        *hash = hash_of(columns).to_le_bytes();
    }
}

/// Returns a hash that is not null.
fn hash_of(columns: &[u8]) -> i64 {
    let hash = update_hash(columns).cast_signed();
    if hash == proto::types::NULL_LONG { 0 } else { hash }
}

/// Returns the sequence number in a record, and the update's hash; `None` for any other record. The record has been validated.
fn parse(record: &[u8]) -> Option<(Sequence<'_>, i64)> {
    // Type and count of the list, then the function's type, its empty namespace, and its text. Most records differ in the count.
    let rest = record.strip_prefix(&[0, 0, 5, 0, 0, 0, 100, 0, 10, 0, 27, 0, 0, 0])?;
    rest.strip_prefix(FUNCTION)?;
    let list = View::walked(record, Endian::Little).list()?;
    let mut items = list.iter().skip(1);
    let (user, publisher) = (items.next()?.symbol()?, items.next()?.symbol()?);
    let (seq, hash) = (items.next()?.atom()?, items.next()?.atom()?);
    Some((Sequence { user, publisher, seq }, hash))
}

/// Whether a record holds a sequence number. The record has been validated.
pub fn is_sequence(record: &[u8]) -> bool {
    parse(record).is_some()
}

/// Finds sequence numbers in the records of a log, in order.
#[derive(Debug, Default)]
pub struct SequenceScan {
    /// The last record, if it is a sequence number whose update is to follow.
    open: Option<(Vec<u8>, Vec<u8>, i64, i64)>,
}

impl SequenceScan {
    /// Takes the next record of the log. Calls `found` with a sequence number, and the index of its update if it has one.
    pub fn take(&mut self, index: u64, record: &[u8], found: &mut impl FnMut(Sequence<'_>, Option<u64>)) {
        if let Some((sequence, hash)) = parse(record) {
            self.open = None;
            if hash == proto::types::NULL_LONG {
                found(sequence, None);
            } else {
                self.open = Some((sequence.user.to_vec(), sequence.publisher.to_vec(), sequence.seq, hash));
            }
            return;
        }
        let Some((user, publisher, seq, hash)) = self.open.take() else { return };
        let is_its = walked_parts(record).is_some_and(|update| hash_of(columns_of(&update.columns).0) == hash);
        if is_its {
            found(Sequence { user: &user, publisher: &publisher, seq }, Some(index));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proto::{Limits, decode};

    fn update(id: i64) -> Vec<u8> {
        let mut record = Vec::new();
        proto::log::write_record_head(b"trade", 1, &mut record);
        record.extend(columns(id));
        record
    }

    fn columns(id: i64) -> Vec<u8> {
        let mut columns = Vec::new();
        Writer::new(&mut columns).vector(proto::types::LONG, 0, &[id]);
        columns
    }

    fn mark(publisher: &str, seq: i64, of: Option<i64>) -> Vec<u8> {
        let mut record = Vec::new();
        Sequence { user: b"ann", publisher: publisher.as_bytes(), seq }.append(&mut record).expect("short names");
        if let Some(id) = of {
            set_hash(&mut record, &columns(id));
        }
        record
    }

    fn scan(records: &[Vec<u8>]) -> Vec<(String, i64, Option<u64>)> {
        let (mut scan, mut found) = (SequenceScan::default(), Vec::new());
        for (index, record) in (0..).zip(records) {
            scan.take(index, record, &mut |sequence, index| {
                assert_eq!(sequence.user, b"ann");
                found.push((String::from_utf8_lossy(sequence.publisher).into_owned(), sequence.seq, index));
            });
        }
        found
    }

    #[test]
    fn a_number_counts_with_its_update_only() {
        let of = |publisher: &str, seq, index| (publisher.to_string(), seq, index);
        let whole =
            [mark("a", 1, Some(10)), update(10), update(11), mark("b", 5, None), mark("a", 2, Some(12)), update(12)];
        assert_eq!(scan(&whole), [of("a", 1, Some(1)), of("b", 5, None), of("a", 2, Some(5))]);
        // The log ended after the number; another publisher's update follows, then the same update is sent again.
        let torn = [mark("a", 1, Some(10)), update(11), mark("a", 1, Some(10)), mark("a", 1, Some(10)), update(10)];
        assert_eq!(scan(&torn), [of("a", 1, Some(4))]);
    }

    #[test]
    fn the_record_is_a_message_that_a_log_may_hold() {
        let record = mark("feed1", i64::MAX, Some(3));
        let (value, used) = decode::object(&record, Endian::Little, &Limits::default()).expect("an object");
        assert_eq!((used, value.len()), (record.len(), ITEMS));
        assert!(walked_parts(&record).is_none(), "it is no update");
    }
}
