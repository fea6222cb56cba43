//! Deferred responses (`-30!(::)`): sync requests pending until `-30!(handle;failed;result)`.

use super::{ConnId, SyncRequest};
use std::collections::{BTreeMap, HashMap};

/// Pending requests by handle, in the order sent. A client that pipelines has several, and the protocol numbers neither requests nor
/// responses. [`super::NetLimits::open_requests`] bounds them per connection.
#[derive(Debug, Default)]
pub struct Deferred(HashMap<i32, BTreeMap<u64, SyncRequest>>);

impl Deferred {
    pub fn insert(&mut self, request: SyncRequest) {
        self.0.entry(request.conn.handle()).or_default().insert(request.number(), request);
    }

    /// Removes and returns the oldest request of a handle.
    pub fn take(&mut self, handle: i32) -> Option<SyncRequest> {
        let waiting = self.0.get_mut(&handle)?;
        let (_, request) = waiting.pop_first()?;
        if waiting.is_empty() {
            self.0.remove(&handle);
        }
        Some(request)
    }

    /// Removes a request. Returns false if it has been taken.
    pub fn remove(&mut self, request: SyncRequest) -> bool {
        let handle = request.conn.handle();
        let Some(waiting) = self.0.get_mut(&handle) else { return false };
        if waiting.get(&request.number()) != Some(&request) {
            return false;
        }
        waiting.remove(&request.number());
        if waiting.is_empty() {
            self.0.remove(&handle);
        }
        true
    }

    /// Drops the requests of a closed connection; its handle may be reused by now.
    pub fn forget(&mut self, conn: ConnId) {
        if let Some(waiting) = self.0.get_mut(&conn.handle()) {
            waiting.retain(|_, request| request.conn != conn);
            if waiting.is_empty() {
                self.0.remove(&conn.handle());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_taken_in_the_order_in_which_they_were_sent() {
        let (one, two) = (ConnId::new(0, 1), ConnId::new(1, 1));
        let mut deferred = Deferred::default();
        for request in
            [SyncRequest::new(one, 2), SyncRequest::new(two, 1), SyncRequest::new(one, 1), SyncRequest::new(one, 3)]
        {
            deferred.insert(request);
        }
        assert_eq!(deferred.take(one.handle()), Some(SyncRequest::new(one, 1)));
        assert_eq!(deferred.take(one.handle()), Some(SyncRequest::new(one, 2)));
        deferred.insert(SyncRequest::new(one, 2));
        assert_eq!(deferred.take(one.handle()), Some(SyncRequest::new(one, 2)), "one that was put back");
        deferred.forget(one);
        assert_eq!((deferred.take(one.handle()), deferred.take(two.handle())), (None, Some(SyncRequest::new(two, 1))));
        assert!(deferred.0.is_empty());
    }

    #[test]
    fn a_handle_that_was_given_again_keeps_the_requests_of_its_new_connection() {
        let (before, after) = (ConnId::new(0, 1), ConnId::new(0, 2));
        assert_eq!(before.handle(), after.handle());
        let mut deferred = Deferred::default();
        deferred.insert(SyncRequest::new(before, 9));
        deferred.forget(before);
        deferred.insert(SyncRequest::new(after, 1));
        deferred.forget(before);
        assert_eq!(deferred.take(after.handle()), Some(SyncRequest::new(after, 1)));
    }
}
