//! How a follower takes up the copy of its leader's log: whether both have one history, where they part, and what follows. Pure.
//!
//! [`Joining::step`] takes what the shell has found, and returns what it has to do next. The beginnings of both logs are compared by their checksums:
//! first the whole own log, then ends of blocks, then the records of the first block that differs. So the fork is exact to the update, whatever
//! the epochs claim. Epochs decide which side is right: only updates of an earlier epoch than the leader's are cut off. Where no other process can
//! have had the same epochs, they also tell what a fork cannot be: both logs have the same updates before the leader's epoch began, unless a disk
//! or a person changed one of them.

use crate::log::{LogId, Mark};
use std::fmt;

/// Position of the first record of a log.
pub const FIRST: Mark = Mark { offset_bytes: proto::log::FILE_HEAD.len() as u64, index: 0 };

/// Positions compared in one request.
const MAX_PROBES: usize = 256;

/// A day in days since 2000.01.01.
pub type Day = i32;

/// The follower's own directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Own {
    /// Identity of its logs; `None` if there are none.
    pub id: Option<LogId>,
    /// Highest epoch that has written here.
    pub epoch: u64,
    /// Its newest log, and where it ends.
    pub newest: Option<(Day, Mark)>,
    /// The log before that, and its length.
    pub earlier: Option<(Day, u64)>,
}

/// What the leader says of its logs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Leader {
    pub id: LogId,
    pub epoch: u64,
    /// Updates that its log of the current day had when its epoch began, if no other process can have had that epoch.
    pub began: Option<u64>,
    /// Its current day.
    pub date: Day,
    /// Days of which it has logs, in order, with the current one.
    pub dates: Vec<Day>,
}

/// What the shell has found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    Start,
    /// Ends of blocks or records of the own log, in order.
    Ends(Vec<Mark>),
    /// Checksums of the requested beginnings, of the own log and of the leader's; `None` past its end.
    Sums(Vec<(Option<u32>, Option<u32>)>),
}

/// What the shell has to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Begin with the log of this day in a directory without logs.
    Begin(Day),
    /// Copy from the own end on.
    Copy,
    /// Go on with the leader's log of this day: it has none of the own newest day.
    Skip(Day),
    /// Compare the beginnings of the logs of a day before these offsets.
    Compare(Day, Vec<u64>),
    /// Find the ends of the own log's blocks.
    ListBlocks,
    /// Find the ends of the own log's records between two ends.
    ListRecords(Mark, Mark),
    /// Cut the own newest log back, keep what is cut off, and copy from there on.
    CutBack(Mark),
    /// The leader went on with an earlier day: keep the own newest log aside, and begin again with the one before.
    SetAside,
}

/// Why a follower copies nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refused {
    /// Another directory's logs.
    OtherLog { own: LogId, leader: LogId },
    /// Logs without an identity.
    NoIdentity,
    /// The leader is of an earlier epoch than the own log.
    EarlierLeader { own: u64, leader: u64 },
    /// The own log has updates that the leader of the same epoch lacks.
    Ahead { fork: u64, own: u64, epoch: u64 },
    /// The logs differ before the leader's epoch began, though the own one was written up to the epoch before.
    Changed { fork: u64, began: u64, epoch: u64 },
    /// The own newest log is of a later day than the leader's.
    LaterDay,
    /// The own logs differ before their newest day.
    EarlierDay,
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Refused::OtherLog { own, leader } => write!(
                f,
                "the logs in this directory are of another tickerplant (identity {own}, the leader's is {leader}): find out which of both has the updates \
                 that count, keep this directory, and follow with another, empty one"
            ),
            Refused::NoIdentity => {
                write!(
                    f,
                    "the logs in this directory have no identity, as those of kdb+: follow with an empty directory"
                )
            }
            Refused::EarlierLeader { own, leader } => write!(
                f,
                "this log is ahead of its leader: it was written under epoch {own}, and the leader's is {leader}. Each start of a leader raises its \
                 epoch, with updates or without, so compare what both logs have. To keep the leader's, follow with an empty directory; to keep \
                 this one, start the leader with --follow, and this one without"
            ),
            Refused::Ahead { fork, own, epoch } => write!(
                f,
                "this log differs from its leader's from update {fork} on (it has {own}), and both are of epoch {epoch}: both were active \
                 at once, or one of the directories was changed. To keep the leader's updates, restart it, which gives it a higher epoch"
            ),
            Refused::Changed { fork, began, epoch } => write!(
                f,
                "this log differs from its leader's from update {fork} on, and should not before {began}, where the leader's epoch {epoch} began: a \
                 disk or a person has changed one of both, so nothing is copied or cut off. Compare them (elastick log proof, elastick log \
                 cat). To keep the leader's, follow with an empty directory; to keep this one, end the leader, then run elastick lease \
                 release --accept-loss"
            ),
            Refused::LaterDay => write!(
                f,
                "the newest log in this directory is of a later day than the leader's: move it and the files beside it away, or follow with \
                 an empty directory"
            ),
            Refused::EarlierDay => write!(
                f,
                "the logs in this directory differ from the leader's since before their newest day: follow with an empty directory"
            ),
        }
    }
}

/// Which of the own ends are still compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Level {
    Whole,
    Blocks,
    Records,
    /// The day before, and what follows if it is the same.
    Earlier(Then),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Then {
    Copy,
    Cut,
}

/// Takes up a copy.
#[derive(Clone, Debug)]
pub struct Joining {
    own: Own,
    leader: Leader,
    level: Level,
    /// Ends whose beginnings are compared, in order; the last one differs.
    ends: Vec<Mark>,
    /// Those compared by the request under way, as positions in `ends`.
    probes: Vec<usize>,
    /// Both logs are the same before this position.
    same: Mark,
}

impl Joining {
    pub fn new(own: Own, leader: Leader) -> Joining {
        Joining { own, leader, level: Level::Whole, ends: Vec::new(), probes: Vec::new(), same: FIRST }
    }

    /// Returns what to do next.
    ///
    /// # Errors
    /// Why nothing is copied.
    pub fn step(&mut self, event: Event) -> Result<Action, Refused> {
        match event {
            Event::Start => self.start(),
            Event::Ends(ends) => self.list(ends),
            Event::Sums(sums) => self.compared(&sums),
        }
    }

    fn start(&mut self) -> Result<Action, Refused> {
        let (own, leader) = (&self.own, &self.leader);
        let Some((newest, end)) = own.newest else {
            return match own.id {
                Some(id) if id != leader.id => Err(Refused::OtherLog { own: id, leader: leader.id }),
                _ => Ok(Action::Begin(leader.date)),
            };
        };
        let id = own.id.ok_or(Refused::NoIdentity)?;
        if id != leader.id {
            return Err(Refused::OtherLog { own: id, leader: leader.id });
        }
        if leader.epoch < own.epoch {
            return Err(Refused::EarlierLeader { own: own.epoch, leader: leader.epoch });
        }
        if leader.dates.contains(&newest) {
            self.ends = vec![end];
            self.probes = vec![0];
            return Ok(Action::Compare(newest, vec![end.offset_bytes]));
        }
        match leader.dates.iter().find(|date| **date > newest) {
            Some(next) => Ok(Action::Skip(*next)),
            None if leader.epoch > own.epoch => Ok(Action::SetAside),
            None => Err(Refused::LaterDay),
        }
    }

    fn compared(&mut self, sums: &[(Option<u32>, Option<u32>)]) -> Result<Action, Refused> {
        let is_same = |(own, leader): &(Option<u32>, Option<u32>)| own.is_some() && own == leader;
        let alike = sums.iter().take_while(|sums| is_same(sums)).count();
        if let Level::Earlier(then) = self.level {
            return match (sums, then) {
                ([(Some(own), Some(leader)), (_, None)], Then::Copy) if own == leader => Ok(Action::Copy),
                ([(Some(own), Some(leader)), (_, None)], Then::Cut) if own == leader => Ok(Action::CutBack(self.same)),
                _ if self.leader.epoch > self.own.epoch => Ok(Action::SetAside),
                _ => Err(Refused::EarlierDay),
            };
        }
        let first_other = self.probes.get(alike).copied();
        if let Some(last_same) = alike.checked_sub(1).and_then(|at| self.probes.get(at)) {
            self.same = self.ends.get(*last_same).copied().unwrap_or(self.same);
        }
        match (self.level, first_other) {
            // A day without updates proves nothing of the one before.
            (Level::Whole, None) if self.same == FIRST => Ok(self.compare_earlier(Then::Copy).unwrap_or(Action::Copy)),
            (Level::Whole, None) => Ok(Action::Copy),
            (Level::Whole, Some(_)) => Ok(Action::ListBlocks),
            (_, other) => {
                if let Some(other) = other {
                    self.ends.truncate(other.saturating_add(1));
                }
                let same = self.same;
                self.ends.retain(|end| end.offset_bytes > same.offset_bytes);
                self.narrow()
            }
        }
    }

    fn list(&mut self, mut ends: Vec<Mark>) -> Result<Action, Refused> {
        self.level = if self.level == Level::Whole { Level::Blocks } else { Level::Records };
        let last = self.ends.last().copied().unwrap_or(self.same);
        let is_between = |end: &Mark| self.same.offset_bytes < end.offset_bytes && end.offset_bytes < last.offset_bytes;
        ends.retain(is_between);
        ends.push(last);
        self.ends = ends;
        self.narrow()
    }

    /// Compares some of the ends before the last one, which differs.
    fn narrow(&mut self) -> Result<Action, Refused> {
        let open = self.ends.len().saturating_sub(1);
        let Some((newest, _)) = self.own.newest else { return Ok(Action::Begin(self.leader.date)) };
        if open == 0 {
            return match (self.level, self.ends.last()) {
                (Level::Blocks, Some(last)) => Ok(Action::ListRecords(self.same, *last)),
                _ => self.forked(),
            };
        }
        let every = open.div_ceil(MAX_PROBES).max(1);
        self.probes = (0..open).filter(|at| (at + 1) % every == 0 || *at + 1 == open).collect();
        let offsets = self.probes.iter().filter_map(|at| self.ends.get(*at)).map(|end| end.offset_bytes).collect();
        Ok(Action::Compare(newest, offsets))
    }

    fn forked(&mut self) -> Result<Action, Refused> {
        let own_updates = self.own.newest.map_or(0, |(_, end)| end.index);
        if self.leader.epoch <= self.own.epoch {
            return Err(Refused::Ahead { fork: self.same.index, own: own_updates, epoch: self.own.epoch });
        }
        if let Some(began) = self.first_of_leader().filter(|began| self.same.index < *began) {
            return Err(Refused::Changed { fork: self.same.index, began, epoch: self.leader.epoch });
        }
        // Without a common update, the logs may have parted on an earlier day.
        let earlier = if self.same == FIRST { self.compare_earlier(Then::Cut) } else { None };
        Ok(earlier.unwrap_or(Action::CutBack(self.same)))
    }

    /// Where the logs may part at the earliest, if that is known: the leader's epoch follows the own one.
    fn first_of_leader(&self) -> Option<u64> {
        let is_today = self.own.newest.is_some_and(|(day, _)| day == self.leader.date);
        let is_next = self.own.epoch.checked_add(1) == Some(self.leader.epoch);
        self.leader.began.filter(|_| is_today && is_next)
    }

    /// Compares the day before, which both logs have to its end: the leader's has no byte behind that of the own one.
    fn compare_earlier(&mut self, then: Then) -> Option<Action> {
        let (date, bytes) = self.own.earlier.filter(|(date, _)| self.leader.dates.contains(date))?;
        self.level = Level::Earlier(then);
        Some(Action::Compare(date, vec![bytes, bytes.saturating_add(1)]))
    }
}

#[cfg(test)]
#[path = "joining_tests.rs"]
mod tests;
