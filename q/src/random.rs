//! Random numbers: `n?x`. Seeded by `\S`; the sequence is not kdb+'s.

use super::context::Context;
use super::error::QError;
use super::shape::{Result, type_error};
use columns::table::symbol::intern;
use columns::table::{Element, Items, Raw, Sym, Value};
use std::cell::{Cell, RefCell};

/// The seed of a new process, as `\S` shows it.
pub const DEFAULT_SEED: i64 = -314_159;

thread_local! {
    static GENERATOR: RefCell<fastrand::Rng> =
        const { RefCell::new(fastrand::Rng::with_seed(DEFAULT_SEED as u64)) };
    /// Where helper threads get their seeds from. How many there are must not change what this thread draws.
    static SEEDS: RefCell<fastrand::Rng> = const { RefCell::new(fastrand::Rng::with_seed(!(DEFAULT_SEED as u64))) };
    static LAST_SEED: Cell<i64> = const { Cell::new(DEFAULT_SEED) };
}

/// `\S n`.
pub(super) fn seed(seed: i64) {
    GENERATOR.with(|g| g.borrow_mut().seed(seed as u64));
    SEEDS.with(|g| g.borrow_mut().seed(!(seed as u64)));
    LAST_SEED.set(seed);
}

/// The seed that was set last: `\S`.
pub(super) fn last_seed() -> i32 {
    i32::try_from(LAST_SEED.get()).unwrap_or(i32::MAX)
}

/// Where the generator stands, as a seed that continues from here: `\S 0N`.
pub(super) fn next_seed() -> i64 {
    GENERATOR.with(|g| {
        let mut rng = g.borrow_mut();
        let seed = rng.i64(i64::MIN + 1..);
        rng.seed(seed as u64);
        seed
    })
}

/// A seed for helper threads.
pub(super) fn helper_seed() -> i64 {
    SEEDS.with(|g| g.borrow_mut().i64(..))
}

/// `rand x`: one draw.
pub(super) fn rand(context: &mut Context, x: Value) -> Result {
    Ok(roll(context, &Value::Long(1), x)?.at(0))
}

/// `n?y`: `n` draws; for a negative `n` without putting back.
pub(super) fn roll(context: &mut Context, x: &Value, y: Value) -> Result {
    let mut n = x.as_long().ok_or_else(type_error)?;
    if n == i64::MIN {
        // `0N?x` draws all, each once.
        let all = if y.is_scalar() { y.as_long().ok_or_else(type_error)? } else { y.count() as i64 };
        n = all.max(0).wrapping_neg();
    }
    let size = usize::try_from(n.unsigned_abs()).map_err(|_| QError::named("limit"))?;
    context.reserve_items(size, 16)?;
    GENERATOR.with(|g| draw(&mut g.borrow_mut(), n < 0, size, &y))
}

fn draw(rng: &mut fastrand::Rng, deal: bool, size: usize, y: &Value) -> Result {
    match y {
        Value::Vector(_) | Value::Table(_) => {
            let count = y.count();
            let rows = indices(rng, deal, size, count)?;
            Ok(y.gather(&rows))
        }
        Value::Float(f) => Ok(Value::floats((0..size).map(|_| rng.f64() * f).collect())),
        Value::Real(f) => Ok(Items::Real((0..size).map(|_| rng.f32() * f).collect()).into()),
        Value::Bool(_) => Ok(Value::bools((0..size).map(|_| u8::from(rng.bool())).collect())),
        Value::Sym(s) => {
            // Letters a to p, as many as the symbol's number says.
            let wide = std::str::from_utf8(columns::table::symbol::text(*s))
                .ok()
                .and_then(|n| n.parse().ok())
                .unwrap_or(4usize);
            if wide > 8 {
                return Err(QError::named("length"));
            }
            let mut one = || intern(&(0..wide).map(|_| b'a' + rng.u8(0..16)).collect::<Vec<_>>());
            let names: std::result::Result<Vec<Sym>, _> = (0..size).map(|_| one()).collect();
            Ok(Value::symbols(names.map_err(|_| QError::named("limit"))?))
        }
        Value::Guid(_) => Ok(Items::Guid((0..size).map(|_| rng.u128(..).to_be_bytes()).collect()).into()),
        Value::Char(c) => Ok(Value::chars(
            (0..size).map(|_| b'a' + rng.u8(0..c.saturating_sub(b'a').clamp(1, 26))).collect::<Vec<_>>(),
        )),
        atom => {
            let items = atom.to_items();
            let most = atom.as_long().ok_or_else(type_error)?;
            if deal {
                let rows = indices(rng, true, size, usize::try_from(most).unwrap_or(0))?;
                return Ok(Value::longs(rows));
            }
            if most == 0 {
                return Ok(Items::from_longs(items.type_number(), (0..size).map(|_| rng.i64(..)).collect()).into());
            }
            if most < 0 {
                return Err(QError::named("domain"));
            }
            let t = items.type_number();
            Ok(match items.raw() {
                Raw::I32(_) => i32::wrap(t, (0..size).map(|_| rng.i64(0..most) as i32).collect()).into(),
                Raw::U8(_) => u8::wrap(t, (0..size).map(|_| rng.i64(0..most) as u8).collect()).into(),
                Raw::I16(_) => Items::Short((0..size).map(|_| rng.i64(0..most) as i16).collect()).into(),
                _ => i64::wrap(t, (0..size).map(|_| rng.i64(0..most)).collect()).into(),
            })
        }
    }
}

fn indices(rng: &mut fastrand::Rng, deal: bool, size: usize, count: usize) -> std::result::Result<Vec<i64>, QError> {
    if !deal {
        return Ok((0..size).map(|_| if count == 0 { -1 } else { rng.usize(0..count) as i64 }).collect());
    }
    if size > count {
        return Err(QError::named("length"));
    }
    // Draws without replacement by swapping, kept sparse: the source may be far larger than the draw.
    let mut moved: std::collections::HashMap<usize, usize> = std::collections::HashMap::new();
    let mut out = Vec::with_capacity(size);
    for i in 0..size {
        super::limits::pace()?;
        let j = rng.usize(i..count);
        let at = |m: &std::collections::HashMap<usize, usize>, k: usize| m.get(&k).copied().unwrap_or(k);
        let (a, b) = (at(&moved, i), at(&moved, j));
        moved.insert(j, a);
        out.push(b as i64);
    }
    Ok(out)
}
