//! Upper bounds on the memory that primitives need for result and scratch space, checked before they run. Primitives
//! without an entry need little, or check for themselves.

use crate::runtime::error::QError;
use crate::runtime::limits;
use columns::table::{Items, Value, Vector};

/// Size of the arguments.
#[derive(Clone, Copy, Default)]
struct Size {
    /// Items of simple vectors, and their bytes.
    items: usize,
    bytes: usize,
    /// Items of lists.
    listed: usize,
}

impl Size {
    fn and(self, other: Size) -> Size {
        Size {
            items: self.items.saturating_add(other.items),
            bytes: self.bytes.saturating_add(other.bytes),
            listed: self.listed.saturating_add(other.listed),
        }
    }

    fn of_vector(v: &Vector) -> Size {
        match &v.items {
            Items::List(list) => {
                let inner = list.iter().map(|item| match item {
                    Value::Vector(Vector { items: Items::List(l), .. }) => Size { listed: l.len(), ..Size::default() },
                    Value::Vector(v) => Size::of_vector(v),
                    _ => Size::default(),
                });
                inner.fold(Size { listed: list.len(), ..Size::default() }, Size::and)
            }
            simple => Size { items: v.len(), bytes: simple.held_bytes(), listed: 0 },
        }
    }

    fn of(x: &Value) -> Size {
        match x {
            Value::Vector(v) => Size::of_vector(v),
            Value::Dict(d) => Size::of(&d.keys).and(Size::of(&d.values)),
            Value::Table(t) => t.columns.iter().map(Size::of_vector).fold(Size::default(), Size::and),
            _ => Size::default(),
        }
    }
}

/// Maximum bytes needed per byte, per simple item and per list item of the arguments; `None` without an entry.
fn rates(name: &str) -> Option<(usize, usize, usize)> {
    const VALUE: usize = size_of::<Value>();
    Some(match name {
        // A copy, by row numbers.
        "reverse" | "rotate" | "prev" | "next" | "xprev" => (1, 8, VALUE + 8),
        "fills" => (1, 9, 2 * VALUE),
        // Row numbers, the sort's scratch space, the copy.
        "iasc" | "idesc" | "rank" | "xrank" => (1, 20, VALUE + 20),
        "asc" | "desc" | "xasc" | "xdesc" => (2, 8, VALUE + 8),
        // Items are appended to a vector with 50% spare capacity.
        "raze" => (2, 0, 2 * VALUE),
        // One string per item: its bytes, the vector, the reference count.
        "string" => (1, 2 * VALUE, 2 * VALUE),
        // As floats and back.
        "mavg" | "mcount" | "mdev" | "ema" | "avgs" => (0, 24, VALUE),
        "msum" | "mmax" | "mmin" => (1, 24, VALUE),
        "sums" | "prds" | "mins" | "maxs" => (1, 4, VALUE),
        "med" | "cov" | "scov" | "cor" | "lsq" => (0, 16, 0),
        "deltas" | "ratios" => (1, 16, VALUE),
        "like" | "within" | "differ" => (0, 2, VALUE),
        "upper" | "lower" | "hsym" => (1, 0, VALUE),
        "union" => (2, 8, 2 * VALUE),
        "inter" | "except" => (1, 16, VALUE),
        "lj" | "ljf" | "ij" | "ijf" | "pj" | "uj" | "ujf" => (2, 8, VALUE),
        ".Q.btoa" | ".Q.atob" | ".Q.sha1" | "md5" => (2, 0, 0),
        _ => return None,
    })
}

/// Nothing is checked if the arguments are atoms and vectors of fewer items than this.
const SMALL_ITEMS: usize = 1 << 10;

/// Checks that the memory a primitive needs for these arguments is within the limit.
///
/// # Errors
/// `wsfull` if it is not.
pub(crate) fn ask(name: &str, arguments: &[&Value]) -> Result<(), QError> {
    if arguments.iter().all(|x| is_small(x)) {
        return Ok(());
    }
    let Some((byte, item, listed)) = rates(name) else { return Ok(()) };
    let size = arguments.iter().map(|x| Size::of(x)).fold(Size::default(), Size::and);
    let parts = [(size.bytes, byte), (size.items, item), (size.listed, listed)];
    limits::room(parts.into_iter().map(|(many, each)| many.saturating_mul(each)).fold(0, usize::saturating_add))
}

fn is_small(x: &Value) -> bool {
    match x {
        Value::Vector(Vector { items: Items::List(l), .. }) => l.is_empty(),
        Value::Vector(v) => v.len() < SMALL_ITEMS,
        Value::Dict(_) | Value::Table(_) => false,
        _ => true,
    }
}
