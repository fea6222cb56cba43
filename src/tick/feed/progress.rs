//! What each subscriber has been sent.

use super::Feed;
use super::behind::CatchUpState;
use bytes::Bytes;

/// Messages read from the log for a subscriber in catch-up.
#[derive(Clone, Debug)]
pub struct CaughtUp {
    pub messages: Bytes,
    /// Index after the last update that they cover.
    pub reached: u64,
    pub rows: u64,
}

/// What a subscriber has been sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// Rows put into its send buffer since it subscribed, or since a node requested the feed.
    pub rows: u64,
    /// Updates from the next one for its send buffer to the tip; of an earlier day, at least those of today. 0 unless it is in catch-up.
    pub lag: u64,
}

impl<K: Copy + Ord> Feed<K> {
    /// Returns the subscribers that have become slow consumers since the last call.
    pub fn take_slow(&mut self) -> Vec<K> {
        std::mem::take(&mut self.slow)
    }

    /// Returns what a subscriber has been sent; `None` without a subscription.
    pub fn progress(&self, subscriber: K) -> Option<Progress> {
        let found = self.subscribers.get(&subscriber)?;
        let of_lane = found.joined_rows.zip(self.lanes.get(&found.spec.key));
        let of_lane = of_lane.map_or(0, |(joined, lane)| lane.rows.saturating_sub(joined));
        let behind = |behind: &CatchUpState| {
            let next = if behind.next.day == self.day { behind.next.index } else { 0 };
            self.tip.saturating_sub(next)
        };
        Some(Progress { rows: found.rows.saturating_add(of_lane), lag: found.behind.as_ref().map_or(0, behind) })
    }
}
