//! What the tickerplant offers to expressions: tables, `.u`, and globals of clients.
//!
//! Queries run beside the event loop on a [`SnapshotHost`]; a query that reads `.u` or changes anything is run again on the event-loop
//! thread with an [`OwnerHost`].

use super::globals::Globals;
use super::plant::Plant;
use super::plant::calls::{self, Called};
use super::plant::functions::{self, Row};
use super::plant::permit::OWNER;
use super::plant::values::VARIABLES;
use super::sends::{self, Connections, Sends};
use crate::net::{ConnId, Deferred, Links, SyncRequest};
use crate::q::{Caller, Console, Host, NEEDS_OWNER, QError, from_view, to_wire};
use crate::sys::clock;
use crate::table::{Function, Sym, Value, symbol};
use proto::{Endian, Limits, View, Writer};
use std::cell::Cell;
use std::sync::Arc;

/// Functions that need no connection: the timer may call them.
const OWN: [&[u8]; 4] = [b".u.upd", b".u.end", b".u.endofday", b".z.ts"];

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

/// Host of queries beside the event loop.
pub struct SnapshotHost {
    globals: Arc<Globals>,
    caller: Caller,
    connections: Arc<Connections>,
    /// The client waits for a response.
    is_sync: bool,
    sends: Sends,
    /// Set once the query needs data that only the event-loop thread has.
    asks_owner: Cell<bool>,
}

impl SnapshotHost {
    pub fn new(globals: Arc<Globals>, caller: Caller, connections: Arc<Connections>, is_sync: bool) -> SnapshotHost {
        SnapshotHost { globals, caller, connections, is_sync, sends: Sends::default(), asks_owner: Cell::new(false) }
    }

    /// Returns the messages that the evaluation sends.
    pub fn sends(self) -> Sends {
        self.sends
    }

    /// Whether the result is void because the query must run on the event-loop thread.
    pub fn asks_owner(&self) -> bool {
        self.asks_owner.get()
    }
}

impl Host for SnapshotHost {
    fn global(&self, name: Sym) -> Option<Value> {
        if is_own(symbol::text(name)) {
            self.asks_owner.set(true);
            return None;
        }
        self.globals.get(name).cloned()
    }

    fn assign(&mut self, _: Sym, _: Value) -> Result<(), QError> {
        Err(NEEDS_OWNER)
    }

    fn names(&self, namespace: Sym) -> Vec<Sym> {
        let space = symbol::text(namespace);
        if is_own(space) {
            self.asks_owner.set(true);
        }
        self.globals.names(space).into_iter().filter_map(|name| symbol::intern_name(name).ok()).collect()
    }

    fn native(&self, name: Sym) -> Option<u8> {
        native(name)
    }

    fn call(&mut self, _: Sym, _: &[Value]) -> Result<Value, QError> {
        Err(NEEDS_OWNER)
    }

    fn append(&mut self, name: Sym, _: &Value) -> Result<Value, QError> {
        Err(no_update(name))
    }

    fn caller(&self) -> &Caller {
        &self.caller
    }

    fn console(&self) -> Console {
        self.globals.console
    }

    fn open_handles(&self) -> Vec<i32> {
        self.connections.handles()
    }

    fn send(&mut self, handle: i64, message: &Value) -> Result<Value, QError> {
        self.sends.send(handle, message, &self.connections)
    }

    fn defer(&mut self) -> Result<(), QError> {
        defer(self.is_sync, &mut self.sends)
    }

    fn respond(&mut self, _: i32, _: Result<&Value, &[u8]>) -> Result<(), QError> {
        Err(NEEDS_OWNER)
    }
}

fn defer(is_sync: bool, sends: &mut Sends) -> Result<(), QError> {
    sends.deferred = is_sync;
    if is_sync { Ok(()) } else { Err(QError::with("access", "no client is waiting for a response here")) }
}

/// Host of queries on the event-loop thread.
pub struct OwnerHost<'a> {
    pub plant: &'a mut Plant,
    pub ctl: &'a mut dyn Links,
    /// Calling connection; `None` for the timer.
    pub conn: Option<ConnId>,
    /// Sync message under evaluation, `None` for an async one.
    pub request: Option<SyncRequest>,
    pub connections: &'a Connections,
    /// Sync messages with a deferred response, by handle.
    pub deferred: &'a mut Deferred,
    pub sends: Sends,
    pub caller: Caller,
    pub globals: &'a mut Arc<Globals>,
    /// Whether clients may define globals (kdb+'s `-b` forbids it).
    pub may_assign: bool,
    pub codec: Limits,
    /// The expression published an update: its response waits until the update is as durable as promised.
    pub published: bool,
    /// The expression ended a day.
    pub day_ended: bool,
    /// A global was rejected: the globals of clients are at their limit.
    pub globals_full: bool,
}

/// Charges the call to the query's CPU budget, except the first end of day: closing a large log is slow, and the caller cannot help it.
/// An expression that ends several days pays for all but the first.
fn charged<R>(name: &[u8], day_ended: &mut bool, call: impl FnOnce() -> R) -> R {
    match name == b".u.endofday" && !std::mem::replace(day_ended, true) {
        true => clock::uncounted(call),
        false => call(),
    }
}

impl OwnerHost<'_> {
    fn value(&self, object: &[u8]) -> Option<Value> {
        let (view, _) = View::parse(object, Endian::Little, &self.codec).ok()?;
        from_view(&view).ok()
    }

    fn own(&self, name: &[u8]) -> Option<Value> {
        if name == b".u.asg" {
            return self.space(name);
        }
        let mut object = Vec::new();
        let mut writer = Writer::new(&mut object);
        if !self.plant.put_variable(name, &mut writer) || writer.finish().is_err() {
            return None;
        }
        self.value(&object)
    }
}

impl OwnerHost<'_> {
    /// Returns the message under evaluation if its response was deferred and is still due.
    fn own_deferred(&mut self, handle: i32) -> Option<SyncRequest> {
        let is_due = self.sends.deferred && !self.sends.answered && handle == self.caller.handle;
        let request = self.request.filter(|_| is_due)?;
        self.sends.answered = true;
        Some(request)
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
}

/// The quarantine may be large: `key` lists it, but a dictionary of the namespace, as `` .u`i`L `` creates one, leaves it out.
const LARGE: &[u8] = b".u.quarantine";

/// Returns the names of variables, functions and nested namespaces in one of the tickerplant's own namespaces, except [`LARGE`].
fn own_names(space: &[u8]) -> Vec<&'static [u8]> {
    let functions = functions::FUNCTIONS.iter().map(|row| row.name);
    let mut names: Vec<&'static [u8]> = Vec::new();
    for name in VARIABLES.iter().copied().chain(functions).map(str::as_bytes).filter(|name| *name != LARGE) {
        let Some(rest) = name.strip_prefix(space).and_then(|rest| rest.strip_prefix(b".")) else { continue };
        let first = rest.split(|byte| *byte == b'.').next().unwrap_or(rest);
        if !names.contains(&first) {
            names.push(first);
        }
    }
    names
}

impl Host for OwnerHost<'_> {
    fn global(&self, name: Sym) -> Option<Value> {
        let text = symbol::text(name);
        match is_own(text) {
            true => self.own(text),
            false => self.globals.get(name).cloned(),
        }
    }

    fn assign(&mut self, name: Sym, value: Value) -> Result<(), QError> {
        let text = symbol::text(name);
        if is_own(text) || self.plant.tables().find(text).is_some() {
            return Err(no_update(name));
        }
        if text.starts_with(b".z.") {
            return Err(QError::with("access", "handlers can only be set in the process's start-up files"));
        }
        if !self.may_assign {
            return Err(QError::with("noupdate", "clients may not assign (-b)"));
        }
        let set = Arc::make_mut(self.globals).set(name, value);
        self.globals_full |= matches!(&set, Err(error) if error.name.as_ref() == b"wsfull");
        set
    }

    fn names(&self, namespace: Sym) -> Vec<Sym> {
        let space = symbol::text(namespace);
        let own = if is_own(space) { own_names(space) } else { Vec::new() };
        let own = own.into_iter().filter(|name| {
            // Without a log there is no `.u.i` and no `.u.L`.
            let full = [space, b".", *name].concat();
            !matches!(full.as_slice(), b".u.i" | b".u.j" | b".u.L") || self.plant.has_log()
        });
        own.chain(self.globals.names(space)).filter_map(|name| symbol::intern_name(name).ok()).collect()
    }

    fn large_names(&self, namespace: Sym) -> Vec<Sym> {
        let large = LARGE.strip_prefix(symbol::text(namespace)).and_then(|rest| rest.strip_prefix(b"."));
        large.and_then(|name| symbol::intern_name(name).ok()).into_iter().collect()
    }

    fn native(&self, name: Sym) -> Option<u8> {
        native(name)
    }

    fn call(&mut self, name: Sym, arguments: &[Value]) -> Result<Value, QError> {
        let mut objects = Vec::with_capacity(arguments.len());
        for argument in arguments {
            let mut object = Vec::new();
            let mut writer = Writer::new(&mut object);
            to_wire(argument, &mut writer)?;
            writer.finish().map_err(|error| QError::with("type", error.to_string()))?;
            objects.push(object);
        }
        let mut args = Vec::with_capacity(objects.len());
        for object in &objects {
            let parsed = View::parse(object, Endian::Little, &self.codec);
            args.push(parsed.map_err(|error| QError::with("limit", error.to_string()))?.0);
        }
        let conn = match self.conn {
            Some(conn) => conn,
            None if OWN.contains(&symbol::text(name)) => OWNER,
            None => return Err(QError::with("access", "only clients may call this")),
        };
        let caller = calls::Caller { conn, request: None };
        let mut object = Vec::new();
        let mut writer = Writer::new(&mut object);
        let name = symbol::text(name);
        let called =
            charged(name, &mut self.day_ended, || self.plant.call(name, &args, caller, &mut writer, self.ctl))?;
        if name == proto::log::SCHEMA {
            Arc::make_mut(self.globals).show_tables(self.plant.tables());
        }
        writer.finish().map_err(|error| QError::with("type", error.to_string()))?;
        self.published |= called == Called::PutWhenDurable;
        Ok(self.value(&object).unwrap_or(Value::Null))
    }

    fn append(&mut self, name: Sym, _: &Value) -> Result<Value, QError> {
        Err(no_update(name))
    }

    fn caller(&self) -> &Caller {
        &self.caller
    }

    fn console(&self) -> Console {
        self.globals.console
    }

    fn open_handles(&self) -> Vec<i32> {
        self.connections.handles()
    }

    fn send(&mut self, handle: i64, message: &Value) -> Result<Value, QError> {
        self.sends.send(handle, message, self.connections)
    }

    fn defer(&mut self) -> Result<(), QError> {
        defer(self.request.is_some(), &mut self.sends)
    }

    fn respond(&mut self, handle: i32, result: Result<&Value, &[u8]>) -> Result<(), QError> {
        let answer = sends::answer(result)?;
        // An earlier message of the same client with a response still due is answered first.
        let request = self.deferred.take(handle).or_else(|| self.own_deferred(handle));
        let unexpected = || QError::signal(format!("Handle {handle} was not expecting a response msg"));
        self.sends.answers.push((request.ok_or_else(unexpected)?, answer));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    /// Whether a call that uses this thread's CPU time is charged.
    fn is_charged(name: &[u8], day_ended: &mut bool) -> bool {
        let by = clock::thread_processor_time() + Duration::from_millis(2);
        charged(name, day_ended, || while clock::thread_processor_time() < by {});
        clock::thread_processor_time() >= by
    }

    #[test]
    fn an_expression_pays_for_all_days_that_it_ends_but_the_first() {
        let mut day_ended = false;
        assert!(is_charged(b".u.upd", &mut day_ended));
        assert!(!is_charged(b".u.endofday", &mut day_ended));
        assert!(is_charged(b".u.endofday", &mut day_ended));
        assert!(is_charged(b".u.upd", &mut day_ended));
    }
}
