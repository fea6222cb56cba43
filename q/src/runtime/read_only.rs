//! The host as `reval` sees it.

use crate::runtime::console::Console;
use crate::runtime::error::{Origin, QError};
use crate::runtime::host::{Caller, Host, Setting, Threads, reads_of_host};
use columns::sys::shared::Shared;
use columns::table::{Sym, Value};

/// Host wrapper for `reval`: delegates reads and rejects changes. It offers no [`Host::shared`], so no helper thread
/// evaluates with more rights.
pub(crate) struct ReadOnly<'h> {
    pub host: &'h mut dyn Host,
}

fn read_only() -> QError {
    QError::named("noupdate")
}

impl Host for ReadOnly<'_> {
    reads_of_host!();

    fn is_read_only(&self) -> bool {
        true
    }

    /// Partitioned tables are read from their files; `alters` rejects all changes of files and of the system.
    fn reaches_files(&self) -> bool {
        self.host.reaches_files()
    }

    fn alters(&self) -> Result<(), QError> {
        Err(read_only())
    }

    fn assign(&mut self, _name: Sym, _value: Value) -> Result<(), QError> {
        Err(read_only())
    }

    fn call(&mut self, _name: Sym, _arguments: &[Value]) -> Result<Value, QError> {
        Err(read_only())
    }

    fn append(&mut self, _name: Sym, _rows: &Value) -> Result<Value, QError> {
        Err(read_only())
    }

    fn print(&mut self, text: &[u8]) -> Result<(), QError> {
        self.host.print(text)
    }

    fn print_error(&mut self, text: &[u8]) -> Result<(), QError> {
        self.host.print_error(text)
    }
}
