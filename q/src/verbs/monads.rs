//! Unary atomic functions, applied item by item to everything that holds atoms.

use crate::runtime::context::Context;
use crate::runtime::error::QError;
use crate::runtime::limits;
use crate::runtime::values::Result;
use crate::verbs::arith::{longs, monadic};
use crate::verbs::cast;
use crate::verbs::convert::float_to_long;
use crate::verbs::convert::floats;
use crate::verbs::map::map;
use columns::kernel::blocks;
use columns::kernel::num::Num;
use columns::table::symbol::{intern, text};
use columns::table::{Element, Items, Raw, Sym, Value, Vector};
use proto::types;

fn type_error() -> QError {
    QError::named("type")
}

/// Booleans and bytes become ints if numbers are needed.
fn widened(x: &Items) -> std::result::Result<Items, QError> {
    match x {
        Items::Bool(_) | Items::Byte(_) => cast::to_type(types::INT, x),
        Items::Char(_) | Items::Sym(_) | Items::Guid(_) => Err(type_error()),
        other => Ok(other.clone()),
    }
}

macro_rules! keep_type {
    ($name:ident, $doc:literal, $method:ident) => {
        #[doc = $doc]
        pub(crate) fn $name(context: &mut Context, x: Value) -> Result {
            monadic(context, &x, &|items| {
                let items = widened(items)?;
                let t = items.type_number();
                Ok(match items.raw() {
                    Raw::I16(v) => i16::wrap(t, blocks::map(v, |i| i.$method())),
                    Raw::I32(v) => i32::wrap(t, blocks::map(v, |i| i.$method())),
                    Raw::I64(v) => i64::wrap(t, blocks::map(v, |i| i.$method())),
                    Raw::F32(v) => f32::wrap(t, blocks::map(v, |i| i.$method())),
                    Raw::F64(v) => f64::wrap(t, blocks::map(v, |i| i.$method())),
                    _ => return Err(type_error()),
                })
            })
        }
    };
}
keep_type!(neg, "`neg x`.", negate);
keep_type!(abs, "`abs x`.", absolute);

macro_rules! to_float {
    ($($name:ident $f:expr;)*) => { $(
        pub(crate) fn $name(context: &mut Context, x: Value) -> Result {
            monadic(context, &x, &|items| {
                let f: fn(f64) -> f64 = $f;
                match items {
                    Items::Datetime(v) => Ok(Items::Datetime(blocks::map(v, |x| f(*x)))),
                    Items::Char(v) => Ok(Items::Float(blocks::map(v, |x| f(f64::from(*x))))),
                    _ => Ok(Items::Float(blocks::map(&floats(items)?, |x| f(*x)))),
                }
            })
        }
    )* };
}
to_float! {
    sqrt |x| x.sqrt();
    exp |x| x.exp();
    log |x| x.ln();
    sin |x| x.sin();
    cos |x| x.cos();
    tan |x| x.tan();
    asin |x| x.asin();
    acos |x| x.acos();
    atan |x| x.atan();
    reciprocal |x| 1.0 / x;
}

fn rounded(context: &mut Context, x: &Value, up: bool) -> Result {
    monadic(context, x, &|items| match items.raw() {
        _ if items.type_number() >= types::TIMESTAMP => Err(type_error()),
        // In k, floor is the verb that gives lower case.
        Raw::U8(v) if !up => match items {
            Items::Char(_) => Ok(Items::Char(blocks::map(v, u8::to_ascii_lowercase))),
            _ => Err(type_error()),
        },
        Raw::Sym(names) if !up => {
            let lower = names.iter().map(|name| {
                limits::step()?;
                intern(&text(*name).to_ascii_lowercase()).map_err(QError::from)
            });
            Ok(Items::Sym(lower.collect::<std::result::Result<Vec<Sym>, QError>>()?.into()))
        }
        Raw::F32(_) | Raw::F64(_) => {
            // Without comparison tolerance, since version 3.0 of kdb+.
            let whole = |f: f64| if up { f.ceil() } else { f.floor() };
            // As the processor converts it, a finite number that no long holds is null.
            let long =
                |f: &f64| if f.is_finite() && f.abs() >= TWO_TO_63 { i64::NULL } else { float_to_long(whole(*f)) };
            Ok(Items::Long(blocks::map(&floats(items)?, long)))
        }
        Raw::Sym(_) | Raw::Guid(_) => Err(type_error()),
        Raw::U8(_) => widened(items),
        _ => Ok(items.clone()),
    })
}

/// The least positive float that no long holds.
const TWO_TO_63: f64 = (1u64 << 63) as f64;

pub(crate) fn floor(context: &mut Context, x: Value) -> Result {
    rounded(context, &x, false)
}

pub(crate) fn ceiling(context: &mut Context, x: Value) -> Result {
    rounded(context, &x, true)
}

fn test(context: &mut Context, x: &Value, of: impl Fn(&Items) -> std::result::Result<Vec<u8>, QError>) -> Result {
    monadic(context, x, &|items| Ok(Items::Bool(of(items)?.into())))
}

/// `null x`.
pub(crate) fn null(context: &mut Context, x: Value) -> Result {
    if let Value::Null = x {
        return Ok(Value::Bool(true));
    }
    if let Value::Func(_) = x {
        return Ok(Value::Bool(false));
    }
    // An enumerated value is a position in a domain, never null.
    if x.is_enumerated() {
        return Ok(if x.is_scalar() { Value::Bool(false) } else { Value::bools(vec![0; x.count()]) });
    }
    if matches!(x, Value::Vector(Vector { items: Items::List(_), .. })) {
        return map(context, &x, null);
    }
    test(context, &x, |items| {
        fn nulls<T: Copy>(v: &[T], null: impl Fn(T) -> bool) -> Vec<u8> {
            blocks::map(v, |x| u8::from(null(*x)))
        }
        Ok(match items.raw() {
            Raw::U8(v) if matches!(items, Items::Char(_)) => nulls(v, |c| c == b' '),
            Raw::U8(v) => vec![0; v.len()],
            Raw::I16(v) => nulls(v, Num::is_null),
            Raw::I32(v) => nulls(v, Num::is_null),
            Raw::I64(v) => nulls(v, Num::is_null),
            Raw::F32(v) => nulls(v, Num::is_null),
            Raw::F64(v) => nulls(v, Num::is_null),
            Raw::Sym(v) => nulls(v, |s| s.is_null()),
            Raw::Guid(v) => nulls(v, |g| g == [0; 16]),
            Raw::List(_) => return Err(type_error()),
        })
    })
}

/// `not x`: equal to zero.
pub(crate) fn not(context: &mut Context, x: Value) -> Result {
    test(context, &x, |items| {
        Ok(match items.raw() {
            Raw::U8(v) => blocks::map(v, |x| u8::from(*x == 0)),
            Raw::Sym(_) | Raw::Guid(_) => return Err(type_error()),
            Raw::F64(_) | Raw::F32(_) => blocks::map(&floats(items)?, |x| u8::from(*x == 0.0)),
            _ => blocks::map(&longs(items, items.type_number())?, |x| u8::from(*x == 0)),
        })
    })
}

/// `signum x`: -1, 0 or 1 as an int.
pub(crate) fn signum(context: &mut Context, x: Value) -> Result {
    monadic(context, &x, &|items| {
        let signs = match items.raw() {
            Raw::F64(_) | Raw::F32(_) => {
                blocks::map(&floats(items)?, |f| i32::from(*f > 0.0) - i32::from(*f < 0.0 || f.is_nan()))
            }
            Raw::Sym(_) | Raw::Guid(_) => return Err(type_error()),
            _ => blocks::map(&longs(items, items.type_number())?, |l| l.signum() as i32),
        };
        Ok(Items::Int(signs))
    })
}

/// `lower` and `upper` of chars and symbols.
fn with_case(context: &mut Context, x: &Value, change: fn(&u8) -> u8) -> Result {
    monadic(context, x, &|items| match items {
        Items::Char(v) => Ok(Items::Char(blocks::map(v, change))),
        Items::Sym(v) => {
            let mut out = Vec::with_capacity(v.len());
            for s in v.iter() {
                crate::runtime::limits::pace()?;
                let changed: Vec<u8> = columns::table::symbol::text(*s).iter().map(change).collect();
                out.push(columns::table::symbol::intern(&changed).map_err(QError::from)?);
            }
            Ok(Items::Sym(out.into()))
        }
        _ => Err(type_error()),
    })
}

pub(crate) fn lower(context: &mut Context, x: Value) -> Result {
    with_case(context, &x, u8::to_ascii_lowercase)
}

pub(crate) fn upper(context: &mut Context, x: Value) -> Result {
    with_case(context, &x, u8::to_ascii_uppercase)
}
