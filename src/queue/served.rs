//! Updates of a queue that no connected subscriber serves.

use super::ids::{QueueName, UpdateIndex};
use super::table::{Queue, State};

impl Queue {
    /// Returns the number of updates before `tip`, and not written down by another process, that no connected subscriber of the queue holds, so that they cannot be queried. Those
    /// of a live one count as held, although it may still catch up.
    pub fn unserved(&self, queue: &QueueName, tip: UpdateIndex) -> u64 {
        let open = self.lines().get(queue).map_or(tip, |line| line.open);
        let here = self.subscribers().iter().filter(|sub| sub.queue == *queue && sub.handle.is_some());
        let mut held: Vec<(u64, u64)> = Vec::new();
        for sub in here.filter(|sub| sub.state != State::Lost) {
            held.extend(sub.held.iter().map(|held| (held.window.first().0, held.window.last().0)));
            if sub.state == State::Live {
                held.push((open.0, tip.0));
            }
        }
        held.sort_unstable();
        // A window that changes hands has two holders for a moment.
        let (mut unserved, mut next) = (0u64, self.written().0);
        for (first, last) in held {
            unserved = unserved.saturating_add(first.saturating_sub(next));
            next = next.max(last);
        }
        unserved.saturating_add(tip.0.saturating_sub(next))
    }
}
