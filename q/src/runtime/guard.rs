//! Rights of code in a process that its owner and remote callers share.
//!
//! Rights belong to the caller, and internal events (a timer, a login) run with the owner's rights. To keep remote callers
//! from planting code that such an event runs:
//!
//! 1. A remote caller cannot replace a function that the owner defined.
//! 2. A global that a remote caller assigned or changed is the caller's value, and so is whatever an evaluation assigns after
//!    it has read one.
//! 3. An evaluation of the owner that reads a caller's value with a function in it continues with a remote caller's rights.
//! 4. An evaluation of the owner that has read a caller's value continues with a remote caller's rights once it turns data
//!    into code: it evaluates text or a parse tree, or gets a function from a symbol or from bytes.
//!
//! Rights are never raised again within an evaluation.

use crate::runtime::error::QError;
use crate::runtime::host::{Caller, Grants};
use columns::sys::stack;
use columns::table::{Items, Sym, Value, Vector, symbol};
use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// Names that the owner or remote callers have assigned.
#[derive(Clone, Debug, Default)]
pub struct Authors {
    /// Names that hold functions of the owner.
    owner: HashSet<Sym>,
    /// Names that hold remote callers' values, with the user if only one has written them.
    callers: HashMap<Sym, Option<Arc<[u8]>>>,
    /// Names that the owner's events have assigned since the start.
    later: HashSet<Sym>,
    has_started: bool,
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
        let mut looks = MAX_OWNED;
        if asking.caller().remote {
            self.owner.remove(&name);
        } else if holds_code(value, &mut looks) && looks > 0 {
            self.owner.insert(name);
        } else {
            self.owner.remove(&name);
        }
        self.later.remove(&name);
        if !asking.is_owners() {
            self.callers.insert(name, asking.user());
            return;
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
            Some(writer) => writer.as_deref() == Some(user),
            None => !self.later.contains(&name),
        }
    }

    /// Records a change of part of a value: the rest keeps its author.
    pub fn note_change(&mut self, name: Sym, asking: &Asking) {
        if asking.is_owners() {
            if self.has_started {
                self.later.insert(name);
            }
            return;
        }
        let user = asking.user();
        match self.callers.get_mut(&name) {
            Some(writer) if *writer != user => *writer = None,
            Some(_) => {}
            None => drop(self.callers.insert(name, user)),
        }
    }

    /// Takes the author of a name from another version of the globals.
    pub fn take(&mut self, name: Sym, other: &Authors) {
        for (own, others) in [(&mut self.owner, &other.owner), (&mut self.later, &other.later)] {
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
        if !self.callers.is_empty() && self.callers.contains_key(&name) {
            asking.read(name, value);
        }
    }

    /// Called when an evaluation lists names, which remote callers may have chosen.
    pub fn list(&self, asking: &Asking) {
        if !self.callers.is_empty() {
            asking.serve_caller();
        }
    }
}

/// Whether a value is or contains a function, within `looks` items; true if there are more.
fn holds_code(value: &Value, looks: &mut usize) -> bool {
    let Some(left) = looks.checked_sub(1) else { return true };
    *looks = left;
    if stack::is_deep() {
        return true;
    }
    match value {
        Value::Func(_) => true,
        Value::Vector(Vector { items: Items::List(items), .. }) => items.iter().any(|item| holds_code(item, looks)),
        Value::Dict(d) => holds_code(&d.keys, looks) || holds_code(&d.values, looks),
        Value::Table(t) => t.columns.iter().any(|column| match &column.items {
            Items::List(items) => items.iter().any(|item| holds_code(item, looks)),
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
    /// A remote caller's value has been read.
    has_read: AtomicBool,
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

    /// The caller whose rights apply now.
    pub fn caller(&self) -> &Caller {
        if self.is_lowered.load(Ordering::Relaxed) { &self.lowered } else { &self.caller }
    }

    /// Restores full rights for a new evaluation.
    pub fn raise(&self) {
        self.is_lowered.store(false, Ordering::Relaxed);
        self.has_read.store(false, Ordering::Relaxed);
        self.searched.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }

    /// Marks the evaluation as one that has read a remote caller's value, as an argument of a handler is.
    pub fn serve_caller(&self) {
        self.has_read.store(true, Ordering::Relaxed);
    }

    /// Whether what the evaluation assigns is the owner's.
    fn is_owners(&self) -> bool {
        !self.caller().remote && !self.has_read.load(Ordering::Relaxed)
    }

    /// The remote caller's user; `None` for an event of the process.
    fn user(&self) -> Option<Arc<[u8]>> {
        self.caller.remote.then(|| Arc::from(&self.caller.user[..]))
    }

    fn is_lower(&self) -> bool {
        self.caller().remote
    }

    /// Called when the evaluation reads a remote caller's value.
    fn read(&self, name: Sym, value: Option<&Value>) {
        if self.is_lower() {
            return;
        }
        self.serve_caller();
        let Some(value) = value else { return };
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

    /// Called when data becomes code: this value, if a function is in it; `None`: text or a parse tree.
    pub fn make_code(&self, value: Option<&Value>) {
        let is_code = || value.is_none_or(|value| holds_code(value, &mut { MAX_OWNED }));
        if !self.is_lower() && self.has_read.load(Ordering::Relaxed) && is_code() {
            self.is_lowered.store(true, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sym(text: &str) -> Sym {
        symbol::intern(text.as_bytes()).expect("room")
    }

    fn function() -> Value {
        let mut session = crate::process::session::Session::new();
        crate::eval_text(&mut session, b"{x}", &crate::Limits::default()).expect("a function")
    }

    fn owner() -> Asking {
        Asking::new(Caller::default(), Grants { files: true, ..Grants::default() })
    }

    fn client() -> Asking {
        Asking::new(Caller { remote: true, ..Caller::default() }, Grants::default())
    }

    #[test]
    fn the_owners_functions_stay_the_owners() {
        let mut authors = Authors::default();
        authors.note(sym("f"), &function(), &owner());
        authors.note(sym("n"), &Value::Long(1), &owner());
        authors.note(sym(".a.b.f"), &Value::list(vec![Value::Long(1), function()]), &owner());
        for name in ["f", ".a.b.f", ".a.b", ".a", ".", ".z.pg", ".z", ".Q.s", ".h.hy"] {
            assert!(authors.check(sym(name), true).is_err(), "{name}");
            assert!(authors.check(sym(name), false).is_ok(), "{name}");
        }
        for name in ["n", "g", "ff", ".a.c", ".zz.pg", ".hh.x"] {
            assert!(authors.check(sym(name), true).is_ok(), "{name}");
        }
        let texts = Value::list(vec![Value::chars(&b"ab"[..]); 1000]);
        authors.note(sym("texts"), &texts, &owner());
        assert!(authors.check(sym("texts"), true).is_ok());
        authors.note(sym("f"), &Value::Long(2), &owner());
        assert!(authors.check(sym("f"), true).is_ok());
    }

    /// Whether an evaluation of the owner that reads this value of a client has lost the owner's rights.
    fn lowers(value: &Value) -> bool {
        let (mut authors, asking) = (Authors::default(), owner());
        authors.note(sym("g"), value, &client());
        authors.read(sym("g"), Some(value), &asking);
        asking.caller().remote
    }

    #[test]
    fn reading_a_callers_function_lowers_the_readers_rights() {
        assert!(lowers(&function()) && lowers(&Value::list(vec![Value::Long(1), function()])));
        assert!(!lowers(&Value::Long(1)) && !lowers(&Value::chars(&b"text"[..])));
        // The search ends at its limit for values that share their parts.
        let doubled = (0..64).fold(Value::list(vec![Value::Long(1); 300]), |v, _| Value::list(vec![v.clone(), v]));
        assert!(lowers(&doubled));
    }

    #[test]
    fn a_callers_text_lowers_the_rights_once_it_is_code() {
        let (mut authors, asking) = (Authors::default(), owner());
        let text = Value::chars(&b"text"[..]);
        authors.note(sym("job"), &text, &client());
        asking.make_code(None);
        assert!(!asking.caller().remote, "nothing of a client has been read");
        authors.read(sym("job"), Some(&text), &asking);
        asking.make_code(Some(&text));
        assert!(!asking.caller().remote, "text is no function");
        asking.make_code(None);
        assert!(asking.caller().remote && asking.caller().grants.files);
        asking.raise();
        asking.make_code(None);
        assert!(!asking.caller().remote, "another evaluation");
    }

    #[test]
    fn what_an_evaluation_assigns_after_reading_a_callers_value_is_the_callers() {
        let (mut authors, asking) = (Authors::default(), owner());
        authors.note(sym("job"), &Value::Long(1), &client());
        authors.read(sym("job"), None, &asking);
        authors.note(sym("copy"), &Value::Long(1), &asking);
        let next = owner();
        authors.read(sym("copy"), None, &next);
        next.make_code(None);
        assert!(next.caller().remote);
        // A later assignment that has read nothing of clients makes it the owner's again.
        authors.note(sym("copy"), &Value::Long(1), &owner());
        let last = owner();
        authors.read(sym("copy"), None, &last);
        last.make_code(None);
        assert!(!last.caller().remote);
    }
}
