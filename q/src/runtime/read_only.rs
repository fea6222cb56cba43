//! The host as `reval` sees it.

use crate::runtime::console::Console;
use crate::runtime::delegated::reads_of_host;
use crate::runtime::error::{Origin, QError};
use crate::runtime::host::{Caller, Host, Setting, Threads};
use columns::sys::shared::Shared;
use columns::table::{Sym, Value, symbol};

/// Host wrapper for `reval`: delegates reads and rejects changes. It offers no [`Host::shared`], so no helper thread
/// evaluates with more rights.
pub(crate) struct ReadOnly<'h> {
    pub host: &'h mut dyn Host,
}

fn read_only() -> QError {
    QError::named("noupdate")
}

/// The error of an assignment under `reval` and, for a client, under `-b`, in kdb+'s words: `` noupdate: `. `a `` for the global a, `` noupdate: `.cfg `a `` for
/// .cfg.a.
pub(crate) fn not_changed(name: Sym) -> QError {
    let name = symbol::text(name);
    let in_root = (&b"."[..], name);
    let (space, own) = match name.iter().rposition(|byte| *byte == b'.').and_then(|dot| name.split_at_checked(dot)) {
        Some((space, own)) if !space.is_empty() => (space, own.strip_prefix(b".").unwrap_or(own)),
        _ => in_root,
    };
    QError::signal([b"noupdate: `", space, b" `", own].concat())
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

    fn assign(&mut self, name: Sym, _value: Value) -> Result<(), QError> {
        Err(not_changed(name))
    }

    fn call(&mut self, _name: Sym, _arguments: &[Value]) -> Result<Value, QError> {
        Err(read_only())
    }

    fn append(&mut self, name: Sym, _rows: &Value) -> Result<Value, QError> {
        Err(not_changed(name))
    }

    fn print(&mut self, text: &[u8]) -> Result<(), QError> {
        self.host.print(text)
    }

    fn print_error(&mut self, text: &[u8]) -> Result<(), QError> {
        self.host.print_error(text)
    }
}
