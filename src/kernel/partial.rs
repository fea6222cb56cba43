//! Aggregates as partials: state per group, fed with rows, merged with the state of later rows, finished at the end.
//!
//! One algebra for chunks of a table on several threads, for nodes that hold parts of a day, and for days of a
//! partitioned database: whoever has the rows updates, whoever asked merges.

use super::num::Num;
use std::ops::Range;

/// Rows of a section where there are few groups.
const SECTION_ROWS: usize = 1 << 18;

/// How many rows are taken in by one state before it is merged into that of the rows before. It depends on nothing but
/// the number of groups, so that sums of floats are the same on any number of threads.
pub fn section_rows(groups: usize) -> usize {
    // Merging touches every group once: it must stay cheap beside taking in the rows.
    groups.saturating_mul(8).max(SECTION_ROWS)
}

/// State per group of an aggregate.
pub trait Partial: Sized + Send {
    /// The columns that it reads.
    type Input<'a>: Copy + Send;
    /// One item per group.
    type Output;

    /// Takes in `rows` of the input; `groups` says each row's group, by its row number; `None` means group 0.
    fn update(&mut self, input: Self::Input<'_>, rows: Range<usize>, groups: Option<&[u32]>);
    /// Takes in what `later` has seen of rows behind these.
    fn merge(&mut self, later: Self);
    fn finish(self) -> Self::Output;
}

/// Calls `f` with each row and its group's state.
#[inline(always)]
fn each<S>(states: &mut [S], rows: Range<usize>, groups: Option<&[u32]>, mut f: impl FnMut(&mut S, usize)) {
    match groups {
        None => {
            if let Some(state) = states.first_mut() {
                rows.for_each(|row| f(state, row));
            }
        }
        Some(groups) => {
            let start = rows.start;
            for (i, group) in groups.get(rows).unwrap_or_default().iter().enumerate() {
                if let Some(state) = states.get_mut(*group as usize) {
                    f(state, start + i);
                }
            }
        }
    }
}

#[inline(always)]
fn item<T: Num>(items: &[T], row: usize) -> T {
    items.get(row).copied().unwrap_or(T::NULL)
}

/// Rows per group.
pub struct Counts(Vec<i64>);

impl Counts {
    pub fn new(groups: usize) -> Counts {
        Counts(vec![0; groups])
    }
}

impl Partial for Counts {
    type Input<'a> = ();
    type Output = Vec<i64>;

    fn update(&mut self, (): (), rows: Range<usize>, groups: Option<&[u32]>) {
        match groups {
            None => self.0.iter_mut().take(1).for_each(|c| *c += rows.len() as i64),
            Some(_) => each(&mut self.0, rows, groups, |count, _| *count += 1),
        }
    }
    fn merge(&mut self, later: Counts) {
        self.0.iter_mut().zip(later.0).for_each(|(a, b)| *a += b);
    }
    fn finish(self) -> Vec<i64> {
        self.0
    }
}

/// Sums per group, nulls left out.
pub struct Sums<T>(Vec<T>);

impl<T: Num> Sums<T> {
    /// `zero` is the sum of nothing.
    pub fn new(groups: usize, zero: T) -> Sums<T> {
        Sums(vec![zero; groups])
    }
}

impl<T: Num> Partial for Sums<T> {
    type Input<'a> = &'a [T];
    type Output = Vec<T>;

    fn update(&mut self, input: &[T], rows: Range<usize>, groups: Option<&[u32]>) {
        if groups.is_none() {
            let Some(total) = self.0.first_mut() else { return };
            let mut sum = *total;
            for x in input.get(rows).unwrap_or_default() {
                sum = if x.is_null() { sum } else { sum.plus(*x) };
            }
            *total = sum;
            return;
        }
        each(&mut self.0, rows, groups, |sum, row| {
            let x = item(input, row);
            if !x.is_null() {
                *sum = sum.plus(x);
            }
        });
    }
    fn merge(&mut self, later: Sums<T>) {
        self.0.iter_mut().zip(later.0).for_each(|(a, b)| *a = a.plus(b));
    }
    fn finish(self) -> Vec<T> {
        self.0
    }
}

/// Least or greatest item per group, nulls left out.
pub struct Extremes<T> {
    best: Vec<T>,
    greatest: bool,
}

impl<T: Num> Extremes<T> {
    /// Of nothing, the least is infinity and the greatest negative infinity, as in q.
    pub fn new(groups: usize, greatest: bool) -> Extremes<T> {
        Extremes { best: vec![if greatest { T::NEGATIVE_INFINITY } else { T::INFINITY }; groups], greatest }
    }

    #[inline(always)]
    fn take(greatest: bool, best: &mut T, x: T) {
        if !x.is_null() && (if greatest { x > *best } else { x < *best }) {
            *best = x;
        }
    }
}

impl<T: Num> Partial for Extremes<T> {
    type Input<'a> = &'a [T];
    type Output = Vec<T>;

    fn update(&mut self, input: &[T], rows: Range<usize>, groups: Option<&[u32]>) {
        let greatest = self.greatest;
        each(&mut self.best, rows, groups, |best, row| Self::take(greatest, best, item(input, row)));
    }
    fn merge(&mut self, later: Extremes<T>) {
        self.best.iter_mut().zip(later.best).for_each(|(a, b)| Self::take(self.greatest, a, b));
    }
    fn finish(self) -> Vec<T> {
        self.best
    }
}

/// First and last row per group; `u32::MAX` where a group has none.
pub struct Ends {
    ends: Vec<(u32, u32)>,
    first_row: u32,
}

impl Ends {
    /// Rows are counted from `first_row`.
    pub fn new(groups: usize, first_row: u32) -> Ends {
        Ends { ends: vec![(u32::MAX, u32::MAX); groups], first_row }
    }
}

impl Partial for Ends {
    /// How far the first of the rows lies behind the first that this state saw.
    type Input<'a> = usize;
    type Output = Vec<(u32, u32)>;

    fn update(&mut self, place: usize, rows: Range<usize>, groups: Option<&[u32]>) {
        let start = self.first_row.wrapping_add(place as u32);
        each(&mut self.ends, rows, groups, |(first, last), row| {
            let row = start.wrapping_add(row as u32);
            if *first == u32::MAX {
                *first = row;
            }
            *last = row;
        });
    }
    fn merge(&mut self, later: Ends) {
        for ((first, last), (later_first, later_last)) in self.ends.iter_mut().zip(later.ends) {
            if *first == u32::MAX {
                *first = later_first;
            }
            if later_last != u32::MAX {
                *last = later_last;
            }
        }
    }
    fn finish(self) -> Vec<(u32, u32)> {
        self.ends
    }
}

/// Sum and count of what is not null, per group.
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

    fn update(&mut self, input: &[f64], rows: Range<usize>, groups: Option<&[u32]>) {
        each(&mut self.0, rows, groups, |(sum, count), row| {
            let x = item(input, row);
            if !x.is_null() {
                *sum += x;
                *count += 1.0;
            }
        });
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

/// Mean and spread per group: count, mean and sum of squared distances, merged without loss of precision.
#[derive(Clone, Copy, Default)]
pub struct Moment {
    pub count: f64,
    pub sum: f64,
    mean: f64,
    squares: f64,
}

impl Moment {
    pub fn average(&self) -> f64 {
        self.sum / self.count
    }

    /// Variance over the population, or over a sample where `sample`.
    pub fn variance(&self, sample: bool) -> f64 {
        let over = if sample { self.count - 1.0 } else { self.count };
        if over < 1.0 { f64::NAN } else { self.squares / over }
    }
}

/// [`Moment`]s per group, nulls left out.
pub struct Moments(Vec<Moment>);

impl Moments {
    pub fn new(groups: usize) -> Moments {
        Moments(vec![Moment::default(); groups])
    }
}

impl Partial for Moments {
    type Input<'a> = &'a [f64];
    type Output = Vec<Moment>;

    fn update(&mut self, input: &[f64], rows: Range<usize>, groups: Option<&[u32]>) {
        each(&mut self.0, rows, groups, |m, row| {
            let x = item(input, row);
            if !x.is_null() {
                m.count += 1.0;
                m.sum += x;
                let off = x - m.mean;
                m.mean += off / m.count;
                m.squares += off * (x - m.mean);
            }
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

/// Sum of products and of weights per group, over rows where neither is null.
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

    fn update(&mut self, (weights, items): Self::Input<'_>, rows: Range<usize>, groups: Option<&[u32]>) {
        each(&mut self.0, rows, groups, |(products, total), row| {
            let (w, x) = (item(weights, row), item(items, row));
            if !w.is_null() && !x.is_null() {
                *products += w * x;
                *total += w;
            }
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
