//! What one evaluation may use, however many threads work on it.

use super::error::QError;
use columns::sys::shared::Nests;
use columns::sys::{allocated, clock, interrupt};
use columns::table::Value;
use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

mod watch;

pub(super) use watch::{Watch, check, collected, items, list, pace, place, room, room_for, settle, step};

/// Bounds of one evaluation. The stack is bounded for every thread by [`columns::sys::stack`].
#[derive(Clone, Debug)]
pub struct Limits {
    /// When to end with `'stop`.
    pub deadline: Option<Instant>,
    /// The deadline counts only once the evaluating thread's processor time ([`clock::thread_processor_time`]) is this.
    pub processor_time: Option<Duration>,
    /// Bytes that the evaluation may hold beyond what it found, else `'wsfull`.
    pub memory_bytes: u64,
    /// Whether lambdas over atoms are run by the machine. Without it every expression is walked: the same, more slowly.
    pub machine: bool,
    /// Rows that are taken in at once before what they give is merged with the rest, where not as many as is fast. Results
    /// are the same for any number.
    pub section_rows: Option<usize>,
    /// Deepest nesting of a message that is evaluated, else `'limit`.
    pub message_depth: usize,
}

impl Default for Limits {
    /// No deadline; 2 GiB; the machine; what the format's readers take.
    fn default() -> Limits {
        let message_depth = proto::Limits::default().max_depth;
        Limits {
            deadline: None,
            processor_time: None,
            memory_bytes: 2 << 30,
            machine: true,
            section_rows: None,
            message_depth,
        }
    }
}

/// A value that an evaluation has made, unless it nests deeper than may be read and sent. The depth stands in the value, so
/// this costs next to nothing; as everything that is made of values comes through here, recursion over one is bounded.
///
/// # Errors
/// `limit`.
#[inline]
pub(super) fn made(value: Value) -> Result<Value, QError> {
    // An atom counts as a level on the wire.
    if usize::from(value.depth()) < proto::DEEPEST { Ok(value) } else { Err(too_deep()) }
}

#[cold]
fn too_deep() -> QError {
    crate::refused::count_too_deep();
    QError::with("limit", format!("a value may nest {} levels deep", proto::DEEPEST))
}

impl Limits {
    fn is_over(&self) -> bool {
        self.deadline.is_some_and(|deadline| clock::has_passed(deadline, self.processor_time))
    }
}

/// A change of what a thread holds is told to the others when it is as large as this.
const TELL_BYTES: i64 = 64 << 10;

/// The bounds of an evaluation, as one of its threads sees them. [`super::threads::run`] gives each helper its own, which
/// counts in the same account. Cheap enough to ask for every chunk of some thousand items.
#[derive(Debug)]
pub struct Allowance {
    limits: Limits,
    /// What this thread held when its part began.
    found_bytes: i64,
    /// Threads that may work on this evaluation at once, 1 or more.
    threads: usize,
    member: Option<Member>,
}

/// One thread of several.
#[derive(Clone, Debug)]
pub(super) struct Member {
    pub team: Arc<Team>,
    pub own: Rc<Own>,
}

/// What all threads of a team share.
#[derive(Debug)]
pub(super) struct Team {
    /// What the whole evaluation holds beyond what it found.
    held_bytes: AtomicI64,
    /// The first part of the work that has failed: what comes after it is wanted no more.
    failed: AtomicUsize,
}

/// What one thread of a team knows of itself.
#[derive(Debug, Default)]
pub(super) struct Own {
    told_bytes: Cell<i64>,
    /// The part of the work that it is at.
    pub part: Cell<usize>,
}

impl Team {
    pub(super) fn new(held_bytes: i64) -> Team {
        Team { held_bytes: AtomicI64::new(held_bytes), failed: AtomicUsize::new(usize::MAX) }
    }

    pub(super) fn fail(&self, part: usize) {
        self.failed.fetch_min(part, Ordering::Relaxed);
    }

    /// Whether nobody waits for this part any more.
    pub(super) fn is_void(&self, part: usize) -> bool {
        self.failed.load(Ordering::Relaxed) < part
    }
}

impl Allowance {
    /// For an evaluation that begins on this thread and may use so many.
    pub fn new(limits: &Limits, threads: usize) -> Allowance {
        Allowance {
            limits: limits.clone(),
            found_bytes: allocated::thread_bytes(),
            threads: threads.max(1),
            member: None,
        }
    }

    /// For this thread as one of a team. What it has run itself says nothing of the whole: the deadline counts.
    pub(super) fn of_member(limits: &Limits, member: Member) -> Allowance {
        let limits = Limits { processor_time: None, ..limits.clone() };
        Allowance { limits, found_bytes: allocated::thread_bytes(), threads: 1, member: Some(member) }
    }

    /// The same account, for another owner on this thread.
    pub(super) fn again(&self) -> Allowance {
        Allowance { limits: self.limits.clone(), member: self.member.clone(), ..*self }
    }

    pub fn limits(&self) -> &Limits {
        &self.limits
    }

    /// Threads that may work on this evaluation at once: 1 on a helper thread.
    pub fn threads(&self) -> usize {
        self.threads
    }

    pub(super) fn set_threads(&mut self, threads: usize) {
        if self.member.is_none() {
            self.threads = threads.max(1);
        }
    }

    /// # Errors
    /// `stop` at the deadline and where nobody wants the result any more; `wsfull` above the memory limit.
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
        self.reserve(0)
    }

    /// # Errors
    /// `wsfull` if `bytes` more are too many.
    pub fn reserve(&self, bytes: usize) -> Result<(), QError> {
        let held = u64::try_from(self.held_bytes()).unwrap_or(0);
        if held.saturating_add(bytes as u64) > self.limits.memory_bytes {
            return Err(QError::with("wsfull", "memory limit of a query"));
        }
        Ok(())
    }

    /// What the evaluation holds, with what its other threads have told.
    pub(super) fn held_bytes(&self) -> i64 {
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

#[cfg(test)]
mod tests;
