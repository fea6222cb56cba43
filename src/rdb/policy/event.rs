//! Events, actions and phases of the policy.

#[cfg(doc)]
use super::Policy;
use super::leave::LeaveReason;

/// Input of the policy.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum PolicyEvent {
    /// A memory reading: bytes in use (the system's figure if that is higher), and the budget.
    Memory { used_bytes: u64, budget_bytes: u64 },
    /// Updates of the feed took this much memory.
    Taken { bytes: u64 },
    /// Replayed updates took this much memory.
    Replayed { bytes: u64 },
    /// The node is live; repeated after a reconnect, which changes nothing.
    BecameLive,
    /// The node rebuilds a window that another lost, or takes over one of a draining node.
    BecameRebuilding,
    /// The rebuilt window is complete.
    RebuildDone,
    /// The node cannot advance in its window: roll, as another node may be able to.
    NoProgress,
    /// The node has rolled and holds nothing: its window was empty or was handed over.
    Emptied,
    /// The tickerplant ordered the node to drop everything and wait.
    Dropped,
    /// The tickerplant ends the day (`.u.end`).
    DayEnd,
    /// The cluster sleeps: the node ends, as other nodes do after a day.
    Sleep,
    /// The owner's `.u.end` has returned; see [`Policy::keep_day`].
    DaySaved,
    /// Number of rows in the tables.
    RowsLeft(u64),
    /// Number of queries without an answer.
    QueriesInFlight(u64),
    /// The fleet's reply to [`Action::ScaleOut`].
    ScaleAnswer(ScaleAnswer),
    /// The queue lacks nodes: the tickerplant wants this one to request them.
    NodesMissing,
    /// The fleet did not terminate this node: it stays.
    TerminateRefused,
    /// Measured time from requesting a node until it waited in the queue.
    LeadTime { lead_ns: i64 },
    /// The instance or the process is about to end: the node drains until `by_ns` at the latest, then may wait up to 10 s more for its fleet.
    Leave { by_ns: i64, why: LeaveReason },
    /// Other nodes hold what this node held, or it held nothing.
    Left,
    /// The fleet has acknowledged [`Action::Release`].
    Released,
    /// Time has passed; see [`Policy::next_deadline_ns`].
    Tick,
}

/// Result of a request for capacity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ScaleAnswer {
    /// The desired capacity is at least the one requested.
    Granted,
    /// Rejected or unanswered: retried with growing pauses.
    Refused,
    /// The group stays at this many instances, its maximum: retried at the longest pause.
    AtMaximum { instances: u32 },
}

/// Output of the policy, to be carried out by the ingest thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Request a successor from the fleet; reply with [`PolicyEvent::ScaleAnswer`].
    ScaleOut,
    /// Stop taking updates and notify the tickerplant.
    Roll,
    /// Drop the ended day's rows; reply with [`PolicyEvent::RowsLeft`].
    Clear,
    /// Rejoin the queue: the fleet keeps this node.
    Rejoin,
    /// Have the fleet end this node and reduce its desired capacity by one.
    Terminate,
    /// Switch scale-in protection of this node.
    Protect(bool),
    /// Notify the tickerplant that this node leaves; reply with [`PolicyEvent::Left`].
    Announce,
    /// The time to leave is over: log the windows that no other node holds.
    Abandon,
    /// Tell the fleet that ending the instance loses nothing; reply with [`PolicyEvent::Released`].
    Release,
    /// End the process.
    End,
    /// Send a status report to the tickerplant.
    Report,
}

/// Phase of a node. Waiting is standby; live is active: it appends the feed to its open window. Rebuilding replays a lost window,
/// or one that it takes over, from the log. Rolled is sealed: the window is closed and answers queries until the day ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    Waiting,
    Live,
    Rebuilding,
    Rolled,
    /// The day is over and the node is not live: it ends when no rows, queries or `.u.end` remain.
    Ending {
        by_ns: i64,
    },
    /// Draining: ends once other nodes hold its windows, or at `by_ns`.
    Leaving {
        by_ns: i64,
    },
    /// Drained: waits for the fleet's acknowledgement until `by_ns`.
    Released {
        by_ns: i64,
    },
    /// The fleet was asked to terminate it.
    Terminated,
}

impl Phase {
    /// Returns the state name used in `.rdb.stats` and for the service manager.
    pub fn name(self) -> &'static str {
        match self {
            Phase::Waiting => "waiting",
            Phase::Live => "live",
            Phase::Rebuilding => "rebuilding",
            Phase::Rolled => "rolled",
            Phase::Leaving { .. } | Phase::Released { .. } => "leaving",
            Phase::Ending { .. } => "ending",
            Phase::Terminated => "terminated",
        }
    }
}
