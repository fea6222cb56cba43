//! What a process offers to the expressions that it evaluates.

use super::error::{Origin, QError};
use super::show::Console;
use columns::sys::shared::Shared;
use columns::table::{Sym, Value};

/// Who asks: what `.z.w`, `.z.u` and `.z.a` say while the expression runs.
#[derive(Clone, Debug, Default)]
pub struct Caller {
    /// `.z.w`: 0 at the console.
    pub handle: i32,
    pub user: Vec<u8>,
    /// `.z.a`: IPv4 address as an int, 0 over a Unix socket.
    pub address: i32,
    /// Remote callers may not reach files, processes and sockets, but for what is granted to them.
    pub remote: bool,
    pub grants: Grants,
}

/// What the process's owner lets remote callers do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Grants {
    /// Read and write files.
    pub files: bool,
    /// Files below the process's directory alone.
    pub inside: bool,
    /// Open handles to processes and send on handles that are not their own connection.
    pub sockets: bool,
    /// Send on handles of other processes that are open already.
    pub relay: bool,
    /// Run the operating system's commands; the environment; the working directory.
    pub system: bool,
}

impl Caller {
    pub fn may_use_files(&self) -> bool {
        !self.remote || self.grants.files
    }

    pub fn may_use_sockets(&self) -> bool {
        !self.remote || self.grants.sockets
    }

    pub fn may_use_system(&self) -> bool {
        !self.remote || self.grants.system
    }

    /// Whether files outside the process's directory are out of reach.
    pub fn is_kept_inside(&self) -> bool {
        self.remote && self.grants.inside
    }
}

/// Threads for `peach` and for operations on many rows. 0 and 1 both mean that none helps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Threads {
    /// `\s`.
    pub now: usize,
    /// What the process was started with (`-s`): `\s N` goes no higher.
    pub most: usize,
}

/// A number that a process goes by and that its console may change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Setting {
    /// `\e`: what an error in a client's request does: 0 unwinds, 1 opens the debugger, 2 shows the stack.
    ErrorTrap,
    /// `\t`: milliseconds between two calls of `.z.ts`, 0 for none.
    Timer,
    /// `\g`: how memory goes back to the system.
    Collection,
    /// `\T`: seconds that a client's request may take, 0 for no limit.
    QueryTime,
    /// `\w`: most bytes that an evaluation may hold, 0 for the default.
    Workspace,
}

/// The globals and native functions of a process.
///
/// Evaluation may run beside the thread that owns the process's state, on a snapshot. A host that cannot do there what
/// is asked (a call or an assignment that changes that state) answers [`NEEDS_OWNER`]; the expression is then run again,
/// whole, on the owner's thread. Nothing has been changed by then, so that running it twice is running it once.
pub trait Host {
    /// A global by its full name (`trade`, `.u.i`, `.z.D` is q's own), or `None` if it is undefined.
    fn global(&self, name: Sym) -> Option<Value>;

    /// Assigns a global.
    fn assign(&mut self, name: Sym, value: Value) -> Result<(), QError>;

    /// Lets a global be changed where it lies, if there is one and the process keeps it as a value of its own. What is not
    /// done here is done by [`Host::assign`].
    fn edit(&mut self, _name: Sym, _change: &mut dyn FnMut(&mut Value)) {}

    /// Forgets a global: `` delete t from `. ``.
    fn remove(&mut self, _name: Sym) -> Result<(), QError> {
        Err(QError::named("access"))
    }

    /// Names in a namespace (`.u`, or the null symbol for the root), in order of definition.
    fn names(&self, namespace: Sym) -> Vec<Sym>;

    /// More names in a namespace, which `key` lists but a dictionary of the namespace leaves out, for their values are large.
    fn large_names(&self, _namespace: Sym) -> Vec<Sym> {
        Vec::new()
    }

    /// Namespaces under the root, without their dot.
    fn namespaces(&self) -> Vec<Sym> {
        Vec::new()
    }

    /// A symbol is taken for a word of the language: whoever chose it has chosen a function.
    fn names_word(&self) {}

    /// Whether `name` is a native function, and with how many parameters.
    fn native(&self, name: Sym) -> Option<u8>;

    /// Calls a native function.
    fn call(&mut self, name: Sym, arguments: &[Value]) -> Result<Value, QError>;

    /// Appends rows (a table, or a list of columns or atoms) to the global table `name`: `insert` and `upsert`.
    /// Answers the indices of the new rows.
    fn append(&mut self, name: Sym, rows: &Value) -> Result<Value, QError>;

    fn caller(&self) -> &Caller;

    /// Whether the process lets its own console and scripts reach files and the operating system.
    fn reaches_files(&self) -> bool {
        false
    }

    /// The command line without the options of the language: `.z.x`.
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

    /// Whether errors keep what a person looks at afterwards: the locals of the lambdas that they left.
    fn debugs(&self) -> bool {
        false
    }

    /// Whether clients may not assign: `\_`.
    fn blocks_writes(&self) -> bool {
        false
    }

    fn setting(&self, _which: Setting) -> i64 {
        0
    }

    fn change(&mut self, _which: Setting, _to: i64) -> Result<(), QError> {
        Err(QError::with("access", "this command is not available here"))
    }

    /// The port that clients connect to, 0 for none: `\p`.
    fn port(&self) -> i32 {
        0
    }

    /// Listens as the text says, which may be `0` for no longer.
    fn listen(&mut self, _text: &[u8]) -> Result<(), QError> {
        Err(QError::with("access", "this command is not available here"))
    }

    /// Something outside is going to be changed right away: a file, the environment, what a command of the system does. A host
    /// whose evaluation may be begun anew has that done first, so that it happens once.
    fn alters(&self) -> Result<(), QError> {
        Ok(())
    }

    /// The handles that are open, for `.z.W`.
    fn open_handles(&self) -> Vec<i32> {
        Vec::new()
    }

    /// The file and the line, from 1, in which a function of this name was defined.
    fn origin(&self, _name: Sym) -> Option<Origin> {
        None
    }

    /// From now on what is assigned comes from a script's line.
    fn loading(&mut self, _from: Option<Origin>) {}

    /// The script's line that is running.
    fn loading_from(&self) -> Option<Origin> {
        None
    }

    /// `\1 file` and `\2 file`: where standard output or standard error goes.
    fn redirect(&mut self, _stream: u8, _path: &[u8]) -> Result<(), QError> {
        Err(QError::with("access", "this command is not available here"))
    }

    /// `hopen`: a handle to a file (`:path`) or a process (`:host:port:user:password`), within a time in milliseconds.
    fn open(&mut self, _target: &[u8], _timeout_ms: u64) -> Result<i32, QError> {
        Err(QError::with("access", "handles are not opened here"))
    }

    /// `hclose`.
    fn close(&mut self, _handle: i32) -> Result<(), QError> {
        Err(QError::with("access", "handles are not opened here"))
    }

    /// Whether whoever asks has opened this handle.
    fn owns(&self, _handle: i64) -> bool {
        false
    }

    /// Sends on an open handle: waits for the answer, for a negative handle not.
    fn send(&mut self, _handle: i64, _message: &Value) -> Result<Value, QError> {
        Err(QError::with("access", "no such handle"))
    }

    /// `-30!(::)`: the message that is being evaluated is answered later.
    fn defer(&mut self) -> Result<(), QError> {
        Err(QError::with("access", "nobody waits for an answer here"))
    }

    /// `-30!(handle;failed;result)`: the answer to a message that was deferred.
    fn respond(&mut self, _handle: i32, _result: Result<&Value, &[u8]>) -> Result<(), QError> {
        Err(QError::with("access", "nobody waits for an answer here"))
    }

    /// `exit`.
    fn exit(&mut self, _code: i32) -> Result<(), QError> {
        Err(QError::with("access", "exit is not allowed here"))
    }

    /// The rows, ascending, in which a grouped symbol column of a global table holds `symbol`, where an index knows them;
    /// `None` where the column has to be scanned.
    fn rows_of(&self, column: &Shared<Sym>, symbol: Sym) -> Option<Vec<u32>> {
        let _ = (column, symbol);
        None
    }

    /// Writes to the process's console: `show`, `0N!`, `-1 "text"`. A process without one drops it.
    fn print(&mut self, _text: &[u8]) -> Result<(), QError> {
        Ok(())
    }

    /// Writes to the process's standard error: `-2 "text"`.
    fn print_error(&mut self, text: &[u8]) -> Result<(), QError> {
        self.print(text)
    }

    /// How the console shows values: `\c` and `\P`.
    fn console(&self) -> Console {
        Console::default()
    }

    fn set_console(&mut self, _console: Console) -> Result<(), QError> {
        Err(QError::named("access"))
    }

    /// Threads that an evaluation may use.
    fn threads(&self) -> Threads {
        Threads::default()
    }

    /// `\s N`.
    fn set_threads(&mut self, _now: usize) -> Result<(), QError> {
        Err(QError::named("access"))
    }

    /// The host for the helper threads of an evaluation, which only read; none where it can be asked from one thread alone.
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

/// See [`Host`]. Never leaves the process.
pub const NEEDS_OWNER: QError = QError::named("needs owner");

/// What a wrapper passes on to the host in its field `host`: all that only reads.
macro_rules! reads_of_host {
    () => {
        fn global(&self, name: Sym) -> Option<Value> {
            self.host.global(name)
        }

        fn names(&self, namespace: Sym) -> Vec<Sym> {
            self.host.names(namespace)
        }

        fn names_word(&self) {
            self.host.names_word();
        }

        fn namespaces(&self) -> Vec<Sym> {
            self.host.namespaces()
        }

        fn native(&self, name: Sym) -> Option<u8> {
            self.host.native(name)
        }

        fn caller(&self) -> &Caller {
            self.host.caller()
        }

        fn arguments(&self) -> Value {
            self.host.arguments()
        }

        fn command_line(&self) -> Value {
            self.host.command_line()
        }

        fn started_with(&self) -> Sym {
            self.host.started_with()
        }

        fn is_quiet(&self) -> bool {
            self.host.is_quiet()
        }

        fn blocks_writes(&self) -> bool {
            self.host.blocks_writes()
        }

        fn setting(&self, which: Setting) -> i64 {
            self.host.setting(which)
        }

        fn port(&self) -> i32 {
            self.host.port()
        }

        fn open_handles(&self) -> Vec<i32> {
            self.host.open_handles()
        }

        fn origin(&self, name: Sym) -> Option<Origin> {
            self.host.origin(name)
        }

        fn rows_of(&self, column: &Shared<Sym>, symbol: Sym) -> Option<Vec<u32>> {
            self.host.rows_of(column, symbol)
        }

        fn console(&self) -> Console {
            self.host.console()
        }

        fn threads(&self) -> Threads {
            self.host.threads()
        }

        fn namespace(&self) -> Sym {
            self.host.namespace()
        }
    };
}
pub(super) use reads_of_host;

/// A host that answers and changes nothing: what `reval` evaluates with. It is asked from one thread, so that nothing on
/// another has more rights.
pub(super) struct ReadOnly<'h> {
    pub host: &'h mut dyn Host,
}

fn read_only() -> QError {
    QError::named("noupdate")
}

impl Host for ReadOnly<'_> {
    reads_of_host!();

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
