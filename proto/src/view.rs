//! Borrowed reading of an object, in either byte order.
//!
//! [`View::parse`] walks the object once; what is read from it afterwards cannot run out of bytes. A view is two words
//! and a byte order, copies freely, and allocates nothing.

mod nested;
mod vector;

pub use nested::{DictView, ListIter, ListView, TableView};
pub use vector::{SymbolIter, VectorView};

use crate::cursor::Cursor;
use crate::decode;
use crate::encode;
use crate::error::{DecodeError, EncodeError};
use crate::head::Head;
use crate::header::Endian;
use crate::item::Item;
use crate::limits::Limits;
use crate::types;
use crate::value::Value;
use crate::walk;

/// One object in somebody else's bytes.
#[derive(Clone, Copy, Debug)]
pub struct View<'a> {
    raw: &'a [u8],
    endian: Endian,
}

/// The generic null `::`.
const NULL: &[u8] = &[types::UNARY.cast_unsigned(), types::UNARY_NULL];

impl<'a> View<'a> {
    /// Checks the object at the start of `bytes` and answers it with its length in bytes.
    ///
    /// # Errors
    /// Those of [`walk::object`].
    pub fn parse(bytes: &'a [u8], endian: Endian, limits: &Limits) -> Result<(View<'a>, usize), DecodeError> {
        let used = walk::object(bytes, endian, limits)?;
        Ok((View { raw: bytes.get(..used).unwrap_or(NULL), endian }, used))
    }

    /// The object at the cursor, which was walked as part of another one.
    fn next(cursor: &mut Cursor<'a>) -> Option<View<'a>> {
        let bytes = cursor.rest();
        let start = cursor.offset();
        walk::skip(cursor).ok()?;
        let used = cursor.offset().checked_sub(start)?;
        Some(View { raw: bytes.get(..used)?, endian: cursor.endian })
    }

    /// Bytes that [`walk::object`] has passed as one whole object, not walked again. Other bytes give an object that
    /// reads as shorter than it says, never a panic.
    pub const fn walked(raw: &'a [u8], endian: Endian) -> View<'a> {
        View { raw, endian }
    }

    /// The last object inside another one: it takes all that is left.
    fn to_end(cursor: &Cursor<'a>) -> View<'a> {
        View { raw: cursor.rest(), endian: cursor.endian }
    }

    /// The object's exact bytes.
    pub fn raw(&self) -> &'a [u8] {
        self.raw
    }

    /// Byte order of [`View::raw`].
    pub fn endian(&self) -> Endian {
        self.endian
    }

    /// Type code: negative for atoms, -128 for an error.
    pub fn type_code(&self) -> i8 {
        self.raw.first().map_or(types::UNARY, |ty| ty.cast_signed())
    }

    fn body(&self) -> Cursor<'a> {
        let mut cursor = Cursor::new(self.raw, self.endian);
        // The type byte is there: a view holds a whole object.
        let _ = cursor.byte();
        cursor
    }

    /// What `count` says: items, pairs or rows; 1 for atoms and functions.
    pub fn count(&self) -> usize {
        if let Some(vector) = self.vector() {
            vector.count
        } else if let Some(list) = self.list() {
            list.count
        } else if let Some(table) = self.table() {
            table.rows()
        } else if let Some(dict) = self.dict() {
            dict.keys.count()
        } else {
            1
        }
    }

    /// The value of a fixed-width atom that holds such items, for example `atom::<i64>()` of a long or a timestamp.
    pub fn atom<T: Item>(&self) -> Option<T> {
        let ty = self.type_code();
        if ty < 0 && T::holds(ty) { self.body().item().ok() } else { None }
    }

    /// The bytes of a symbol atom.
    pub fn symbol(&self) -> Option<&'a [u8]> {
        if self.type_code() == types::SYMBOL_ATOM { self.body().text().ok() } else { None }
    }

    /// The bytes of a character vector, or of a character atom.
    pub fn chars(&self) -> Option<&'a [u8]> {
        match self.type_code() {
            types::CHAR => self.vector().map(|vector| vector.items),
            types::CHAR_ATOM => Some(self.body().rest()),
            _ => None,
        }
    }

    /// The bytes of a symbol, a character vector or a character: the ways in which clients spell a name.
    pub fn text(&self) -> Option<&'a [u8]> {
        self.symbol().or_else(|| self.chars())
    }

    /// The text of an error object.
    pub fn error(&self) -> Option<&'a [u8]> {
        if self.type_code() == types::ERROR { self.body().text().ok() } else { None }
    }

    /// Whether this is the generic null `::`.
    pub fn is_null(&self) -> bool {
        self.raw == NULL
    }

    /// The object as a vector of a simple type, symbols included.
    pub fn vector(&self) -> Option<VectorView<'a>> {
        let ty = self.type_code();
        if !(types::BOOL..=types::TIME).contains(&ty) {
            return None;
        }
        let mut cursor = self.body();
        let head = Head::after_type(ty, &mut cursor).ok()?;
        Some(VectorView { ty, attr: head.attr, count: head.count(), items: cursor.rest(), endian: self.endian })
    }

    /// The object as a general list.
    pub fn list(&self) -> Option<ListView<'a>> {
        if self.type_code() != types::LIST {
            return None;
        }
        let mut cursor = self.body();
        let head = Head::after_type(types::LIST, &mut cursor).ok()?;
        Some(ListView { attr: head.attr, count: head.count(), body: cursor.rest(), endian: self.endian })
    }

    /// The object as a dictionary; a keyed table is one.
    pub fn dict(&self) -> Option<DictView<'a>> {
        let ty = self.type_code();
        if !matches!(ty, types::DICT | types::SORTED_DICT) {
            return None;
        }
        let mut cursor = self.body();
        let keys = View::next(&mut cursor)?;
        let values = View::to_end(&cursor);
        Some(DictView { sorted: ty == types::SORTED_DICT, keys, values })
    }

    /// The object as a table.
    pub fn table(&self) -> Option<TableView<'a>> {
        if self.type_code() != types::TABLE {
            return None;
        }
        let mut cursor = self.body();
        let attr = cursor.byte().ok()?;
        let body = View::to_end(&cursor).dict()?;
        Some(TableView { attr, names: body.keys.vector()?, columns: body.values.list()? })
    }

    /// Namespace and source of a lambda.
    pub fn lambda(&self) -> Option<(&'a [u8], &'a [u8])> {
        if self.type_code() != types::LAMBDA {
            return None;
        }
        let mut cursor = self.body();
        let namespace = cursor.text().ok()?;
        Some((namespace, View::to_end(&cursor).chars()?))
    }

    /// The object as an owned value.
    pub fn to_value(&self) -> Value {
        // A view was walked, and what was walked can be built.
        decode::build_object(&mut Cursor::new(self.raw, self.endian)).unwrap_or(Value::NULL)
    }

    /// Appends the object to `out` in little-endian order: a copy where it is so already.
    ///
    /// # Errors
    /// `TooDeep` for an object that a limit far above the default let in.
    pub fn append_little(&self, out: &mut Vec<u8>) -> Result<(), EncodeError> {
        match self.endian {
            Endian::Little => out.extend_from_slice(self.raw),
            Endian::Big => encode::encode_object(&self.to_value(), out)?,
        }
        Ok(())
    }
}
