//! Leases of owners as records of a store that could also elect: each owner has a record of its own.

use super::{OwnerStore, Renewed, StoreError, StoredLease};
use crate::election::Store;
use crate::lease::{Epoch, LeaseWrite, Written};
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::time::{Duration, Instant};

/// Opens the store of one owner's record.
pub type Open = Box<dyn FnMut(&str) -> Result<Box<dyn Store>, StoreError> + Send>;

/// Records of owners.
pub struct Table {
    open: Open,
    /// The stores of the owners that were called: the own one, or those of the silent nodes, each of which may be looked at several times.
    stores: BTreeMap<String, Box<dyn Store>>,
    version: String,
    writes: u64,
}

impl Table {
    /// Calls nothing yet.
    pub fn new(open: Open) -> Table {
        Table { open, stores: BTreeMap::new(), version: String::new(), writes: 0 }
    }

    fn store(&mut self, owner: &str) -> Result<&mut Box<dyn Store>, StoreError> {
        match self.stores.entry(owner.to_string()) {
            Entry::Occupied(open) => Ok(open.into_mut()),
            Entry::Vacant(place) => Ok(place.insert((self.open)(owner)?)),
        }
    }

    /// Returns another version, which no other process writes: names of owners are never used twice.
    fn draw(&mut self, owner: &str) -> String {
        self.writes = self.writes.wrapping_add(1);
        format!("{owner}-{}", self.writes)
    }
}

impl OwnerStore for Table {
    fn acquire(&mut self, owner: &str, within: Duration) -> Result<(), StoreError> {
        let (version, began) = (self.draw(owner), Instant::now());
        let store = self.store(owner)?;
        let write = match store.read(within)? {
            None => LeaseWrite::Create { version: version.clone(), epoch: Epoch(1), copies: None },
            Some(record) => LeaseWrite::Take {
                from: record.version,
                was_released: record.is_released,
                version: version.clone(),
                epoch: Epoch(record.epoch.0.saturating_add(1)),
                copies: None,
            },
        };
        match store.write(&write, within.saturating_sub(began.elapsed()))? {
            Written::Applied => {
                self.version = version;
                Ok(())
            }
            Written::Refused => Err(StoreError::Failed(format!("another process writes the record of owner {owner}"))),
        }
    }

    fn renew(&mut self, owner: &str, within: Duration) -> Result<Renewed, StoreError> {
        // The answer to an earlier renewal may have been lost: then the record has that one's version.
        let began = Instant::now();
        let left = || within.saturating_sub(began.elapsed());
        for _ in 0..2 {
            let (from, version) = (self.version.clone(), self.draw(owner));
            let store = self.store(owner)?;
            let write = LeaseWrite::Renew { from: from.clone(), version: version.clone(), copies: None };
            if store.write(&write, left())? == Written::Applied {
                self.version = version;
                return Ok(Renewed::Done);
            }
            match store.read(left())? {
                Some(record) if record.owner == owner && !record.is_released && record.version != from => {
                    self.version = record.version;
                }
                _ => return Ok(Renewed::Gone),
            }
        }
        Ok(Renewed::Gone)
    }

    fn release(&mut self, owner: &str, within: Duration) -> Result<(), StoreError> {
        let from = self.version.clone();
        self.store(owner)?.write(&LeaseWrite::Release { from, successor: None, copies: None }, within).map(drop)
    }

    fn look(&mut self, owner: &str, within: Duration) -> Result<StoredLease, StoreError> {
        Ok(match self.store(owner)?.read(within)? {
            Some(record) if !record.is_released => {
                StoredLease::Recorded { version: record.version, lasts_ns: record.lease_ns }
            }
            _ => StoredLease::Absent,
        })
    }
}
