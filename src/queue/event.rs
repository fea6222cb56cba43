//! Input and output of a step: events that happen to the queue, and actions for the shell to carry out.

use super::ids::{Date, Handle, NodeName, QueueName, Symbol, UpdateIndex, Window};
use super::journal::Record;
use super::leave::Leaving;
use super::note::Note;
use core::net::IpAddr;
use std::sync::Arc;

/// Tables and symbols of a subscription, as the arguments of `.u.asg.sub` give them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Subscription {
    /// Table names; the empty symbol means all tables.
    pub tabs: Vec<Symbol>,
    /// One list of symbols per table; an empty list, or the empty symbol in it, means all symbols.
    pub syms: Vec<Vec<Symbol>>,
}

/// Subscription of a paper client: `.u.asg.sub[t;s;q]` from any q process. It has no name; its connection is its only identity.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Subscribe {
    pub handle: Handle,
    pub queue: QueueName,
    pub subscription: Arc<Subscription>,
    pub ip: IpAddr,
}

/// A native node's `.u.asg.join`: its identity, and the windows that it claims to hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Join {
    pub handle: Handle,
    pub node: NodeName,
    pub queue: QueueName,
    pub subscription: Arc<Subscription>,
    pub ip: IpAddr,
    /// Port on which the node serves queries.
    pub port: Option<u16>,
    /// The day of its rows; `None` if the node has never received a date.
    pub date: Option<Date>,
    /// Closed windows that the node holds in full. It has discarded all rows that are neither here nor in `open`.
    pub held: Vec<Window>,
    /// The open window, if the node is live.
    pub open: Option<OpenWindow>,
    /// The fleet's group and the instance of the node; `None` if no fleet has set them.
    pub group: Option<Symbol>,
    pub instance: Option<Symbol>,
    /// Random id of the process, which tells it apart from another one of the same name; `None` from older versions.
    pub process: Option<Symbol>,
    /// The node is draining: it is assigned no window.
    pub leaving: Option<Leaving>,
}

/// The open window of a live node, which holds `[first, next)`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OpenWindow {
    pub first: UpdateIndex,
    pub next: UpdateIndex,
}

/// Last status report of a node. For display, and to assign no window to a standby at its roll level. Not in the journal.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Status {
    /// Memory in use, percent of the node's memory.
    pub memory_percent: Option<f64>,
    /// Scale and roll thresholds, percent of the same memory.
    pub scale_percent: Option<f64>,
    pub roll_percent: Option<f64>,
    pub rows: Option<u64>,
    pub bytes: Option<u64>,
    /// Index of the next update that the node expects.
    pub next: Option<UpdateIndex>,
    /// The day of that update; `None` from older versions, and while the node requests the new day's date.
    pub date: Option<Date>,
    /// Whether the node has requested its successor.
    pub scaled: bool,
    /// Measured lead time, nanoseconds: from requesting a node until it waits in the queue.
    pub lead_ns: Option<i64>,
    /// Updates missing from the node's windows because it rejected them.
    pub refused: Option<u64>,
    /// Number of instances of the fleet, if that is its maximum: it does not launch the successor that the node has requested.
    pub fleet_max: Option<u32>,
    /// Time since the node's last query ended, or since its start, nanoseconds; 0 during a query. `None` from older versions, whose nodes do not
    /// sleep.
    pub quiet_ns: Option<i64>,
}

/// An input of [`super::Queue::step`].
#[derive(Clone, Debug, PartialEq)]
pub enum QueueEvent {
    Subscribe(Subscribe),
    Join(Join),
    /// A subscriber is full, or leaves: its window ends before `next`. For a paper client the shell has translated the message count into an
    /// update index. `date` is the day that `next` counts in, so that a roll in flight at the end of the day closes no window of the new day.
    Roll {
        handle: Handle,
        next: UpdateIndex,
        date: Date,
    },
    /// A node holds all of a window that it was assigned to rebuild. Idempotent.
    Rebuilt {
        handle: Handle,
        window: Window,
        date: Date,
    },
    /// The shell has compared a node's proof of a closed window with the log.
    Proved {
        handle: Handle,
        window: Window,
        date: Date,
        ok: bool,
    },
    /// A node has not sent the proof of a closed window within [`super::Params::prove_ns`].
    Unproved {
        handle: Handle,
        window: Window,
        date: Date,
    },
    Status {
        handle: Handle,
        status: Status,
    },
    /// A native node's instance is about to end: other nodes take over its windows, then it receives [`Action::Left`]. A live node rolls
    /// after this event, because only the node knows which updates it has applied. Repeating the event may change the time.
    Leaving {
        handle: Handle,
        leaving: Leaving,
    },
    /// An operator gives up a node whose process is gone although its connection has not ended. Changes nothing if another process owns the
    /// name by now. Idempotent.
    Evict {
        node: NodeName,
        /// Random id of the process, as its join named it.
        process: Symbol,
    },
    /// An operator removes a queue that no node is in any more, with the updates that it still had to serve.
    Forget {
        /// Connection of the operator, for the error.
        handle: Handle,
        queue: QueueName,
    },
    /// A write-down process has the rows of all updates of `date` before `next`.
    Written {
        /// Connection of the process, for the error.
        handle: Handle,
        next: UpdateIndex,
        date: Date,
    },
    /// Ends the sleep of all queues: `.u.asg.wake` was called, or a market is about to open.
    Wake,
    /// The connection has ended, for any reason.
    Disconnect {
        handle: Handle,
    },
    /// The day has ended; the step's tip is the last of that day. The tickerplant itself sends `.u.end` to live nodes.
    DayEnd {
        new_date: Date,
    },
    /// The table was restored from the journal after a restart: no node is connected, and each has its grace period to reconnect.
    Restored,
    /// Time has passed; see [`super::Queue::next_deadline_ns`].
    Tick,
}

/// An output of a step. The shell carries actions out in order.
#[derive(Clone, Debug, PartialEq)]
pub enum Action {
    /// Append to the journal. Always the first action of a step that changed something, so that a change is recorded before its effects are
    /// sent. A snapshot ([`Record::is_snapshot`]) is the first record of the new day's journal.
    Journal(Record),
    /// Response to [`QueueEvent::Join`], exactly one for each join that is not rejected. `drop`: the node discards all rows.
    Joined { handle: Handle, drop: bool },
    /// The call is rejected and changes nothing: return the reason as an error to a sync call, log it otherwise.
    Refused { handle: Handle, reason: QueueError },
    /// The subscriber is live: replay `[first, tip)` from the log, then send the feed.
    MakeLive { handle: Handle, first: UpdateIndex, tip: UpdateIndex },
    /// The subscriber is still live: send updates from `next` on.
    Resume { handle: Handle, next: UpdateIndex },
    /// Send no more updates: the subscriber is no longer live, or no longer rebuilds the window being sent.
    StopFeed { handle: Handle },
    /// Replay exactly this window. A paper client gets it as `.sub.rep`, outside `.u.w`. `hidden`: a draining node still holds the window,
    /// so that queries must not see it here before [`Action::Show`].
    Rebuild { handle: Handle, window: Window, hidden: bool },
    /// Another node has taken this window over: this node discards it.
    Handed { handle: Handle, window: Window },
    /// The node serves queries on the window it took over, or continues to rebuild it visibly.
    Show { handle: Handle, window: Window },
    /// The node holds updates that other nodes hold: it must discard everything and wait.
    Drop { handle: Handle },
    /// A draining node holds nothing more and may end. It is no longer in the table.
    Left { handle: Handle },
    /// This native node has closed a window: compare its proof with the log, then step [`QueueEvent::Proved`].
    Verify { handle: Handle, window: Window, date: Date },
    /// The proof differs: the node drops that window.
    Recheck { handle: Handle, window: Window },
    /// Send `.u.end` with the date of the ended day; the subscriber is no longer in the table.
    EndOfDay { handle: Handle, date: Date },
    /// Close this connection: the node has joined again over another one.
    Close { handle: Handle },
    /// Nodes are missing: the open window, lost windows or windows of draining nodes outnumber the standbys. Sent when `missing` or,
    /// while nodes are missing, `desired` grows, when another node becomes the one to notify, and every [`super::Params::need_again_ns`].
    ///
    /// - `desired`: total number of instances to request from the fleet.
    /// - `via`: a native node that can ask the fleet: the live one unless it drains, else one that stays, else a draining one. Each periodic
    ///   repetition goes to the next such node, because the previous one may be unable to ask.
    NeedNode { queue: QueueName, missing: usize, desired: usize, via: Option<Handle> },
    /// The tickerplant requests at least `desired` instances in all for this group, of which no node is there that could. Repeated every
    /// [`super::Params::first_again_ns`].
    Request { group: Symbol, desired: usize },
    /// The cluster sleeps, or another process has written down what the node holds: it drops its rows and ends. It is no longer in the table.
    Sleep { handle: Handle },
    /// For the node that watches the launches of its group (the live one, or another while none is live): the number of instances to
    /// request with the next successor, and the instances from which a node has joined. `joined` is empty for a node that stops watching.
    /// Sent on change.
    Group { handle: Handle, desired: usize, joined: Vec<Symbol> },
    /// Log this event.
    Note(Note),
    /// Log this event as an alarm: an operator must act.
    Alarm(Note),
}

/// kdb+ error name of a join by a process that was evicted. A node ends when it gets this.
pub const EVICTED: &str = "evicted";

/// Reason for rejecting a call.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum QueueError {
    #[error("this connection is already in queue {0}")]
    AlreadySubscribed(QueueName),
    #[error("not in a queue")]
    NotSubscribed,
    #[error("only a live or rebuilding subscriber can roll; this one is {0}")]
    NotReceiving(&'static str),
    #[error("a node needs a name")]
    NoName,
    #[error("more than {0} subscribers in queues")]
    TooManySubscribers(usize),
    #[error("more than {0} queues")]
    TooManyQueues(usize),
    #[error(
        "a node named {0} is already connected, from another process at {1}: give each node a unique name \
         (--node), or none; this one can join once the other has disconnected"
    )]
    NameTaken(NodeName, IpAddr),
    #[error(
        "this process was evicted as node {0}, because it did not answer and its lease was over: other nodes have its windows. Start the node \
         again"
    )]
    Evicted(NodeName),
    #[error("the queue {0} is in use: {1} is in it")]
    QueueInUse(QueueName, String),
    #[error("day {0} is not the current one, which is {1}: its windows are gone, or have not begun")]
    WrittenOtherDay(Date, Date),
    #[error("update {0} is beyond the tip {1}")]
    WrittenBeyond(UpdateIndex, UpdateIndex),
    #[error("that roll belongs to day {0}, which has ended")]
    OtherDay(Date),
}

impl QueueError {
    /// Returns the kdb+ error name.
    pub const fn term(&self) -> &'static str {
        match self {
            QueueError::TooManySubscribers(_) | QueueError::TooManyQueues(_) => "limit",
            QueueError::Evicted(_) => EVICTED,
            _ => "domain",
        }
    }
}
