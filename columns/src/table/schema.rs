//! Schemas: names, types and attributes of a table's columns.

use super::value::{Dict, Table, Value};
use super::vector::{Attr, Items, Vector};
use crate::kernel::sym::Sym;
use proto::types;

/// One column of a schema.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ColumnSchema {
    pub name: Sym,
    /// Type code of the vector, 0 to 19; 0 (general list) takes any items.
    pub ty: i8,
    pub attr: Attr,
}

/// Name, columns and keys of a table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Schema {
    pub name: Sym,
    pub columns: Vec<ColumnSchema>,
    /// Number of key columns, which come first; 0 for a plain table.
    pub keys: usize,
}

impl Schema {
    /// Returns the schema of a table or keyed table; `None` for other values.
    pub fn of(name: Sym, value: &Value) -> Option<Schema> {
        match value {
            Value::Table(table) => Some(Schema { name, columns: columns_of(table), keys: 0 }),
            Value::Dict(dict) => {
                let (Value::Table(keys), Value::Table(values)) = (&dict.keys, &dict.values) else { return None };
                let mut columns = columns_of(keys);
                let key_columns = columns.len();
                columns.extend(columns_of(values));
                Some(Schema { name, columns, keys: key_columns })
            }
            _ => None,
        }
    }

    /// Returns the index of the column with this name.
    pub fn column(&self, name: Sym) -> Option<usize> {
        self.columns.iter().position(|column| column.name == name)
    }

    /// Bytes of one row in memory: the sum of its column widths. Symbols count 4, items of general lists 0, as their size varies.
    pub fn row_bytes(&self) -> usize {
        self.columns.iter().map(|column| width(column.ty)).sum()
    }

    /// Returns a table of this schema without rows; keyed if the schema is.
    pub fn empty(&self) -> Value {
        let table = |columns: &[ColumnSchema]| Table {
            sorted: false,
            names: columns.iter().map(|column| column.name).collect(),
            columns: columns
                .iter()
                .map(|column| Vector { attr: column.attr, items: Items::empty_of(column.ty) })
                .collect(),
        };
        match self.columns.split_at_checked(self.keys) {
            Some((keys, values)) if !keys.is_empty() => Value::Dict(crate::sys::shared::Held::new(Dict {
                sorted: false,
                keys: Value::Table(table(keys).into()),
                values: Value::Table(table(values).into()),
            })),
            _ => Value::Table(table(&self.columns).into()),
        }
    }

    /// Returns whether `newer` has this schema's columns, with or without more at the end.
    pub fn is_extended_by(&self, newer: &Schema) -> bool {
        let first = newer.columns.get(..self.columns.len()).unwrap_or_default();
        self.keys == newer.keys
            && self.columns.len() <= newer.columns.len()
            && self.columns.iter().zip(first).all(|(a, b)| (a.name, a.ty) == (b.name, b.ty))
    }

    /// Returns whether names and types equal those of `other`; attributes may differ.
    pub fn same_columns(&self, other: &Schema) -> bool {
        self.columns.len() == other.columns.len()
            && self.columns.iter().zip(&other.columns).all(|(a, b)| (a.name, a.ty) == (b.name, b.ty))
    }
}

fn columns_of(table: &Table) -> Vec<ColumnSchema> {
    let column =
        |(name, vector): (&Sym, &Vector)| ColumnSchema { name: *name, ty: code(&vector.items), attr: vector.attr };
    table.names.iter().zip(&table.columns).map(column).collect()
}

/// Bytes of an item in memory: symbols are 4-byte ids, items of general lists count 0.
pub const fn width(ty: i8) -> usize {
    match types::width(ty) {
        Some(width) => width,
        None if ty == types::SYMBOL => size_of::<Sym>(),
        None => 0,
    }
}

/// Type code of a vector on the wire, where enumerations travel as what they stand for.
pub const fn code(items: &Items) -> i8 {
    match items {
        Items::Link(..) => types::LONG,
        Items::Enum(..) => types::SYMBOL,
        plain => plain.type_number(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::symbol::intern;

    fn schema(columns: &[(&str, i8)], keys: usize) -> Schema {
        let sym = |text: &str| intern(text.as_bytes()).expect("room");
        let column = |&(name, ty): &(&str, i8)| ColumnSchema { name: sym(name), ty, attr: Attr::None };
        Schema { name: sym("t"), columns: columns.iter().map(column).collect(), keys }
    }

    #[test]
    fn an_empty_table_encodes_its_schema() {
        let all: Vec<(String, i8)> = [0, 1, 2].into_iter().chain(4..=19).map(|ty| (format!("c{ty}"), ty)).collect();
        let all: Vec<(&str, i8)> = all.iter().map(|(name, ty)| (name.as_str(), *ty)).collect();
        for keys in [0, 2] {
            let schema = schema(&all, keys);
            assert_eq!(Schema::of(schema.name, &schema.empty()), Some(schema));
        }
    }

    #[test]
    fn the_default_trade_table_has_33_bytes_a_row() {
        let trade = schema(&[("time", 16), ("sym", 11), ("price", 9), ("size", 7), ("side", 10), ("ex", 11)], 0);
        assert_eq!(trade.row_bytes(), 33);
    }

    #[test]
    fn an_atom_is_no_table() {
        assert_eq!(Schema::of(Sym::NULL, &Value::Long(1)), None);
    }
}
