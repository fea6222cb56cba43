//! The call stack of an evaluation as another process sees it: `.Q.prf0`, `-37!`.

use crate::io::wire;
use crate::runtime::context::Context;
use crate::runtime::error::{Place, QError};
use crate::runtime::values::{Result, type_error};
use crate::syntax::prims;
use crate::verbs::trace;
use columns::sys::snapshot;
use columns::table::{Items, Table, Value, Vector, symbol};

const NAMES: [&str; 6] = ["name", "file", "line", "col", "text", "pos"];

/// Longest text of a level; longer ones are cut.
const MAX_TEXT_BYTES: usize = 64 << 10;

/// Answers a request for the call stack, if there is one.
#[inline]
pub(crate) fn offer(context: &Context) {
    if snapshot::is_wanted() {
        answer(context, Vec::new(), context.at);
    }
}

/// Answers with the levels of `inner`, which the context does not know, above its own; `at` is the position in the innermost of those.
#[cold]
pub(crate) fn answer(context: &Context, inner: Vec<Place>, at: u32) {
    snapshot::answer(|| {
        let mut places = inner;
        for place in &mut places {
            place.origin = symbol::find(&place.name).and_then(|name| context.host.origin(name));
        }
        places.extend(trace::levels(context, at));
        places.truncate(QError::MAX_TRACE);
        places.reverse();
        wire::message(&table(&places)).unwrap_or_default()
    });
}

/// One row for each level, the innermost last. A function `f` of the root is named `..f`.
fn table(places: &[Place]) -> Value {
    let text = |text: &[u8]| Value::chars(text.get(..MAX_TEXT_BYTES).unwrap_or(text));
    let column = |cell: &dyn Fn(&Place) -> Value| Items::List(places.iter().map(cell).collect()).into();
    let longs = |cell: &dyn Fn(&Place) -> i64| Items::Long(places.iter().map(cell).collect::<Vec<_>>().into()).into();
    let names = NAMES.map(prims::name).to_vec();
    let columns = vec![
        column(&|place| match place.name.first() {
            None | Some(b'.') => text(&place.name),
            Some(_) => text(&[b"..", &place.name[..]].concat()),
        }),
        column(&|place| text(place.origin.as_ref().map_or(&[], |origin| &origin.file))),
        longs(&|place| place.origin.as_ref().map_or(-1, |origin| origin.line.into())),
        longs(&|place| place.origin.as_ref().map_or(-1, |origin| origin.column.into())),
        column(&|place| text(&place.text)),
        longs(&|place| if place.at == Place::NOWHERE { -1 } else { place.at.into() }),
    ];
    Value::table(Table::new(names, columns))
}

/// `-37!pid`, `.Q.prf0 pid`: returns the call stack of another elastick process of the same user, one row for each level, the innermost last; no rows if it
/// evaluates nothing.
///
/// # Errors
/// `access` for a client without the right to run system commands; `domain` for this process; those of [`crate::Host::stack_of`].
pub(crate) fn of_process(context: &mut Context, pid: &Value) -> Result {
    let (Value::Int(_) | Value::Long(_), Some(number)) = (pid, pid.as_long()) else { return Err(type_error()) };
    let caller = context.host.caller();
    if !caller.may_use_system() {
        return Err(QError::with(
            "access",
            "reading the call stack of a process needs the right to run system commands",
        ));
    }
    let own = i64::from(std::process::id());
    let number = u32::try_from(number).ok().filter(|number| *number > 0 && i64::from(*number) != own);
    let number = number.ok_or_else(|| QError::with("domain", "the number of another process"))?;
    // Two processes that ask one another both get an answer.
    let waiting: &Context = context;
    let pace = || {
        offer(waiting);
        waiting.check()
    };
    let stack = waiting.host.stack_of(number, &pace)?;
    if stack.is_empty() {
        return Ok(table(&[]));
    }
    let stack = wire::from_message(&stack).ok().filter(is_stack);
    stack.ok_or_else(|| QError::with("binary mismatch", format!("process {number} answers with something else")))
}

/// Whether a value has the columns and types of [`table`].
fn is_stack(value: &Value) -> bool {
    let Value::Table(t) = value else { return false };
    let is_text = |cell: &Value| cell.as_text().is_some();
    let fits = |(at, column): (usize, &Vector)| match (at, &column.items) {
        (0 | 1 | 4, Items::List(cells)) => cells.iter().all(is_text),
        (2 | 3 | 5, Items::Long(_)) => true,
        _ => false,
    };
    t.names == NAMES.map(prims::name) && t.columns.iter().enumerate().all(fits)
}
