//! Search of a simple vector for one atom.

use columns::kernel::num::Int;
use columns::table::{Items, Raw, Value};

/// Position of an atom in a simple vector of the same type. An integer is found in vectors of all integer types.
pub(crate) fn position_of_atom(items: &Items, atom: &Value) -> Option<usize> {
    fn first<T: Copy>(items: &[T], is_it: impl Fn(T) -> bool) -> Option<usize> {
        items.iter().position(|item| is_it(*item))
    }
    if let Some(number) = atom.as_long().filter(|_| !matches!(atom, Value::Char(_))) {
        return match items.raw() {
            Raw::U8(items) => first(items, |item| i64::from(item) == number),
            Raw::I16(items) => first(items, |item| Int::to_long(item) == number),
            Raw::I32(items) => first(items, |item| Int::to_long(item) == number),
            Raw::I64(items) => first(items, |item| item == number),
            _ => None,
        };
    }
    if items.type_number() != atom.type_number().wrapping_neg() {
        return None;
    }
    match (items.raw(), atom.to_items().raw()) {
        (Raw::U8(items), Raw::U8([sought])) => first(items, |item| item == *sought),
        (Raw::F32(items), Raw::F32([sought])) => {
            first(items, |item| item == *sought || item.is_nan() && sought.is_nan())
        }
        (Raw::F64(items), Raw::F64([sought])) => {
            first(items, |item| item == *sought || item.is_nan() && sought.is_nan())
        }
        (Raw::Guid(items), Raw::Guid([sought])) => first(items, |item| item == *sought),
        (Raw::Sym(items), Raw::Sym([sought])) => first(items, |item| item == *sought),
        _ => None,
    }
}
