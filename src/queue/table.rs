//! The table: subscribers in the order in which they came, and for every queue what nobody holds.

use super::event::{Status, Subscription};
use super::groups::Told;
use super::ids::{Date, Handle, NodeName, QueueName, Symbol, UpdateIndex, Window};
use super::journal::{Change, Record};
use super::leave::Leaving;
use super::rest::Rest;
use core::net::IpAddr;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// How long to wait, and how much to keep.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Params {
    /// How long a native node that lost its connection keeps its windows, nanoseconds.
    pub grace_ns: i64,
    /// The same after a restart of the tickerplant.
    pub restart_grace_ns: i64,
    /// Waiting subscribers of each queue that stay over the end of the day. The paper keeps none.
    pub standbys_kept: usize,
    /// How often a window whose proof differs is rebuilt; after that it is kept, marked as differing.
    pub rebuilds_max: u8,
    /// Subscribers over all queues.
    pub subscribers_max: usize,
    /// Queues of a day.
    pub queues_max: usize,
    /// Rows kept for show of subscribers that are gone; the oldest go first.
    pub lost_rows_max: usize,
    /// Closed windows that one node may bring along in a join.
    pub held_windows_max: usize,
    /// Where instances host a node of each of several queues: how long after its first node an instance is expected to bring the
    /// others, nanoseconds.
    pub companions_ns: i64,
    /// First and longest pause before a node that gave a window back untouched is given one again, nanoseconds; it doubles.
    pub rest_first_ns: i64,
    pub rest_most_ns: i64,
    /// Standbys of a queue that cannot take a window for which another instance is asked for; more of them have one cause.
    pub unable_replaced_max: usize,
    /// How long nodes are missing until they are asked for once more, nanoseconds: instances that were there when the fleet was
    /// asked, and were enough, may have gone since with their part of its capacity.
    pub need_again_ns: i64,
}

impl Default for Params {
    fn default() -> Params {
        Params {
            grace_ns: 2_000_000_000,
            restart_grace_ns: 30_000_000_000,
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
        }
    }
}

/// Position of a subscriber in the order of coming; never used twice in a day's journal.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SubscriberId(pub u64);

/// Which protocol a subscriber speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// `elastick rdb`: has a name, can come back, proves what it holds.
    Native,
    /// The paper's `asg/r.q` in any q.
    Paper,
}

/// What a subscriber is doing. Whether it is connected is told by its handle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// Holds nothing, next in line by order of coming.
    Waiting,
    /// Receives the feed; its window starts at its line's `open`.
    Live,
    /// Replays a closed window that another lost.
    Rebuilding { window: Window, rejections: u8 },
    /// Replays, where no query sees it, a window of one that leaves (or a part of it), who holds it until this is `proved`.
    TakingOver { window: Window, rejections: u8, progress: Progress },
    /// Holds its closed windows and takes nothing any more.
    Rolled,
    /// Gone, its windows given up; a row kept for show.
    Lost,
}

impl State {
    /// The word for it, as `.u.asg.tab` shows it.
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

/// How far one that takes over has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    Replaying,
    /// It has all of it; the proof is being compared.
    Filled,
    /// `as_logged` is false only where the window was rebuilt in vain too often.
    Proved {
        as_logged: bool,
    },
}

/// A closed window in a subscriber's hands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Held {
    pub window: Window,
    /// What comparing its proof with the log gave; `None` before that.
    pub verified: Option<bool>,
    /// How often this window was rebuilt because its proof differed.
    pub rejections: u8,
}

/// A closed window in nobody's hands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lost {
    pub window: Window,
    pub rejections: u8,
}

/// One subscriber, as the journal keeps it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Subscriber {
    pub id: SubscriberId,
    /// When it came, by the wall clock; for show, as are `live_ns` and `rolled_ns`.
    pub time_ns: i64,
    /// `None` while it is not connected.
    pub handle: Option<Handle>,
    /// `None` for the paper's kind.
    pub node: Option<NodeName>,
    pub queue: QueueName,
    pub subscription: Arc<Subscription>,
    pub ip: IpAddr,
    pub port: Option<u16>,
    /// The fleet's group and the instance, where the node named them.
    pub group: Option<Symbol>,
    pub instance: Option<Symbol>,
    /// Since it said that it leaves.
    pub leaving: Option<Leaving>,
    pub state: State,
    pub live_ns: Option<i64>,
    pub rolled_ns: Option<i64>,
    /// The window that it last closed or gave up, for show.
    pub span: Option<Window>,
    /// Closed windows that it holds, by first update.
    pub held: Vec<Held>,
    /// Windows of it whose proof differed from the log.
    pub rejected: u32,
    /// Until when, on the steady clock, it may come back and keep its windows; set exactly while a subscriber that counts is not connected.
    pub resume_by_ns: Option<i64>,
}

impl Subscriber {
    pub fn kind(&self) -> Kind {
        if self.node.is_some() { Kind::Native } else { Kind::Paper }
    }

    /// Its name for a log line: the node's, or the handle and address.
    pub fn label(&self) -> String {
        match (&self.node, self.handle) {
            (Some(node), _) => node.to_string(),
            (None, Some(handle)) => format!("{}@{}", handle, self.ip),
            (None, None) => self.ip.to_string(),
        }
    }

    pub(super) fn is_waiting_here(&self, queue: &QueueName) -> bool {
        self.state == State::Waiting && self.handle.is_some() && self.leaving.is_none() && self.queue == *queue
    }

    pub(super) fn is_live_in(&self, queue: &QueueName) -> bool {
        self.state == State::Live && self.queue == *queue
    }

    /// It closed its window before it took an update: a standby again.
    pub(super) fn give_back(&mut self) {
        self.state = State::Waiting;
        (self.live_ns, self.rolled_ns, self.span) = (None, None, None);
    }

    pub(super) fn add_held(&mut self, held: Held) {
        self.held.push(held);
        self.held.sort_by_key(|h| h.window);
    }
}

/// What a queue knows beside its subscribers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Line {
    /// First update of the open window: the live subscriber's, or the one the next live subscriber starts with.
    pub open: UpdateIndex,
    /// Closed windows that wait to be rebuilt, by first update.
    pub lost: Vec<Lost>,
}

impl Line {
    pub(super) fn add_lost(&mut self, lost: Lost) {
        self.lost.push(lost);
        self.lost.sort_by_key(|l| l.window);
    }
}

/// What a queue lacked when it was last looked at.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Asked {
    pub missing: usize,
    pub desired: usize,
    /// Who would rather be told than all others.
    pub best: Option<Handle>,
    /// Who was to tell the fleet.
    pub via: Option<Handle>,
    /// When that was said, on the steady clock.
    pub at_ns: i64,
}

impl Asked {
    /// When it is to be said again.
    pub fn due_ns(&self, params: &Params) -> Option<i64> {
        let waits = self.missing > 0 && self.via.is_some();
        // `i64::MAX` is never, also for a steady clock that has just begun at 0.
        self.at_ns.checked_add(params.need_again_ns).filter(|due_ns| waits && *due_ns < i64::MAX)
    }
}

/// Every queue of a tickerplant.
#[derive(Clone, Debug)]
pub struct Queue {
    pub(super) params: Params,
    pub(super) date: Date,
    pub(super) tip: UpdateIndex,
    pub(super) next_id: SubscriberId,
    /// In the order of coming.
    pub(super) subscribers: Vec<Subscriber>,
    pub(super) lines: BTreeMap<QueueName, Line>,
    /// What subscribers last said about themselves. Not kept over a restart.
    pub(super) status: BTreeMap<SubscriberId, Status>,
    /// What nodes were last asked for, by queue. Not kept over a restart: asking again does no harm.
    pub(super) asked: BTreeMap<QueueName, Asked>,
    /// What live nodes were last told of their group. Not kept over a restart either.
    pub(super) told: BTreeMap<SubscriberId, Told>,
    /// The process that a node's name belongs to while it is connected, where it said. Not kept over a restart: nobody is connected.
    pub(super) processes: BTreeMap<SubscriberId, Symbol>,
    /// When each subscriber came, on the steady clock.
    pub(super) came_ns: BTreeMap<SubscriberId, i64>,
    /// Nodes that gave a window back untouched. Not kept over a restart: offering it once more does no harm.
    pub(super) rests: BTreeMap<SubscriberId, Rest>,
    /// Queues with a window that no standby can take, for which the alarm was raised.
    pub(super) blocked: BTreeSet<QueueName>,
    /// The steady clock at the last step.
    pub(super) now_ns: i64,
}

impl Queue {
    /// An empty table for a day.
    pub fn new(params: Params, date: Date) -> Queue {
        Queue {
            params,
            date,
            tip: UpdateIndex::default(),
            next_id: SubscriberId::default(),
            subscribers: Vec::new(),
            lines: BTreeMap::new(),
            status: BTreeMap::new(),
            asked: BTreeMap::new(),
            told: BTreeMap::new(),
            processes: BTreeMap::new(),
            came_ns: BTreeMap::new(),
            rests: BTreeMap::new(),
            blocked: BTreeSet::new(),
            now_ns: i64::MIN,
        }
    }

    pub fn date(&self) -> Date {
        self.date
    }

    /// The tip of the last step.
    pub fn tip(&self) -> UpdateIndex {
        self.tip
    }

    /// Everyone, in the order of coming.
    pub fn subscribers(&self) -> &[Subscriber] {
        &self.subscribers
    }

    /// Every queue's open start and lost windows.
    pub fn lines(&self) -> &BTreeMap<QueueName, Line> {
        &self.lines
    }

    /// The subscriber on this connection.
    pub fn by_handle(&self, handle: Handle) -> Option<&Subscriber> {
        self.subscribers.iter().find(|s| s.handle == Some(handle))
    }

    /// The live subscriber of a queue, connected or within its grace, and the first update of its window.
    pub fn live(&self, queue: &QueueName) -> Option<(&Subscriber, UpdateIndex)> {
        let open = self.lines.get(queue)?.open;
        self.subscribers.iter().find(|s| s.is_live_in(queue)).map(|s| (s, open))
    }

    /// What a subscriber last said about itself.
    pub fn status(&self, id: SubscriberId) -> Option<&Status> {
        self.status.get(&id)
    }

    /// When, on the steady clock, [`super::Event::Tick`] has work to do.
    pub fn next_deadline_ns(&self) -> Option<i64> {
        let needs = self.asked.values().filter_map(|asked| asked.due_ns(&self.params));
        self.subscribers
            .iter()
            .filter_map(|s| s.resume_by_ns)
            .chain(self.companions_due_ns())
            .chain(needs)
            .chain(self.rests_due_ns())
            .min()
    }

    /// The whole table as one record: what a new journal starts with.
    pub fn snapshot(&self) -> Record {
        let mut changes = vec![Change::Reset { date: self.date, next_id: self.next_id }];
        changes
            .extend(self.lines.iter().map(|(queue, line)| Change::Line { queue: queue.clone(), line: line.clone() }));
        changes.extend(self.subscribers.iter().map(|s| Change::Subscriber(Box::new(s.clone()))));
        Record { tip: self.tip, changes }
    }

    pub(super) fn find(&mut self, id: SubscriberId) -> Option<&mut Subscriber> {
        self.subscribers.iter_mut().find(|s| s.id == id)
    }

    pub(super) fn id_by_handle(&self, handle: Handle) -> Option<SubscriberId> {
        self.by_handle(handle).map(|s| s.id)
    }

    /// Drops what is kept of a subscriber beside its row.
    pub(super) fn forget(&mut self, id: SubscriberId) {
        self.status.remove(&id);
        self.processes.remove(&id);
        self.told.remove(&id);
        self.came_ns.remove(&id);
        self.rests.remove(&id);
    }

    pub(super) fn remove(&mut self, id: SubscriberId) {
        self.subscribers.retain(|s| s.id != id);
        self.forget(id);
    }
}
