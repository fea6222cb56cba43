//! Handles of clients that `.z.pw` has admitted and whose connections are not open yet: as in kdb+, `.z.w` is the same in `.z.pw` and `.z.po`.

use std::time::{Duration, Instant};

/// Time after which an admitted client counts as gone: it may have closed meanwhile, and an HTTP request gets no handle.
const WITHIN: Duration = Duration::from_secs(30);

/// Most clients that are remembered: as many as there may be handles.
const MAX: usize = 1024;

struct Client {
    user: Vec<u8>,
    address: i32,
    handle: i32,
    at: Instant,
}

/// Admitted clients, oldest first. Those of the same user and address are alike.
#[derive(Default)]
pub(super) struct Admitted(Vec<Client>);

impl Admitted {
    pub fn put(&mut self, user: &[u8], address: i32, handle: i32) {
        self.0.push(Client { user: user.to_vec(), address, handle, at: Instant::now() });
    }

    /// Returns the handle of a client whose connection is open.
    pub fn take(&mut self, user: &[u8], address: i32) -> Option<i32> {
        let at = self.0.iter().position(|client| client.user == user && client.address == address)?;
        Some(self.0.remove(at).handle)
    }

    /// Forgets clients that are gone, and the oldest of too many; returns their handles.
    pub fn forget_late(&mut self) -> Vec<i32> {
        let late = self.0.iter().take_while(|client| client.at.elapsed() > WITHIN).count();
        let late = late.max(self.0.len().saturating_sub(MAX));
        self.0.drain(..late).map(|client| client.handle).collect()
    }
}
