//! Stable merge sort for a comparison that may fail or be inconsistent: it always terminates and never panics.

use super::blocks;
use crate::sys::budget;
use std::cmp::Ordering;

/// Length of runs sorted by insertion.
const RUN: usize = 8;

/// Sorts by `order`; equal items keep their order. Needs memory for as many items again. If `order` is inconsistent,
/// the result is some permutation of the items.
///
/// # Errors
/// The first error of `order`; `items` is then some permutation of the input.
pub fn sort<T: Copy, E>(items: &mut [T], mut order: impl FnMut(T, T) -> Result<Ordering, E>) -> Result<(), E> {
    for run in items.chunks_mut(RUN) {
        for end in 1..run.len() {
            let mut at = end;
            while let Some([before, this]) = at.checked_sub(1).and_then(|from| run.get_mut(from..=at)) {
                if order(*before, *this)? != Ordering::Greater {
                    break;
                }
                std::mem::swap(before, this);
                at -= 1;
            }
        }
    }
    let mut width = RUN;
    while width < items.len() {
        for pair in items.chunks_mut(width.saturating_mul(2)) {
            if pair.len() > width {
                merge(pair, width, &mut order)?;
            }
        }
        width = width.saturating_mul(2);
    }
    Ok(())
}

/// Merges two ascending runs into one; the second begins at `middle`.
fn merge<T: Copy, E>(
    pair: &mut [T],
    middle: usize,
    order: &mut impl FnMut(T, T) -> Result<Ordering, E>,
) -> Result<(), E> {
    let (left, right) = pair.split_at(middle);
    let left = left.to_vec();
    if let (Some(last), Some(first)) = (left.last(), right.first())
        && order(*last, *first)? != Ordering::Greater
    {
        return Ok(());
    }
    let (mut left, mut from, mut ended) = (left.into_iter().peekable(), middle, None);
    for at in 0..pair.len() {
        // Once the left run is used up, the rest of the right run is already in place.
        let Some(first) = left.peek().copied() else { break };
        let next = match pair.get(from).copied().filter(|_| ended.is_none()).map(|b| (b, order(first, b))) {
            Some((second, Ok(Ordering::Greater))) => {
                from += 1;
                second
            }
            other => {
                if let Some((_, Err(error))) = other {
                    ended = Some(error);
                }
                left.next();
                first
            }
        };
        if let Some(slot) = pair.get_mut(at) {
            *slot = next;
        }
    }
    ended.map_or(Ok(()), Err)
}

/// The standard stable sort, which looks at the limits only before it begins: counting its comparisons would take as long again.
pub fn standard<T>(items: &mut [T], order: impl Fn(&T, &T) -> Ordering) {
    let is_sorted = blocks::is_sorted(items, |a, b| order(a, b) != Ordering::Greater);
    if !is_sorted && !budget::is_over() {
        items.sort_by(order);
    }
}

#[cfg(test)]
mod tests {
    use super::{sort, standard};
    use proptest::prelude::*;
    use std::cmp::Ordering;
    use std::convert::Infallible;

    #[test]
    fn the_standard_sort_is_stable_and_complete() {
        let mut random = fastrand::Rng::with_seed(7);
        for count in [0, 1, 2, 4095, 4096, 4097, 20_000, 200_001] {
            for most in [2u32, 1000, u32::MAX] {
                let keys: Vec<u32> = (0..count).map(|_| random.u32(0..most)).collect();
                let mut rows: Vec<u32> = (0..count as u32).collect();
                let mut wanted = rows.clone();
                wanted.sort_by_key(|row| keys[*row as usize]);
                standard(&mut rows, |a, b| keys[*a as usize].cmp(&keys[*b as usize]));
                assert_eq!(rows, wanted, "{count} items below {most}");
            }
        }
    }

    proptest! {
        #[test]
        fn items_end_up_as_the_standard_sort_puts_them(keys in prop::collection::vec(0u8..20, 0..200)) {
            let mut rows: Vec<usize> = (0..keys.len()).collect();
            let mut wanted = rows.clone();
            wanted.sort_by_key(|row| keys[*row]);
            let sorted = sort(&mut rows, |a, b| Ok::<_, Infallible>(keys[a].cmp(&keys[b])));
            prop_assert_eq!((sorted, rows), (Ok(()), wanted));
        }

        #[test]
        fn a_comparison_that_contradicts_itself_loses_nothing(count in 0usize..200, seed in any::<u64>()) {
            let mut random = fastrand::Rng::with_seed(seed);
            let mut rows: Vec<usize> = (0..count).collect();
            let any = |_, _| {
                let orders = [Ordering::Less, Ordering::Equal, Ordering::Greater];
                Ok::<_, Infallible>(orders[random.usize(0..3)])
            };
            let sorted = sort(&mut rows, any);
            prop_assert_eq!(sorted, Ok(()));
            rows.sort_unstable();
            prop_assert_eq!(rows, (0..count).collect::<Vec<_>>());
        }

        #[test]
        fn an_error_ends_it_with_all_items(count in 9usize..200, calls in 0usize..100) {
            let mut rows: Vec<usize> = (0..count).rev().collect();
            let mut left = calls;
            let result = sort(&mut rows, |a, b| {
                left = left.checked_sub(1).ok_or("over")?;
                Ok::<_, &str>(a.cmp(&b))
            });
            prop_assert!(result.is_ok() || left == 0);
            rows.sort_unstable();
            prop_assert_eq!(rows, (0..count).collect::<Vec<_>>());
        }
    }
}
