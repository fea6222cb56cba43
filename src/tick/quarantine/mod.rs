//! The latest rejected updates, kept for inspection and for another attempt within limits. Pure; [`keeper`] keeps them over a restart.

pub mod keeper;
mod record;
mod segments;

use crate::less;
use proto::types;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::IpAddr;
use std::sync::Arc;

/// A rejected update.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refused {
    /// Number of the rejection, from 0; over a restart too.
    pub id: u64,
    /// Nanoseconds since 2000.01.01, local time.
    pub time_ns: i64,
    /// Handle, address and name of the publisher.
    pub handle: i32,
    pub address: IpAddr,
    pub user: Vec<u8>,
    pub table: Vec<u8>,
    /// kdb+'s error name, and the description.
    pub term: String,
    pub reason: String,
    /// First bytes of the message's object.
    pub message: Vec<u8>,
    /// Full size of the object in bytes.
    pub message_bytes: usize,
    /// Id of the publisher and sequence number, if the update has them.
    pub number: Option<(Vec<u8>, i64)>,
}

impl Refused {
    fn held_bytes(&self) -> usize {
        let parts = [self.user.len(), self.table.len(), self.term.len(), self.reason.len(), self.message.len()];
        // The id is in the index of numbers as well.
        let number = self.number().0.len().saturating_mul(2);
        parts.iter().sum::<usize>().saturating_add(number).saturating_add(size_of::<Refused>())
    }

    /// Returns the publisher's id, empty if there is none, and the sequence number, null if there is none.
    pub fn number(&self) -> (&[u8], i64) {
        self.number.as_ref().map_or((&[], types::NULL_LONG), |(publisher, seq)| (publisher, *seq))
    }

    /// Whether all of the object was kept.
    pub fn is_whole(&self) -> bool {
        self.message.len() == self.message_bytes
    }
}

/// The latest rejected updates.
#[derive(Debug)]
pub struct Quarantine {
    /// By ascending id. Shared with expressions that read them, and with the thread that writes them to a file.
    kept: VecDeque<Arc<Refused>>,
    /// Sequence numbers and ids of the kept updates that have one, by publisher.
    numbered: BTreeMap<Vec<u8>, BTreeSet<(i64, u64)>>,
    /// Kept updates of which one with the same number has been accepted since.
    accepted: BTreeSet<u64>,
    next_id: u64,
    bytes: usize,
    updates_most: usize,
    bytes_most: usize,
}

/// Bytes kept of a name and of a description, which a publisher chooses in part.
const NAME_BYTES: usize = 1024;
const REASON_BYTES: usize = 4096;

/// Bytes kept of one object: a sixteenth of the whole limit, but not less or more than this.
const MESSAGE_BYTES: std::ops::RangeInclusive<usize> = 4096..=1 << 20;

impl Quarantine {
    pub fn new(updates_most: usize, bytes_most: usize) -> Quarantine {
        Quarantine {
            kept: VecDeque::new(),
            numbered: BTreeMap::new(),
            accepted: BTreeSet::new(),
            next_id: 0,
            bytes: 0,
            updates_most,
            bytes_most,
        }
    }

    /// Maximum number of bytes kept of one object.
    pub fn message_bytes_most(&self) -> usize {
        (self.bytes_most / 16).clamp(*MESSAGE_BYTES.start(), *MESSAGE_BYTES.end())
    }

    /// Adds an update under the next id and evicts the oldest beyond the limits. Returns it, and the number evicted for the count limit
    /// and for the byte limit.
    pub fn add(&mut self, refused: Refused) -> (Arc<Refused>, (u64, u64)) {
        let refused = Arc::new(self.cut(Refused { id: self.next_id, ..refused }));
        self.next_id = self.next_id.saturating_add(1);
        (Arc::clone(&refused), self.push(refused))
    }

    /// Adds an update that was kept before a restart. Ids ascend: an update that is already there is left out.
    pub fn restore(&mut self, refused: Refused) {
        if refused.id < self.next_id {
            return;
        }
        self.skip_to(refused.id.saturating_add(1));
        let refused = Arc::new(self.cut(refused));
        self.push(refused);
    }

    /// Gives no id below this to a new update.
    pub fn skip_to(&mut self, id: u64) {
        self.next_id = self.next_id.max(id);
    }

    fn cut(&self, mut refused: Refused) -> Refused {
        refused.message.truncate(self.message_bytes_most());
        refused.table.truncate(NAME_BYTES);
        if refused.reason.len() > REASON_BYTES {
            refused.reason.truncate(refused.reason.floor_char_boundary(REASON_BYTES));
        }
        refused
    }

    fn push(&mut self, refused: Arc<Refused>) -> (u64, u64) {
        self.bytes = self.bytes.saturating_add(refused.held_bytes());
        if let Some((publisher, seq)) = &refused.number {
            self.numbered.entry(publisher.clone()).or_default().insert((*seq, refused.id));
        }
        self.kept.push_back(refused);
        let (mut for_number, mut for_bytes) = (0u64, 0u64);
        while self.kept.len() > self.updates_most || self.bytes > self.bytes_most {
            let reason = if self.kept.len() > self.updates_most { &mut for_number } else { &mut for_bytes };
            *reason = reason.saturating_add(1);
            let Some(oldest) = self.kept.pop_front() else { break };
            self.removed(&oldest);
        }
        (for_number, for_bytes)
    }

    fn removed(&mut self, refused: &Refused) {
        self.bytes = less!(self.bytes, refused.held_bytes());
        self.accepted.remove(&refused.id);
        let (publisher, seq) = refused.number();
        if let Some(numbers) = self.numbered.get_mut(publisher) {
            numbers.remove(&(seq, refused.id));
            if numbers.is_empty() {
                self.numbered.remove(publisher);
            }
        }
    }

    /// Returns the ids of the updates with this sequence number.
    pub fn with_number(&self, publisher: &[u8], seq: i64) -> impl Iterator<Item = u64> {
        let numbers = self.numbered.get(publisher);
        numbers.into_iter().flat_map(move |numbers| numbers.range((seq, 0)..=(seq, u64::MAX))).map(|(_, id)| *id)
    }

    /// Marks updates of whose number another update has been accepted; ids that are not there are ignored. Returns those that were not
    /// marked.
    pub fn mark_accepted(&mut self, ids: impl IntoIterator<Item = u64>) -> Vec<u64> {
        let is_new = |id: &u64| self.get(*id).is_some() && !self.is_accepted(*id);
        let new: Vec<u64> = ids.into_iter().filter(is_new).collect();
        self.accepted.extend(&new);
        new
    }

    /// Whether an update with the same number has been accepted since.
    pub fn is_accepted(&self, id: u64) -> bool {
        self.accepted.contains(&id)
    }

    /// Returns an update that is kept.
    pub fn get(&self, id: u64) -> Option<&Arc<Refused>> {
        let at = self.kept.binary_search_by_key(&id, |refused| refused.id).ok()?;
        self.kept.get(at)
    }

    /// Removes updates; ids that are not there are ignored.
    pub fn remove(&mut self, ids: &BTreeSet<u64>) {
        let mut removed = Vec::new();
        self.kept.retain(|refused| {
            let stays = !ids.contains(&refused.id);
            if !stays {
                removed.push(Arc::clone(refused));
            }
            stays
        });
        removed.iter().for_each(|refused| self.removed(refused));
    }

    /// Maximum number of updates kept.
    pub fn updates_most(&self) -> usize {
        self.updates_most
    }

    /// Maximum number of bytes held.
    pub fn bytes_most(&self) -> usize {
        self.bytes_most
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
pub(in crate::tick) mod tests {
    use super::*;
    use std::net::Ipv4Addr;

    pub(in crate::tick) fn refused(time_ns: i64, message_bytes: usize) -> Refused {
        Refused {
            id: 0,
            time_ns,
            handle: 5,
            address: Ipv4Addr::LOCALHOST.into(),
            user: b"feed".to_vec(),
            table: b"trade".to_vec(),
            term: "type".into(),
            reason: "wrong".into(),
            message: vec![0; message_bytes],
            message_bytes,
            number: None,
        }
    }

    fn ids(quarantine: &Quarantine) -> Vec<u64> {
        quarantine.iter().map(|refused| refused.id).collect()
    }

    #[test]
    fn the_oldest_make_room() {
        let mut quarantine = Quarantine::new(2, 1 << 20);
        let out: Vec<_> = (0..5).map(|time_ns| quarantine.add(refused(time_ns, 10)).1).collect();
        assert_eq!(out, [(0, 0), (0, 0), (1, 0), (1, 0), (1, 0)]);
        assert_eq!(quarantine.iter().map(|r| (r.id, r.time_ns)).collect::<Vec<_>>(), [(3, 3), (4, 4)]);
    }

    #[test]
    fn bytes_are_bounded_whatever_is_sent() {
        let mut quarantine = Quarantine::new(1000, 20_000);
        let large = |time_ns| Refused {
            table: vec![b't'; 1 << 20],
            reason: "\u{20ac}".repeat(1 << 20),
            ..refused(time_ns, 1 << 20)
        };
        let out: u64 = (0..100).map(|time_ns| quarantine.add(large(time_ns)).1.1).sum();
        assert_eq!(out as usize + quarantine.iter().len(), 100);
        assert!(quarantine.bytes <= 20_000 && quarantine.iter().len() > 1);
        assert!(quarantine.iter().all(|r| r.message.len() == 4096 && r.message_bytes == 1 << 20 && !r.is_whole()));
    }

    #[test]
    fn updates_are_found_and_removed_by_id() {
        let mut quarantine = Quarantine::new(10, 1 << 20);
        (0..5).for_each(|time_ns| drop(quarantine.add(refused(time_ns, 10))));
        let bytes = quarantine.bytes();
        quarantine.remove(&BTreeSet::from([1, 3, 99]));
        assert_eq!(ids(&quarantine), [0, 2, 4]);
        assert_eq!(quarantine.bytes(), bytes / 5 * 3);
        assert_eq!(quarantine.get(2).map(|refused| refused.time_ns), Some(2));
        assert!(quarantine.get(3).is_none());
    }

    #[test]
    fn updates_are_found_by_their_number_as_long_as_they_are_kept() {
        let mut quarantine = Quarantine::new(3, 1 << 20);
        let numbered = |publisher: &[u8], seq| Refused { number: Some((publisher.to_vec(), seq)), ..refused(0, 10) };
        for (publisher, seq) in [(b"a", 7), (b"b", 7), (b"a", 7)] {
            quarantine.add(numbered(publisher, seq));
        }
        let ids = |of: &Quarantine, publisher: &[u8], seq| of.with_number(publisher, seq).collect::<Vec<u64>>();
        assert_eq!((ids(&quarantine, b"a", 7), ids(&quarantine, b"b", 7)), (vec![0, 2], vec![1]));
        assert_eq!((ids(&quarantine, b"a", 8), ids(&quarantine, b"", 7)), (vec![], vec![]));
        let new = quarantine.mark_accepted([0, 2, 9]);
        assert_eq!((new, quarantine.mark_accepted([2])), (vec![0, 2], vec![]));
        // The oldest makes room.
        quarantine.add(refused(0, 10));
        assert_eq!(ids(&quarantine, b"a", 7), [2]);
        quarantine.remove(&BTreeSet::from([1, 2]));
        assert!(quarantine.numbered.is_empty() && quarantine.accepted.is_empty());
    }

    #[test]
    fn ids_continue_after_a_restart_and_occur_once() {
        let mut quarantine = Quarantine::new(10, 1 << 20);
        for id in [4, 7, 7, 5] {
            quarantine.restore(Refused { id, ..refused(0, 10) });
        }
        assert_eq!(ids(&quarantine), [4, 7]);
        assert_eq!(quarantine.add(refused(0, 10)).0.id, 8);
    }
}
