//! Bytes that wait to be sent to all connections of one user.

use super::peer::Peer;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The sum of one user, shared by the user's connections, so that counting needs no search.
#[derive(Debug)]
pub(super) struct UserOutbox {
    bytes: AtomicUsize,
    most: AtomicUsize,
}

impl UserOutbox {
    /// Replaces the part of one connection.
    pub(super) fn recount(&self, before: usize, after: usize) {
        // One thread counts.
        let bytes = self.bytes.load(Ordering::Relaxed).saturating_sub(before).saturating_add(after);
        self.bytes.store(bytes, Ordering::Relaxed);
    }

    pub(super) fn bytes(&self) -> usize {
        self.bytes.load(Ordering::Relaxed)
    }

    fn most(&self) -> usize {
        self.most.load(Ordering::Relaxed)
    }

    pub(super) fn is_full(&self) -> bool {
        self.bytes() > self.most()
    }
}

/// The sums of all users with a connection.
#[derive(Debug, Default)]
pub(super) struct UserOutboxes(HashMap<Vec<u8>, Arc<UserOutbox>>);

impl UserOutboxes {
    /// Returns the sum of a peer's user; `most` is the limit unless a role has another.
    pub(super) fn of(&mut self, peer: &Peer, most: usize) -> Arc<UserOutbox> {
        let most = peer.grants.quota.outbox_bytes.map_or(most, |own| usize::try_from(own).unwrap_or(usize::MAX));
        let own =
            self.0.entry(peer.user.clone()).or_insert_with(|| Arc::new(UserOutbox { bytes: 0.into(), most: 0.into() }));
        // The users file may have changed since the last login.
        own.most.store(most, Ordering::Relaxed);
        Arc::clone(own)
    }

    /// Forgets a user whose last connection has closed.
    pub(super) fn left(&mut self, peer: &Peer, own: Arc<UserOutbox>) {
        drop(own);
        if self.0.get(&peer.user).is_some_and(|own| Arc::strong_count(own) == 1) {
            self.0.remove(&peer.user);
        }
    }

    /// Bytes of the user with the most.
    pub(super) fn fullest(&self) -> usize {
        self.0.values().map(|own| own.bytes()).max().unwrap_or(0)
    }
}
