//! Library functions written in q: `.h`, parts of `.Q` and `.j`. Each is evaluated on first use, in a session of its own, and
//! shared by all sessions.

pub(crate) mod definitions;

use crate::process::entry::eval_text;
use crate::process::session::Session;
use crate::runtime::context::Context;
use crate::runtime::error::QError;
use crate::runtime::limits::Limits;
use columns::table::symbol::text;
use columns::table::{Sym, Value};
use definitions::PRELUDE;

/// Returns the value of a library name; `None` for other names.
pub(crate) fn value(context: &Context, name: Sym) -> Result<Option<Value>, QError> {
    let Some(entry) = PRELUDE.entries.get(text(name)) else { return Ok(None) };
    if let Some(known) = entry.value.get() {
        return Ok(Some(known.clone()));
    }
    context.check()?;
    let digits = crate::runtime::settings::precision();
    let value = eval_text(&mut Session::new(), &entry.expression, &Limits::default());
    crate::runtime::settings::set_precision(digits);
    let value = value?;
    Ok(Some(entry.value.get_or_init(|| value).clone()))
}
