//! Moving sums, extremes and deviations over the last `n` items.

use super::num::Num;
use std::collections::VecDeque;

/// Returns for each item the best of the last `n` items (`n` is at least 1); among equal ones, the latest. The call
/// `better(new, old)` returns true if the new item can replace the old one.
pub fn extreme<T: Copy>(n: usize, items: &[T], better: impl Fn(T, T) -> bool) -> Vec<T> {
    let mut out = Vec::with_capacity(items.len());
    // Candidates with their indices, best first.
    let mut queue: VecDeque<(usize, T)> = VecDeque::new();
    for (i, item) in items.iter().enumerate() {
        while queue.back().is_some_and(|(_, old)| better(*item, *old)) {
            queue.pop_back();
        }
        queue.push_back((i, *item));
        while queue.front().is_some_and(|(at, _)| at.saturating_add(n) <= i) {
            queue.pop_front();
        }
        out.push(queue.front().map_or(*item, |(_, best)| *best));
    }
    out
}

/// Moving sums over the last `n` integers. A null counts as 0; overflow wraps, as in all sums.
pub fn integer_sums(n: usize, items: impl ExactSizeIterator<Item = i64> + Clone) -> Vec<i64> {
    let zero = |i: i64| if i.is_null() { 0 } else { i };
    let mut out = Vec::with_capacity(items.len());
    let mut sum = 0i64;
    let mut behind = items.clone();
    for (i, new) in items.enumerate() {
        sum = sum.wrapping_add(zero(new));
        if i >= n {
            sum = sum.wrapping_sub(behind.next().map_or(0, zero));
        }
        out.push(sum);
    }
    out
}

/// Returns for each item `result(sum, count)` of the non-null items among the last `n`.
pub fn sums(n: usize, v: &[f64], result: impl Fn(f64, f64) -> f64) -> Vec<f64> {
    let (mut sum, mut count) = (0.0, 0.0);
    let mut step = |new: f64, old: f64| {
        if !new.is_nan() {
            sum += new;
            count += 1.0;
        }
        if !old.is_nan() {
            sum -= old;
            count -= 1.0;
        }
        result(sum, count)
    };
    let (head, tail) = v.split_at(n.min(v.len()));
    let mut out = Vec::with_capacity(v.len());
    out.extend(head.iter().map(|new| step(*new, f64::NAN)));
    out.extend(tail.iter().zip(v).map(|(new, old)| step(*new, *old)));
    out
}

/// Moving standard deviations of the non-null items among the last `n`. Calls `pause` before each window, with its number of items.
///
/// # Errors
/// Those of `pause`.
pub fn deviations<E>(n: usize, v: &[f64], mut pause: impl FnMut(usize) -> Result<(), E>) -> Result<Vec<f64>, E> {
    let mut out = Vec::with_capacity(v.len());
    for end in 1..=v.len() {
        let window = v.get(end.saturating_sub(n)..end).unwrap_or_default();
        pause(window.len())?;
        let known = || window.iter().filter(|f| !f.is_nan());
        let count = known().count() as f64;
        let mean = known().sum::<f64>() / count;
        out.push((known().map(|f| (f - mean) * (f - mean)).sum::<f64>() / count).sqrt());
    }
    Ok(out)
}
