//! Decodes feed messages and log records in place, without copying.
//!
//! `(upd; table; data)` and `(upd; table; data; index)` are recognised by their bytes. The columns are not parsed: the
//! store checks them on append.

use proto::{Endian, Head, Limits, View, types};
use std::borrow::Cow;

/// One update, borrowed from little-endian bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Update<'a> {
    pub table: &'a [u8],
    /// NUL-terminated column names as on the wire; `None` if the data is a list of columns without names.
    pub names: Option<&'a [u8]>,
    /// Number of columns.
    pub count: usize,
    /// The columns' serialised objects, one after the other.
    pub objects: &'a [u8],
    /// The update index, if the message carries one.
    pub index: Option<u64>,
}

/// Returns an object in little-endian byte order, converted if necessary.
///
/// # Errors
/// The decoding error as text.
pub fn little<'a>(body: &'a [u8], endian: Endian, limits: &Limits) -> Result<Cow<'a, [u8]>, String> {
    if endian == Endian::Little {
        return Ok(Cow::Borrowed(body));
    }
    let (view, _) = View::parse(body, endian, limits).map_err(|error| error.to_string())?;
    let mut turned = Vec::with_capacity(body.len());
    view.append_little(&mut turned).map_err(|error| error.to_string())?;
    Ok(Cow::Owned(turned))
}

/// Cursor over bytes.
#[derive(Clone, Copy)]
struct Bytes<'a>(&'a [u8]);

impl<'a> Bytes<'a> {
    fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(taken)
    }

    fn byte(&mut self) -> Option<u8> {
        self.take(1)?.first().copied()
    }

    fn expect(&mut self, ty: i8) -> Option<()> {
        (self.byte()? == ty.cast_unsigned()).then_some(())
    }

    /// Reads a vector or list head of type `ty`; returns its number of items.
    fn head(&mut self, ty: i8) -> Option<usize> {
        let (head, rest) = Head::split(self.0)?;
        self.0 = rest;
        (head.ty == ty).then_some(head.count())
    }

    fn text(&mut self) -> Option<&'a [u8]> {
        let length = self.0.iter().position(|byte| *byte == 0)?;
        let text = self.take(length)?;
        self.take(1)?;
        Some(text)
    }
}

/// Size of the trailing index: a long atom.
const INDEX_BYTES: usize = 9;

/// Decodes a call of `upd` from a little-endian object; `None` for any other object.
pub fn update(object: &[u8]) -> Option<Update<'_>> {
    let mut rest = Bytes(object);
    let items = rest.head(types::LIST)?;
    rest.expect(types::SYMBOL_ATOM)?;
    if rest.text()? != b"upd" {
        return None;
    }
    rest.expect(types::SYMBOL_ATOM)?;
    let table = rest.text()?;
    let index = match items {
        3 => None,
        4 => {
            let (data, index) = rest.0.split_at_checked(rest.0.len().checked_sub(INDEX_BYTES)?)?;
            rest.0 = data;
            let (ty, index) = index.split_first()?;
            if ty.cast_signed() != -types::LONG {
                return None;
            }
            Some(u64::try_from(i64::from_le_bytes(*index.first_chunk()?)).ok()?)
        }
        _ => return None,
    };
    let names = match rest.0.first()?.cast_signed() {
        types::TABLE => {
            // Type and attribute.
            rest.take(2)?;
            rest.expect(types::DICT)?;
            let names = rest.head(types::SYMBOL)?;
            let start = rest;
            (0..names).try_for_each(|_| rest.text().map(drop))?;
            Some(start.0.get(..start.0.len().checked_sub(rest.0.len())?)?)
        }
        _ => None,
    };
    let count = rest.head(types::LIST)?;
    Some(Update { table, names, count, objects: rest.0, index })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proto::Writer;

    fn write(put: impl FnOnce(&mut Writer<'_>)) -> Vec<u8> {
        let mut out = Vec::new();
        let mut writer = Writer::new(&mut out);
        put(&mut writer);
        writer.finish().expect("encodes");
        out
    }

    fn columns() -> Vec<u8> {
        write(|w| {
            w.vector(types::TIMESPAN, 0, &[1i64, 2]);
            w.symbols(["a", "b"]);
        })
    }

    #[test]
    fn an_indexed_table_is_an_update_with_its_index() {
        let message = write(|w| {
            w.list_head(4);
            w.symbol("upd");
            w.symbol("trade");
            w.table_head(["time", "sym"]);
            w.raw(&columns());
            w.atom_long(17);
        });
        let names = Some(&b"time\0sym\0"[..]);
        let expected = Update { table: b"trade", names, count: 2, objects: &columns(), index: Some(17) };
        assert_eq!(update(&message), Some(expected));
    }

    #[test]
    fn a_log_record_is_an_update_without_an_index() {
        let record = write(|w| {
            w.list_head(3);
            w.symbol("upd");
            w.symbol("trade");
            w.list_head(2);
            w.raw(&columns());
        });
        let expected = Update { table: b"trade", names: None, count: 2, objects: &columns(), index: None };
        assert_eq!(update(&record), Some(expected));
    }

    #[test]
    fn other_calls_and_cut_off_ones_are_no_updates() {
        let other = write(|w| {
            w.list_head(3);
            w.symbol(".u.end");
            w.symbol("trade");
            w.list_head(0);
        });
        assert_eq!(update(&other), None);
        let negative = write(|w| {
            w.list_head(4);
            w.symbol("upd");
            w.symbol("t");
            w.list_head(0);
            w.atom_long(-1);
        });
        for end in 0..negative.len() {
            assert_eq!(update(&negative[..end]), None, "{end}");
        }
        assert_eq!(update(&negative), None);
    }
}
