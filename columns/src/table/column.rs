//! Growing columns, filled directly from the bytes of a message.

use super::symbol::{self, TooManySymbols};
use super::value::Value;
use super::vector::{Attr, Items, Vector};
use super::wire::{self, NoData};
use crate::kernel::sym::Sym;
use crate::sys::held::{GrowingHeld, HeldReader};
use crate::sys::region::{Full, Growing, Pod, Reader};
use crate::sys::shared::Shared;
use proto::head::has_head;
use proto::{Endian, Limits, View, types};
use std::io;

/// Reason why a column rejected its input.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ColumnError {
    #[error("type: it has type {}, the schema has {}", types::name(*found), types::name(*expected))]
    Type { expected: i8, found: i8 },
    #[error("length: it has {found} rows, the other columns have {expected}")]
    Length { expected: usize, found: usize },
    #[error("badmsg: its bytes are truncated or not an object")]
    Malformed,
    #[error("wsfull: it is full at {capacity} rows")]
    Full { capacity: usize, wanted: usize },
    #[error("limit: {0}")]
    Symbols(TooManySymbols),
}

impl From<Full> for ColumnError {
    fn from(full: Full) -> ColumnError {
        ColumnError::Full { capacity: full.capacity, wanted: full.wanted }
    }
}

impl From<TooManySymbols> for ColumnError {
    fn from(full: TooManySymbols) -> ColumnError {
        ColumnError::Symbols(full)
    }
}

/// Number of rows of an update, from its first column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rows {
    /// One row: its columns are atoms.
    Single,
    /// Columns are vectors of this length.
    Many(usize),
}

impl Rows {
    pub fn count(self) -> usize {
        match self {
            Rows::Single => 1,
            Rows::Many(rows) => rows,
        }
    }
}

/// Type of an object, its count (1 for atoms), and the bytes that follow.
struct Head<'a> {
    ty: i8,
    count: usize,
    rest: &'a [u8],
}

fn head(object: &[u8]) -> Result<Head<'_>, ColumnError> {
    let (&ty, rest) = object.split_first().ok_or(ColumnError::Malformed)?;
    let ty = ty.cast_signed();
    if !has_head(ty) {
        return Ok(Head { ty, count: 1, rest });
    }
    let (head, rest) = proto::Head::split(object).ok_or(ColumnError::Malformed)?;
    Ok(Head { ty, count: head.count(), rest })
}

/// Returns the number of rows of an update, from its first column.
pub fn rows_of(first_column: &[u8]) -> Result<Rows, ColumnError> {
    let head = head(first_column)?;
    Ok(if has_head(head.ty) { Rows::Many(head.count) } else { Rows::Single })
}

/// Cache of recent symbols by their text, which saves most lookups in the process-wide table. Holds texts of up to 15 bytes.
#[derive(Debug)]
pub struct SymbolCache {
    slots: Vec<(u128, Sym)>,
}

const CACHE_BITS: u32 = 12;

impl Default for SymbolCache {
    fn default() -> SymbolCache {
        SymbolCache { slots: vec![(0, Sym::NULL); 1 << CACHE_BITS] }
    }
}

impl SymbolCache {
    pub fn used_bytes(&self) -> usize {
        size_of_val(&*self.slots)
    }

    /// Returns the symbol at the start of `bytes`, and the bytes after its NUL.
    fn next<'a>(&mut self, bytes: &'a [u8]) -> Result<(Sym, &'a [u8]), ColumnError> {
        const LOW: u128 = u128::MAX / 255;
        if let Some(window) = bytes.first_chunk::<16>() {
            let text = u128::from_le_bytes(*window);
            // The lowest set bit marks the first zero byte.
            let zeros = text.wrapping_sub(LOW) & !text & (LOW << 7);
            if zeros != 0 {
                let length = zeros.trailing_zeros() / 8;
                let text = text & !(u128::MAX << (8 * length));
                let slot = ((text ^ (text >> 64)) as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (64 - CACHE_BITS);
                let length = length as usize;
                let rest = bytes.get(length + 1..).unwrap_or_default();
                let Some(slot) = self.slots.get_mut(slot as usize) else { return Err(ColumnError::Malformed) };
                if slot.0 != text {
                    *slot = (text, symbol::intern(bytes.get(..length).unwrap_or_default())?);
                }
                return Ok((slot.1, rest));
            }
        }
        let length = bytes.iter().position(|byte| *byte == 0).ok_or(ColumnError::Malformed)?;
        let (text, rest) = bytes.split_at_checked(length).ok_or(ColumnError::Malformed)?;
        Ok((symbol::intern(text)?, rest.get(1..).unwrap_or_default()))
    }
}

/// Cells of a general list column. Strings lie one after the other in a range of their own; their values point into it.
#[derive(Debug)]
struct ListCells {
    values: GrowingHeld<Value>,
    texts: Growing<u8>,
    text_reader: Reader<u8>,
    /// Estimated heap bytes owned by values other than strings: published, and written since.
    heap_bytes: usize,
    new_heap_bytes: usize,
}

impl ListCells {
    fn reserve(capacity_bytes: usize) -> io::Result<ListCells> {
        let texts = Growing::reserve(capacity_bytes)?;
        let text_reader = texts.reader();
        let values = GrowingHeld::reserve(capacity_bytes / size_of::<Value>())?;
        Ok(ListCells { values, texts, text_reader, heap_bytes: 0, new_heap_bytes: 0 })
    }

    fn push_text(&mut self, text: &[u8]) -> Result<(), Full> {
        let start = self.texts.len();
        self.texts.extend(text)?;
        // Readers reach these bytes only through the value, which is published with its row. After a rewind they stay unused.
        self.texts.publish();
        let text = self.text_reader.first(self.texts.len()).cut(start..self.texts.len());
        self.values.push(Value::Vector(Vector { attr: Attr::None, items: Items::Char(text) }))
    }

    /// Appends a value of another column. Copies strings, so that the other column's range can be freed.
    fn push_copy(&mut self, value: &Value) -> Result<(), Full> {
        match value {
            Value::Vector(Vector { items: Items::Char(text), .. }) => self.push_text(text),
            other => self.values.push(other.clone()),
        }
    }

    /// Appends the object at the start of `bytes` as one item. Returns its length in bytes.
    fn push_object(&mut self, bytes: &[u8]) -> Result<usize, ColumnError> {
        if let Ok(Head { ty: types::CHAR, count, rest }) = head(bytes) {
            self.push_text(rest.get(..count).ok_or(ColumnError::Malformed)?)?;
            return Ok(bytes.len() - rest.len() + count);
        }
        let (view, used) =
            View::parse(bytes, Endian::Little, &Limits::default()).map_err(|_| ColumnError::Malformed)?;
        let value = wire::data(&view).map_err(|error| match error {
            NoData::Symbols(full) => full.into(),
            _ => ColumnError::Type { expected: types::LIST, found: view.type_code() },
        })?;
        if view.type_code() >= 0 {
            // Its items, and the overhead of reference counts, spare capacity and the allocator.
            self.new_heap_bytes += used + 64;
        }
        self.values.push(value)?;
        Ok(used)
    }

    /// Appends the items of a simple vector one by one, as atoms.
    fn push_items(&mut self, head: &Head<'_>, rest_of: &[u8]) -> Result<usize, ColumnError> {
        let (view, used) =
            View::parse(rest_of, Endian::Little, &Limits::default()).map_err(|_| ColumnError::Malformed)?;
        let items = match wire::data(&view) {
            Ok(value) => wire::atoms(&value).ok_or(ColumnError::Malformed)?,
            Err(NoData::Symbols(full)) => return Err(full.into()),
            Err(_) => return Err(ColumnError::Malformed),
        };
        if items.len() != head.count {
            return Err(ColumnError::Malformed);
        }
        items.into_iter().try_for_each(|item| self.values.push(item))?;
        Ok(used)
    }

    fn append(&mut self, object: &[u8], rows: Rows) -> Result<usize, ColumnError> {
        let Rows::Many(expected) = rows else { return self.push_object(object) };
        let head = head(object)?;
        if !has_head(head.ty) || head.count != expected {
            return Err(ColumnError::Length { expected, found: head.count });
        }
        if head.ty != types::LIST {
            return self.push_items(&head, object);
        }
        let mut rest = head.rest;
        for _ in 0..head.count {
            let used = self.push_object(rest)?;
            rest = rest.get(used..).ok_or(ColumnError::Malformed)?;
        }
        Ok(object.len() - rest.len())
    }

    fn publish(&mut self) {
        self.values.publish();
        self.heap_bytes += std::mem::take(&mut self.new_heap_bytes);
    }

    fn rewind(&mut self) {
        self.values.rewind();
        self.new_heap_bytes = 0;
    }

    fn used_bytes(&self) -> usize {
        self.values.used_bytes() + self.texts.used_bytes() + self.heap_bytes
    }
}

/// Appends a vector of fixed-width items, or one atom. Returns how many bytes of `object` it took.
fn append_fixed<T: Pod>(cells: &mut Growing<T>, ty: i8, object: &[u8], rows: Rows) -> Result<usize, ColumnError> {
    let head = check(ty, object, rows)?;
    let bytes = head.count.checked_mul(size_of::<T>()).and_then(|bytes| head.rest.get(..bytes));
    let bytes = bytes.ok_or(ColumnError::Malformed)?;
    cells.extend_from_bytes(bytes)?;
    Ok(object.len() - head.rest.len() + bytes.len())
}

fn append_symbols(
    cells: &mut Growing<Sym>,
    cache: &mut SymbolCache,
    object: &[u8],
    rows: Rows,
) -> Result<usize, ColumnError> {
    let head = check(types::SYMBOL, object, rows)?;
    let mut rest = head.rest;
    for _ in 0..head.count {
        let (symbol, after) = cache.next(rest)?;
        cells.push(symbol)?;
        rest = after;
    }
    Ok(object.len() - rest.len())
}

/// Returns the head of a column of a simple type, after checking its type and number of rows.
fn check(ty: i8, object: &[u8], rows: Rows) -> Result<Head<'_>, ColumnError> {
    let head = head(object)?;
    let expected_type = if rows == Rows::Single { -ty } else { ty };
    // `()` is the empty column of every type.
    let is_empty_list = rows == Rows::Many(0) && head.ty == types::LIST && head.count == 0;
    if head.ty != expected_type && !is_empty_list {
        return Err(ColumnError::Type { expected: ty, found: head.ty });
    }
    if head.count != rows.count() {
        return Err(ColumnError::Length { expected: rows.count(), found: head.count });
    }
    Ok(head)
}

/// `variant: item type, type codes => constructors` for each item width: the enums, and the code that is the same for all.
macro_rules! cells {
    ($($cells:ident: $item:ty { $($code:ident => $items:ident),* })*) => {
        #[derive(Debug)]
        enum Cells { $($cells(Growing<$item>),)* List(ListCells) }

        #[derive(Clone, Debug)]
        enum CellsReader { $($cells(Reader<$item>),)* List(HeldReader<Value>) }

        impl Cells {
            /// Reserves address space for `capacity_bytes` of items.
            fn reserve(ty: i8, capacity_bytes: usize) -> io::Result<Cells> {
                Ok(match ty {
                    $($(types::$code)|* => Cells::$cells(Growing::reserve(capacity_bytes / size_of::<$item>())?),)*
                    _ => Cells::List(ListCells::reserve(capacity_bytes)?),
                })
            }

            fn append(&mut self, ty: i8, cache: &mut SymbolCache, object: &[u8], rows: Rows)
            -> Result<usize, ColumnError> {
                match self {
                    Cells::Symbols(cells) => append_symbols(cells, cache, object, rows),
                    Cells::List(cells) => cells.append(object, rows),
                    $(#[allow(unreachable_patterns)] Cells::$cells(cells) => append_fixed(cells, ty, object, rows),)*
                }
            }

            /// Appends rows of a column of the same kind.
            fn copy(&mut self, from: &CellsReader, rows: std::ops::Range<usize>) -> Result<(), Full> {
                match (self, from) {
                    $((Cells::$cells(cells), CellsReader::$cells(from)) => {
                        cells.extend(from.first(rows.end).get(rows).unwrap_or_default())
                    })*
                    (Cells::List(cells), CellsReader::List(from)) => {
                        let values = from.first(rows.end).cut(rows);
                        values.iter().try_for_each(|value| cells.push_copy(value))
                    }
                    _ => Ok(()),
                }
            }

            fn publish(&mut self) {
                match self { $(Cells::$cells(cells) => cells.publish(),)* Cells::List(cells) => cells.publish() }
            }

            fn rewind(&mut self) {
                match self { $(Cells::$cells(cells) => cells.rewind(),)* Cells::List(cells) => cells.rewind() }
            }

            fn used_bytes(&self) -> usize {
                match self { $(Cells::$cells(cells) => cells.used_bytes(),)* Cells::List(cells) => cells.used_bytes() }
            }

            fn reader(&self) -> CellsReader {
                match self {
                    $(Cells::$cells(cells) => CellsReader::$cells(cells.reader()),)*
                    Cells::List(cells) => CellsReader::List(cells.values.reader()),
                }
            }
        }

        impl CellsReader {
            fn items(&self, ty: i8, rows: usize) -> Items {
                match (self, ty) {
                    $($((CellsReader::$cells(cells), types::$code) => Items::$items(cells.first(rows)),)*)*
                    (CellsReader::List(cells), _) => Items::List(cells.first(rows)),
                    // Unreachable: a column has the cells of its type.
                    _ => Items::List(Shared::default()),
                }
            }
        }
    };
}

cells! {
    Bytes: u8 { BOOL => Bool, BYTE => Byte, CHAR => Char }
    Guids: [u8; 16] { GUID => Guid }
    Shorts: i16 { SHORT => Short }
    Ints: i32 { INT => Int, MONTH => Month, DATE => Date, MINUTE => Minute, SECOND => Second, TIME => Time }
    Longs: i64 { LONG => Long, TIMESTAMP => Timestamp, TIMESPAN => Timespan }
    Reals: f32 { REAL => Real }
    Floats: f64 { FLOAT => Float, DATETIME => Datetime }
    Symbols: Sym { SYMBOL => Sym }
}

/// A growing column of any kdb+ type.
#[derive(Debug)]
pub struct Column {
    ty: i8,
    cells: Cells,
}

impl Column {
    /// Reserves address space for a column of type code `ty`: `capacity_bytes` of items (for a general list, of values,
    /// and as much again of strings).
    pub fn reserve(ty: i8, capacity_bytes: usize) -> io::Result<Column> {
        Ok(Column { ty, cells: Cells::reserve(ty, capacity_bytes)? })
    }

    /// Appends the items of the little-endian object at the start of `object`; readers see them after [`Column::publish`].
    /// Returns how many bytes the object takes. After an error the caller must call [`Column::rewind`].
    pub fn append_wire(&mut self, cache: &mut SymbolCache, object: &[u8], rows: Rows) -> Result<usize, ColumnError> {
        self.cells.append(self.ty, cache, object, rows)
    }

    /// Appends `rows` of another column of the same type.
    pub fn copy(&mut self, from: &ColumnReader, rows: std::ops::Range<usize>) -> Result<(), Full> {
        self.cells.copy(&from.cells, rows)
    }

    /// Makes all written items visible to readers.
    pub fn publish(&mut self) {
        self.cells.publish();
    }

    /// Discards the written items that are not published.
    pub fn rewind(&mut self) {
        self.cells.rewind();
    }

    /// Bytes of the items: exact for simple types, with an estimate for the memory that nested values own.
    pub fn used_bytes(&self) -> usize {
        self.cells.used_bytes()
    }

    /// Returns a reader of this column for other threads.
    pub fn reader(&self) -> ColumnReader {
        ColumnReader { ty: self.ty, cells: self.cells.reader() }
    }
}

/// Read handle of a column.
#[derive(Clone, Debug)]
pub struct ColumnReader {
    ty: i8,
    cells: CellsReader,
}

impl ColumnReader {
    /// Returns the first `rows` items, without a copy.
    pub fn items(&self, rows: usize) -> Items {
        self.cells.items(self.ty, rows)
    }
}
