//! Records of the file of rejected updates: a head with checksums, and a kdb+ object.
//!
//! | bytes | meaning |
//! |---|---|
//! | 0 to 3 | `REJ1` |
//! | 4 to 7 | length of the object |
//! | 8 to 11 | CRC-32C of the object |
//! | 12 to 15 | CRC-32C of the bytes before |
//!
//! An object that differs from its checksum is left out. A head that does ends the file: nothing tells where the next record begins, and
//! bytes that a publisher has chosen must not be taken for one.

use super::Refused;
use proto::{Endian, Limits, View, Writer, types};
use std::net::IpAddr;
use std::sync::Arc;

const MARK: &[u8; 4] = b"REJ1";
pub(super) const HEAD_BYTES: usize = 16;
/// Bytes of the head that its own checksum covers.
const CHECKED_BYTES: usize = 12;
/// Items of an update's object, and of one that a version without numbers wrote.
const ITEMS: usize = 12;
const ITEMS_WITHOUT_NUMBER: usize = 10;
/// First item of the object of [`Change::Accepted`].
const ACCEPTED: &[u8] = b"accepted";

/// A change of the kept updates.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Change {
    Added(Arc<Refused>),
    /// Published after all, or discarded.
    Gone(Vec<u64>),
    /// An update with the number of each of these has been accepted since.
    Accepted(Vec<u64>),
}

impl Change {
    /// Bytes of memory, about.
    pub(super) fn held_bytes(&self) -> usize {
        match self {
            Change::Added(refused) => refused.held_bytes(),
            Change::Gone(ids) | Change::Accepted(ids) => {
                ids.len().saturating_mul(size_of::<u64>()).saturating_add(size_of::<Change>())
            }
        }
    }

    /// Appends the record. A change that cannot be encoded leaves nothing.
    pub(super) fn write(&self, out: &mut Vec<u8>) {
        let start = out.len();
        out.extend_from_slice(&[0; HEAD_BYTES]);
        let mut writer = Writer::new(out);
        match self {
            Change::Added(refused) => put(refused, &mut writer),
            Change::Gone(ids) => put_ids(ids, &mut writer),
            Change::Accepted(ids) => {
                writer.list_head(2);
                writer.symbol(ACCEPTED);
                put_ids(ids, &mut writer);
            }
        }
        let is_written = writer.finish().is_ok();
        let head = head(out.get(start.saturating_add(HEAD_BYTES)..).unwrap_or_default()).filter(|_| is_written);
        match (head, out.get_mut(start..)) {
            (Some(head), Some(record)) => head.iter().zip(record).for_each(|(byte, place)| *place = *byte),
            _ => out.truncate(start),
        }
    }

    fn read(object: &[u8]) -> Option<Change> {
        let (view, used) = View::parse(object, Endian::Little, &Limits::default()).ok()?;
        if used != object.len() {
            return None;
        }
        if let Some(ids) = ids(&view) {
            return Some(Change::Gone(ids));
        }
        let is_known = |count: usize| matches!(count, 2 | ITEMS_WITHOUT_NUMBER | ITEMS);
        let items: Vec<View<'_>> = view.list().filter(|list| is_known(list.count))?.iter().collect();
        if let [kind, of] = items.as_slice() {
            return ids(of).filter(|_| kind.symbol() == Some(ACCEPTED)).map(Change::Accepted);
        }
        let [id, time, handle, address, user, table, term, reason, size, message, number @ ..] = items.as_slice()
        else {
            return None;
        };
        let text = |view: &View<'_>| Some(String::from_utf8_lossy(view.chars()?).into_owned());
        Some(Change::Added(Arc::new(Refused {
            id: id.atom::<i64>()?.cast_unsigned(),
            time_ns: time.atom()?,
            handle: handle.atom()?,
            address: text(address)?.parse::<IpAddr>().ok()?,
            user: user.chars()?.to_vec(),
            table: table.chars()?.to_vec(),
            term: text(term)?,
            reason: text(reason)?,
            message: message.vector().filter(|vector| vector.ty == types::BYTE)?.items.to_vec(),
            message_bytes: usize::try_from(size.atom::<i64>()?).ok()?,
            number: match number {
                [publisher, seq] => Some((publisher.chars()?.to_vec(), seq.atom()?)).filter(|(id, _)| !id.is_empty()),
                _ => None,
            },
        })))
    }
}

fn put_ids(ids: &[u64], writer: &mut Writer<'_>) {
    let ids: Vec<i64> = ids.iter().map(|id| id.cast_signed()).collect();
    writer.vector(types::LONG, types::ATTR_NONE, &ids);
}

fn ids(view: &View<'_>) -> Option<Vec<u64>> {
    let longs = view.vector().filter(|vector| vector.ty == types::LONG)?;
    Some(longs.items.chunks_exact(8).filter_map(|id| Some(u64::from_le_bytes(id.try_into().ok()?))).collect())
}

fn put(refused: &Refused, writer: &mut Writer<'_>) {
    writer.list_head(ITEMS);
    writer.atom_long(refused.id.cast_signed());
    writer.atom_timestamp(refused.time_ns);
    writer.atom_int(refused.handle);
    writer.chars(refused.address.to_string());
    writer.chars(&refused.user);
    writer.chars(&refused.table);
    writer.chars(&refused.term);
    writer.chars(&refused.reason);
    writer.atom_long(i64::try_from(refused.message_bytes).unwrap_or(i64::MAX));
    writer.vector(types::BYTE, types::ATTR_NONE, &refused.message);
    let (publisher, seq) = refused.number();
    writer.chars(publisher);
    writer.atom_long(seq);
}

/// Returns the head of an object; `None` for one that is too long.
fn head(object: &[u8]) -> Option<[u8; HEAD_BYTES]> {
    let length = u32::try_from(object.len()).ok()?;
    let mut head = [MARK.as_slice(), &length.to_le_bytes(), &crc32c::crc32c(object).to_le_bytes()].concat();
    head.extend_from_slice(&crc32c::crc32c(&head).to_le_bytes());
    head.try_into().ok()
}

/// Returns length and checksum of the object after a head; `None` for a damaged one.
fn parse_head(bytes: &[u8]) -> Option<(usize, u32)> {
    let number = |at: usize| Some(u32::from_le_bytes(*bytes.get(at..)?.first_chunk()?));
    let is_whole = bytes.starts_with(MARK) && number(CHECKED_BYTES)? == crc32c::crc32c(bytes.get(..CHECKED_BYTES)?);
    is_whole.then_some((usize::try_from(number(4)?).ok()?, number(8)?))
}

/// What a file contains.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Contents {
    pub changes: Vec<Change>,
    /// End of the last whole record.
    pub good_bytes: usize,
    /// Records whose object differs from its checksum.
    pub damaged: usize,
}

/// Reads the records of a file, as far as they can be read.
pub(super) fn read(bytes: &[u8]) -> Contents {
    let mut contents = Contents::default();
    let mut rest = bytes;
    while let Some((length, crc)) = parse_head(rest) {
        let end = HEAD_BYTES.saturating_add(length);
        let Some(object) = rest.get(HEAD_BYTES..end) else { break };
        match Change::read(object).filter(|_| crc32c::crc32c(object) == crc) {
            Some(change) => contents.changes.push(change),
            None => contents.damaged = contents.damaged.saturating_add(1),
        }
        contents.good_bytes = contents.good_bytes.saturating_add(end);
        rest = rest.get(end..).unwrap_or_default();
    }
    contents
}

#[cfg(test)]
mod tests {
    use super::super::tests::refused;
    use super::*;

    fn changes() -> Vec<Change> {
        let added = |id, user: &[u8], number| {
            let user = user.to_vec();
            Change::Added(Arc::new(Refused { id, user, table: b"a\0b".to_vec(), number, ..refused(3, 20) }))
        };
        let numbered = added(u64::MAX, b"\xff\0", Some((b"feed1".to_vec(), -3)));
        vec![added(0, b"feed", None), Change::Gone(vec![0, 7]), numbered, Change::Accepted(vec![u64::MAX])]
    }

    fn file() -> Vec<u8> {
        let mut bytes = Vec::new();
        changes().iter().for_each(|change| change.write(&mut bytes));
        bytes
    }

    #[test]
    fn every_change_is_read_as_it_was_written() {
        let bytes = file();
        assert_eq!(read(&bytes), Contents { changes: changes(), good_bytes: bytes.len(), damaged: 0 });
    }

    #[test]
    fn an_update_that_was_written_without_a_number_is_read() {
        let whole = refused(3, 20);
        let mut object = Vec::new();
        let mut writer = Writer::new(&mut object);
        put(&whole, &mut writer);
        writer.finish().unwrap();
        // A list without its last two items: an empty string, and a long.
        object.truncate(object.len() - 6 - 9);
        object[2] = u8::try_from(ITEMS_WITHOUT_NUMBER).unwrap();
        assert_eq!(Change::read(&object), Some(Change::Added(Arc::new(whole))));
    }

    #[test]
    fn a_file_cut_off_anywhere_has_the_records_before() {
        let (bytes, all) = (file(), changes());
        for end in 0..bytes.len() {
            let contents = read(&bytes[..end]);
            assert!(contents.good_bytes <= end && all.starts_with(&contents.changes), "{end}");
            assert_eq!(read(&bytes[..contents.good_bytes]), contents, "{end}");
        }
    }

    #[test]
    fn a_changed_byte_costs_its_own_record_or_ends_the_file_and_adds_nothing() {
        let (bytes, all) = (file(), changes());
        for at in 0..bytes.len() {
            let mut damaged = bytes.clone();
            damaged[at] ^= 0x41;
            let contents = read(&damaged);
            assert!(contents.changes.len() < all.len(), "{at}");
            assert!(contents.changes.iter().all(|change| all.contains(change)), "{at}");
            assert!(contents.damaged == 1 || contents.good_bytes < bytes.len(), "{at}");
        }
    }
}
