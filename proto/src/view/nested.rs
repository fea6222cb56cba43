//! Views of lists, dictionaries and tables.

use super::{VectorView, View};
use crate::cursor::Cursor;
use crate::header::Endian;

/// A general list: type byte 0, attribute byte, 32-bit count, objects.
#[derive(Clone, Copy, Debug)]
pub struct ListView<'a> {
    /// Attribute byte.
    pub attr: u8,
    /// Number of objects.
    pub count: usize,
    /// The objects, one after the other.
    pub body: &'a [u8],
    /// Byte order of the objects.
    pub endian: Endian,
}

impl<'a> ListView<'a> {
    /// Returns the objects in order. Each step but the last walks one object.
    pub fn iter(&self) -> ListIter<'a> {
        ListIter { cursor: Cursor::new(self.body, self.endian), left: self.count }
    }

    /// Returns object `i`, after walking those before it.
    pub fn get(&self, i: usize) -> Option<View<'a>> {
        self.iter().nth(i)
    }
}

impl<'a> IntoIterator for ListView<'a> {
    type Item = View<'a>;
    type IntoIter = ListIter<'a>;

    fn into_iter(self) -> ListIter<'a> {
        self.iter()
    }
}

/// Iterator over the objects of a list.
#[derive(Clone)]
pub struct ListIter<'a> {
    cursor: Cursor<'a>,
    left: usize,
}

impl<'a> Iterator for ListIter<'a> {
    type Item = View<'a>;

    fn next(&mut self) -> Option<View<'a>> {
        self.left = self.left.checked_sub(1)?;
        if self.left == 0 {
            // The last object ends with the list: no need to walk it.
            return Some(View::to_end(&self.cursor));
        }
        View::next(&mut self.cursor)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.left, Some(self.left))
    }
}

impl ExactSizeIterator for ListIter<'_> {}

/// A dictionary: type byte, key object, value object of the same count.
#[derive(Clone, Copy, Debug)]
pub struct DictView<'a> {
    /// Whether it is a sorted dictionary (type 127).
    pub sorted: bool,
    /// The keys: a vector, list, dictionary or table.
    pub keys: View<'a>,
    /// The values, as many as keys.
    pub values: View<'a>,
}

impl<'a> DictView<'a> {
    /// Returns the value of a symbol key, if the keys are symbols and the values a general list.
    pub fn get(&self, key: &[u8]) -> Option<View<'a>> {
        let i = self.keys.vector()?.symbols().position(|name| name == key)?;
        self.values.list()?.get(i)
    }
}

/// A table: type byte, attribute byte, and a dictionary of column names and columns.
#[derive(Clone, Copy, Debug)]
pub struct TableView<'a> {
    /// Attribute byte: 1 for a sorted table.
    pub attr: u8,
    /// Column names: a symbol vector.
    pub names: VectorView<'a>,
    /// Columns: vectors and lists of equal length.
    pub columns: ListView<'a>,
}

impl<'a> TableView<'a> {
    /// Returns the number of rows.
    pub fn rows(&self) -> usize {
        self.columns.iter().next().map_or(0, |column| column.count())
    }

    /// Returns the column with this name.
    pub fn column(&self, name: &[u8]) -> Option<View<'a>> {
        let i = self.names.symbols().position(|other| other == name)?;
        self.columns.get(i)
    }
}
