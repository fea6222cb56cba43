//! Partial aggregates: state per group that is updated with rows, merged with the state of later rows, and finished at the end.
//!
//! The same algebra serves chunks of a table on several threads, nodes that hold parts of a day, and days of a
//! partitioned database: the holder of the rows updates, the requester merges.

use super::num::Num;

/// Rows of a section if there are few groups.
const SECTION_ROWS: usize = 1 << 18;

/// Returns the number of rows that one state takes before it is merged into the state of earlier rows. It depends only
/// on the number of groups, so that sums of floats are the same on any number of threads.
pub fn section_rows(groups: usize) -> usize {
    // A merge touches every group once: it must stay cheap beside the updates.
    groups.saturating_mul(8).max(SECTION_ROWS)
}

/// Group of each row.
#[derive(Clone, Copy, Debug)]
pub enum To<'a> {
    /// All rows are of this group.
    One(usize),
    /// Each row has its own group.
    Each(&'a [u32]),
}

/// State per group of an aggregate.
pub trait Partial: Sized + Send {
    /// Items or rows that an update reads.
    type Input<'a>: Copy + Send;
    /// One item per group.
    type Output;

    /// Adds rows to the state; skips rows whose group is out of range.
    fn update(&mut self, input: Self::Input<'_>, to: To<'_>);
    /// Merges the state of later rows.
    fn merge(&mut self, later: Self);
    fn finish(self) -> Self::Output;
}

/// Replaces the state of each item's group by `f` of state and item, in the order of the items.
#[inline(always)]
fn fold<S: Copy, X>(states: &mut [S], items: impl Iterator<Item = X>, to: To<'_>, f: impl Fn(S, X) -> S) {
    match to {
        To::One(group) => {
            if let Some(state) = states.get_mut(group) {
                *state = items.fold(*state, f);
            }
        }
        To::Each(groups) => {
            for (item, group) in items.zip(groups) {
                if let Some(state) = states.get_mut(*group as usize) {
                    *state = f(*state, item);
                }
            }
        }
    }
}

/// Rows per group.
pub struct Counts(Vec<i64>);

impl Counts {
    pub fn new(groups: usize) -> Counts {
        Counts(vec![0; groups])
    }
}

impl Partial for Counts {
    /// Number of rows.
    type Input<'a> = usize;
    type Output = Vec<i64>;

    fn update(&mut self, rows: usize, to: To<'_>) {
        match to {
            To::One(group) => self.0.iter_mut().skip(group).take(1).for_each(|count| *count += rows as i64),
            To::Each(_) => fold(&mut self.0, 0..rows, to, |count, _| count + 1),
        }
    }
    fn merge(&mut self, later: Counts) {
        self.0.iter_mut().zip(later.0).for_each(|(a, b)| *a += b);
    }
    fn finish(self) -> Vec<i64> {
        self.0
    }
}

/// Sums per group, ignoring nulls.
pub struct Sums<T>(Vec<T>);

impl<T: Num> Sums<T> {
    /// `zero` is the sum of no items.
    pub fn new(groups: usize, zero: T) -> Sums<T> {
        Sums(vec![zero; groups])
    }
}

impl<T: Num> Partial for Sums<T> {
    type Input<'a> = &'a [T];
    type Output = Vec<T>;

    fn update(&mut self, input: &[T], to: To<'_>) {
        fold(&mut self.0, input.iter(), to, |sum, x| if x.is_null() { sum } else { sum.added(*x) });
    }
    fn merge(&mut self, later: Sums<T>) {
        self.0.iter_mut().zip(later.0).for_each(|(a, b)| *a = a.added(b));
    }
    fn finish(self) -> Vec<T> {
        self.0
    }
}

/// Least or greatest item per group, ignoring nulls.
pub struct Extremes<T> {
    best: Vec<T>,
    greatest: bool,
}

impl<T: Num> Extremes<T> {
    /// As in q, the least of no items is infinity, and the greatest negative infinity.
    pub fn new(groups: usize, greatest: bool) -> Extremes<T> {
        Extremes { best: vec![if greatest { T::NEGATIVE_INFINITY } else { T::INFINITY }; groups], greatest }
    }

    /// Needs no check for null: an integer null is the least integer, and a comparison with NaN is false.
    #[inline(always)]
    fn greater(best: T, x: T) -> T {
        if x > best { x } else { best }
    }

    #[inline(always)]
    fn lesser(best: T, x: T) -> T {
        if x < best && !x.is_null() { x } else { best }
    }
}

/// Returns the best of `best` and the items. Eight independent accumulators avoid a dependency chain.
#[inline(always)]
fn extreme<T: Num>(best: T, items: &[T], better: impl Fn(T, T) -> T) -> T {
    let (chunks, rest) = items.as_chunks::<8>();
    let mut lanes = [best; 8];
    for chunk in chunks {
        for (lane, item) in lanes.iter_mut().zip(chunk) {
            *lane = better(*lane, *item);
        }
    }
    lanes.iter().chain(rest).fold(best, |best, item| better(best, *item))
}

impl<T: Num> Partial for Extremes<T> {
    type Input<'a> = &'a [T];
    type Output = Vec<T>;

    fn update(&mut self, input: &[T], to: To<'_>) {
        match (to, self.greatest) {
            (To::One(group), greatest) => {
                if let Some(best) = self.best.get_mut(group) {
                    *best = if greatest {
                        extreme(*best, input, Self::greater)
                    } else {
                        extreme(*best, input, Self::lesser)
                    };
                }
            }
            (_, true) => fold(&mut self.best, input.iter().copied(), to, Self::greater),
            (_, false) => fold(&mut self.best, input.iter().copied(), to, Self::lesser),
        }
    }
    fn merge(&mut self, later: Extremes<T>) {
        let better = if self.greatest { Self::greater } else { Self::lesser };
        self.best.iter_mut().zip(later.best).for_each(|(a, b)| *a = better(*a, b));
    }
    fn finish(self) -> Vec<T> {
        self.best
    }
}

/// First or last row per group; [`Ends::NONE`] for an empty group.
pub struct Ends {
    ends: Vec<u32>,
    last: bool,
}

impl Ends {
    pub const NONE: u32 = u32::MAX;

    /// Tracks the last row of each group if `last`, else the first.
    pub fn new(groups: usize, last: bool) -> Ends {
        Ends { ends: vec![Ends::NONE; groups], last }
    }
}

impl Partial for Ends {
    /// Number of the first row, and how many rows there are.
    type Input<'a> = (u32, usize);
    type Output = Vec<u32>;

    fn update(&mut self, (first, rows): (u32, usize), to: To<'_>) {
        let numbers = (0..rows as u32).map(|row| first.wrapping_add(row));
        if self.last {
            fold(&mut self.ends, numbers, to, |_, row| row);
        } else {
            fold(&mut self.ends, numbers, to, |end, row| if end == Ends::NONE { row } else { end });
        }
    }
    fn merge(&mut self, later: Ends) {
        for (own, later) in self.ends.iter_mut().zip(later.ends) {
            if later != Ends::NONE && (self.last || *own == Ends::NONE) {
                *own = later;
            }
        }
    }
    fn finish(self) -> Vec<u32> {
        self.ends
    }
}

/// Sum and count of the items per group, ignoring nulls.
pub struct Means(Vec<(f64, f64)>);

impl Means {
    pub fn new(groups: usize) -> Means {
        Means(vec![(0.0, 0.0); groups])
    }
}

impl Partial for Means {
    type Input<'a> = &'a [f64];
    /// Sums and counts.
    type Output = Vec<(f64, f64)>;

    fn update(&mut self, input: &[f64], to: To<'_>) {
        fold(
            &mut self.0,
            input.iter(),
            to,
            |(sum, count), x| {
                if x.is_null() { (sum, count) } else { (sum + x, count + 1.0) }
            },
        );
    }
    fn merge(&mut self, later: Means) {
        for (a, b) in self.0.iter_mut().zip(later.0) {
            a.0 += b.0;
            a.1 += b.1;
        }
    }
    fn finish(self) -> Vec<(f64, f64)> {
        self.0
    }
}

/// Count, sum, mean and sum of squared deviations; merges without loss of precision.
#[derive(Clone, Copy, Default)]
pub struct Moment {
    pub count: f64,
    pub sum: f64,
    mean: f64,
    squares: f64,
}

impl Moment {
    /// Mean; NaN for no items.
    pub fn average(&self) -> f64 {
        self.sum / self.count
    }

    /// Sample variance if `sample`, else population variance.
    pub fn variance(&self, sample: bool) -> f64 {
        let over = if sample { self.count - 1.0 } else { self.count };
        if over < 1.0 { f64::NAN } else { self.squares / over }
    }
}

/// [`Moment`]s per group, ignoring nulls.
pub struct Moments(Vec<Moment>);

impl Moments {
    pub fn new(groups: usize) -> Moments {
        Moments(vec![Moment::default(); groups])
    }
}

impl Partial for Moments {
    type Input<'a> = &'a [f64];
    type Output = Vec<Moment>;

    fn update(&mut self, input: &[f64], to: To<'_>) {
        fold(&mut self.0, input.iter(), to, |mut m, x| {
            if !x.is_null() {
                m.count += 1.0;
                m.sum += x;
                let off = x - m.mean;
                m.mean += off / m.count;
                m.squares += off * (x - m.mean);
            }
            m
        });
    }
    fn merge(&mut self, later: Moments) {
        for (a, b) in self.0.iter_mut().zip(later.0) {
            let count = a.count + b.count;
            if b.count > 0.0 {
                let off = b.mean - a.mean;
                a.squares += b.squares + off * off * a.count * b.count / count;
                a.mean += off * b.count / count;
                a.sum += b.sum;
                a.count = count;
            }
        }
    }
    fn finish(self) -> Vec<Moment> {
        self.0
    }
}

/// Sum of products and sum of weights per group, over rows where neither is null.
pub struct Weighted(Vec<(f64, f64)>);

impl Weighted {
    pub fn new(groups: usize) -> Weighted {
        Weighted(vec![(0.0, 0.0); groups])
    }
}

impl Partial for Weighted {
    /// Weights and items.
    type Input<'a> = (&'a [f64], &'a [f64]);
    /// Sum of products, sum of weights.
    type Output = Vec<(f64, f64)>;

    fn update(&mut self, (weights, items): Self::Input<'_>, to: To<'_>) {
        fold(&mut self.0, weights.iter().zip(items), to, |(products, total), (w, x)| {
            if w.is_null() || x.is_null() { (products, total) } else { (products + w * x, total + w) }
        });
    }
    fn merge(&mut self, later: Weighted) {
        for (a, b) in self.0.iter_mut().zip(later.0) {
            a.0 += b.0;
            a.1 += b.1;
        }
    }
    fn finish(self) -> Vec<(f64, f64)> {
        self.0
    }
}
