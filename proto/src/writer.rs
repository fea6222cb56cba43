//! Serialises objects into a buffer, little-endian, from any storage of the caller.

use crate::error::EncodeError;
use crate::head::Head;
use crate::item::Item;
use crate::types;

/// Writes objects one after the other. A head (`list_head`, `vector_head`, `table_head`, `dict_head`) announces the objects
/// or items that the caller writes next. Single writes do not fail: the first error is kept for [`Writer::finish`].
#[must_use = "finish tells whether all could be written"]
pub struct Writer<'a> {
    out: &'a mut Vec<u8>,
    error: Option<EncodeError>,
}

impl<'a> Writer<'a> {
    /// Makes a writer that appends to `out`.
    pub fn new(out: &'a mut Vec<u8>) -> Writer<'a> {
        Writer { out, error: None }
    }

    /// Ends the writing.
    ///
    /// # Errors
    /// The first error of a write; the buffer then does not hold a whole object.
    pub fn finish(self) -> Result<(), EncodeError> {
        match self.error {
            None => Ok(()),
            Some(error) => Err(error),
        }
    }

    /// Bytes that fit before the buffer must grow.
    pub fn spare(&self) -> usize {
        self.out.capacity().saturating_sub(self.out.len())
    }

    /// Capacity of the buffer: bytes it holds, and bytes that fit before it must grow.
    pub fn capacity(&self) -> usize {
        self.out.capacity()
    }

    /// Reserves space for exactly `bytes` more bytes.
    pub fn reserve_exact(&mut self, bytes: usize) {
        self.out.reserve_exact(bytes);
    }

    fn fail(&mut self, error: EncodeError) {
        self.error.get_or_insert(error);
    }

    fn ty(&mut self, ty: i8) {
        self.out.push(ty.cast_unsigned());
    }

    fn count(&mut self, count: usize) {
        match i32::try_from(count) {
            Ok(count) => self.out.extend_from_slice(&count.to_le_bytes()),
            Err(_) => self.fail(EncodeError::Count(count)),
        }
    }

    fn text(&mut self, text: &[u8]) {
        if text.contains(&0) {
            self.fail(EncodeError::Nul);
        }
        self.out.extend_from_slice(text);
        self.out.push(0);
    }

    /// Writes bytes that are already serialised.
    pub fn raw(&mut self, bytes: &[u8]) {
        self.out.extend_from_slice(bytes);
    }

    /// Writes a fixed-width atom; `ty` is the code of the vector type, for example [`types::TIMESTAMP`].
    pub fn atom<T: Item>(&mut self, ty: i8, value: T) {
        if ty <= 0 || !T::holds(ty) {
            self.fail(EncodeError::Type(ty));
        }
        self.ty(ty.saturating_neg());
        value.write(self.out);
    }

    /// Writes a boolean atom.
    pub fn atom_bool(&mut self, value: bool) {
        self.atom(types::BOOL, value);
    }

    /// Writes a byte atom.
    pub fn atom_byte(&mut self, value: u8) {
        self.atom(types::BYTE, value);
    }

    /// Writes a short atom.
    pub fn atom_short(&mut self, value: i16) {
        self.atom(types::SHORT, value);
    }

    /// Writes an int atom.
    pub fn atom_int(&mut self, value: i32) {
        self.atom(types::INT, value);
    }

    /// Writes a long atom.
    pub fn atom_long(&mut self, value: i64) {
        self.atom(types::LONG, value);
    }

    /// Writes a float atom.
    pub fn atom_float(&mut self, value: f64) {
        self.atom(types::FLOAT, value);
    }

    /// Writes a character atom.
    pub fn atom_char(&mut self, value: u8) {
        self.atom(types::CHAR, value);
    }

    /// Writes a timestamp atom: nanoseconds from 2000.01.01.
    pub fn atom_timestamp(&mut self, value: i64) {
        self.atom(types::TIMESTAMP, value);
    }

    /// Writes a timespan atom: nanoseconds.
    pub fn atom_timespan(&mut self, value: i64) {
        self.atom(types::TIMESPAN, value);
    }

    /// Writes a date atom: days from 2000.01.01.
    pub fn atom_date(&mut self, value: i32) {
        self.atom(types::DATE, value);
    }

    /// Writes a symbol atom.
    pub fn symbol(&mut self, text: impl AsRef<[u8]>) {
        self.ty(types::SYMBOL_ATOM);
        self.text(text.as_ref());
    }

    /// Writes a symbol vector without attribute.
    pub fn symbols<T: AsRef<[u8]>>(&mut self, texts: impl IntoIterator<Item = T, IntoIter: ExactSizeIterator>) {
        let texts = texts.into_iter();
        self.vector_head(types::SYMBOL, types::ATTR_NONE, texts.len());
        for text in texts {
            self.symbol_item(text);
        }
    }

    /// Writes one item of a symbol vector, after its head.
    pub fn symbol_item(&mut self, text: impl AsRef<[u8]>) {
        self.text(text.as_ref());
    }

    /// Writes a character vector.
    pub fn chars(&mut self, text: impl AsRef<[u8]>) {
        self.vector(types::CHAR, types::ATTR_NONE, text.as_ref());
    }

    /// Writes the head of a vector; `count` items must follow.
    pub fn vector_head(&mut self, ty: i8, attr: u8, count: usize) {
        match Head::with_attr(ty, attr, count) {
            Ok(head) => head.write(self.out),
            Err(error) => self.fail(error),
        }
    }

    /// Writes a vector of a fixed-width type.
    pub fn vector<T: Item>(&mut self, ty: i8, attr: u8, items: &[T]) {
        self.vector_head(ty, attr, items.len());
        self.items(ty, items);
    }

    /// Writes items of a fixed-width vector, after its head.
    pub fn items<T: Item>(&mut self, ty: i8, items: &[T]) {
        if !T::holds(ty) {
            self.fail(EncodeError::Type(ty));
        }
        T::write_all(items, self.out);
    }

    /// Writes the head of a general list; `count` objects must follow.
    pub fn list_head(&mut self, count: usize) {
        self.vector_head(types::LIST, types::ATTR_NONE, count);
    }

    /// Writes the head of a dictionary; a key object and a value object must follow.
    pub fn dict_head(&mut self) {
        self.ty(types::DICT);
    }

    /// Writes the head of a sorted dictionary; a key object with the sorted attribute and a value object must follow.
    pub fn sorted_dict_head(&mut self) {
        self.ty(types::SORTED_DICT);
    }

    /// Writes the head of a table; one column per name must follow.
    pub fn table_head<T: AsRef<[u8]>>(&mut self, names: impl IntoIterator<Item = T, IntoIter: ExactSizeIterator>) {
        self.table_head_attr(types::ATTR_NONE, names);
    }

    /// Writes the head of a table with an attribute; one column per name must follow.
    pub fn table_head_attr<T: AsRef<[u8]>>(
        &mut self,
        attr: u8,
        names: impl IntoIterator<Item = T, IntoIter: ExactSizeIterator>,
    ) {
        let names = names.into_iter();
        let columns = names.len();
        self.ty(types::TABLE);
        self.out.push(attr);
        self.dict_head();
        self.symbols(names);
        self.list_head(columns);
    }

    /// Writes a table of which only the names of the columns and the place travel.
    pub fn table_by_name<T: AsRef<[u8]>>(
        &mut self,
        attr: u8,
        names: impl IntoIterator<Item = T, IntoIter: ExactSizeIterator>,
        place: &[u8],
    ) {
        self.ty(types::TABLE);
        self.out.push(attr);
        self.dict_head();
        self.symbols(names);
        self.symbol(place);
    }

    /// Writes the generic null `::`.
    pub fn null(&mut self) {
        self.primitive(types::UNARY, types::UNARY_NULL);
    }

    /// Writes a primitive or iterator: type code 101, 102 or 103, and its code.
    pub fn primitive(&mut self, ty: i8, code: u8) {
        self.ty(ty);
        self.out.push(code);
    }

    /// Writes a lambda: namespace without the dot, source with its braces.
    pub fn lambda(&mut self, namespace: &[u8], source: &[u8]) {
        self.ty(types::LAMBDA);
        self.text(namespace);
        self.chars(source);
    }

    /// Writes the head of a projection or composition (104, 105); `count` objects must follow.
    pub fn function_head(&mut self, ty: i8, count: usize) {
        self.ty(ty);
        self.count(count);
    }

    /// Writes the head of a function derived by an iterator (106 to 111); the function must follow.
    pub fn derived_head(&mut self, ty: i8) {
        if !(types::EACH..=types::EACH_LEFT).contains(&ty) {
            self.fail(EncodeError::Type(ty));
        }
        self.ty(ty);
    }

    /// Writes an error object, allowed only as the whole body of a response: text without the quote.
    pub fn error(&mut self, text: &[u8]) {
        self.ty(types::ERROR);
        self.text(text);
    }
}
