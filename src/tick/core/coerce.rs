//! Conversions of `--coerce`: values of another type that the type of a column holds unchanged.
//!
//! A conversion may depend on the value: a long becomes an int if it fits. Nothing is rounded, cut off or parsed. Nulls and infinities
//! become those of the column's type.

use super::refusal::Shown;
use proto::{View, types};

/// What the values of some types may become.
const CONVERSIONS: [(&[i8], &[i8]); 7] = [
    (&[types::BOOL, types::BYTE, types::SHORT, types::INT, types::LONG], NUMBERS),
    (&[types::REAL], &[types::SHORT, types::INT, types::LONG, types::FLOAT]),
    (&[types::FLOAT], &[types::SHORT, types::INT, types::LONG]),
    (&[types::CHAR, types::SYMBOL], &[types::CHAR, types::SYMBOL]),
    (&[types::MINUTE, types::SECOND], &[types::TIME, types::TIMESPAN]),
    (&[types::TIME], &[types::TIMESPAN]),
    (&[types::DATE], &[types::TIMESTAMP]),
];

const NUMBERS: &[i8] = &[types::SHORT, types::INT, types::LONG, types::REAL, types::FLOAT];

/// Whole numbers up to this have a value of their own as a real, and as a float.
const REAL_WHOLE: u64 = 1 << 24;
const FLOAT_WHOLE: u64 = 1 << 53;

const DAY_NS: i64 = proto::time::DAY_NS;
const SECOND_NS: i64 = 1_000_000_000;
const MILLISECOND_NS: i64 = 1_000_000;

/// Why a value was not converted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mismatch {
    /// Its type is never converted to that of the column.
    Type,
    /// The column's type does not have this value.
    Value,
}

/// One value, whatever its type.
#[derive(Clone, Copy)]
enum Item<'a> {
    Null,
    Infinity { is_negative: bool },
    Whole(i64),
    Float(f64),
    Text(&'a [u8]),
}

/// Appends one item, without head, of a column of type `to`: an atom, the string of a symbol or character, or `::` for a null.
pub(super) fn object(object: &View<'_>, to: i8, out: &mut Vec<u8>) -> Result<(), Mismatch> {
    if object.is_null() {
        return null(to, out);
    }
    if let Some(text) = object.chars() {
        return convert(types::CHAR, Item::Text(text), to, out);
    }
    let ty = object.type_code().checked_neg().filter(|ty| *ty > 0).ok_or(Mismatch::Type)?;
    if let Some(text) = object.symbol() {
        return convert(ty, Item::Text(text), to, out);
    }
    item(ty, object.raw().get(1..).unwrap_or_default(), to, out)
}

/// Appends one item, given as the item of a vector of type `ty`.
pub(super) fn item(ty: i8, bytes: &[u8], to: i8, out: &mut Vec<u8>) -> Result<(), Mismatch> {
    if ty == to {
        out.extend_from_slice(bytes);
        return if ty == types::SYMBOL { end_text(bytes, out) } else { Ok(()) };
    }
    convert(ty, read(ty, bytes).ok_or(Mismatch::Type)?, to, out)
}

/// Describes a value that was not converted, as [`object`] takes it.
pub(super) fn object_in_words(object: &View<'_>) -> String {
    if let Some(text) = object.chars() {
        return text_in_words(text, "string");
    }
    let ty = object.type_code().saturating_neg();
    match object.symbol() {
        Some(text) => text_in_words(text, types::name(ty)),
        None => item_in_words(ty, object.raw().get(1..).unwrap_or_default()),
    }
}

/// Describes a value that was not converted, as [`item`] takes it.
pub(super) fn item_in_words(ty: i8, bytes: &[u8]) -> String {
    let name = types::name(ty);
    match read(ty, bytes) {
        Some(Item::Text(text)) => text_in_words(text, name),
        Some(Item::Whole(value)) if NUMBERS.contains(&ty) => format!("the {name} {value}"),
        Some(Item::Float(value)) => format!("the {name} {value}"),
        Some(Item::Null) => format!("a null {name}"),
        Some(Item::Infinity { .. }) => format!("an infinite {name}"),
        _ => format!("a {name}"),
    }
}

fn text_in_words(text: &[u8], name: &str) -> String {
    format!("the {name} \"{}\"", Shown(text))
}

/// Ends a symbol that was appended without its NUL.
fn end_text(text: &[u8], out: &mut Vec<u8>) -> Result<(), Mismatch> {
    if text.contains(&0) {
        return Err(Mismatch::Value);
    }
    out.push(0);
    Ok(())
}

fn convert(from: i8, item: Item<'_>, to: i8, out: &mut Vec<u8>) -> Result<(), Mismatch> {
    let is_known = CONVERSIONS.iter().any(|(types, targets)| types.contains(&from) && targets.contains(&to));
    if !is_known {
        return Err(Mismatch::Type);
    }
    match (item, to) {
        (Item::Null, _) => return null(to, out),
        (Item::Infinity { is_negative }, _) => infinity(is_negative, to, out),
        (Item::Whole(value), types::TIMESPAN) => {
            out.extend_from_slice(&long(value.checked_mul(unit_ns(from)))?.to_le_bytes())
        }
        (Item::Whole(value), types::TIMESTAMP) => {
            out.extend_from_slice(&long(value.checked_mul(DAY_NS))?.to_le_bytes())
        }
        (Item::Whole(value), types::TIME) => {
            let milliseconds = value.checked_mul(unit_ns(from) / MILLISECOND_NS);
            out.extend_from_slice(&int(milliseconds)?.to_le_bytes());
        }
        (Item::Whole(value), types::SHORT) => {
            let short =
                i16::try_from(value).ok().filter(|short| short.unsigned_abs() < types::INF_SHORT.unsigned_abs());
            out.extend_from_slice(&short.ok_or(Mismatch::Value)?.to_le_bytes());
        }
        (Item::Whole(value), types::INT) => out.extend_from_slice(&int(Some(value))?.to_le_bytes()),
        (Item::Whole(value), types::LONG) => out.extend_from_slice(&long(Some(value))?.to_le_bytes()),
        #[expect(clippy::cast_precision_loss, reason = "the number was compared with what the type holds")]
        (Item::Whole(value), types::REAL) if value.unsigned_abs() <= REAL_WHOLE => {
            out.extend_from_slice(&(value as f32).to_le_bytes());
        }
        #[expect(clippy::cast_precision_loss, reason = "the number was compared with what the type holds")]
        (Item::Whole(value), types::FLOAT) if value.unsigned_abs() <= FLOAT_WHOLE => {
            out.extend_from_slice(&(value as f64).to_le_bytes());
        }
        (Item::Float(value), types::FLOAT) => out.extend_from_slice(&value.to_le_bytes()),
        #[expect(
            clippy::cast_precision_loss,
            clippy::cast_possible_truncation,
            reason = "whole numbers up to 2^53 are exact"
        )]
        (Item::Float(value), types::SHORT | types::INT | types::LONG) => {
            if value.fract() != 0.0 || value.abs() > FLOAT_WHOLE as f64 {
                return Err(Mismatch::Value);
            }
            return convert(types::LONG, Item::Whole(value as i64), to, out);
        }
        (Item::Text(text), types::SYMBOL) => {
            out.extend_from_slice(text);
            return end_text(text, out);
        }
        (Item::Text([]), types::CHAR) => out.push(types::NULL_CHAR),
        (Item::Text([one]), types::CHAR) => out.push(*one),
        _ => return Err(Mismatch::Value),
    }
    Ok(())
}

/// Nanoseconds of the unit of a time of day.
const fn unit_ns(ty: i8) -> i64 {
    match ty {
        types::MINUTE => 60 * SECOND_NS,
        types::SECOND => SECOND_NS,
        _ => MILLISECOND_NS,
    }
}

/// Returns an int that is no null or infinity.
fn int(value: Option<i64>) -> Result<i32, Mismatch> {
    let int = value.and_then(|value| i32::try_from(value).ok());
    int.filter(|int| int.unsigned_abs() < types::INF_INT.unsigned_abs()).ok_or(Mismatch::Value)
}

/// Returns a long that is no null or infinity.
fn long(value: Option<i64>) -> Result<i64, Mismatch> {
    value.filter(|long| long.unsigned_abs() < types::INF_LONG.unsigned_abs()).ok_or(Mismatch::Value)
}

/// Reads an item of a vector. `None` for a type that is never converted.
fn read(ty: i8, bytes: &[u8]) -> Option<Item<'_>> {
    let whole = |value: i64, null: i64, infinity: i64| match value {
        value if value == null => Item::Null,
        value if value == infinity => Item::Infinity { is_negative: false },
        value if value == -infinity => Item::Infinity { is_negative: true },
        value => Item::Whole(value),
    };
    let float = |value: f64| match value {
        value if value.is_nan() => Item::Null,
        value if value.is_infinite() => Item::Infinity { is_negative: value < 0.0 },
        value => Item::Float(value),
    };
    Some(match ty {
        types::BOOL | types::BYTE => Item::Whole(i64::from(*bytes.first()?)),
        types::SHORT => {
            let value = i16::from_le_bytes(bytes.try_into().ok()?);
            whole(value.into(), types::NULL_SHORT.into(), types::INF_SHORT.into())
        }
        types::INT | types::DATE | types::MINUTE | types::SECOND | types::TIME => {
            let value = i32::from_le_bytes(bytes.try_into().ok()?);
            whole(value.into(), types::NULL_INT.into(), types::INF_INT.into())
        }
        types::LONG => whole(i64::from_le_bytes(bytes.try_into().ok()?), types::NULL_LONG, types::INF_LONG),
        types::REAL => float(f32::from_le_bytes(bytes.try_into().ok()?).into()),
        types::FLOAT => float(f64::from_le_bytes(bytes.try_into().ok()?)),
        types::CHAR | types::SYMBOL => Item::Text(bytes),
        _ => return None,
    })
}

/// Appends a null. Booleans and bytes have none.
fn null(to: i8, out: &mut Vec<u8>) -> Result<(), Mismatch> {
    if matches!(to, types::BOOL | types::BYTE) {
        return Err(Mismatch::Value);
    }
    let mut vector = Vec::new();
    crate::table::nulls::append_nulls(to, 1, &mut vector);
    out.extend_from_slice(vector.get(proto::HEAD_BYTES..).unwrap_or_default());
    Ok(())
}

fn infinity(is_negative: bool, to: i8, out: &mut Vec<u8>) {
    let sign = if is_negative { -1 } else { 1 };
    let float = if is_negative { f64::NEG_INFINITY } else { f64::INFINITY };
    match to {
        types::SHORT => out.extend_from_slice(&(types::INF_SHORT * sign).to_le_bytes()),
        types::LONG | types::TIMESTAMP | types::TIMESPAN => {
            out.extend_from_slice(&(types::INF_LONG * i64::from(sign)).to_le_bytes());
        }
        #[expect(clippy::cast_possible_truncation, reason = "an infinity stays one")]
        types::REAL => out.extend_from_slice(&(float as f32).to_le_bytes()),
        types::FLOAT => out.extend_from_slice(&float.to_le_bytes()),
        _ => out.extend_from_slice(&(types::INF_INT * i32::from(sign)).to_le_bytes()),
    }
}
