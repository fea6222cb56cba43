//! Leases as objects of a Swift container, as Karbor's bank plugin keeps them: Swift deletes them when their time is over.
//!
//! Existence is asked by `HEAD` of the object, because listings show objects after their end. A `POST` without `X-Delete-After` would take away
//! the end of the lease: each request has it.

use super::super::swift::client::{Client, DELETE_AFTER, End, deadline, seconds};
use super::{OwnerStore, Renewed, StoreError, StoredLease};
use crate::config::SwiftPlace;
use crate::net::http_call::Reply;
use std::time::{Duration, Instant};

/// A container of leases.
pub struct Swift {
    client: Client,
    /// Life of an object, in seconds.
    expire: String,
}

impl Swift {
    /// Calls nothing yet. `expire` is rounded up to whole seconds.
    pub fn new(place: SwiftPlace, expire: Duration) -> Swift {
        Swift { client: Client::new(place), expire: seconds(expire).to_string() }
    }

    /// Makes a request that gives the owner's object its end.
    fn write(&mut self, method: &str, owner: &str, by: Instant) -> Result<Reply, StoreError> {
        self.client.request(method, Some(owner), &[(DELETE_AFTER, &self.expire)], by)
    }
}

impl OwnerStore for Swift {
    fn acquire(&mut self, owner: &str, within: Duration) -> Result<(), StoreError> {
        let reply = self.write("PUT", owner, deadline(within))?;
        match reply.status {
            200..=299 => Ok(()),
            404 => Err(self.client.failed("there is no such container: create it")),
            _ => Err(self.client.unexpected("PUT", &reply)),
        }
    }

    fn renew(&mut self, owner: &str, within: Duration) -> Result<Renewed, StoreError> {
        let reply = self.write("POST", owner, deadline(within))?;
        match reply.status {
            200..=299 => Ok(Renewed::Done),
            404 => Ok(Renewed::Gone),
            _ => Err(self.client.unexpected("POST", &reply)),
        }
    }

    fn release(&mut self, owner: &str, within: Duration) -> Result<(), StoreError> {
        let reply = self.client.request("DELETE", Some(owner), &[], deadline(within))?;
        match reply.status {
            200..=299 | 404 => Ok(()),
            _ => Err(self.client.unexpected("DELETE", &reply)),
        }
    }

    fn look(&mut self, owner: &str, within: Duration) -> Result<StoredLease, StoreError> {
        let by = deadline(within);
        if !self.client.has_container(by)? {
            let what = "there is no such container: create it, and give all nodes and elastick gc the same URL";
            return Err(self.client.failed(what));
        }
        let reply = self.client.head(owner, by)?;
        match reply.status {
            200..=299 => self.seen(owner, &reply),
            404 => Ok(StoredLease::Absent),
            _ => Err(self.client.unexpected("HEAD", &reply)),
        }
    }
}

impl Swift {
    fn seen(&self, owner: &str, reply: &Reply) -> Result<StoredLease, StoreError> {
        match self.client.end(reply)? {
            End::Past => Ok(StoredLease::Absent),
            End::Ahead => Ok(StoredLease::Kept),
            End::Never => Err(self.client.failed(&format!(
                "the lease of owner {owner} has no end: another program has written it without X-Delete-After"
            ))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::SwiftAuth;

    #[test]
    fn an_object_without_an_end_is_an_error() {
        let auth = SwiftAuth::None { account: "AUTH_a".into() };
        let place = SwiftPlace { host: "h".into(), port: 80, is_secure: false, container: "leases".into(), auth };
        let swift = Swift::new(place, Duration::from_millis(1500));
        assert_eq!(swift.expire, "2");
        let seen = |fields: &[(&str, &str)]| {
            let fields = fields.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect();
            swift.seen("o", &Reply { status: 200, fields })
        };
        let date = ("date", "Thu, 01 Jan 1970 00:01:40 GMT");
        assert_eq!(seen(&[date, ("x-delete-at", "100")]), Ok(StoredLease::Absent));
        assert_eq!(seen(&[date, ("x-delete-at", "101")]), Ok(StoredLease::Kept));
        let immortal = seen(&[date]).unwrap_err();
        assert!(immortal.to_string().contains("has no end"), "{immortal}");
    }
}
