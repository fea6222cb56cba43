//! Ownership of code in a process that its owner and remote callers share.
//!
//! Rights belong to the caller, and internal events (a timer, a login) run with the owner's rights. To keep remote callers
//! from planting code that such an event runs, a remote caller cannot replace a function that the owner defined; and an
//! evaluation of the owner that reads a remote caller's function continues with the remote caller's rights.

use crate::runtime::error::QError;
use crate::runtime::host::{Caller, Grants};
use columns::sys::stack;
use columns::table::{Items, Sym, Value, Vector, symbol};
use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, Ordering};

/// Author of the code in each global that holds a function: the owner or a remote caller.
#[derive(Clone, Debug, Default)]
pub struct Authors {
    owner: HashSet<Sym>,
    callers: HashSet<Sym>,
    /// Whether any remote caller has assigned a global; even a plain symbol may name a function.
    has_callers: bool,
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
    pub fn note(&mut self, name: Sym, value: &Value, is_remote: bool) {
        self.has_callers |= is_remote;
        let mut looks = if is_remote { MAX_LOOKS } else { MAX_OWNED };
        let is_code = holds_code(value, &mut looks) && (is_remote || looks > 0);
        let (own, others) = match is_remote {
            true => (&mut self.callers, &mut self.owner),
            false => (&mut self.owner, &mut self.callers),
        };
        if !others.is_empty() {
            others.remove(&name);
        }
        if is_code {
            own.insert(name);
        } else if !own.is_empty() {
            own.remove(&name);
        }
    }

    /// Whether any remote caller has assigned a global.
    pub fn has_callers(&self) -> bool {
        self.has_callers
    }

    /// Whether a name holds code of a remote caller.
    pub fn is_callers(&self, name: Sym) -> bool {
        !self.callers.is_empty() && self.callers.contains(&name)
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

/// Caller of an evaluation, and its lowered rights once it has read a remote caller's code.
#[derive(Debug, Default)]
pub struct Asking {
    caller: Caller,
    lowered: Caller,
    is_lowered: AtomicBool,
}

impl Asking {
    /// `grants` are those of remote callers.
    pub fn new(caller: Caller, grants: Grants) -> Asking {
        let lowered = Caller { remote: true, grants, ..caller.clone() };
        Asking { caller, lowered, is_lowered: AtomicBool::new(false) }
    }

    /// The caller whose rights apply now.
    pub fn caller(&self) -> &Caller {
        if self.is_lowered.load(Ordering::Relaxed) { &self.lowered } else { &self.caller }
    }

    /// Restores full rights for a new evaluation.
    pub fn raise(&self) {
        self.is_lowered.store(false, Ordering::Relaxed);
    }

    /// Lowers the rights to those of a remote caller for the rest of the evaluation.
    pub fn lower(&self) {
        if !self.caller.remote {
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

    #[test]
    fn the_owners_functions_stay_the_owners() {
        let mut authors = Authors::default();
        authors.note(sym("f"), &function(), false);
        authors.note(sym("n"), &Value::Long(1), false);
        authors.note(sym(".a.b.f"), &Value::list(vec![Value::Long(1), function()]), false);
        for name in ["f", ".a.b.f", ".a.b", ".a", ".", ".z.pg", ".z", ".Q.s", ".h.hy"] {
            assert!(authors.check(sym(name), true).is_err(), "{name}");
            assert!(authors.check(sym(name), false).is_ok(), "{name}");
        }
        for name in ["n", "g", "ff", ".a.c", ".zz.pg", ".hh.x"] {
            assert!(authors.check(sym(name), true).is_ok(), "{name}");
        }
        // The search for functions ends at its limit for long lists and for values that share their parts.
        let doubled = (0..64).fold(Value::list(vec![function(); 300]), |v, _| Value::list(vec![v.clone(), v]));
        let texts = Value::list(vec![Value::chars(&b"ab"[..]); 1000]);
        authors.note(sym("texts"), &texts, false);
        assert!(authors.check(sym("texts"), true).is_ok());
        authors.note(sym("d"), &doubled, true);
        assert!(authors.is_callers(sym("d")));
        authors.note(sym("f"), &Value::Long(2), false);
        assert!(authors.check(sym("f"), true).is_ok());
    }

    #[test]
    fn reading_a_callers_code_lowers_the_readers_rights() {
        let mut authors = Authors::default();
        authors.note(sym("g"), &function(), true);
        authors.note(sym("n"), &Value::Long(1), true);
        assert!(authors.is_callers(sym("g")) && !authors.is_callers(sym("n")));
        authors.note(sym("g"), &function(), false);
        assert!(!authors.is_callers(sym("g")));
        let asking = Asking::new(Caller::default(), Grants { files: true, ..Grants::default() });
        assert!(!asking.caller().remote);
        asking.lower();
        assert!(asking.caller().remote && asking.caller().grants.files);
    }
}
