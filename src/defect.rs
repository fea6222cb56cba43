//! Defects that can be planted, to show that the simulator finds them. Outside of unit tests and without the feature `defects` there
//! is none, and the compiler leaves out what asks for them.

/// What can be planted: first what the paper's code does, then more of that kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Defect {
    /// A replay passes over the second update of its window.
    SkipsOneAtReplay,
    /// A rolled node that disconnects rolls the live one.
    RolledDisconnectPromotes,
    /// A node that rolls while it replays goes on replaying.
    RollInReplayUndone,
    /// A repeated request for a node asks for one more.
    ScalesTwiceOnRetry,
    /// After a restart of the tickerplant nobody knows who holds what.
    StateLostAtRestart,
    PublishBeforeLog,
    WindowOffByOne,
    /// Updates that a node has already are taken again.
    NoDedupOnResume,
    SyncErrorIgnored,
    AckBeforeDurable,
    /// A proof that differs counts as right.
    ProofNotChecked,
    /// A subscriber that was fed from the log goes on one update late.
    RejoinsOneLate,
    /// Messages that do not fit the outbox are left out.
    SlowSubscriberLosesUpdates,
    /// A node keeps its closed windows over the day's end.
    DayEndForgetsNothing,
    /// What a rolled node held is not rebuilt when it is lost.
    LostWindowForgotten,
    /// A rebuilt window ends one update early.
    RebuildEndsEarly,
    /// The successor begins one update late.
    SuccessorStartsLate,
    /// A connection that ends is not told to the queue.
    DisconnectNotNoticed,
    /// A node that was told to forget everything keeps it.
    DropNotHeeded,
    /// A node goes on using its list of who has joined when it does not watch launches any more.
    RolledNodeReplacesOthers,
    /// A node that leaves does not know that its fleet replaces it: one more is asked for to take over.
    LeaverCountedTwice,
    /// An update whose publisher asks for no answer goes nowhere, where its length is a multiple of seven.
    AsyncUpdateSwallowed,
    /// The policy hears of a window before it is opened: a full node's roll finds none and tells nobody.
    PolicyBeforeWindow,
    /// A node reads whatever file is at the path of the log.
    AnyLogIsRead,
    /// A table that gets a column is told to those nodes only that are given every update as it comes.
    ChangeToldAtTipOnly,
}

impl Defect {
    pub const ALL: [Defect; 25] = [
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
    ];
}

#[cfg(any(test, feature = "defects"))]
mod planted {
    use super::Defect;
    use std::cell::Cell;

    thread_local! {
        static PLANTED: Cell<Option<Defect>> = const { Cell::new(None) };
    }

    /// Plants one on this thread, or none.
    pub fn plant(defect: Option<Defect>) {
        PLANTED.set(defect);
    }

    pub fn is_planted(defect: Defect) -> bool {
        PLANTED.get() == Some(defect)
    }
}

#[cfg(any(test, feature = "defects"))]
pub use planted::{is_planted, plant};

/// Whether this defect is planted: never, in a release.
#[cfg(not(any(test, feature = "defects")))]
#[inline(always)]
pub const fn is_planted(_: Defect) -> bool {
    false
}
