//! Which followers have every acknowledged update, where the record of a lease names them. Pure.
//!
//! A follower may take over only while the record names it. So it is named only once acknowledgements wait for it and it has all that came before; and
//! they wait for it until the record names it no more.
//!
//! A process that takes the lease leaves the names in the record, so that another copy can still be continued if its own log cannot be opened. Its first request
//! names those that are complete from then on; until that is carried out nothing is acknowledged.

use super::replicas::{Change, Position};
use crate::lease::{Copies, CopyName};

/// What happens to the copies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    Joined(CopyName),
    /// A follower has all updates before this position on its disk.
    Confirmed(CopyName, Position),
    Left(CopyName),
    /// The record names the copies of this request.
    Recorded(u64),
    /// Updates were logged, or time has passed.
    Time,
}

/// What a step leads to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Steps {
    /// Request of this number: the record is to name these copies.
    pub record: Option<(u64, Copies)>,
    /// Change of what is promised to publishers.
    pub change: Option<Change>,
}

/// How far a follower has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// It lacks updates for longer than the time limit.
    Behind,
    /// It keeps up, and acknowledgements wait for it. What was acknowledged without it is before this position.
    Joining(Position),
    /// The record is to name it.
    Kept,
}

#[derive(Clone, Debug)]
struct Follower {
    name: CopyName,
    is_connected: bool,
    has: Position,
    /// A tip that it lacks, and when it was the tip.
    lacks: Option<(Position, i64)>,
    stage: Stage,
}

/// The own copy and those of followers.
#[derive(Clone, Debug)]
pub struct InSync {
    own: CopyName,
    /// Followers that are promised to have an update before its publisher gets the response; 0 if it waits for none.
    needed: usize,
    timeout_ns: i64,
    followers: Vec<Follower>,
    /// A request was carried out: the record names no copy of the leader before.
    is_settled: bool,
    /// Followers that the record names, once it is settled.
    recorded: Vec<CopyName>,
    /// Followers that it may name, because a request for them may have been carried out.
    possible: Vec<CopyName>,
    /// The last request, until it is carried out: its number, and the followers.
    requested: Option<(u64, Vec<CopyName>)>,
    requests: u64,
}

impl Follower {
    /// Takes note of the tip. Returns whether the follower keeps up with it; `None` if that cannot be told yet.
    fn look(&mut self, tip: Position, (now_ns, timeout_ns): (i64, i64)) -> Option<bool> {
        if self.has >= tip {
            self.lacks = None;
            return Some(true);
        }
        let Some((lacks, since_ns)) = self.lacks else {
            self.lacks = Some((tip, now_ns));
            return None;
        };
        let is_late = now_ns.saturating_sub(since_ns) > timeout_ns;
        let has_caught_up = self.has >= lacks;
        if is_late || has_caught_up {
            self.lacks = Some((tip, now_ns));
            return Some(!is_late);
        }
        None
    }

    fn advance(&mut self, tip: Position, now: (i64, i64)) {
        let keeps_up = self.look(tip, now);
        self.stage = match (self.stage, keeps_up) {
            (_, Some(false)) => Stage::Behind,
            (Stage::Joining(_), _) if !self.is_connected => Stage::Behind,
            (Stage::Behind, Some(true)) if self.is_connected => Stage::Joining(tip),
            (stage, _) => stage,
        };
        if matches!(self.stage, Stage::Joining(from) if self.has >= from) {
            self.stage = Stage::Kept;
        }
    }
}

impl InSync {
    /// A leader that has taken the lease, whose record names the copies that were complete before.
    pub fn new(own: CopyName, needed: usize, timeout_ns: i64) -> InSync {
        let (is_settled, requested, requests) = (false, None, 0);
        let (followers, recorded, possible) = (Vec::new(), Vec::new(), Vec::new());
        InSync { own, needed, timeout_ns, followers, is_settled, recorded, possible, requested, requests }
    }

    /// Takes an event; `tip`: the position after the last update that was logged.
    pub fn step(&mut self, event: Event, tip: Position, now_ns: i64) -> Steps {
        let was_missing = self.is_missing();
        match event {
            Event::Joined(name) => {
                self.forget_departed();
                // Another copy at the same address: the former one is gone.
                let address = |name: &str| name.rsplit_once('/').map(|(address, _)| address.to_string());
                let is_replaced = |of: &Follower| of.name != name && address(&of.name) == address(&name);
                self.followers.iter_mut().filter(|of| is_replaced(of)).for_each(|of| of.stage = Stage::Behind);
                match self.followers.iter_mut().find(|of| of.name == name) {
                    // Its directory may have been restored to an earlier state.
                    Some(follower) => (follower.is_connected, follower.has) = (true, Position::default()),
                    None => {
                        let (has, lacks, stage) = (Position::default(), None, Stage::Behind);
                        self.followers.push(Follower { name, is_connected: true, has, lacks, stage });
                    }
                }
            }
            Event::Left(name) => self.of(&name).into_iter().for_each(|of| of.is_connected = false),
            Event::Confirmed(name, position) => {
                self.of(&name).into_iter().for_each(|of| of.has = position);
            }
            Event::Recorded(request) => {
                if let Some((_, followers)) = self.requested.take_if(|(number, _)| *number == request) {
                    (self.possible, self.recorded, self.is_settled) = (followers.clone(), followers, true);
                }
            }
            Event::Time => {}
        }
        let now = (now_ns, self.timeout_ns);
        self.followers.iter_mut().for_each(|of| of.advance(tip, now));
        let record = self.request();
        let change = match (was_missing, self.is_missing()) {
            (false, true) => Some(Change::Missing),
            (true, false) => Some(Change::Back),
            _ => None,
        };
        Steps { record, change }
    }

    fn of(&mut self, name: &str) -> Option<&mut Follower> {
        self.followers.iter_mut().find(|of| of.name == name)
    }

    /// Forgets followers that have left and that the record cannot name.
    fn forget_departed(&mut self) {
        let (recorded, possible) = (&self.recorded, &self.possible);
        let is_known = |of: &Follower| recorded.contains(&of.name) || possible.contains(&of.name);
        self.followers.retain(|of| of.is_connected || is_known(of));
    }

    /// Requests that the record names the followers that keep up, if it does not and is not asked to.
    fn request(&mut self) -> Option<(u64, Copies)> {
        let kept = || self.followers.iter().filter(|of| of.stage == Stage::Kept);
        let last = self.requested.as_ref().map_or(&self.recorded, |(_, requested)| requested);
        let is_made = self.is_settled || self.requested.is_some();
        if is_made && kept().count() == last.len() && kept().all(|of| last.contains(&of.name)) {
            return None;
        }
        let wanted: Vec<CopyName> = kept().map(|of| of.name.clone()).collect();
        self.requests = self.requests.saturating_add(1);
        for name in &wanted {
            if !self.possible.contains(name) {
                self.possible.push(name.clone());
            }
        }
        let copies = Copies::of(wanted.iter().cloned().chain([self.own.clone()]));
        self.requested = Some((self.requests, wanted));
        Some((self.requests, copies))
    }

    /// Before the lease is given back: followers that lack updates are not to be named.
    ///
    /// Returns the request for that, if one is needed.
    pub fn exclude_behind(&mut self, tip: Position) -> Option<(u64, Copies)> {
        self.followers.iter_mut().filter(|of| of.has < tip).for_each(|of| of.stage = Stage::Behind);
        self.request()
    }

    /// Whether each follower that may take over has all updates before `tip`.
    pub fn is_level(&self, tip: Position) -> bool {
        self.is_settled && self.requested.is_none() && self.awaited().all(|of| of.has >= tip)
    }

    /// Followers whose confirmation is awaited.
    fn awaited(&self) -> impl Iterator<Item = &Follower> {
        let may_be_named = |name: &CopyName| self.recorded.contains(name) || self.possible.contains(name);
        self.followers.iter().filter(move |of| of.stage != Stage::Behind || may_be_named(&of.name))
    }

    /// Updates before this position are on the disks of all followers that may take over; `None` if there are none.
    pub fn confirmed(&self) -> Option<Position> {
        if !self.is_settled {
            return Some(Position::default());
        }
        self.awaited().map(|of| of.has).min()
    }

    /// Whether the record names no copy of the leader before. Until then nothing may be acknowledged.
    pub fn is_settled(&self) -> bool {
        self.is_settled
    }

    /// Whether the record names fewer followers than promised.
    pub fn is_missing(&self) -> bool {
        self.recorded.len() < self.needed
    }

    /// Name of the own copy.
    pub fn own(&self) -> &str {
        &self.own
    }

    /// Whether the record names a follower.
    pub fn names(&self, name: &str) -> bool {
        self.recorded.iter().any(|of| of == name)
    }

    /// How many followers are promised.
    pub fn needed(&self) -> usize {
        self.needed
    }

    /// How many followers the record names.
    pub fn named(&self) -> usize {
        self.recorded.len()
    }

    /// When [`Event::Time`] is due.
    pub fn due_ns(&self) -> Option<i64> {
        if !self.is_settled && self.requested.is_none() {
            return Some(0);
        }
        let since = self.followers.iter().filter_map(|of| of.lacks.map(|(_, since_ns)| since_ns));
        since.min().map(|since_ns| since_ns.saturating_add(self.timeout_ns).saturating_add(1))
    }
}

#[cfg(test)]
#[path = "in_sync_tests.rs"]
mod tests;
