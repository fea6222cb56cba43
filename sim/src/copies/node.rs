//! One tickerplant: its disk, its process, and what it knows of its followers.

use elastick::lease::{Lease, LeaseWrite, OwnCopy, Terms};
use elastick::tick::follow::in_sync::InSync;

/// An update in a log: the epoch under which it was written, and its number, which no other update has.
pub type Entry = (u64, u64);

/// A log directory.
#[derive(Clone, Debug, Default)]
pub struct Disk {
    /// Name of the copy.
    pub copy: String,
    pub log: Vec<Entry>,
    /// It has a log, with updates or without: before that, each process that starts there gives the copy another number.
    pub has_log: bool,
    /// Highest epoch that it has seen.
    pub epoch: u64,
    /// It was copied from another one since its process led.
    pub is_followers: bool,
    /// A record in the middle of its log is damaged: it is copied to, and can not be opened to be led.
    pub is_damaged: bool,
    /// A process has found that: none starts here before the directory is emptied.
    pub is_given_up: bool,
}

/// A process that leads.
#[derive(Clone, Debug)]
pub struct Leading {
    pub epoch: u64,
    pub in_sync: InSync,
    /// Requests on their way to the lease, and those carried out that it has not looked at.
    pub carried_out: Vec<u64>,
    /// Updates at the end of the log that were logged by this process and are not acknowledged.
    pub waiting: Vec<usize>,
    /// Followers that have connected.
    pub followers: Vec<usize>,
}

/// A running process.
#[derive(Clone, Debug)]
pub struct Process {
    pub lease: Lease,
    /// The call that the store has to answer.
    pub call: Option<Option<LeaseWrite>>,
    pub leading: Option<Leading>,
    pub is_paused: bool,
}

impl Process {
    pub fn start(name: String, disk: &Disk, terms: Terms, now_ns: u64) -> Process {
        let copy = OwnCopy { name: disk.copy.clone(), is_empty: !disk.has_log, is_followers: disk.is_followers };
        let lease = Lease::new(name, terms, now_ns).with_copy(Some(copy));
        Process { lease, call: None, leading: None, is_paused: false }
    }
}

/// A host: the disk stays when the process ends.
#[derive(Clone, Debug)]
pub struct Node {
    pub disk: Disk,
    pub process: Option<Process>,
    /// Directories and processes so far, for names.
    pub drawn: u64,
}
