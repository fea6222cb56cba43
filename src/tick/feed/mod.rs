//! Decides which subscriber gets which update and when: fan-out groups (`Lane`) at the tip, catch-up from the log behind it. Pure.
//!
//! A subscriber is *live* (it gets every chunk of its fan-out group) or *behind* (it is fed from the log at the pace at which its send
//! buffer drains). It goes behind when its send buffer exceeds the limit, or when it requests past updates; it becomes live again once it
//! has everything up to the tip. Both transitions happen between two event-loop iterations, so that there is neither a gap nor a
//! duplicate. An action due at a position of the feed (end of a day, changed subscription) waits as a *mark* at that position.
//!
//! While any subscriber is behind, the latest batches stay in memory up to a limit: a subscriber that is close to the tip needs no log
//! reads, and so catches up even with a feed that never pauses.

mod behind;
mod progress;

#[cfg(test)]
mod tests;

use super::core::batch::Batch;
use super::core::schema::{Form, Tables};
use super::lane::{LaneKey, LaneSpec};
use crate::less;
use behind::{CatchUpState, Mark};
use bytes::Bytes;
pub use progress::{CaughtUp, Progress};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

/// Send buffers of subscribers, by subscriber key.
pub trait Outboxes<K> {
    /// Bytes queued for a subscriber.
    fn waiting_bytes(&self, subscriber: K) -> usize;
    /// Bytes queued for all subscribers.
    fn all_waiting_bytes(&self) -> usize;
    /// Whether more is queued for the subscriber's user than the user may hold.
    fn is_user_full(&self, _subscriber: K) -> bool {
        false
    }
    fn send(&mut self, subscriber: K, messages: Bytes);
    /// Requests a call of [`Feed::pump`] once at most that many bytes are queued.
    fn notify_below(&mut self, subscriber: K, bytes: usize);
}

/// Position in the feed: a day, counted from the start of the process, and an update index in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Position {
    pub day: u32,
    pub index: u64,
}

#[derive(Clone, Debug)]
pub struct FeedLimits {
    /// Bytes in a send buffer above which its subscriber is fed from the log.
    pub outbox_bytes: usize,
    /// The same, while all send buffers together hold more than `outboxes_bytes`.
    pub crowded_outbox_bytes: usize,
    pub outboxes_bytes: usize,
    /// A subscriber in catch-up gets more once at most this much is queued for it; while all buffers together exceed
    /// their limit, only once its own is empty.
    pub low_bytes: usize,
    /// Approximate size of such a chunk, in bytes of the log.
    pub chunk_bytes: usize,
    /// Bytes of recent batches kept for subscribers that are close to the tip.
    pub recent_bytes: usize,
    /// Marks that one subscriber may have.
    pub marks: usize,
    /// Distinct subscriptions.
    pub lanes: usize,
}

impl FeedLimits {
    fn is_crowded<K>(&self, outboxes: &(impl Outboxes<K> + ?Sized)) -> bool {
        outboxes.all_waiting_bytes() > self.outboxes_bytes
    }
}

/// A log read that the caller carries out: encode the range for this fan-out group and pass the messages to [`Feed::chunk`].
#[derive(Clone, Debug)]
pub struct ReadJob<K> {
    pub subscriber: K,
    /// Number of the read, returned with its messages: a read whose subscriber has moved on meanwhile is ignored.
    pub serial: u64,
    pub from: Position,
    /// End of the range, exclusive.
    pub until: u64,
    pub spec: Arc<LaneSpec>,
    pub bytes: usize,
}

/// Number of times a slow consumer was moved to catch-up, by cause.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SlowConsumers {
    /// Its own send buffer exceeded the limit.
    pub full: u64,
    /// All send buffers together exceeded their limit.
    pub crowded: u64,
    /// Those of its user did.
    pub user: u64,
}

impl SlowConsumers {
    pub fn all(self) -> u64 {
        self.full.saturating_add(self.crowded).saturating_add(self.user)
    }
}

/// A limit that a subscriber's request exceeds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FeedError {
    #[error("more than {0} distinct subscriptions")]
    TooManyLanes(usize),
    #[error("{0} subscription changes are pending because the subscriber does not read")]
    TooManyMarks(usize),
}

struct Lane<K> {
    spec: Arc<LaneSpec>,
    members: Vec<K>,
    /// Rows sent to each member since the group began.
    rows: u64,
}

struct Subscriber {
    spec: Arc<LaneSpec>,
    /// `None` while live.
    behind: Option<CatchUpState>,
    /// Rows sent to it before it joined its fan-out group.
    rows: u64,
    /// Rows sent to the members of its group before it joined; `None` while it is in no group.
    joined_rows: Option<u64>,
}

impl Subscriber {
    fn new(spec: Arc<LaneSpec>) -> Subscriber {
        Subscriber { spec, behind: None, rows: 0, joined_rows: None }
    }

    /// Counts what its group was sent until it leaves it.
    fn leaves(&mut self, group_rows: u64) {
        if let Some(joined) = self.joined_rows.take() {
            self.rows = self.rows.saturating_add(group_rows.saturating_sub(joined));
        }
    }
}

/// Fan-out groups and subscribers of a tickerplant.
pub struct Feed<K> {
    tables: Arc<Tables>,
    limits: FeedLimits,
    lanes: BTreeMap<LaneKey, Lane<K>>,
    subscribers: BTreeMap<K, Subscriber>,
    behind: usize,
    next_serial: u64,
    day: u32,
    /// Index of the next update.
    tip: u64,
    /// Updates before this index were sent to the groups of batch mode.
    merged_tip: u64,
    /// Recent batches in order; the last one ends at the tip.
    recent: VecDeque<Batch>,
    recent_bytes: usize,
    demotions: SlowConsumers,
    /// Slow consumers since [`Feed::take_slow`].
    slow: Vec<K>,
}

impl<K: Copy + Ord> Feed<K> {
    pub fn new(tables: Arc<Tables>, limits: FeedLimits, tip: u64) -> Feed<K> {
        Feed {
            tables,
            limits,
            lanes: BTreeMap::new(),
            subscribers: BTreeMap::new(),
            behind: 0,
            next_serial: 0,
            day: 0,
            tip,
            merged_tip: tip,
            recent: VecDeque::new(),
            recent_bytes: 0,
            demotions: SlowConsumers::default(),
            slow: Vec::new(),
        }
    }

    /// Position after the last published update.
    pub fn tip(&self) -> Position {
        Position { day: self.day, index: self.tip }
    }

    /// Updates before this index were sent to the groups of batch mode: `.u.i` in batch mode.
    pub fn merged_tip(&self) -> u64 {
        self.merged_tip
    }

    /// Number of subscribers in catch-up.
    pub fn behind(&self) -> usize {
        self.behind
    }

    pub fn demotions(&self) -> SlowConsumers {
        self.demotions
    }

    pub fn lanes(&self) -> usize {
        self.lanes.len()
    }

    pub fn is_subscribed(&self, subscriber: K) -> bool {
        self.subscribers.contains_key(&subscriber)
    }

    /// Whether a subscriber gets every update from here on, now or once it has caught up.
    pub fn is_fed_on(&self, subscriber: K) -> bool {
        self.subscribers.get(&subscriber).is_some_and(|found| !found.behind.as_ref().is_some_and(CatchUpState::stops))
    }

    /// Whether a subscriber has received everything up to the tip and gets the next update at once.
    pub fn is_at_tip(&self, subscriber: K) -> bool {
        self.subscribers.get(&subscriber).is_some_and(|found| found.behind.is_none())
    }

    /// All subscribers with a subscription.
    pub fn subscribers(&self) -> impl Iterator<Item = K> {
        self.subscribers.keys().copied()
    }

    /// Sends a batch to every fan-out group outside batch mode. Returns the batch for reuse, unless it is kept for catch-up.
    pub fn publish(&mut self, batch: Batch, outboxes: &mut (impl Outboxes<K> + ?Sized)) -> Batch {
        let first = Position { day: self.day, index: self.tip };
        self.fan_out(&batch, false, first, outboxes);
        self.tip = batch.tip();
        let next = self.tip;
        if self.behind == 0 {
            return batch;
        }
        self.recent_bytes = self.recent_bytes.saturating_add(batch.bytes().len());
        self.recent.push_back(batch);
        self.trim_recent();
        Batch::new(next)
    }

    /// Changes a table, which keeps its index; the next update is the schema change. Nodes that take the table get that message at once,
    /// other subscribers see the new columns in their next update. Call this after everything was sent to the groups of batch mode.
    pub fn change_table(
        &mut self,
        tables: Arc<Tables>,
        table: usize,
        message: &Bytes,
        outboxes: &mut (impl Outboxes<K> + ?Sized),
    ) {
        let nodes = self.lanes.values().filter(|lane| lane.spec.key.form == Form::Indexed);
        for lane in nodes.filter(|lane| lane.spec.filter(table).is_some()) {
            lane.members.iter().for_each(|member| outboxes.send(*member, message.clone()));
        }
        self.tables = tables;
        self.tip = self.tip.saturating_add(1);
        self.merged_tip = self.tip;
        // The kept batches have the old columns: catch-up reads them from the log.
        self.recent.clear();
        self.recent_bytes = 0;
    }

    /// Sends `merged` to the groups of batch mode: the rows of all updates up to the tip that they have not received.
    pub fn publish_merged(&mut self, merged: &Batch, outboxes: &mut (impl Outboxes<K> + ?Sized)) {
        let first = Position { day: self.day, index: self.merged_tip };
        self.fan_out(merged, true, first, outboxes);
        self.merged_tip = self.tip;
    }

    fn fan_out(&mut self, batch: &Batch, merged: bool, first: Position, outboxes: &mut (impl Outboxes<K> + ?Sized)) {
        let mut slow = Vec::new();
        for lane in self.lanes.values_mut().filter(|lane| lane.spec.key.merged == merged) {
            let (mut frames, mut rows) = (Vec::new(), 0u64);
            for (update, index) in batch.updates().iter().zip(batch.first_index()..) {
                let sent = lane.spec.encode(&self.tables, batch, update, index, &mut frames);
                rows = rows.saturating_add(sent as u64);
            }
            if frames.is_empty() {
                continue;
            }
            let frames = Bytes::from(frames);
            let crowded = self.limits.is_crowded(outboxes);
            let limit = if crowded { self.limits.crowded_outbox_bytes } else { self.limits.outbox_bytes };
            lane.members.retain(|member| {
                let bytes = outboxes.waiting_bytes(*member).saturating_add(frames.len());
                let is_shared = bytes > self.limits.crowded_outbox_bytes && outboxes.is_user_full(*member);
                let fits = bytes <= limit && !is_shared;
                if fits {
                    outboxes.send(*member, frames.clone());
                } else {
                    slow.push((*member, bytes > self.limits.outbox_bytes, is_shared));
                    if let Some(found) = self.subscribers.get_mut(member) {
                        found.leaves(lane.rows);
                    }
                }
                fits
            });
            lane.rows = lane.rows.saturating_add(rows);
        }
        for (subscriber, is_full, is_shared) in slow {
            let count = match (is_full, is_shared) {
                (true, _) => &mut self.demotions.full,
                (false, true) => &mut self.demotions.user,
                (false, false) => &mut self.demotions.crowded,
            };
            *count = count.saturating_add(1);
            self.fall_behind(subscriber, first);
            self.slow.push(subscriber);
            outboxes.notify_below(subscriber, self.limits.low_bytes);
        }
    }

    /// Subscribes, or changes the subscription from the tip on. An empty key ends it.
    ///
    /// # Errors
    /// A limit is exceeded; nothing changes.
    pub fn subscribe(&mut self, subscriber: K, key: LaneKey) -> Result<(), FeedError> {
        let spec = self.spec(key)?;
        let at = self.merged_or_tip(spec.key.merged);
        match self.subscribers.get_mut(&subscriber) {
            Some(Subscriber { behind: Some(behind), .. }) => {
                return behind.mark(at, Mark::Spec(spec), self.limits.marks);
            }
            Some(_) => self.leave_lane(subscriber),
            None => {}
        }
        if spec.key.is_empty() {
            self.subscribers.remove(&subscriber);
        } else {
            let found = self.subscribers.entry(subscriber).or_insert_with(|| Subscriber::new(Arc::clone(&spec)));
            found.spec = Arc::clone(&spec);
            self.join_lane(subscriber, spec);
        }
        Ok(())
    }

    /// Removes a subscriber at once, including everything not yet sent to it.
    pub fn remove(&mut self, subscriber: K) {
        self.leave_lane(subscriber);
        if self.subscribers.remove(&subscriber).is_some_and(|gone| gone.behind.is_some()) {
            self.behind = less!(self.behind, 1);
            self.trim_recent();
        }
    }

    /// Feeds a subscriber from an update of the current day on, whatever it received before.
    ///
    /// # Errors
    /// A limit is exceeded; nothing changes.
    pub fn start_from(&mut self, subscriber: K, key: LaneKey, first: u64) -> Result<(), FeedError> {
        let spec = self.spec(key)?;
        self.restart(subscriber, spec, first);
        Ok(())
    }

    /// Sends a subscriber a window of the current day and then the message `done`, whatever it received before.
    ///
    /// # Errors
    /// A limit is exceeded; nothing changes.
    pub fn stream(&mut self, subscriber: K, key: LaneKey, first: u64, last: u64, done: Bytes) -> Result<(), FeedError> {
        let spec = self.spec(key)?;
        let end = Position { day: self.day, index: last.min(self.tip) };
        self.restart(subscriber, spec, first);
        let Some(behind) = self.subscribers.get_mut(&subscriber).and_then(|found| found.behind.as_mut()) else {
            return Ok(());
        };
        behind.mark(end, Mark::Message(done), self.limits.marks)?;
        behind.mark(end, Mark::Stop, self.limits.marks)
    }

    fn restart(&mut self, subscriber: K, spec: Arc<LaneSpec>, first: u64) {
        self.remove(subscriber);
        self.subscribers.insert(subscriber, Subscriber::new(spec));
        let from = Position { day: self.day, index: first.min(self.tip) };
        self.fall_behind(subscriber, from);
    }

    /// Ends the day: every subscriber gets `message` after the last update. The next update has index `tip`, that of the new day's log. A
    /// log that already has updates is sent to every subscriber from its beginning, so that none holds a part of a day.
    pub fn end_day(&mut self, message: &Bytes, tip: u64, outboxes: &mut (impl Outboxes<K> + ?Sized)) {
        let end = self.tip();
        let mut live = Vec::new();
        for (name, subscriber) in &mut self.subscribers {
            match &mut subscriber.behind {
                None => {
                    outboxes.send(*name, message.clone());
                    live.push(*name);
                }
                Some(behind) => behind.end_day(end, &subscriber.spec, message),
            }
        }
        self.day = self.day.saturating_add(1);
        self.tip = tip;
        self.merged_tip = tip;
        self.recent.clear();
        self.recent_bytes = 0;
        if tip > 0 {
            for subscriber in live {
                self.fall_behind(subscriber, Position { day: self.day, index: 0 });
                outboxes.notify_below(subscriber, self.limits.low_bytes);
            }
        }
    }

    /// Oldest day whose log some subscriber still needs.
    pub fn oldest_day(&self) -> u32 {
        let behind = self.subscribers.values().filter_map(|subscriber| subscriber.behind.as_ref());
        behind.map(|behind| behind.next.day).min().unwrap_or(self.day).min(self.day)
    }

    /// Sends a subscriber in catch-up as much as its send buffer has room for, from memory if possible. Otherwise returns the log read to
    /// carry out.
    pub fn pump(&mut self, subscriber: K, outboxes: &mut (impl Outboxes<K> + ?Sized)) -> Option<ReadJob<K>> {
        loop {
            let found = self.subscribers.get_mut(&subscriber)?;
            let behind = found.behind.as_mut()?;
            if behind.reading.is_some() {
                return None;
            }
            let is_crowded = self.limits.is_crowded(outboxes) || outboxes.is_user_full(subscriber);
            let low = if is_crowded { 0 } else { self.limits.low_bytes };
            if outboxes.waiting_bytes(subscriber) > low {
                outboxes.notify_below(subscriber, low);
                return None;
            }
            match behind.take_due_mark() {
                Some(Mark::Message(message)) => {
                    outboxes.send(subscriber, message);
                    continue;
                }
                Some(Mark::Spec(spec)) => {
                    found.spec = spec;
                    continue;
                }
                Some(Mark::NextDay) => {
                    behind.next = Position { day: behind.next.day.saturating_add(1), index: 0 };
                    continue;
                }
                Some(Mark::Stop) => {
                    self.remove(subscriber);
                    return None;
                }
                None => {}
            }
            let next = behind.next;
            let merged = found.spec.key.merged;
            let tip = if merged { self.merged_tip } else { self.tip };
            let until = behind.next_mark().filter(|mark| mark.day == next.day).map_or(tip, |mark| mark.index);
            if next.day == self.day && next.index >= until {
                self.catch_up(subscriber);
                return None;
            }
            let spec = Arc::clone(&found.spec);
            if let Some(CaughtUp { messages, reached, rows }) = self.recent_messages(&spec, next, until) {
                let found = self.subscribers.get_mut(&subscriber)?;
                found.rows = found.rows.saturating_add(rows);
                found.behind.as_mut()?.next.index = reached;
                outboxes.send(subscriber, messages);
                continue;
            }
            self.next_serial = self.next_serial.wrapping_add(1);
            let serial = self.next_serial;
            self.subscribers.get_mut(&subscriber)?.behind.as_mut()?.reading = Some(serial);
            let bytes = self.limits.chunk_bytes;
            return Some(ReadJob { subscriber, serial, from: next, until, spec, bytes });
        }
    }

    /// Takes the result of a read. Call [`Feed::pump`] next. Returns false if the read is obsolete.
    pub fn chunk(
        &mut self,
        subscriber: K,
        serial: u64,
        read: CaughtUp,
        outboxes: &mut (impl Outboxes<K> + ?Sized),
    ) -> bool {
        let Some(found) = self.subscribers.get_mut(&subscriber) else { return false };
        let Some(behind) = found.behind.as_mut().filter(|behind| behind.reading == Some(serial)) else { return false };
        behind.reading = None;
        behind.next.index = read.reached;
        found.rows = found.rows.saturating_add(read.rows);
        outboxes.send(subscriber, read.messages);
        true
    }

    /// Returns about one chunk of messages from `next` on as far as the updates are in memory, and the index after the last of them.
    fn recent_messages(&self, spec: &LaneSpec, next: Position, until: u64) -> Option<CaughtUp> {
        let first = self.recent.front()?;
        if next.day != self.day || next.index < first.first_index() {
            return None;
        }
        let (mut frames, mut rows) = (Vec::new(), 0u64);
        let mut reached = next.index;
        'batches: for batch in self.recent.iter().filter(|batch| batch.tip() > next.index) {
            for (update, index) in batch.updates().iter().zip(batch.first_index()..) {
                if index < next.index {
                    continue;
                }
                if index >= until || frames.len() >= self.limits.chunk_bytes {
                    break 'batches;
                }
                rows = rows.saturating_add(spec.encode(&self.tables, batch, update, index, &mut frames) as u64);
                reached = index.saturating_add(1);
            }
        }
        (reached > next.index).then(|| CaughtUp { messages: frames.into(), reached, rows })
    }

    fn merged_or_tip(&self, merged: bool) -> Position {
        Position { day: self.day, index: if merged { self.merged_tip } else { self.tip } }
    }

    fn spec(&self, key: LaneKey) -> Result<Arc<LaneSpec>, FeedError> {
        match self.lanes.get(&key) {
            Some(lane) => Ok(Arc::clone(&lane.spec)),
            None if self.lanes.len() >= self.limits.lanes && !key.is_empty() => {
                Err(FeedError::TooManyLanes(self.limits.lanes))
            }
            None => Ok(LaneSpec::new(key)),
        }
    }

    fn join_lane(&mut self, subscriber: K, spec: Arc<LaneSpec>) {
        let key = spec.key.clone();
        let lane = self.lanes.entry(key).or_insert_with(|| Lane { spec, members: Vec::new(), rows: 0 });
        lane.members.push(subscriber);
        if let Some(found) = self.subscribers.get_mut(&subscriber) {
            found.joined_rows = Some(lane.rows);
        }
    }

    fn leave_lane(&mut self, subscriber: K) {
        let Some(found) = self.subscribers.get_mut(&subscriber) else { return };
        let Some(lane) = self.lanes.get_mut(&found.spec.key) else { return };
        found.leaves(lane.rows);
        lane.members.retain(|member| *member != subscriber);
        if lane.members.is_empty() {
            self.lanes.remove(&found.spec.key);
        }
    }

    fn fall_behind(&mut self, subscriber: K, next: Position) {
        self.leave_lane(subscriber);
        if let Some(found) = self.subscribers.get_mut(&subscriber)
            && found.behind.replace(CatchUpState::new(next)).is_none()
        {
            self.behind = self.behind.saturating_add(1);
        }
    }

    fn catch_up(&mut self, subscriber: K) {
        let Some(found) = self.subscribers.get_mut(&subscriber) else { return };
        if found.behind.take().is_some() {
            self.behind = less!(self.behind, 1);
        }
        let spec = Arc::clone(&found.spec);
        if spec.key.is_empty() {
            self.subscribers.remove(&subscriber);
        } else {
            self.join_lane(subscriber, spec);
        }
        self.trim_recent();
    }

    fn trim_recent(&mut self) {
        let most = if self.behind == 0 { 0 } else { self.limits.recent_bytes };
        while self.recent_bytes > most || self.behind == 0 {
            let Some(oldest) = self.recent.pop_front() else { return };
            self.recent_bytes = less!(self.recent_bytes, oldest.bytes().len());
        }
    }
}
