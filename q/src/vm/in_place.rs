//! Updates simple vectors in place: replaces or appends an item.

use super::quick::quick;
use crate::runtime::op::Op;
use crate::runtime::scalar::Scalar;
use columns::sys::shared::Shared;
use columns::table::{Attr, Items, Value, Vector};

/// Result of an attempt to update in place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Change {
    Done,
    /// The items have other references; nothing changed.
    Shared,
    /// The general path is needed, or the update is an error; nothing changed.
    Otherwise,
}

macro_rules! simple {
    ($items:expr, $body:ident) => {
        match $items {
            Items::Bool(items) => $body!(items, Bool, u8::from, |old: &u8| *old != 0),
            Items::Byte(items) => $body!(items, Byte, |new| new, |old: &u8| *old),
            Items::Short(items) => $body!(items, Short, |new| new, |old: &i16| *old),
            Items::Int(items) => $body!(items, Int, |new| new, |old: &i32| *old),
            Items::Long(items) => $body!(items, Long, |new| new, |old: &i64| *old),
            Items::Real(items) => $body!(items, Real, |new| new, |old: &f32| *old),
            Items::Float(items) => $body!(items, Float, |new| new, |old: &f64| *old),
            Items::Char(items) => $body!(items, Char, |new| new, |old: &u8| *old),
            Items::Sym(items) => $body!(items, Sym, |new| new, |old: &columns::table::Sym| *old),
            Items::Timestamp(items) => $body!(items, Timestamp, |new| new, |old: &i64| *old),
            Items::Date(items) => $body!(items, Date, |new| new, |old: &i32| *old),
            Items::Timespan(items) => $body!(items, Timespan, |new| new, |old: &i64| *old),
            Items::Time(items) => $body!(items, Time, |new| new, |old: &i32| *old),
            _ => Change::Otherwise,
        }
    };
}

fn changed<T: columns::sys::shared::Nests>(items: &mut Shared<T>, change: impl FnOnce(&mut Vec<T>)) -> Change {
    if items.edit(change).is_some() { Change::Done } else { Change::Shared }
}

/// `x[y]:value` or `x[y]op:value` on a simple vector, with atoms.
#[inline]
pub(super) fn put(x: &mut Value, y: Scalar, value: Scalar, op: Option<Op>) -> Change {
    let (Value::Vector(vector), Scalar::Long(row)) = (x, y) else { return Change::Otherwise };
    let Ok(row) = usize::try_from(row) else { return Change::Otherwise };
    macro_rules! put {
        ($items:ident, $variant:ident, $to:expr, $from:expr) => {{
            let Some(old) = $items.get(row) else { return Change::Otherwise };
            let new = match op {
                None => value,
                Some(op) => match quick(op, &Scalar::$variant($from(old)), &value) {
                    Some(new) => new,
                    None => return Change::Otherwise,
                },
            };
            let Scalar::$variant(new) = new else { return Change::Otherwise };
            changed($items, |items| {
                if let Some(slot) = items.get_mut(row) {
                    *slot = $to(new);
                }
            })
        }};
    }
    let change = simple!(&mut vector.items, put);
    if change == Change::Done {
        vector.attr = Attr::None;
    }
    change
}

/// `x,:value` on a simple vector, with an atom.
#[inline]
pub(crate) fn push(x: &mut Value, value: Scalar) -> Change {
    let Value::Vector(Vector { attr: Attr::None, items }) = x else { return Change::Otherwise };
    macro_rules! push {
        ($items:ident, $variant:ident, $to:expr, $from:expr) => {{
            let Scalar::$variant(new) = value else { return Change::Otherwise };
            changed($items, |items| items.push($to(new)))
        }};
    }
    simple!(items, push)
}

/// Copies a vector's items, so that no other reference shares them.
pub(super) fn separate(x: &mut Value) {
    macro_rules! separate {
        ($items:ident, $variant:ident, $to:expr, $from:expr) => {{
            *$items = $items.to_vec().into();
            Change::Done
        }};
    }
    if let Value::Vector(vector) = x {
        simple!(&mut vector.items, separate);
    }
}
