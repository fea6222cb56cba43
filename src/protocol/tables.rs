//! Tables without rows: in messages, in schema changes of the log, and in the response of `.u.sub`.

use super::Malformed;
use super::names::SCHEMA;
use crate::log::parts;
use crate::table::schema::ColumnSchema;
use crate::table::{Schema, symbol, wire};
use proto::{EncodeError, Limits, View, Writer, types};

/// Writes a table without rows, with `` `g# `` on `sym` whatever the schema has, as kdb+tick's subscribers expect. A keyed table stays keyed
/// and has the attributes of its schema.
pub fn put_empty(writer: &mut Writer<'_>, schema: &Schema) {
    let put = |writer: &mut Writer<'_>, columns: &[ColumnSchema], is_keyed: bool| {
        let names: Vec<_> = columns.iter().map(|column| symbol::text(column.name)).collect();
        writer.table_head(&names);
        for (column, name) in columns.iter().zip(names) {
            let is_grouped = !is_keyed && *name == *b"sym";
            let attr = if is_grouped { types::ATTR_GROUPED } else { wire::attribute_code(column.attr) };
            writer.vector_head(column.ty, attr, 0);
        }
    };
    match schema.columns.split_at_checked(schema.keys) {
        Some((keys, values)) if !keys.is_empty() => {
            writer.dict_head();
            put(writer, keys, true);
            put(writer, values, true);
        }
        _ => put(writer, &schema.columns, false),
    }
}

/// Writes the pair `(name; empty table)`.
pub fn put_pair(writer: &mut Writer<'_>, schema: &Schema) {
    writer.list_head(2);
    writer.symbol(symbol::text(schema.name));
    put_empty(writer, schema);
}

/// Writes a list of such pairs.
pub fn put_pairs<'a>(writer: &mut Writer<'_>, schemas: impl ExactSizeIterator<Item = &'a Schema>) {
    writer.list_head(schemas.len());
    schemas.for_each(|schema| put_pair(writer, schema));
}

/// Decodes the schema of a table from its name and empty table; `None` if this is not a table or the symbol table is full.
pub(super) fn read(name: View<'_>, table: View<'_>) -> Option<Schema> {
    Schema::of(symbol::intern(name.symbol()?).ok()?, &wire::data(&table).ok()?)
}

/// Decodes a list of pairs, a single pair, or alternating names and tables.
pub(super) fn read_pairs(view: &View<'_>) -> Result<Vec<Schema>, Malformed> {
    let list = view.list().ok_or_else(|| Malformed::of_type("the list of tables is not a list"))?;
    let items: Vec<View<'_>> = list.iter().collect();
    let found: Option<Vec<Schema>> = if items.first().is_some_and(|item| item.symbol().is_some()) {
        let (pairs, []) = items.as_chunks::<2>() else {
            return Err(Malformed::of_type("a table has a name but no schema"));
        };
        pairs.iter().map(|[name, table]| read(*name, *table)).collect()
    } else {
        let of_pair = |item: &View<'_>| {
            let mut parts = item.list()?.iter();
            read(parts.next()?, parts.next()?)
        };
        items.iter().map(of_pair).collect()
    };
    found.ok_or_else(|| Malformed::of_type("an item in the list of tables is not (name; empty table)"))
}

/// Encodes the log record of a schema change: `` (`.u.schema;`t;empty table) ``.
///
/// # Errors
/// Names that cannot be serialised.
pub fn schema_record(schema: &Schema) -> Result<Vec<u8>, EncodeError> {
    let mut record = Vec::new();
    let mut writer = Writer::new(&mut record);
    writer.list_head(3);
    writer.symbol(SCHEMA);
    writer.symbol(symbol::text(schema.name));
    put_empty(&mut writer, schema);
    writer.finish()?;
    Ok(record)
}

/// Decodes the table of such a record; `None` for other records.
pub fn recorded_schema(record: &[u8], limits: &Limits) -> Option<Schema> {
    let record = parts(record, limits).filter(proto::log::Record::is_schema)?;
    Schema::of(symbol::intern(record.table).ok()?, &wire::data(&record.columns).ok()?)
}
