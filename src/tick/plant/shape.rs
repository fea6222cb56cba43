//! State fingerprint of a tickerplant, for tests and the simulator to compare states.

use super::Plant;
use crate::queue::{Queue, State};
use std::fmt::Write;

impl Plant {
    /// Returns the state that determines all further behaviour, as text, without counters and the time of day. Two tickerplants with the
    /// same fingerprint and the same input behave the same.
    pub fn shape(&self) -> String {
        let fed: Vec<i32> = self.feed.subscribers().map(crate::net::ConnId::handle).collect();
        let mut shape = format!(
            "{:?} tip {} day {:?} behind {:?} fed {fed:?} {} unanswered {} held {} {} ",
            self.time.date(),
            self.feed.tip().index,
            self.feed.tip().day,
            self.feed.behind(),
            self.queue.shape(self.steady_ns()),
            self.verification.retry_count(),
            self.held.len(),
            self.log.shape(),
        );
        put_queue(self.queue.core(), Some(self.steady_ns()), &mut shape);
        shape
    }

    /// Whether every accepted update is in the log and acknowledged.
    pub fn is_settled(&self) -> bool {
        self.log.writer().is_none_or(|log| log.tip() == self.feed.tip().index)
            && self.log.acks() == 0
            && self.held.len() == 0
    }
}

/// Appends the state of a queue that determines its behaviour, without what is only displayed. `None` for the time stands for a queue to
/// be restored: connections, grace periods and the tip (which the log has) do not count then.
pub fn put_queue(queue: &Queue, now_ns: Option<i64>, out: &mut String) {
    // Writing to a string cannot fail.
    let _ = write!(out, "{} tip {:?} ", queue.date(), now_ns.map(|_| queue.tip()));
    for sub in queue.subscribers() {
        if sub.state == State::Lost {
            // A lost node with a name gets its old place when it comes back; one without a name does not.
            if let Some(node) = &sub.node {
                let _ = write!(out, "[{node} {}]", sub.queue);
            }
            continue;
        }
        let left_ns = sub.resume_by_ns.zip(now_ns).map(|(at_ns, now_ns)| at_ns.saturating_sub(now_ns));
        let back_off = queue
            .back_off(sub.id)
            .zip(now_ns)
            .map(|(own, now_ns)| (own.pause_ns, own.until_ns.map(|until_ns| until_ns.saturating_sub(now_ns))));
        let able = now_ns.is_none() || queue.is_able(sub);
        let _ = write!(
            out,
            "[{} {} {:?} {:?} held {:?} leaves {:?} {left_ns:?} back-off {back_off:?} {able}]",
            sub.label(),
            sub.queue,
            sub.handle.filter(|_| now_ns.is_some()),
            sub.state,
            sub.held,
            sub.leaving.map(|leaving| leaving.replaced),
        );
    }
    for (name, line) in queue.lines() {
        let _ = write!(out, "{name} {line:?} ");
    }
    queue.put_sleep(now_ns, out);
}
