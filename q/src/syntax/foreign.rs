//! Functions that a client may have made, in values that code of the start-up files stores on its behalf.

use crate::runtime::guard;
use crate::syntax::lambda;
use columns::table::Value;
use columns::table::function::Function;

/// Whether a value contains a function other than a lambda of the start-up files.
pub fn holds_foreign_code(value: &Value) -> bool {
    let is_foreign = |function: &Function| match function {
        Function::Lambda(of) => !lambda::code(of).is_ok_and(|code| code.is_owners),
        _ => true,
    };
    guard::holds_function(value, &is_foreign)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runtime::author::OfOwner;
    use crate::session::Session;
    use crate::{Limits, eval_text};

    fn of(text: &str) -> bool {
        let value = eval_text(&mut Session::new(), text.as_bytes(), &Limits::default()).expect("a value");
        holds_foreign_code(&value)
    }

    #[test]
    fn only_lambdas_of_the_start_up_files_are_the_owners() {
        let values = ["{x}", "`f`n!({x};1)", "enlist{[t]t}"];
        for text in values.into_iter().chain(["value", "{x+y}[1;]", "(neg;1)"]) {
            assert!(of(text), "{text}");
        }
        let _of_owner = OfOwner::begin();
        for text in values.into_iter().chain(["1 2 3", "\"{x}\"", "`set`x"]) {
            assert!(!of(text), "{text}");
        }
        for text in ["value", "('[neg;{x}])", "{x}each"] {
            assert!(of(text), "{text}");
        }
    }
}
