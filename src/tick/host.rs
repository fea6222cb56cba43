//! What the tickerplant offers to expressions: tables, `.u`, and globals of clients.
//!
//! Expressions run beside the event loop, with the variables of `.u` as of their start. Their calls of `.u` are recorded
//! (`record`).

use super::evaluation::Query;
use super::globals::{Access, Author, Globals};
use super::plant::functions::{self, Row};
use super::plant::values::{REJECTED, VARIABLES};
use super::plant::variables::{Names, Variables};
use super::record::{Call, Expected};
use super::sends::{self, ClientSettings, Sends};
use super::users::Space;
use crate::q::names::{namespaces, within};
use crate::q::{Caller, Console, Host, Made, QError, extend, from_view, guard, holds_foreign_code};
use crate::table::{Function, Items, Sym, Value, symbol};
use proto::{Endian, Limits, View};
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::sync::Arc;

/// Functions that need no connection: the timer may call them.
const OWN: [&[u8]; 6] = [b".u.upd", b".u.end", b".u.endofday", b".u.retry", b".u.discard", b".z.ts"];

/// Number of parameters of a native function.
fn native(name: Sym) -> Option<u8> {
    functions::find(symbol::text(name)).map(Row::arity)
}

fn is_own(name: &[u8]) -> bool {
    name == b".u" || name.starts_with(b".u.") || name == b".z.ts"
}

/// Error of a client that writes to the tickerplant's own tables and variables.
fn no_update(name: Sym) -> QError {
    let name = symbol::text(name).escape_ascii();
    QError::with("noupdate", format!("{name} belongs to the tickerplant; publish with .u.upd"))
}

/// Host of one run of an expression.
pub struct QueryHost<'a> {
    query: &'a Query,
    /// Globals at its start, and with its assignments.
    base: Arc<Globals>,
    globals: Arc<Globals>,
    access: RefCell<Access>,
    /// `-b`: clients may not assign.
    block_writes: bool,
    /// Maximum bytes of its calls.
    calls_bytes_most: usize,
    /// Only the owner's globals exist: a login must not depend on a client's.
    is_owner_only: bool,
    /// The code that makes the current call is from a start-up file.
    by_owner: bool,
    /// It has read what code of the start-up files has stored for another user.
    has_read_others: Cell<bool>,
    /// The message that it evaluates.
    message: Option<Value>,
    /// Name of a global that code of the start-up files is changing in part.
    changing: Option<Sym>,
    /// The timer has read a client's global and continues with a client's rights.
    lowered: Cell<bool>,
    /// Number of calls so far, and of those at the record's start that this run has repeated or may still repeat.
    calls: usize,
    repeats: usize,
    expected: VecDeque<Expected>,
    calls_bytes: usize,
    /// Variables read before the first call that is not in the record.
    read_before: Cell<Names>,
    /// Whether it has read variables after such a call.
    read_after: Cell<bool>,
    /// Variables read that the query does not have: the result is void.
    lacks: Cell<Names>,
    sends: Sends,
    settings: ClientSettings,
}

/// Outcome of a run beside its result.
pub struct Ran {
    pub base: Arc<Globals>,
    pub globals: Arc<Globals>,
    pub access: Access,
    pub repeats: usize,
    pub expected: VecDeque<Expected>,
    pub read_before: Names,
    pub read_after: bool,
    pub lacks: Names,
    pub sends: Sends,
    pub settings: ClientSettings,
}

impl<'a> QueryHost<'a> {
    pub fn new(query: &'a Query, globals: Arc<Globals>, block_writes: bool, codec: &Limits) -> QueryHost<'a> {
        QueryHost {
            query,
            base: Arc::clone(&globals),
            globals,
            access: RefCell::default(),
            block_writes,
            calls_bytes_most: usize::try_from(codec.max_message_bytes).unwrap_or(usize::MAX),
            is_owner_only: false,
            by_owner: false,
            has_read_others: Cell::new(false),
            message: None,
            changing: None,
            lowered: Cell::new(false),
            calls: 0,
            repeats: query.record.len(),
            expected: VecDeque::new(),
            calls_bytes: 0,
            read_before: Cell::default(),
            read_after: Cell::new(false),
            lacks: Cell::default(),
            sends: Sends::default(),
            settings: query.began.unwrap_or_default(),
        }
    }

    /// The same without the globals of clients.
    pub fn of_owner(self) -> QueryHost<'a> {
        QueryHost { is_owner_only: true, ..self }
    }

    pub fn ran(self) -> Ran {
        let access = self.access.into_inner();
        Ran {
            base: self.base,
            globals: self.globals,
            access,
            repeats: self.repeats,
            expected: self.expected,
            read_before: self.read_before.get(),
            read_after: self.read_after.get(),
            lacks: self.lacks.get(),
            sends: self.sends,
            settings: self.settings,
        }
    }

    fn is_owner(&self) -> bool {
        self.by_owner || (!self.query.caller.remote && !self.lowered.get())
    }

    /// Returns the variables as of the last call that the record has.
    fn variables(&self) -> &Variables {
        let record = &self.query.record;
        let at = self.calls.min(self.repeats);
        match at.checked_sub(1) {
            None => &self.query.variables,
            // Without a copy right after this call, the next later one is the closest.
            Some(at) => record.iter().skip(at).find_map(|call| call.after.as_deref()).unwrap_or(&self.query.variables),
        }
    }

    /// Notes which variables are read.
    fn reads(&self, names: Names) -> &Variables {
        match self.expected.is_empty() {
            true => self.read_before.set(self.read_before.get().and(names)),
            false => self.read_after.set(true),
        }
        let variables = self.variables();
        if !variables.include(names) {
            self.lacks.set(self.lacks.get().and(names));
        }
        variables
    }

    fn own(&self, name: &[u8]) -> Option<Value> {
        match name {
            b".u.asg" => self.space(name),
            _ => self.reads(Names::of(name)).value(name),
        }
    }

    /// Returns a namespace inside `.u` as a dictionary.
    fn space(&self, space: &[u8]) -> Option<Value> {
        let mut keys = vec![Sym::NULL];
        let mut values = vec![Value::Null];
        for name in own_names(space) {
            let full = symbol::intern_name(&[space, b".", name].concat()).ok()?;
            let value = if native(full).is_some() { Value::func(Function::Native(full)) } else { self.global(full)? };
            keys.push(symbol::intern_name(name).ok()?);
            values.push(value);
        }
        Some(Value::dict(Value::symbols(keys), Value::list(values)))
    }

    /// Returns the recorded result of a call, or the expected one of a new call.
    fn perform(&mut self, call: Call) -> Result<Value, QError> {
        if self.calls < self.repeats {
            match self.query.record.get(self.calls).filter(|performed| performed.call == call) {
                Some(performed) => {
                    self.calls = self.calls.saturating_add(1);
                    return performed.result.clone().and_then(|object| value(&object));
                }
                // This run has taken another path: the event loop performs what follows.
                None => self.repeats = self.calls,
            }
        }
        self.calls_bytes = self.calls_bytes.saturating_add(call.bytes());
        if self.calls_bytes > self.calls_bytes_most {
            let most = self.calls_bytes_most;
            return Err(QError::with(
                "limit",
                format!("calls of more than {most} bytes in one expression (--limit-message)"),
            ));
        }
        self.calls = self.calls.saturating_add(1);
        let result = call.expected(&self.query.tables);
        let expected = value(&result);
        self.expected.push_back(Expected { call, result });
        expected
    }
}

fn value(object: &[u8]) -> Result<Value, QError> {
    let parsed = View::parse(object, Endian::Little, &Limits::default());
    from_view(&parsed.map_err(|error| QError::with(error.term(), error.to_string()))?.0)
}

/// These may be large, or change all the time: `key` lists them, but a dictionary of the namespace, as `` .u`i`L `` creates one, leaves
/// them out.
const LARGE: [&[u8]; 3] = [REJECTED[0], REJECTED[1], b".u.conns"];

/// Returns the names of variables, functions and nested namespaces in one of the tickerplant's own namespaces, except [`LARGE`].
fn own_names(space: &[u8]) -> Vec<&'static [u8]> {
    let functions = functions::FUNCTIONS.iter().map(|row| row.name);
    let mut names: Vec<&'static [u8]> = Vec::new();
    for name in VARIABLES.iter().copied().chain(functions).map(str::as_bytes).filter(|name| !LARGE.contains(name)) {
        let Some(rest) = name.strip_prefix(space).and_then(|rest| rest.strip_prefix(b".")) else { continue };
        let first = rest.split(|byte| *byte == b'.').next().unwrap_or(rest);
        if !names.contains(&first) {
            names.push(first);
        }
    }
    names
}

impl Host for QueryHost<'_> {
    fn global(&self, name: Sym) -> Option<Value> {
        let text = symbol::text(name);
        if is_own(text) {
            return self.own(text);
        }
        if !self.globals.is_owned(name) {
            if self.is_owner_only {
                return None;
            }
            self.access.borrow_mut().read.insert(name);
        }
        let space = self.query.space;
        if self.globals.writer(space, name).is_some_and(|writer| writer != space) {
            self.has_read_others.set(true);
        }
        let value = self.globals.get(space, name).cloned();
        if value.is_some() && !self.globals.is_owned(name) {
            self.lowered.set(true);
        }
        value
    }

    fn assign(&mut self, name: Sym, value: Value) -> Result<(), QError> {
        self.may_change(name)?;
        let space = self.query.space;
        let is_owner = self.is_owner();
        if self.by_owner && !space.is_shared() && holds_foreign_code(&value) {
            return Err(QError::with("access", "functions of users are not stored for others"));
        }
        let is_of_others = self.globals.writer(Space::SHARED, name).is_some_and(|writer| writer != space);
        let is_mixed = self.changing.take() == Some(name) && is_of_others;
        let others = (self.has_read_others.get() || is_mixed).then_some(Space::NOBODY);
        let writer = others.or((is_owner && !space.is_shared()).then_some(space));
        let author = Author { space, is_owner, writer };
        Arc::make_mut(&mut self.globals).set(name, value, author)?;
        self.access.get_mut().assigned.push((name, author));
        Ok(())
    }

    fn may_change(&self, name: Sym) -> Result<(), QError> {
        let text = symbol::text(name);
        if is_own(text) || self.query.tables.find(text).is_some() {
            return Err(no_update(name));
        }
        if text.starts_with(b".z.") {
            return Err(QError::with("access", "handlers can only be set in the process's start-up files"));
        }
        if self.query.caller.remote && self.block_writes {
            return Err(QError::with("noupdate", "clients may not assign (-b)"));
        }
        if self.is_owner() { Ok(()) } else { self.globals.check(name) }
    }

    fn remove(&mut self, name: Sym) -> Result<(), QError> {
        self.may_change(name)?;
        let author = Author { space: self.query.space, is_owner: self.is_owner(), writer: None };
        Arc::make_mut(&mut self.globals).remove(name, author)?;
        self.access.get_mut().assigned.push((name, author));
        Ok(())
    }

    fn acts_as_owner(&mut self, is_owner: bool) {
        self.by_owner = is_owner;
    }

    fn global_to_change(&mut self, name: Sym) -> Option<Value> {
        if is_own(symbol::text(name)) || !self.globals.is_owned(name) || !self.query.caller.remote {
            return self.global(name);
        }
        self.changing = Some(name);
        self.globals.get(Space::SHARED, name).cloned()
    }

    fn begins(&mut self, message: &Value) {
        self.message = Some(message.clone());
    }

    fn makes_code(&self, made: Made<'_>) -> Result<(), QError> {
        let is_code = match made {
            Made::Value(value) => guard::is_code(value),
            Made::Text(_) | Made::Message(_) | Made::Other => true,
        };
        if !self.has_read_others.get() || !is_code {
            return Ok(());
        }
        // Its own message is the client's, whatever the handler has read before.
        if self.message.as_ref().is_some_and(|message| made.is(message)) {
            self.has_read_others.set(false);
            return Ok(());
        }
        Err(QError::with("access", "after reading what another user has written, only the message is evaluated"))
    }

    fn used_bytes(&self) -> [i64; 2] {
        [crate::sys::memory::own_bytes(); 2]
    }

    fn names(&self, namespace: Sym) -> Vec<Sym> {
        let space = symbol::text(namespace);
        self.access.borrow_mut().listed = true;
        let own = if is_own(space) { own_names(space) } else { Vec::new() };
        let own = own.into_iter().filter(|name| {
            // Without a log there is no `.u.i` and no `.u.L`.
            let full = [space, b".", *name].concat();
            let is_of_log = matches!(full.as_slice(), b".u.i" | b".u.j" | b".u.L");
            !is_of_log || self.reads(Names::of(&full)).value(&full).is_some()
        });
        let own = own.filter_map(|name| symbol::intern_name(name).ok());
        own.chain(within(self.globals.names(self.query.space), namespace)).collect()
    }

    fn namespaces(&self) -> Vec<Sym> {
        self.access.borrow_mut().listed = true;
        let own = symbol::intern_name(b".u").ok();
        namespaces(own.into_iter().chain(self.globals.names(self.query.space)))
    }

    /// A message begins where the `\d` of its connection has led.
    fn namespace(&self) -> Sym {
        self.settings.namespace
    }

    fn set_namespace(&mut self, namespace: Sym) -> Result<(), QError> {
        self.settings.namespace = namespace;
        Ok(())
    }

    fn large_names(&self, namespace: Sym) -> Vec<Sym> {
        let of_namespace = |name: &&'static [u8]| name.strip_prefix(symbol::text(namespace))?.strip_prefix(b".");
        LARGE.iter().filter_map(of_namespace).filter_map(|name| symbol::intern_name(name).ok()).collect()
    }

    fn native(&self, name: Sym) -> Option<u8> {
        native(name)
    }

    fn native_most(&self, name: Sym) -> Option<u8> {
        functions::find(symbol::text(name)).map(Row::arity_most)
    }

    fn call(&mut self, name: Sym, arguments: &[Value]) -> Result<Value, QError> {
        if self.query.from.is_none() && !OWN.contains(&symbol::text(name)) {
            return Err(QError::with("access", "only clients may call this"));
        }
        self.perform(Call::of(name, arguments)?)
    }

    fn append(&mut self, name: Sym, rows: &Value) -> Result<Value, QError> {
        let text = symbol::text(name);
        if is_own(text) || self.query.tables.find(text).is_some() {
            return Err(no_update(name));
        }
        let mut held = match (self.global_to_change(name), rows) {
            (Some(held), _) => held,
            // As in kdb+, inserting a table under a new name defines it.
            (None, Value::Table(table)) => Value::Table(Arc::new(table.rows::<u32>(&[]))),
            (None, _) => return Err(QError::signal(text)),
        };
        let before = held.count();
        extend(&mut held, rows)?;
        let after = held.count();
        self.assign(name, held)?;
        Ok(Value::longs((before as i64..after as i64).collect()))
    }

    fn caller(&self) -> &Caller {
        &self.query.caller
    }

    fn console(&self) -> Console {
        self.settings.console.unwrap_or(self.globals.console)
    }

    fn set_console(&mut self, console: Console) -> Result<(), QError> {
        self.settings.console = Some(console);
        Ok(())
    }

    fn tls_settings(&self) -> Vec<(&'static str, String)> {
        crate::net::tls::shown()
    }

    fn port(&self) -> i32 {
        i32::from(self.globals.port)
    }

    fn open_handles(&self) -> Vec<i32> {
        match self.query.reader() {
            Some(reader) if !reader.grants.operator => vec![self.query.caller.handle],
            _ => self.query.connections.handles(),
        }
    }

    fn waiting_bytes(&self) -> Vec<(i32, i64)> {
        let Some(Value::Table(conns)) = self.own(b".u.conns") else { return Vec::new() };
        let column = |name: &[u8]| conns.column(symbol::intern(name).ok()?).map(|column| &column.items);
        match (column(b"handle"), column(b"bytes")) {
            (Some(Items::Int(handles)), Some(Items::Long(bytes))) => {
                handles.iter().copied().zip(bytes.iter().copied()).collect()
            }
            _ => Vec::new(),
        }
    }

    fn send(&mut self, handle: i64, message: &Value) -> Result<Value, QError> {
        self.sends.send(handle, message, &self.query.connections, self.calls_bytes_most)
    }

    fn defer(&mut self) -> Result<(), QError> {
        self.sends.deferred = self.query.is_sync();
        match self.sends.deferred {
            true => Ok(()),
            false => Err(QError::with("access", "no client is waiting for a response here")),
        }
    }

    fn respond(&mut self, handle: i32, result: Result<&Value, &[u8]>) -> Result<(), QError> {
        let caller = &self.query.caller;
        if caller.remote && handle != caller.handle && !self.by_owner {
            return Err(QError::with(
                "access",
                "only code of the process's start-up files answers another client's request",
            ));
        }
        let answer = sends::answer(result)?;
        let is_own = self.sends.deferred && handle == self.query.caller.handle;
        self.perform(Call::Respond { handle, is_own, answer }).map(drop)
    }
}
