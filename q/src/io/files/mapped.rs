//! Lists as kdb+ maps them since 3.6: references into the file `NAME#`, whose objects name symbols by their position in `NAME##`.
//!
//! A reference is an offset in its lower seven bytes, flags in the upper one. An object has a head of 16 bytes (`fb`, 0, type, attribute, 32-bit
//! reference count, 64-bit count) before its items; an atom has one byte, and a short vector two: 0x7f and the signed type, then the count.

use super::fixed::{number, vector, width};
use crate::runtime::context::Context;
use crate::runtime::error::QError;
use crate::runtime::limits;
use crate::runtime::values::{Result, type_error};
use columns::sys::shared::Shared;
use columns::table::wire::attribute;
use columns::table::{Attr, Items, Sym, Table, Value, Vector};
use proto::types;
use std::cell::OnceCell;
use std::ops::Range;

/// Bytes before the items of an object, and what their number is a multiple of.
pub(super) const HEAD_BYTES: usize = 16;
pub(super) const ALIGNED_BYTES: usize = 16;

/// Mark of an object with a head.
pub(super) const OBJECT: u8 = 0xfb;

/// Head of an object without one, for type 0.
const SHORT: u8 = 0x7f;

/// Type of a list of references.
pub(super) const LIST: i8 = 77;
/// Bits of an offset.
const OFFSET: u64 = (1 << 56) - 1;
/// Flag of an object that is copied when it is read: any but a list of references and a vector with a head.
pub(super) const WHOLE: u64 = 1 << 56;

/// First byte of an atom or a short vector of this type.
pub(super) fn head_of(t: i8) -> u8 {
    SHORT.wrapping_add_signed(t)
}

/// Bytes of a symbol's position in an object without a head.
const SHORT_INDEX: usize = 4;

/// Bytes of the parts that strings are cut out of. A string that is kept keeps its part.
const PART_BYTES: usize = 1 << 16;

/// The objects after the head of their file, and the symbols in them.
pub(super) struct Heap {
    objects: Vec<u8>,
    /// Copies of the objects for strings, made when the first string of each is read.
    parts: Vec<OnceCell<Shared<u8>>>,
    symbols: Vec<Sym>,
    /// Offset in the file at which `objects` begins.
    start: u64,
}

/// The offset in a reference.
pub(super) fn offset(reference: [u8; 8]) -> u64 {
    u64::from_le_bytes(reference) & OFFSET
}

/// The list whose references are these bytes.
pub(super) fn list(context: &mut Context, heap: &Heap, references: &[u8]) -> Result {
    limits::made(heap.list(context, references)?)
}

fn damaged() -> QError {
    QError::with("badtail", "an object of a mapped list is not whole")
}

impl Heap {
    pub fn new(objects: Vec<u8>, symbols: Vec<Sym>) -> Heap {
        let parts = objects.len().div_ceil(PART_BYTES);
        Heap { objects, parts: (0..parts).map(|_| OnceCell::new()).collect(), symbols, start: 0 }
    }

    /// These objects as those that are at an offset in the file. Unless strings share the bytes of their parts, each has a copy of its own.
    pub fn part_of_file(self, start: u64, shares: bool) -> Heap {
        let parts = if shares { self.parts } else { Vec::new() };
        Heap { start, parts, ..self }
    }

    pub fn into_symbols(self) -> Vec<Sym> {
        self.symbols
    }

    /// Bytes of a string: short ones share those of their part.
    fn chars(&self, within: Range<usize>) -> Shared<u8> {
        let bytes = self.objects.get(within.clone()).unwrap_or_default();
        let (at, from) = (within.start / PART_BYTES, within.start % PART_BYTES);
        match self.parts.get(at) {
            Some(part) if from + bytes.len() <= PART_BYTES && !bytes.is_empty() => {
                let start = at * PART_BYTES;
                let end = self.objects.len().min(start + PART_BYTES);
                let part = part.get_or_init(|| self.objects.get(start..end).unwrap_or_default().to_vec().into());
                part.cut(from..from + bytes.len())
            }
            _ => bytes.to_vec().into(),
        }
    }

    fn list(&self, context: &mut Context, references: &[u8]) -> Result {
        let references = references.as_chunks().0;
        let mut items = Vec::with_capacity(references.len());
        for reference in references {
            let at = offset(*reference).checked_sub(self.start).ok_or_else(damaged)?;
            let at = usize::try_from(at).map_err(|_| damaged())?;
            items.push(self.object(context, at)?);
        }
        Ok(Vector { attr: Attr::Mapped(LIST), items: Items::List(items.into()) }.into())
    }

    fn object(&self, context: &mut Context, at: usize) -> Result {
        context.enter()?;
        let rest = self.objects.get(at..).unwrap_or_default();
        match rest {
            [OBJECT, _, t, attr, ..] => {
                let count = usize::try_from(number::<8>(rest, 8)).map_err(|_| damaged())?;
                self.whole(context, t.cast_signed(), attribute(*attr), count, at + HEAD_BYTES)
            }
            [head, count, ..] if *head > SHORT => {
                let t = (*head - SHORT).cast_signed();
                self.items(t, Attr::None, usize::from(*count), SHORT_INDEX, at + 2)
            }
            [head, ..] if *head < SHORT => {
                let t = (SHORT - *head).cast_signed();
                Ok(self.items(t, Attr::None, 1, SHORT_INDEX, at + 1)?.at(0))
            }
            _ => Err(QError::with("nyi", "mapped lists with items of this kind")),
        }
    }

    /// So many bytes of the objects.
    fn bytes(&self, from: usize, count: usize, width: usize) -> std::result::Result<Range<usize>, QError> {
        let end = count.checked_mul(width).and_then(|bytes| from.checked_add(bytes));
        end.filter(|end| *end <= self.objects.len()).map(|end| from..end).ok_or_else(damaged)
    }

    fn references(&self, from: usize, count: usize) -> std::result::Result<&[u8], QError> {
        let within = self.bytes(from, count, 8)?;
        self.objects.get(within).ok_or_else(damaged)
    }

    /// Reads an object whose head is before `from`.
    fn whole(&self, context: &mut Context, t: i8, attr: Attr, count: usize, from: usize) -> Result {
        match t {
            LIST => self.list(context, self.references(from, count)?),
            types::TABLE | types::DICT => {
                let parts = self.list(context, self.references(from, 2)?)?;
                let (keys, values) = (parts.at(0), parts.at(1));
                if t == types::DICT {
                    return match keys.count() == values.count() {
                        true => Ok(Value::dict(keys, values)),
                        false => Err(damaged()),
                    };
                }
                let names = keys.as_symbols().ok_or_else(damaged)?.to_vec();
                let columns: Option<Vec<Vector>> = values.items().into_iter().map(Value::into_vector).collect();
                let columns = columns.filter(|c| c.len() == names.len()).ok_or_else(damaged)?;
                let table = Table::new(names, columns);
                match table.columns.iter().all(|c| c.len() == table.count()) {
                    true => Ok(Value::table(table)),
                    false => Err(damaged()),
                }
            }
            _ => self.items(t, attr, count, 8, from),
        }
    }

    /// Reads a vector of `count` items. A symbol is a position in the list of symbols, `index` bytes wide.
    fn items(&self, t: i8, attr: Attr, count: usize, index: usize, from: usize) -> Result {
        let is_symbols = matches!(t, types::SYMBOL | types::ENUM);
        let each =
            if is_symbols { index } else { width(t).and_then(|w| usize::try_from(w).ok()).ok_or_else(type_error)? };
        let within = self.bytes(from, count, each)?;
        if t == types::CHAR {
            return Ok(Vector { attr, items: Items::Char(self.chars(within)) }.into());
        }
        let body = self.objects.get(within).ok_or_else(damaged)?;
        if !is_symbols {
            return vector(t, attr, count, body);
        }
        let name = |place: &[u8]| {
            let place = place.iter().rev().fold(0u64, |all, b| all << 8 | u64::from(*b));
            usize::try_from(place).ok().and_then(|at| self.symbols.get(at)).copied().unwrap_or(Sym::NULL)
        };
        let items = Items::Sym(body.chunks_exact(each.max(1)).map(name).collect());
        Ok(Vector { attr, items }.into())
    }
}
