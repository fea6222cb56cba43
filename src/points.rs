//! Failpoints: named places at which a test kills or pauses a process. They stand only where the process acts on the world outside it:
//! at writes, reads and syncs of log and journal, at the lock of the start, at sockets, before a request for capacity ([`Point`]), and
//! where tickerplant and node take and send the messages of their protocol ([`Boundary`]). The files of the schema and the lock have
//! none behind the start.
//!
//! Without the feature `points`, which no release has, there are none, and the compiler removes the checks. With it, `elastick points`
//! lists them, and `ELASTICK_POINT="NAME[ NTH[ kill|pause]]"`, read once, arms one: the process ends as by `kill -9`, or pauses until
//! SIGCONT, when it reaches the failpoint for the NTH time.

macro_rules! points {
    ($($variant:ident $name:literal of $($program:literal)*;)*) => {
        /// A failpoint of files, sockets and the fleet, named after the step just done, or after the next one.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Point {
            $(#[doc = concat!("`", $name, "`.")] $variant,)*
        }

        impl Point {
            /// Every such failpoint with the programs that reach it and its name.
            pub const ALL: &[(Point, &[&str], &str)] = &[$((Point::$variant, &[$($program),*], $name),)*];
        }
    };
}

points! {
    StartLocked "start-locked" of "tick";
    StartLogOpened "start-log-opened" of "tick";
    BeforeListen "before-listen" of "tick";
    LogBeforeWrite "log-before-write" of "tick";
    LogHalfWritten "log-half-written" of "tick";
    LogWritten "log-written" of "tick";
    LogBeforeSync "log-before-sync" of "tick";
    LogSynced "log-synced" of "tick";
    LogBeforeRoll "log-before-roll" of "tick";
    LogBeforeName "log-before-name" of "tick";
    LogRolled "log-rolled" of "tick";
    IndexBeforeWrite "index-before-write" of "tick";
    JournalOpened "journal-opened" of "tick";
    JournalBeforeWrite "journal-before-write" of "tick";
    JournalHalfWritten "journal-half-written" of "tick";
    JournalWritten "journal-written" of "tick";
    SocketsBeforeWrite "sockets-before-write" of "tick";
    SocketHalfWritten "socket-half-written" of "tick";
    SocketsBetween "sockets-between" of "tick";
    SocketsWritten "sockets-written" of "tick";
    CatchUpRead "catch-up-read" of "tick";
    ProofCompared "proof-compared" of "tick";
    ClientConnected "client-connected" of "rdb" "feed";
    ClientBeforeWrite "client-before-write" of "rdb" "feed";
    ClientHalfWritten "client-half-written" of "rdb" "feed";
    ClientWritten "client-written" of "rdb" "feed";
    ClientAnswered "client-answered" of "feed";
    NodeLogRead "node-log-read" of "rdb";
    FleetBeforeCall "fleet-before-call" of "rdb";
    FeedLogRead "feed-log-read" of "feed";
}

/// Where messages of the protocol between tickerplant and node pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Boundary {
    /// The tickerplant has received a node's call, and has not handled it yet.
    TickTakes,
    /// The tickerplant is about to send a message to a node.
    TickSends,
    /// A node has received a message and is about to handle it.
    NodeTakes,
    /// A node is about to send a call.
    NodeSends,
}

impl Boundary {
    /// Returns the start of the failpoints' names; the last part of the message's name follows, as in `node-takes-live`.
    pub const fn prefix(self) -> &'static str {
        match self {
            Boundary::TickTakes => "tick-takes-",
            Boundary::TickSends => "tick-sends-",
            Boundary::NodeTakes => "node-takes-",
            Boundary::NodeSends => "node-sends-",
        }
    }

    /// Returns the program of the failpoints.
    pub const fn program(self) -> &'static str {
        match self {
            Boundary::TickTakes | Boundary::TickSends => "tick",
            Boundary::NodeTakes | Boundary::NodeSends => "rdb",
        }
    }
}

/// The messages that are failpoints: those after which tickerplant and nodes hold something else than before.
pub const MESSAGES: &[(Boundary, &[&str])] = &[
    (Boundary::TickTakes, &["join", "from", "rolling", "proved", "leaving"]),
    (Boundary::TickSends, &["joined", "live", "rebuild", "handed", "end", "bye"]),
    (Boundary::NodeTakes, &["joined", "drop", "live", "update", "rebuild", "handed", "show", "end"]),
    (Boundary::NodeSends, &["join", "from", "rolling", "proved", "leaving"]),
];

/// Returns every failpoint as its program and name.
pub fn all() -> impl Iterator<Item = (&'static str, String)> {
    let points = Point::ALL.iter();
    let points = points.flat_map(|(_, programs, name)| programs.iter().map(|program| (*program, (*name).to_string())));
    let of = |at: Boundary, name: &str| (at.program(), format!("{}{name}", at.prefix()));
    points.chain(MESSAGES.iter().flat_map(move |(at, names)| names.iter().map(move |name| of(*at, name))))
}

#[cfg(feature = "points")]
mod armed {
    use super::{Boundary, Point, all};
    use rustix::process::{Signal, getpid, kill_process};
    use std::sync::OnceLock;
    use std::sync::atomic::{AtomicU64, Ordering};

    /// The failpoint armed in this process, and its action.
    struct Armed {
        name: String,
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
        let (_, name) = all().find(|(_, own)| own == name)?;
        let nth = words.next().map_or(Some(1), |nth| nth.parse().ok())?;
        let signal = match words.next() {
            None | Some("kill") => Signal::KILL,
            Some("pause") => Signal::STOP,
            Some(_) => return None,
        };
        words.next().is_none().then_some(Armed { name, nth, signal })
    }

    impl Armed {
        fn is(&self, point: Point) -> bool {
            Point::ALL.iter().any(|(own, _, name)| *own == point && *name == self.name)
        }

        fn is_message(&self, at: Boundary, name: &str) -> bool {
            self.name.strip_prefix(at.prefix()).is_some_and(|own| name.rsplit('.').next() == Some(own))
        }

        /// Kills or pauses the process the time it is armed for.
        fn reached(&self) {
            if COME.fetch_add(1, Ordering::SeqCst).wrapping_add(1) == self.nth {
                eprintln!("at failpoint {}", self.name);
                // If the signal cannot be sent, there is nothing else to do.
                let _ = kill_process(getpid(), self.signal);
            }
        }
    }

    /// Reaches a failpoint; kills or pauses the process if it is armed.
    pub fn reach(point: Point) {
        armed().filter(|armed| armed.is(point)).into_iter().for_each(Armed::reached);
    }

    /// As [`reach`], for the failpoint of the message with this name, if it is one.
    pub fn message(at: Boundary, name: &str) {
        armed().filter(|armed| armed.is_message(at, name)).into_iter().for_each(Armed::reached);
    }

    /// Returns the length of the first part of a write that is split at a failpoint; 0 if it is not armed.
    pub fn half(point: Point, bytes: usize) -> usize {
        if armed().is_some_and(|armed| armed.is(point)) { bytes / 2 } else { 0 }
    }
}

#[cfg(feature = "points")]
pub use armed::{half, message, reach};

/// Reaches a failpoint: no effect without the feature.
#[cfg(not(feature = "points"))]
#[inline(always)]
pub const fn reach(_: Point) {}

/// Reaches the failpoint of a message: no effect without the feature.
#[cfg(not(feature = "points"))]
#[inline(always)]
pub const fn message(_: Boundary, _: &str) {}

/// Returns the length of the first part of a split write: 0 without the feature.
#[cfg(not(feature = "points"))]
#[inline(always)]
pub const fn half(_: Point, _: usize) -> usize {
    0
}
