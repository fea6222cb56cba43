//! File operations behind the interface that lower layers call.

use crate::io::files::{self, database};
use crate::runtime::context::Context;
use crate::runtime::error::QError;
use crate::verbs::above::Stored;
use columns::table::{Sym, Table, Value};

type Evaluated = Result<Value, QError>;

impl Stored for Context<'_> {
    fn stored(&mut self, file: &Value) -> Evaluated {
        files::get_here(self, file)
    }

    fn stored_or_empty(&mut self, file: &Value) -> Evaluated {
        files::get_or_empty(self, file)
    }

    fn store(&mut self, file: Value, value: &Value) -> Evaluated {
        files::set(self, file, value)
    }

    fn store_changed(&mut self, file: Value, value: &Value) -> Evaluated {
        files::set_changed(self, file, value)
    }

    fn append_stored(&mut self, file: &Value, rows: &Value) -> Result<bool, QError> {
        files::append(self, file, rows)
    }

    fn store_packed(&mut self, how: &Value, value: &Value) -> Evaluated {
        files::set_packed(self, how, value)
    }

    fn stored_names(&mut self, file: Value) -> Evaluated {
        files::key(self, file)
    }

    fn extend_stored_domain(&mut self, file: Sym, y: Value) -> Evaluated {
        files::extend_domain(self, file, y)
    }

    fn table_on_disk(&mut self, x: &Value) -> Evaluated {
        files::table_of(self, x)
    }

    fn names_on_disk(&mut self, x: &Value) -> Result<Option<Vec<Sym>>, QError> {
        database::names(self, x)
    }

    fn schema_on_disk(&mut self, x: &Value) -> Result<Option<Table>, QError> {
        database::schema(self, x)
    }

    fn rows_on_disk(&mut self, x: &Value) -> Result<Option<i64>, QError> {
        database::count(self, x)
    }

    fn settle_loaded(&mut self) {
        files::loaded::settle(self);
    }
}
