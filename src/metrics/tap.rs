//! Snapshots for threads other than the owner of the values.

use super::snapshot::Snapshot;
use std::sync::mpsc::{self, Receiver, Sender};
use std::time::Duration;

/// Request to the owner of the values, which sends a filled snapshot back on this channel.
pub type SnapshotRequest = Sender<Snapshot>;

/// Handle for requesting snapshots.
pub struct Tap {
    asks: Sender<SnapshotRequest>,
    wake: Box<dyn Fn() + Send>,
}

impl Tap {
    /// `wake` makes the owner check for requests.
    pub fn new(wake: impl Fn() + Send + 'static) -> (Tap, Receiver<SnapshotRequest>) {
        let (asks, asked) = mpsc::channel();
        (Tap { asks, wake: Box::new(wake) }, asked)
    }

    /// Returns a snapshot; `None` if the owner has ended or does not respond in time.
    pub fn take(&self, within: Duration) -> Option<Snapshot> {
        let (request, answer) = mpsc::channel();
        self.asks.send(request).ok()?;
        (self.wake)();
        answer.recv_timeout(within).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::{Id, Process};

    #[test]
    fn the_owner_is_woken_and_evaluates() {
        let (wake, woken) = mpsc::channel();
        let (tap, asked) = Tap::new(move || wake.send(()).expect("waited for"));
        let owner = std::thread::spawn(move || {
            woken.recv().expect("woken");
            let request: SnapshotRequest = asked.recv().expect("asked");
            let mut snapshot = Snapshot::new(Process::Tick);
            snapshot.set(Id::Rows, 7u64);
            request.send(snapshot).expect("waited for");
        });
        let snapshot = tap.take(Duration::from_secs(20)).expect("an answer");
        assert_eq!(snapshot.value(Id::Rows), Some(7.0));
        owner.join().expect("no panic");
    }

    #[test]
    fn an_owner_that_is_gone_gives_none() {
        let (tap, asked) = Tap::new(|| {});
        drop(asked);
        assert_eq!(tap.take(Duration::from_secs(20)), None);
    }
}
