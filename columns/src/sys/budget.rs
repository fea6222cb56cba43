//! Bounds for work that cannot answer with an error: it asks whether to go on, and whoever began it learns that it did not.

use super::{allocated, clock, stack};
use std::cell::Cell;
use std::time::{Duration, Instant};

/// Why work was given up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Over {
    Time,
    Memory,
    Depth,
}

/// The bounds of a thread, and whether something was given up under them.
#[derive(Clone, Copy, Debug)]
pub struct Budget {
    deadline: Option<Instant>,
    /// The deadline counts only once [`clock::thread_processor_time`] is this.
    processor_time: Option<Duration>,
    /// Of [`allocated::thread_bytes`].
    most_bytes: i64,
    steps: u32,
    over: Option<Over>,
}

const UNBOUNDED: Budget = Budget { deadline: None, processor_time: None, most_bytes: i64::MAX, steps: 0, over: None };

thread_local! {
    static BUDGET: Cell<Budget> = const { Cell::new(UNBOUNDED) };
}

/// Steps between two looks at the clock.
const STEPS_MASK: u32 = 0x3f;

/// Sets the bounds of this thread: a moment, the processor time before which that does not count, and bytes more than it holds
/// now. The ones before are to be put back.
pub fn begin(deadline: Option<Instant>, processor_time: Option<Duration>, bytes: u64) -> Budget {
    let most_bytes = allocated::thread_bytes().saturating_add(i64::try_from(bytes).unwrap_or(i64::MAX));
    BUDGET.replace(Budget { deadline, processor_time, most_bytes, ..UNBOUNDED })
}

/// Puts back what [`begin`] has answered.
pub fn end(before: Budget) {
    BUDGET.set(before);
}

/// Whether work that may be long, large or deep had better be given up. Asked for every part of it.
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

/// Why something was given up since the last call of this function, if anything was.
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
    fn what_is_given_up_is_told_once() {
        let before = begin(None, None, 1 << 20);
        assert!(!is_over());
        let block = vec![1u8; 2 << 20];
        assert!(is_over());
        drop(block);
        assert!(is_over(), "nothing goes on until it is told");
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
