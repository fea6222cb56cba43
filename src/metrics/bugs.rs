//! Assertions for states that cannot occur. A violation is a bug of elastick: it ends a test, a simulated day or a fuzzing run at once; a
//! release build logs it, counts it, and continues on a safe path.

use super::counts::count;
use super::table::Id;
use std::sync::atomic::{AtomicBool, Ordering};

/// Whether a violation panics in a release build as well.
static IS_FATAL: AtomicBool = AtomicBool::new(false);

/// From here on a violation panics, also in a release build. Called by simulator, model checker and fuzzer.
pub fn make_fatal() {
    IS_FATAL.store(true, Ordering::Relaxed);
}

/// Implementation of [`crate::bug!`].
///
/// # Panics
/// In builds with debug assertions, and after [`make_fatal`].
#[cold]
pub fn report(file: &str, line: u32, what: &std::fmt::Arguments<'_>) {
    let is_fatal = cfg!(debug_assertions) || IS_FATAL.load(Ordering::Relaxed);
    assert!(!is_fatal, "bug at {file}:{line}: {what}");
    count(Id::Bugs);
    tracing::error!(file, line, "bug: {what}. Please report it to the developers of elastick");
}

/// Reports a state that cannot occur. The code after it must continue safely.
#[macro_export]
macro_rules! bug {
    ($($what:tt)+) => {
        $crate::metrics::bugs::report(file!(), line!(), &format_args!($($what)+))
    };
}

/// Subtracts from a count; a negative result is a bug and becomes 0.
#[macro_export]
macro_rules! less {
    ($count:expr, $by:expr) => {
        $count.checked_sub($by).unwrap_or_else(|| {
            $crate::bug!("{} is less than the amount subtracted from it", stringify!($count));
            0
        })
    };
}

#[cfg(test)]
mod tests {
    #[test]
    #[should_panic(expected = "bug at")]
    fn a_bug_ends_a_test() {
        crate::bug!("two and two are {}", 5);
    }

    #[test]
    #[should_panic(expected = "open is less than the amount subtracted from it")]
    fn a_count_below_nothing_is_a_bug() {
        let open = 1_usize;
        assert_eq!(less!(open, 2), 0);
    }

    #[test]
    fn a_count_that_is_large_enough_is_subtracted_from() {
        let open = 3_usize;
        assert_eq!(less!(open, 2), 1);
    }
}
