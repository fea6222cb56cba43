//! Mutants (`Defect`): seeded bugs that show whether the simulator and the model find them. None is in production: each wraps an
//! interface between production and the simulated environment, so that a process behaves, as seen by all others, as if it had the bug.
//!
//! - `tick`: what a tickerplant receives, its connections' ends, its health, and the state with which it starts;
//! - `node`: what a node receives, why its connections end, and its requests to the fleet;
//! - `sleep`: what wakes a sleeping cluster, and what was written down;
//! - `links`: what a tickerplant sends; `disk`: what its disk does; `lease`: what the lease's store does. `SkipsOneAtReplay` is in `reading.rs`.

pub mod disk;
pub mod lease;
pub mod links;
pub mod node;
pub mod sleep;
pub mod tick;

use std::cell::Cell;

/// A mutant: first the known bugs of the paper's code, then more of that kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Defect {
    /// A replay skips the second update that it reads.
    SkipsOneAtReplay,
    /// The disconnect of a rolled node rolls the live node.
    RolledDisconnectPromotes,
    /// A node that rolls during a replay continues to replay.
    RollInReplayUndone,
    /// A repeated request for a node requests one more.
    ScalesTwiceOnRetry,
    /// After a restart the tickerplant has lost which node holds which window, and nodes' joins do not say it.
    StateLostAtRestart,
    /// Updates are published before they are in the log: a write takes effect when the next one comes.
    PublishBeforeLog,
    WindowOffByOne,
    /// A node applies updates again that it already has.
    NoDedupOnResume,
    SyncErrorIgnored,
    /// A sync returns before anything is durable.
    AckBeforeDurable,
    /// A differing proof counts as correct.
    ProofNotChecked,
    /// A subscriber leaves catch-up one update late.
    RejoinsOneLate,
    /// Messages that do not fit into the send buffer are dropped.
    SlowSubscriberLosesUpdates,
    /// A node keeps its windows after the end of the day.
    DayEndForgetsNothing,
    /// The window of a lost rolled node is not rebuilt.
    LostWindowForgotten,
    /// A rebuilt window ends one update early.
    RebuildEndsEarly,
    /// The successor begins one update late.
    SuccessorStartsLate,
    /// The queue is not notified of a closed connection.
    DisconnectNotNoticed,
    /// A node keeps its rows in spite of `Drop`.
    DropNotHeeded,
    /// A node continues to use its list of joined instances when it no longer watches launches.
    RolledNodeReplacesOthers,
    /// A leaving node does not know that its fleet replaces it, and requests one more node as its replacement.
    LeaverCountedTwice,
    /// An async update is lost if its length is a multiple of seven.
    AsyncUpdateSwallowed,
    /// The policy gets a window before it is opened: the roll of a full node finds none, and nothing is sent.
    PolicyBeforeWindow,
    /// A node reads any file at the path of the log.
    AnyLogIsRead,
    /// A schema change is sent only to nodes at the tip, not to those in catch-up.
    ChangeToldAtTipOnly,
    /// A second process with the name of a connected node replaces it, and the first connection is closed.
    NameGivenTwice,
    /// The tickerplant's health counts a disconnected live node as connected.
    HealthCountsAbsent,
    /// A node takes an update that it cannot receive for a broken connection.
    UnreadableForgotten,
    /// After a restart of the tickerplant, nodes have no grace period to reconnect.
    NoGraceAfterRestart,
    /// A node receives nothing for 80 of every 100 seconds.
    NodeDozes,
    /// A node does not report that it skipped an update.
    LeftOutUntold,
    /// A sleeping cluster is not woken: the tickerplant's requests for first nodes are lost.
    ForgetsToWake,
    /// Nodes let go of more than was written down: of all updates so far.
    WrittenTooFar,
    /// A queue that falls asleep keeps no account of what its nodes held: the nodes of the wake-up begin at the tip.
    SleepsUncovered,
    /// The store of the lease applies a write whatever its condition says.
    LeaseWithoutCondition,
    /// A renewal is applied though the record has another version.
    LeaseRenewedByStaleRead,
    /// A lease that is given back is deleted, and its epoch with it.
    LeaseDeletedAtRelease,
    /// A lease ends by the clock of its writer, which goes before the reader's.
    LeaseByAnotherClock,
    /// A tickerplant relies on its whole lease, with no margin for clocks that run at different rates.
    LeaseWithoutMargin,
}

impl Defect {
    pub const ALL: [Defect; 39] = [
        Defect::SkipsOneAtReplay,
        Defect::RolledDisconnectPromotes,
        Defect::RollInReplayUndone,
        Defect::ScalesTwiceOnRetry,
        Defect::StateLostAtRestart,
        Defect::PublishBeforeLog,
        Defect::WindowOffByOne,
        Defect::NoDedupOnResume,
        Defect::SyncErrorIgnored,
        Defect::AckBeforeDurable,
        Defect::ProofNotChecked,
        Defect::RejoinsOneLate,
        Defect::SlowSubscriberLosesUpdates,
        Defect::DayEndForgetsNothing,
        Defect::LostWindowForgotten,
        Defect::RebuildEndsEarly,
        Defect::SuccessorStartsLate,
        Defect::DisconnectNotNoticed,
        Defect::DropNotHeeded,
        Defect::RolledNodeReplacesOthers,
        Defect::LeaverCountedTwice,
        Defect::AsyncUpdateSwallowed,
        Defect::PolicyBeforeWindow,
        Defect::AnyLogIsRead,
        Defect::ChangeToldAtTipOnly,
        Defect::NameGivenTwice,
        Defect::HealthCountsAbsent,
        Defect::UnreadableForgotten,
        Defect::NoGraceAfterRestart,
        Defect::NodeDozes,
        Defect::LeftOutUntold,
        Defect::ForgetsToWake,
        Defect::WrittenTooFar,
        Defect::SleepsUncovered,
        Defect::LeaseWithoutCondition,
        Defect::LeaseRenewedByStaleRead,
        Defect::LeaseDeletedAtRelease,
        Defect::LeaseByAnotherClock,
        Defect::LeaseWithoutMargin,
    ];
}

thread_local! {
    static PLANTED: Cell<Option<Defect>> = const { Cell::new(None) };
}

/// Activates one mutant for the runs of this thread, or none.
pub fn plant(defect: Option<Defect>) {
    PLANTED.set(defect);
}

/// Returns the active mutant.
pub fn planted() -> Option<Defect> {
    PLANTED.get()
}

pub fn is_planted(defect: Defect) -> bool {
    planted() == Some(defect)
}

/// A message as a mutant passes it on.
enum Delivered {
    Unchanged,
    /// This object in its place.
    Instead(Vec<u8>),
    Nothing,
}

/// Object of an encoded message.
fn object(message: &[u8]) -> Vec<u8> {
    message.get(proto::HEADER_BYTES..).unwrap_or_default().to_vec()
}
