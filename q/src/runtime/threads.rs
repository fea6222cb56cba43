//! Work on several threads within one evaluation, for `peach` and for aggregates over many rows.
//!
//! Threads are started for one piece of work and end with it. The calling thread works too, so work proceeds even if no
//! helper can be started. Helpers have no helpers of their own, and all helpers of a process together are limited to what
//! one evaluation may use.

use crate::runtime::error::QError;
use crate::runtime::limits::{self, Allowance, Limits, Member, Own, Team, Watch};
use crate::runtime::{seeds, settings};
use columns::sys::{allocated, stack};
use std::panic::resume_unwind;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicUsize, Ordering};

/// Helper threads running in this process.
static HELPERS: AtomicUsize = AtomicUsize::new(0);

/// Average number of batches of parts per thread: more batches balance uneven work better, fewer cost less.
const BATCHES: usize = 16;

/// Number of granted helper threads; released on drop.
struct Granted(usize);

impl Granted {
    /// Grants up to `wanted` helpers, but no more than `most` in the process.
    fn ask(wanted: usize, most: usize) -> Granted {
        let mut granted = 0;
        // The closure always returns `Some`, so this cannot fail.
        let _ = HELPERS.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |at_work| {
            granted = wanted.min(most.saturating_sub(at_work));
            Some(at_work.saturating_add(granted))
        });
        Granted(granted)
    }
}

impl Drop for Granted {
    fn drop(&mut self) {
        HELPERS.fetch_sub(self.0, Ordering::Relaxed);
    }
}

/// Thread-local state that a helper inherits from the thread that starts it.
#[derive(Clone, Copy)]
struct Inherited {
    shown_in: Option<&'static AtomicI64>,
    stack_bytes: usize,
    settings: settings::Settings,
    seed: i64,
}

/// Returns the results of `work` for the parts `0..parts`, in order, computed on as many threads as `allowance` permits.
///
/// Each thread calls `start` once, with an allowance of its own that counts towards the same limits, and passes its result
/// to `work`. Parts start in ascending order.
///
/// # Errors
/// The error of the first part that fails, as on one thread; later parts are abandoned.
pub(crate) fn run<T: Send, W>(
    allowance: &Allowance,
    parts: usize,
    start: impl Fn(Allowance) -> W + Sync,
    work: impl Fn(&mut W, usize) -> Result<T, QError> + Sync,
) -> Result<Vec<T>, QError> {
    let threads = allowance.threads().min(parts);
    let granted = Granted::ask(threads.saturating_sub(1), allowance.threads());
    if granted.0 == 0 {
        let mut own = start(allowance.again());
        return (0..parts).map(|part| work(&mut own, part)).collect();
    }
    let job = Job {
        team: Arc::new(Team::new(allowance.held_bytes())),
        limits: allowance.limits(),
        next: AtomicUsize::new(0),
        batch: (parts / (threads * BATCHES)).max(1),
        parts,
        start,
        work,
    };
    let inherited = Inherited {
        shown_in: allocated::shown_sum(),
        stack_bytes: stack::limit_bytes(),
        settings: settings::settings(),
        seed: seeds::helper_seed(),
    };
    let mut done = std::thread::scope(|scope| {
        let mut helpers = Vec::with_capacity(granted.0);
        for number in 0..granted.0 {
            let job = &job;
            let builder = stack::thread_that_allows(format!("helper {number}"), inherited.stack_bytes);
            let body = move || inherited.enter(number, || job.take_part());
            // If a thread cannot be started, the others do its work.
            helpers.extend(builder.spawn_scoped(scope, body));
        }
        let mut done = vec![job.take_part()];
        for helper in helpers {
            let (one, bytes) = helper.join().unwrap_or_else(|panic| resume_unwind(panic));
            // The calling thread now owns the helper's results, so their bytes count as its own.
            allocated::take_over(bytes);
            done.push(one);
        }
        done
    });
    let error = done.iter_mut().filter_map(|one| one.failed.take()).min_by_key(|(part, _)| *part);
    if let Some((_, error)) = error {
        return Err(error);
    }
    let mut batches: Vec<(usize, Vec<T>)> = done.into_iter().flat_map(|one| one.batches).collect();
    batches.sort_by_key(|(first, _)| *first);
    Ok(batches.into_iter().flat_map(|(_, results)| results).collect())
}

impl Inherited {
    /// Runs a helper's part. Returns the result and the bytes that the thread holds because of it.
    fn enter<R>(self, number: usize, body: impl FnOnce() -> R) -> (R, i64) {
        let before = allocated::thread_bytes();
        stack::allow(self.stack_bytes);
        settings::adopt(self.settings);
        seeds::seed(self.seed.wrapping_add(i64::try_from(number).unwrap_or(0)));
        let result = match self.shown_in {
            Some(sum) => allocated::shown_in(sum, body),
            None => body(),
        };
        (result, allocated::thread_bytes().saturating_sub(before))
    }
}

struct Job<'a, S, F> {
    team: Arc<Team>,
    limits: &'a Limits,
    next: AtomicUsize,
    batch: usize,
    parts: usize,
    start: S,
    work: F,
}

/// Work of one thread: results in batches, keyed by their first part, and the part at which it failed.
struct Share<T> {
    batches: Vec<(usize, Vec<T>)>,
    failed: Option<(usize, QError)>,
}

impl<S, F> Job<'_, S, F> {
    fn take_part<T, W>(&self) -> Share<T>
    where
        S: Fn(Allowance) -> W,
        F: Fn(&mut W, usize) -> Result<T, QError>,
    {
        let own = Rc::new(Own::default());
        let member = Member { team: Arc::clone(&self.team), own: Rc::clone(&own) };
        let allowance = Allowance::of_member(self.limits, member);
        let _watch = Watch::open(&allowance);
        let mut worker = (self.start)(allowance);
        let mut share = Share { batches: Vec::new(), failed: None };
        loop {
            let first = self.next.fetch_add(self.batch, Ordering::Relaxed);
            if first >= self.parts || self.team.is_void(first) {
                return share;
            }
            let mut results = Vec::new();
            for part in first..first.saturating_add(self.batch).min(self.parts) {
                own.part.set(part);
                // A limit that code without an error path has noticed makes the result worthless.
                match (self.work)(&mut worker, part).and_then(|result| limits::settle().map(|()| result)) {
                    Ok(result) => results.push(result),
                    Err(error) => {
                        self.team.fail(part);
                        share.failed = Some((part, error));
                        return share;
                    }
                }
            }
            share.batches.push((first, results));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Barrier;
    use std::time::{Duration, Instant};

    fn allowance(threads: usize) -> Allowance {
        Allowance::new(&Limits::default(), threads)
    }

    #[test]
    fn results_keep_their_order() {
        let squares = run(&allowance(4), 1000, |_| (), |(), part| Ok(part * part)).expect("no error");
        assert_eq!(squares, (0..1000).map(|i| i * i).collect::<Vec<_>>());
    }

    #[test]
    fn two_parts_are_worked_on_at_once() {
        // Each part waits for the other: on one thread this would never end.
        let both = Barrier::new(2);
        let met = run(&allowance(64), 2, |_| (), |(), _| Ok(both.wait().is_leader())).expect("no error");
        assert_eq!(met.iter().filter(|leader| **leader).count(), 1);
    }

    #[test]
    fn the_error_is_that_of_the_first_part_and_later_ones_are_given_up() {
        let result = run(
            &allowance(64),
            2,
            |allowance| allowance,
            |allowance, part| match part {
                0 => Err(QError::named("first")),
                // Never ends by itself.
                _ => loop {
                    allowance.check()?;
                    std::thread::yield_now();
                },
            },
        );
        assert_eq!(result.map(|_: Vec<()>| ()), Err(QError::named("first")));
    }

    #[test]
    fn memory_of_helper_threads_is_summed() {
        let limits = Limits { memory_bytes: 10 << 20, ..Limits::default() };
        let both = Barrier::new(2);
        let hold = |allowance: &mut Allowance, bytes: usize| {
            // Without `black_box` an optimised build leaves this allocation out.
            let block = std::hint::black_box(vec![1u8; bytes]);
            // Reports this block to the team.
            allowance.reserve(0).ok();
            both.wait();
            let result = allowance.check();
            both.wait();
            result.map(|()| block.len())
        };
        let small = run(&Allowance::new(&limits, 64), 2, |own| own, |own, _| hold(own, 4 << 20));
        assert_eq!(small, Ok(vec![4 << 20; 2]));
        let large = run(&Allowance::new(&limits, 64), 2, |own| own, |own, _| hold(own, 8 << 20));
        assert_eq!(large.map_err(|error| error.name.to_vec()), Err(b"wsfull".to_vec()));
    }

    #[test]
    fn results_of_helper_threads_count_for_the_calling_thread() {
        let before = allocated::thread_bytes();
        let both = Barrier::new(2);
        let blocks = run(
            &allowance(64),
            2,
            |_| (),
            |(), _| {
                both.wait();
                Ok(vec![1u8; 1 << 20])
            },
        )
        .expect("no error");
        assert!(allocated::thread_bytes() - before >= 2 << 20);
        drop(blocks);
        assert!(allocated::thread_bytes() - before < 1 << 16);
    }

    #[test]
    fn a_helper_has_no_helpers() {
        let threads = run(&allowance(64), 2, |own| own.threads(), |threads, _| Ok(*threads));
        assert_eq!(threads, Ok(vec![1, 1]));
    }

    #[test]
    fn the_deadline_ends_all() {
        let limits = Limits {
            deadline: Some(Instant::now() + Duration::from_millis(5)),
            memory_bytes: 1 << 20,
            ..Limits::default()
        };
        let endless = |own: &mut Allowance, _| -> Result<(), QError> {
            loop {
                own.check()?;
            }
        };
        let result = run(&Allowance::new(&limits, 4), 8, |own| own, endless);
        assert_eq!(result.map_err(|error| error.name.to_vec()), Err(b"stop".to_vec()));
    }
}
