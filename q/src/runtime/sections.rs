//! Work over many rows in sections. Section bounds do not depend on the number of threads, so neither do the results.

use crate::runtime::error::QError;
use crate::runtime::limits::Allowance;
use crate::runtime::threads;
use std::ops::Range;
use std::sync::{Mutex, PoisonError};

/// The limits' section size, else `usual`.
fn size_of_section(allowance: &Allowance, usual: usize) -> usize {
    allowance.limits().section_rows.unwrap_or(usual).max(1)
}

/// Returns the results of `work` for each section of the rows, in order.
///
/// # Errors
/// The first error of `work`, and those of the allowance.
pub(crate) fn map<R: Send>(
    allowance: &Allowance,
    rows: usize,
    section_rows: usize,
    work: impl Fn(Range<usize>) -> Result<R, QError> + Sync,
) -> Result<Vec<R>, QError> {
    let size = size_of_section(allowance, section_rows);
    threads::run(
        allowance,
        rows.div_ceil(size),
        |own| own,
        |own, part| {
            own.check()?;
            work(part * size..((part + 1) * size).min(rows))
        },
    )
}

/// Returns the states of all sections, merged in order; without rows, the state of an empty section.
///
/// # Errors
/// As [`map`].
pub(crate) fn merged<S: Send>(
    allowance: &Allowance,
    rows: usize,
    section_rows: usize,
    section: impl Fn(Range<usize>) -> Result<S, QError> + Sync,
    merge: impl Fn(&mut S, S),
) -> Result<S, QError> {
    let size = size_of_section(allowance, section_rows);
    if allowance.threads() < 2 || rows <= size {
        // Sequentially, only two states are in memory at a time.
        let mut all = section(0..size.min(rows))?;
        for start in (size..rows).step_by(size) {
            allowance.check()?;
            merge(&mut all, section(start..start.saturating_add(size).min(rows))?);
        }
        return Ok(all);
    }
    let mut states = map(allowance, rows, size, &section)?.into_iter();
    let mut all = states.next().map_or_else(|| section(0..0), Ok)?;
    states.for_each(|later| merge(&mut all, later));
    Ok(all)
}

/// Fills `out` section by section; `work` receives the position of the section's first item.
///
/// # Errors
/// As [`map`].
pub(crate) fn fill<T: Send>(
    allowance: &Allowance,
    out: &mut [T],
    section_rows: usize,
    work: impl Fn(usize, &mut [T]) -> Result<(), QError> + Sync,
) -> Result<(), QError> {
    let (rows, size) = (out.len(), size_of_section(allowance, section_rows));
    // One thread works on each section, so these locks are never contended.
    let parts: Vec<Mutex<&mut [T]>> = out.chunks_mut(size).map(Mutex::new).collect();
    map(allowance, rows, size, |range| match parts.get(range.start / size) {
        Some(part) => work(range.start, &mut part.lock().unwrap_or_else(PoisonError::into_inner)),
        None => Ok(()),
    })?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Limits;

    fn allowance(threads: usize) -> Allowance {
        Allowance::new(&Limits::default(), threads)
    }

    #[test]
    fn every_item_is_filled_once() {
        for (threads, items, length) in [(1, 10, 3), (2, 1000, 7), (3, 1, 4), (2, 0, 4), (2, 5, 0)] {
            let mut out = vec![0usize; items];
            let work = |start: usize, run: &mut [usize]| {
                run.iter_mut().zip(start..).for_each(|(o, i)| *o += i + 1);
                Ok(())
            };
            fill(&allowance(threads), &mut out, length, work).expect("no limit");
            assert_eq!(out, (1..=items).collect::<Vec<_>>());
        }
    }

    #[test]
    fn sections_are_merged_in_order_on_any_number_of_threads() {
        for (threads, rows, size) in [(1, 100, 7), (2, 100, 7), (5, 100, 100), (2, 0, 10), (2, 3, 0)] {
            let section = |range: Range<usize>| Ok(range.collect::<Vec<usize>>());
            let all = merged(&allowance(threads), rows, size, section, |all, later| all.extend(later));
            assert_eq!(all, Ok((0..rows).collect()), "{threads} threads, {rows} rows by {size}");
        }
    }

    #[test]
    fn the_deadline_ends_the_work() {
        let limits = Limits { deadline: Some(std::time::Instant::now()), ..Limits::default() };
        for threads in [1, 2] {
            let allowance = Allowance::new(&limits, threads);
            let stopped = map(&allowance, 3, 1, |range| Ok(range.start));
            assert_eq!(stopped.map_err(|error| error.name.to_vec()), Err(b"stop".to_vec()));
        }
    }
}
