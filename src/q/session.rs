//! A process of its own for expressions: globals in memory, a console. What `elastick q` runs and schemas are loaded in.

use super::error::QError;
use super::handles::{Connector, Handles};
use super::host::{Caller, Host, Threads};
use super::limits::Limits;
use super::parse::symbol;
use super::show::{Console, show};
use super::{append, eval_line};
use crate::table::symbol::text;
use crate::table::{Sym, Value};
use std::collections::HashMap;

/// Globals in namespaces, in order of definition.
#[derive(Default)]
pub struct Session {
    globals: HashMap<Sym, Value>,
    order: Vec<Sym>,
    caller: Caller,
    console: Console,
    namespace: Sym,
    printed: Vec<u8>,
    reaches_files: bool,
    arguments: Vec<Vec<u8>>,
    handles: Handles,
    exit: Option<i32>,
    threads: Threads,
}

impl Session {
    pub fn new() -> Session {
        Session::default()
    }

    /// A session of a person's own: files, the operating system, and processes that `connector` reaches.
    pub fn console(arguments: Vec<Vec<u8>>, connector: Option<Connector>) -> Session {
        Session { reaches_files: true, arguments, handles: Handles::new(connector), ..Session::default() }
    }

    /// Lets evaluations use so many threads: `-s`.
    pub fn with_threads(self, most: usize) -> Session {
        Session { threads: Threads { now: most, most }, ..self }
    }

    /// The code that `exit` was called with.
    pub fn exited(&self) -> Option<i32> {
        self.exit
    }

    /// What was printed since the last call.
    pub fn take_printed(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.printed)
    }

    /// Names and values of globals, in order of definition.
    pub fn globals(&self) -> impl Iterator<Item = (Sym, &Value)> {
        self.order.iter().filter_map(|name| self.globals.get(name).map(|value| (*name, value)))
    }

    /// Evaluates a line of the console; what it prints, result and error included.
    pub fn line(&mut self, line: &[u8], limits: &Limits) -> Vec<u8> {
        if let Some(handler) = self.input_handler()
            && !line.trim_ascii().starts_with(b"\\")
        {
            let text = Value::chars([line, b"\n"].concat());
            let result = super::apply(self, &handler, &[text], limits);
            let mut out = self.take_printed();
            match result {
                Ok(value) => out.extend_from_slice(value.as_text().unwrap_or_default()),
                Err(error) => out.extend_from_slice(&error.shown()),
            }
            return out;
        }
        let result = eval_line(self, line, limits);
        let mut out = self.take_printed();
        match result {
            Ok((value, true)) => out.extend(show(&value, &self.console)),
            Ok(_) => {}
            Err(error) => {
                out.extend_from_slice(&error.shown());
            }
        }
        out
    }
}

impl Session {
    /// `.z.pi`: what a line of the console is given to, where it is set.
    fn input_handler(&self) -> Option<Value> {
        self.globals.get(&symbol(b".z.pi").ok()?).cloned()
    }
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
        self.globals.get(&name).cloned()
    }

    fn assign(&mut self, name: Sym, value: Value) -> Result<(), QError> {
        if self.globals.insert(name, value).is_none() {
            self.order.push(name);
        }
        Ok(())
    }

    fn remove(&mut self, name: Sym) -> Result<(), QError> {
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

    fn native(&self, _name: Sym) -> Option<u8> {
        None
    }

    fn call(&mut self, name: Sym, _arguments: &[Value]) -> Result<Value, QError> {
        Err(QError::signal(text(name)))
    }

    fn append(&mut self, name: Sym, rows: &Value) -> Result<Value, QError> {
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
        &self.caller
    }

    fn reaches_files(&self) -> bool {
        self.reaches_files
    }

    fn arguments(&self) -> Value {
        Value::list(self.arguments.iter().map(|a| Value::chars(&a[..])).collect())
    }

    fn open(&mut self, target: &[u8], timeout_ms: u64) -> Result<i32, QError> {
        if !self.reaches_files {
            return Err(QError::with("access", "handles are not opened here"));
        }
        self.handles.open(target, timeout_ms)
    }

    fn close(&mut self, handle: i32) -> Result<(), QError> {
        self.handles.close(handle)
    }

    fn send(&mut self, handle: i64, message: &Value) -> Result<Value, QError> {
        self.handles.send(handle, message)
    }

    fn exit(&mut self, code: i32) -> Result<(), QError> {
        if !self.reaches_files {
            return Err(QError::with("access", "exit is not allowed here"));
        }
        self.exit = Some(code);
        // Nothing of the text is evaluated any more.
        Err(QError::with("stop", "exit"))
    }

    fn print(&mut self, text: &[u8]) -> Result<(), QError> {
        self.printed.extend_from_slice(text);
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
