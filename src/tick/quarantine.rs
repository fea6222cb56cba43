//! The latest rejected updates, kept for inspection within limits. Pure.

use crate::less;
use std::collections::VecDeque;
use std::sync::Arc;

/// A rejected update.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refused {
    /// Nanoseconds since 2000.01.01, local time.
    pub time_ns: i64,
    /// Handle and name of the publisher.
    pub handle: i32,
    pub user: Vec<u8>,
    pub table: Vec<u8>,
    /// kdb+'s error name, and the description.
    pub term: String,
    pub reason: String,
    /// First bytes of the message's object.
    pub message: Vec<u8>,
    /// Full size of the object in bytes.
    pub message_bytes: usize,
}

impl Refused {
    fn held_bytes(&self) -> usize {
        let parts = [self.user.len(), self.table.len(), self.term.len(), self.reason.len(), self.message.len()];
        parts.iter().sum::<usize>().saturating_add(size_of::<Refused>())
    }
}

/// The latest rejected updates.
#[derive(Debug)]
pub struct Quarantine {
    /// Shared with expressions that read them.
    kept: VecDeque<Arc<Refused>>,
    bytes: usize,
    updates_most: usize,
    bytes_most: usize,
}

/// Bytes kept of one message.
pub const MESSAGE_BYTES: usize = 4096;

impl Quarantine {
    pub fn new(updates_most: usize, bytes_most: usize) -> Quarantine {
        Quarantine { kept: VecDeque::new(), bytes: 0, updates_most, bytes_most }
    }

    /// Adds an update and evicts the oldest beyond the limits. Returns the number evicted for the count limit, and for the byte limit.
    pub fn add(&mut self, mut refused: Refused) -> (u64, u64) {
        refused.message.truncate(MESSAGE_BYTES);
        self.bytes = self.bytes.saturating_add(refused.held_bytes());
        self.kept.push_back(Arc::new(refused));
        let (mut for_number, mut for_bytes) = (0u64, 0u64);
        while self.kept.len() > self.updates_most || self.bytes > self.bytes_most {
            let reason = if self.kept.len() > self.updates_most { &mut for_number } else { &mut for_bytes };
            *reason = reason.saturating_add(1);
            let Some(oldest) = self.kept.pop_front() else { break };
            self.bytes = less!(self.bytes, oldest.held_bytes());
        }
        (for_number, for_bytes)
    }

    /// Bytes held.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Returns the kept updates, oldest first.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &Arc<Refused>> {
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
        let out: Vec<_> = (0..5).map(|time_ns| quarantine.add(refused(time_ns, 10))).collect();
        assert_eq!(out, [(0, 0), (0, 0), (1, 0), (1, 0), (1, 0)]);
        assert_eq!(quarantine.iter().map(|r| r.time_ns).collect::<Vec<_>>(), [3, 4]);
    }

    #[test]
    fn bytes_are_bounded_whatever_is_sent() {
        let mut quarantine = Quarantine::new(1000, 10_000);
        let out: u64 = (0..100).map(|time_ns| quarantine.add(refused(time_ns, 1 << 20)).1).sum();
        assert_eq!(out as usize + quarantine.iter().len(), 100);
        assert!(quarantine.bytes <= 10_000);
        assert!(quarantine.iter().all(|r| r.message.len() == MESSAGE_BYTES && r.message_bytes == 1 << 20));
    }
}
