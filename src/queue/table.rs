//! The table: subscribers in order of arrival, and for each queue the windows that no subscriber holds.

use super::back_off::BackOff;
use super::departed::Departed;
use super::event::{Status, Subscription};
use super::evict::Evicted;
use super::groups::LastSent;
use super::ids::{Date, Handle, NodeName, QueueName, Symbol, UpdateIndex, Window};
use super::journal::{Change, Record};
use super::leave::Leaving;
use super::note::Note;
use crate::config::Wake;
use core::net::IpAddr;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Time-outs and capacity limits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Params {
    /// Grace period: time for which a disconnected native node keeps its windows, nanoseconds.
    pub grace_ns: i64,
    /// Grace period after a restart of the tickerplant, nanoseconds.
    pub restart_grace_ns: i64,
    /// Time for a connected native node to send the proof of a closed window, nanoseconds. After that another node rebuilds the window.
    pub prove_ns: i64,
    /// Standbys of each queue that stay over the end of the day. The paper keeps none.
    pub standbys_kept: usize,
    /// Rebuilds of a window whose proof differs; after these it is kept and marked as differing.
    pub rebuilds_max: u8,
    /// Maximum number of subscribers over all queues.
    pub subscribers_max: usize,
    /// Maximum number of queues in a day.
    pub queues_max: usize,
    /// Maximum number of rows kept for display of lost subscribers; the oldest are removed first.
    pub lost_rows_max: usize,
    /// Maximum number of closed windows that a node may claim in a join.
    pub held_windows_max: usize,
    /// Time after an instance's first node during which its nodes of other queues are still expected, nanoseconds. Applies where instances
    /// host one node of each of several queues.
    pub companions_ns: i64,
    /// First and longest back-off of a node that gave a window back untouched, nanoseconds; each back-off doubles.
    pub rest_first_ns: i64,
    pub rest_most_ns: i64,
    /// Maximum number of a queue's full standbys to request replacements for: more of them share one cause, which replacements would not
    /// cure.
    pub unable_replaced_max: usize,
    /// Interval at which a request for missing nodes is repeated, nanoseconds: instances that satisfied the last request may have ended
    /// since and reduced the group's capacity.
    pub need_again_ns: i64,
    /// Interval at which a request for first nodes is repeated, nanoseconds: instances that satisfied it may be about to end, as those of the
    /// day before are.
    pub first_again_ns: i64,
    /// Time from the request for an instance until its node has joined, at most, nanoseconds. After that a node that joins a queue that sleeps
    /// was started on purpose.
    pub launch_ns: i64,
    /// Groups whose first nodes the tickerplant requests, because no node is there that can.
    pub groups: Vec<Symbol>,
    /// When the queues of these groups have their first node.
    pub wake: Wake,
    /// Time without updates and queries after which the queues of these groups sleep, nanoseconds; `i64::MAX` for never.
    pub idle_ns: i64,
}

impl Default for Params {
    fn default() -> Params {
        Params {
            grace_ns: 2_000_000_000,
            restart_grace_ns: 30_000_000_000,
            prove_ns: 60_000_000_000,
            standbys_kept: 0,
            rebuilds_max: 3,
            subscribers_max: 1_024,
            queues_max: 256,
            lost_rows_max: 64,
            held_windows_max: 64,
            companions_ns: 30_000_000_000,
            rest_first_ns: 1_000_000_000,
            rest_most_ns: 60_000_000_000,
            unable_replaced_max: 2,
            need_again_ns: 30_000_000_000,
            first_again_ns: 5_000_000_000,
            launch_ns: 600_000_000_000,
            groups: Vec::new(),
            wake: Wake::default(),
            idle_ns: i64::MAX,
        }
    }
}

/// Position of a subscriber in order of arrival; never reused within a day's journal.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SubscriberId(pub u64);

/// Protocol of a subscriber.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// `elastick rdb`: has a name, can reconnect, proves what it holds.
    Native,
    /// A paper client: `asg/r.q` in any q process.
    Paper,
}

/// State of a subscriber. [`Subscriber::handle`] shows whether it is connected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// Standby: holds nothing; the longest-waiting one is next.
    Waiting,
    /// Active: receives the feed; its window starts at `open` of its [`Line`].
    Live,
    /// Replays a closed window that a lost node held.
    Rebuilding { window: Window, rejections: u8 },
    /// Replays, hidden from queries, a window (or part of one) of a draining node. The draining node holds it until its replacement is
    /// `proved`.
    TakingOver { window: Window, rejections: u8, progress: Progress },
    /// Sealed: holds its closed windows and takes no more updates.
    Rolled,
    /// Dead: its windows are given up; the row is kept for display.
    Lost,
}

impl State {
    /// Returns the state's name in `.u.asg.tab`.
    pub fn name(self) -> &'static str {
        match self {
            State::Waiting => "waiting",
            State::Live => "live",
            State::Rebuilding { .. } => "rebuilding",
            State::TakingOver { .. } => "taking",
            State::Rolled => "rolled",
            State::Lost => "lost",
        }
    }
}

/// Progress of a takeover.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    Replaying,
    /// The window is complete; its proof is being compared.
    Filled,
    /// `as_logged` is false only after the maximum number of rebuilds has failed.
    Proved {
        as_logged: bool,
    },
}

/// A closed window that a subscriber holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Held {
    pub window: Window,
    /// Result of comparing its proof with the log; `None` before that.
    pub verified: Option<bool>,
    /// Number of times that this window was rebuilt because its proof differed.
    pub rejections: u8,
}

/// A closed window that no subscriber holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lost {
    pub window: Window,
    pub rejections: u8,
}

/// One subscriber. The journal stores all of these fields.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Subscriber {
    pub id: SubscriberId,
    /// Time of arrival by the wall clock; for display, as are `live_ns` and `rolled_ns`.
    pub time_ns: i64,
    /// `None` while disconnected.
    pub handle: Option<Handle>,
    /// `None` for a paper client.
    pub node: Option<NodeName>,
    pub queue: QueueName,
    pub subscription: Arc<Subscription>,
    pub ip: IpAddr,
    pub port: Option<u16>,
    /// The fleet's group and the instance, if the node named them.
    pub group: Option<Symbol>,
    pub instance: Option<Symbol>,
    /// Set once the node has announced that it leaves.
    pub leaving: Option<Leaving>,
    pub state: State,
    pub live_ns: Option<i64>,
    pub rolled_ns: Option<i64>,
    /// The last window that it closed or gave up; for display.
    pub span: Option<Window>,
    /// Closed windows that it holds, sorted by first update.
    pub held: Vec<Held>,
    /// Number of its windows whose proof differed from the log.
    pub rejected: u32,
    /// End of the grace period on the steady clock; set exactly while a subscriber that is not lost is disconnected.
    pub resume_by_ns: Option<i64>,
}

impl Subscriber {
    /// Returns the protocol: only native nodes have a name.
    pub fn kind(&self) -> Kind {
        if self.node.is_some() { Kind::Native } else { Kind::Paper }
    }

    /// Returns its name for log lines: the node's name, or the handle and address.
    pub fn label(&self) -> String {
        match (&self.node, self.handle) {
            (Some(node), _) => node.to_string(),
            (None, Some(handle)) => format!("{}@{}", handle, self.ip),
            (None, None) => self.ip.to_string(),
        }
    }

    /// Returns a log event about this subscriber.
    pub(super) fn note(&self, text: impl Into<String>) -> Note {
        Note::new(text).queue(&self.queue).node(self.label())
    }

    pub(super) fn is_waiting_here(&self, queue: &QueueName) -> bool {
        self.state == State::Waiting && self.handle.is_some() && self.leaving.is_none() && self.queue == *queue
    }

    /// Whether it is the live subscriber of a queue, connected or within its grace period.
    pub fn is_live_in(&self, queue: &QueueName) -> bool {
        self.state == State::Live && self.queue == *queue
    }

    /// Makes it a standby again: it closed its window before it took an update.
    pub(super) fn give_back(&mut self) {
        self.state = State::Waiting;
        (self.live_ns, self.rolled_ns, self.span) = (None, None, None);
    }

    pub(super) fn add_held(&mut self, held: Held) {
        self.held.push(held);
        self.held.sort_by_key(|h| h.window);
    }
}

/// State of a queue beside its subscribers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Line {
    /// First update of the open window, whether or not a subscriber is live in it.
    pub open: UpdateIndex,
    /// Closed windows to be rebuilt, sorted by first update.
    pub lost: Vec<Lost>,
    /// The group of its nodes, if the tickerplant requests its first ones.
    pub group: Option<Symbol>,
    /// The tip at which it fell asleep; `None` if it is awake.
    pub asleep: Option<UpdateIndex>,
    /// Most updates that a live node of the group has closed a window with, also on days before; `None` before the first.
    pub filled: Option<u64>,
}

impl Line {
    pub(super) fn add_lost(&mut self, lost: Lost) {
        self.lost.push(lost);
        self.lost.sort_by_key(|l| l.window);
    }
}

/// Last request for nodes of one queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct LastRequest {
    pub missing: usize,
    pub desired: usize,
    /// The preferred node to notify.
    pub best: Option<Handle>,
    /// The node that was notified.
    pub via: Option<Handle>,
    /// Time of the request, on the steady clock.
    pub at_ns: i64,
}

impl LastRequest {
    /// Returns when to repeat the request; `None` if nothing is missing or no node can ask.
    pub fn due_ns(&self, params: &Params) -> Option<i64> {
        let waits = self.missing > 0 && self.via.is_some();
        // A period of `i64::MAX` means never, also while the steady clock reads 0 and the sum does not overflow.
        self.at_ns.checked_add(params.need_again_ns).filter(|due_ns| waits && *due_ns < i64::MAX)
    }
}

/// Last request for the first nodes of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct FirstRequest {
    pub desired: usize,
    /// Time of the request, on the steady clock.
    pub at_ns: i64,
}

/// Launches under way when a queue fell asleep.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct LateLaunches {
    /// Number of instances that were to come.
    pub nodes: usize,
    /// Those of them that have come and were let go.
    pub let_go: Vec<Symbol>,
    /// When they are no longer expected, on the steady clock.
    pub until_ns: i64,
}

/// Positions that a live node can have had at the end of a day: from its last known one to the tip.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OpenAtEnd {
    pub from: UpdateIndex,
    pub to: UpdateIndex,
}

impl OpenAtEnd {
    /// Whether a position is one of the day that has ended. Positions only grow within a day.
    pub(super) fn may_have(self, next: UpdateIndex) -> bool {
        self.from <= next && next <= self.to
    }
}

/// All queues of a tickerplant.
#[derive(Clone, Debug)]
pub struct Queue {
    pub(super) params: Params,
    pub(super) date: Date,
    pub(super) tip: UpdateIndex,
    pub(super) next_id: SubscriberId,
    /// Index before which all updates of the day are written down by another process.
    pub(super) written: UpdateIndex,
    /// In order of arrival.
    pub(super) subscribers: Vec<Subscriber>,
    pub(super) lines: BTreeMap<QueueName, Line>,
    /// Last status report of each subscriber. Not kept over a restart.
    pub(super) status: BTreeMap<SubscriberId, Status>,
    /// Last request for nodes, by queue. Not kept over a restart: repeating a request is harmless.
    pub(super) last_requests: BTreeMap<QueueName, LastRequest>,
    /// Last [`super::Action::Group`] sent to each watching node. Not kept over a restart.
    pub(super) last_sent: BTreeMap<SubscriberId, LastSent>,
    /// Process that owns a connected node's name, if the join named one. Not kept over a restart: then no node is connected.
    pub(super) processes: BTreeMap<SubscriberId, Symbol>,
    /// Arrival of each subscriber on the steady clock.
    pub(super) came_ns: BTreeMap<SubscriberId, i64>,
    /// Instances of the nodes that have left or ended their day.
    pub(super) departed: Departed,
    /// Processes that may not join again.
    pub(super) evicted: Evicted,
    /// Back-offs of nodes that gave a window back untouched. Not kept over a restart: offering a window once more is harmless.
    pub(super) back_offs: BTreeMap<SubscriberId, BackOff>,
    /// Queues for which the alarm was raised that no standby can take a window.
    pub(super) blocked: BTreeSet<QueueName>,
    /// Last request for the first nodes of each group. Not kept over a restart: repeating a request is harmless.
    pub(super) first_requests: BTreeMap<Symbol, FirstRequest>,
    /// Groups without a queue whose nodes [`super::QueueEvent::Wake`] has requested. Not kept over a restart.
    pub(super) waking: BTreeSet<Symbol>,
    /// Launches that were under way when a queue fell asleep. Not kept over a restart: their nodes then stay until the day ends.
    pub(super) late_launches: BTreeMap<QueueName, LateLaunches>,
    /// Live nodes that end once they have finished the day before, each with the window that it had open at the end of that day.
    pub(super) ending: BTreeMap<SubscriberId, OpenAtEnd>,
    /// When the tip last changed, or queries were announced, on the steady clock; and that tip.
    pub(super) active_ns: i64,
    pub(super) active_tip: UpdateIndex,
    /// The steady clock at the last step.
    pub(super) now_ns: i64,
}

impl Queue {
    /// Returns an empty table for a day.
    pub fn new(params: Params, date: Date) -> Queue {
        Queue {
            params,
            date,
            tip: UpdateIndex::default(),
            next_id: SubscriberId::default(),
            written: UpdateIndex::default(),
            subscribers: Vec::new(),
            lines: BTreeMap::new(),
            status: BTreeMap::new(),
            last_requests: BTreeMap::new(),
            last_sent: BTreeMap::new(),
            processes: BTreeMap::new(),
            came_ns: BTreeMap::new(),
            departed: Departed::default(),
            evicted: Evicted::default(),
            back_offs: BTreeMap::new(),
            blocked: BTreeSet::new(),
            first_requests: BTreeMap::new(),
            waking: BTreeSet::new(),
            late_launches: BTreeMap::new(),
            ending: BTreeMap::new(),
            active_ns: i64::MAX,
            active_tip: UpdateIndex::default(),
            now_ns: i64::MIN,
        }
    }

    /// Returns the date of the day's log.
    pub fn date(&self) -> Date {
        self.date
    }

    /// Returns the tip of the last step.
    pub fn tip(&self) -> UpdateIndex {
        self.tip
    }

    /// Returns all subscribers, in order of arrival.
    pub fn subscribers(&self) -> &[Subscriber] {
        &self.subscribers
    }

    /// Returns each queue's start of the open window, and its lost windows.
    pub fn lines(&self) -> &BTreeMap<QueueName, Line> {
        &self.lines
    }

    /// Returns the subscriber on this connection.
    pub fn by_handle(&self, handle: Handle) -> Option<&Subscriber> {
        self.subscribers.iter().find(|s| s.handle == Some(handle))
    }

    /// Returns the queue in which a node with this name is, connected or within its grace period.
    pub fn queue_of(&self, node: &[u8]) -> Option<&QueueName> {
        let is_it = |s: &&Subscriber| s.state != State::Lost && s.node.as_ref().is_some_and(|own| own.0 == node);
        self.subscribers.iter().find(is_it).map(|s| &s.queue)
    }

    /// Returns the live subscriber of a queue, connected or within its grace period, and the first update of its window.
    pub fn live(&self, queue: &QueueName) -> Option<(&Subscriber, UpdateIndex)> {
        let open = self.lines.get(queue)?.open;
        self.subscribers.iter().find(|s| s.is_live_in(queue)).map(|s| (s, open))
    }

    /// Returns the last status report of a subscriber.
    pub fn status(&self, id: SubscriberId) -> Option<&Status> {
        self.status.get(&id)
    }

    /// Returns when, on the steady clock, [`super::QueueEvent::Tick`] has work to do.
    pub fn next_deadline_ns(&self) -> Option<i64> {
        let needs = self.last_requests.values().filter_map(|request| request.due_ns(&self.params));
        self.subscribers
            .iter()
            .filter_map(|s| s.resume_by_ns)
            .chain(self.companions_due_ns())
            .chain(needs)
            .chain(self.back_offs_due_ns())
            .chain(self.first_requests_due_ns())
            .min()
    }

    /// Returns the whole table as one record, the first of a new journal.
    pub fn snapshot(&self) -> Record {
        let mut changes = vec![Change::Reset { date: self.date, next_id: self.next_id }];
        changes
            .extend(self.lines.iter().map(|(queue, line)| Change::Line { queue: queue.clone(), line: line.clone() }));
        changes.extend(self.subscribers.iter().map(|s| Change::Subscriber(Box::new(s.clone()))));
        changes.extend((self.written > UpdateIndex::default()).then_some(Change::Written(self.written)));
        changes.extend(self.ending.iter().map(|(id, open)| Change::Ending { id: *id, open: *open }));
        changes.extend(self.departed.all());
        changes.extend(self.evicted.all());
        Record { tip: self.tip, changes }
    }

    pub(super) fn find(&mut self, id: SubscriberId) -> Option<&mut Subscriber> {
        self.subscribers.iter_mut().find(|s| s.id == id)
    }

    pub(super) fn id_by_handle(&self, handle: Handle) -> Option<SubscriberId> {
        self.by_handle(handle).map(|s| s.id)
    }

    /// Removes the state kept beside a subscriber's row.
    pub(super) fn forget(&mut self, id: SubscriberId) {
        self.status.remove(&id);
        self.processes.remove(&id);
        self.last_sent.remove(&id);
        self.came_ns.remove(&id);
        self.back_offs.remove(&id);
        self.ending.remove(&id);
    }

    /// Removes a subscriber and all state kept for it.
    pub(super) fn remove(&mut self, id: SubscriberId) {
        self.subscribers.retain(|s| s.id != id);
        self.forget(id);
    }
}
