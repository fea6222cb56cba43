//! Who gets which update, and when: lanes at the tip, and subscribers behind it. Pure.
//!
//! A subscriber is *live* (it gets every turn's chunk of its lane) or *behind* (it is fed from the log, at the pace at which
//! its outbox empties). It falls behind when its outbox is over the limit, or because it asked for updates of the past; it
//! becomes live again at the moment when it has been given everything up to the tip. Both steps happen between two turns, so
//! that there is neither a gap nor a duplicate. What it must get at a certain point of the feed (the end of a day, a changed
//! subscription) waits as a *mark* at that point.
//!
//! As long as anyone is behind, the latest turns are kept in memory, up to a limit: who has come that near does not need the
//! log any more, and so can catch up with a feed that never pauses.

mod behind;

#[cfg(test)]
mod tests;

use super::core::batch::Batch;
use super::core::schema::{Form, Tables};
use super::lane::{LaneKey, LaneSpec};
use crate::defect::{Defect, is_planted};
use behind::{Behind, Mark};
use bytes::Bytes;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

/// Outboxes of subscribers, by whatever names them.
pub trait Outboxes<K> {
    /// Bytes that wait.
    fn waiting_bytes(&self, subscriber: K) -> usize;
    /// Bytes that wait over all of them.
    fn all_waiting_bytes(&self) -> usize;
    fn send(&mut self, subscriber: K, messages: Bytes);
    /// Asks for [`Feed::pump`] when no more than so many bytes wait.
    fn notify_below(&mut self, subscriber: K, bytes: usize);
}

/// A point in the feed: a day, counted from the start of the process, and an update index in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Position {
    pub day: u32,
    pub index: u64,
}

#[derive(Clone, Debug)]
pub struct FeedLimits {
    /// Bytes in an outbox above which its subscriber is fed from the log.
    pub outbox_bytes: usize,
    /// The same, once all outboxes together hold more than `outboxes_bytes`.
    pub crowded_outbox_bytes: usize,
    pub outboxes_bytes: usize,
    /// A subscriber that is behind gets more when no more than this waits for it, or nothing, where outboxes are crowded.
    pub low_bytes: usize,
    /// About how much it then gets, in bytes of the log.
    pub chunk_bytes: usize,
    /// Latest turns kept for those who are nearly there.
    pub recent_bytes: usize,
    /// Marks that wait for one subscriber.
    pub marks: usize,
    /// Distinct subscriptions.
    pub lanes: usize,
}

impl FeedLimits {
    fn is_crowded<K>(&self, outboxes: &(impl Outboxes<K> + ?Sized)) -> bool {
        outboxes.all_waiting_bytes() > self.outboxes_bytes
    }
}

/// Read this from the log, put it into messages of that lane, and hand them to [`Feed::chunk`].
#[derive(Clone, Debug)]
pub struct ReadJob<K> {
    pub subscriber: K,
    /// To be handed back: says whether the answer is still wanted.
    pub serial: u64,
    pub from: Position,
    /// The first index of that day which is not wanted.
    pub until: u64,
    pub spec: Arc<LaneSpec>,
    pub bytes: usize,
}

/// How often a subscriber was too slow and fell behind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Demotions {
    /// Its own outbox was over the limit.
    pub full: u64,
    /// All outboxes together were.
    pub crowded: u64,
}

impl Demotions {
    pub fn all(self) -> u64 {
        self.full.saturating_add(self.crowded)
    }
}

/// The subscriber asks for too much at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FeedError {
    #[error("more than {0} distinct subscriptions")]
    TooManyLanes(usize),
    #[error("{0} changes of subscription wait while the subscriber does not read")]
    TooManyMarks(usize),
}

struct Lane<K> {
    spec: Arc<LaneSpec>,
    members: Vec<K>,
}

struct Subscriber {
    spec: Arc<LaneSpec>,
    /// `None` while live.
    behind: Option<Behind>,
}

/// Lanes and subscribers of a tickerplant.
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
    /// Updates before this one were told to merged lanes.
    merged_tip: u64,
    /// Turns in order, the last one ends at the tip.
    recent: VecDeque<Batch>,
    recent_bytes: usize,
    demotions: Demotions,
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
            demotions: Demotions::default(),
        }
    }

    /// The point behind the last update published.
    pub fn tip(&self) -> Position {
        Position { day: self.day, index: self.tip }
    }

    /// Updates before this one were told to merged lanes: `.u.i` in batch mode.
    pub fn merged_tip(&self) -> u64 {
        self.merged_tip
    }

    /// Subscribers that are fed from the log.
    pub fn behind(&self) -> usize {
        self.behind
    }

    pub fn demotions(&self) -> Demotions {
        self.demotions
    }

    pub fn lanes(&self) -> usize {
        self.lanes.len()
    }

    pub fn is_subscribed(&self, subscriber: K) -> bool {
        self.subscribers.contains_key(&subscriber)
    }

    /// Whether a subscriber is given whatever comes, now or when it has caught up.
    pub fn is_fed_on(&self, subscriber: K) -> bool {
        self.subscribers.get(&subscriber).is_some_and(|found| !found.behind.as_ref().is_some_and(Behind::stops))
    }

    /// Whether a subscriber has been given all there is, and is given the next update as it comes.
    pub fn is_at_tip(&self, subscriber: K) -> bool {
        self.subscribers.get(&subscriber).is_some_and(|found| found.behind.is_none())
    }

    /// Everyone who is subscribed to anything.
    pub fn subscribers(&self) -> impl Iterator<Item = K> {
        self.subscribers.keys().copied()
    }

    /// Tells a turn's updates to every lane that is not merged. Gives the batch back to be used again, where it is not kept.
    pub fn publish(&mut self, batch: Batch, outboxes: &mut (impl Outboxes<K> + ?Sized)) -> Batch {
        let first = Position { day: self.day, index: self.tip };
        self.tell(&batch, false, first, outboxes);
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

    /// The next update changes a table, whose place stays: nodes that take it are told at once, others see its next update. Call
    /// this when merged lanes have been told everything.
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
        // They are of the table as it was: who is behind reads them from the log.
        self.recent.clear();
        self.recent_bytes = 0;
    }

    /// Tells merged lanes what `merged` holds: the rows of all updates up to the tip that they were not told yet.
    pub fn publish_merged(&mut self, merged: &Batch, outboxes: &mut (impl Outboxes<K> + ?Sized)) {
        let first = Position { day: self.day, index: self.merged_tip };
        self.tell(merged, true, first, outboxes);
        self.merged_tip = self.tip;
    }

    fn tell(&mut self, batch: &Batch, merged: bool, first: Position, outboxes: &mut (impl Outboxes<K> + ?Sized)) {
        let mut slow = Vec::new();
        for lane in self.lanes.values_mut().filter(|lane| lane.spec.key.merged == merged) {
            let mut frames = Vec::new();
            for (update, index) in batch.updates().iter().zip(batch.first_index()..) {
                lane.spec.encode(&self.tables, batch, update, index, &mut frames);
            }
            if frames.is_empty() {
                continue;
            }
            let frames = Bytes::from(frames);
            let crowded = self.limits.is_crowded(outboxes);
            let limit = if crowded { self.limits.crowded_outbox_bytes } else { self.limits.outbox_bytes };
            lane.members.retain(|member| {
                let bytes = outboxes.waiting_bytes(*member).saturating_add(frames.len());
                let fits = bytes <= limit;
                if fits {
                    outboxes.send(*member, frames.clone());
                } else if !is_planted(Defect::SlowSubscriberLosesUpdates) {
                    slow.push((*member, bytes > self.limits.outbox_bytes));
                }
                fits || is_planted(Defect::SlowSubscriberLosesUpdates)
            });
        }
        for (subscriber, is_full) in slow {
            let count = if is_full { &mut self.demotions.full } else { &mut self.demotions.crowded };
            *count = count.saturating_add(1);
            self.fall_behind(subscriber, first);
            outboxes.notify_below(subscriber, self.limits.low_bytes);
        }
    }

    /// Subscribes, or changes the subscription from the tip on. An empty one ends it.
    ///
    /// # Errors
    /// A limit; nothing has changed then.
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
            self.subscribers.insert(subscriber, Subscriber { spec: Arc::clone(&spec), behind: None });
            self.join_lane(subscriber, spec);
        }
        Ok(())
    }

    /// Forgets a subscriber at once, with whatever it has not been given.
    pub fn remove(&mut self, subscriber: K) {
        self.leave_lane(subscriber);
        if self.subscribers.remove(&subscriber).is_some_and(|gone| gone.behind.is_some()) {
            self.behind = self.behind.saturating_sub(1);
            self.trim_recent();
        }
    }

    /// Feeds a subscriber from an update of the current day on, whatever it got before.
    ///
    /// # Errors
    /// A limit; nothing has changed then.
    pub fn start_from(&mut self, subscriber: K, key: LaneKey, first: u64) -> Result<(), FeedError> {
        let spec = self.spec(key)?;
        self.restart(subscriber, spec, first);
        Ok(())
    }

    /// Gives a subscriber a window of the current day and then a message, whatever it got before.
    ///
    /// # Errors
    /// A limit; nothing has changed then.
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
        self.subscribers.insert(subscriber, Subscriber { spec, behind: None });
        let from = Position { day: self.day, index: first.min(self.tip) };
        self.fall_behind(subscriber, from);
    }

    /// The day has ended: everyone gets `message` behind the last update, and the next update has index `tip`, that of the new day's
    /// log. What is in that log already everyone is given from its begin on, so that nobody has a part of a day.
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

    /// The oldest day that someone still has to be fed from.
    pub fn oldest_day(&self) -> u32 {
        let behind = self.subscribers.values().filter_map(|subscriber| subscriber.behind.as_ref());
        behind.map(|behind| behind.next.day).min().unwrap_or(self.day).min(self.day)
    }

    /// Gives a subscriber that is behind what its outbox has room for, from memory where that is kept. Otherwise answers what
    /// is to be read for it.
    pub fn pump(&mut self, subscriber: K, outboxes: &mut (impl Outboxes<K> + ?Sized)) -> Option<ReadJob<K>> {
        loop {
            let found = self.subscribers.get_mut(&subscriber)?;
            let behind = found.behind.as_mut()?;
            if behind.reading.is_some() {
                return None;
            }
            let low = if self.limits.is_crowded(outboxes) { 0 } else { self.limits.low_bytes };
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
            if let Some((frames, reached)) = self.recent_messages(&spec, next, until) {
                let behind = self.subscribers.get_mut(&subscriber)?.behind.as_mut()?;
                behind.next.index = reached;
                outboxes.send(subscriber, frames);
                continue;
            }
            self.next_serial = self.next_serial.wrapping_add(1);
            let serial = self.next_serial;
            self.subscribers.get_mut(&subscriber)?.behind.as_mut()?.reading = Some(serial);
            let bytes = self.limits.chunk_bytes;
            return Some(ReadJob { subscriber, serial, from: next, until, spec, bytes });
        }
    }

    /// What was read for a subscriber: its messages, and the index behind the last update that they cover. Call
    /// [`Feed::pump`] next. False if it is not wanted any more.
    pub fn chunk(
        &mut self,
        subscriber: K,
        serial: u64,
        messages: Bytes,
        reached: u64,
        outboxes: &mut (impl Outboxes<K> + ?Sized),
    ) -> bool {
        let behind = self.subscribers.get_mut(&subscriber).and_then(|found| found.behind.as_mut());
        let Some(behind) = behind.filter(|behind| behind.reading == Some(serial)) else { return false };
        behind.reading = None;
        behind.next.index = reached.saturating_add(u64::from(is_planted(Defect::RejoinsOneLate) && reached < self.tip));
        outboxes.send(subscriber, messages);
        true
    }

    /// Messages for updates from `next` on, as far as they are in memory, about a chunk of them; and how far they reach.
    fn recent_messages(&self, spec: &LaneSpec, next: Position, until: u64) -> Option<(Bytes, u64)> {
        let first = self.recent.front()?;
        if next.day != self.day || next.index < first.first_index() {
            return None;
        }
        let mut frames = Vec::new();
        let mut reached = next.index;
        'batches: for batch in self.recent.iter().filter(|batch| batch.tip() > next.index) {
            for (update, index) in batch.updates().iter().zip(batch.first_index()..) {
                if index < next.index {
                    continue;
                }
                if index >= until || frames.len() >= self.limits.chunk_bytes {
                    break 'batches;
                }
                spec.encode(&self.tables, batch, update, index, &mut frames);
                reached = index.saturating_add(1);
            }
        }
        (reached > next.index).then(|| (Bytes::from(frames), reached))
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
        self.lanes.entry(key).or_insert_with(|| Lane { spec, members: Vec::new() }).members.push(subscriber);
    }

    fn leave_lane(&mut self, subscriber: K) {
        let Some(found) = self.subscribers.get(&subscriber) else { return };
        let Some(lane) = self.lanes.get_mut(&found.spec.key) else { return };
        lane.members.retain(|member| *member != subscriber);
        if lane.members.is_empty() {
            self.lanes.remove(&found.spec.key);
        }
    }

    fn fall_behind(&mut self, subscriber: K, next: Position) {
        self.leave_lane(subscriber);
        if let Some(found) = self.subscribers.get_mut(&subscriber)
            && found.behind.replace(Behind::new(next)).is_none()
        {
            self.behind = self.behind.saturating_add(1);
        }
    }

    fn catch_up(&mut self, subscriber: K) {
        let Some(found) = self.subscribers.get_mut(&subscriber) else { return };
        if found.behind.take().is_some() {
            self.behind = self.behind.saturating_sub(1);
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
            self.recent_bytes = self.recent_bytes.saturating_sub(oldest.bytes().len());
        }
    }
}
