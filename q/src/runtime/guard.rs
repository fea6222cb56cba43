//! Rights of code in a process that its owner and remote callers share.
//!
//! Rights belong to the caller, and internal events (a timer, a login) run with the owner's rights. To keep remote callers
//! from planting code that such an event runs:
//!
//! 1. A remote caller cannot replace a function that the owner defined.
//! 2. A global that a remote caller assigned or changed is the caller's value, and so is whatever an evaluation assigns after
//!    it has read one.
//! 3. An evaluation of the owner that reads a caller's value with a function in it, or gets one in a client's response, continues with a remote
//!    caller's rights. A function that the owner has stored for a caller is the owner's: after `.z.po:{d[x]:{x+1}}` no caller may assign `d`.
//! 4. An evaluation of the owner that has read a caller's value continues with a remote caller's rights once it turns data
//!    into code: it evaluates text or a parse tree, or gets a function from a symbol or from bytes.
//!
//! 5. What a user with restricted rows has written is code for that user only: an evaluation of anybody else that has read it and then turns
//!    data into code fails, except for the evaluation's own message.
//!
//! Rights are never raised again within an evaluation.

use crate::runtime::error::QError;
use crate::runtime::host::{Caller, Grants, Made};
use columns::sys::stack;
use columns::table::{Function, Items, Sym, Value, Vector, symbol};
use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

/// Who has written a remote caller's value.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Writer {
    /// `None` if several users have written parts of it, or an event of the process has after it had read a caller's value.
    user: Option<Arc<[u8]>>,
    /// A user with restricted rows has written part of it.
    is_restricted: bool,
}

/// Records who has written each global.
#[derive(Clone, Debug, Default)]
pub struct Authors {
    /// Globals that hold a function of the owner, as `d` after `.z.po:{d[x]:{x+1}}`, and none of a client. No client may assign them.
    owner: HashSet<Sym>,
    /// Names whose value is a remote caller's.
    callers: HashMap<Sym, Writer>,
    /// Names that the start-up files have assigned.
    started: HashSet<Sym>,
    /// Their namespaces.
    spaces: HashSet<Vec<u8>>,
    /// Names that events of the process (a timer, a login) have assigned since the start.
    later: HashSet<Sym>,
    has_started: bool,
}

/// Returns the namespace directly under the root, `.app` of `.app.sub.f`; `None` for a name of the root.
pub fn space_of(name: &[u8]) -> Option<&[u8]> {
    let rest = name.strip_prefix(b".")?;
    let end = rest.iter().position(|byte| *byte == b'.').unwrap_or(rest.len());
    name.get(..=end)
}

/// Namespaces of the language's own functions and the process's handlers.
const RESERVED: [&[u8]; 7] = [b".z", b".Q", b".h", b".j", b".q", b".p", b".m"];

/// Maximum number of nested items searched for functions in a remote caller's value; a larger value counts as code.
const MAX_LOOKS: usize = 1 << 20;
/// Maximum number of nested items searched for functions in a value that the owner assigned; a larger value counts as data, since no owner keeps
/// functions in so long a list.
const MAX_OWNED: usize = 256;

fn is_reserved(name: &[u8]) -> bool {
    RESERVED.iter().any(|space| name.strip_prefix(*space).is_some_and(|rest| rest.is_empty() || rest.starts_with(b".")))
}

/// Returns the name whose part a dotted name reads, `t` of `t.time`; `None` for one without a dot or in a namespace.
pub fn stem_of(name: &[u8]) -> Option<&[u8]> {
    let dot = name.iter().position(|byte| *byte == b'.').filter(|dot| *dot > 0)?;
    name.get(..dot)
}

impl Authors {
    /// Checks whether the caller may assign or delete this name.
    ///
    /// # Errors
    /// `access`.
    pub fn check(&self, name: Sym, is_remote: bool) -> Result<(), QError> {
        if !is_remote {
            return Ok(());
        }
        let text = symbol::text(name);
        if is_reserved(text) {
            return Err(QError::with(
                "access",
                "handlers and reserved namespaces can only be set by the process's owner",
            ));
        }
        // Assigning a namespace replaces every name in it.
        let within = |owned: &Sym| symbol::text(*owned).strip_prefix(text).is_some_and(|rest| rest.starts_with(b"."));
        if self.owner.contains(&name) || text == b"." || (text.starts_with(b".") && self.owner.iter().any(within)) {
            return Err(QError::with("access", "this function is reserved for the process's owner"));
        }
        Ok(())
    }

    /// Records the author of a newly assigned value.
    pub fn note(&mut self, name: Sym, value: &Value, asking: &Asking) {
        if asking.caller().remote {
            self.owner.remove(&name);
        } else if is_owned_code(value) {
            self.owner.insert(name);
        } else {
            self.owner.remove(&name);
        }
        self.later.remove(&name);
        if !asking.is_owners() {
            self.callers.insert(name, asking.writer());
            return;
        }
        if !self.has_started {
            self.started.insert(name);
            self.spaces.extend(space_of(symbol::text(name)).map(<[u8]>::to_vec));
        }
        self.callers.remove(&name);
        if self.has_started {
            self.later.insert(name);
        }
    }

    /// The start-up files have been evaluated.
    pub fn start(&mut self) {
        self.has_started = true;
    }

    /// Whether a value is as the start-up files have left it.
    pub fn is_of_start(&self, name: Sym) -> bool {
        !self.callers.contains_key(&name) && !self.later.contains(&name)
    }

    /// Whether a value is as the start-up files or this user have left it.
    pub fn is_of(&self, name: Sym, user: &[u8]) -> bool {
        match self.callers.get(&name) {
            Some(writer) => writer.user.as_deref() == Some(user),
            None => !self.later.contains(&name),
        }
    }

    /// Whether a name is the owner's: the start-up files or an event of the process have assigned it, or a name in its namespace; or it reads as
    /// a part of one that they have assigned.
    pub fn is_owners(&self, name: Sym) -> bool {
        let is_inside = || space_of(symbol::text(name)).is_some_and(|space| self.spaces.contains(space));
        let has = |name: &Sym| self.started.contains(name) || self.later.contains(name);
        has(&name) || is_inside() || stem_of(symbol::text(name)).and_then(symbol::find).is_some_and(|stem| has(&stem))
    }

    /// Records a change of part of a value: the rest keeps its author.
    pub fn note_change(&mut self, name: Sym, asking: &Asking) {
        if asking.is_owners() {
            if self.has_started {
                self.later.insert(name);
            }
            // What the owner adds is not for the user who has written the rest.
            if let Some(writer) = self.callers.get_mut(&name) {
                writer.user = None;
            }
            return;
        }
        let now = asking.writer();
        let before = self.callers.get(&name).cloned();
        // What the owner's events have assigned may hold rows that the caller does not have.
        let is_mixed = before.as_ref().is_some_and(|before| before.user != now.user) || self.later.contains(&name);
        let is_restricted = now.is_restricted || before.is_some_and(|before| before.is_restricted);
        let user = now.user.filter(|_| !is_mixed);
        self.callers.insert(name, Writer { user, is_restricted });
    }

    /// Records that a value has parts of several users.
    pub fn mix(&mut self, name: Sym) {
        if let Some(writer) = self.callers.get_mut(&name) {
            writer.user = None;
        }
    }

    /// Takes the author of a name from another version of the globals.
    pub fn take(&mut self, name: Sym, other: &Authors) {
        let sets =
            [(&mut self.owner, &other.owner), (&mut self.later, &other.later), (&mut self.started, &other.started)];
        for (own, others) in sets {
            match others.contains(&name) {
                true => own.insert(name),
                false => own.remove(&name),
            };
        }
        match other.callers.get(&name) {
            Some(writer) => self.callers.insert(name, writer.clone()),
            None => self.callers.remove(&name),
        };
    }

    /// Called when an evaluation reads a global.
    #[inline]
    pub fn read(&self, name: Sym, value: Option<&Value>, asking: &Asking) {
        if !self.callers.is_empty()
            && let Some(writer) = self.callers.get(&name)
        {
            asking.read(name, value, writer, self.owner.contains(&name));
        }
    }

    /// Called when an evaluation lists names, which remote callers may have chosen.
    pub fn list(&self, asking: &Asking) {
        if !self.callers.is_empty() {
            asking.serve_caller();
        }
    }
}

/// Whether a value is or contains a function; true for one with more items than are searched.
pub fn is_code(value: &Value) -> bool {
    holds_code(value, &mut { MAX_LOOKS })
}

/// Whether a value that the owner assigns counts as code, which clients may not replace. An edit in place must not store such a value in a global: only
/// [`Authors::note`], called by an assignment, protects it.
pub(crate) fn is_owned_code(value: &Value) -> bool {
    let mut looks = MAX_OWNED;
    holds_code(value, &mut looks) && looks > 0
}

/// Whether a value contains a function for which `is_it` holds; true for one with more items than are searched.
pub(crate) fn holds_function(value: &Value, is_it: &dyn Fn(&Function) -> bool) -> bool {
    holds(value, &mut { MAX_LOOKS }, is_it)
}

/// Whether a value is or contains a function, within `looks` items; true if there are more.
fn holds_code(value: &Value, looks: &mut usize) -> bool {
    holds(value, looks, &|_| true)
}

/// As [`holds_code`], for functions that `is_it` holds for.
fn holds(value: &Value, looks: &mut usize, is_it: &dyn Fn(&Function) -> bool) -> bool {
    let Some(left) = looks.checked_sub(1) else { return true };
    *looks = left;
    if stack::is_deep() {
        return true;
    }
    match value {
        Value::Func(function) => is_it(function),
        Value::Vector(Vector { items: Items::List(items), .. }) => items.iter().any(|item| holds(item, looks, is_it)),
        Value::Dict(d) => holds(&d.keys, looks, is_it) || holds(&d.values, looks, is_it),
        Value::Table(t) => t.columns.iter().any(|column| match &column.items {
            Items::List(items) => items.iter().any(|item| holds(item, looks, is_it)),
            _ => false,
        }),
        _ => false,
    }
}

/// Caller of an evaluation, and what it has read of remote callers' values.
#[derive(Debug, Default)]
pub struct Asking {
    caller: Caller,
    lowered: Caller,
    /// The caller's rows are restricted.
    is_restricted: bool,
    /// The message that the evaluation answers.
    message: OnceLock<Value>,
    /// A remote caller's value has been read.
    has_read: AtomicBool,
    /// One of another user with restricted rows has been read.
    has_read_restricted: AtomicBool,
    is_lowered: AtomicBool,
    /// Names of remote callers' values without a function in them, so that a loop searches each once.
    searched: Mutex<HashSet<Sym>>,
}

impl Asking {
    /// `grants` are those of remote callers.
    pub fn new(caller: Caller, grants: Grants) -> Asking {
        let lowered = Caller { remote: true, grants, ..caller.clone() };
        Asking { caller, lowered, ..Asking::default() }
    }

    /// An evaluation of a user with restricted rows.
    pub fn of_restricted(caller: Caller) -> Asking {
        Asking { is_restricted: true, ..Asking::new(caller, Grants::default()) }
    }

    /// Sets the message that the evaluation answers.
    pub fn begin(&self, message: &Value) {
        let _ = self.message.set(message.clone());
    }

    /// The caller whose rights apply now.
    pub fn caller(&self) -> &Caller {
        if self.is_lowered.load(Ordering::Relaxed) { &self.lowered } else { &self.caller }
    }

    /// Restores full rights for a new evaluation.
    pub fn raise(&self) {
        self.is_lowered.store(false, Ordering::Relaxed);
        self.has_read.store(false, Ordering::Relaxed);
        self.has_read_restricted.store(false, Ordering::Relaxed);
        self.searched.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }

    /// Called when a node evaluates an expression a second time, from its start, because it assigns. Clients may have changed globals since the first time.
    pub fn again(&self) {
        self.has_read_restricted.store(false, Ordering::Relaxed);
        self.searched.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }

    /// Called when the evaluation gets a client's response, as to `x"f"` in `.z.po`: it counts as a value that the client has assigned.
    pub fn received(&self, response: &Value) {
        if self.is_lower() {
            return;
        }
        self.serve_caller();
        if holds_code(response, &mut { MAX_LOOKS }) {
            self.is_lowered.store(true, Ordering::Relaxed);
        }
    }

    /// Marks the evaluation as one that has read a remote caller's value, as an argument of a handler is.
    pub fn serve_caller(&self) {
        self.has_read.store(true, Ordering::Relaxed);
    }

    /// Whether what the evaluation assigns is the owner's.
    fn is_owners(&self) -> bool {
        !self.caller().remote && !self.has_read.load(Ordering::Relaxed)
    }

    /// Author of what the evaluation assigns, if that is not the owner.
    fn writer(&self) -> Writer {
        let has_read_restricted = self.has_read_restricted.load(Ordering::Relaxed);
        let user = (self.caller.remote && !has_read_restricted).then(|| Arc::from(&self.caller.user[..]));
        Writer { user, is_restricted: self.is_restricted || has_read_restricted }
    }

    fn is_lower(&self) -> bool {
        self.caller().remote
    }

    /// Called when the evaluation reads a remote caller's value; if it `has_owners_code`, functions in it are the owner's.
    fn read(&self, name: Sym, value: Option<&Value>, writer: &Writer, has_owners_code: bool) {
        let is_own = || self.caller.remote && writer.user.as_deref() == Some(&self.caller.user[..]);
        if writer.is_restricted && !is_own() {
            self.has_read_restricted.store(true, Ordering::Relaxed);
        }
        if self.is_lower() {
            return;
        }
        self.serve_caller();
        let Some(value) = value.filter(|_| !has_owners_code) else { return };
        let mut searched = self.searched.lock().unwrap_or_else(PoisonError::into_inner);
        if searched.contains(&name) {
            return;
        }
        if holds_code(value, &mut { MAX_LOOKS }) {
            self.is_lowered.store(true, Ordering::Relaxed);
        } else {
            searched.insert(name);
        }
    }

    /// Called when data becomes code.
    ///
    /// # Errors
    /// `access` after the evaluation has read what another user with restricted rows has written.
    pub fn make_code(&self, made: Made<'_>) -> Result<(), QError> {
        let has_read_restricted = self.has_read_restricted.load(Ordering::Relaxed);
        let has_read = !self.is_lower() && self.has_read.load(Ordering::Relaxed);
        if !has_read && !has_read_restricted {
            return Ok(());
        }
        if matches!(made, Made::Value(value) if !holds_code(value, &mut { MAX_OWNED })) {
            return Ok(());
        }
        // Its own message is the caller's (`.z.pg:{value x}`), whatever the handler has read before.
        if has_read_restricted && self.message.get().is_some_and(|message| made.is(message)) {
            self.has_read_restricted.store(false, Ordering::Relaxed);
        } else if has_read_restricted {
            let why =
                "after reading what a user with restricted rows has written, nothing but the message is evaluated";
            return Err(QError::with("access", why));
        }
        if has_read {
            self.is_lowered.store(true, Ordering::Relaxed);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
