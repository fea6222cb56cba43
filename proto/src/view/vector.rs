//! Views of vectors of simple types.

use crate::cursor::first_nul;
use crate::header::Endian;
use crate::item::Item;
use crate::types;

/// A vector: type byte, attribute byte, 32-bit count, items.
#[derive(Clone, Copy, Debug)]
pub struct VectorView<'a> {
    /// Type code, 1 to 19.
    pub ty: i8,
    /// Attribute byte, see [`types`].
    pub attr: u8,
    /// Number of items.
    pub count: usize,
    /// The serialised items: `count` times the width in bytes, or `count` NUL-terminated symbols.
    pub items: &'a [u8],
    /// Byte order of the items.
    pub endian: Endian,
}

impl<'a> VectorView<'a> {
    /// Returns item `i`; `None` past the end or if the vector's type does not hold `T`.
    pub fn get<T: Item>(&self, i: usize) -> Option<T> {
        if !T::holds(self.ty) {
            return None;
        }
        T::read(self.items.get(i.checked_mul(T::WIDTH)?..)?, self.endian)
    }

    /// Returns item `i` of a long, timestamp or timespan vector.
    pub fn get_i64(&self, i: usize) -> Option<i64> {
        self.get(i)
    }

    /// Returns item `i` of an int, month, date, minute, second or time vector.
    pub fn get_i32(&self, i: usize) -> Option<i32> {
        self.get(i)
    }

    /// Returns item `i` of a float or datetime vector.
    pub fn get_f64(&self, i: usize) -> Option<f64> {
        self.get(i)
    }

    /// Returns the items in order; `None` if the vector's type does not hold `T`.
    pub fn iter<T: Item>(&self) -> Option<impl Iterator<Item = T> + use<'a, T>> {
        let endian = self.endian;
        T::holds(self.ty).then(|| self.items.chunks_exact(T::WIDTH).filter_map(move |item| T::read(item, endian)))
    }

    /// Decodes all items; `None` if the vector's type does not hold `T`.
    pub fn to_vec<T: Item>(&self) -> Option<Vec<T>> {
        T::holds(self.ty).then(|| T::read_all(self.items, self.endian))
    }

    /// Returns the texts of a symbol vector; none for other types.
    pub fn symbols(&self) -> SymbolIter<'a> {
        if self.ty == types::SYMBOL {
            SymbolIter { rest: self.items, left: self.count }
        } else {
            SymbolIter { rest: &[], left: 0 }
        }
    }
}

/// Iterator over the symbols of a vector.
#[derive(Clone, Debug)]
pub struct SymbolIter<'a> {
    rest: &'a [u8],
    left: usize,
}

impl<'a> Iterator for SymbolIter<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        self.left = self.left.checked_sub(1)?;
        let end = first_nul(self.rest)?;
        let (text, rest) = self.rest.split_at_checked(end)?;
        self.rest = rest.get(1..).unwrap_or_default();
        Some(text)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.left, Some(self.left))
    }
}

impl ExactSizeIterator for SymbolIter<'_> {}
