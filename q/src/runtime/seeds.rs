//! Random number generator of a thread, and its seeds.

use std::cell::{Cell, RefCell};

/// Seed of a new process, as `\S` shows it.
pub const DEFAULT_SEED: i64 = -314_159;

thread_local! {
    static GENERATOR: RefCell<fastrand::Rng> =
        const { RefCell::new(fastrand::Rng::with_seed(DEFAULT_SEED as u64)) };
    /// Source of the seeds of helper threads. Separate, so that the number of helpers does not change this thread's
    /// numbers.
    static SEEDS: RefCell<fastrand::Rng> = const { RefCell::new(fastrand::Rng::with_seed(!(DEFAULT_SEED as u64))) };
    static LAST_SEED: Cell<i64> = const { Cell::new(DEFAULT_SEED) };
}

/// `\S n`.
pub(crate) fn seed(seed: i64) {
    GENERATOR.with(|g| g.borrow_mut().seed(seed as u64));
    SEEDS.with(|g| g.borrow_mut().seed(!(seed as u64)));
    LAST_SEED.set(seed);
}

/// `\S`: the seed set last.
pub(crate) fn last_seed() -> i32 {
    i32::try_from(LAST_SEED.get()).unwrap_or(i32::MAX)
}

/// `\S 0N`: a seed that continues from the generator's present state.
pub(crate) fn next_seed() -> i64 {
    GENERATOR.with(|g| {
        let mut rng = g.borrow_mut();
        let seed = rng.i64(i64::MIN + 1..);
        rng.seed(seed as u64);
        seed
    })
}

/// A seed for helper threads.
pub(crate) fn helper_seed() -> i64 {
    SEEDS.with(|g| g.borrow_mut().i64(..))
}

/// Draws from this thread's generator.
pub(crate) fn draw<T>(with: impl FnOnce(&mut fastrand::Rng) -> T) -> T {
    GENERATOR.with(|g| with(&mut g.borrow_mut()))
}
