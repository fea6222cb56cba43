//! A host for expressions: globals in memory and a console. Used by `elastick q` and to load schemas.

mod completion;
mod debugging;
mod deferred;
mod nested;
mod outside;
mod refreshed;

use crate::io::handles;
use crate::io::handles::{Connector, Handles, Peer};
use crate::process::entry::eval_line;
use crate::runtime::console::Console;
use crate::runtime::error::{Origin, QError};
use crate::runtime::guard::{Asking, Authors};
use crate::runtime::host::{Caller, Grants, Host, Made, Resume, Setting, Threads};
use crate::runtime::limits::{self, Limits};
use crate::runtime::names;
use crate::runtime::read_only::not_changed;
use crate::runtime::values::symbol;
use crate::syntax::lambda;
use crate::verbs::append;
use crate::verbs::show::{cut_note, show};
use columns::sys::process::in_address_space;
use columns::table::function::Function;
use columns::table::symbol::text;
use columns::table::{Sym, Value};
use std::collections::{BTreeSet, HashMap, HashSet};
use std::path::Path;
use std::path::PathBuf;
use std::sync::Arc;

pub use debugging::Debugger;
pub use outside::{Door, Output, StackReader, Start};

/// A session: globals in namespaces, in order of definition, with its handles and settings.
#[derive(Default)]
pub struct Session {
    globals: HashMap<Sym, Value>,
    order: Vec<Sym>,
    /// Namespaces that have had names.
    spaces: HashSet<Sym>,
    asking: Asking,
    /// Author of the code in each global: the owner or a remote caller.
    authors: Authors,
    console: Console,
    namespace: Sym,
    printed: Vec<u8>,
    output: Option<Box<dyn Output>>,
    door: Option<Box<dyn Door>>,
    stacks: Option<StackReader>,
    reaches_files: bool,
    shown_places: Vec<(Sym, PathBuf)>,
    debugs: bool,
    debugger: Option<Arc<dyn Debugger>>,
    start: Start,
    settings: HashMap<Setting, i64>,
    origins: HashMap<Sym, Origin>,
    loading: Option<Origin>,
    /// Scripts that `\l` has loaded.
    loaded: BTreeSet<Arc<[u8]>>,
    handles: Arc<Handles>,
    exit: Option<i32>,
    threads: Threads,
    waiting: Waiting,
    /// Clients by handle.
    callers: HashMap<i32, Caller>,
    own_memory_bytes: u64,
}

/// Deferred responses: `-30!`.
#[derive(Default)]
struct Waiting {
    /// The sender of the current message waits for a response.
    needs_response: bool,
    /// That response was deferred.
    is_deferred: bool,
    /// Number of deferred responses by handle.
    handles: HashMap<i32, usize>,
    /// Responses given but not yet sent.
    answers: Vec<Deferred>,
}

/// A deferred response: the handle of the request, and the result or error.
pub type Deferred = (i32, Result<Value, Vec<u8>>);

impl Session {
    pub fn new() -> Session {
        Session::default()
    }

    /// An interactive session, with access to files, the operating system and the processes that `connector` reaches.
    pub fn console(start: Start, connector: Option<Connector>) -> Session {
        Session::of_owner(start, Arc::new(Handles::new(connector, handles::FIRST)))
    }

    /// [`Session::console`] with handles that outlive the session.
    pub fn of_owner(start: Start, handles: Arc<Handles>) -> Session {
        Session { reaches_files: true, start, handles, ..Session::default() }
    }

    /// Sends output to `output` instead of the buffer.
    pub fn set_output(&mut self, output: Box<dyn Output>) {
        self.output = Some(output);
    }

    /// Sets the function that reads another process's call stack for `-37!` and `.Q.prf0`. If none is set, both signal `'access`.
    pub fn set_stacks(&mut self, stacks: StackReader) {
        self.stacks = Some(stacks);
    }

    /// Lets `\p` open a port.
    pub fn set_door(&mut self, door: Box<dyn Door>) {
        self.door = Some(door);
    }

    /// Adds a connection accepted from another process, under the number reserved for it, and returns its handle.
    pub fn adopt(&mut self, peer: Box<dyn Peer>, reserved: Option<i32>) -> Result<i32, QError> {
        self.handles.adopt(peer, reserved)
    }

    /// Returns the handle of a connection that is about to be accepted, which no other one gets before it is adopted or released.
    pub fn reserve_handle(&self) -> i32 {
        self.handles.reserve()
    }

    pub fn release_handle(&self, handle: i32) {
        self.handles.release(handle);
    }

    /// Removes a handle whose peer disconnected.
    pub fn forget(&mut self, handle: i32) {
        // The evaluation may have closed it already.
        let _ = self.handles.close(handle);
    }

    /// Sets the caller of the following evaluations.
    pub fn set_caller(&mut self, caller: Caller) {
        let grants = Grants { relay: true, ..Grants::default() };
        self.asking = Asking::new(caller, grants);
    }

    /// Restores the caller's own rights for the next evaluation.
    pub fn begin(&self) {
        self.asking.raise();
    }

    /// Marks the next evaluation as one with a client's values as arguments, as `.z.pw` has.
    pub fn serve_caller(&self) {
        self.asking.serve_caller();
    }

    /// Checks that the caller may change a global.
    fn check_change(&self, name: Sym) -> Result<(), QError> {
        let caller = self.asking.caller();
        if self.start.blocks_writes && caller.handle != 0 {
            return Err(not_changed(name));
        }
        self.authors.check(name, caller.remote)
    }

    /// Sets the number of threads per evaluation: `-s`.
    pub fn with_threads(self, most: usize) -> Session {
        Session { threads: Threads { now: most, most, ..self.threads }, ..self }
    }

    /// Has `peach` use the processes of `.z.pd`: `-s -N`.
    pub fn with_processes(mut self, count: usize) -> Session {
        self.threads.processes = count;
        self
    }

    /// Current display settings.
    pub fn console_now(&self) -> Console {
        self.console
    }

    /// Prints the result of a console line, and what of it is not shown.
    fn display(&mut self, value: &Value, limits: &Limits) -> Result<(), QError> {
        let shown = limits.within(|| show(value, &self.console));
        self.print(&shown)?;
        if let Some(output) = &mut self.output
            && let Some(note) = limits.within(|| cut_note(value, &self.console))
        {
            output.note(note.as_bytes());
        }
        Ok(())
    }

    /// Exit code, once `exit` was called.
    pub fn exited(&self) -> Option<i32> {
        self.exit
    }

    /// Takes back the call of `exit`; returns its code.
    pub fn take_exit(&mut self) -> Option<i32> {
        self.exit.take()
    }

    /// Removes and returns the buffered output; empty if an [`Output`] is set.
    pub fn take_printed(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.printed)
    }

    /// Names and values of globals, in order of definition.
    pub fn globals(&self) -> impl Iterator<Item = (Sym, &Value)> {
        self.order.iter().filter_map(|name| self.globals.get(name).map(|value| (*name, value)))
    }

    /// Paths of the scripts that `\l` has loaded.
    pub fn loaded(&self) -> impl Iterator<Item = &Path> {
        use std::os::unix::ffi::OsStrExt;
        self.loaded.iter().map(|path| Path::new(std::ffi::OsStr::from_bytes(path)))
    }

    /// Limits of this session's evaluations: those of `-w`, by default 2 GiB, and never more than four fifths of what `ulimit -v` leaves.
    pub fn limits(&self) -> Limits {
        let most = self.setting(Setting::Workspace);
        let usual = Limits::default();
        let memory_bytes = u64::try_from(most).ok().filter(|m| *m > 0).unwrap_or(usual.memory_bytes);
        Limits { memory_bytes: in_address_space(memory_bytes), ..usual }
    }

    /// Sets the memory in bytes that a console line may allocate unless `-w` says otherwise.
    pub fn set_own_memory(&mut self, bytes: u64) {
        self.own_memory_bytes = bytes;
    }

    /// Limits of the owner's lines: a log or a file is loaded as far as there is memory.
    fn own_limits(&self) -> Limits {
        let limits = self.limits();
        match self.setting(Setting::Workspace) {
            0 => Limits { memory_bytes: in_address_space(limits.memory_bytes.max(self.own_memory_bytes)), ..limits },
            _ => limits,
        }
    }

    /// Evaluates a console line and prints the result.
    ///
    /// # Errors
    /// The error of the line, which is not printed.
    pub fn line(&mut self, line: &[u8]) -> Result<(), QError> {
        let limits = self.own_limits();
        self.refresh_tables();
        self.begin();
        if let Some(handler) = self.input_handler()
            && !line.trim_ascii().starts_with(b"\\")
        {
            let text = Value::chars([line, b"\n"].concat());
            let value = crate::process::entry::apply(self, &handler, &[text], &limits)?;
            return self.print(value.as_text().unwrap_or_default());
        }
        match eval_line(self, line, &limits)? {
            (value, true) => self.display(&value, &limits),
            _ => Ok(()),
        }
    }

    /// `.z.pi`: the console input handler, if set.
    fn input_handler(&self) -> Option<Value> {
        self.globals.get(&symbol(b".z.pi").ok()?).cloned()
    }
}

fn words(words: &[Vec<u8>]) -> Value {
    Value::list(words.iter().map(|w| Value::chars(&w[..])).collect())
}

impl Host for Session {
    fn global(&self, name: Sym) -> Option<Value> {
        let value = self.globals.get(&name);
        self.authors.read(name, value, &self.asking);
        value.cloned()
    }

    fn assign(&mut self, name: Sym, value: Value) -> Result<(), QError> {
        self.check_change(name)?;
        self.authors.note(name, &value, &self.asking);
        match (&self.loading, &value) {
            (Some(from), Value::Func(f)) => {
                let column = match &**f {
                    Function::Lambda(own) => lambda::code(own).map_or(0, |code| code.start),
                    _ => 0,
                };
                self.origins.insert(name, Origin { column, ..from.clone() });
            }
            _ if self.origins.is_empty() => {}
            _ => {
                self.origins.remove(&name);
            }
        }
        if self.globals.insert(name, value).is_none() {
            self.order.push(name);
            self.spaces.extend(names::around(name));
        }
        Ok(())
    }

    fn edit(&mut self, name: Sym, change: &mut dyn FnMut(&mut Value)) {
        if self.check_change(name).is_err() {
            return;
        }
        if let Some(value) = self.globals.get_mut(&name) {
            self.authors.read(name, Some(value), &self.asking);
            self.authors.note_change(name, &self.asking);
            change(value);
        }
    }

    fn may_change(&self, name: Sym) -> Result<(), QError> {
        self.check_change(name)
    }

    fn remove(&mut self, name: Sym) -> Result<(), QError> {
        self.check_change(name)?;
        self.globals.remove(&name);
        self.order.retain(|n| *n != name);
        Ok(())
    }

    fn names(&self, namespace: Sym) -> Vec<Sym> {
        let found = names::within(self.order.iter().copied(), namespace);
        // No client has chosen a name where there is none: `key`quote` of a table looks for a namespace `quote`.
        if !found.is_empty() {
            self.authors.list(&self.asking);
        }
        found
    }

    fn names_below(&self, namespace: Sym) -> Vec<Sym> {
        match self.spaces.contains(&namespace) {
            true => names::below(self.order.iter().copied(), namespace),
            false => Vec::new(),
        }
    }

    fn find_name(&self, is_it: &mut dyn FnMut(&Value) -> bool) -> Sym {
        let root = self.order.iter().filter(|name| !text(**name).starts_with(b"."));
        root.copied().find(|name| self.globals.get(name).is_some_and(&mut *is_it)).unwrap_or(Sym::NULL)
    }

    fn namespaces(&self) -> Vec<Sym> {
        self.authors.list(&self.asking);
        names::namespaces(self.order.iter().copied())
    }

    fn makes_code(&self, made: Made<'_>) -> Result<(), QError> {
        self.asking.make_code(made)
    }

    fn native(&self, _name: Sym) -> Option<u8> {
        None
    }

    fn call(&mut self, name: Sym, _arguments: &[Value]) -> Result<Value, QError> {
        Err(QError::signal(text(name)))
    }

    fn append(&mut self, name: Sym, rows: &Value) -> Result<Value, QError> {
        self.check_change(name)?;
        self.authors.note_change(name, &self.asking);
        let old = match self.globals.get_mut(&name) {
            Some(old) => old,
            None if matches!(rows, Value::Table(_)) => {
                let count = rows.count() as i64;
                self.assign(name, rows.clone())?;
                return Ok(Value::longs((0..count).collect()));
            }
            None => return Err(QError::named("type")),
        };
        let before = old.count();
        append::extend(old, rows)?;
        Ok(Value::longs((before as i64..old.count() as i64).collect()))
    }

    fn caller(&self) -> &Caller {
        self.asking.caller()
    }

    fn reaches_files(&self) -> bool {
        self.reaches_files
    }

    fn shown_places(&self) -> &[(Sym, PathBuf)] {
        &self.shown_places
    }

    fn show_place(&mut self, place: Sym, folder: PathBuf) {
        self.shown_places.retain(|(known, _)| *known != place);
        self.shown_places.push((place, folder));
    }

    fn arguments(&self) -> Value {
        words(&self.start.arguments)
    }

    fn command_line(&self) -> Value {
        words(&self.start.command_line)
    }

    fn started_with(&self) -> Sym {
        symbol(&self.start.script).unwrap_or(Sym::NULL)
    }

    fn is_quiet(&self) -> bool {
        self.start.quiet
    }

    fn debugs(&self) -> bool {
        self.debugs
    }

    fn suspend(&mut self, error: &mut QError) -> Resume {
        match self.debugger.clone() {
            Some(debugger) => debugger.suspended(self, error),
            None => Resume::Pass,
        }
    }

    fn blocks_writes(&self) -> bool {
        self.start.blocks_writes
    }

    fn setting(&self, which: Setting) -> i64 {
        self.settings.get(&which).copied().unwrap_or(0)
    }

    fn change(&mut self, which: Setting, to: i64) -> Result<(), QError> {
        self.settings.insert(which, to);
        Ok(())
    }

    fn port(&self) -> i32 {
        self.door.as_ref().map_or(0, |door| door.port())
    }

    fn listen(&mut self, text: &[u8]) -> Result<(), QError> {
        match &mut self.door {
            Some(door) => door.listen(text),
            None => Err(QError::with("access", "this process accepts no connections")),
        }
    }

    fn tls_settings(&self) -> Vec<(&'static str, String)> {
        self.door.as_ref().map(|door| door.tls_settings()).unwrap_or_default()
    }

    fn stack_of(&self, pid: u32, pace: &dyn Fn() -> Result<(), QError>) -> Result<Vec<u8>, QError> {
        match self.stacks {
            Some(stacks) => stacks(pid, pace),
            None => Err(QError::with("access", "this process reads no call stack of another")),
        }
    }

    fn open_handles(&self) -> Vec<i32> {
        self.handles.peers()
    }

    fn waiting_bytes(&self) -> Vec<(i32, i64)> {
        self.handles.unsent()
    }

    fn socket(&self, handle: i32) -> Option<[u8; 2]> {
        self.handles.socket(handle)
    }

    fn origin(&self, name: Sym) -> Option<Origin> {
        self.origins.get(&name).cloned()
    }

    fn loading(&mut self, from: Option<Origin>) {
        if let Some(from) = &from
            && !self.loaded.contains(&from.file)
        {
            self.loaded.insert(from.file.clone());
        }
        self.loading = from;
    }

    fn loading_from(&self) -> Option<Origin> {
        self.loading.clone()
    }

    fn redirect(&mut self, stream: u8, path: &[u8]) -> Result<(), QError> {
        match &mut self.output {
            Some(output) => output.redirect(stream, path),
            None => Err(QError::with("access", "this process has no output")),
        }
    }

    fn open(&mut self, target: &[u8], timeout_ms: u64) -> Result<i32, QError> {
        if !self.reaches_files {
            return Err(QError::with("access", "cannot open handles here"));
        }
        self.handles.open(target, timeout_ms, 0)
    }

    fn close(&mut self, handle: i32) -> Result<(), QError> {
        self.handles.close(handle)
    }

    fn send(&mut self, handle: i64, message: &Value) -> Result<Value, QError> {
        let handles = Arc::clone(&self.handles);
        let by = limits::innermost().limits().deadline;
        let response = handles.request(handle, message, by, &mut |from, arrived| self.serve(from, arrived))?;
        self.received(handle, &response);
        Ok(response)
    }

    fn read_pipe(&mut self, handle: i64, bytes: usize) -> Result<Value, QError> {
        self.handles.read_pipe(handle, bytes)
    }

    fn defer(&mut self) -> Result<(), QError> {
        self.defer_response()
    }

    fn respond(&mut self, handle: i32, result: Result<&Value, &[u8]>) -> Result<(), QError> {
        if !self.take_deferred(handle) {
            return Err(QError::signal(format!("Handle {handle} was not expecting a response msg")));
        }
        self.waiting.answers.push((handle, result.cloned().map_err(<[u8]>::to_vec)));
        Ok(())
    }

    fn exit(&mut self, code: i32) -> Result<(), QError> {
        if !self.reaches_files {
            return Err(QError::with("access", "exit is not allowed here"));
        }
        self.exit.get_or_insert(code);
        // Stops the evaluation of the rest of the text.
        Err(QError::with("stop", "exit"))
    }

    fn print(&mut self, text: &[u8]) -> Result<(), QError> {
        match &mut self.output {
            Some(output) => output.print(text),
            None => self.printed.extend_from_slice(text),
        }
        Ok(())
    }

    fn print_error(&mut self, text: &[u8]) -> Result<(), QError> {
        match &mut self.output {
            Some(output) => output.print_error(text),
            None => self.printed.extend_from_slice(text),
        }
        Ok(())
    }

    fn console(&self) -> Console {
        self.console
    }

    fn set_console(&mut self, console: Console) -> Result<(), QError> {
        self.console = console;
        Ok(())
    }

    fn threads(&self) -> Threads {
        self.threads
    }

    fn set_threads(&mut self, now: usize) -> Result<(), QError> {
        if now > self.threads.most {
            return Err(QError::with("limit", format!("started with -s {}", self.threads.most)));
        }
        (self.threads.now, self.threads.processes) = (now, 0);
        Ok(())
    }

    fn set_processes(&mut self, count: usize) -> Result<(), QError> {
        (self.threads.now, self.threads.processes) = (0, count);
        Ok(())
    }

    fn spread(
        &mut self,
        handles: &[i32],
        count: usize,
        request: &dyn Fn(usize) -> Value,
        check: &dyn Fn() -> Result<(), QError>,
    ) -> Result<Vec<Value>, QError> {
        self.handles.spread(handles, count, request, check, limits::innermost().limits().deadline)
    }

    fn shared(&self) -> Option<&(dyn Host + Sync)> {
        Some(self)
    }

    fn namespace(&self) -> Sym {
        self.namespace
    }

    fn set_namespace(&mut self, namespace: Sym) -> Result<(), QError> {
        self.namespace = namespace;
        Ok(())
    }
}
