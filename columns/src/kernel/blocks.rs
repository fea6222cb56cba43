//! Loops over long slices in blocks, so that each notices the limits of its thread ([`budget::spend`]). Past a limit a loop
//! stops and returns defaults of the right number; the caller that reads [`budget::take`] discards them.

use crate::sys::budget::{self, BLOCK};
use std::ops::Range;

/// Maps each item.
pub fn map<A, R: Default + Clone, C: From<Vec<R>>>(items: &[A], mut f: impl FnMut(&A) -> R) -> C {
    let mut out = Vec::with_capacity(items.len());
    for block in items.chunks(BLOCK) {
        if budget::spend(block.len()) {
            return defaults(items.len());
        }
        out.extend(block.iter().map(&mut f));
    }
    out.into()
}

/// Maps each pair of items; extra items of the longer slice are ignored.
pub fn both<A, B, R: Default + Clone, C: From<Vec<R>>>(x: &[A], y: &[B], mut f: impl FnMut(&A, &B) -> R) -> C {
    let count = x.len().min(y.len());
    let mut out = Vec::with_capacity(count);
    for (x, y) in x.chunks(BLOCK).zip(y.chunks(BLOCK)) {
        if budget::spend(x.len()) {
            return defaults(count);
        }
        out.extend(x.iter().zip(y).map(|(x, y)| f(x, y)));
    }
    out.into()
}

/// Maps the numbers of a range.
pub fn numbers<R: Default + Clone, C: From<Vec<R>>>(range: Range<usize>, mut f: impl FnMut(usize) -> R) -> C {
    let mut out = Vec::with_capacity(range.len());
    for block in ranges(range.clone()) {
        if budget::spend(block.len()) {
            return defaults(range.len());
        }
        out.extend(block.map(&mut f));
    }
    out.into()
}

/// Keeps what `f` returns of the numbers of a range.
pub fn kept<R>(range: Range<usize>, mut f: impl FnMut(usize) -> Option<R>) -> Vec<R> {
    let mut out = Vec::new();
    for block in ranges(range) {
        if budget::spend(block.len()) {
            break;
        }
        out.extend(block.filter_map(&mut f));
    }
    out
}

/// Folds the items from the first to the last.
pub fn fold<A, S>(items: &[A], start: S, mut f: impl FnMut(S, &A) -> S) -> S {
    let mut state = start;
    for block in items.chunks(BLOCK) {
        if budget::spend(block.len()) {
            break;
        }
        state = block.iter().fold(state, &mut f);
    }
    state
}

/// Whether a property holds for all pairs of items; false once the evaluation's budget is spent.
pub fn all<A, B>(x: &[A], y: &[B], f: impl Fn(&A, &B) -> bool) -> bool {
    let mut blocks = x.chunks(BLOCK).zip(y.chunks(BLOCK));
    blocks.all(|(x, y)| !budget::spend(x.len()) && x.iter().zip(y).all(|(x, y)| f(x, y)))
}

/// Whether two slices of plain items are equal; false once the evaluation's budget is spent.
pub fn equal<T: PartialEq>(x: &[T], y: &[T]) -> bool {
    let mut blocks = x.chunks(BLOCK).zip(y.chunks(BLOCK));
    x.len() == y.len() && blocks.all(|(x, y)| !budget::spend(x.len()) && x == y)
}

/// Whether each item and its successor are in order; false once the evaluation's budget is spent.
pub fn is_sorted<A>(items: &[A], in_order: impl Fn(&A, &A) -> bool) -> bool {
    // Each block begins with the last item of the one before.
    ranges(0..items.len()).all(|block| {
        let (from, to) = (block.start.saturating_sub(1), block.end);
        !budget::spend(block.len()) && items.get(from..to).unwrap_or_default().is_sorted_by(&in_order)
    })
}

fn ranges(range: Range<usize>) -> impl Iterator<Item = Range<usize>> {
    range.clone().step_by(BLOCK).map(move |start| start..start.saturating_add(BLOCK).min(range.end))
}

/// Takes no time for numbers: the system's pages are zero.
#[cold]
fn defaults<R: Default + Clone, C: From<Vec<R>>>(count: usize) -> C {
    vec![R::default(); count].into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys::budget::{Over, begin, end, meter, reset_meter, take};
    use std::time::Instant;

    /// Every loop, over this many items: whether its result is right.
    fn loops(count: usize) -> [bool; 7] {
        let items: Vec<i64> = (0..count as i64).collect();
        let mapped: Vec<i64> = map(&items, |i| i + 1);
        let paired: Vec<i64> = both(&items, &mapped, |x, y| y - x);
        let numbered: Vec<i64> = numbers(0..count, |i| i as i64);
        let odd = kept(0..count, |i| (i % 2 == 1).then_some(i));
        [
            mapped.iter().zip(&items).all(|(m, i)| m - i == 1) && mapped.len() == count,
            paired == vec![1; count],
            numbered == items,
            odd.len() == count / 2,
            fold(&items, 0i64, |sum, i| sum + i) == items.iter().sum::<i64>(),
            all(&items, &mapped, |x, y| x < y) && equal(&items, &numbered),
            is_sorted(&items, |x, y| x <= y) && !is_sorted(&[items, vec![0, -1]].concat(), |x, y| x <= y),
        ]
    }

    #[test]
    fn a_loop_in_blocks_gives_what_a_plain_one_gives() {
        for count in [0, 1, 5, BLOCK - 1, BLOCK, BLOCK + 1, 3 * BLOCK + 7] {
            assert_eq!(loops(count), [true; 7], "{count} items");
        }
    }

    #[test]
    fn no_loop_passes_two_blocks_without_a_look() {
        let before = begin(None, None, u64::MAX >> 1);
        reset_meter();
        assert_eq!(loops(4 * BLOCK), [true; 7]);
        assert!(meter().items >= 8 * 4 * BLOCK as u64 && meter().longest < 2 * BLOCK, "{:?}", meter());
        end(before);
    }

    #[test]
    fn a_loop_past_a_limit_keeps_the_number_of_items() {
        let before = begin(Some(Instant::now()), None, u64::MAX >> 1);
        let items = vec![1i64; 3 * BLOCK];
        let mapped: Vec<i64> = map(&items, |i| i + 1);
        assert_eq!((mapped.len(), take()), (items.len(), Some(Over::Time)));
        assert!(!all(&items, &items, |x, y| x == y) && !equal(&items, &items));
        end(before);
    }
}
