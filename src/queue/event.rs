//! What happens to the queue, and what it wants done.

use super::ids::{Date, Handle, NodeName, QueueName, Symbol, UpdateIndex, Window};
use super::journal::Record;
use super::leave::Leaving;
use core::net::IpAddr;
use std::sync::Arc;

/// Tables and symbols that a subscriber asked for, as `.u.asg.sub` takes them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Subscription {
    /// Table names; the empty symbol stands for all tables.
    pub tabs: Vec<Symbol>,
    /// One list of symbols for each table; an empty list, or the empty symbol in it, stands for all symbols.
    pub syms: Vec<Vec<Symbol>>,
}

/// A subscriber of the paper's kind: `.u.asg.sub[t;s;q]` from any q. It has no identity: its connection is all there is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Subscribe {
    pub handle: Handle,
    pub queue: QueueName,
    pub subscription: Arc<Subscription>,
    pub ip: IpAddr,
}

/// A native node's `.u.asg.join`: who it is, and what it says it holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Join {
    pub handle: Handle,
    pub node: NodeName,
    pub queue: QueueName,
    pub subscription: Arc<Subscription>,
    pub ip: IpAddr,
    /// Where it answers queries.
    pub port: Option<u16>,
    /// The day its rows belong to; `None` where it has never been told one.
    pub date: Option<Date>,
    /// Closed windows that it holds whole. Rows that it does not name here or in `open` it must have forgotten.
    pub held: Vec<Window>,
    /// Its open window, where it is live.
    pub open: Option<OpenWindow>,
    /// The fleet's group that its instance belongs to, and the instance; `None` where no fleet has told it.
    pub group: Option<Symbol>,
    pub instance: Option<Symbol>,
    /// The process that has the name, where the name was given to it and another may have it as well.
    pub process: Option<Symbol>,
    /// It is about to leave: it is given nothing any more.
    pub leaving: Option<Leaving>,
}

/// The window of a live node: it holds `[first, next)`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OpenWindow {
    pub first: UpdateIndex,
    pub next: UpdateIndex,
}

/// What a node last said about itself. Shown; a standby at its roll level is given no window. Not kept in the journal.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Status {
    /// Share of its memory in use, percent.
    pub memory_percent: Option<f64>,
    /// Thresholds, percent.
    pub scale_percent: Option<f64>,
    pub roll_percent: Option<f64>,
    pub rows: Option<u64>,
    pub bytes: Option<u64>,
    /// The next update it expects.
    pub next: Option<UpdateIndex>,
    /// Whether it has asked for its successor.
    pub scaled: bool,
    /// Measured time from asking for a node until it waits, nanoseconds.
    pub lead_ns: Option<i64>,
    /// Updates missing in the windows it holds, because it refused them.
    pub refused: Option<u64>,
}

/// Everything that can happen to a queue.
#[derive(Clone, Debug, PartialEq)]
pub enum Event {
    Subscribe(Subscribe),
    Join(Join),
    /// A subscriber is full: its window ends before `next`. For a subscriber of the paper's kind the shell has translated the
    /// count of messages into an update index. `date` is the day that `next` counts in: a roll that was under way while the day
    /// ended does not close a window of the new day.
    Roll {
        handle: Handle,
        next: UpdateIndex,
        date: Date,
    },
    /// A node has all of a window that it was told to rebuild. Sent again, it changes nothing.
    Rebuilt {
        handle: Handle,
        window: Window,
        date: Date,
    },
    /// The shell has compared what a node holds of a closed window with the log.
    Proved {
        handle: Handle,
        window: Window,
        date: Date,
        ok: bool,
    },
    Status {
        handle: Handle,
        status: Status,
    },
    /// A native node's instance is going to end: what it holds goes to others, and then it is told [`Action::Left`]. A live one
    /// rolls after it has said so, as only itself knows what it took in. Said again, it may change the time.
    Leaving {
        handle: Handle,
        leaving: Leaving,
    },
    /// The connection has ended, whatever the reason.
    Disconnect {
        handle: Handle,
    },
    /// The day has ended; the step's tip is the ended day's last. `.u.end` to live ones is the tickerplant's own.
    DayEnd {
        new_date: Date,
    },
    /// The table has just been read from the journal after a restart: nobody is connected, nodes get time to come back.
    Restored,
    /// Time has passed (see [`super::Queue::next_deadline_ns`]).
    Tick,
}

/// What the shell has to do, in this order.
#[derive(Clone, Debug, PartialEq)]
pub enum Action {
    /// Write to the journal. Always the first action of a step that changed something. A snapshot ([`Record::is_snapshot`]) is the
    /// first record of the new day's journal.
    Journal(Record),
    /// Answer to [`Event::Join`], exactly one for each that is not refused. `drop`: forget all rows.
    Joined { handle: Handle, drop: bool },
    /// The call changes nothing; answer with the reason (an error to a sync call, a log line otherwise).
    Refused { handle: Handle, reason: Refusal },
    /// Feed it from `first` on: replay `[first, tip)` from the log, then the feed.
    MakeLive { handle: Handle, first: UpdateIndex, tip: UpdateIndex },
    /// It is live as before; feed it from `next` on.
    Resume { handle: Handle, next: UpdateIndex },
    /// It is no longer live, or no longer rebuilds what it is sent: no updates to it any more.
    StopFeed { handle: Handle },
    /// Have it replay just this window. A subscriber of the paper's kind gets its `.sub.rep` with this window, outside `.u.w`.
    /// `hidden`: a node that leaves holds it still, so that queries must not see it here before [`Action::Show`].
    Rebuild { handle: Handle, window: Window, hidden: bool },
    /// This window was rebuilt elsewhere and is no longer this node's: it forgets it.
    Handed { handle: Handle, window: Window },
    /// From now on this node answers for a window that it took over, or goes on rebuilding it in sight.
    Show { handle: Handle, window: Window },
    /// It holds something that others hold: it forgets everything and waits.
    Drop { handle: Handle },
    /// A node that leaves has nothing left: it may end. It is no longer in the table.
    Left { handle: Handle },
    /// This native node has closed a window: compare its proof with the log, then [`Event::Proved`].
    Verify { handle: Handle, window: Window, date: Date },
    /// The proof differs: it must drop that window.
    Recheck { handle: Handle, window: Window },
    /// Send `.u.end` with the ended day's date; it is no longer in the table.
    EndOfDay { handle: Handle, date: Date },
    /// The node has come back over another connection: close this one.
    Close { handle: Handle },
    /// There is a window that nobody holds or that someone hands on, or no live subscriber, and too few who wait. Said when the
    /// number of `missing` nodes grows, or the number to ask for, when another node is the one to be told, and again every
    /// [`super::Params::need_again_ns`]. `desired`: how many instances the group then has in all, for the fleet. `via`: a native
    /// node that can ask the fleet, the live one if possible, and one that stays rather than one that leaves; after that time the
    /// next of them, as whoever was told may not be able to ask.
    NeedNode { queue: QueueName, missing: usize, desired: usize, via: Option<Handle> },
    /// For a node that belongs to a group, and watches its launches: the live one, or another while nobody lives. How many instances
    /// to ask for when it wants its successor, and the names of those from which a node has joined; none for one that does not watch
    /// any more. Said when any of it has changed.
    Group { handle: Handle, desired: usize, joined: Vec<Symbol> },
    /// For the log.
    Note(String),
    /// For the log, and a human must know.
    Alarm(String),
}

/// Why a call was refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    #[error("this connection is in queue {0} already")]
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
        "a node named {0} is connected already, another process at {1}: give each node a name of its own (--node), or none; \
         this one is taken in once that has ended"
    )]
    NameTaken(NodeName, IpAddr),
    #[error("that roll belongs to {0}, which has ended")]
    OtherDay(Date),
}

impl Refusal {
    /// kdb+'s name for it.
    pub const fn term(&self) -> &'static str {
        match self {
            Refusal::TooManySubscribers(_) | Refusal::TooManyQueues(_) => "limit",
            _ => "domain",
        }
    }
}
