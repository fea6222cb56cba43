//! Query host of a node: a snapshot of the tables as of the query's start, globals of start-up files and clients, and `.rdb`.

use super::effects::{Effects, HandleCall, Out};
use super::entitled;
use super::globals::Globals;
use super::paper_names;
use super::report::{self, Shown};
use super::requester::Requester;
use super::scope::{Link, NodeScope, WireProtocol};
use super::shared::Moment;
use super::spaces::Space;
use crate::net::{call_stack, message, remote};
use crate::q::error::QError;
use crate::q::extend;
use crate::q::host::{Caller, Host, Made, NEEDS_OWNER, Setting, Threads};
use crate::q::names::below;
use crate::q::{Console, to_wire};
use crate::sys::shared::Shared as Slice;
use crate::table::{Sym, Value, symbol};
use proto::MessageKind;
use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

/// How an evaluation runs; `Read`: alongside other queries, without the right to assign.
pub(super) enum Rights {
    Read,
    /// Alone, on a copy of the globals that replaces them at the end.
    Write(Globals),
    /// Alongside queries for as long as it takes (`.u.end`); its assignments are merged at its end.
    Apart {
        globals: Globals,
        changed: Vec<Sym>,
    },
}

/// Host of one evaluation.
pub struct QueryHost<'a> {
    pub(super) scope: &'a NodeScope,
    /// The view as of its start.
    pub(super) view: Moment,
    /// Snapshots of the tables read so far, or why the caller may not read them.
    pub(super) seen: Mutex<HashMap<Sym, Result<Value, QError>>>,
    pub(super) globals: Arc<Globals>,
    pub(super) rights: Rights,
    pub(super) requester: &'a Requester,
    /// Globals of a caller whose rows are restricted.
    pub(super) space: Option<Arc<Space>>,
    pub(super) has_own_changed: bool,
    /// The operation under way is written in a start-up file.
    pub(super) by_owner: bool,
    /// Name of a global that code of the owner is changing in part.
    changing: Option<Sym>,
    /// `\d`, `\c` and `\P` within this evaluation.
    namespace: Sym,
    console: Console,
    /// Deadline of the evaluation.
    deadline: Option<Instant>,
    effects: Effects,
}

impl<'a> QueryHost<'a> {
    /// Host of a read-only evaluation.
    pub fn reading(scope: &'a NodeScope, requester: &'a Requester, deadline: Option<Instant>) -> QueryHost<'a> {
        let (view, globals) = (scope.shared.view(), scope.globals.current());
        let space = requester.restricted.is_some().then(|| scope.spaces.of(&requester.asking.caller().user));
        QueryHost {
            scope,
            view,
            seen: Mutex::default(),
            globals,
            rights: Rights::Read,
            requester,
            space,
            has_own_changed: false,
            by_owner: false,
            changing: None,
            namespace: scope.namespace_of(requester.asking.caller().handle),
            console: scope.console_of(requester.asking.caller().handle),
            deadline,
            effects: Effects::default(),
        }
    }

    /// Host of an evaluation that assigns, with the effects of its first attempt. The caller ensures that only one runs
    /// at a time.
    pub fn writing(
        scope: &'a NodeScope,
        requester: &'a Requester,
        deadline: Option<Instant>,
        before: Effects,
    ) -> QueryHost<'a> {
        let host = QueryHost::reading(scope, requester, deadline);
        let own = Globals::clone(&host.globals);
        requester.asking.again();
        QueryHost { rights: Rights::Write(own), effects: before.again(), ..host }
    }

    /// Host of the owner's `.u.end`, on the ended day.
    pub fn of_ended_day(
        scope: &'a NodeScope,
        requester: &'a Requester,
        deadline: Option<Instant>,
        view: &Moment,
    ) -> QueryHost<'a> {
        let host = QueryHost::reading(scope, requester, deadline);
        let rights = Rights::Apart { globals: Globals::clone(&host.globals), changed: Vec::new() };
        QueryHost { rights, view: view.clone(), ..host }
    }

    /// Publishes the assignments of [`QueryHost::of_ended_day`]. The caller ensures that nothing else assigns meanwhile.
    ///
    /// # Errors
    /// `'limit` for one name too many.
    pub fn merge(self) -> Result<Effects, QError> {
        if let Rights::Apart { globals, changed } = &self.rights
            && !changed.is_empty()
        {
            let mut all = Globals::clone(&self.scope.globals.current());
            all.take(changed, globals)?;
            self.scope.globals.replace(all);
        }
        Ok(self.effects)
    }

    /// Publishes the assignments of a writing evaluation. As in kdb+, those made before an error count too. Returns by how many bytes the
    /// caller's own globals have grown.
    pub fn finish(self) -> (Effects, i64) {
        let grown = match self.space.filter(|_| self.has_own_changed) {
            Some(space) => self.scope.spaces.publish(&self.requester.asking.caller().user, space),
            None => 0,
        };
        if let Rights::Write(globals) = self.rights {
            self.scope.globals.replace(globals);
        }
        (self.effects, grown)
    }

    fn link(&self, handle: i32) -> Result<Link, QError> {
        let link = self.scope.connections().get(&handle).copied();
        let words = || format!("Cannot write to handle {handle}. OS reports: Bad file descriptor");
        link.ok_or_else(|| QError::signal(words()))
    }

    /// Queues an async message to a client; it is sent when the evaluation has ended.
    fn queue_message(&mut self, handle: i32, value: &Value) -> Result<Value, QError> {
        let Link { conn, protocol, .. } = self.link(handle)?;
        // An empty async message flushes in kdb+. Here everything is sent after the evaluation, so there is nothing to flush.
        if matches!(value, Value::Null) {
            return Ok(Value::Null);
        }
        let message = match protocol {
            WireProtocol::Ipc => {
                let mut put = Ok(());
                let message = message::message(MessageKind::Async, |writer| put = to_wire(value, writer));
                put?;
                message.map_err(|error| QError::with("limit", error.to_string()))?
            }
            WireProtocol::Web => remote::frame(value)?,
        };
        self.effects.send(Out::Send { conn, message });
        Ok(Value::Null)
    }
}

impl Host for QueryHost<'_> {
    fn global(&self, name: Sym) -> Option<Value> {
        if self.view.tables.get(name).is_some() {
            return self.read(name, || self.view.table(name));
        }
        let shown = |table: Sym| if self.requester.sees_figures() { Shown::All } else { self.requester.shows(table) };
        if name == self.scope.windows {
            return Some(report::windows(&self.view.state, shown));
        }
        if name == self.scope.windows_v1 {
            return Some(report::windows_v1(&self.view.state, shown));
        }
        if let Some(own) = self.own_value(name) {
            return Some(own.clone());
        }
        if self.is_hidden(name) {
            return None;
        }
        if name == self.scope.stats || name == self.scope.stats_v1 {
            let open = self.scope.shared.queries_open.load(Ordering::SeqCst);
            let (state, constants) = (self.scope.shared.state(), &self.scope.constants);
            let day_end = self.scope.shared.day_ends.state();
            return Some(match name == self.scope.stats {
                true => report::stats(&state, constants, open, day_end),
                false => report::stats_v1(&state, constants, open, day_end),
            });
        }
        let globals = self.globals();
        let value = globals.get(name);
        if value.is_none()
            && let Some(figure) =
                paper_names::figure(symbol::text(name), &self.scope.shared.state(), &self.scope.constants)
        {
            return Some(figure);
        }
        globals.authors.read(name, value, &self.requester.asking);
        if self.is_restricted() && value.is_some_and(entitled::has_rows) && globals.authors.is_of_start(name) {
            return self.read(name, || value.cloned());
        }
        value.cloned()
    }

    fn missing(&self, name: Sym) -> QError {
        let seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        match seen.get(&name) {
            Some(Err(error)) => error.clone(),
            _ if self.is_hidden(name) => entitled::denied(name),
            _ => QError::signal(symbol::text(name)),
        }
    }

    fn is_restricted(&self) -> bool {
        self.requester.restricted.is_some()
    }

    fn acts_as_owner(&mut self, is_owner: bool) {
        self.by_owner = is_owner;
    }

    fn global_to_change(&mut self, name: Sym) -> Option<Value> {
        if self.is_fed(name) || !self.caller().remote {
            return self.global(name);
        }
        self.changing = Some(name);
        self.globals().get(name).cloned()
    }

    fn begins(&mut self, message: &Value) {
        self.requester.asking.begin(message);
    }

    fn assign(&mut self, name: Sym, value: Value) -> Result<(), QError> {
        if self.empties(name, &value) {
            return Ok(());
        }
        self.check_change(name)?;
        if self.assigns_own() {
            return self.assign_own(name, value);
        }
        self.check_code(&value)?;
        let is_change = self.changing.take() == Some(name);
        let sees_all = self.sees_all(name);
        if !is_change && !sees_all && self.globals().get(name).is_some_and(entitled::has_rows) {
            // `hist::select from hist` would drop the rows that the caller does not see.
            let name = symbol::text(name).escape_ascii();
            return Err(QError::with(
                "access",
                format!("{name} has rows that you may not read, so you cannot replace it"),
            ));
        }
        let held = u64::try_from(self.scope.shared.global_bytes.load(Ordering::Relaxed)).unwrap_or(0);
        let most = self.scope.global_bytes_most;
        let asking = &self.requester.asking;
        match &mut self.rights {
            Rights::Read => Err(NEEDS_OWNER),
            Rights::Write(_) | Rights::Apart { .. } if held > most => {
                Err(QError::with("wsfull", format!("globals of clients hold {held} bytes, the limit is {most}")))
            }
            Rights::Write(globals) => {
                match is_change {
                    true => globals.authors.note_change(name, asking),
                    false => globals.authors.note(name, &value, asking),
                }
                if is_change && !sees_all {
                    globals.authors.mix(name);
                }
                globals.set(name, value)
            }
            Rights::Apart { globals, changed } => {
                changed.push(name);
                globals.authors.note(name, &value, asking);
                globals.set(name, value)
            }
        }
    }

    fn may_change(&self, name: Sym) -> Result<(), QError> {
        match &self.rights {
            // `.u.end` may empty a fed table and change it in no other way, which `assign` checks.
            Rights::Apart { .. } if self.is_fed(name) => Ok(()),
            _ => self.check_change(name),
        }
    }

    fn remove(&mut self, name: Sym) -> Result<(), QError> {
        self.check_change(name)?;
        if self.assigns_own() {
            return self.remove_own(name);
        }
        match &mut self.rights {
            Rights::Read => Err(NEEDS_OWNER),
            Rights::Write(globals) => {
                globals.remove(name);
                Ok(())
            }
            Rights::Apart { globals, changed } => {
                changed.push(name);
                globals.remove(name);
                Ok(())
            }
        }
    }

    fn namespaces(&self) -> Vec<Sym> {
        self.visible_namespaces()
    }

    fn names(&self, namespace: Sym) -> Vec<Sym> {
        self.visible_names(namespace)
    }

    fn names_below(&self, namespace: Sym) -> Vec<Sym> {
        match &self.space {
            Some(space) if self.assigns_own() => below(space.globals().all(), namespace),
            _ => below(self.globals().all(), namespace),
        }
    }

    fn find_name(&self, is_it: &mut dyn FnMut(&Value) -> bool) -> Sym {
        let globals = self.globals();
        let shared =
            globals.names(Sym::NULL).into_iter().filter(|name| !self.is_restricted() || self.is_visible(*name));
        let mut shared = shared.filter_map(|name| Some((name, globals.get(name)?)));
        let own = self.space.iter().flat_map(|space| space.globals().names(Sym::NULL));
        let mut own = own.filter_map(|name| Some((name, self.own_value(name)?)));
        let found = own.find(|(_, value)| is_it(value)).or_else(|| shared.find(|(_, value)| is_it(value)));
        found.map_or(Sym::NULL, |(name, _)| name)
    }

    fn makes_code(&self, made: Made<'_>) -> Result<(), QError> {
        self.requester.asking.make_code(made)
    }

    fn native(&self, name: Sym) -> Option<u8> {
        paper_names::arity(symbol::text(name))
    }

    fn call(&mut self, name: Sym, _: &[Value]) -> Result<Value, QError> {
        if self.is_hidden(name) {
            return Err(entitled::denied(name));
        }
        paper_names::call(symbol::text(name), &self.scope.shared.state(), &self.scope.constants)
    }

    fn append(&mut self, name: Sym, rows: &Value) -> Result<Value, QError> {
        self.check_fed(name)?;
        let old = match self.assigns_own() {
            true if self.global(name).is_none() && self.globals().authors.is_owners(name) => {
                return Err(self.missing(name));
            }
            true => self.global(name),
            false => self.globals().get(name).cloned(),
        };
        let mut table = match old {
            Some(old) => {
                match self.caller().remote {
                    true => self.changing = Some(name),
                    false => self.globals().authors.read(name, Some(&old), &self.requester.asking),
                }
                old
            }
            // As in kdb+, inserting a table under a new name defines it.
            None => match rows {
                Value::Table(table) => Value::Table(Arc::new(table.rows::<u32>(&[]))),
                _ => return Err(QError::signal(symbol::text(name))),
            },
        };
        let before = table.count();
        extend(&mut table, rows)?;
        let after = table.count();
        self.assign(name, table)?;
        Ok(Value::longs((before as i64..after as i64).collect()))
    }

    fn caller(&self) -> &Caller {
        self.requester.asking.caller()
    }

    fn reaches_files(&self) -> bool {
        true
    }

    fn used_bytes(&self) -> [i64; 2] {
        [crate::sys::memory::own_bytes(); 2]
    }

    fn guarded(&self) -> &[PathBuf] {
        &self.scope.rules.guarded
    }

    fn alters(&self) -> Result<(), QError> {
        match &self.rights {
            _ if self.caller().remote && self.scope.rules.block_writes => {
                Err(QError::with("noupdate", "clients may not write (-b)"))
            }
            Rights::Read => Err(NEEDS_OWNER),
            Rights::Write(_) | Rights::Apart { .. } => Ok(()),
        }
    }

    fn open(&mut self, target: &[u8], timeout_ms: u64) -> Result<i32, QError> {
        let left = self.deadline.map(|by| by.saturating_duration_since(Instant::now()));
        let left_ms = left.map_or(u64::MAX, |left| u64::try_from(left.as_millis()).unwrap_or(u64::MAX).max(1));
        let timeout_ms = if timeout_ms == 0 { left_ms } else { timeout_ms.min(left_ms) };
        let (handles, owner) = (&self.scope.handles, self.requester.owner);
        let opened = self
            .effects
            .once(HandleCall::Open(target.to_vec()), || handles.open(target, timeout_ms, owner).map(Value::Int))?;
        opened.as_long().and_then(|handle| i32::try_from(handle).ok()).ok_or(QError::named("hop"))
    }

    fn close(&mut self, handle: i32) -> Result<(), QError> {
        let (handles, caller) = (&self.scope.handles, self.caller());
        if !handles.is_own(i64::from(handle)) {
            if caller.remote && handle != caller.handle {
                return Err(QError::with("access", "the handle belongs to another client"));
            }
            let Link { conn, .. } = self.link(handle)?;
            self.effects.send(Out::Close(conn));
            return Ok(());
        }
        if caller.remote && handles.owner_of(handle).is_some() && !self.owns(i64::from(handle)) {
            return Err(QError::with("access", "the handle belongs to another client"));
        }
        self.effects.once(HandleCall::Close(handle), || handles.close(handle).map(|()| Value::Null)).map(drop)
    }

    fn owns(&self, handle: i64) -> bool {
        let number = i32::try_from(handle.saturating_abs()).unwrap_or(0);
        // Handles of the process are for its owner only, not for client code that an owner's evaluation has called.
        let may_own = self.requester.owner != 0 || !self.caller().remote;
        let opened = || self.effects.has_opened(i64::from(number));
        may_own && (opened() || self.scope.handles.owner_of(number) == Some(self.requester.owner))
    }

    fn read_pipe(&mut self, handle: i64, bytes: usize) -> Result<Value, QError> {
        let handles = &self.scope.handles;
        // What has been read is not in the pipe any more.
        self.effects.once(HandleCall::Send(handle), || handles.read_pipe(handle, bytes))
    }

    fn send(&mut self, handle: i64, value: &Value) -> Result<Value, QError> {
        let (scope, handles, by) = (self.scope, &self.scope.handles, self.deadline);
        if handles.is_own(handle) {
            if handle < 0 {
                self.effects.hold(handle, || handles.hold(handle));
            }
            return self.effects.once(HandleCall::Send(handle), || handles.send(handle, value, by));
        }
        let client = i32::try_from(handle).map_err(|_| QError::named("domain"))?;
        if client < 0 {
            return self.queue_message(client.saturating_neg(), value);
        }
        let link = self.link(client)?;
        let call = HandleCall::Send(handle);
        let mut before = Vec::new();
        if !self.effects.repeats(&call) {
            // Its messages leave now, and make other evaluations respond to the request that it has deferred.
            if let Some(request) = self.requester.request.filter(|_| self.effects.deferred && !self.effects.answered)
                && !std::mem::replace(&mut self.effects.is_registered, true)
            {
                scope.defer(request);
            }
            before = self.effects.leave();
        }
        let is_query = self.requester.is_query;
        let response = self.effects.once(call, || scope.wait_for_reply(link, before, value, by, is_query));
        response.inspect(|response| self.requester.asking.received(response))
    }

    fn defer(&mut self) -> Result<(), QError> {
        self.requester.request.ok_or(QError::with("access", "no client is waiting for a response here"))?;
        self.effects.deferred = true;
        Ok(())
    }

    fn respond(&mut self, handle: i32, result: Result<&Value, &[u8]>) -> Result<(), QError> {
        let mut object = Vec::new();
        let answer = match result {
            Err(name) => message::error(name),
            Ok(value) => {
                let mut writer = proto::Writer::new(&mut object);
                to_wire(value, &mut writer)?;
                let whole = writer.finish().and_then(|()| message::response(&object));
                whole.map_err(|error| QError::with("limit", error.to_string()))?
            }
        };
        let scope = self.scope;
        let defers = self.effects.deferred && !self.effects.is_registered;
        let caller = self.caller();
        let is_code_of_owner = self.by_owner && !self.is_restricted();
        if caller.remote && handle != caller.handle && !is_code_of_owner && !self.requester.is_callback {
            return Err(QError::with(
                "access",
                "only code of the process's start-up files answers another client's request",
            ));
        }
        let is_own = defers && !self.effects.answered && handle == caller.handle;
        // An earlier deferred message of this client is answered first.
        let request = self.effects.answer(handle, || scope.take_deferred(handle)).or_else(|| {
            self.effects.answered |= is_own;
            self.requester.request.filter(|_| is_own)
        });
        let unexpected = || QError::signal(format!("Handle {handle} was not expecting a response msg"));
        // Its own request, registered before it has waited for a client.
        self.effects.answered |= request.is_some() && request == self.requester.request;
        self.effects.send(Out::Respond { request: request.ok_or_else(unexpected)?, answer });
        Ok(())
    }

    fn print(&mut self, text: &[u8]) -> Result<(), QError> {
        self.effects.printed.extend_from_slice(text);
        Ok(())
    }

    fn console(&self) -> Console {
        self.console
    }

    fn set_console(&mut self, console: Console) -> Result<(), QError> {
        self.console = console;
        self.scope.set_console_of(self.requester.asking.caller().handle, console);
        Ok(())
    }

    fn setting(&self, which: Setting) -> i64 {
        match which {
            Setting::Timer => i64::try_from(self.scope.timer_ms.load(Ordering::Relaxed)).unwrap_or(i64::MAX),
            _ => 0,
        }
    }

    fn change(&mut self, which: Setting, to: i64) -> Result<(), QError> {
        match which {
            Setting::Timer => {
                self.scope.timer_ms.store(u64::try_from(to).unwrap_or(0), Ordering::Relaxed);
                Ok(())
            }
            _ => Err(QError::with("access", "settings can only be set at start-up")),
        }
    }

    fn port(&self) -> i32 {
        i32::from(self.scope.constants.port)
    }

    fn blocks_writes(&self) -> bool {
        self.scope.rules.block_writes
    }

    fn tls_settings(&self) -> Vec<(&'static str, String)> {
        crate::net::tls::shown()
    }

    /// Returns the handles of client connections and of connections opened by this process; of a restricted caller only its own.
    fn open_handles(&self) -> Vec<i32> {
        if self.is_restricted() {
            return vec![self.caller().handle];
        }
        let clients: Vec<i32> = self.scope.connections().keys().copied().collect();
        [clients, self.scope.handles.peers()].concat()
    }

    fn stack_of(&self, pid: u32, pace: &dyn Fn() -> Result<(), QError>) -> Result<Vec<u8>, QError> {
        call_stack::ask(pid, pace)
    }

    fn waiting_bytes(&self) -> Vec<(i32, i64)> {
        if self.is_restricted() { Vec::new() } else { self.scope.handles.unsent() }
    }

    fn threads(&self) -> Threads {
        Threads { now: self.scope.threads, most: self.scope.threads, processes: 0 }
    }

    fn shared(&self) -> Option<&(dyn Host + Sync)> {
        Some(self)
    }

    /// A message begins where the `\d` of its connection has led.
    fn namespace(&self) -> Sym {
        self.namespace
    }

    fn set_namespace(&mut self, namespace: Sym) -> Result<(), QError> {
        self.namespace = namespace;
        Ok(())
    }

    fn rows_of(&self, column: &Slice<Sym>, symbol: Sym) -> Option<Vec<u32>> {
        self.view.rows_of(column, symbol)
    }
}
