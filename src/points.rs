//! Failpoints (`Point`): named places of the protocol where a test kills or pauses a process, such as after an update is logged and
//! before it is published, or in the middle of a handover.
//!
//! Without the feature `points`, which no release has, there are none, and the compiler removes the checks. With it, `elastick points`
//! lists them, and `ELASTICK_POINT="NAME[ NTH[ kill|pause]]"`, read once, arms one: the process ends as by `kill -9`, or pauses until
//! SIGCONT, when it reaches the failpoint for the NTH time.

macro_rules! points {
    ($($variant:ident $program:literal $name:literal,)*) => {
        /// A failpoint, named after the step just done, or after the next one.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Point {
            $(#[doc = concat!("`", $name, "` of `elastick ", $program, "`.")] $variant,)*
        }

        impl Point {
            /// Every failpoint with the program that reaches it and its name.
            pub const ALL: &[(Point, &str, &str)] = &[$((Point::$variant, $program, $name),)*];
        }
    };
}

points! {
    StartLocked "tick" "start-locked",
    StartLogOpened "tick" "start-log-opened",
    StartJournalRead "tick" "start-journal-read",
    StartRestored "tick" "start-restored",
    LogBeforeWrite "tick" "log-before-write",
    LogHalfWritten "tick" "log-half-written",
    LogWritten "tick" "log-written",
    LogBeforeSync "tick" "log-before-sync",
    LogSynced "tick" "log-synced",
    IndexBeforeWrite "tick" "index-before-write",
    BeforePublish "tick" "before-publish",
    BeforeAck "tick" "before-ack",
    Acknowledged "tick" "acknowledged",
    SocketHalfWritten "tick" "socket-half-written",
    SocketsBetween "tick" "sockets-between",
    JournalBeforeWrite "tick" "journal-before-write",
    JournalHalfWritten "tick" "journal-half-written",
    JournalWritten "tick" "journal-written",
    QueueStepped "tick" "queue-stepped",
    QueueBetweenActions "tick" "queue-between-actions",
    JoinAnswered "tick" "join-answered",
    BeforeLive "tick" "before-live",
    LiveTold "tick" "live-told",
    RebuildTold "tick" "rebuild-told",
    RollCame "tick" "roll-came",
    FedFrom "tick" "fed-from",
    ProofCompared "tick" "proof-compared",
    CatchUpRead "tick" "catch-up-read",
    DayFlushed "tick" "day-flushed",
    DayLogMade "tick" "day-log-made",
    DayEndSent "tick" "day-end-sent",
    DayQueueEnded "tick" "day-queue-ended",
    DayClosed "tick" "day-closed",
    ByeSaid "tick" "bye-said",
    NodeJoined "rdb" "node-joined",
    NodeLive "rdb" "node-live",
    NodeReplays "rdb" "node-replays",
    NodeReplayed "rdb" "node-replayed",
    NodeFed "rdb" "node-fed",
    NodeScales "rdb" "node-scales",
    NodeRolls "rdb" "node-rolls",
    NodeBeforeSend "rdb" "node-before-send",
    NodeSent "rdb" "node-sent",
    NodeRebuilds "rdb" "node-rebuilds",
    NodeRebuilt "rdb" "node-rebuilt",
    NodeDrops "rdb" "node-drops",
    NodeDayEnds "rdb" "node-day-ends",
    NodeDayEnded "rdb" "node-day-ended",
    NodeLeaves "rdb" "node-leaves",
    NodeHands "rdb" "node-hands",
    NodeShows "rdb" "node-shows",
    FeedFlushed "feed" "feed-flushed",
    FeedBeforeConfirm "feed" "feed-before-confirm",
    FeedConfirmed "feed" "feed-confirmed",
    FeedReconnected "feed" "feed-reconnected",
    FeedLookedUp "feed" "feed-looked-up",
    FeedResent "feed" "feed-resent",
}

#[cfg(feature = "points")]
mod armed {
    use super::Point;
    use rustix::process::{Signal, getpid, kill_process};
    use std::sync::OnceLock;
    use std::sync::atomic::{AtomicU64, Ordering};

    /// The failpoint armed in this process, and its action.
    struct Armed {
        point: Point,
        name: &'static str,
        nth: u64,
        signal: Signal,
    }

    static COME: AtomicU64 = AtomicU64::new(0);

    fn armed() -> Option<&'static Armed> {
        static ARMED: OnceLock<Option<Armed>> = OnceLock::new();
        let read = || {
            let text = std::env::var("ELASTICK_POINT").ok()?;
            let armed = parse(&text);
            if armed.is_none() {
                eprintln!("ELASTICK_POINT={text}: unknown failpoint; `elastick points` lists them");
                std::process::exit(2);
            }
            armed
        };
        ARMED.get_or_init(read).as_ref()
    }

    fn parse(text: &str) -> Option<Armed> {
        let mut words = text.split(' ');
        let name = words.next()?;
        let (point, _, name) = *Point::ALL.iter().find(|(_, _, own)| *own == name)?;
        let nth = words.next().map_or(Some(1), |nth| nth.parse().ok())?;
        let signal = match words.next() {
            None | Some("kill") => Signal::KILL,
            Some("pause") => Signal::STOP,
            Some(_) => return None,
        };
        words.next().is_none().then_some(Armed { point, name, nth, signal })
    }

    /// Reaches a failpoint; kills or pauses the process if it is armed.
    pub fn reach(point: Point) {
        let Some(armed) = armed().filter(|armed| armed.point == point) else { return };
        if COME.fetch_add(1, Ordering::SeqCst).wrapping_add(1) == armed.nth {
            eprintln!("at failpoint {}", armed.name);
            // If the signal cannot be sent, there is nothing else to do.
            let _ = kill_process(getpid(), armed.signal);
        }
    }

    /// Returns the length of the first part of a write that is split at a failpoint; 0 if it is not armed.
    pub fn half(point: Point, bytes: usize) -> usize {
        if armed().is_some_and(|armed| armed.point == point) { bytes / 2 } else { 0 }
    }
}

#[cfg(feature = "points")]
pub use armed::{half, reach};

/// Reaches a failpoint: no effect without the feature.
#[cfg(not(feature = "points"))]
#[inline(always)]
pub const fn reach(_: Point) {}

/// Returns the length of the first part of a split write: 0 without the feature.
#[cfg(not(feature = "points"))]
#[inline(always)]
pub const fn half(_: Point, _: usize) -> usize {
    0
}
