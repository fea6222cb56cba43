//! Aggregates over vectors, whole or by group: maps q's aggregates to partial aggregates of `columns::kernel`.

use crate::runtime::error::QError;
use crate::runtime::limits::{self, Allowance};
use crate::runtime::sections;
use crate::syntax::prims;
use crate::verbs::convert::floats;
use crate::verbs::rowwise::RowWise;
use columns::kernel::num::{Int, Num};
use columns::kernel::partial::{
    Counts, Ends, Extremes, Means, Moment, Moments, Partial, Sums, To, Weighted, section_rows,
};
use columns::sys::budget;
use columns::table::{Element, Items, Raw, Value};
use proto::types;
use std::ops::Range;

/// Rows evaluated at a time, so that intermediate results stay in the CPU cache.
const BLOCK_ROWS: usize = 1 << 13;

/// An aggregate with a partial form.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Aggregate {
    Count,
    Sum,
    Min,
    Max,
    First,
    Last,
    Avg,
    Var {
        sample: bool,
        root: bool,
    },
    /// Two arguments: weights and items.
    WeightedAvg,
    WeightedSum,
}

impl Aggregate {
    /// Number of arguments.
    pub(crate) fn arity(self) -> usize {
        if matches!(self, Aggregate::WeightedAvg | Aggregate::WeightedSum) { 2 } else { 1 }
    }

    /// Whether it reads the items of its arguments, not just their number or positions.
    pub(crate) fn reads(self) -> bool {
        !matches!(self, Aggregate::Count | Aggregate::First | Aggregate::Last)
    }
}

/// The aggregate of a primitive.
pub(crate) fn of(primitive: &Value) -> Option<Aggregate> {
    Some(match prims::name_of(primitive)? {
        "count" => Aggregate::Count,
        "sum" => Aggregate::Sum,
        "min" => Aggregate::Min,
        "max" => Aggregate::Max,
        "first" => Aggregate::First,
        "last" => Aggregate::Last,
        "avg" => Aggregate::Avg,
        "var" => Aggregate::Var { sample: false, root: false },
        "dev" => Aggregate::Var { sample: false, root: true },
        "svar" => Aggregate::Var { sample: true, root: false },
        "sdev" => Aggregate::Var { sample: true, root: true },
        "wavg" => Aggregate::WeightedAvg,
        "wsum" => Aggregate::WeightedSum,
        _ => return None,
    })
}

/// Computes the group of each row, block by block, on any thread.
pub(crate) trait Coder: Sync {
    /// Returns the groups of a block of rows; `scratch` is a reusable buffer.
    ///
    /// # Errors
    /// Those of the grouping expressions.
    fn groups<'s>(&self, rows: Range<usize>, scratch: &'s mut Vec<u32>) -> Result<To<'s>, QError>;
}

/// Source of the group ids.
#[derive(Clone, Copy)]
pub(crate) enum Ids<'a> {
    /// All rows are one group.
    One,
    Given(&'a [u32]),
    Coded(&'a dyn Coder),
}

/// Assignment of rows to groups.
#[derive(Clone, Copy)]
pub(crate) struct Grouping<'a> {
    pub ids: Ids<'a>,
    pub groups: usize,
}

/// An aggregate, and the indices of its argument expressions.
pub(crate) struct Aggregation {
    pub aggregate: Aggregate,
    pub arguments: Vec<usize>,
}

/// Variance or standard deviation, of the population or a sample.
fn spread(moment: &Moment, sample: bool, root: bool) -> f64 {
    let variance = moment.variance(sample);
    if root { variance.sqrt() } else { variance }
}

/// Running state of a request, by the type of its argument.
enum State {
    Counts(Counts),
    Ends(Ends),
    Longs(Sums<i64>),
    Ints(Sums<i32>),
    Floats(Sums<f64>),
    Reals(Sums<f32>),
    ExtremeLongs(Extremes<i64>),
    ExtremeInts(Extremes<i32>),
    ExtremeShorts(Extremes<i16>),
    ExtremeBytes(Extremes<u8>),
    ExtremeFloats(Extremes<f64>),
    ExtremeReals(Extremes<f32>),
    Means(Means),
    Moments(Moments),
    Weighted(Weighted),
}

fn type_error() -> QError {
    QError::named("type")
}

/// Calls `f` with the items as floats; does not copy floats.
pub(crate) fn with_floats<R>(items: &Items, f: impl FnOnce(&[f64]) -> R) -> Result<R, QError> {
    match items.raw() {
        Raw::F64(v) => Ok(f(v)),
        _ => floats(items).map(|v| f(&v)),
    }
}

impl State {
    /// `samples` are the arguments, of any length, for their types. `Ok(None)` if these types have no kernel.
    fn new(aggregate: Aggregate, samples: &[&Items], groups: usize) -> Result<Option<State>, QError> {
        let Some(x) = samples.last() else { return Ok(None) };
        if aggregate.reads() && samples.iter().any(|s| matches!(s, Items::List(_))) {
            return Ok(None);
        }
        Ok(Some(match aggregate {
            Aggregate::Count => State::Counts(Counts::new(groups)),
            Aggregate::First | Aggregate::Last => State::Ends(Ends::new(groups, aggregate == Aggregate::Last)),
            Aggregate::Sum => match x.raw() {
                Raw::I32(_) if x.type_number() == types::INT => State::Ints(Sums::new(groups, 0)),
                Raw::F64(_) => State::Floats(Sums::new(groups, 0.0)),
                Raw::F32(_) => State::Reals(Sums::new(groups, 0.0)),
                Raw::U8(_) | Raw::I16(_) | Raw::I32(_) | Raw::I64(_) => State::Longs(Sums::new(groups, 0)),
                _ => return Err(type_error()),
            },
            Aggregate::Min | Aggregate::Max => {
                let greatest = aggregate == Aggregate::Max;
                match x.raw() {
                    Raw::I64(_) => State::ExtremeLongs(Extremes::new(groups, greatest)),
                    Raw::I32(_) => State::ExtremeInts(Extremes::new(groups, greatest)),
                    Raw::I16(_) => State::ExtremeShorts(Extremes::new(groups, greatest)),
                    Raw::U8(_) => State::ExtremeBytes(Extremes::new(groups, greatest)),
                    Raw::F64(_) => State::ExtremeFloats(Extremes::new(groups, greatest)),
                    Raw::F32(_) => State::ExtremeReals(Extremes::new(groups, greatest)),
                    _ => return Ok(None),
                }
            }
            Aggregate::Avg => with_floats(x, |_| State::Means(Means::new(groups)))?,
            Aggregate::Var { .. } => with_floats(x, |_| State::Moments(Moments::new(groups)))?,
            Aggregate::WeightedAvg | Aggregate::WeightedSum => {
                let [w, x] = samples else { return Ok(None) };
                with_floats(w, |_| ())?;
                with_floats(x, |_| State::Weighted(Weighted::new(groups)))?
            }
        }))
    }

    /// Adds a block of rows.
    fn update(&mut self, arguments: &[&Items], block: Range<usize>, to: To<'_>) -> Result<(), QError> {
        fn widened<T: Int>(items: &[T]) -> Vec<i64> {
            items.iter().map(|i| i.to_long()).collect()
        }
        match (self, arguments.last().map(|x| x.raw())) {
            (State::Counts(s), _) => s.update(block.len(), to),
            (State::Ends(s), _) => s.update((block.start as u32, block.len()), to),
            (State::Longs(s), Some(Raw::I64(v))) => s.update(v, to),
            (State::Longs(s), Some(Raw::I32(v))) => s.update(&widened(v), to),
            (State::Longs(s), Some(Raw::I16(v))) => s.update(&widened(v), to),
            (State::Longs(s), Some(Raw::U8(v))) => s.update(&widened(v), to),
            (State::Ints(s), Some(Raw::I32(v))) => s.update(v, to),
            (State::Floats(s), Some(Raw::F64(v))) => s.update(v, to),
            (State::Reals(s), Some(Raw::F32(v))) => s.update(v, to),
            (State::ExtremeLongs(s), Some(Raw::I64(v))) => s.update(v, to),
            (State::ExtremeInts(s), Some(Raw::I32(v))) => s.update(v, to),
            (State::ExtremeShorts(s), Some(Raw::I16(v))) => s.update(v, to),
            (State::ExtremeBytes(s), Some(Raw::U8(v))) => s.update(v, to),
            (State::ExtremeFloats(s), Some(Raw::F64(v))) => s.update(v, to),
            (State::ExtremeReals(s), Some(Raw::F32(v))) => s.update(v, to),
            (State::Means(s), Some(_)) => {
                return with_floats(arguments.last().ok_or_else(type_error)?, |v| s.update(v, to));
            }
            (State::Moments(s), Some(_)) => {
                return with_floats(arguments.last().ok_or_else(type_error)?, |v| s.update(v, to));
            }
            (State::Weighted(s), _) => {
                let [w, x] = arguments else { return Err(type_error()) };
                return with_floats(w, |w| with_floats(x, |x| s.update((w, x), to)))?;
            }
            // The type of an expression's result must not change between blocks.
            _ => return Err(type_error()),
        }
        Ok(())
    }

    fn merge(&mut self, later: State) {
        match (self, later) {
            (State::Counts(a), State::Counts(b)) => a.merge(b),
            (State::Ends(a), State::Ends(b)) => a.merge(b),
            (State::Longs(a), State::Longs(b)) => a.merge(b),
            (State::Ints(a), State::Ints(b)) => a.merge(b),
            (State::Floats(a), State::Floats(b)) => a.merge(b),
            (State::Reals(a), State::Reals(b)) => a.merge(b),
            (State::ExtremeLongs(a), State::ExtremeLongs(b)) => a.merge(b),
            (State::ExtremeInts(a), State::ExtremeInts(b)) => a.merge(b),
            (State::ExtremeShorts(a), State::ExtremeShorts(b)) => a.merge(b),
            (State::ExtremeBytes(a), State::ExtremeBytes(b)) => a.merge(b),
            (State::ExtremeFloats(a), State::ExtremeFloats(b)) => a.merge(b),
            (State::ExtremeReals(a), State::ExtremeReals(b)) => a.merge(b),
            (State::Means(a), State::Means(b)) => a.merge(b),
            (State::Moments(a), State::Moments(b)) => a.merge(b),
            (State::Weighted(a), State::Weighted(b)) => a.merge(b),
            // Sections of one request have states of the same kind.
            _ => {}
        }
    }

    /// Returns one item per group. `x` is the last argument, from which first and last rows are picked; `sample` gives its
    /// type.
    fn finish(self, aggregate: Aggregate, x: &RowWise, sample: &Items) -> Result<Items, QError> {
        fn of<T: Num + Element>(sample: &Items, best: Extremes<T>) -> Items {
            T::wrap(sample.type_number(), best.finish().into())
        }
        let number = sample.type_number();
        Ok(match self {
            State::Counts(s) => Items::Long(s.finish().into()),
            State::Ends(s) => x.at(&s.finish())?,
            State::Longs(s) if matches!(number, types::BOOL | types::BYTE | types::CHAR | types::SHORT) => {
                Items::from_longs(types::INT, s.finish())
            }
            State::Longs(s) => Items::from_longs(if number == types::ENUM { types::LONG } else { number }, s.finish()),
            State::Ints(s) => Items::Int(s.finish().into()),
            State::Floats(s) => f64::wrap(number, s.finish().into()),
            State::Reals(s) => Items::Real(s.finish().into()),
            State::ExtremeLongs(s) => of(sample, s),
            State::ExtremeInts(s) => of(sample, s),
            State::ExtremeShorts(s) => of(sample, s),
            State::ExtremeBytes(s) => of(sample, s),
            State::ExtremeFloats(s) => of(sample, s),
            State::ExtremeReals(s) => of(sample, s),
            State::Means(s) => Items::Float(s.finish().iter().map(|(sum, count)| sum / count).collect()),
            State::Moments(s) => match aggregate {
                Aggregate::Var { sample, root } => {
                    Items::Float(s.finish().iter().map(|m| spread(m, sample, root)).collect())
                }
                _ => return Err(type_error()),
            },
            State::Weighted(s) => {
                let average = aggregate == Aggregate::WeightedAvg;
                Items::Float(s.finish().iter().map(|(p, w)| if average { p / w } else { *p }).collect())
            }
        })
    }
}

/// Groups of a block of rows. In time-ordered data a block often has a single group, which is faster.
pub(crate) fn to(ids: &[u32]) -> To<'_> {
    match ids.split_first() {
        Some((first, rest)) if rest.last() == Some(first) && rest.iter().all(|id| id == first) => {
            To::One(*first as usize)
        }
        _ => To::Each(ids),
    }
}

/// Returns one item per group for each request, in one pass over the rows, block by block. `Ok(None)` if one of the
/// requests has no kernel for its argument types.
pub(crate) fn over(
    allowance: &Allowance,
    expressions: &[RowWise],
    requests: &[Aggregation],
    rows: usize,
    by: Grouping,
) -> Result<Option<Vec<Items>>, QError> {
    let samples: Vec<Items> = expressions.iter().map(|e| e.block(0..0)).collect::<Result<_, _>>()?;
    let picked = |request: &Aggregation, from: &[Items]| -> Vec<Items> {
        request.arguments.iter().filter_map(|a| from.get(*a).cloned()).collect()
    };
    let states = || -> Result<Option<Vec<State>>, QError> {
        let mut states = Vec::with_capacity(requests.len());
        for request in requests {
            let arguments = picked(request, &samples);
            let arguments: Vec<&Items> = arguments.iter().collect();
            match State::new(request.aggregate, &arguments, by.groups)? {
                Some(state) => states.push(state),
                None => return Ok(None),
            }
        }
        Ok(Some(states))
    };
    let is_read: Vec<bool> = (0..expressions.len())
        .map(|e| requests.iter().any(|r| r.aggregate.reads() && r.arguments.contains(&e)))
        .collect();
    if states()?.is_none() {
        return Ok(None);
    }
    let section = |range: Range<usize>| -> Result<Vec<State>, QError> {
        let mut states = states()?.unwrap_or_default();
        let mut scratch = Vec::new();
        for start in range.clone().step_by(BLOCK_ROWS) {
            let block = start..(start + BLOCK_ROWS).min(range.end);
            if budget::spend(block.len()) {
                limits::settle()?;
            }
            let mut values = Vec::with_capacity(expressions.len());
            for ((expression, sample), read) in expressions.iter().zip(&samples).zip(&is_read) {
                values.push(if *read { expression.block(block.clone())? } else { sample.clone() });
            }
            let to = match by.ids {
                Ids::One => To::One(0),
                Ids::Given(ids) => to(ids.get(block.clone()).ok_or(QError::named("length"))?),
                Ids::Coded(coder) => coder.groups(block.clone(), &mut scratch)?,
            };
            for (state, request) in states.iter_mut().zip(requests) {
                let mut arguments = [None, None];
                for (slot, place) in arguments.iter_mut().zip(&request.arguments) {
                    *slot = values.get(*place);
                }
                let given: &[&Items] = match &arguments {
                    [Some(x), Some(y)] => &[*x, *y],
                    [Some(x), _] => &[*x],
                    _ => &[],
                };
                state.update(given, block.clone(), to)?;
            }
        }
        Ok(states)
    };
    let merge = |all: &mut Vec<State>, later: Vec<State>| {
        all.iter_mut().zip(later).for_each(|(a, b)| a.merge(b));
    };
    let states = sections::merged(allowance, rows, section_rows(by.groups), section, merge)?;
    let mut results = Vec::with_capacity(requests.len());
    for (state, request) in states.into_iter().zip(requests) {
        let last = request.arguments.last().copied().unwrap_or(0);
        let (Some(x), Some(sample)) = (expressions.get(last), samples.get(last)) else { return Err(type_error()) };
        results.push(state.finish(request.aggregate, x, sample)?);
    }
    Ok(Some(results))
}

/// Returns the aggregate of one vector.
pub(crate) fn whole(allowance: &Allowance, aggregate: Aggregate, arguments: &[Items]) -> Result<Option<Value>, QError> {
    let rows = arguments.last().map_or(0, Items::len);
    let expressions: Vec<RowWise> = arguments.iter().cloned().map(RowWise::of).collect();
    let request = Aggregation { aggregate, arguments: (0..arguments.len()).collect() };
    let one = over(allowance, &expressions, &[request], rows, Grouping { ids: Ids::One, groups: 1 })?;
    Ok(one.and_then(|mut items| items.pop()).map(|items| items.get(0)))
}
