//! Aggregates over vectors, whole or by group: the bridge from q's names to partials.

use super::arith::floats;
use super::error::QError;
use super::prims;
use crate::kernel::num::Num;
use crate::kernel::partial::{Counts, Ends, Extremes, Moments, Partial, Sums, Weighted, run};
use crate::table::{Element, Items, Raw, Value};

/// An aggregate that has a partial.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Aggregate {
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

/// The aggregate of a primitive.
pub(super) fn of(primitive: &Value) -> Option<Aggregate> {
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

/// Which row belongs to which group.
#[derive(Clone, Copy)]
pub(super) struct Grouping<'a> {
    /// `None`: all rows are one group.
    pub ids: Option<&'a [u32]>,
    pub groups: usize,
}

/// One item per group. `Ok(None)` where this kind of column has no kernel for it.
pub(super) fn grouped(
    aggregate: Aggregate,
    arguments: &[Items],
    rows: usize,
    by: Grouping,
) -> Result<Option<Items>, QError> {
    let (ids, n) = (by.ids, by.groups);
    let Some(x) = arguments.last() else { return Ok(None) };
    if matches!(x, Items::List(_)) && !matches!(aggregate, Aggregate::Count | Aggregate::First | Aggregate::Last) {
        return Ok(None);
    }
    Ok(match aggregate {
        Aggregate::Count => Some(Items::Long(run(|| Counts::new(n), (), rows, ids).into())),
        Aggregate::First | Aggregate::Last => {
            let ends = if ids.is_none() {
                vec![if rows == 0 { (u32::MAX, u32::MAX) } else { (0, (rows - 1) as u32) }]
            } else {
                run(|| Ends::new(n), (), rows, ids)
            };
            let first = aggregate == Aggregate::First;
            let picked: Vec<u32> = ends.iter().map(|e| if first { e.0 } else { e.1 }).collect();
            Some(x.gather(&picked))
        }
        Aggregate::Sum => sums(x, rows, by)?,
        Aggregate::Min => extremes(x, rows, by, false),
        Aggregate::Max => extremes(x, rows, by, true),
        Aggregate::Avg => {
            let f = floats(x)?;
            let moments = sums_and_counts(&f, rows, by);
            Some(Items::Float(moments.iter().map(|(sum, count)| sum / count).collect()))
        }
        Aggregate::Var { sample, root } => {
            let f = floats(x)?;
            let moments = run(|| Moments::new(n), &f[..], rows, ids);
            let spread = |m: &crate::kernel::partial::Moment| {
                let v = m.variance(sample);
                if root { v.sqrt() } else { v }
            };
            Some(Items::Float(moments.iter().map(spread).collect()))
        }
        Aggregate::WeightedAvg | Aggregate::WeightedSum => {
            let [w, x] = arguments else { return Ok(None) };
            if matches!(w, Items::List(_)) {
                return Ok(None);
            }
            let (weights, items) = (floats(w)?, floats(x)?);
            let pairs = run(|| Weighted::new(n), (&weights[..], &items[..]), rows, ids);
            let average = aggregate == Aggregate::WeightedAvg;
            Some(Items::Float(pairs.iter().map(|(p, w)| if average { p / w } else { *p }).collect()))
        }
    })
}

/// Sum and count of what is not null, per group; one pass.
fn sums_and_counts(f: &[f64], rows: usize, by: Grouping) -> Vec<(f64, f64)> {
    struct Both(Vec<(f64, f64)>);
    impl Partial for Both {
        type Input<'a> = &'a [f64];
        type Output = Vec<(f64, f64)>;
        fn update(&mut self, input: &[f64], rows: std::ops::Range<usize>, groups: Option<&[u32]>) {
            let start = rows.start;
            for (i, x) in input.get(rows).unwrap_or_default().iter().enumerate() {
                let group = groups.map_or(0, |g| g.get(start + i).copied().unwrap_or(0));
                if let Some(state) = self.0.get_mut(group as usize)
                    && !x.is_nan()
                {
                    state.0 += x;
                    state.1 += 1.0;
                }
            }
        }
        fn merge(&mut self, later: Both) {
            for (a, b) in self.0.iter_mut().zip(later.0) {
                a.0 += b.0;
                a.1 += b.1;
            }
        }
        fn finish(self) -> Vec<(f64, f64)> {
            self.0
        }
    }
    run(|| Both(vec![(0.0, 0.0); by.groups]), f, rows, by.ids)
}

fn sums(x: &Items, rows: usize, by: Grouping) -> Result<Option<Items>, QError> {
    fn whole<T: crate::kernel::num::Int>(items: &[T]) -> Vec<i64> {
        items.iter().map(|i| i.to_long()).collect()
    }
    let (ids, n, number) = (by.ids, by.groups, x.type_number());
    let longs = |items: &[i64]| run(|| Sums::new(n, 0i64), items, rows, ids);
    Ok(Some(match x.raw() {
        Raw::I64(v) => i64::wrap(number, longs(v).into()),
        Raw::I32(v) if number == 6 => Items::Int(run(|| Sums::new(n, 0i32), v, rows, ids).into()),
        Raw::I32(v) => Items::from_longs(number, longs(&whole(v))),
        Raw::I16(v) => Items::from_longs(6, longs(&whole(v))),
        Raw::U8(v) if number != 10 => Items::from_longs(6, longs(&v.iter().map(|b| i64::from(*b)).collect::<Vec<_>>())),
        Raw::F64(v) => f64::wrap(number, run(|| Sums::new(n, 0f64), v, rows, ids).into()),
        Raw::F32(v) => Items::Real(run(|| Sums::new(n, 0f32), v, rows, ids).into()),
        _ => return Err(QError::named("type")),
    }))
}

fn extremes(x: &Items, rows: usize, by: Grouping, greatest: bool) -> Option<Items> {
    fn of<T: Num + Element>(number: i8, v: &[T], rows: usize, by: Grouping, greatest: bool) -> Items {
        T::wrap(number, run(|| Extremes::new(by.groups, greatest), v, rows, by.ids).into())
    }
    let number = x.type_number();
    Some(match x.raw() {
        Raw::I64(v) => of(number, v, rows, by, greatest),
        Raw::I32(v) => of(number, v, rows, by, greatest),
        Raw::I16(v) => of(number, v, rows, by, greatest),
        Raw::U8(v) => of(number, v, rows, by, greatest),
        Raw::F64(v) => of(number, v, rows, by, greatest),
        Raw::F32(v) => of(number, v, rows, by, greatest),
        _ => return None,
    })
}

/// The aggregate of one vector.
pub(super) fn whole(aggregate: Aggregate, arguments: &[Items]) -> Result<Option<Value>, QError> {
    let rows = arguments.last().map_or(0, Items::len);
    let one = grouped(aggregate, arguments, rows, Grouping { ids: None, groups: 1 })?;
    Ok(one.map(|items| items.get(0)))
}
