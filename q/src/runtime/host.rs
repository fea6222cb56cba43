//! Interface between the language and the process that evaluates it.

use crate::runtime::console::Console;
use crate::runtime::error::{Origin, QError};
use columns::sys::shared::Shared;
use columns::table::{Items, Sym, Value, Vector};
use std::borrow::Cow;
use std::path::PathBuf;

/// The client of an evaluation: values of `.z.w`, `.z.u`, `.z.a` and `.z.e`, and its rights.
#[derive(Clone, Debug, Default)]
pub struct Caller {
    /// `.z.w`: 0 at the console.
    pub handle: i32,
    pub user: Vec<u8>,
    /// `.z.a`: IPv4 address as an int, 0 over a Unix socket.
    pub address: i32,
    /// `.z.e`: cipher and protocol of a connection with TLS.
    pub tls: Option<(String, &'static str)>,
    /// A remote caller; it reaches files, processes and sockets only as granted.
    pub remote: bool,
    pub grants: Grants,
}

/// Rights that the process's owner grants to remote callers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Grants {
    /// Read and write files.
    pub files: bool,
    /// Restricts file access to the process's working directory.
    pub inside: bool,
    /// Open handles to processes, and send on handles other than the caller's own connection.
    pub sockets: bool,
    /// Send on handles to other processes that are already open.
    pub relay: bool,
    /// Run operating system commands, and change the environment and the working directory.
    pub system: bool,
}

impl Caller {
    /// Whether the caller may read and write files; always true for the owner.
    pub fn may_use_files(&self) -> bool {
        !self.remote || self.grants.files
    }

    /// Whether the caller may open handles and send on any of them; always true for the owner.
    pub fn may_use_sockets(&self) -> bool {
        !self.remote || self.grants.sockets
    }

    /// Whether the caller may run operating system commands; always true for the owner.
    pub fn may_use_system(&self) -> bool {
        !self.remote || self.grants.system
    }

    /// Whether files outside the process's working directory are out of reach.
    pub fn is_kept_inside(&self) -> bool {
        self.remote && self.grants.inside
    }
}

/// Threads for `peach` and for operations on many rows. 0 and 1 both mean no helper threads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Threads {
    /// `\s`.
    pub now: usize,
    /// `-s` of the command line, the upper limit of `\s N`.
    pub most: usize,
    /// N of `\s -N`, with which `peach` sends its items to the processes of `.z.pd`; 0 without it.
    pub processes: usize,
}

/// A numeric setting of the process that its console may change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Setting {
    /// `\e`: effect of an error in a client's request: 0 unwinds, 1 opens the debugger, 2 shows the stack.
    ErrorTrap,
    /// `\t`: milliseconds between two calls of `.z.ts`, 0 for none.
    Timer,
    /// `\g`: when memory is returned to the system.
    Collection,
    /// `\T`: time limit of a client's request in seconds, 0 for none.
    QueryTime,
    /// `\w`: memory limit of an evaluation in bytes, 0 for the default.
    Workspace,
}

/// How an evaluation continues that was suspended at an error.
#[derive(Clone, Debug)]
pub enum Resume {
    /// It was not suspended: the error unwinds it.
    Pass,
    /// This is the result of what failed.
    With(Value),
    /// Another error ends the innermost function.
    Signal(Vec<u8>),
    /// It ends; the error has been shown.
    Abort,
}

/// Data that becomes code.
#[derive(Clone, Copy, Debug)]
pub enum Made<'a> {
    /// A value that a symbol or bytes gave: code if a function is in it.
    Value(&'a Value),
    /// Text that is evaluated.
    Text(&'a [u8]),
    /// A message, `(function;arguments)`, that is evaluated.
    Message(&'a Value),
    /// A parse tree, or text that is parsed, loaded or run as a command.
    Other,
}

impl Made<'_> {
    /// Whether this is a message as it was received.
    pub fn is(&self, message: &Value) -> bool {
        match self {
            Made::Text(text) => message.as_text() == Some(text),
            Made::Message(Value::Vector(Vector { items, .. })) => match (items, message) {
                (Items::List(list), Value::Vector(Vector { items: Items::List(own), .. })) => {
                    list.as_ptr() == own.as_ptr() && list.len() == own.len()
                }
                (Items::Sym(names), Value::Vector(Vector { items: Items::Sym(own), .. })) => names[..] == own[..],
                _ => false,
            },
            Made::Message(_) | Made::Value(_) | Made::Other => false,
        }
    }
}

/// Globals, native functions and I/O of a process.
///
/// An evaluation may run on a snapshot, outside the thread that owns the process's state. A host that cannot perform an
/// operation there (a call or an assignment that changes that state) returns [`NEEDS_OWNER`]; the whole expression then
/// runs again on the owner's thread. The first run changed nothing, so its effects happen once.
pub trait Host {
    /// Returns a global by its full name (`trade`, `.u.i`), or `None` if it is undefined. The language itself provides
    /// `.z.D` and the like.
    fn global(&self, name: Sym) -> Option<Value>;

    /// Error of a name for which [`Host::global`] has returned `None`.
    fn missing(&self, name: Sym) -> QError {
        QError::signal(columns::table::symbol::text(name)).because("no variable or column has this name")
    }

    /// Whether other callers of this process see other values of the same names, so that no result may be shared with them.
    fn is_restricted(&self) -> bool {
        false
    }

    /// Assigns a global.
    fn assign(&mut self, name: Sym, value: Value) -> Result<(), QError>;

    /// Whether the operation that follows is written in code of the owner's start-up files: an assignment, or an `insert`, `upsert`, `set` or
    /// `-30!` with the name or number in the text. A host lets such code do what it refuses a client, also if a client calls it.
    fn acts_as_owner(&mut self, _is_owner: bool) {}

    /// Returns the value that code of the owner's start-up files changes in part (`n+:1`), also if the caller may not read it.
    fn global_to_change(&mut self, name: Sym) -> Option<Value> {
        self.global(name)
    }

    /// The message that the evaluation answers: evaluating it again, as `.z.pg:{value x}` does, is no use of another's data as code.
    fn begins(&mut self, _message: &Value) {}

    /// Modifies a global in place if the process stores it as an ordinary value; otherwise does nothing, and the caller
    /// uses [`Host::assign`].
    fn edit(&mut self, _name: Sym, _change: &mut dyn FnMut(&mut Value)) {}

    /// Whether the caller may change or delete a global, where several are changed only together.
    ///
    /// # Errors
    /// Those of [`Host::assign`] and [`Host::remove`].
    fn may_change(&self, _name: Sym) -> Result<(), QError> {
        Ok(())
    }

    /// Deletes a global: `` delete t from `. ``.
    fn remove(&mut self, _name: Sym) -> Result<(), QError> {
        Err(QError::named("access"))
    }

    /// Returns the names in a namespace (`.u`, or the null symbol for the root), in order of definition.
    fn names(&self, namespace: Sym) -> Vec<Sym>;

    /// Returns the first root global for which `is_it` holds, null if there is none. It does not count as a read: error traces
    /// name functions in this way.
    fn find_name(&self, is_it: &mut dyn FnMut(&Value) -> bool) -> Sym {
        let mut names = self.names(Sym::NULL).into_iter();
        names.find(|name| self.global(*name).is_some_and(|value| is_it(&value))).unwrap_or(Sym::NULL)
    }

    /// Returns the full names of the globals in a namespace and in those nested in it: an assignment to its name deletes them. Unlike
    /// [`Host::names`], it does not count as reading names that clients may have chosen (`guard`).
    fn names_below(&self, _namespace: Sym) -> Vec<Sym> {
        Vec::new()
    }

    /// Returns names that `key` lists but a dictionary of the namespace omits, because their values are large.
    fn large_names(&self, _namespace: Sym) -> Vec<Sym> {
        Vec::new()
    }

    /// Returns the namespaces under the root, without their dot.
    fn namespaces(&self) -> Vec<Sym> {
        Vec::new()
    }

    /// Called when data becomes code. A host lowers the evaluation's rights if the data may be a remote caller's.
    ///
    /// # Errors
    /// `access` if the data may be of a user whose code runs for nobody else.
    fn makes_code(&self, _made: Made<'_>) -> Result<(), QError> {
        Ok(())
    }

    /// Returns the number of parameters if `name` is a native function.
    fn native(&self, name: Sym) -> Option<u8>;

    /// Returns the maximum number of arguments of a native function, if it has optional ones behind its parameters.
    fn native_most(&self, name: Sym) -> Option<u8> {
        self.native(name)
    }

    /// Calls a native function.
    fn call(&mut self, name: Sym, arguments: &[Value]) -> Result<Value, QError>;

    /// Appends rows (a table, or a list of columns or atoms) to the global table `name`: `insert` and `upsert`. Returns the
    /// indices of the new rows.
    fn append(&mut self, name: Sym, rows: &Value) -> Result<Value, QError>;

    /// The client of the evaluation.
    fn caller(&self) -> &Caller;

    /// Whether the process lets its own console and scripts reach files and the operating system.
    fn reaches_files(&self) -> bool {
        false
    }

    /// Memory in use and its peak in bytes, for `\w` and `.Q.w`.
    fn used_bytes(&self) -> [i64; 2] {
        columns::sys::allocated::process_bytes()
    }

    /// The command line without the language's options: `.z.x`.
    fn arguments(&self) -> Value {
        Value::empty()
    }

    /// The whole command line: `.z.X`.
    fn command_line(&self) -> Value {
        self.arguments()
    }

    /// The script that the process was started with, null without one: `.z.f`.
    fn started_with(&self) -> Sym {
        Sym::NULL
    }

    /// Whether the process shows neither banner nor prompts: `.z.q`.
    fn is_quiet(&self) -> bool {
        false
    }

    /// Whether an error in a function calls [`Host::suspend`].
    fn debugs(&self) -> bool {
        false
    }

    /// Stops an evaluation at an error, until its owner has decided how it continues. `error` has the whole call stack, with the scope of each
    /// level, whose locals the owner may change.
    fn suspend(&mut self, _error: &mut QError) -> Resume {
        Resume::Pass
    }

    /// Whether clients may not assign: `\_`.
    fn blocks_writes(&self) -> bool {
        false
    }

    /// Whether this evaluation may change nothing: in `reval`, and for clients of a process started with `-b`. `.z.r`
    fn is_read_only(&self) -> bool {
        self.blocks_writes() && self.caller().handle != 0
    }

    fn setting(&self, _which: Setting) -> i64 {
        0
    }

    fn change(&mut self, _which: Setting, _to: i64) -> Result<(), QError> {
        Err(QError::with("access", "this command is not available here"))
    }

    /// The listening port, 0 for none: `\p`.
    fn port(&self) -> i32 {
        0
    }

    /// Listens on the address in the text; `0` stops listening.
    fn listen(&mut self, _text: &[u8]) -> Result<(), QError> {
        Err(QError::with("access", "this command is not available here"))
    }

    /// Called just before an external change: a file, the environment, a system command. A host that may restart the
    /// evaluation fails here until it may perform the change ([`NEEDS_OWNER`]), so that the change happens once.
    fn alters(&self) -> Result<(), QError> {
        Ok(())
    }

    /// The process's TLS settings by kdb+'s names: `(-26!)[]`.
    fn tls_settings(&self) -> Vec<(&'static str, String)> {
        Vec::new()
    }

    /// Directories of the partitions of databases that the owner has loaded: as `.Q.pd` names them, and absolute.
    fn shown_places(&self) -> &[(Sym, PathBuf)] {
        &[]
    }

    /// Adds to [`Host::shown_places`], in the place of one of the same name.
    fn show_place(&mut self, _place: Sym, _folder: PathBuf) {}

    /// Files that the process reads at its start, as absolute paths: remote callers must not change them.
    fn guarded(&self) -> &[PathBuf] {
        &[]
    }

    /// The open handles, for `.z.W`.
    fn open_handles(&self) -> Vec<i32> {
        Vec::new()
    }

    /// Protocol and family of an open handle's socket, as in [`crate::handles::Peer::socket`], for `-38!`.
    fn socket(&self, handle: i32) -> Option<[u8; 2]> {
        self.open_handles().contains(&handle).then_some(*b"qt")
    }

    /// Bytes that wait to be sent to a handle, for `.z.W`. Handles for which none wait can be missing.
    fn waiting_bytes(&self) -> Vec<(i32, i64)> {
        Vec::new()
    }

    /// Returns the call stack of another process of this user, serialised as a message; empty if that process evaluates nothing.
    ///
    /// # Errors
    /// `access` in a process that opens no sockets; those of the connection to the other process; those of `pace`, which is called every few milliseconds during the
    /// wait and checks the caller's time limit.
    fn stack_of(&self, _pid: u32, _pace: &dyn Fn() -> Result<(), QError>) -> Result<Vec<u8>, QError> {
        Err(QError::with("access", "this process reads no call stack of another"))
    }

    /// Returns file and line (from 1) of the definition of a function.
    fn origin(&self, _name: Sym) -> Option<Origin> {
        None
    }

    /// Sets the script line that definitions are attributed to from now on.
    fn loading(&mut self, _from: Option<Origin>) {}

    /// The script line in evaluation.
    fn loading_from(&self) -> Option<Origin> {
        None
    }

    /// `\1 file` and `\2 file`: redirects standard output or standard error.
    fn redirect(&mut self, _stream: u8, _path: &[u8]) -> Result<(), QError> {
        Err(QError::with("access", "this command is not available here"))
    }

    /// `hopen`: opens a handle to a file (`:path`) or a process (`:host:port:user:password`), with a timeout in
    /// milliseconds.
    fn open(&mut self, _target: &[u8], _timeout_ms: u64) -> Result<i32, QError> {
        Err(QError::with("access", "cannot open handles here"))
    }

    /// `hclose`.
    fn close(&mut self, _handle: i32) -> Result<(), QError> {
        Err(QError::with("access", "cannot open handles here"))
    }

    /// Whether the caller opened this handle.
    fn owns(&self, _handle: i64) -> bool {
        false
    }

    /// Sends on an open handle and returns the response; a negative handle sends without waiting.
    fn send(&mut self, _handle: i64, _message: &Value) -> Result<Value, QError> {
        Err(QError::with("access", "no such handle"))
    }

    /// Reads at most so many bytes of a named pipe.
    fn read_pipe(&mut self, _handle: i64, _bytes: usize) -> Result<Value, QError> {
        Err(QError::with("type", "the handle is no named pipe"))
    }

    /// `-30!(::)`: defers the response to the message in evaluation.
    fn defer(&mut self) -> Result<(), QError> {
        Err(QError::with("access", "no client is waiting for a response here"))
    }

    /// `-30!(handle;failed;result)`: sends a deferred response.
    fn respond(&mut self, _handle: i32, _result: Result<&Value, &[u8]>) -> Result<(), QError> {
        Err(QError::with("access", "no client is waiting for a response here"))
    }

    /// `exit`.
    fn exit(&mut self, _code: i32) -> Result<(), QError> {
        Err(QError::with("access", "exit is not allowed here"))
    }

    /// Returns the rows, ascending, in which a grouped symbol column of a global table holds `symbol`, if an index knows
    /// them; `None` if the column has to be scanned.
    fn rows_of(&self, column: &Shared<Sym>, symbol: Sym) -> Option<Vec<u32>> {
        let _ = (column, symbol);
        None
    }

    /// Writes to the process's console: `show`, `0N!`, `-1 "text"`. A process without a console drops the text.
    fn print(&mut self, _text: &[u8]) -> Result<(), QError> {
        Ok(())
    }

    /// Writes to the process's standard error: `-2 "text"`.
    fn print_error(&mut self, text: &[u8]) -> Result<(), QError> {
        self.print(text)
    }

    /// Format of values at the console: `\c` and `\P`.
    fn console(&self) -> Console {
        Console::default()
    }

    fn set_console(&mut self, _console: Console) -> Result<(), QError> {
        Err(QError::named("access"))
    }

    /// Number of threads that an evaluation may use.
    fn threads(&self) -> Threads {
        Threads::default()
    }

    /// `\s N`.
    fn set_threads(&mut self, _now: usize) -> Result<(), QError> {
        Err(QError::named("access"))
    }

    /// `\s -N`.
    fn set_processes(&mut self, _count: usize) -> Result<(), QError> {
        Err(QError::named("access"))
    }

    /// Sends requests `0..count` to several processes, the next one to whichever has answered, and returns their responses in order. `check`
    /// is called while it waits.
    fn spread(
        &mut self,
        _handles: &[i32],
        _count: usize,
        _request: &dyn Fn(usize) -> Value,
        _check: &dyn Fn() -> Result<(), QError>,
    ) -> Result<Vec<Value>, QError> {
        Err(QError::with("access", "no such handle"))
    }

    /// The read-only host for helper threads; `None` if only one thread may use it.
    fn shared(&self) -> Option<&(dyn Host + Sync)> {
        None
    }

    /// The namespace in which names are looked up, null for the root: `\d`.
    fn namespace(&self) -> Sym {
        Sym::NULL
    }

    fn set_namespace(&mut self, _namespace: Sym) -> Result<(), QError> {
        Err(QError::named("access"))
    }
}

/// Signals that only the owner's thread can run the expression, see [`Host`]. Never leaves the process.
pub const NEEDS_OWNER: QError = QError::named("needs owner");

/// Whether this is the error of a limit of the evaluation. Limits use string constants. An undefined variable `stop`,
/// `'wsfull` in a function and an error from another process have the same names in owned strings.
pub(crate) fn is_limit(error: &QError) -> bool {
    matches!(error.name, Cow::Borrowed(b"stop" | b"wsfull")) || *error == NEEDS_OWNER
}
