//! Moving sums, extremes and deviations over the last `n` items.

use super::blocks;
use super::num::Num;
use crate::sys::budget::{self, BLOCK};
use std::collections::VecDeque;

/// Returns for each item the best of the last `n` items (`n` is at least 1); among equal ones, the latest. The call
/// `better(new, old)` returns true if the new item can replace the old one.
pub fn extreme<T: Copy + Default>(n: usize, items: &[T], better: impl Fn(T, T) -> bool) -> Vec<T> {
    // Candidates with their indices, best first.
    let mut queue: VecDeque<(usize, T)> = VecDeque::new();
    let mut i = 0usize;
    blocks::map(items, |item| {
        while queue.back().is_some_and(|(_, old)| better(*item, *old)) {
            queue.pop_back();
        }
        queue.push_back((i, *item));
        while queue.front().is_some_and(|(at, _)| at.saturating_add(n) <= i) {
            queue.pop_front();
        }
        i += 1;
        queue.front().map_or(*item, |(_, best)| *best)
    })
}

/// Moving sums over the last `n` integers. A null counts as 0; overflow wraps, as in all sums.
pub fn integer_sums(n: usize, items: &[i64]) -> Vec<i64> {
    let zero = |i: &i64| if i.is_null() { 0 } else { *i };
    let mut sum = 0i64;
    let (mut ahead, mut behind) = (n, items.iter());
    blocks::map(items, |new| {
        sum = sum.wrapping_add(zero(new));
        match ahead.checked_sub(1) {
            Some(left) => ahead = left,
            None => sum = sum.wrapping_sub(behind.next().map_or(0, zero)),
        }
        sum
    })
}

/// Returns for each item `result(sum, count)` of the non-null items among the last `n`. The sum is the difference of two running sums, so that
/// a window of nulls or zeros sums to exactly 0: one running sum that items leave again would keep their rounding errors.
pub fn sums(n: usize, v: &[f64], result: impl Fn(f64, f64) -> f64) -> Vec<f64> {
    let (mut sum, mut left, mut count) = (0.0, 0.0, 0.0);
    let mut step = |new: f64, old: f64| {
        if !new.is_nan() {
            sum += new;
            count += 1.0;
        }
        if !old.is_nan() {
            left += old;
            count -= 1.0;
        }
        result(sum - left, count)
    };
    let (head, tail) = v.split_at(n.min(v.len()));
    let mut out = Vec::with_capacity(v.len());
    for block in head.chunks(BLOCK) {
        if budget::spend(block.len()) {
            return vec![0.0; v.len()];
        }
        out.extend(block.iter().map(|new| step(*new, f64::NAN)));
    }
    for (block, behind) in tail.chunks(BLOCK).zip(v.chunks(BLOCK)) {
        if budget::spend(block.len()) {
            return vec![0.0; v.len()];
        }
        out.extend(block.iter().zip(behind).map(|(new, old)| step(*new, *old)));
    }
    out
}

/// Moving standard deviations of the non-null items among the last `n`.
pub fn deviations(n: usize, v: &[f64]) -> Vec<f64> {
    let mut end = 0usize;
    blocks::map(v, |_| {
        end += 1;
        let window = v.get(end.saturating_sub(n)..end).unwrap_or_default();
        let known = |f: &f64| !f.is_nan();
        let count = blocks::fold(window, 0.0, |count, f| if known(f) { count + 1.0 } else { count });
        let mean = blocks::fold(window, 0.0, |sum, f| if known(f) { sum + f } else { sum }) / count;
        let square = |sum: f64, f: &f64| if known(f) { sum + (f - mean) * (f - mean) } else { sum };
        (blocks::fold(window, 0.0, square) / count).sqrt()
    })
}
