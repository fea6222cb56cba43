//! Whose code is whose, in a process that its owner and remote callers share.
//!
//! Rights belong to who asks, and an event of the process's own (a timer, a login) asks with its owner's. So that none of them
//! runs what a remote caller has put in place of the owner's code, such a caller replaces no function that the owner has
//! defined; and an evaluation of the owner's that looks at a function of a caller's goes on with the caller's rights.

use super::error::QError;
use super::host::{Caller, Grants};
use columns::sys::stack;
use columns::table::{Items, Sym, Value, Vector, symbol};
use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, Ordering};

/// Names by whose code they hold.
#[derive(Clone, Debug, Default)]
pub struct Authors {
    owner: HashSet<Sym>,
    callers: HashSet<Sym>,
    /// Remote callers have given names values, maybe a symbol.
    has_callers: bool,
}

/// Namespaces that hold the language's own functions and the process's handlers.
const RESERVED: [&[u8]; 7] = [b".z", b".Q", b".h", b".j", b".q", b".p", b".m"];

/// Items of a nested value that are looked at. What is beyond counts as code with a remote caller's value.
const LOOKS_MOST: usize = 1 << 20;
/// Of a value of the owner's: long lists hold no function that anybody would replace.
const OWNED_MOST: usize = 256;

fn is_reserved(name: &[u8]) -> bool {
    RESERVED.iter().any(|space| name.strip_prefix(*space).is_some_and(|rest| rest.is_empty() || rest.starts_with(b".")))
}

impl Authors {
    /// Whether whoever asks may give this name a value, or take it away.
    ///
    /// # Errors
    /// `access`.
    pub fn check(&self, name: Sym, is_remote: bool) -> Result<(), QError> {
        if !is_remote {
            return Ok(());
        }
        let text = symbol::text(name);
        if is_reserved(text) {
            return Err(QError::with("access", "handlers and reserved namespaces are set by the process's owner"));
        }
        // A namespace as a whole would take what stands in it along.
        let within = |owned: &Sym| symbol::text(*owned).strip_prefix(text).is_some_and(|rest| rest.starts_with(b"."));
        if self.owner.contains(&name) || text == b"." || (text.starts_with(b".") && self.owner.iter().any(within)) {
            return Err(QError::with("access", "a function of the process's owner"));
        }
        Ok(())
    }

    /// A name has been given a value. What the owner keeps in long lists is no function that anybody would replace.
    pub fn note(&mut self, name: Sym, value: &Value, is_remote: bool) {
        self.has_callers |= is_remote;
        let mut looks = if is_remote { LOOKS_MOST } else { OWNED_MOST };
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

    /// Whether any value is a remote caller's.
    pub fn has_callers(&self) -> bool {
        self.has_callers
    }

    /// Whether a name holds code of a remote caller's.
    pub fn is_callers(&self, name: Sym) -> bool {
        !self.callers.is_empty() && self.callers.contains(&name)
    }
}

/// Whether a value is a function, or has one in it, as far as it is looked at.
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

/// Who asks, and who asks once code of a remote caller's is looked at.
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

    /// Whose rights count now.
    pub fn caller(&self) -> &Caller {
        if self.is_lowered.load(Ordering::Relaxed) { &self.lowered } else { &self.caller }
    }

    /// Another evaluation begins.
    pub fn raise(&self) {
        self.is_lowered.store(false, Ordering::Relaxed);
    }

    /// From now on a remote caller's do.
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
        let mut session = crate::session::Session::new();
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
        // Long lists and values that share what is in them are looked at as far as that goes.
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
    fn code_of_a_caller_lowers_the_rights_of_whoever_looks_at_it() {
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
