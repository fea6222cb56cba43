//! The journal: records read back as written, a torn last line is ignored, damage is reported.

use super::*;
use crate::queue::journal::{Change, JournalError};

/// A day with every kind of row and record.
fn busy() -> Bench {
    let mut b = Bench::new();
    for (handle, node) in [(1, "a"), (2, "b"), (3, "c \u{1}%-é"), (4, "d")] {
        b.join(handle, node);
    }
    b.publish(100);
    b.roll(1, 90);
    b.proved(1, w(0, 90), true);
    b.roll(2, 95);
    b.disconnect(2);
    b.pass(2 * S);
    b.subscribe(9, "");
    b.disconnect(9);
    b.disconnect(3);
    b
}

fn bytes(b: &Bench) -> Vec<u8> {
    b.records.iter().flat_map(Record::encode).collect()
}

#[test]
fn every_kind_of_row_is_read_back() {
    let b = busy();
    assert_eq!(read(&bytes(&b)).unwrap().records, b.records);
    assert_eq!(b.restored().rows(), b.queue.rows());
}

#[test]
fn a_journal_cut_anywhere_gives_the_whole_lines_before() {
    let b = busy();
    let bytes = bytes(&b);
    for cut in 0..bytes.len() {
        let journal = read(&bytes[..cut]).unwrap();
        let whole = bytes[..cut].iter().filter(|byte| **byte == b'\n').count();
        assert_eq!(journal.records, b.records[..whole], "cut at {cut}");
        assert!(journal.good_bytes as usize <= cut);
    }
}

#[test]
fn damage_before_the_last_line_is_named() {
    let b = busy();
    let mut bytes = bytes(&b);
    let second = bytes.iter().position(|byte| *byte == b'\n').unwrap() + 1;
    bytes[second + 12] ^= 1;
    assert_eq!(read(&bytes), Err(JournalError::Damaged { line: 2, offset: second as u64 }));
}

#[test]
fn no_flipped_bit_is_read_as_something_else() {
    let b = busy();
    let good = bytes(&b);
    for at in 0..good.len() {
        let mut bytes = good.clone();
        bytes[at] ^= 0x04;
        if let Ok(journal) = read(&bytes) {
            assert!(b.records.starts_with(&journal.records), "flip at {at}");
        }
    }
}

#[test]
fn a_journal_of_another_day_is_rejected() {
    let b = busy();
    let other = Date(TODAY.0 + 1);
    let error = Queue::restore(Params::default(), other, &b.records).unwrap_err();
    assert_eq!(error, JournalError::OtherDay { found: TODAY, expected: other });
}

#[test]
fn records_that_contradict_each_other_are_rejected() {
    let b = busy();
    let mut records = b.records.clone();
    records.retain(|r| !r.changes.iter().any(|c| matches!(c, Change::Line { line, .. } if line.open == i(95))));
    let error = Queue::restore(Params::default(), TODAY, &records).unwrap_err();
    assert!(matches!(error, JournalError::Contradiction(_)), "{error}");
}

#[test]
fn an_empty_journal_is_an_empty_table() {
    let journal = read(b"").unwrap();
    let queue = Queue::restore(Params::default(), TODAY, &journal.records).unwrap();
    assert!(queue.rows().is_empty());
    assert_eq!(queue.date(), TODAY);
}

#[test]
fn a_new_day_starts_with_the_whole_table() {
    let mut b = busy();
    b.step(QueueEvent::DayEnd { new_date: Date(TODAY.0 + 1) });
    let last = b.records.last().cloned().unwrap();
    assert!(last.is_snapshot());
    let restored = Queue::restore(Params::default(), Date(TODAY.0 + 1), &[last]).unwrap();
    assert_eq!(restored.snapshot(), b.queue.snapshot());
}
