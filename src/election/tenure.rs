//! What other threads read of the lease.

use crate::lease::{Barrier, Epoch, Left, OwnerName};
use crate::protocol::LeaseState;
use crate::sys::clock::Clock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Called when the process becomes active or has to step down.
pub type Waker = Arc<dyn Fn() + Send + Sync>;

/// When the lease ends if it is not renewed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ends {
    /// The process has no lease.
    Over,
    /// At this time of the lease's clock.
    At(u64),
    /// Not while the store does not answer.
    Never,
}

/// State of the lease at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct View {
    /// Epoch of the own lease, while the process holds it and has not been asked to step down.
    pub lead: Option<Epoch>,
    /// Owner in the record that the store had last; this process itself while it holds the lease. Empty if there is none.
    pub owner: String,
    /// Number of the lease in that record.
    pub owner_epoch: Option<Epoch>,
    /// The owner has given the lease back.
    pub is_released: bool,
    /// Time since the own last renewal, or since this process saw the owner's last one.
    pub renewed: Option<Duration>,
    /// Time left of a lease that is renewed late.
    pub danger: Option<Duration>,
    /// The lease is over, and the process is active by the lock of the log alone.
    pub is_held: bool,
    /// Why the store could not be used at the last call.
    pub trouble: Option<String>,
    /// Calls of the store that failed.
    pub failures: u64,
    /// Last request for copies that the record is to name that was carried out ([`crate::lease::LeaseAction::Copies`]).
    pub named: u64,
    /// Why a passive process may not take the lease.
    pub barrier: Option<Barrier>,
    /// Duration of another's lease, if it is longer than one of ours may be: so long nobody can take it over.
    pub long: Option<Duration>,
    /// Another process with this one's address renews the lease.
    pub is_address_taken: bool,
    /// Why this process had to step down.
    pub left: Option<Left>,
    /// Nothing is under way: passive, and no call without an answer.
    pub is_settled: bool,
}

/// State of the lease as the driver has it. Times are of the lease's clock.
#[derive(Clone, Debug, Default)]
pub(super) struct Known {
    pub view: View,
    pub renewed_ns: Option<u64>,
    pub is_in_danger: bool,
}

/// The lease as other threads see it.
pub struct Tenure {
    url: String,
    /// Name of this process in the store.
    me: OwnerName,
    clock: Arc<dyn Clock>,
    /// `u64::MAX` for [`Ends::Never`], 0 for [`Ends::Over`].
    ends_ns: AtomicU64,
    known: Mutex<(Known, Option<Waker>)>,
    changed: Condvar,
}

impl View {
    /// What endangers the lease or keeps this process from it; `None` if all is well.
    pub fn words(&self) -> Option<String> {
        let why = self.trouble.as_deref();
        let cause = why.unwrap_or("the store is slow");
        match self.danger {
            _ if self.is_held => Some(format!(
                "the lease is over and not renewed ({cause}); active by the lock of the log alone (--lease-failsafe)"
            )),
            Some(left) => Some(format!("the lease is renewed late and ends in {} ms: {cause}", left.as_millis())),
            // A pause is an operator's own.
            None if self.is_address_taken => Some(format!(
                "{} owns the lease under this process's own address: give each tickerplant its own --advertise",
                self.owner
            )),
            None => why.map(String::from).or_else(|| {
                self.barrier.as_ref().filter(|barrier| **barrier != Barrier::Paused).map(Barrier::to_string)
            }),
        }
    }
}

impl Tenure {
    pub(super) fn new(url: String, me: OwnerName, clock: Arc<dyn Clock>) -> Tenure {
        Tenure { url, me, clock, ends_ns: AtomicU64::new(0), known: Mutex::default(), changed: Condvar::new() }
    }

    /// URL of the lease, as its option has it.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// The URL without its parameters, for messages.
    pub(super) fn name(&self) -> &str {
        self.url.split('?').next().unwrap_or_default()
    }

    pub(super) fn now_ns(&self) -> u64 {
        u64::try_from(self.clock.since_boot().as_nanos()).unwrap_or(u64::MAX)
    }

    /// Whether the process must not write any more, by the clock. The driver says the same, but its thread may not have run yet after a pause
    /// of the process.
    pub fn is_over(&self) -> bool {
        let ends_ns = self.ends_ns.load(Ordering::Acquire);
        ends_ns != u64::MAX && self.now_ns() >= ends_ns
    }

    /// Returns the state of the lease.
    pub fn view(&self) -> View {
        let now_ns = self.now_ns();
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let (Known { view, renewed_ns, is_in_danger }, _) = &*known;
        let ends_ns = self.ends_ns.load(Ordering::Acquire);
        let left = Duration::from_nanos(ends_ns.saturating_sub(now_ns));
        View {
            renewed: renewed_ns.map(|at| Duration::from_nanos(now_ns.saturating_sub(at))),
            danger: is_in_danger.then_some(left),
            ..view.clone()
        }
    }

    /// Says that an operator has paused take-overs, or that another program has written a long lease, while that is so.
    pub fn note(&self) -> String {
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let view = &known.0.view;
        match (&view.barrier, view.long) {
            (Some(barrier @ Barrier::Paused), _) => barrier.to_string(),
            (_, Some(long)) => format!(
                "the lease of {} lasts {} s, and can be taken over that long after its last renewal, or once it is given back (elastick lease release)",
                view.owner,
                long.as_secs()
            ),
            _ => String::new(),
        }
    }

    /// Returns the owner whose lease has the epoch of the log: the process that has opened the log under it, and no other one. A name that
    /// somebody has put into the record by hand is no process's.
    pub fn writer_of(&self, epoch: Epoch) -> Option<OwnerName> {
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let view = &known.0.view;
        let is_meant = !view.is_released && view.owner != self.me && view.owner_epoch == Some(epoch);
        (is_meant && is_process(&view.owner)).then(|| view.owner.clone())
    }

    /// Returns the state of the lease as `.u.state[]` has it.
    pub fn state(&self) -> LeaseState {
        let view = self.view();
        let trouble = view.words().unwrap_or_default();
        let owner = if view.is_released { String::new() } else { view.owner };
        LeaseState { owner, name: self.me.clone(), renewed: view.renewed, trouble }
    }

    /// Epoch of the own lease; `None` if the process has none, or has to step down.
    pub fn lead(&self) -> Option<Epoch> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner).0.view.lead
    }

    /// Number of the last request for copies that was carried out; 0 before the first.
    pub fn named(&self) -> u64 {
        self.known.lock().unwrap_or_else(PoisonError::into_inner).0.view.named
    }

    /// Whether the process has to step down.
    pub fn has_left(&self) -> bool {
        self.known.lock().unwrap_or_else(PoisonError::into_inner).0.view.left.is_some()
    }

    /// Calls `waker` whenever the process becomes active or has to step down, or its record names other copies; at once if it has to step down
    /// already.
    pub fn on_change(&self, waker: Waker) {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let has_left = known.0.view.left.is_some();
        known.1 = Some(Arc::clone(&waker));
        drop(known);
        if has_left {
            waker();
        }
    }

    pub(super) fn set(&self, known: Known, ends: Ends) {
        let ends_ns = match ends {
            Ends::Over => 0,
            Ends::At(at_ns) => at_ns,
            Ends::Never => u64::MAX,
        };
        self.ends_ns.store(ends_ns, Ordering::Release);
        let mut shared = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let (before, now) = (&shared.0.view, &known.view);
        let is_other = (before.lead, before.left, before.named) != (now.lead, now.left, now.named);
        let waker = is_other.then(|| shared.1.clone()).flatten();
        shared.0 = known;
        drop(shared);
        self.changed.notify_all();
        if let Some(waker) = waker {
            waker();
        }
    }

    /// An event is on its way to the driver.
    pub(super) fn unsettle(&self) {
        self.known.lock().unwrap_or_else(PoisonError::into_inner).0.view.is_settled = false;
    }

    /// Waits until nothing is under way, for at most `most`. Returns whether that is so.
    pub(super) fn settled(&self, most: Duration) -> bool {
        let until = Instant::now().checked_add(most);
        let mut shared = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        while !shared.0.view.is_settled {
            let left = until.map_or(Duration::ZERO, |until| until.saturating_duration_since(Instant::now()));
            if left.is_zero() {
                return false;
            }
            shared =
                self.changed.wait_timeout(shared, left).map_or_else(|poisoned| poisoned.into_inner().0, |(s, _)| s);
        }
        true
    }
}

/// Digits at the end of a process's name.
const NAME_DIGITS: usize = 32;

/// Whether an owner is a process of elastick: its address, and a random number.
fn is_process(owner: &str) -> bool {
    let digits = owner.rsplit_once('/').map(|(_, digits)| digits).unwrap_or_default();
    digits.len() == NAME_DIGITS && digits.bytes().all(|byte| byte.is_ascii_hexdigit())
}
