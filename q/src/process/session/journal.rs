//! Updates of a session with `-l` or `-L`: what a message changes is undone if it fails, and the message is logged if it succeeds.
//!
//! As in kdb+, only globals of the default namespace count.

use super::Session;
use crate::eval::globals;
use crate::io::files;
use crate::io::update_log::{Place, UpdateLog};
use crate::process::entry::run_text;
use crate::runtime::context::Context;
use crate::runtime::error::QError;
use crate::runtime::guard::Authors;
use crate::runtime::host::Caller;
use crate::syntax::prims;
use crate::verbs::enums;
use columns::table::symbol::text;
use columns::table::{Attr, Dict, Function, Sym, Value, Vector};
use std::collections::HashMap;
use std::path::Path;

/// The log of a session, and the messages in evaluation.
pub(super) struct Journal {
    log: UpdateLog,
    /// Number of the last checkpoint.
    number: i64,
    /// Outermost first. One that arrives while another waits for a response is evaluated within it.
    open: Vec<Open>,
}

/// An evaluation: a message, or what runs apart from one and is not logged (the timer, a line of the console).
#[derive(Default)]
struct Open {
    is_message: bool,
    before: HashMap<Sym, Before>,
}

/// A global before the evaluation changed it.
struct Before {
    was: Was,
    authors: Authors,
}

enum Was {
    /// Its value; `None` if there was none.
    Value(Option<Value>),
    /// It has only grown since. Another reference to its items would make the growth copy them.
    Shorter(Shape),
}

/// Length and attributes of a list or table.
struct Shape {
    count: usize,
    sorted: bool,
    attributes: Vec<Attr>,
}

impl Shape {
    /// `None` for a value that may change otherwise as it grows: a keyed table, or something empty, which takes the type of what is added.
    fn of(value: &Value) -> Option<Shape> {
        match value {
            Value::Table(t) if t.count() > 0 => {
                let attributes = t.columns.iter().map(|column| column.attr).collect();
                Some(Shape { count: t.count(), sorted: t.sorted, attributes })
            }
            Value::Vector(v) if !v.is_empty() => {
                Some(Shape { count: v.len(), sorted: false, attributes: vec![v.attr] })
            }
            _ => None,
        }
    }

    /// Returns the value that has grown to `now`.
    fn cut(&self, now: &Value) -> Value {
        let cut = |column: &Vector, attr: Option<&Attr>| Vector {
            attr: attr.copied().unwrap_or(Attr::None),
            ..column.cut(0, self.count)
        };
        match now {
            Value::Table(t) => {
                let columns = t.columns.iter().enumerate().map(|(at, column)| cut(column, self.attributes.get(at)));
                let mut table = columns::table::Table::new(t.names.clone(), columns.collect());
                table.sorted = self.sorted;
                Value::table(table)
            }
            Value::Vector(v) => Value::Vector(cut(v, self.attributes.first())),
            other => other.clone(),
        }
    }
}

impl Was {
    fn value(self, now: Option<&Value>) -> Option<Value> {
        match self {
            Was::Value(value) => value,
            Was::Shorter(shape) => now.map(|now| shape.cut(now)),
        }
    }
}

impl Journal {
    /// Called before a global changes; `grows` if items are only added.
    fn note(&mut self, name: Sym, grows: bool, now: Option<&Value>, authors: &Authors) {
        if text(name).starts_with(b".") {
            return;
        }
        let Some((current, outer)) = self.open.split_last_mut() else { return };
        if !current.is_message {
            // What others change meanwhile is not undone.
            outer.iter_mut().for_each(|open| drop(open.before.remove(&name)));
            return;
        }
        match current.before.get_mut(&name) {
            None => {
                let shape = now.filter(|_| grows).and_then(Shape::of);
                let was = shape.map_or_else(|| Was::Value(now.cloned()), Was::Shorter);
                let mut own = Authors::default();
                own.take(name, authors);
                current.before.insert(name, Before { was, authors: own });
            }
            Some(before) if !grows => {
                let was = std::mem::replace(&mut before.was, Was::Value(None));
                before.was = Was::Value(was.value(now));
            }
            Some(_) => {}
        }
    }
}

impl Session {
    /// Called before a global changes.
    pub(super) fn note_change(&mut self, name: Sym, grows: bool) {
        if let Some(journal) = &mut self.journal {
            journal.note(name, grows, self.globals.get(&name), &self.authors);
        }
    }

    /// Evaluates a client's message: logs it if it changes data and succeeds, and undoes its changes if it fails.
    ///
    /// # Errors
    /// Those of the message; the log cannot be written.
    pub fn updating(
        &mut self,
        message: &Value,
        evaluate: impl FnOnce(&mut Session) -> Result<Value, QError>,
    ) -> Result<Value, QError> {
        let is_begun = self.begin_message_update(false);
        let result = evaluate(self);
        if is_begun {
            self.end_message_update(message, result.is_ok())?;
        }
        result
    }

    /// Begins or ends what runs apart from the message in evaluation.
    pub(super) fn set_apart(&mut self, is_apart: bool) {
        match &mut self.journal {
            Some(journal) if is_apart => journal.open.push(Open::default()),
            Some(journal) => drop(journal.open.pop()),
            None => {}
        }
    }

    pub(super) fn begin_message_update(&mut self, is_own: bool) -> bool {
        let Some(journal) = &mut self.journal else { return false };
        if is_own && journal.open.last().is_some_and(|open| open.is_message) {
            return false;
        }
        journal.open.push(Open { is_message: true, ..Open::default() });
        true
    }

    pub(super) fn end_message_update(&mut self, message: &Value, succeeded: bool) -> Result<(), QError> {
        let Some(journal) = &mut self.journal else { return Ok(()) };
        let Some(ended) = journal.open.pop().filter(|open| !open.before.is_empty()) else { return Ok(()) };
        if !succeeded {
            self.undo(ended);
            return Ok(());
        }
        match journal.log.append(message) {
            Ok(()) => {
                let is_changed = |name: &Sym| ended.before.contains_key(name);
                journal.open.iter_mut().for_each(|open| open.before.retain(|name, _| !is_changed(name)));
                Ok(())
            }
            Err(error) => {
                self.undo(ended);
                Err(error)
            }
        }
    }

    fn undo(&mut self, message: Open) {
        for (name, Before { was, authors }) in message.before {
            let now = self.globals.remove(&name);
            match was.value(now.as_ref()) {
                Some(value) => {
                    self.globals.insert(name, value);
                    if !self.order.contains(&name) {
                        self.order.push(name);
                    }
                }
                None => self.order.retain(|known| *known != name),
            }
            self.authors.take(name, &authors);
        }
    }

    /// Loads the checkpoint `BASE.qdb`, evaluates the messages of `BASE.log` and logs further ones. Messages are evaluated with the rights of
    /// `caller`: a client's that had fewer rights than the owner has no more now.
    ///
    /// # Errors
    /// Those of the files, and of a message, which is named.
    pub fn log_updates(&mut self, base: &Path, syncs: bool, caller: Caller) -> Result<(), QError> {
        let place = Place::new(base)?;
        let (own, space) = (self.asking.caller().clone(), self.namespace);
        self.namespace = Sym::NULL;
        let number = self.load_checkpoint(&place, &caller)?;
        place.recover(number)?;
        // A file without a whole head is what a crash has left of a new log.
        if std::fs::metadata(place.log()).is_ok_and(|found| found.len() >= proto::log::FILE_HEAD.len() as u64) {
            self.set_caller(caller);
            self.replays = true;
            let limits = self.own_limits();
            let result = files::replay_file(&mut Context::new(self, &limits), &place.log(), -1);
            self.replays = false;
            self.set_caller(own);
            result.map_err(|error| explained(error, &place))?;
        }
        self.namespace = space;
        let log = UpdateLog::open(place, syncs)?;
        self.journal = Some(Box::new(Journal { log, number, open: Vec::new() }));
        Ok(())
    }

    /// Returns the number of the checkpoint, 0 without one.
    fn load_checkpoint(&mut self, place: &Place, caller: &Caller) -> Result<i64, QError> {
        let path = place.checkpoint();
        if !path.exists() {
            return Ok(0);
        }
        let (own, limits) = (self.asking.caller().clone(), self.own_limits());
        let read = |session: &mut Session| -> Result<(Value, Vec<Sym>), QError> {
            use std::os::unix::ffi::OsStrExt;
            session.set_caller(own.clone());
            let file = Value::chars(path.as_os_str().as_bytes());
            let stored = files::get_here(&mut Context::new(session, &limits), &file)?;
            let Value::Dict(d) = &stored else { return Err(QError::with("type", path.display().to_string())) };
            let names = d.keys.as_symbols().ok_or_else(|| QError::with("type", path.display().to_string()))?.to_vec();
            Ok((stored, names))
        };
        let (mut stored, mut names) = read(self)?;
        let about = About::of(&stored, &names);
        let assign = |session: &mut Session, name: Sym, value: Value| {
            session.set_caller(if about.clients.contains(&name) { caller.clone() } else { own.clone() });
            globals::assign(&mut Context::new(session, &limits), name, value)
        };
        if !about.domains.is_empty() {
            // Enumerations are read by their domains.
            for (at, name) in names.iter().enumerate().filter(|(_, name)| about.domains.contains(name)) {
                assign(self, *name, part(&stored, at))?;
            }
            (stored, names) = read(self)?;
        }
        for (at, name) in names.iter().enumerate().filter(|(_, name)| !name.is_null()) {
            assign(self, *name, part(&stored, at))?;
        }
        for (name, source) in &about.views {
            self.set_caller(if about.clients.contains(name) { caller.clone() } else { own.clone() });
            let line = [text(*name), b"::", &source[..]].concat();
            run_text(&mut Context::new(self, &limits), &line)?;
        }
        self.set_caller(own);
        Ok(about.number)
    }

    /// `\l` without a name.
    pub(super) fn write_checkpoint(&mut self) -> Result<(), QError> {
        if self.asking.caller().remote {
            return Err(QError::with("access", "only the process's owner can checkpoint"));
        }
        if self.replays {
            // What the message that did it had changed before is in the checkpoint, and what it changed after is not.
            return Ok(());
        }
        let Some(mut journal) = self.journal.take() else { return Err(unlogged()) };
        let result = if journal.open.iter().any(|open| !open.before.is_empty()) {
            Err(QError::with("nyi", "a message that has changed data cannot checkpoint"))
        } else {
            self.replace_checkpoint(&mut journal)
        };
        self.journal = Some(journal);
        result
    }

    fn replace_checkpoint(&mut self, journal: &mut Journal) -> Result<(), QError> {
        let number = journal.number.saturating_add(1);
        let stored = self.stored(number);
        let limits = self.own_limits();
        journal.log.replace(number, |path| {
            use std::os::unix::ffi::OsStrExt;
            let file = Value::chars(path.as_os_str().as_bytes());
            files::set(&mut Context::new(self, &limits), file, &stored).map(drop)
        })?;
        journal.number = number;
        Ok(())
    }

    /// The globals of the root as a dictionary, whose null symbol has what else a start needs.
    fn stored(&self, number: i64) -> Value {
        let (mut names, mut values, mut views) = (vec![Sym::NULL], vec![Value::Null], Vec::new());
        for (name, value) in self.globals().filter(|(name, _)| !text(*name).starts_with(b".")) {
            if let Value::Func(f) = value
                && let Function::View(lambda) = &**f
            {
                views.push((name, lambda.source.to_vec()));
                continue;
            }
            names.push(name);
            values.push(value.clone());
        }
        let all = || names.iter().chain(views.iter().map(|(name, _)| name)).copied();
        let clients = all().filter(|name| self.authors.is_callers(*name)).collect();
        let domains = all().filter(|name| enums::is_domain(*name)).collect();
        let about = About { number, clients, domains, views };
        if let Some(first) = values.first_mut() {
            *first = about.into_value();
        }
        Value::dict(Value::symbols(names), Value::list(values))
    }
}

pub(super) fn unlogged() -> QError {
    QError::with("access", "this process logs no updates: it was started without -l and -L")
}

/// Adds to the error of a log what its reader can do.
fn explained(mut error: QError, place: &Place) -> QError {
    let log = place.log();
    let hint = match &error.name[..] {
        b"badtail" => format!("-11!(-2;`:{}) counts its whole messages and their bytes", log.display()),
        b"access" => "messages are evaluated with the rights of clients, which -u 0 raises".to_owned(),
        _ => return error,
    };
    let reason = if error.detail.is_empty() { String::new() } else { format!("{}; ", error.detail) };
    error.detail = format!("{reason}{hint}");
    error
}

fn part(stored: &Value, at: usize) -> Value {
    match stored {
        Value::Dict(d) => d.values.at(at),
        _ => Value::Null,
    }
}

/// What a checkpoint holds besides the globals. One that kdb+ or a user has written has nothing of it.
#[derive(Default)]
struct About {
    number: i64,
    /// Names whose values are clients'.
    clients: Vec<Sym>,
    /// Names of lists that enumerations refer to.
    domains: Vec<Sym>,
    views: Vec<(Sym, Vec<u8>)>,
}

impl About {
    fn of(stored: &Value, names: &[Sym]) -> About {
        let at = names.iter().position(|name| name.is_null());
        let Some(Value::Dict(about)) = at.map(|at| part(stored, at)) else { return About::default() };
        let of = |key: &str| {
            let at = about.keys.as_symbols().unwrap_or_default().iter().position(|name| *name == prims::name(key));
            at.map_or(Value::Null, |at| about.values.at(at))
        };
        let symbols = |key: &str| of(key).as_symbols().unwrap_or_default().to_vec();
        let views = match of("views") {
            Value::Dict(d) => views_of(&d),
            _ => Vec::new(),
        };
        About {
            number: of("number").as_long().unwrap_or(0),
            clients: symbols("clients"),
            domains: symbols("domains"),
            views,
        }
    }

    fn into_value(self) -> Value {
        let (names, texts): (Vec<Sym>, Vec<Value>) =
            self.views.into_iter().map(|(name, text)| (name, Value::chars(text))).unzip();
        let keys = ["number", "clients", "domains", "views"].map(prims::name).to_vec();
        let views = Value::dict(Value::symbols(names), Value::list(texts));
        let values = vec![Value::Long(self.number), Value::symbols(self.clients), Value::symbols(self.domains), views];
        Value::dict(Value::symbols(keys), Value::list(values))
    }
}

fn views_of(views: &Dict) -> Vec<(Sym, Vec<u8>)> {
    let names = views.keys.as_symbols().unwrap_or_default().iter().copied();
    names.enumerate().map(|(at, name)| (name, views.values.at(at).as_text().unwrap_or_default().to_vec())).collect()
}
