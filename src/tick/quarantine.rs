//! Refused updates, kept to be looked at: the latest ones, within limits. Pure.

use std::collections::VecDeque;

/// A refused update.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refused {
    /// Nanoseconds from 2000.01.01, local time.
    pub time_ns: i64,
    /// The publisher's handle and name.
    pub handle: i32,
    pub user: Vec<u8>,
    pub table: Vec<u8>,
    /// kdb+'s name for what was wrong, and the words.
    pub term: String,
    pub reason: String,
    /// The start of the message's object.
    pub message: Vec<u8>,
    /// All of its bytes.
    pub message_bytes: usize,
}

impl Refused {
    fn held_bytes(&self) -> usize {
        let parts = [self.user.len(), self.table.len(), self.term.len(), self.reason.len(), self.message.len()];
        parts.iter().sum::<usize>().saturating_add(size_of::<Refused>())
    }
}

/// The latest refused updates.
#[derive(Debug)]
pub struct Quarantine {
    kept: VecDeque<Refused>,
    bytes: usize,
    updates_most: usize,
    bytes_most: usize,
}

/// Most that is kept of one message.
pub const MESSAGE_BYTES: usize = 4096;

impl Quarantine {
    pub fn new(updates_most: usize, bytes_most: usize) -> Quarantine {
        Quarantine { kept: VecDeque::new(), bytes: 0, updates_most, bytes_most }
    }

    /// Takes one in; the oldest make room.
    pub fn add(&mut self, mut refused: Refused) {
        refused.message.truncate(MESSAGE_BYTES);
        self.bytes = self.bytes.saturating_add(refused.held_bytes());
        self.kept.push_back(refused);
        while self.kept.len() > self.updates_most || self.bytes > self.bytes_most {
            let Some(oldest) = self.kept.pop_front() else { return };
            self.bytes = self.bytes.saturating_sub(oldest.held_bytes());
        }
    }

    /// What is kept, the oldest first.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &Refused> {
        self.kept.iter()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(time_ns: i64, message_bytes: usize) -> Refused {
        Refused {
            time_ns,
            handle: 5,
            user: b"feed".to_vec(),
            table: b"trade".to_vec(),
            term: "type".into(),
            reason: "wrong".into(),
            message: vec![0; message_bytes],
            message_bytes,
        }
    }

    #[test]
    fn the_oldest_make_room() {
        let mut quarantine = Quarantine::new(2, 1 << 20);
        (0..5).for_each(|time_ns| quarantine.add(refused(time_ns, 10)));
        assert_eq!(quarantine.iter().map(|r| r.time_ns).collect::<Vec<_>>(), [3, 4]);
    }

    #[test]
    fn bytes_are_bounded_whatever_is_sent() {
        let mut quarantine = Quarantine::new(1000, 10_000);
        (0..100).for_each(|time_ns| quarantine.add(refused(time_ns, 1 << 20)));
        assert!(quarantine.bytes <= 10_000);
        assert!(quarantine.iter().all(|r| r.message.len() == MESSAGE_BYTES && r.message_bytes == 1 << 20));
    }
}
