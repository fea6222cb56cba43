//! Sequence numbers of publishers: which updates are duplicates. Pure.
//!
//! A publisher with an id numbers its updates in ascending order. The tickerplant keeps the last number accepted from each id; an update with
//! that number or a lower one is in the log already. Gaps are allowed, so that a number may be an offset or a number of the publisher's source.
//!
//! An id is *held* by the connection whose call of `.u.seq` was the last. Only that connection may publish under it. So the updates of an
//! earlier connection that are still in flight cannot follow that answer, and after an update that could not be logged no later one is
//! accepted until the publisher has asked again. Without both, a gap could hide a lost update.

#[cfg(test)]
mod tests;

use std::cmp::Ordering;
use std::collections::{BTreeMap, VecDeque};
use std::fmt;

/// Limits of the ids.
#[derive(Clone, Copy, Debug)]
pub struct PublisherLimits {
    pub ids: usize,
    pub id_bytes: usize,
}

/// A caller: user, and whether it may use the ids of others.
#[derive(Clone, Copy, Debug)]
pub struct Caller<'a, K> {
    pub conn: K,
    pub user: &'a [u8],
    pub is_operator: bool,
}

/// Last update accepted from an id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Last {
    pub seq: i64,
    /// Its index in today's log; `None` if it is in an earlier log, or had no rows.
    pub index: Option<u64>,
}

#[derive(Clone, Debug)]
struct Publisher<K> {
    owner: Vec<u8>,
    last: Option<Last>,
    holder: Option<K>,
}

/// Whether an update is to be logged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Freshness {
    New,
    /// It is in the log already; with its index if that is known.
    Duplicate(Option<u64>),
}

/// Where the number of a rejected update stands that is to be published again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// No update with this number or a higher one was accepted: it can take its number.
    Free,
    /// The last update accepted from its publisher has this number.
    Taken,
    /// The last update accepted from its publisher has a higher number, so none with this number will be accepted.
    Passed,
}

/// Why an id cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The id belongs to another user.
    Owner {
        publisher: Vec<u8>,
        owner: Vec<u8>,
    },
    /// The connection has not called `.u.seq`, or another one has since, or an update could not be logged since.
    NotHeld {
        publisher: Vec<u8>,
        /// Another connection holds it now.
        is_held: bool,
    },
    TooMany {
        most: usize,
    },
    TooLong {
        bytes: usize,
        most: usize,
    },
    /// An empty id, or a null number.
    Null,
    /// The number 0W, which no number could follow.
    Infinite,
    /// There is no log in which numbers could be kept.
    NoLog,
    /// A subscriber of the queue would count the records of numbers.
    Counted,
}

impl Fault {
    /// Returns kdb+'s error name.
    pub const fn term(&self) -> &'static str {
        match self {
            Fault::Owner { .. } => "access",
            Fault::NotHeld { .. } => "seq",
            Fault::TooMany { .. } | Fault::TooLong { .. } => "limit",
            Fault::Null => "type",
            Fault::Infinite => "domain",
            Fault::NoLog => "io",
            Fault::Counted => "nyi",
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Fault::Owner { publisher, owner } => {
                write!(f, "publisher {} belongs to the user {}", publisher.escape_ascii(), owner.escape_ascii())
            }
            Fault::NotHeld { publisher, is_held: false } => {
                let publisher = publisher.escape_ascii();
                write!(
                    f,
                    "call .u.seq[`{publisher}] on this connection before the first number, and continue after its result. If \
                     this connection had called it: an update of {publisher} was not logged since, or another process used this id"
                )
            }
            Fault::NotHeld { publisher, is_held: true } => {
                let publisher = publisher.escape_ascii();
                write!(
                    f,
                    "another connection holds {publisher}, because it called .u.seq[`{publisher}] last. If this connection had \
                     called it: another process uses this id, stop this publisher. If not: call it before the first number"
                )
            }
            Fault::TooMany { most } => write!(f, "there are {most} publisher ids already (--limit-publishers)"),
            Fault::TooLong { bytes, most } => {
                write!(f, "a publisher id of {bytes} bytes is longer than {most} (--limit-publisher-id)")
            }
            Fault::Null => {
                write!(f, "a publisher id must be a symbol that is not empty, its number a long that is not null")
            }
            Fault::Infinite => {
                write!(f, "the number of an update must be lower than 0W, because no number could follow it")
            }
            Fault::NoLog => write!(f, "this tickerplant keeps no log, and so no sequence numbers"),
            Fault::Counted => write!(
                f,
                "a subscriber of the queue counts messages, as the paper's asg/r.q does, and the log has records of sequence \
                 numbers besides: use elastick's own nodes"
            ),
        }
    }
}

/// An accepted update that is not in the file yet, and what to restore if it never will be.
#[derive(Debug)]
struct Unwritten {
    publisher: Vec<u8>,
    before: Option<Last>,
    /// Index after the update.
    next: u64,
}

/// Ids of publishers, by id.
#[derive(Debug)]
pub struct Publishers<K> {
    limits: PublisherLimits,
    by_id: BTreeMap<Vec<u8>, Publisher<K>>,
    unwritten: VecDeque<Unwritten>,
}

impl<K: Copy + Eq> Publishers<K> {
    pub fn new(limits: PublisherLimits) -> Publishers<K> {
        Publishers { limits, by_id: BTreeMap::new(), unwritten: VecDeque::new() }
    }

    /// Gives an id to a connection and returns the last number accepted; `None` if there was none.
    ///
    /// # Errors
    /// The id belongs to another user, or would exceed a limit.
    pub fn hold(&mut self, publisher: &[u8], caller: Caller<'_, K>) -> Result<Option<i64>, Fault> {
        if publisher.is_empty() {
            return Err(Fault::Null);
        }
        if let Some(known) = self.by_id.get_mut(publisher) {
            may_use(publisher, known, caller)?;
            known.holder = Some(caller.conn);
            return Ok(known.last.map(|last| last.seq));
        }
        self.add(publisher, caller.user, Some(caller.conn)).map(|()| None)
    }

    /// Decides on an update.
    ///
    /// # Errors
    /// The id belongs to another user, the connection does not hold it, or the number is null or 0W.
    pub fn freshness(&self, publisher: &[u8], seq: i64, caller: Caller<'_, K>) -> Result<Freshness, Fault> {
        if publisher.is_empty() || seq == proto::types::NULL_LONG {
            return Err(Fault::Null);
        }
        if seq == i64::MAX {
            return Err(Fault::Infinite);
        }
        let not_held = |is_held| Fault::NotHeld { publisher: publisher.to_vec(), is_held };
        let known = match self.by_id.get(publisher) {
            Some(known) => known,
            None => return Err(self.too_long(publisher).unwrap_or_else(|| not_held(false))),
        };
        may_use(publisher, known, caller)?;
        if known.holder != Some(caller.conn) {
            return Err(not_held(known.holder.is_some()));
        }
        Ok(match known.last {
            Some(last) if seq == last.seq => Freshness::Duplicate(last.index),
            Some(last) if seq < last.seq => Freshness::Duplicate(None),
            _ => Freshness::New,
        })
    }

    /// Decides on a rejected update that is published again, by whichever connection. An id from which nothing was accepted becomes the
    /// owner's again.
    ///
    /// # Errors
    /// The id would exceed a limit.
    pub fn standing(&mut self, publisher: &[u8], seq: i64, owner: &[u8]) -> Result<Standing, Fault> {
        let last = match self.by_id.get(publisher) {
            Some(known) => known.last,
            None => self.add(publisher, owner, None).map(|()| None)?,
        };
        Ok(match last.map(|last| last.seq.cmp(&seq)) {
            None | Some(Ordering::Less) => Standing::Free,
            Some(Ordering::Equal) => Standing::Taken,
            Some(Ordering::Greater) => Standing::Passed,
        })
    }

    /// Adds an id.
    ///
    /// # Errors
    /// It would exceed a limit.
    fn add(&mut self, publisher: &[u8], owner: &[u8], holder: Option<K>) -> Result<(), Fault> {
        if let Some(fault) = self.too_long(publisher) {
            return Err(fault);
        }
        if self.by_id.len() >= self.limits.ids {
            return Err(Fault::TooMany { most: self.limits.ids });
        }
        self.by_id.insert(publisher.to_vec(), Publisher { owner: owner.to_vec(), last: None, holder });
        Ok(())
    }

    /// Returns the error of an id that is too long, which no error text repeats.
    fn too_long(&self, publisher: &[u8]) -> Option<Fault> {
        let (bytes, most) = (publisher.len(), self.limits.id_bytes);
        (bytes > most).then_some(Fault::TooLong { bytes, most })
    }

    /// Returns the owner of an id.
    pub fn owner(&self, publisher: &[u8]) -> Option<&[u8]> {
        self.by_id.get(publisher).map(|known| known.owner.as_slice())
    }

    /// Records an update that the log is about to receive; `next`: the index after it.
    pub fn accepted(&mut self, publisher: &[u8], last: Last, next: u64) {
        let Some(known) = self.by_id.get_mut(publisher) else { return };
        self.unwritten.push_back(Unwritten { publisher: publisher.to_vec(), before: known.last, next });
        known.last = Some(last);
    }

    /// Updates before this index are in the file.
    pub fn written(&mut self, tip: u64) {
        while self.unwritten.pop_front_if(|update| update.next <= tip).is_some() {}
    }

    /// Updates from index `tip` on never reach the file: their numbers have not been accepted. Nobody holds an id any more, so that each
    /// publisher asks again.
    pub fn failed(&mut self, tip: u64) {
        while let Some(Unwritten { publisher, before, .. }) = self.unwritten.pop_back_if(|update| update.next > tip) {
            if let Some(known) = self.by_id.get_mut(&publisher) {
                known.last = before;
            }
        }
        self.by_id.values_mut().for_each(|publisher| publisher.holder = None);
    }

    /// Takes an id from its holder: an update could not be logged.
    pub fn release(&mut self, publisher: &[u8]) {
        if let Some(known) = self.by_id.get_mut(publisher) {
            known.holder = None;
        }
    }

    /// A connection has closed: it holds no id. An id from which nothing was accepted is forgotten.
    pub fn closed(&mut self, conn: K) {
        self.by_id.retain(|_, known| {
            if known.holder == Some(conn) {
                known.holder = None;
            }
            known.holder.is_some() || known.last.is_some()
        });
    }

    /// The day has ended: the indices of the new log start at 0. Everything is in the ended day's log.
    pub fn new_day(&mut self) {
        self.unwritten.clear();
        for last in self.by_id.values_mut().filter_map(|known| known.last.as_mut()) {
            last.index = None;
        }
    }

    /// Takes a number from a log or a saved state. Limits do not apply, because forgetting it could accept an update twice.
    pub fn restore(&mut self, publisher: &[u8], owner: &[u8], last: Last) {
        let new = || Publisher { owner: owner.to_vec(), last: None, holder: None };
        let known = self.by_id.entry(publisher.to_vec()).or_insert_with(new);
        if known.last.is_none_or(|known| known.seq <= last.seq) {
            known.last = Some(last);
        }
    }

    /// Returns the ids from which an update was accepted: id, owner and last update.
    pub fn accepted_from(&self) -> impl Iterator<Item = (&[u8], &[u8], Last)> {
        self.by_id.iter().filter_map(|(id, known)| Some((id.as_slice(), known.owner.as_slice(), known.last?)))
    }

    /// Number of ids.
    pub fn len(&self) -> usize {
        self.by_id.len()
    }

    pub fn is_empty(&self) -> bool {
        self.by_id.is_empty()
    }

    /// Length of the longest id.
    pub fn longest_bytes(&self) -> usize {
        self.by_id.keys().map(Vec::len).max().unwrap_or(0)
    }
}

fn may_use<K>(publisher: &[u8], known: &Publisher<K>, caller: Caller<'_, K>) -> Result<(), Fault> {
    if known.owner == caller.user || caller.is_operator {
        return Ok(());
    }
    Err(Fault::Owner { publisher: publisher.to_vec(), owner: known.owner.clone() })
}
