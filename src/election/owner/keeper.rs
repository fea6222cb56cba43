//! Keeps the lease of this process: a thread drives the pure core ([`OwnerLease`]) against a store.

use super::{OwnerStore, Renewed};
use crate::lease::owner::{OwnerAction, OwnerEvent, OwnerLease, OwnerWindows};
use crate::sys::clock::Clock;
use crate::sys::stack;
use std::io;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// Longest time of a call; less if renewals are more frequent.
const MAX_CALL: Duration = Duration::from_secs(5);
/// Longest time for giving the lease back at the end of the process.
const RELEASE_WITHIN: Duration = Duration::from_secs(2);

/// The lease as other threads see it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Standing {
    pub is_held: bool,
    /// Why the last call failed.
    pub trouble: Option<String>,
    pub failures: u64,
}

/// The lease of this process. Dropping it gives the lease back.
pub struct Keeper {
    end: Option<Sender<()>>,
    standing: Arc<Mutex<Standing>>,
    released: Receiver<()>,
}

impl Keeper {
    /// Starts to keep a lease under this name.
    ///
    /// # Errors
    /// The system has no thread left.
    pub fn start(
        store: Box<dyn OwnerStore>,
        owner: String,
        windows: OwnerWindows,
        clock: Arc<dyn Clock>,
    ) -> io::Result<Keeper> {
        let ((end, ends), (done, released)) = (channel(), channel());
        let standing = Arc::<Mutex<Standing>>::default();
        let lease = OwnerLease::new(windows, now_ns(&*clock));
        let call = Duration::from_nanos(windows.renew_ns).min(MAX_CALL);
        let mut of = Thread { store, owner, lease, clock, call, ends, standing: Arc::clone(&standing) };
        stack::thread("owner-lease".into()).spawn(move || {
            of.run();
            // The process may be at its end.
            let _ = done.send(());
        })?;
        Ok(Keeper { end: Some(end), standing, released })
    }

    /// Returns a reader of the lease's state for other threads.
    pub fn watch(&self) -> Watch {
        Watch(Arc::clone(&self.standing))
    }
}

/// Reads the state of the lease.
#[derive(Clone)]
pub struct Watch(Arc<Mutex<Standing>>);

impl Watch {
    /// Returns what is wrong with the lease, for an operator; `None` if it is held, and nothing has failed yet or since.
    pub fn trouble(&self) -> Option<String> {
        let standing = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let why = standing.trouble.as_deref();
        match (standing.is_held, why) {
            (true, None) => None,
            (true, Some(why)) => Some(format!("the owner's lease was not renewed at the last attempt: {why}")),
            (false, why) => {
                Some(format!("the owner's lease is not held: {}", why.unwrap_or("the store has not answered yet")))
            }
        }
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        self.end = None;
        // A call that hangs ends with the process.
        let _ = self.released.recv_timeout(RELEASE_WITHIN);
    }
}

fn now_ns(clock: &dyn Clock) -> u64 {
    u64::try_from(clock.since_boot().as_nanos()).unwrap_or(u64::MAX)
}

struct Thread {
    store: Box<dyn OwnerStore>,
    owner: String,
    lease: OwnerLease,
    clock: Arc<dyn Clock>,
    call: Duration,
    ends: Receiver<()>,
    standing: Arc<Mutex<Standing>>,
}

impl Thread {
    fn run(&mut self) {
        let mut event = OwnerEvent::Tick;
        loop {
            let mut answer = None;
            for action in self.lease.step(event, now_ns(&*self.clock)) {
                answer = self.carry_out(action).or(answer);
            }
            if event == OwnerEvent::Leave {
                return;
            }
            event = match answer {
                Some(answer) => answer,
                None => self.await_event(),
            };
        }
    }

    fn await_event(&mut self) -> OwnerEvent {
        let next_ns = self.lease.next_deadline_ns().unwrap_or(u64::MAX);
        let left = Duration::from_nanos(next_ns.saturating_sub(now_ns(&*self.clock)));
        match self.ends.recv_timeout(left) {
            Ok(()) | Err(RecvTimeoutError::Disconnected) => OwnerEvent::Leave,
            Err(RecvTimeoutError::Timeout) => OwnerEvent::Tick,
        }
    }

    fn carry_out(&mut self, action: OwnerAction) -> Option<OwnerEvent> {
        let owner = self.owner.as_str();
        let answer = match action {
            OwnerAction::Acquire => self.store.acquire(owner, self.call).map(|()| OwnerEvent::Done),
            OwnerAction::Renew => self.store.renew(owner, self.call).map(|renewed| match renewed {
                Renewed::Done => OwnerEvent::Done,
                Renewed::Gone => OwnerEvent::Gone,
            }),
            OwnerAction::Release => {
                if let Err(error) = self.store.release(owner, RELEASE_WITHIN) {
                    tracing::info!(%owner, %error, "the owner's lease is not given back, and runs out");
                }
                return None;
            }
            OwnerAction::Late { left_ns } => {
                let left = Duration::from_nanos(left_ns);
                let why = self.standing().trouble.unwrap_or_else(|| "the store is slow".to_string());
                tracing::warn!(%owner, "the owner's lease is renewed too slowly and ends in {left:.1?}: {why}");
                return None;
            }
            OwnerAction::Lost => {
                tracing::warn!(%owner, "the owner's lease is over; acquiring it again");
                self.change(|standing| standing.is_held = false);
                return None;
            }
            OwnerAction::Held => {
                tracing::info!(%owner, "the owner's lease is held");
                self.change(|standing| standing.is_held = true);
                return None;
            }
        };
        let trouble = answer.as_ref().err().map(ToString::to_string);
        if let Some(trouble) = trouble.as_ref().filter(|trouble| self.standing().trouble.as_ref() != Some(*trouble)) {
            tracing::warn!(%owner, "the owner's lease: {trouble}; trying again");
        }
        self.change(|standing| {
            standing.failures = standing.failures.saturating_add(u64::from(trouble.is_some()));
            standing.trouble = trouble;
        });
        Some(answer.unwrap_or(OwnerEvent::Unanswered))
    }

    fn standing(&self) -> Standing {
        self.standing.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn change(&self, change: impl FnOnce(&mut Standing)) {
        change(&mut self.standing.lock().unwrap_or_else(PoisonError::into_inner));
    }
}
