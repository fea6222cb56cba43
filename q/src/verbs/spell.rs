//! Items of vectors spelled into a buffer, as [`format::cell`] spells their atoms, without a value and a string for each: lines of text and JSON.

use crate::runtime::error::QError;
use crate::runtime::time::{DAY_NS, civil_from_days};
use crate::verbs::decimal;
use crate::verbs::digits::{digits, whole};
use crate::verbs::format;
use columns::kernel::num::Num;
use columns::table::Items;
use columns::table::symbol::text;

/// Appends a date; `false` for a year without four digits.
fn date(days: i64, out: &mut Vec<u8>) -> bool {
    let (year, month, day) = civil_from_days(days);
    let (Ok(year), true) = (u64::try_from(year), (1..=9999).contains(&year)) else { return false };
    digits(year, 4, out);
    out.push(b'.');
    digits(month.unsigned_abs(), 2, out);
    out.push(b'.');
    digits(day.unsigned_abs(), 2, out);
    true
}

/// Appends hours, minutes and seconds, the last ones if `shows_seconds`.
fn clock(seconds: i64, shows_seconds: bool, out: &mut Vec<u8>) {
    let seconds = seconds.unsigned_abs();
    digits(seconds / 3600, 2, out);
    out.push(b':');
    digits(seconds / 60 % 60, 2, out);
    if shows_seconds {
        out.push(b':');
        digits(seconds % 60, 2, out);
    }
}

/// Appends a time of day or a duration in nanoseconds, not negative.
fn nanoseconds(ns: i64, out: &mut Vec<u8>) {
    clock(ns / 1_000_000_000, true, out);
    out.push(b'.');
    digits((ns % 1_000_000_000).unsigned_abs(), 9, out);
}

/// Appends the sign of a number; returns its size.
fn unsigned(number: i64, out: &mut Vec<u8>) -> i64 {
    if number < 0 {
        out.push(b'-');
    }
    number.wrapping_abs()
}

/// Puts dashes between the parts of the date at `start`: text and JSON have it as in ISO 8601.
pub(crate) fn put_dashes(out: &mut [u8], start: usize) {
    out.iter_mut().skip(start).take(10).filter(|c| **c == b'.').for_each(|c| *c = b'-');
}

/// Whether an integer is neither null nor infinite.
pub(super) fn is_whole<T: Num + PartialEq>(number: T) -> bool {
    number != T::NULL && number != T::INFINITY && number != T::NEGATIVE_INFINITY
}

/// Appends the item of a row if it is of the usual kind; `false` for one that [`format::cell`] is to spell.
fn usual(items: &Items, row: usize, precision: u8, out: &mut Vec<u8>) -> bool {
    macro_rules! item {
        ($s:ident) => {
            match $s.get(row) {
                Some(item) => *item,
                None => return false,
            }
        };
        ($s:ident, plain) => {{
            let item = item!($s);
            if !is_whole(item) {
                return false;
            }
            i64::from(item)
        }};
    }
    match items {
        Items::Long(s) => whole(item!(s, plain), out),
        Items::Int(s) => whole(item!(s, plain), out),
        Items::Short(s) => whole(item!(s, plain), out),
        Items::Float(s) => match item!(s) {
            f if f.is_finite() => decimal::put(f, precision, out),
            _ => return false,
        },
        Items::Real(s) => match item!(s) {
            f if f.is_finite() => decimal::put(f64::from(f), precision, out),
            _ => return false,
        },
        Items::Sym(s) | Items::Enum(_, s) => out.extend_from_slice(text(item!(s))),
        Items::Bool(s) => out.push(b'0' + u8::from(item!(s) != 0)),
        Items::Char(s) => out.push(item!(s)),
        Items::Date(s) => return date(item!(s, plain), out),
        Items::Timestamp(s) => {
            let ns = item!(s, plain);
            if !date(ns.div_euclid(DAY_NS), out) {
                return false;
            }
            out.push(b'D');
            nanoseconds(ns.rem_euclid(DAY_NS), out);
        }
        Items::Timespan(s) => {
            let ns = unsigned(item!(s, plain), out);
            whole(ns / DAY_NS, out);
            out.push(b'D');
            nanoseconds(ns % DAY_NS, out);
        }
        Items::Minute(s) => {
            let minutes = unsigned(item!(s, plain), out);
            clock(minutes * 60, false, out);
        }
        Items::Second(s) => {
            let seconds = unsigned(item!(s, plain), out);
            clock(seconds, true, out);
        }
        Items::Time(s) => {
            let ms = unsigned(item!(s, plain), out);
            clock(ms / 1000, true, out);
            out.push(b'.');
            digits((ms % 1000).unsigned_abs(), 3, out);
        }
        _ => return false,
    }
    true
}

/// Appends the item of a row as [`format::cell`] spells it: nulls are empty.
///
/// # Errors
/// Those of the limits, if the item is no atom.
pub(crate) fn cell(items: &Items, row: usize, precision: u8, out: &mut Vec<u8>) -> Result<(), QError> {
    let start = out.len();
    if !usual(items, row, precision, out) {
        out.truncate(start);
        out.extend_from_slice(&format::cell(&items.get(row), precision)?);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use columns::table::{Element, Value, Vector};
    use proptest::prelude::*;
    use proto::types;

    /// Checks that every item is written as [`format::cell`] writes its atom.
    fn same(items: &Items, precision: u8) -> Result<(), TestCaseError> {
        for row in 0..items.len() {
            let mut spelled = Vec::new();
            cell(items, row, precision, &mut spelled).expect("an atom");
            let atom = items.get(row);
            let expected = format::cell(&atom, precision).expect("an atom");
            prop_assert_eq!(String::from_utf8_lossy(&spelled), String::from_utf8_lossy(&expected), "{:?}", atom);
        }
        Ok(())
    }

    /// A number, and numbers near bounds.
    fn longs(long: i64) -> Vec<i64> {
        let near = [i64::MIN, i64::MAX, i32::MIN.into(), i32::MAX.into(), i16::MIN.into(), i16::MAX.into(), 0, long];
        near.iter()
            .flat_map(|n| (-2..3).map(|d| n.wrapping_add(d)))
            .chain([long % 100_000, long % 10_000_000_000])
            .collect()
    }

    proptest! {
        #[test]
        fn items_are_spelled_as_their_atoms(long: i64, bits: u64, near in -1e6f64..1e6, precision in 0u8..18) {
            let longs = longs(long);
            for t in [types::LONG, types::TIMESTAMP, types::TIMESPAN] {
                same(&i64::wrap(t, longs.clone().into()), precision)?;
            }
            for t in [types::INT, types::MONTH, types::DATE, types::MINUTE, types::SECOND, types::TIME] {
                same(&i32::wrap(t, longs.iter().map(|l| *l as i32).collect()), precision)?;
            }
            same(&Items::Short(longs.iter().map(|l| *l as i16).collect()), precision)?;
            for t in [types::BOOL, types::BYTE, types::CHAR] {
                same(&u8::wrap(t, longs.iter().map(|l| (*l as u8) & if t == types::BOOL { 1 } else { 255 }).collect()), precision)?;
            }
            same(&Items::Guid(vec![u128::from(bits).to_le_bytes(), [0; 16]].into()), precision)?;
            let rounded = (near * 100.0).round() / 100.0;
            let small = [0.0, -0.0, f64::NAN, f64::INFINITY, f64::NEG_INFINITY, 0.5, 1.5, 2.5, 0.25, 1e15, 999_999.95, 9.999_999_5];
            let floats: Vec<f64> = [f64::from_bits(bits), near, rounded, -rounded, rounded + 0.005, near / 1e9, near * 1e9, near.trunc()]
                .into_iter()
                .chain(small)
                .collect();
            same(&Items::Float(floats.clone().into()), precision)?;
            same(&Items::Datetime(floats.iter().map(|f| f % 1e6).collect()), precision)?;
            same(&Items::Real(floats.iter().map(|f| *f as f32).collect()), precision)?;
        }

        #[test]
        fn decimals_are_those_of_printf(whole in -1_000_000_000_000i64..1_000_000_000_000, places in 0i32..15, precision in 1u8..16) {
            let f = whole as f64 / 10f64.powi(places);
            let half = (whole as f64 + 0.5) / 10f64.powi(places);
            same(&Items::Float(vec![f, half, f / 2.0].into()), precision)?;
        }
    }

    #[test]
    fn an_item_that_is_no_atom_is_one_line() {
        let list = Items::List(
            vec![Value::longs(vec![1, 2]), Value::Vector(Vector::from(Items::empty_of(types::DATE)))].into(),
        );
        let mut out = Vec::new();
        cell(&list, 0, 7, &mut out).expect("room");
        assert_eq!(out, b"1 2");
    }
}
