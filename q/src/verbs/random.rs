//! Random numbers: `n?x`. Seeded by `\S`; the sequence differs from kdb+'s.

use crate::runtime::context::Context;
use crate::runtime::error::QError;
use crate::runtime::seeds;
use crate::runtime::time::DAY_NS;
use crate::runtime::values::Result;
use crate::runtime::values::type_error;
use crate::verbs::enums;
use columns::kernel::blocks;
use columns::table::symbol::intern;
use columns::table::{Element, Items, Raw, Sym, Value, Vector};

/// Days of the years 2000 to 2003.
const FOUR_YEARS_DAYS: i64 = 1461;

/// `rand x`: one draw.
pub(crate) fn rand(context: &mut Context, x: Value) -> Result {
    Ok(roll(context, &Value::Long(1), x)?.at(0))
}

/// `n?y`: `n` draws; without replacement if `n` is negative.
pub(crate) fn roll(context: &mut Context, x: &Value, y: Value) -> Result {
    let mut n = x.as_long().ok_or_else(type_error)?;
    if n == i64::MIN {
        // `0N?x` is a permutation.
        let all = match &y {
            Value::Short(_) | Value::Int(_) | Value::Long(_) => y.as_long().ok_or_else(type_error)?,
            atom if atom.is_scalar() => return Err(type_error()),
            list => list.count() as i64,
        };
        n = all.max(0).wrapping_neg();
    }
    let size = usize::try_from(n.unsigned_abs()).map_err(|_| QError::named("limit"))?;
    context.reserve_items(size, 16)?;
    // In n?`sym the symbol names a list of symbols, and the result is enumerated over it.
    if let Value::Sym(name) = y
        && let Some(domain @ Value::Vector(Vector { items: Items::Sym(_), .. })) = context.host.global(name)
    {
        let drawn = seeds::draw(|rng| draw(rng, n < 0, size, &domain))?;
        return enums::enumerate(context, name, drawn);
    }
    seeds::draw(|rng| draw(rng, n < 0, size, &y))
}

fn draw(rng: &mut fastrand::Rng, deal: bool, size: usize, y: &Value) -> Result {
    match y {
        Value::Vector(_) | Value::Table(_) => {
            let count = y.count();
            let rows = indices(rng, deal, size, count)?;
            Ok(y.gather(&rows))
        }
        Value::Float(f) => Ok(Value::floats(blocks::numbers(0..size, |_| rng.f64() * f))),
        Value::Datetime(f) => {
            let most = if *f == 0.0 { FOUR_YEARS_DAYS as f64 } else { *f };
            Ok(Items::Datetime(blocks::numbers(0..size, |_| rng.f64() * most)).into())
        }
        Value::Real(f) => Ok(Items::Real(blocks::numbers(0..size, |_| rng.f32() * f)).into()),
        Value::Bool(_) => Ok(Value::bools(blocks::numbers(0..size, |_| u8::from(rng.bool())))),
        Value::Sym(s) => {
            // Symbols of random letters a to p; the length is the number in the argument's name.
            let wide = std::str::from_utf8(columns::table::symbol::text(*s))
                .ok()
                .and_then(|n| n.parse().ok())
                .unwrap_or(4usize);
            if wide > 8 {
                return Err(QError::named("length"));
            }
            // The names are numbers of base 16, so that a deal of names is a deal of numbers.
            let drawn = indices(rng, deal, size, 1usize << (4 * wide))?;
            let mut names: Vec<Sym> = Vec::with_capacity(size);
            for number in drawn {
                crate::runtime::limits::pace()?;
                let name: Vec<u8> = (0..wide).map(|place| b'a' + ((number >> (4 * place)) & 15) as u8).collect();
                names.push(intern(&name).map_err(QError::from)?);
            }
            Ok(Value::symbols(names))
        }
        Value::Guid(_) => Ok(Items::Guid(blocks::numbers(0..size, |_| rng.u128(..).to_be_bytes())).into()),
        Value::Char(c) => Ok(Value::chars(blocks::numbers::<u8, Vec<u8>>(0..size, |_| {
            b'a' + rng.u8(0..c.saturating_sub(b'a').clamp(1, 26))
        }))),
        atom => {
            let items = atom.to_items();
            let most = match (atom.as_long().ok_or_else(type_error)?, of_zero(atom)) {
                (0, Some(most)) => most,
                (most, _) => most,
            };
            if deal {
                let rows = indices(rng, true, size, usize::try_from(most).unwrap_or(0))?;
                return Ok(Items::from_longs(items.type_number(), rows).into());
            }
            if most == 0 {
                return Ok(Items::from_longs(items.type_number(), blocks::numbers(0..size, |_| rng.i64(..))).into());
            }
            if most < 0 {
                return Err(QError::named("domain"));
            }
            let t = items.type_number();
            Ok(match items.raw() {
                Raw::I32(_) => i32::wrap(t, blocks::numbers(0..size, |_| rng.i64(0..most) as i32)).into(),
                Raw::U8(_) => u8::wrap(t, blocks::numbers(0..size, |_| rng.i64(0..most) as u8)).into(),
                Raw::I16(_) => Items::Short(blocks::numbers(0..size, |_| rng.i64(0..most) as i16)).into(),
                _ => i64::wrap(t, blocks::numbers(0..size, |_| rng.i64(0..most))).into(),
            })
        }
    }
}

/// Upper bound of draws from the zero of a temporal type: `n?00:00` draws the minutes of a day, `n?2000.01.01` the dates of 2000 to 2003.
fn of_zero(atom: &Value) -> Option<i64> {
    match atom {
        Value::Minute(_) => Some(DAY_NS / 60_000_000_000),
        Value::Second(_) => Some(DAY_NS / 1_000_000_000),
        Value::Time(_) => Some(DAY_NS / 1_000_000),
        Value::Timespan(_) => Some(DAY_NS),
        Value::Date(_) => Some(FOUR_YEARS_DAYS),
        Value::Month(_) => Some(4 * 12),
        Value::Timestamp(_) => Some(FOUR_YEARS_DAYS * DAY_NS),
        _ => None,
    }
}

fn indices(rng: &mut fastrand::Rng, deal: bool, size: usize, count: usize) -> std::result::Result<Vec<i64>, QError> {
    if !deal {
        return Ok(blocks::numbers(0..size, |_| if count == 0 { -1 } else { rng.usize(0..count) as i64 }));
    }
    if size > count {
        return Err(QError::named("length"));
    }
    // Fisher-Yates shuffle over a sparse map: the source may be far larger than the draw.
    let mut moved: std::collections::HashMap<usize, usize> = std::collections::HashMap::new();
    let mut out = Vec::with_capacity(size);
    for i in 0..size {
        crate::runtime::limits::pace()?;
        let j = rng.usize(i..count);
        let at = |m: &std::collections::HashMap<usize, usize>, k: usize| m.get(&k).copied().unwrap_or(k);
        let (a, b) = (at(&moved, i), at(&moved, j));
        moved.insert(j, a);
        out.push(b as i64);
    }
    Ok(out)
}
