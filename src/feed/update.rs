//! An update as bytes to send, with its hash and row count.

use crate::log::update_hash;
use proto::{EncodeError, MessageKind, View, encode, types};

/// An update that may have to be sent again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Update {
    pub table: Vec<u8>,
    pub rows: u64,
    pub hash: u64,
    /// The call as a complete message.
    pub message: Vec<u8>,
}

/// Argument of `.u.upd`: columns one after the other, without the list head.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Columns {
    pub count: usize,
    pub rows: u64,
    pub bytes: Vec<u8>,
}

impl Update {
    /// Encodes ``(".u.upd"; `table; columns)`` as a message of this kind.
    ///
    /// # Errors
    /// More columns than a list can hold.
    pub fn new(table: &[u8], columns: &Columns, kind: MessageKind) -> Result<Update, EncodeError> {
        let mut message = Vec::with_capacity(columns.bytes.len() + 64);
        let start = encode::begin_message(kind, &mut message);
        let mut writer = encode::Writer::new(&mut message);
        writer.list_head(3);
        writer.chars(".u.upd");
        writer.symbol(table);
        writer.list_head(columns.count);
        writer.raw(&columns.bytes);
        writer.finish()?;
        encode::finish_message(&mut message, start)?;
        Ok(Update { table: table.to_vec(), rows: columns.rows, hash: update_hash(&columns.bytes), message })
    }
}

impl Columns {
    /// Returns the columns of a logged update: a list of columns, a table, or a row of atoms, which becomes columns of one item as in a
    /// tickerplant. `None` for any other data.
    pub fn of_logged(data: &View<'_>) -> Option<Columns> {
        let list = data.table().map(|table| table.columns).or_else(|| data.list())?;
        let first = list.iter().next()?;
        if first.type_code() >= 0 {
            return Some(Columns { count: list.count, rows: first.count() as u64, bytes: list.body.to_vec() });
        }
        let mut bytes = Vec::with_capacity(list.body.len() + 5 * list.count);
        for item in list.iter() {
            let ty = item.type_code();
            let one = if ty < 0 { ty.saturating_neg() } else { types::LIST };
            bytes.push(one.cast_unsigned());
            bytes.extend_from_slice(&[types::ATTR_NONE, 1, 0, 0, 0]);
            // An atom is its type and its bytes; any other object becomes the single item of a general list.
            bytes.extend_from_slice(if ty < 0 { item.raw().get(1..)? } else { item.raw() });
        }
        Some(Columns { count: list.count, rows: 1, bytes })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proto::{Endian, Items, Limits, Value, decode};

    fn logged(data: &Value) -> Option<Columns> {
        let mut bytes = Vec::new();
        encode::encode_object(data, &mut bytes).expect("it can travel");
        Columns::of_logged(&View::parse(&bytes, Endian::Little, &Limits::default()).expect("an object").0)
    }

    fn symbols(texts: &[&str]) -> Value {
        Value::symbols(texts)
    }

    #[test]
    fn a_row_of_atoms_becomes_columns_of_one_item() {
        let row = Value::list([Value::Timespan(5), Value::symbol("A"), Value::Float(1.5), Value::chars("note")]);
        let bulk = Value::list([
            Value::timespans([5]),
            symbols(&["A"]),
            Value::floats([1.5]),
            Value::list([Value::chars("note")]),
        ]);
        assert_eq!(logged(&row), logged(&bulk));
        assert_eq!(logged(&row).map(|columns| (columns.count, columns.rows)), Some((4, 1)));
    }

    #[test]
    fn a_table_is_its_columns() {
        let (time, sym) = (Value::timespans([1, 2]), symbols(&["A", "B"]));
        let table = Value::table([("time", time.clone()), ("sym", sym.clone())]);
        assert_eq!(logged(&table), logged(&Value::list([time, sym])));
    }

    #[test]
    fn a_message_other_than_an_update_is_none() {
        assert_eq!(logged(&Value::Long(1)), None);
        assert_eq!(logged(&Value::list([])), None);
    }

    #[test]
    fn the_message_is_the_call_that_publishers_make() {
        let columns = logged(&Value::list([Value::timespans([1]), symbols(&["A"])])).unwrap();
        let update = Update::new(b"trade", &columns, MessageKind::Async).unwrap();
        let (header, call) = decode::message(&update.message, &Limits::default()).unwrap();
        assert_eq!(header.kind, MessageKind::Async);
        let data = Value::list([Value::timespans([1]), symbols(&["A"])]);
        assert_eq!(call, Value::list([Value::chars(".u.upd"), Value::symbol("trade"), data]));
        assert!(matches!(call.item(0), Some(Value::Vector { items: Items::Char(_), .. })));
    }
}
