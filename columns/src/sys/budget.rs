//! Budget of a thread (deadline, memory, stack depth) for work that cannot return an error: the work polls [`is_over`]
//! and stops early, its caller reads the reason with [`take`].

use super::{allocated, clock, stack};
use std::cell::Cell;
use std::time::{Duration, Instant};

/// Exceeded bound that ended the work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Over {
    Time,
    Memory,
    Depth,
}

/// Bounds of a thread, and the first one exceeded.
#[derive(Clone, Copy, Debug)]
pub struct Budget {
    deadline: Option<Instant>,
    /// The deadline applies only once [`clock::thread_processor_time`] has reached this.
    processor_time: Option<Duration>,
    /// Maximum of [`allocated::thread_bytes`].
    most_bytes: i64,
    steps: u32,
    over: Option<Over>,
}

const UNBOUNDED: Budget = Budget { deadline: None, processor_time: None, most_bytes: i64::MAX, steps: 0, over: None };

thread_local! {
    static BUDGET: Cell<Budget> = const { Cell::new(UNBOUNDED) };
}

/// [`is_over`] reads the clock in one of 64 calls.
const STEPS_MASK: u32 = 0x3f;

/// Sets this thread's budget: a deadline, the CPU time before which the deadline does not apply, and the bytes that it
/// may hold beyond its current ones. Returns the previous budget, to be restored by [`end`].
pub fn begin(deadline: Option<Instant>, processor_time: Option<Duration>, bytes: u64) -> Budget {
    let most_bytes = allocated::thread_bytes().saturating_add(i64::try_from(bytes).unwrap_or(i64::MAX));
    BUDGET.replace(Budget { deadline, processor_time, most_bytes, ..UNBOUNDED })
}

/// Restores the budget that [`begin`] returned.
pub fn end(before: Budget) {
    BUDGET.set(before);
}

/// Returns whether work that may be long, large or deep should stop. The work calls this once for each of its parts.
pub fn is_over() -> bool {
    let mut budget = BUDGET.get();
    if budget.over.is_none() {
        budget.steps = budget.steps.wrapping_add(1);
        if allocated::thread_bytes() > budget.most_bytes {
            budget.over = Some(Over::Memory);
        } else if stack::is_deep() {
            budget.over = Some(Over::Depth);
        } else if budget.steps & STEPS_MASK == 0
            && budget.deadline.is_some_and(|by| clock::has_passed(by, budget.processor_time))
        {
            budget.over = Some(Over::Time);
        }
        BUDGET.set(budget);
    }
    budget.over.is_some()
}

/// Returns which bound was exceeded since the last call of this function, if any, and resets it.
#[inline]
pub fn take() -> Option<Over> {
    let over = BUDGET.with(Cell::get).over;
    if over.is_some() {
        BUDGET.set(Budget { over: None, ..BUDGET.get() });
    }
    over
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn abandoned_work_is_reported_once() {
        let before = begin(None, None, 1 << 20);
        assert!(!is_over());
        let block = vec![1u8; 2 << 20];
        assert!(is_over());
        drop(block);
        assert!(is_over(), "work stops at once");
        assert_eq!((take(), take()), (Some(Over::Memory), None));
        assert!(!is_over());
        end(before);
    }

    #[test]
    fn the_moment_is_noticed() {
        let before = begin(Some(Instant::now()), None, u64::MAX);
        assert!((0..=STEPS_MASK).any(|_| is_over()));
        assert_eq!(take(), Some(Over::Time));
        end(before);
        assert!(!is_over());
    }

    #[test]
    fn the_moment_waits_for_the_processor_time() {
        let before = begin(Some(Instant::now()), Some(Duration::MAX), u64::MAX);
        assert!((0..=STEPS_MASK).all(|_| !is_over()));
        end(before);
    }
}
