//! Appending objects to a buffer, little-endian, from whatever storage the caller has.

use crate::error::EncodeError;
use crate::head::Head;
use crate::item::Item;
use crate::types;

/// Puts objects one after the other. Heads (`list_head`, `vector_head`, `table_head`, `dict_head`) announce what the
/// caller puts next. Puts do not fail one by one: what cannot travel is remembered, and [`Writer::finish`] tells.
#[must_use = "finish tells whether all could be written"]
pub struct Writer<'a> {
    out: &'a mut Vec<u8>,
    error: Option<EncodeError>,
}

impl<'a> Writer<'a> {
    /// A writer that appends to `out`.
    pub fn new(out: &'a mut Vec<u8>) -> Writer<'a> {
        Writer { out, error: None }
    }

    /// Ends the writing.
    ///
    /// # Errors
    /// The first thing that could not be written; the buffer then holds no whole object.
    pub fn finish(self) -> Result<(), EncodeError> {
        match self.error {
            None => Ok(()),
            Some(error) => Err(error),
        }
    }

    /// Bytes that fit before the buffer has to grow.
    pub fn spare(&self) -> usize {
        self.out.capacity().saturating_sub(self.out.len())
    }

    /// Bytes that the buffer holds, and those that fit before it has to grow.
    pub fn capacity(&self) -> usize {
        self.out.capacity()
    }

    /// Makes room for as many bytes more, and no more than that.
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

    /// Bytes that are serialised already, as they are.
    pub fn raw(&mut self, bytes: &[u8]) {
        self.out.extend_from_slice(bytes);
    }

    /// A fixed-width atom: `ty` is the vector's code, for example [`types::TIMESTAMP`].
    pub fn atom<T: Item>(&mut self, ty: i8, value: T) {
        if ty <= 0 || !T::holds(ty) {
            self.fail(EncodeError::Type(ty));
        }
        self.ty(ty.saturating_neg());
        value.write(self.out);
    }

    /// A boolean atom.
    pub fn atom_bool(&mut self, value: bool) {
        self.atom(types::BOOL, value);
    }

    /// A byte atom.
    pub fn atom_byte(&mut self, value: u8) {
        self.atom(types::BYTE, value);
    }

    /// A short atom.
    pub fn atom_short(&mut self, value: i16) {
        self.atom(types::SHORT, value);
    }

    /// An int atom.
    pub fn atom_int(&mut self, value: i32) {
        self.atom(types::INT, value);
    }

    /// A long atom.
    pub fn atom_long(&mut self, value: i64) {
        self.atom(types::LONG, value);
    }

    /// A float atom.
    pub fn atom_float(&mut self, value: f64) {
        self.atom(types::FLOAT, value);
    }

    /// A character atom.
    pub fn atom_char(&mut self, value: u8) {
        self.atom(types::CHAR, value);
    }

    /// A timestamp atom: nanoseconds from 2000.01.01.
    pub fn atom_timestamp(&mut self, value: i64) {
        self.atom(types::TIMESTAMP, value);
    }

    /// A timespan atom: nanoseconds.
    pub fn atom_timespan(&mut self, value: i64) {
        self.atom(types::TIMESPAN, value);
    }

    /// A date atom: days from 2000.01.01.
    pub fn atom_date(&mut self, value: i32) {
        self.atom(types::DATE, value);
    }

    /// A symbol atom.
    pub fn symbol(&mut self, text: impl AsRef<[u8]>) {
        self.ty(types::SYMBOL_ATOM);
        self.text(text.as_ref());
    }

    /// A symbol vector without attribute.
    pub fn symbols<T: AsRef<[u8]>>(&mut self, texts: impl IntoIterator<Item = T, IntoIter: ExactSizeIterator>) {
        let texts = texts.into_iter();
        self.vector_head(types::SYMBOL, types::ATTR_NONE, texts.len());
        for text in texts {
            self.symbol_item(text);
        }
    }

    /// One item of a symbol vector whose head was put.
    pub fn symbol_item(&mut self, text: impl AsRef<[u8]>) {
        self.text(text.as_ref());
    }

    /// A character vector.
    pub fn chars(&mut self, text: impl AsRef<[u8]>) {
        self.vector(types::CHAR, types::ATTR_NONE, text.as_ref());
    }

    /// The head of a vector; `count` items follow.
    pub fn vector_head(&mut self, ty: i8, attr: u8, count: usize) {
        match Head::with_attr(ty, attr, count) {
            Ok(head) => head.write(self.out),
            Err(error) => self.fail(error),
        }
    }

    /// A vector of a fixed-width type.
    pub fn vector<T: Item>(&mut self, ty: i8, attr: u8, items: &[T]) {
        self.vector_head(ty, attr, items.len());
        self.items(ty, items);
    }

    /// Items of a fixed-width vector whose head was put.
    pub fn items<T: Item>(&mut self, ty: i8, items: &[T]) {
        if !T::holds(ty) {
            self.fail(EncodeError::Type(ty));
        }
        T::write_all(items, self.out);
    }

    /// The head of a general list; `count` objects follow.
    pub fn list_head(&mut self, count: usize) {
        self.vector_head(types::LIST, types::ATTR_NONE, count);
    }

    /// The head of a dictionary; a key object and a value object follow.
    pub fn dict_head(&mut self) {
        self.ty(types::DICT);
    }

    /// The head of a sorted dictionary; a key object, with the sorted attribute, and a value object follow.
    pub fn sorted_dict_head(&mut self) {
        self.ty(types::SORTED_DICT);
    }

    /// The head of a table; one column per name follows.
    pub fn table_head<T: AsRef<[u8]>>(&mut self, names: impl IntoIterator<Item = T, IntoIter: ExactSizeIterator>) {
        self.table_head_attr(types::ATTR_NONE, names);
    }

    /// The head of a table with an attribute; one column per name follows.
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

    /// The generic null `::`.
    pub fn null(&mut self) {
        self.primitive(types::UNARY, types::UNARY_NULL);
    }

    /// A primitive or iterator: type code 101, 102 or 103 and its code.
    pub fn primitive(&mut self, ty: i8, code: u8) {
        self.ty(ty);
        self.out.push(code);
    }

    /// A lambda: namespace without the dot, source with its braces.
    pub fn lambda(&mut self, namespace: &[u8], source: &[u8]) {
        self.ty(types::LAMBDA);
        self.text(namespace);
        self.chars(source);
    }

    /// The head of a projection or composition (104, 105); `count` objects follow.
    pub fn function_head(&mut self, ty: i8, count: usize) {
        self.ty(ty);
        self.count(count);
    }

    /// The head of a function derived by an iterator (106 to 111); the function follows.
    pub fn derived_head(&mut self, ty: i8) {
        if !(types::EACH..=types::EACH_LEFT).contains(&ty) {
            self.fail(EncodeError::Type(ty));
        }
        self.ty(ty);
    }

    /// An error object: text without the quote, only as the whole body of a response.
    pub fn error(&mut self, text: &[u8]) {
        self.ty(types::ERROR);
        self.text(text);
    }
}
