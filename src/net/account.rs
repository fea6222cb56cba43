//! Memory of received messages that are not handled yet, of all connections together.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Bytes in use, within a limit.
#[derive(Debug)]
pub struct Account {
    used: AtomicU64,
    most: u64,
}

impl Account {
    pub fn new(most: u64) -> Arc<Account> {
        Arc::new(Account { used: AtomicU64::new(0), most })
    }

    /// Bytes in use.
    pub fn used(&self) -> u64 {
        self.used.load(Ordering::Relaxed)
    }

    pub fn most(&self) -> u64 {
        self.most
    }

    /// Takes bytes, which are free again when the result is dropped; `None` if that exceeds the limit.
    pub fn hold(self: &Arc<Account>, bytes: u64) -> Option<HeldBytes> {
        let taken = |used: u64| used.checked_add(bytes).filter(|sum| *sum <= self.most);
        self.used.try_update(Ordering::Relaxed, Ordering::Relaxed, taken).ok()?;
        Some(HeldBytes { of: Arc::clone(self), bytes })
    }

    /// Why bytes were refused.
    pub fn refusal(&self) -> String {
        format!("messages in evaluation or waiting for it exceed {} bytes in all (--limit-pending)", self.most)
    }
}

/// Bytes of one message.
#[derive(Debug)]
pub struct HeldBytes {
    of: Arc<Account>,
    bytes: u64,
}

impl Drop for HeldBytes {
    fn drop(&mut self) {
        self.of.used.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_free_again_when_their_message_is_dropped() {
        let account = Account::new(10);
        let first = account.hold(6);
        assert!(first.is_some() && account.hold(5).is_none());
        assert!(account.hold(u64::MAX).is_none());
        assert_eq!(account.used(), 6);
        drop(first);
        assert!(account.hold(10).is_some());
        assert_eq!(account.used(), 0);
    }
}
