//! Time, memory and thread limits of one evaluation, shared by all its threads.

use crate::runtime::error::QError;
use columns::sys::interrupt::{self, Cancel};
use columns::sys::shared::Nests;
use columns::sys::{allocated, budget, clock};
use columns::table::{Value, symbol};
use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

mod shared_memory;
mod watch;

pub use shared_memory::SharedMemory;
pub(crate) use watch::{
    Watch, check, collected, innermost, items, list, pace, place, room, room_for, settle, settled, step,
};

/// Limits of one evaluation. [`columns::sys::stack`] limits the stack of every thread separately.
#[derive(Clone, Debug)]
pub struct Limits {
    /// Time after which the evaluation ends with `'stop`.
    pub deadline: Option<Instant>,
    /// If set, the deadline applies only once the evaluating thread has used this much CPU time
    /// ([`clock::thread_processor_time`]).
    pub processor_time: Option<Duration>,
    /// Memory in bytes that the evaluation may allocate on top of what its thread held at the start; above it, `'wsfull`.
    pub memory_bytes: u64,
    /// Bound of what it and other evaluations allocate together; above it, `'wsfull`.
    pub shared_memory: Option<Arc<SharedMemory>>,
    /// Whether the register VM runs lambdas over atoms. Without it the evaluator walks every expression: same results,
    /// slower.
    pub machine: bool,
    /// Rows in one section (unit of parallel work); `None` picks the fastest size. Results do not depend on it, except for
    /// the rounding of float sums.
    pub section_rows: Option<usize>,
    /// Maximum nesting of a message that is evaluated; above it, `'limit`.
    pub message_depth: usize,
    /// Ends the evaluation with `'stop` once another thread has set it.
    pub cancel: Option<Cancel>,
    /// Symbols that the evaluation may add; above it, `'limit`. `None`: as many as the process takes.
    pub symbols: Option<Arc<symbol::Budget>>,
}

impl Default for Limits {
    /// No deadline, 2 GiB, register VM on, and the nesting depth that the wire format's readers accept.
    fn default() -> Limits {
        let message_depth = proto::Limits::default().max_depth;
        Limits {
            deadline: None,
            processor_time: None,
            memory_bytes: 2 << 30,
            shared_memory: None,
            machine: true,
            section_rows: None,
            message_depth,
            cancel: None,
            symbols: None,
        }
    }
}

/// Returns the value unless it nests too deep to be read and sent. Every composite value passes through here, which bounds
/// recursion over values; the depth is stored in the value, so the check is cheap.
///
/// # Errors
/// `limit` above [`proto::DEEPEST`] levels.
#[inline]
pub(crate) fn made(value: Value) -> Result<Value, QError> {
    shallow(value.depth()).map(|()| value)
}

/// Checks the nesting depth of a value that is about to be made, as [`made`] does.
///
/// # Errors
/// As [`made`].
#[inline]
pub(crate) fn shallow(depth: u16) -> Result<(), QError> {
    // An atom counts as one level on the wire.
    if usize::from(depth) < proto::DEEPEST { Ok(()) } else { Err(too_deep()) }
}

#[cold]
fn too_deep() -> QError {
    crate::runtime::refused::count_too_deep();
    QError::with("limit", format!("values may nest at most {} levels deep", proto::DEEPEST))
}

impl Limits {
    fn is_over(&self) -> bool {
        self.deadline.is_some_and(|deadline| clock::has_passed(deadline, self.processor_time))
    }
}

/// A thread adds a change of its memory use to the team's total once it reaches this size; smaller ones stay thread-local.
const TELL_BYTES: i64 = 64 << 10;

/// Limits of an evaluation as seen by one of its threads. [`crate::runtime::threads::run`] gives each helper its own,
/// counted towards the same memory limit. A check is cheap enough for every chunk of a few thousand items.
#[derive(Debug)]
pub struct Allowance {
    limits: Limits,
    /// Bytes held by this thread when its work began.
    found_bytes: i64,
    /// Number of threads that may work on this evaluation, at least 1.
    threads: usize,
    member: Option<Member>,
}

/// Membership of one thread in a team.
#[derive(Clone, Debug)]
pub(crate) struct Member {
    pub team: Arc<Team>,
    pub own: Rc<Own>,
}

/// State shared by all threads that work on one evaluation.
#[derive(Debug)]
pub(crate) struct Team {
    /// Bytes held by the whole evaluation, excluding those held before it began.
    held_bytes: AtomicI64,
    /// Lowest part that has failed; results of later parts are not needed.
    failed: AtomicUsize,
}

/// State of one thread of a team.
#[derive(Debug, Default)]
pub(crate) struct Own {
    told_bytes: Cell<i64>,
    /// The part that the thread works on.
    pub part: Cell<usize>,
}

impl Team {
    pub(crate) fn new(held_bytes: i64) -> Team {
        Team { held_bytes: AtomicI64::new(held_bytes), failed: AtomicUsize::new(usize::MAX) }
    }

    /// Records that a part has failed; the lowest one counts.
    pub(crate) fn fail(&self, part: usize) {
        self.failed.fetch_min(part, Ordering::Relaxed);
    }

    /// Whether an earlier part has failed, so that the result of this one is not needed.
    pub(crate) fn is_void(&self, part: usize) -> bool {
        self.failed.load(Ordering::Relaxed) < part
    }
}

impl Allowance {
    /// For an evaluation that begins on this thread and may use `threads` threads.
    pub fn new(limits: &Limits, threads: usize) -> Allowance {
        Allowance {
            limits: limits.clone(),
            found_bytes: allocated::thread_bytes(),
            threads: threads.max(1),
            member: None,
        }
    }

    /// For a helper thread. Its CPU time is only part of the evaluation's, so `processor_time` is dropped and the deadline
    /// alone applies.
    pub(crate) fn of_member(limits: &Limits, member: Member) -> Allowance {
        let limits = Limits { processor_time: None, ..limits.clone() };
        Allowance { limits, found_bytes: allocated::thread_bytes(), threads: 1, member: Some(member) }
    }

    /// A second allowance for this thread with the same limits and memory accounting.
    pub(crate) fn again(&self) -> Allowance {
        Allowance { limits: self.limits.clone(), member: self.member.clone(), ..*self }
    }

    /// The same with a deadline, if it comes before its own one.
    pub(crate) fn until(&self, by: Instant) -> Allowance {
        let mut again = self.again();
        again.limits.deadline = Some(again.limits.deadline.map_or(by, |own| own.min(by)));
        again
    }

    pub fn limits(&self) -> &Limits {
        &self.limits
    }

    /// Limits of an evaluation that begins while this one waits for it: it ends no later, and takes no more memory than this one has left.
    pub(crate) fn inside(&self, own: Limits) -> Limits {
        let held = u64::try_from(self.held_bytes()).unwrap_or(0);
        let left = self.limits.memory_bytes.saturating_sub(held);
        let deadline = own.deadline.into_iter().chain(self.limits.deadline).min();
        Limits { deadline, memory_bytes: own.memory_bytes.min(left), ..own }
    }

    /// Number of threads that may work on this evaluation: 1 on a helper thread.
    pub fn threads(&self) -> usize {
        self.threads
    }

    /// `\s n` during an evaluation; ignored on helper threads.
    pub(crate) fn set_threads(&mut self, threads: usize) {
        if self.member.is_none() {
            self.threads = threads.max(1);
        }
    }

    /// Checks all limits now.
    ///
    /// # Errors
    /// `stop` at the deadline, on Ctrl-C, if the evaluation is cancelled, and if an earlier part has failed; `wsfull` above the memory limit; `stack` if a
    /// walk below was abandoned as too deep.
    pub fn check(&self) -> Result<(), QError> {
        settle()?;
        if self.limits.is_over() {
            return Err(QError::with("stop", "time limit"));
        }
        if interrupt::is_asked() {
            return Err(QError::named("stop"));
        }
        if self.member.as_ref().is_some_and(|member| member.team.is_void(member.own.part.get())) {
            return Err(QError::with("stop", "an earlier item has failed"));
        }
        budget::looked();
        self.reserve(0)
    }

    /// Checks that `bytes` more may be allocated.
    ///
    /// # Errors
    /// `wsfull` if they exceed the memory limit, or what all evaluations may hold together.
    pub fn reserve(&self, bytes: usize) -> Result<(), QError> {
        let held = u64::try_from(self.held_bytes()).unwrap_or(0);
        if held.saturating_add(bytes as u64) > self.limits.memory_bytes {
            return Err(QError::with("wsfull", "memory limit of a query"));
        }
        if self.limits.shared_memory.as_ref().is_some_and(|shared| !shared.has_room(held, bytes as u64)) {
            return Err(QError::with("wsfull", "other queries use the memory that the rows leave"));
        }
        Ok(())
    }

    /// Bytes held by the evaluation on all its threads, except changes that other threads have not reported yet
    /// ([`TELL_BYTES`]).
    pub(crate) fn held_bytes(&self) -> i64 {
        let own = allocated::thread_bytes().saturating_sub(self.found_bytes);
        let Some(Member { team, own: told }) = &self.member else { return own };
        let untold = own.saturating_sub(told.told_bytes.get());
        if untold.abs() < TELL_BYTES {
            return team.held_bytes.load(Ordering::Relaxed).saturating_add(untold);
        }
        told.told_bytes.set(own);
        team.held_bytes.fetch_add(untold, Ordering::Relaxed).saturating_add(untold)
    }
}
