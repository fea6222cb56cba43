//! Mutants (`Defect`): seeded bugs that show whether the simulator and the model find them. Without the feature `defects` there are none,
//! and the compiler removes the checks.

/// A mutant: first the known bugs of the paper's code, then more of that kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Defect {
    /// A replay skips the second update of its window.
    SkipsOneAtReplay,
    /// The disconnect of a rolled node rolls the live node.
    RolledDisconnectPromotes,
    /// A node that rolls during a replay continues to replay.
    RollInReplayUndone,
    /// A repeated request for a node requests one more.
    ScalesTwiceOnRetry,
    /// After a restart the tickerplant has lost which node holds which window.
    StateLostAtRestart,
    PublishBeforeLog,
    WindowOffByOne,
    /// A node applies updates again that it already has.
    NoDedupOnResume,
    SyncErrorIgnored,
    AckBeforeDurable,
    /// A differing proof counts as correct.
    ProofNotChecked,
    /// A subscriber leaves catch-up one update late.
    RejoinsOneLate,
    /// Messages that do not fit into the send buffer are dropped.
    SlowSubscriberLosesUpdates,
    /// A node keeps its closed windows after the end of the day.
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
    /// The policy gets a window before it is opened: the roll of a full node finds none and sends nothing.
    PolicyBeforeWindow,
    /// A node reads any file at the path of the log.
    AnyLogIsRead,
    /// A schema change is sent only to nodes at the tip, not to those in catch-up.
    ChangeToldAtTipOnly,
    /// A second process with the name of a connected node replaces it, and the first connection is closed.
    NameGivenTwice,
    /// The tickerplant's health counts a disconnected live node as connected.
    HealthCountsAbsent,
    /// A node's count of connections lost at the same update restarts at every join.
    StuckForgottenAtJoin,
    /// After a restart of the tickerplant, nodes have no grace period to reconnect.
    NoGraceAfterRestart,
    /// A node receives nothing for 80 of every 100 seconds.
    NodeDozes,
    /// A node does not report that it skipped an update.
    LeftOutUntold,
}

impl Defect {
    pub const ALL: [Defect; 31] = [
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
        Defect::StuckForgottenAtJoin,
        Defect::NoGraceAfterRestart,
        Defect::NodeDozes,
        Defect::LeftOutUntold,
    ];
}

#[cfg(feature = "defects")]
mod planted {
    use super::Defect;
    use std::cell::Cell;

    thread_local! {
        static PLANTED: Cell<Option<Defect>> = const { Cell::new(None) };
    }

    /// Activates one mutant on this thread, or none.
    pub fn plant(defect: Option<Defect>) {
        PLANTED.set(defect);
    }

    pub fn is_planted(defect: Defect) -> bool {
        PLANTED.get() == Some(defect)
    }
}

#[cfg(feature = "defects")]
pub use planted::{is_planted, plant};

/// Whether this mutant is active: never in a release.
#[cfg(not(feature = "defects"))]
#[inline(always)]
pub const fn is_planted(_: Defect) -> bool {
    false
}
