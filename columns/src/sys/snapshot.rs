//! Requests for the call stack of an evaluation, made by another thread of the process.
//!
//! An evaluation looks for a request where its stack is exact: when it applies a function, and before it leaves one. What it runs in between, such as a
//! sort, ends first, and is then the innermost level. Without a request this costs one load from memory.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError, SyncSender};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

static WANTED: AtomicBool = AtomicBool::new(false);
static RUNNING: AtomicUsize = AtomicUsize::new(0);
/// Where the evaluation sends its stack. One request at a time.
static REQUEST: Mutex<Option<SyncSender<Vec<u8>>>> = Mutex::new(None);
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

/// Time between two looks whether the process has become idle.
const PAUSE: Duration = Duration::from_millis(2);

fn request() -> MutexGuard<'static, Option<SyncSender<Vec<u8>>>> {
    REQUEST.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Guard of a running evaluation.
#[derive(Debug)]
pub struct Running(());

impl Running {
    pub fn begin() -> Running {
        RUNNING.fetch_add(1, Ordering::Relaxed);
        Running(())
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        RUNNING.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Whether a request waits for an evaluation.
#[inline]
pub fn is_wanted() -> bool {
    WANTED.load(Ordering::Relaxed)
}

/// Answers the request with the stack that `made` returns; nothing happens if another evaluation has answered it.
pub fn answer(made: impl FnOnce() -> Vec<u8>) {
    let asked = {
        let mut request = request();
        // Under the lock: a later request must not lose its flag.
        WANTED.store(false, Ordering::Relaxed);
        request.take()
    };
    if let Some(asked) = asked {
        // The asker may have given up.
        let _ = asked.try_send(made());
    }
}

/// What [`ask`] found.
#[derive(Debug, PartialEq, Eq)]
pub enum Found {
    Stack(Vec<u8>),
    /// Nothing is evaluated.
    Idle,
    /// An evaluation did not reach a point where its stack can be read.
    Late,
}

/// Returns the stack of an evaluation that runs, as [`answer`] was given it.
pub fn ask(timeout: Duration) -> Found {
    let _turn = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let (asked, answered) = mpsc::sync_channel(1);
    {
        let mut request = request();
        *request = Some(asked);
        WANTED.store(true, Ordering::Relaxed);
    }
    let by = Instant::now() + timeout;
    let found = loop {
        match answered.recv_timeout(PAUSE) {
            Ok(stack) => break Found::Stack(stack),
            Err(RecvTimeoutError::Timeout) if RUNNING.load(Ordering::Relaxed) > 0 && Instant::now() < by => {}
            // The last evaluation may have answered just before it ended.
            Err(_) => break answered.try_recv().map_or(idle_or_late(), Found::Stack),
        }
    };
    WANTED.store(false, Ordering::Relaxed);
    *request() = None;
    found
}

fn idle_or_late() -> Found {
    if RUNNING.load(Ordering::Relaxed) > 0 { Found::Late } else { Found::Idle }
}

#[cfg(test)]
mod tests {
    use super::*;

    // One test: the request is the process's.
    #[test]
    fn a_request_is_answered_once_by_an_evaluation_that_runs() {
        assert_eq!(ask(Duration::ZERO), Found::Idle);
        let running = Running::begin();
        assert_eq!(ask(Duration::ZERO), Found::Late, "nobody answers");
        answer(|| unreachable!("the request was withdrawn"));
        let found = std::thread::scope(|scope| {
            let asked = scope.spawn(|| ask(Duration::from_secs(60)));
            while !is_wanted() {
                std::thread::yield_now();
            }
            answer(|| b"f".to_vec());
            answer(|| unreachable!("answered already"));
            asked.join()
        });
        assert_eq!(found.expect("no panic"), Found::Stack(b"f".to_vec()));
        drop(running);
        assert_eq!(ask(Duration::from_secs(60)), Found::Idle);
    }
}
