//! Responses held back until the file of rejected updates has what their connections have caused in it.

use crate::config::Limit;
use crate::metrics;
use crate::net::SyncRequest;
use bytes::Bytes;
use std::collections::VecDeque;

struct Held {
    /// Number of the change that must be in the file.
    change: u64,
    request: SyncRequest,
    answer: Bytes,
}

impl Held {
    fn bytes(&self) -> usize {
        size_of::<Held>().saturating_add(self.answer.len())
    }
}

/// Responses in the order in which they were held back. Changes reach the file in order, so the first one is due first, or soon.
pub(super) struct HeldResponses {
    waiting: VecDeque<Held>,
    bytes: usize,
    /// A further response is sent at once. Without this limit a peer could fill the memory with responses while a disk hangs.
    most_bytes: usize,
}

impl HeldResponses {
    pub fn new(most_bytes: usize) -> HeldResponses {
        HeldResponses { waiting: VecDeque::new(), bytes: 0, most_bytes }
    }

    /// Holds a response back until a change is in the file. Returns the response if there is no room.
    pub fn hold(&mut self, change: u64, request: SyncRequest, answer: Bytes) -> Option<Bytes> {
        let held = Held { change, request, answer };
        let bytes = self.bytes.saturating_add(held.bytes());
        if bytes > self.most_bytes {
            metrics::refused(Limit::held_responses_bytes);
            return Some(held.answer);
        }
        self.bytes = bytes;
        self.waiting.push_back(held);
        None
    }

    /// Returns the next response that is due; `has_settled`: whether a change is in the file.
    pub fn next(&mut self, mut has_settled: impl FnMut(u64) -> bool) -> Option<(SyncRequest, Bytes)> {
        let held = self.waiting.pop_front_if(|held| has_settled(held.change))?;
        self.bytes = self.bytes.saturating_sub(held.bytes());
        Some((held.request, held.answer))
    }

    pub fn len(&self) -> usize {
        self.waiting.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::net::ConnId;

    fn request(number: u64) -> SyncRequest {
        SyncRequest::new(ConnId::new(5, 1), number)
    }

    #[test]
    fn responses_wait_for_their_change_within_the_limit() {
        let mut held = HeldResponses::new(4 << 20);
        let answer = Bytes::from(vec![0; 1 << 20]);
        let refused: Vec<bool> = (1..6).map(|n| held.hold(n, request(n), answer.clone()).is_some()).collect();
        assert_eq!(refused, [false, false, false, true, true]);
        let mut due =
            |settled| std::iter::from_fn(|| held.next(|change| change <= settled)).map(|(of, _)| of).collect();
        let due: [Vec<SyncRequest>; 3] = [due(0), due(2), due(9)];
        assert_eq!(due, [vec![], vec![request(1), request(2)], vec![request(3)]]);
        assert_eq!((held.len(), held.bytes), (0, 0));
    }
}
