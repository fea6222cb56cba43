//! Budget of a thread (deadline, memory, stack depth) for work that cannot return an error: the work polls [`is_over`]
//! and stops early, its caller reads the reason with [`take`].
//!
//! Loops over items call [`spend`] once for each block of at most [`BLOCK`] items. The limits are looked at after every
//! [`BLOCK`] items, so at most twice as many lie between two looks, whichever loops they were in. [`meter`] shows it.

use super::{allocated, clock, interrupt, stack};
use std::cell::Cell;
use std::time::{Duration, Instant};

/// Exceeded bound that ended the work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Over {
    Time,
    Memory,
    Depth,
    /// Ctrl-C, or the evaluation's [`interrupt::Cancel`].
    Interrupt,
}

/// What the evaluations of a thread have reported since [`reset_meter`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Meter {
    /// Items that loops have processed.
    pub items: u64,
    /// Times that the limits were looked at.
    pub looks: u64,
    /// Most items between two looks.
    pub longest: usize,
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
    /// Whether an evaluation is under way: a request to stop ends nothing else.
    is_open: bool,
}

const UNBOUNDED: Budget =
    Budget { deadline: None, processor_time: None, most_bytes: i64::MAX, steps: 0, over: None, is_open: false };

thread_local! {
    static BUDGET: Cell<Budget> = const { Cell::new(UNBOUNDED) };
    /// Items since the last look at the limits.
    static SPENT: Cell<usize> = const { Cell::new(0) };
    static METER: Cell<Meter> = const { Cell::new(Meter { items: 0, looks: 0, longest: 0 }) };
}

/// Items between two looks at the limits: well below a millisecond of the usual loops, and enough to hide the cost of a look.
pub const BLOCK: usize = 1 << 16;

/// [`is_over`] reads the clock in one of 64 calls.
const STEPS_MASK: u32 = 0x3f;

/// Sets this thread's budget: a deadline, the CPU time before which the deadline does not apply, and the bytes that it
/// may hold beyond its current ones. Returns the previous budget, to be restored by [`end`].
pub fn begin(deadline: Option<Instant>, processor_time: Option<Duration>, bytes: u64) -> Budget {
    let most_bytes = allocated::thread_bytes().saturating_add(i64::try_from(bytes).unwrap_or(i64::MAX));
    SPENT.set(0);
    BUDGET.replace(Budget { deadline, processor_time, most_bytes, is_open: true, ..UNBOUNDED })
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
        } else if budget.steps & STEPS_MASK == 0 && budget.is_open && interrupt::is_asked() {
            budget.over = Some(Over::Interrupt);
        }
        BUDGET.set(budget);
    }
    budget.over.is_some()
}

/// Counts a block of items that a loop is about to process. Returns whether the loop should stop; whatever it then returns
/// is discarded by the caller that reads [`take`].
#[inline]
pub fn spend(items: usize) -> bool {
    let before = SPENT.get();
    // Past a limit nothing is processed any more.
    let spent = if before < BLOCK { before.saturating_add(items) } else { before };
    SPENT.set(spent);
    spent >= BLOCK && look()
}

/// Counts items of a loop that looks at the limits by itself.
pub fn note(items: usize) {
    SPENT.set(SPENT.get().saturating_add(items));
}

/// Looks at the limits after a block. If one is exceeded, every later block looks again.
#[cold]
fn look() -> bool {
    let mut budget = BUDGET.get();
    if budget.over.is_none() {
        if allocated::thread_bytes() > budget.most_bytes {
            budget.over = Some(Over::Memory);
        } else if budget.deadline.is_some_and(|by| clock::has_passed(by, budget.processor_time)) {
            budget.over = Some(Over::Time);
        } else if budget.is_open && interrupt::is_asked() {
            budget.over = Some(Over::Interrupt);
        }
        BUDGET.set(budget);
    }
    if budget.over.is_none() {
        looked();
    }
    budget.over.is_some()
}

/// Notes that all limits were looked at just now.
pub fn looked() {
    let (spent, meter) = (SPENT.replace(0), METER.get());
    METER.set(Meter {
        items: meter.items.saturating_add(spent as u64),
        looks: meter.looks.saturating_add(1),
        longest: meter.longest.max(spent),
    });
}

/// Returns what the thread's loops have reported.
pub fn meter() -> Meter {
    let (spent, meter) = (SPENT.get(), METER.get());
    Meter { items: meter.items.saturating_add(spent as u64), longest: meter.longest.max(spent), ..meter }
}

/// Starts the meter again from 0.
pub fn reset_meter() {
    SPENT.set(0);
    METER.set(Meter::default());
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
    fn a_loop_looks_at_the_limits_once_a_block() {
        let before = begin(None, None, u64::MAX >> 1);
        reset_meter();
        for items in [BLOCK, 1, BLOCK - 1, BLOCK, 10] {
            assert!(!spend(items));
        }
        assert_eq!(meter(), Meter { items: 3 * BLOCK as u64 + 10, looks: 3, longest: BLOCK });
        end(before);
    }

    #[test]
    fn a_loop_past_the_moment_is_stopped_at_every_block() {
        let before = begin(Some(Instant::now()), None, u64::MAX >> 1);
        assert!(!spend(1) && spend(BLOCK) && spend(1));
        assert_eq!((take(), take()), (Some(Over::Time), None));
        assert!(spend(1), "a caller that goes on is stopped again");
        end(before);
    }

    #[test]
    fn the_moment_waits_for_the_processor_time() {
        let before = begin(Some(Instant::now()), Some(Duration::MAX), u64::MAX);
        assert!((0..=STEPS_MASK).all(|_| !is_over()));
        end(before);
    }
}
