//! Tables of a tickerplant with the precomputed first bytes of their records and messages.

use crate::kernel::sym::Sym;
use crate::table::schema::Schema;
use crate::table::symbol;
use foldhash::fast::FixedState;
use hashbrown::HashMap;
use proto::{EncodeError, HEAD_BYTES, Head, Writer, encode, types};
use std::sync::{Arc, PoisonError, RwLock};

/// Form of an update in messages to a subscriber.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Form {
    /// `` (`upd;`t;table) ``: for stock kdb+ subscribers and those of the paper.
    Table,
    /// `` (`upd;`t;table;index) ``: for elastick's nodes.
    Indexed,
}

/// Type and width of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ColumnSpec {
    /// Type code of the vector; 0 accepts any type.
    pub ty: i8,
    /// Bytes of an item; `None` for symbols and general lists.
    pub width: Option<usize>,
    /// Head of a vector of one item.
    pub one: [u8; HEAD_BYTES],
}

/// Schema of a table with everything precomputed for encoding.
#[derive(Clone, Debug)]
pub struct TableSpec {
    pub schema: Schema,
    pub name: Vec<u8>,
    pub column_names: Vec<Vec<u8>>,
    pub columns: Vec<ColumnSpec>,
    /// Index of the column `sym`, by which subscribers filter.
    pub sym_column: Option<usize>,
    /// First bytes of a log record, before the columns.
    pub record_head: Vec<u8>,
    table_head: Vec<u8>,
    indexed_head: Vec<u8>,
}

/// Why a schema is rejected.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SchemaError {
    /// kdb+tick's name for this error.
    #[error("timesym: the first two columns of {0} must be time and sym")]
    TimeSym(String),
    #[error("table {0}: {1}")]
    Encode(String, EncodeError),
    #[error("no tables")]
    Empty,
}

impl TableSpec {
    /// Precomputes the heads of a table's records and messages.
    ///
    /// # Errors
    /// `TimeSym`, as in kdb+tick; a schema that cannot be encoded.
    pub fn new(schema: &Schema) -> Result<TableSpec, SchemaError> {
        let text = |sym: Sym| symbol::text(sym).to_vec();
        let name = text(schema.name);
        let shown = name.escape_ascii().to_string();
        let column_names: Vec<Vec<u8>> = schema.columns.iter().map(|column| text(column.name)).collect();
        if !matches!(column_names.as_slice(), [time, sym, ..] if time == b"time" && sym == b"sym") {
            return Err(SchemaError::TimeSym(shown));
        }
        let columns: Vec<ColumnSpec> = schema
            .columns
            .iter()
            .map(|column| ColumnSpec {
                ty: column.ty,
                width: types::width(column.ty),
                one: Head::saturating(column.ty, 1).to_bytes(),
            })
            .collect();
        let wrong = |error| SchemaError::Encode(shown.clone(), error);
        let head = |items: usize| -> Result<Vec<u8>, EncodeError> {
            let mut out = Vec::new();
            encode::begin_message(proto::MessageKind::Async, &mut out);
            let mut writer = Writer::new(&mut out);
            writer.list_head(items);
            writer.symbol("upd");
            writer.symbol(&name);
            writer.table_head(&column_names);
            writer.finish()?;
            Ok(out)
        };
        let mut record_head = Vec::new();
        proto::log::write_record_head(&name, columns.len(), &mut record_head);
        let (table_head, indexed_head) = (head(3).map_err(wrong)?, head(4).map_err(wrong)?);
        let sym_column = schema
            .columns
            .iter()
            .zip(&column_names)
            .position(|(column, name)| name == b"sym" && column.ty == types::SYMBOL);
        Ok(TableSpec {
            schema: schema.clone(),
            name,
            column_names,
            columns,
            sym_column,
            record_head,
            table_head,
            indexed_head,
        })
    }

    /// First bytes of a message with an update; the length in its header is filled in later, and the columns follow.
    pub fn message_head(&self, form: Form) -> &[u8] {
        match form {
            Form::Table => &self.table_head,
            Form::Indexed => &self.indexed_head,
        }
    }

    /// Returns the name of a column for display.
    pub fn column_name(&self, column: usize) -> String {
        self.column_names.get(column).map(|name| name.escape_ascii().to_string()).unwrap_or_default()
    }
}

/// All tables, in the order of the schema file (`.u.t` is sorted).
#[derive(Clone, Debug, Default)]
pub struct Tables {
    specs: Vec<TableSpec>,
    by_name: HashMap<Vec<u8>, usize, FixedState>,
}

impl Tables {
    /// Precomputes the tables of a schema.
    ///
    /// # Errors
    /// As [`TableSpec::new`], or no tables.
    pub fn new(schemas: impl IntoIterator<Item = Schema>) -> Result<Tables, SchemaError> {
        let specs = schemas.into_iter().map(|schema| TableSpec::new(&schema)).collect::<Result<Vec<_>, _>>()?;
        if specs.is_empty() {
            return Err(SchemaError::Empty);
        }
        let by_name = specs.iter().enumerate().map(|(index, spec)| (spec.name.clone(), index)).collect();
        Ok(Tables { specs, by_name })
    }

    /// Returns a copy in which `schema` replaces the table of the same name; `None` if there is no such table.
    ///
    /// # Errors
    /// As [`TableSpec::new`].
    pub fn with(&self, schema: &Schema) -> Result<Option<Tables>, SchemaError> {
        let spec = TableSpec::new(schema)?;
        let mut tables = self.clone();
        let place = self.by_name.get(&spec.name).and_then(|index| tables.specs.get_mut(*index));
        Ok(place.map(|place| *place = spec).map(|()| tables))
    }

    /// Returns a table by name, with its index.
    pub fn find(&self, name: &[u8]) -> Option<(usize, &TableSpec)> {
        let index = *self.by_name.get(name)?;
        Some((index, self.specs.get(index)?))
    }

    pub fn get(&self, index: usize) -> Option<&TableSpec> {
        self.specs.get(index)
    }

    pub fn iter(&self) -> impl ExactSizeIterator<Item = &TableSpec> {
        self.specs.iter()
    }

    pub fn len(&self) -> usize {
        self.specs.len()
    }

    pub fn is_empty(&self) -> bool {
        self.specs.is_empty()
    }
}

/// Current tables, shared with the other threads.
#[derive(Clone, Debug)]
pub struct Current(Arc<RwLock<Arc<Tables>>>);

impl Current {
    pub fn new(tables: Arc<Tables>) -> Current {
        Current(Arc::new(RwLock::new(tables)))
    }

    pub fn get(&self) -> Arc<Tables> {
        Arc::clone(&self.0.read().unwrap_or_else(PoisonError::into_inner))
    }

    pub fn set(&self, tables: Arc<Tables>) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = tables;
    }
}
