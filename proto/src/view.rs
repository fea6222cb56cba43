//! Zero-copy reading of an object, in either byte order.
//!
//! [`View::parse`] walks the object once; reads from the view cannot run out of bytes. A view is two words and a byte
//! order; it is `Copy` and allocates nothing.

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

/// One object in borrowed bytes.
#[derive(Clone, Copy, Debug)]
pub struct View<'a> {
    raw: &'a [u8],
    endian: Endian,
}

/// The generic null `::`.
const NULL: &[u8] = &[types::UNARY.cast_unsigned(), types::UNARY_NULL];

impl<'a> View<'a> {
    /// Checks the object at the start of `bytes`. Returns its view and its length in bytes.
    ///
    /// # Errors
    /// Those of [`walk::object`].
    pub fn parse(bytes: &'a [u8], endian: Endian, limits: &Limits) -> Result<(View<'a>, usize), DecodeError> {
        let used = walk::object(bytes, endian, limits)?;
        Ok((View { raw: bytes.get(..used).unwrap_or(NULL), endian }, used))
    }

    /// Reads the object at the cursor, which was walked as part of another one.
    fn next(cursor: &mut Cursor<'a>) -> Option<View<'a>> {
        let bytes = cursor.rest();
        let start = cursor.offset();
        walk::skip(cursor).ok()?;
        let used = cursor.offset().checked_sub(start)?;
        Some(View { raw: bytes.get(..used)?, endian: cursor.endian })
    }

    /// Makes a view of bytes that [`walk::object`] has accepted as one whole object, without a second walk. Other bytes
    /// give a view that reads as shorter than it declares, never a panic.
    pub const fn walked(raw: &'a [u8], endian: Endian) -> View<'a> {
        View { raw, endian }
    }

    /// Reads the last object inside another one, which takes all remaining bytes.
    fn to_end(cursor: &Cursor<'a>) -> View<'a> {
        View { raw: cursor.rest(), endian: cursor.endian }
    }

    /// Returns the exact bytes of the object.
    pub fn raw(&self) -> &'a [u8] {
        self.raw
    }

    /// Returns the byte order of [`View::raw`].
    pub fn endian(&self) -> Endian {
        self.endian
    }

    /// Returns the type code: negative for atoms, -128 for an error.
    pub fn type_code(&self) -> i8 {
        self.raw.first().map_or(types::UNARY, |ty| ty.cast_signed())
    }

    fn body(&self) -> Cursor<'a> {
        let mut cursor = Cursor::new(self.raw, self.endian);
        // A view holds a whole object, so the type byte exists.
        let _ = cursor.byte();
        cursor
    }

    /// Returns q's `count`: items, pairs or rows; 1 for atoms and functions.
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

    /// Returns the value of a fixed-width atom if its type holds `T`, for example `atom::<i64>()` of a long or a timestamp.
    pub fn atom<T: Item>(&self) -> Option<T> {
        let ty = self.type_code();
        if ty < 0 && T::holds(ty) { self.body().item().ok() } else { None }
    }

    /// Returns the bytes of a symbol atom.
    pub fn symbol(&self) -> Option<&'a [u8]> {
        if self.type_code() == types::SYMBOL_ATOM { self.body().text().ok() } else { None }
    }

    /// Returns the bytes of a character vector or atom.
    pub fn chars(&self) -> Option<&'a [u8]> {
        match self.type_code() {
            types::CHAR => self.vector().map(|vector| vector.items),
            types::CHAR_ATOM => Some(self.body().rest()),
            _ => None,
        }
    }

    /// Returns the bytes of a symbol, character vector or character atom, as clients send a name in any of these forms.
    pub fn text(&self) -> Option<&'a [u8]> {
        self.symbol().or_else(|| self.chars())
    }

    /// Returns the text of an error object.
    pub fn error(&self) -> Option<&'a [u8]> {
        if self.type_code() == types::ERROR { self.body().text().ok() } else { None }
    }

    /// Returns whether this is the generic null `::`.
    pub fn is_null(&self) -> bool {
        self.raw == NULL
    }

    /// Returns the object as a vector of a simple type, symbols included.
    pub fn vector(&self) -> Option<VectorView<'a>> {
        let ty = self.type_code();
        if !(types::BOOL..=types::TIME).contains(&ty) {
            return None;
        }
        let mut cursor = self.body();
        let head = Head::after_type(ty, &mut cursor).ok()?;
        Some(VectorView { ty, attr: head.attr, count: head.count(), items: cursor.rest(), endian: self.endian })
    }

    /// Returns the object as a general list.
    pub fn list(&self) -> Option<ListView<'a>> {
        if self.type_code() != types::LIST {
            return None;
        }
        let mut cursor = self.body();
        let head = Head::after_type(types::LIST, &mut cursor).ok()?;
        Some(ListView { attr: head.attr, count: head.count(), body: cursor.rest(), endian: self.endian })
    }

    /// Returns the object as a dictionary; a keyed table is one.
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

    /// Returns the object as a table.
    pub fn table(&self) -> Option<TableView<'a>> {
        if self.type_code() != types::TABLE {
            return None;
        }
        let mut cursor = self.body();
        let attr = cursor.byte().ok()?;
        let body = View::to_end(&cursor).dict()?;
        Some(TableView { attr, names: body.keys.vector()?, columns: body.values.list()? })
    }

    /// Returns namespace and source of a lambda.
    pub fn lambda(&self) -> Option<(&'a [u8], &'a [u8])> {
        if self.type_code() != types::LAMBDA {
            return None;
        }
        let mut cursor = self.body();
        let namespace = cursor.text().ok()?;
        Some((namespace, View::to_end(&cursor).chars()?))
    }

    /// Returns the parts of a function that is made of others: of a projection the function and its arguments, of a composition its functions, of
    /// a derived function the one that it is derived from. Other objects have none.
    pub fn parts(&self) -> impl Iterator<Item = View<'a>> + use<'a> {
        let mut cursor = self.body();
        let mut left = match self.type_code() {
            types::PROJECTION | types::COMPOSITION => cursor.count().unwrap_or(0),
            types::EACH..=types::EACH_LEFT => 1,
            _ => 0,
        };
        std::iter::from_fn(move || {
            left = left.checked_sub(1)?;
            View::next(&mut cursor)
        })
    }

    /// Returns the object as an owned value.
    pub fn to_value(&self) -> Value {
        // Cannot fail: the object has been walked.
        decode::build_object(&mut Cursor::new(self.raw, self.endian)).unwrap_or(Value::NULL)
    }

    /// Appends the object to `out` in little-endian order; a plain copy if it is little-endian already.
    ///
    /// # Errors
    /// Those of [`encode::encode_object`].
    pub fn append_little(&self, out: &mut Vec<u8>) -> Result<(), EncodeError> {
        match self.endian {
            Endian::Little => out.extend_from_slice(self.raw),
            Endian::Big => encode::encode_object(&self.to_value(), out)?,
        }
        Ok(())
    }
}
