//! Interfaces to the layers above, used by primitives and queries.
//!
//! Primitives and the evaluator are mutually recursive: the evaluator calls primitives, and `@`, `each` or a where-clause
//! evaluate. To keep imports in one direction, what a lower layer needs of a higher one is a method of one of these traits,
//! which the higher layer implements for [`Context`]: [`Evaluate`] in `process::above`, [`Stored`] in `io::stored`. Calls
//! are statically dispatched, so they cost no more than direct ones.

use crate::runtime::context::Context;
use crate::runtime::error::{Origin, QError};
use crate::runtime::frame::{Frame, Walk};
use crate::syntax::ast::{Code, Node};
use columns::table::{Sym, Table, Value};

type Evaluated = Result<Value, QError>;

/// The function of a primitive.
pub(crate) enum Run {
    Unary(fn(&mut Context<'_>, Value) -> Evaluated),
    Binary(fn(&mut Context<'_>, Value, Value) -> Evaluated),
    Many(fn(&mut Context<'_>, Vec<Value>) -> Evaluated),
}

/// Evaluation.
pub(crate) trait Evaluate {
    /// The function of the primitive at an index of the table.
    fn function(index: u16) -> Option<&'static Run>;

    /// Applies `f`: a function, a list or dictionary, a name, a handle.
    fn apply(&mut self, f: &Value, arguments: Vec<Value>) -> Evaluated;

    /// Applies `f` to one argument.
    fn call1(&mut self, f: &Value, x: Value) -> Evaluated {
        self.apply(f, vec![x])
    }

    /// Applies `f` to two arguments.
    fn call2(&mut self, f: &Value, x: Value, y: Value) -> Evaluated {
        self.apply(f, vec![x, y])
    }

    /// The value of a node.
    fn node(&mut self, node: &Node, frame: &mut Frame) -> Walk;

    /// Runs code with its arguments.
    fn run(&mut self, code: &Code, arguments: Vec<Value>) -> Evaluated;

    /// Evaluates a line, of a script if it has an origin; also returns whether the console shows the value.
    fn line(&mut self, text: &[u8], origin: Option<Origin>) -> Result<(Value, bool), QError>;

    /// Evaluates text; returns the generic null if the console shows nothing.
    fn text(&mut self, text: &[u8]) -> Evaluated;

    /// Evaluates a message.
    fn message(&mut self, object: &Value) -> Evaluated;

    /// Runs a command: the text after a backslash, or the argument of `system`.
    fn command(&mut self, text: &[u8]) -> Evaluated;

    /// Runs a script file.
    fn script(&mut self, path: &[u8]) -> Evaluated;

    /// The value of a global; built-in names come first.
    fn global(&mut self, name: Sym) -> Evaluated;

    /// The global that a symbol names in the current namespace.
    fn named(&self, name: Sym) -> Result<Sym, QError>;

    /// Assigns a global.
    fn set_global(&mut self, name: Sym, value: Value) -> Result<(), QError>;

    /// Calls `.z.vs`, if it is set, after a global of the default namespace was assigned at indices.
    fn was_set(&mut self, name: Sym, indices: &[Value]) -> Result<(), QError>;

    /// A namespace as a dictionary.
    fn namespace(&mut self, name: Sym) -> Option<Value>;

    /// Deletes names of a namespace. One that has no names left remains, empty.
    fn delete_names(&mut self, space: Sym, names: &[Sym]) -> Result<(), QError>;

    /// The value of a name that the library, written in q, defines.
    fn library(&self, name: Sym) -> Result<Option<Value>, QError>;

    /// The library's names in a namespace, without the namespace.
    fn library_names(space: &[u8]) -> Vec<Sym>;

    /// Built-in variables: `.z.p` and the like.
    fn variable(&self, name: &[u8]) -> Option<Value>;

    /// `n!x` with a negative number.
    fn numbered(&mut self, number: i64, x: Value) -> Evaluated;
}

/// Values and tables in files. Every access to a file fails with `'access` if the evaluation may not
/// access files.
pub(crate) trait Stored {
    /// The value in a file.
    fn stored(&mut self, file: &Value) -> Evaluated;

    /// The value in a file, or the empty list if there is none.
    fn stored_or_empty(&mut self, file: &Value) -> Evaluated;

    /// Writes a value to a file; returns the file's symbol.
    fn store(&mut self, file: Value, value: &Value) -> Evaluated;

    /// Appends rows to a splayed table, or items to the file of a list; `false` if the file must be written as a whole.
    fn append_stored(&mut self, file: &Value, rows: &Value) -> Result<bool, QError>;

    /// Writes the changed value of a file, which stays compressed if it was.
    fn store_changed(&mut self, file: Value, value: &Value) -> Evaluated;

    /// Writes a value compressed; `how` lists the file's symbol, then the compression parameters.
    fn store_packed(&mut self, how: &Value, value: &Value) -> Evaluated;

    /// The names in a directory; for a file its own symbol, for nothing the empty list.
    fn stored_names(&mut self, file: Value) -> Evaluated;

    /// Enumerates over the symbols in a file, appending those that it lacks.
    fn extend_stored_domain(&mut self, file: Sym, y: Value) -> Evaluated;

    /// Reads a splayed table into memory; `'par` for a partitioned one.
    fn table_on_disk(&mut self, x: &Value) -> Evaluated;

    /// Names of the columns of a splayed table on disk, if `x` is one.
    fn names_on_disk(&mut self, x: &Value) -> Result<Option<Vec<Sym>>, QError>;

    /// A table of at most one row with the columns of the table on disk, if `x` is one.
    fn schema_on_disk(&mut self, x: &Value) -> Result<Option<Table>, QError>;

    /// Number of rows of a table on disk, if `x` is one.
    fn rows_on_disk(&mut self, x: &Value) -> Result<Option<i64>, QError>;

    /// Called before a global is changed: reads the splayed tables loaded with `\l` again whose files this process has written.
    fn settle_loaded(&mut self);
}
