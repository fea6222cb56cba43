//! A process of its own for expressions: globals in memory, a console. What `elastick q` runs and schemas are loaded in.

use super::error::{Origin, QError};
use super::guard::{Asking, Authors};
use super::handles::{self, Connector, Handles, Peer};
use super::host::{Caller, Grants, Host, Setting, Threads};
use super::limits::Limits;
use super::parse::symbol;
use super::show::{Console, show};
use super::{append, eval_line};
use columns::table::symbol::text;
use columns::table::{Sym, Value};
use std::collections::HashMap;
use std::sync::Arc;

/// Where a session of a person's own prints to, as it prints.
pub trait Output: Send + Sync {
    /// Writes to standard output; what cannot be written is lost.
    fn print(&mut self, text: &[u8]);
    /// Writes to standard error.
    fn print_error(&mut self, text: &[u8]);
    /// From now on standard output (1) or standard error (2) goes to a file.
    ///
    /// # Errors
    /// The system's words, with the path.
    fn redirect(&mut self, stream: u8, path: &[u8]) -> Result<(), QError>;
}

/// What listens for clients.
pub trait Door: Send + Sync {
    /// Listens as `\p` says: `5010`, `host:5010`, `0` for no longer.
    ///
    /// # Errors
    /// The system's words, with the port.
    fn listen(&mut self, text: &[u8]) -> Result<(), QError>;
    /// 0 for none.
    fn port(&self) -> i32;
}

/// How a process of its own was started.
#[derive(Clone, Debug, Default)]
pub struct Start {
    /// `.z.x`.
    pub arguments: Vec<Vec<u8>>,
    /// `.z.X`.
    pub command_line: Vec<Vec<u8>>,
    /// `.z.f`.
    pub script: Vec<u8>,
    /// `-q`.
    pub quiet: bool,
    /// `-b`.
    pub blocks_writes: bool,
}

/// Globals in namespaces, in order of definition.
#[derive(Default)]
pub struct Session {
    globals: HashMap<Sym, Value>,
    order: Vec<Sym>,
    asking: Asking,
    /// Whose code the globals hold.
    authors: Authors,
    console: Console,
    namespace: Sym,
    printed: Vec<u8>,
    output: Option<Box<dyn Output>>,
    door: Option<Box<dyn Door>>,
    reaches_files: bool,
    debugs: bool,
    start: Start,
    settings: HashMap<Setting, i64>,
    origins: HashMap<Sym, Origin>,
    loading: Option<Origin>,
    handles: Arc<Handles>,
    exit: Option<i32>,
    threads: Threads,
    waiting: Waiting,
}

/// Messages whose answer is put off: `-30!`.
#[derive(Default)]
struct Waiting {
    /// Somebody waits for the answer to what is evaluated now.
    is_asked: bool,
    /// It has been put off.
    is_deferred: bool,
    /// How many are put off, by handle.
    handles: HashMap<i32, usize>,
    /// Answers that were given and not yet sent.
    answers: Vec<Deferred>,
}

/// An answer to a message that was put off, by the handle that it came from; or the error.
pub type Deferred = (i32, Result<Value, Vec<u8>>);

impl Session {
    pub fn new() -> Session {
        Session::default()
    }

    /// A session of a person's own: files, the operating system, and processes that `connector` reaches.
    pub fn console(start: Start, connector: Option<Connector>) -> Session {
        Session::of_owner(start, Arc::new(Handles::new(connector, handles::FIRST)))
    }

    /// The same, with handles that outlive it.
    pub fn of_owner(start: Start, handles: Arc<Handles>) -> Session {
        Session { reaches_files: true, start, handles, ..Session::default() }
    }

    /// From now on what is printed is written at once.
    pub fn set_output(&mut self, output: Box<dyn Output>) {
        self.output = Some(output);
    }

    /// From now on `\p` can be changed.
    pub fn set_door(&mut self, door: Box<dyn Door>) {
        self.door = Some(door);
    }

    /// Takes a connection that another process has opened; its handle.
    pub fn adopt(&mut self, peer: Box<dyn Peer>) -> Result<i32, QError> {
        self.handles.adopt(peer)
    }

    /// Forgets a handle whose other end is gone.
    pub fn forget(&mut self, handle: i32) {
        // One that was closed already is forgotten.
        let _ = self.handles.close(handle);
    }

    /// Who asks from now on.
    pub fn set_caller(&mut self, caller: Caller) {
        let grants = Grants { relay: true, ..Grants::default() };
        self.asking = Asking::new(caller, grants);
    }

    /// Another evaluation of the same caller's begins.
    pub fn begin(&self) {
        self.asking.raise();
    }

    /// The evaluation of a message begins; whether somebody waits for the answer.
    pub fn asked(&mut self, waits: bool) {
        (self.waiting.is_asked, self.waiting.is_deferred) = (waits, false);
    }

    /// It has ended; whether its answer was put off.
    pub fn has_deferred(&mut self) -> bool {
        self.waiting.is_asked = false;
        std::mem::take(&mut self.waiting.is_deferred)
    }

    /// What put its answer off has failed: whether that was still to come.
    pub fn undefer(&mut self, handle: i32) -> bool {
        self.take_deferred(handle)
    }

    /// Nobody waits at a handle any more.
    pub fn forget_deferred(&mut self, handle: i32) {
        self.waiting.handles.remove(&handle);
        self.waiting.answers.retain(|(to, _)| *to != handle);
    }

    /// Answers to messages that were put off, in the order in which they were given.
    pub fn take_answers(&mut self) -> Vec<Deferred> {
        std::mem::take(&mut self.waiting.answers)
    }

    fn take_deferred(&mut self, handle: i32) -> bool {
        let Some(open) = self.waiting.handles.get_mut(&handle) else { return false };
        *open = open.saturating_sub(1);
        if *open == 0 {
            self.waiting.handles.remove(&handle);
        }
        true
    }

    /// Whether whoever asks may change a global.
    fn check_change(&self, name: Sym) -> Result<(), QError> {
        let caller = self.asking.caller();
        if self.start.blocks_writes && caller.handle != 0 {
            return Err(QError::named("noupdate"));
        }
        self.authors.check(name, caller.remote)
    }

    /// Lets evaluations use so many threads: `-s`.
    pub fn with_threads(self, most: usize) -> Session {
        Session { threads: Threads { now: most, most }, ..self }
    }

    /// How it shows values.
    pub fn console_now(&self) -> Console {
        self.console
    }

    /// Whether errors keep the locals of what they left.
    pub fn set_debugs(&mut self, on: bool) {
        self.debugs = on;
    }

    /// Evaluates a line among the locals of a lambda that an error has left, and prints what it gives.
    ///
    /// # Errors
    /// The line's, which is not printed.
    pub fn line_among(&mut self, line: &[u8], locals: &[(Sym, Value)]) -> Result<(), QError> {
        let limits = self.limits();
        match super::eval_among(self, line, locals, &limits)? {
            (value, true) => {
                let shown = limits.within(|| show(&value, &self.console));
                self.print(&shown)
            }
            _ => Ok(()),
        }
    }

    /// The code that `exit` was called with.
    pub fn exited(&self) -> Option<i32> {
        self.exit
    }

    /// What was printed since the last call, where no [`Output`] was set.
    pub fn take_printed(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.printed)
    }

    /// Names and values of globals, in order of definition.
    pub fn globals(&self) -> impl Iterator<Item = (Sym, &Value)> {
        self.order.iter().filter_map(|name| self.globals.get(name).map(|value| (*name, value)))
    }

    /// What evaluations of this session may use.
    pub fn limits(&self) -> Limits {
        let most = self.setting(Setting::Workspace);
        let usual = Limits::default();
        Limits { memory_bytes: u64::try_from(most).ok().filter(|m| *m > 0).unwrap_or(usual.memory_bytes), ..usual }
    }

    /// Evaluates a line of the console and prints what it gives.
    ///
    /// # Errors
    /// The line's, which is not printed.
    pub fn line(&mut self, line: &[u8]) -> Result<(), QError> {
        let limits = self.limits();
        self.begin();
        if let Some(handler) = self.input_handler()
            && !line.trim_ascii().starts_with(b"\\")
        {
            let text = Value::chars([line, b"\n"].concat());
            let value = super::apply(self, &handler, &[text], &limits)?;
            return self.print(value.as_text().unwrap_or_default());
        }
        match eval_line(self, line, &limits)? {
            (value, true) => {
                let shown = limits.within(|| show(&value, &self.console));
                self.print(&shown)
            }
            _ => Ok(()),
        }
    }

    /// Names that a person may go on with: of globals, of the language, and of `.Q`, `.h`, `.j` and `.z`.
    pub fn completions(&self) -> Vec<String> {
        let own = self.order.iter().copied().chain(super::prims::keywords()).chain(super::prelude::all());
        let spaces = [".Q", ".h", ".j"].into_iter().flat_map(|space| {
            super::prims::names_in(space.as_bytes())
                .into_iter()
                .map(move |name| format!("{space}.{}", String::from_utf8_lossy(text(name))))
        });
        own.map(|name| String::from_utf8_lossy(text(name)).into_owned()).chain(spaces).collect()
    }

    /// `.z.pi`: what a line of the console is given to, where it is set.
    fn input_handler(&self) -> Option<Value> {
        self.globals.get(&symbol(b".z.pi").ok()?).cloned()
    }
}

fn words(words: &[Vec<u8>]) -> Value {
    Value::list(words.iter().map(|w| Value::chars(&w[..])).collect())
}

/// The namespace of a full name, and its name there.
fn split(name: Sym) -> (&'static [u8], &'static [u8]) {
    let full = text(name);
    match full.iter().rposition(|c| *c == b'.') {
        Some(at) if full.first() == Some(&b'.') && at > 0 => {
            (full.get(..at).unwrap_or_default(), full.get(at + 1..).unwrap_or_default())
        }
        _ => (b"", full),
    }
}

impl Host for Session {
    fn global(&self, name: Sym) -> Option<Value> {
        if self.authors.is_callers(name) {
            self.asking.lower();
        }
        self.globals.get(&name).cloned()
    }

    fn assign(&mut self, name: Sym, value: Value) -> Result<(), QError> {
        self.check_change(name)?;
        self.authors.note(name, &value, self.asking.caller().remote);
        match &self.loading {
            Some(from) if matches!(value, Value::Func(_)) => {
                self.origins.insert(name, from.clone());
            }
            _ if self.origins.is_empty() => {}
            _ => {
                self.origins.remove(&name);
            }
        }
        if self.globals.insert(name, value).is_none() {
            self.order.push(name);
        }
        Ok(())
    }

    fn edit(&mut self, name: Sym, change: &mut dyn FnMut(&mut Value)) {
        if self.check_change(name).is_err() {
            return;
        }
        if let Some(value) = self.globals.get_mut(&name) {
            change(value);
        }
    }

    fn remove(&mut self, name: Sym) -> Result<(), QError> {
        self.check_change(name)?;
        self.globals.remove(&name);
        self.order.retain(|n| *n != name);
        Ok(())
    }

    fn names(&self, namespace: Sym) -> Vec<Sym> {
        let space = if text(namespace) == b"." { b"" } else { text(namespace) };
        let mut found: Vec<Sym> = Vec::new();
        for name in &self.order {
            let (own, short) = split(*name);
            // A namespace in the namespace stands there by its own name.
            let below = own.strip_prefix(space).and_then(|rest| rest.strip_prefix(b".")).filter(|_| !space.is_empty());
            let short = match below {
                _ if own == space => short,
                Some(below) => below.split(|c| *c == b'.').next().unwrap_or_default(),
                None => continue,
            };
            if let Ok(short) = symbol(short)
                && (own == space || !found.contains(&short))
            {
                found.push(short);
            }
        }
        found
    }

    fn namespaces(&self) -> Vec<Sym> {
        let mut found: Vec<Sym> = Vec::new();
        for name in &self.order {
            let space = split(*name).0.strip_prefix(b".").unwrap_or_default();
            let top = space.split(|c| *c == b'.').next().unwrap_or_default();
            if let Ok(symbol) = symbol(top)
                && !top.is_empty()
                && !found.contains(&symbol)
            {
                found.push(symbol);
            }
        }
        found
    }

    fn names_word(&self) {
        if self.authors.has_callers() {
            self.asking.lower();
        }
    }

    fn native(&self, _name: Sym) -> Option<u8> {
        None
    }

    fn call(&mut self, name: Sym, _arguments: &[Value]) -> Result<Value, QError> {
        Err(QError::signal(text(name)))
    }

    fn append(&mut self, name: Sym, rows: &Value) -> Result<Value, QError> {
        self.check_change(name)?;
        let old = match self.globals.remove(&name) {
            Some(old) => old,
            None if matches!(rows, Value::Table(_)) => {
                let count = rows.count() as i64;
                self.assign(name, rows.clone())?;
                return Ok(Value::longs((0..count).collect()));
            }
            None => return Err(QError::named("type")),
        };
        let before = old.count();
        let result = append::extend(old.clone(), rows);
        match result {
            Ok(new) => {
                let after = new.count();
                self.globals.insert(name, new);
                Ok(Value::longs((before as i64..after as i64).collect()))
            }
            Err(error) => {
                self.globals.insert(name, old);
                Err(error)
            }
        }
    }

    fn caller(&self) -> &Caller {
        self.asking.caller()
    }

    fn reaches_files(&self) -> bool {
        self.reaches_files
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
            None => Err(QError::with("access", "nobody can connect to this process")),
        }
    }

    fn open_handles(&self) -> Vec<i32> {
        self.handles.peers()
    }

    fn origin(&self, name: Sym) -> Option<Origin> {
        self.origins.get(&name).cloned()
    }

    fn loading(&mut self, from: Option<Origin>) {
        self.loading = from;
    }

    fn loading_from(&self) -> Option<Origin> {
        self.loading.clone()
    }

    fn redirect(&mut self, stream: u8, path: &[u8]) -> Result<(), QError> {
        match &mut self.output {
            Some(output) => output.redirect(stream, path),
            None => Err(QError::with("access", "this process has no output of its own")),
        }
    }

    fn open(&mut self, target: &[u8], timeout_ms: u64) -> Result<i32, QError> {
        if !self.reaches_files {
            return Err(QError::with("access", "handles are not opened here"));
        }
        self.handles.open(target, timeout_ms, 0)
    }

    fn close(&mut self, handle: i32) -> Result<(), QError> {
        self.handles.close(handle)
    }

    fn send(&mut self, handle: i64, message: &Value) -> Result<Value, QError> {
        self.handles.send(handle, message, None)
    }

    fn defer(&mut self) -> Result<(), QError> {
        if !self.waiting.is_asked {
            return Err(QError::with("access", "nobody waits for an answer here"));
        }
        // Twice is once.
        if !self.waiting.is_deferred {
            self.waiting.is_deferred = true;
            let handle = self.asking.caller().handle;
            let open = self.waiting.handles.entry(handle).or_default();
            *open = open.saturating_add(1);
        }
        Ok(())
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
        // Nothing of the text is evaluated any more.
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
        self.threads.now = now;
        Ok(())
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
