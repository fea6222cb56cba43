//! Keeps the rejected updates over a restart: a thread appends them to a file beside the log.
//!
//! The event loop never waits for it; a response that depends on a change does ([`Keeper::has_settled`]). Changes wait in memory up to
//! `PENDING_BYTES`. The thread writes what is pending at once, and then pauses for as long as `BYTES_PER_S` allows, so that a flood of
//! wrong updates leaves the disk to the log; of a longer flood the file lacks some. Nothing is synced: the file survives the process, and
//! a power cut costs what the system had not written yet.

use super::record::Change;
use super::segments::Segments;
use super::{Quarantine, Refused};
use crate::env::task::{Due, Running, Task};
use crate::env::{Env, Spawner};
use crate::log::Waker;
use crate::metrics::{self, Id};
use std::collections::VecDeque;
use std::path::Path;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Bytes of changes that may wait for the thread.
const PENDING_BYTES: usize = 8 << 20;
/// Bytes written at once, and the most of them in a second.
const ROUND_BYTES: usize = 1 << 20;
const BYTES_PER_S: u64 = 16 << 20;
/// Pause after a failed write.
const RETRY: Duration = Duration::from_secs(5);
/// Time for the last changes to be written when the process ends.
const LAST_WRITES: Duration = Duration::from_secs(5);

#[derive(Default)]
struct State {
    pending: VecDeque<Change>,
    bytes: usize,
    /// Number of the latest change; the first is 1.
    latest: u64,
    /// All changes up to this number are in the file, or dropped.
    settled: u64,
    /// The event loop waits for a change.
    is_awaited: bool,
    /// The thread writes changes that are not in `pending` any more.
    is_writing: bool,
    has_failed: bool,
    is_closing: bool,
    /// The log waits for room on a full disk: what becomes free is the log's.
    is_paused: bool,
}

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    /// Signalled when there is something to write, or to end.
    changed: Condvar,
    /// Signalled after a round.
    written: Condvar,
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Whether the thread is to write now.
    fn has_work(&self) -> bool {
        !self.pending.is_empty() && (!self.is_paused || self.is_awaited || self.is_closing)
    }

    /// Adds a change and returns its number.
    fn add(&mut self, change: Change) -> u64 {
        self.latest = self.latest.saturating_add(1);
        self.push(change);
        self.latest
    }

    fn push(&mut self, change: Change) {
        self.bytes = self.bytes.saturating_add(change.held_bytes());
        self.pending.push_back(change);
        while self.bytes > PENDING_BYTES && self.pop().is_some() {
            metrics::count(Id::RejectedUnsaved);
            // A response must not wait for what was dropped: the number of those that wait is bounded as the changes are.
            self.settle();
        }
    }

    /// Everything before the pending changes is settled.
    fn settle(&mut self) {
        self.settled = self.latest.saturating_sub(self.pending.len() as u64);
    }

    fn pop(&mut self) -> Option<Change> {
        let change = self.pending.pop_front()?;
        self.bytes = self.bytes.saturating_sub(change.held_bytes());
        Some(change)
    }
}

/// The owner's side. Without a log directory nothing is kept.
#[derive(Default)]
pub struct Keeper(Option<Active>);

struct Active {
    shared: Arc<Shared>,
    spawner: Arc<dyn Spawner>,
    /// The thread's work until the first change starts it.
    saver: Option<Saver>,
    running: Option<Box<dyn Running>>,
    /// [`State::settled`], as last read.
    settled: u64,
}

impl Keeper {
    /// Reads what was kept in a log's directory into the quarantine. No damage is an error. `waker` is called once changes that the event
    /// loop waits for are settled.
    pub fn open(env: &Env, dir: Option<&Path>, src: &str, quarantine: &mut Quarantine, waker: Waker) -> Keeper {
        let Some(dir) = dir else { return Keeper(None) };
        let path = Segments::path(dir, src);
        let (segments, found) = Segments::read(Arc::clone(&env.disk), path.clone(), quarantine);
        if found.damaged > 0 || found.lost_bytes > 0 {
            tracing::warn!(
                path = %path.display(), records = found.damaged, bytes = found.lost_bytes,
                "some of the rejected updates kept in this file cannot be read; the log is not affected"
            );
        }
        if found.restored > 0 {
            tracing::info!(updates = found.restored, "updates rejected before the restart are in .u.rejected");
        }
        let shared = Arc::<Shared>::default();
        let saver = Saver { shared: Arc::clone(&shared), segments, waker, not_before: None };
        let spawner = Arc::clone(&env.spawner);
        Keeper(Some(Active { shared, spawner, saver: Some(saver), running: None, settled: 0 }))
    }

    /// Keeps a rejected update. Returns the number of the change, for [`Keeper::has_settled`].
    pub fn added(&mut self, refused: Arc<Refused>) -> u64 {
        self.change(Change::Added(refused))
    }

    /// Removes updates. Returns the number of the change, for [`Keeper::has_settled`].
    pub fn gone(&mut self, ids: impl IntoIterator<Item = u64>) -> u64 {
        self.change(Change::Gone(ids.into_iter().collect()))
    }

    /// Keeps that the numbers of these updates have been accepted.
    pub fn accepted(&mut self, ids: Vec<u64>) {
        self.change(Change::Accepted(ids));
    }

    /// Whether a change is in the file. True as well of one that will not be there: dropped in a flood, or the file cannot be written. The
    /// waker is called when it may have become true.
    pub fn has_settled(&mut self, change: u64) -> bool {
        let Some(active) = self.0.as_mut().filter(|active| active.settled < change) else { return true };
        let mut state = active.shared.state();
        active.settled = state.settled;
        let has_settled = state.settled >= change || state.has_failed;
        state.is_awaited |= !has_settled;
        drop(state);
        if !has_settled {
            active.shared.changed.notify_one();
        }
        has_settled
    }

    /// While the log waits for room on a full disk, changes stay in memory, unless a response waits for them: otherwise rejected updates take the room
    /// that an operator makes.
    pub fn pause(&self, is_paused: bool) {
        if let Some(active) = &self.0 {
            active.shared.state().is_paused = is_paused;
            active.shared.changed.notify_one();
        }
    }

    fn change(&mut self, change: Change) -> u64 {
        let Some(active) = &mut self.0 else { return 0 };
        if let Some(saver) = active.saver.take() {
            match active.spawner.spawn("rejected", Box::new(saver)) {
                Ok(running) => active.running = Some(running),
                Err(error) => {
                    tracing::warn!(%error, "rejected updates are not kept over a restart: no thread can be started")
                }
            }
        }
        if active.running.is_none() {
            return 0;
        }
        let number = active.shared.state().add(change);
        active.shared.changed.notify_one();
        number
    }

    /// Writes what is pending, for a few seconds at most, and ends the thread.
    pub fn close(&mut self) {
        let Some(Active { shared, running: Some(running), .. }) = &self.0 else { return };
        let mut state = shared.state();
        state.is_closing = true;
        shared.changed.notify_one();
        drop(state);
        running.assist();
        let state = shared.state();
        let is_open = |state: &mut State| (state.is_writing || !state.pending.is_empty()) && !state.has_failed;
        drop(shared.written.wait_timeout_while(state, LAST_WRITES, is_open));
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        if let Some(active) = &self.0 {
            active.shared.state().is_closing = true;
            active.shared.changed.notify_one();
        }
    }
}

/// The thread's work.
struct Saver {
    shared: Arc<Shared>,
    segments: Segments,
    waker: Waker,
    /// End of the pause.
    not_before: Option<Instant>,
}

impl Task for Saver {
    fn wait(&mut self) -> bool {
        let mut state = self.shared.state();
        loop {
            let has_work = state.has_work();
            if state.is_closing {
                return has_work && !state.has_failed;
            }
            let pause = self.not_before.map(|at| at.saturating_duration_since(Instant::now())).unwrap_or_default();
            state = match (has_work, pause.is_zero()) {
                (true, true) => return true,
                (true, false) => {
                    let waited = self.shared.changed.wait_timeout(state, pause);
                    waited.unwrap_or_else(PoisonError::into_inner).0
                }
                (false, _) => self.shared.changed.wait(state).unwrap_or_else(PoisonError::into_inner),
            };
        }
    }

    fn due(&mut self) -> Due {
        let state = self.shared.state();
        if !state.has_work() || state.has_failed { Due::Later } else { Due::Now }
    }

    fn work(&mut self) {
        let (mut changes, mut records) = (Vec::new(), Vec::new());
        let mut state = self.shared.state();
        let mut bytes = 0usize;
        while bytes < ROUND_BYTES
            && let Some(change) = state.pop()
        {
            bytes = bytes.saturating_add(change.held_bytes());
            changes.push(change);
        }
        state.is_writing = true;
        drop(state);
        changes.iter().for_each(|change| change.write(&mut records));
        let result = self.segments.append(&records);
        let mut state = self.shared.state();
        state.is_writing = false;
        let failed_before = std::mem::replace(&mut state.has_failed, result.is_err());
        let pause = match &result {
            Ok(()) => {
                state.settle();
                Duration::from_nanos((records.len() as u64).saturating_mul(1_000_000_000) / BYTES_PER_S)
            }
            Err(error) => {
                if !failed_before {
                    tracing::warn!(%error, "rejected updates cannot be written beside the log; they are in memory only (.u.rejected)");
                }
                let newer = std::mem::take(&mut state.pending);
                state.bytes = 0;
                changes.into_iter().chain(newer).for_each(|change| state.push(change));
                RETRY
            }
        };
        let is_awaited = std::mem::take(&mut state.is_awaited);
        drop(state);
        if is_awaited {
            (self.waker)();
        }
        if failed_before && result.is_ok() {
            tracing::info!("rejected updates are written beside the log again");
        }
        self.not_before = Instant::now().checked_add(pause);
        self.shared.written.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::refused;
    use super::*;
    use std::path::PathBuf;
    use std::sync::mpsc::{Receiver, channel};

    fn folder(name: &str) -> PathBuf {
        let path = std::env::temp_dir().join(format!("elastick-keeper-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&path);
        std::fs::create_dir_all(&path).unwrap();
        path
    }

    fn open(dir: &Path) -> (Keeper, Quarantine) {
        let mut quarantine = Quarantine::new(1000, 64 << 20);
        let keeper = Keeper::open(&Env::system(), Some(dir), "sym", &mut quarantine, Arc::new(|| ()));
        (keeper, quarantine)
    }

    /// As [`open`], with the calls of the waker.
    fn open_with_calls(dir: &Path) -> (Keeper, Quarantine, Receiver<()>) {
        let mut quarantine = Quarantine::new(1000, 64 << 20);
        let (called, calls) = channel();
        let called = Mutex::new(called);
        let waker = move || {
            let _ = called.lock().unwrap().send(());
        };
        (Keeper::open(&Env::system(), Some(dir), "sym", &mut quarantine, Arc::new(waker)), quarantine, calls)
    }

    #[test]
    fn while_the_log_waits_for_room_nothing_is_written_unless_a_response_waits_for_it() {
        let dir = folder("paused");
        let (mut keeper, mut quarantine) = open(&dir);
        let active = keeper.0.as_mut().unwrap();
        let (shared, mut saver) = (Arc::clone(&active.shared), active.saver.take().unwrap());
        let mut is_due = |change: fn(&mut State)| {
            change(&mut shared.state());
            saver.due() == Due::Now
        };
        assert!(!is_due(|_| ()));
        let (refused, _) = quarantine.add(refused(0, 100));
        shared.state().add(Change::Added(refused));
        assert!(is_due(|_| ()) && !is_due(|state| state.is_paused = true));
        assert!(is_due(|state| state.is_awaited = true));
        assert!(!is_due(|state| state.is_awaited = false) && is_due(|state| state.is_paused = false));
        std::fs::remove_dir_all(dir).unwrap();
    }

    #[test]
    fn a_clean_end_writes_what_is_pending() {
        let dir = folder("end");
        let (mut keeper, mut quarantine) = open(&dir);
        // More than a round.
        for time_ns in 0..30 {
            keeper.added(quarantine.add(refused(time_ns, 100 << 10)).0);
        }
        keeper.gone([3, 4]);
        keeper.close();
        let (_, restored) = open(&dir);
        assert_eq!(restored.iter().len(), 28);
        assert!(restored.get(3).is_none() && restored.get(29).is_some());
        std::fs::remove_dir_all(dir).unwrap();
    }

    #[test]
    fn a_settled_change_is_in_the_file_while_its_process_runs() {
        let dir = folder("settled");
        let (mut keeper, mut quarantine, calls) = open_with_calls(&dir);
        for id in 0..5 {
            let change = keeper.added(quarantine.add(refused(0, 100)).0);
            while !keeper.has_settled(change) {
                calls.recv_timeout(Duration::from_secs(60)).expect("a call once it is written");
            }
            // As a process would find it that starts after this one was killed.
            let contents = super::super::record::read(&std::fs::read(dir.join("sym.rejected")).unwrap());
            assert_eq!(contents.changes.len(), id + 1);
        }
        assert!(Keeper::default().has_settled(1), "without a directory nothing is waited for");
        std::fs::remove_dir_all(dir).unwrap();
    }

    #[test]
    fn a_flood_is_bounded_in_memory_and_loses_the_oldest_first() {
        let mut state = State::default();
        for id in 0..100 {
            let number = state.add(Change::Added(Arc::new(Refused { id, ..refused(0, 1 << 20) })));
            assert!(state.bytes <= PENDING_BYTES);
            assert_eq!((number, state.settled), (id + 1, (id + 1).saturating_sub(7)), "nobody waits for what is lost");
        }
        let ids: Vec<u64> = std::iter::from_fn(|| state.pop())
            .map(|change| match change {
                Change::Added(refused) => refused.id,
                change => unreachable!("{change:?}"),
            })
            .collect();
        assert_eq!((ids, state.bytes), ((93..100).collect(), 0));
    }

    #[test]
    fn a_directory_that_cannot_be_written_holds_up_nobody() {
        let dir = folder("gone");
        let (mut keeper, mut quarantine, calls) = open_with_calls(&dir);
        std::fs::remove_dir_all(&dir).unwrap();
        let change = keeper.added(quarantine.add(refused(0, 10)).0);
        while !keeper.has_settled(change) {
            calls.recv_timeout(Duration::from_secs(60)).expect("a call after the failure");
        }
        let later = keeper.added(quarantine.add(refused(0, 10)).0);
        assert!(keeper.has_settled(later), "nobody waits for the retry");
        keeper.close();
        assert_eq!(quarantine.iter().len(), 2);
    }
}
