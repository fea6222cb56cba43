//! The lease of tickerplants in OpenStack Swift: one object, with the fields of the lease in its metadata.
//!
//! A write reads the object, checks its condition and writes: not atomic, so several processes may each believe that they have the lease, and the
//! last write stands. Their renewals find that out. Each request that writes gives the object its end again, and all of its metadata.
//!
//! Object and lease end together: Swift deletes what nobody renews. What the process has seen of a record that is gone counts as released, so that its
//! number is not used again and the log that it names stays named. A process that starts later knows the number from the log alone.

use super::super::store::{Store, StoreError};
use super::client::{Client, DELETE_AFTER, End, deadline, seconds};
use super::record;
use crate::config::SwiftLease;
use crate::lease::{LeaseRecord, LeaseWrite, OwnerName, Written};
use std::time::{Duration, Instant};

/// An object's end is a whole second of the server's clock, so its life is up to one second shorter than `X-Delete-After`.
const SLACK: Duration = Duration::from_secs(1);
/// Life of an object while take-overs are paused: it must not end before the pause. In seconds.
const PAUSED_S: u64 = 24 * 3600;
/// Longest life of an object, whatever its duration, in seconds.
const MAX_LIFE_S: u64 = 7 * 24 * 3600;
/// Least time in which others that passed the same check have written, usually: on a slow server they take as long as the own check and write.
const SETTLE: Duration = Duration::from_millis(100);
/// The same for a pause, which a renewal that is under way may undo.
const SETTLE_PAUSE: Duration = Duration::from_millis(500);
/// Part of a call's time that has to be left for looking at what was written.
const LOOK: Duration = Duration::from_millis(100);
/// Digits of the highest number of a version, and what separates it from the process's name.
const VERSION_BYTES: usize = 21;

/// A process's access to the lease.
pub struct SwiftStore {
    client: Client,
    /// Name of the object, as part of a URL.
    object: String,
    me: OwnerName,
    lease_ns: u64,
    /// The record that was there last.
    last: Option<LeaseRecord>,
    /// The object had no end at the last look.
    is_endless: bool,
}

impl SwiftStore {
    /// Calls nothing yet.
    ///
    /// # Errors
    /// The name of the process is too long for a header.
    pub fn new(at: SwiftLease, me: String) -> Result<SwiftStore, String> {
        let (bytes, most) = (record::value(&me).len(), record::MAX_VALUE_BYTES.saturating_sub(VERSION_BYTES));
        if bytes > most {
            return Err(format!(
                "the name {me} has {bytes} bytes in a header, and Swift keeps {most}: --advertise a shorter address"
            ));
        }
        let lease_ns = u64::try_from(at.duration.as_nanos()).unwrap_or(u64::MAX);
        let object = record::path(&at.key);
        Ok(SwiftStore { client: Client::new(at.place), object, me, lease_ns, last: None, is_endless: false })
    }

    /// Returns the record, and whether its object is there. An object that is gone while its container is there means that the lease is over: released,
    /// as far as this process knows the record.
    fn look(&mut self, by: Instant) -> Result<(Option<LeaseRecord>, bool), StoreError> {
        let reply = self.client.head(&self.object, by)?;
        let end = match reply.status {
            200..=299 => self.client.end(&reply)?,
            404 if self.client.has_container(by)? => End::Past,
            404 => return Err(self.no_container()),
            _ => return Err(self.client.unexpected("HEAD", &reply)),
        };
        if end == End::Past {
            let gone = |last: LeaseRecord| LeaseRecord { is_released: true, successor: None, is_paused: false, ..last };
            self.last = self.last.take().map(gone);
            return Ok((self.last.clone(), false));
        }
        let found = record::record(&reply).map_err(|why| {
            let what = format!("the object {} is not a lease: {why}", self.object);
            StoreError::Unfit(self.client.named(&what))
        })?;
        if end == End::Never && !self.is_endless {
            tracing::warn!(
                "another program has written the lease without X-Delete-After: its next renewal gives it an end again"
            );
        }
        self.is_endless = end == End::Never;
        self.last = Some(found.clone());
        Ok((Some(found), true))
    }

    fn no_container(&self) -> StoreError {
        StoreError::Unfit(self.client.named("there is no such container: create it"))
    }

    /// Puts a record into the object.
    fn put(&mut self, method: &str, record: &LeaseRecord, by: Instant) -> Result<Written, StoreError> {
        let fields = record::fields(record).map_err(|why| StoreError::Unfit(self.client.named(&why)))?;
        let life = life_s(record).to_string();
        let mut fields: Vec<(&str, &str)> = fields.iter().map(|(name, value)| (*name, value.as_str())).collect();
        fields.push((DELETE_AFTER, &life));
        let reply = self.client.request(method, Some(&self.object), &fields, by)?;
        match (reply.status, method) {
            (200..=299, _) => self.last = Some(record.clone()),
            (404, "PUT") => return Err(self.no_container()),
            // It has ended since the check.
            (404, _) => return Ok(Written::Refused),
            _ => return Err(self.client.unexpected(method, &reply)),
        }
        Ok(Written::Applied)
    }

    /// Whether a write still stands after the time in which others may have put theirs over it; `None` if there is no time to look, or no answer.
    fn stands(&mut self, write: &LeaseWrite, settle: Duration, by: Instant) -> Option<bool> {
        if by.saturating_duration_since(Instant::now()) < settle.saturating_add(LOOK) {
            return None;
        }
        std::thread::sleep(settle);
        let (now, _) = self.look(by).ok()?;
        Some(now.is_some_and(|now| is_applied(write, &now)))
    }
}

/// Life of an object in seconds: at least the duration of the lease, wherever within a second it begins.
fn life_s(record: &LeaseRecord) -> u64 {
    let life_s = seconds(Duration::from_nanos(record.lease_ns).saturating_add(SLACK)).min(MAX_LIFE_S);
    if record.is_paused { life_s.max(PAUSED_S) } else { life_s }
}

fn is_applied(write: &LeaseWrite, now: &LeaseRecord) -> bool {
    match write {
        LeaseWrite::Create { version, .. } | LeaseWrite::Take { version, .. } | LeaseWrite::Renew { version, .. } => {
            now.version == *version
        }
        LeaseWrite::Release { from, .. } => now.version == *from && now.is_released,
        LeaseWrite::Name { copies, .. } => now.copies == *copies,
        LeaseWrite::Pause(is_paused) => now.is_paused == *is_paused,
    }
}

impl Store for SwiftStore {
    fn read(&mut self, within: Duration) -> Result<Option<LeaseRecord>, StoreError> {
        Ok(self.look(deadline(within))?.0)
    }

    fn write(&mut self, write: &LeaseWrite, within: Duration) -> Result<Written, StoreError> {
        let (began, by) = (Instant::now(), deadline(within));
        let is_taking = matches!(write, LeaseWrite::Create { .. } | LeaseWrite::Take { .. });
        loop {
            let (before, is_there) = self.look(by)?;
            let before = before.filter(|_| is_there || is_taking);
            let Some(after) = record::written(before.as_ref(), write, &self.me, self.lease_ns) else {
                return Ok(Written::Refused);
            };
            let written = self.put(if is_taking { "PUT" } else { "POST" }, &after, by)?;
            match write {
                _ if written == Written::Refused => return Ok(written),
                LeaseWrite::Create { .. } | LeaseWrite::Take { .. } => {
                    // If that cannot be seen, the log decides alone.
                    let stands = self.stands(write, SETTLE.max(began.elapsed()), by).unwrap_or(true);
                    return Ok(if stands { Written::Applied } else { Written::Refused });
                }
                LeaseWrite::Pause(_) => match self.stands(write, SETTLE_PAUSE, by) {
                    Some(true) => return Ok(written),
                    Some(false) => {}
                    None => {
                        return Err(self
                            .client
                            .failed("written, but it cannot be seen whether that stands: elastick lease show"));
                    }
                },
                _ => return Ok(written),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lease::{Copies, Epoch};

    fn lasting(duration: Duration, is_paused: bool) -> LeaseRecord {
        LeaseRecord {
            owner: "a".into(),
            version: "v".into(),
            lease_ns: u64::try_from(duration.as_nanos()).unwrap(),
            is_released: false,
            successor: None,
            epoch: Epoch(1),
            copies: Copies::default(),
            is_paused,
        }
    }

    #[test]
    fn an_object_lives_at_least_as_long_as_its_lease() {
        for ms in [1, 999, 1000, 1001, 3000, 5999, 600_000] {
            let duration = Duration::from_millis(ms);
            let shortest = Duration::from_secs(life_s(&lasting(duration, false))) - Duration::from_secs(1);
            assert!(shortest >= duration && shortest < duration + Duration::from_secs(1), "{duration:?}: {shortest:?}");
        }
        assert_eq!(life_s(&lasting(Duration::from_secs(3), true)), PAUSED_S);
        assert_eq!(life_s(&lasting(Duration::from_secs(10_000_000_000), false)), MAX_LIFE_S);
    }

    #[test]
    fn names_that_no_header_holds_are_refused() {
        let at = || match "swift://h/c/k?account=a".parse() {
            Ok(crate::config::LeaseUrl::Swift(at)) => *at,
            other => panic!("{other:?}"),
        };
        assert!(SwiftStore::new(at(), "a".repeat(235)).is_ok());
        assert!(SwiftStore::new(at(), "a".repeat(236)).is_err_and(|error| error.contains("--advertise")));
    }
}
