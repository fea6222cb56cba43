//! What the tickerplant offers to expressions: tables, `.u`, and what clients have defined.
//!
//! Queries run beside the loop on a [`SnapshotHost`]; what looks at `.u` or changes anything is run again on the loop's thread
//! with an [`OwnerHost`].

use super::globals::Globals;
use super::plant::Plant;
use super::plant::calls::{self, Called};
use super::plant::values::VARIABLES;
use super::sends::{self, Connections, Sends};
use crate::net::{ConnId, Deferred, Links, Request};
use crate::q::{Caller, Console, Host, NEEDS_OWNER, QError, from_view, to_wire};
use crate::sys::clock;
use crate::table::{Function, Sym, Value, symbol};
use proto::{Endian, Limits, View, Writer};
use std::cell::Cell;
use std::sync::Arc;

/// What needs no connection: the timer may call it.
const OWN: [&[u8]; 4] = [b".u.upd", b".u.end", b".u.endofday", b".z.ts"];

/// Parameters of a native function.
fn native(name: Sym) -> Option<u8> {
    calls::parameters(symbol::text(name))
}

fn is_own(name: &[u8]) -> bool {
    name == b".u" || name.starts_with(b".u.") || name == b".z.ts"
}

/// A client may not write into the tickerplant's own tables and variables.
fn no_update(name: Sym) -> QError {
    let name = symbol::text(name).escape_ascii();
    QError::with("noupdate", format!("{name} belongs to the tickerplant; publish with .u.upd"))
}

/// A host for queries beside the loop.
pub struct SnapshotHost {
    globals: Arc<Globals>,
    caller: Caller,
    connections: Arc<Connections>,
    /// Whoever asks waits for an answer.
    is_sync: bool,
    sends: Sends,
    /// Set when the query has looked at what only the owner can tell.
    asks_owner: Cell<bool>,
}

impl SnapshotHost {
    pub fn new(globals: Arc<Globals>, caller: Caller, connections: Arc<Connections>, is_sync: bool) -> SnapshotHost {
        SnapshotHost { globals, caller, connections, is_sync, sends: Sends::default(), asks_owner: Cell::new(false) }
    }

    /// What the evaluation has sent.
    pub fn sends(self) -> Sends {
        self.sends
    }

    /// Whether the result, whatever it is, does not count.
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
    if is_sync { Ok(()) } else { Err(QError::with("access", "nobody waits for an answer here")) }
}

/// A host on the loop's thread.
pub struct OwnerHost<'a> {
    pub plant: &'a mut Plant,
    pub ctl: &'a mut dyn Links,
    /// Who asks; none for the timer.
    pub conn: Option<ConnId>,
    /// The sync message that is evaluated, `None` for an async one.
    pub request: Option<Request>,
    pub connections: &'a Connections,
    /// Messages whose answer was put off, by handle.
    pub deferred: &'a mut Deferred,
    pub sends: Sends,
    pub caller: Caller,
    pub globals: &'a mut Arc<Globals>,
    /// Whether clients may define anything (kdb+'s `-b` forbids it).
    pub may_assign: bool,
    pub codec: Limits,
    /// An update was accepted: the answer is held until it is as durable as promised.
    pub published: bool,
    /// It has ended a day.
    pub day_ended: bool,
    /// Something could not be defined: what clients define is at its limit.
    pub globals_full: bool,
}

/// Calls a function at the expense of the expression. The log of a large day takes its time to close, and that is no fault of
/// whoever ends it; an expression that ends one day after the other pays for all but the first.
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
    /// The message that is evaluated, if its answer was put off and is still due.
    fn own_deferred(&mut self, handle: i32) -> Option<Request> {
        let is_due = self.sends.deferred && !self.sends.answered && handle == self.caller.handle;
        let request = self.request.filter(|_| is_due)?;
        self.sends.answered = true;
        Some(request)
    }

    /// A namespace inside `.u`, as a dictionary.
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

/// The quarantine may be large: `key` lists it, but a dictionary of the namespace, as `` .u`i`L `` makes one, does not hold it.
const LARGE: &[u8] = b".u.quarantine";

/// Names of variables and functions in a namespace of the tickerplant's own, and of the namespaces in it, but for [`LARGE`].
fn own_names(space: &[u8]) -> Vec<&'static [u8]> {
    let functions = calls::FUNCTIONS.iter().map(|(name, _)| *name);
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
        if is_own(text) || self.plant.tables.find(text).is_some() {
            return Err(no_update(name));
        }
        if text.starts_with(b".z.") {
            return Err(QError::with("access", "handlers are set by the process's start-up files"));
        }
        if !self.may_assign {
            return Err(QError::with("noupdate", "clients may not define anything here"));
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
            None if OWN.contains(&symbol::text(name)) => ConnId::new(u32::MAX, 0),
            None => return Err(QError::with("access", "only a client calls this")),
        };
        let caller = calls::Caller { conn, request: None };
        let mut object = Vec::new();
        let mut writer = Writer::new(&mut object);
        let name = symbol::text(name);
        let called =
            charged(name, &mut self.day_ended, || self.plant.call(name, &args, caller, &mut writer, self.ctl))?;
        if name == proto::log::SCHEMA {
            Arc::make_mut(self.globals).show_tables(&self.plant.tables);
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
        // An earlier message of the same client whose answer is still due is answered first.
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

    /// Whether a call that takes this thread some time is charged.
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
