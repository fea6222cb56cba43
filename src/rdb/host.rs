//! Query host of a node: a snapshot of the tables as of the query's start, globals of start-up files and clients, and `.rdb`.

use super::asker::Asker;
use super::effects::{Deed, Effects, Out};
use super::entitled;
use super::globals::{Globals, within};
use super::report::{self, Shown};
use super::scope::{Link, NodeScope, Spoken};
use super::shared::Moment;
use crate::config::Limit;
use crate::metrics;
use crate::net::{message, remote};
use crate::q::error::QError;
use crate::q::extend;
use crate::q::host::{Caller, Host, NEEDS_OWNER, Setting, Threads};
use crate::q::{Console, to_wire};
use crate::sys::shared::Shared as Slice;
use crate::table::{Sym, Value, symbol};
use proto::MessageKind;
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::sync::mpsc::RecvTimeoutError;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

/// How an evaluation runs; `Read`: alongside other queries, without the right to assign.
enum Rights {
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
    scope: &'a NodeScope,
    /// The view as of its start.
    view: Moment,
    /// Snapshots of the tables read so far, or why the caller may not read them.
    seen: Mutex<HashMap<Sym, Result<Value, QError>>>,
    globals: Arc<Globals>,
    rights: Rights,
    asker: &'a Asker,
    /// Deadline of the evaluation.
    deadline: Option<Instant>,
    effects: Effects,
}

/// Returns the full name of a name in a namespace.
fn within_space(namespace: Sym, short: Sym) -> Option<Sym> {
    match symbol::text(namespace) {
        b"" | b"." => Some(short),
        space => symbol::find(&[space, b".", symbol::text(short)].concat()),
    }
}

impl<'a> QueryHost<'a> {
    /// Host of a read-only evaluation.
    pub fn reading(scope: &'a NodeScope, asker: &'a Asker, deadline: Option<Instant>) -> QueryHost<'a> {
        let (view, globals) = (scope.shared.view(), scope.globals.current());
        QueryHost {
            scope,
            view,
            seen: Mutex::default(),
            globals,
            rights: Rights::Read,
            asker,
            deadline,
            effects: Effects::default(),
        }
    }

    /// Host of an evaluation that assigns, with the effects of its first attempt. The caller ensures that only one runs
    /// at a time.
    pub fn writing(
        scope: &'a NodeScope,
        asker: &'a Asker,
        deadline: Option<Instant>,
        before: Effects,
    ) -> QueryHost<'a> {
        let host = QueryHost::reading(scope, asker, deadline);
        let own = Globals::clone(&host.globals);
        QueryHost { rights: Rights::Write(own), effects: before.again(), ..host }
    }

    /// Host of the owner's `.u.end`, on the ended day.
    pub fn of_ended_day(
        scope: &'a NodeScope,
        asker: &'a Asker,
        deadline: Option<Instant>,
        view: &Moment,
    ) -> QueryHost<'a> {
        let host = QueryHost::reading(scope, asker, deadline);
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

    /// Publishes the assignments of a writing evaluation. As in kdb+, those made before an error count too.
    pub fn finish(self) -> Effects {
        if let Rights::Write(globals) = self.rights {
            self.scope.globals.replace(globals);
        }
        self.effects
    }

    fn globals(&self) -> &Globals {
        match &self.rights {
            Rights::Read => &self.globals,
            Rights::Write(own) | Rights::Apart { globals: own, .. } => own,
        }
    }

    fn is_fed(&self, name: Sym) -> bool {
        self.view.tables.get(name).is_some() || symbol::text(name).starts_with(b".rdb.")
    }

    fn own(&self) -> [Sym; 4] {
        [self.scope.windows, self.scope.stats, self.scope.windows_v1, self.scope.stats_v1]
    }

    /// Checks whether the caller may change this global.
    fn check_change(&self, name: Sym) -> Result<(), QError> {
        if self.is_fed(name) {
            return Err(no_update(name));
        }
        let is_remote = self.caller().remote;
        if is_remote && name == self.scope.day_end {
            return Err(QError::with("access", ".u.end can only be set in start-up files"));
        }
        if is_remote && self.scope.rules.block_writes {
            return Err(QError::with("noupdate", "clients may not assign (-b)"));
        }
        self.globals().authors.check(name, is_remote)
    }

    /// Reads a table once per evaluation: the rows that the caller may read.
    fn read(&self, name: Sym, table: impl FnOnce() -> Option<Value>) -> Option<Value> {
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        let found = match seen.entry(name) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(unseen) => {
                let table = table()?;
                unseen.insert(match &self.asker.restricted {
                    Some(grants) => entitled::rows(grants, name, table, &self.view, self.caller()),
                    None => Ok(table),
                })
            }
        };
        found.as_ref().ok().cloned()
    }

    /// Whether a restricted caller must not read a name that is no table of the feed: the node's figures, and globals that others
    /// have assigned.
    fn is_hidden(&self, name: Sym) -> bool {
        let is_figures = name == self.scope.stats || name == self.scope.stats_v1;
        self.is_restricted() && (is_figures || !self.globals().authors.is_of(name, &self.caller().user))
    }

    /// Whether a restricted caller sees the name in lists of names.
    fn is_visible(&self, name: Sym) -> bool {
        let globals = self.globals();
        let is_table = self.view.tables.get(name).is_some()
            || (globals.authors.is_of_start(name) && globals.get(name).is_some_and(entitled::has_rows));
        !self.is_hidden(name) && (!is_table || self.asker.shows(name) != Shown::No)
    }

    fn link(&self, handle: i32) -> Result<Link, QError> {
        let link = self.scope.connections().get(&handle).copied();
        let words = || format!("Cannot write to handle {handle}. OS reports: Bad file descriptor");
        link.ok_or_else(|| QError::signal(words()))
    }

    /// Queues an async message to a client; it is sent when the evaluation has ended.
    fn tell(&mut self, handle: i32, value: &Value) -> Result<Value, QError> {
        let Link { conn, spoken } = self.link(handle)?;
        // An empty async message flushes in kdb+. Here everything is sent after the evaluation, so there is nothing to flush.
        if matches!(value, Value::Null) {
            return Ok(Value::Null);
        }
        let message = match spoken {
            Spoken::Ipc => {
                let mut put = Ok(());
                let message = message::message(MessageKind::Async, |writer| put = to_wire(value, writer));
                put?;
                message.map_err(|error| QError::with("limit", error.to_string()))?
            }
            Spoken::Web => remote::frame(value)?,
        };
        self.effects.send(Out::Send { conn, message });
        Ok(Value::Null)
    }
}

/// Sends a sync message to a client and waits for its response.
fn wait_for_reply(
    scope: &NodeScope,
    link: Link,
    before: Vec<Out>,
    value: &Value,
    by: Option<Instant>,
    is_query: bool,
) -> Result<Value, QError> {
    if link.spoken == Spoken::Web {
        return Err(QError::with("nyi", "WebSocket clients are sent async messages only"));
    }
    let message = remote::encoded(MessageKind::Sync, value)?;
    // Other queries use its slot meanwhile. The threads of handlers have none to spare.
    let away = is_query.then(|| scope.queries.away());
    if matches!(away, Some(None)) {
        metrics::refused(Limit::client_waits);
        return Err(QError::with("limit", "too many queries wait for the response of a client (--limit-client-waits)"));
    }
    let until = Instant::now().checked_add(scope.client_wait);
    let is_limit = by.is_none_or(|by| until.is_some_and(|until| until < by));
    let by = if is_limit { until } else { by };
    let answered = scope.ask(link.conn, before, message.into());
    let answer = match by {
        None => answered.recv().map_err(|_| RecvTimeoutError::Disconnected),
        Some(by) => answered.recv_timeout(by.saturating_duration_since(Instant::now())),
    };
    match answer {
        Ok(answer) => remote::value(&answer),
        Err(RecvTimeoutError::Disconnected) => Err(QError::named("close")),
        Err(RecvTimeoutError::Timeout) if is_limit => {
            metrics::refused(Limit::client_wait_ns);
            let wait = scope.client_wait;
            Err(QError::with("timeout", format!("the client has not responded within {wait:?} (--limit-client-wait)")))
        }
        Err(RecvTimeoutError::Timeout) => Err(QError::with("stop", "time limit")),
    }
}

/// Only the feed writes these tables: a client's rows would be on no other node and in no log.
fn no_update(name: Sym) -> QError {
    QError::with("noupdate", format!("{} is fed by the tickerplant", String::from_utf8_lossy(symbol::text(name))))
}

impl Host for QueryHost<'_> {
    fn global(&self, name: Sym) -> Option<Value> {
        if self.view.tables.get(name).is_some() {
            return self.read(name, || self.view.table(name));
        }
        let shown = |table: Sym| self.asker.shows(table);
        if name == self.scope.windows {
            return Some(report::windows(&self.view.state, shown));
        }
        if name == self.scope.windows_v1 {
            return Some(report::windows_v1(&self.view.state, shown));
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
        globals.authors.read(name, value, &self.asker.asking);
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
        self.asker.restricted.is_some()
    }

    fn assign(&mut self, name: Sym, value: Value) -> Result<(), QError> {
        self.check_change(name)?;
        let held = u64::try_from(self.scope.shared.global_bytes.load(Ordering::Relaxed)).unwrap_or(0);
        let most = self.scope.global_bytes_most;
        let asking = &self.asker.asking;
        match &mut self.rights {
            Rights::Read => Err(NEEDS_OWNER),
            Rights::Write(_) | Rights::Apart { .. } if held > most => {
                Err(QError::with("wsfull", format!("globals of clients hold {held} bytes, the limit is {most}")))
            }
            Rights::Write(globals) => {
                globals.authors.note(name, &value, asking);
                globals.set(name, value)
            }
            Rights::Apart { globals, changed } => {
                changed.push(name);
                globals.authors.note(name, &value, asking);
                globals.set(name, value)
            }
        }
    }

    fn remove(&mut self, name: Sym) -> Result<(), QError> {
        self.check_change(name)?;
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
        self.globals().authors.list(&self.asker.asking);
        self.globals().namespaces()
    }

    fn names(&self, namespace: Sym) -> Vec<Sym> {
        let tables = self.view.tables.iter().map(|table| table.schema().name);
        let mut names = within(tables.chain(self.own()), namespace);
        self.globals().authors.list(&self.asker.asking);
        names.extend(self.globals().names(namespace));
        if self.is_restricted() {
            names.retain(|short| within_space(namespace, *short).is_some_and(|full| self.is_visible(full)));
        }
        names
    }

    fn find_name(&self, is_it: &mut dyn FnMut(&Value) -> bool) -> Sym {
        let globals = self.globals();
        let mut names = globals.names(Sym::NULL).into_iter();
        names.find(|name| globals.get(*name).is_some_and(&mut *is_it)).unwrap_or(Sym::NULL)
    }

    fn makes_code(&self, value: Option<&Value>) {
        self.asker.asking.make_code(value);
    }

    fn native(&self, _: Sym) -> Option<u8> {
        None
    }

    fn call(&mut self, name: Sym, _: &[Value]) -> Result<Value, QError> {
        Err(QError::signal(symbol::text(name)))
    }

    fn append(&mut self, name: Sym, rows: &Value) -> Result<Value, QError> {
        if self.is_fed(name) {
            return Err(no_update(name));
        }
        if self.is_restricted() && self.globals().get(name).is_some() && self.global(name).is_none() {
            return Err(self.missing(name));
        }
        let old = match self.globals().get(name) {
            Some(old) => {
                self.globals().authors.read(name, Some(old), &self.asker.asking);
                old.clone()
            }
            // As in kdb+, inserting a table under a new name defines it.
            None => match rows {
                Value::Table(table) => Value::Table(Arc::new(table.rows::<u32>(&[]))),
                _ => return Err(QError::signal(symbol::text(name))),
            },
        };
        let before = old.count();
        let new = extend(old, rows)?;
        let after = new.count();
        self.assign(name, new)?;
        Ok(Value::longs((before as i64..after as i64).collect()))
    }

    fn caller(&self) -> &Caller {
        self.asker.asking.caller()
    }

    fn reaches_files(&self) -> bool {
        true
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
        let (handles, owner) = (&self.scope.handles, self.asker.owner);
        let opened = self
            .effects
            .once(Deed::Open(target.to_vec()), || handles.open(target, timeout_ms, owner).map(Value::Int))?;
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
        self.effects.once(Deed::Close(handle), || handles.close(handle).map(|()| Value::Null)).map(drop)
    }

    fn owns(&self, handle: i64) -> bool {
        let number = i32::try_from(handle.saturating_abs()).unwrap_or(0);
        // Handles of the process are for its owner only, not for client code that an owner's evaluation has called.
        let asks = self.asker.owner != 0 || !self.caller().remote;
        let opened = || self.effects.has_opened(i64::from(number));
        asks && (opened() || self.scope.handles.owner_of(number) == Some(self.asker.owner))
    }

    fn send(&mut self, handle: i64, value: &Value) -> Result<Value, QError> {
        let (scope, handles, by) = (self.scope, &self.scope.handles, self.deadline);
        if handles.is_own(handle) {
            if handle < 0 {
                self.effects.hold(handle, || handles.hold(handle));
            }
            return self.effects.once(Deed::Send(handle), || handles.send(handle, value, by));
        }
        let client = i32::try_from(handle).map_err(|_| QError::named("domain"))?;
        if client < 0 {
            return self.tell(client.saturating_neg(), value);
        }
        let link = self.link(client)?;
        let deed = Deed::Send(handle);
        let mut before = Vec::new();
        if !self.effects.repeats(&deed) {
            // Its messages leave now, and make other evaluations respond to the request that it has deferred.
            if let Some(request) = self.asker.request.filter(|_| self.effects.deferred && !self.effects.answered)
                && !std::mem::replace(&mut self.effects.is_registered, true)
            {
                scope.defer(request);
            }
            before = self.effects.leave();
        }
        let is_query = self.asker.is_query;
        self.effects.once(deed, || wait_for_reply(scope, link, before, value, by, is_query))
    }

    fn defer(&mut self) -> Result<(), QError> {
        self.asker.request.ok_or(QError::with("access", "no client is waiting for a response here"))?;
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
        let is_own = defers && !self.effects.answered && handle == self.caller().handle;
        // An earlier deferred message of this client is answered first.
        let request = self.effects.answer(handle, || scope.take_deferred(handle)).or_else(|| {
            self.effects.answered |= is_own;
            self.asker.request.filter(|_| is_own)
        });
        let unexpected = || QError::signal(format!("Handle {handle} was not expecting a response msg"));
        // Its own request, registered before it has waited for a client.
        self.effects.answered |= request.is_some() && request == self.asker.request;
        self.effects.send(Out::Respond { request: request.ok_or_else(unexpected)?, answer });
        Ok(())
    }

    fn print(&mut self, text: &[u8]) -> Result<(), QError> {
        self.effects.printed.extend_from_slice(text);
        Ok(())
    }

    fn console(&self) -> Console {
        self.scope.console
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

    /// Returns the handles of client connections and of connections opened by this process.
    fn tls_settings(&self) -> Vec<(&'static str, String)> {
        crate::net::tls::shown()
    }

    fn open_handles(&self) -> Vec<i32> {
        let clients: Vec<i32> = self.scope.connections().keys().copied().collect();
        [clients, self.scope.handles.peers()].concat()
    }

    fn threads(&self) -> Threads {
        Threads { now: self.scope.threads, most: self.scope.threads }
    }

    fn shared(&self) -> Option<&(dyn Host + Sync)> {
        Some(self)
    }

    fn rows_of(&self, column: &Slice<Sym>, symbol: Sym) -> Option<Vec<u32>> {
        self.view.rows_of(column, symbol)
    }
}
