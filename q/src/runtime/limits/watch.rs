//! Limits of the evaluation that runs on this thread, for code without a [`crate::runtime::context::Context`]: walks over
//! nested values, and text that grows.
//!
//! A list that holds the same list twice, 60 levels deep, is small in memory but takes 2^60 steps to walk. So every walk
//! calls [`step`] for each nested value it enters, and asks [`room`] before it allocates.

use super::{Allowance, Limits};
use crate::runtime::error::QError;
use columns::sys::{budget, interrupt, snapshot, stack};
use columns::table::{Items, Sym, Value, Vector, symbol, value};
use std::cell::{Cell, RefCell};
use std::marker::PhantomData;
use std::sync::Arc;

thread_local! {
    /// Allowances of the evaluations on this thread, the innermost last.
    static OPEN: RefCell<Vec<Allowance>> = const { RefCell::new(Vec::new()) };
    static STEPS: Cell<u32> = const { Cell::new(0) };
}

/// Steps between two checks of the limits, less one (a bit mask).
const STEPS_MASK: u32 = 0x3f;

/// Guard: while it lives, walks on this thread count towards its evaluation. Guards are dropped in reverse order.
#[derive(Debug)]
pub(crate) struct Watch {
    before: budget::Budget,
    symbols_before: Option<Arc<symbol::Budget>>,
    cancel_before: Option<interrupt::Cancel>,
    _running: snapshot::Running,
    /// Makes the guard `!Send`: it belongs to its thread.
    here: PhantomData<*const ()>,
}

impl Watch {
    /// Makes `allowance` the innermost one of this thread until the guard is dropped.
    pub fn open(allowance: &Allowance) -> Watch {
        OPEN.with_borrow_mut(|open| open.push(allowance.again()));
        let limits = allowance.limits();
        Watch {
            before: budget::begin(limits.deadline, limits.processor_time, limits.memory_bytes),
            symbols_before: symbol::budget(limits.symbols.clone()),
            cancel_before: interrupt::begin(limits.cancel.clone()),
            _running: snapshot::Running::begin(),
            here: PhantomData,
        }
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        OPEN.with_borrow_mut(Vec::pop);
        budget::end(self.before);
        symbol::budget(self.symbols_before.take());
        interrupt::restore(self.cancel_before.take());
    }
}

/// Passes the innermost allowance of this thread to `question`; without one there is no limit.
fn ask(question: impl FnOnce(&Allowance) -> Result<(), QError>) -> Result<(), QError> {
    OPEN.with_borrow(|open| open.last().map_or(Ok(()), question))
}

/// Returns the innermost allowance of this thread, or one of the default limits.
pub(crate) fn innermost() -> Allowance {
    OPEN.with_borrow(|open| open.last().map(Allowance::again)).unwrap_or_else(|| Allowance::new(&Limits::default(), 1))
}

/// Called by a walk for each nested value that it enters.
///
/// # Errors
/// `stack` if the recursion is too deep; `stop` and `wsfull` at the limits.
#[inline]
pub(crate) fn step() -> Result<(), QError> {
    if stack::is_deep() {
        return Err(QError::named("stack"));
    }
    pace()
}

/// As [`step`], for loops that do not recurse.
///
/// # Errors
/// `stop` and `wsfull` at the limits.
#[inline]
pub(crate) fn pace() -> Result<(), QError> {
    let steps = STEPS.get().wrapping_add(1);
    STEPS.set(steps);
    if steps & STEPS_MASK != 0 {
        return Ok(());
    }
    budget::note(STEPS_MASK as usize + 1);
    check()
}

/// As [`pace`], but checks the limits now.
///
/// # Errors
/// `stop` and `wsfull` at the limits.
pub(crate) fn check() -> Result<(), QError> {
    ask(Allowance::check)
}

/// Checks that `bytes` more may be allocated.
///
/// # Errors
/// `wsfull` if they exceed the memory limit.
pub(crate) fn room(bytes: usize) -> Result<(), QError> {
    ask(|allowance| allowance.reserve(bytes))
}

/// As [`room`], for a number of items of a type.
///
/// # Errors
/// As [`room`].
pub(crate) fn room_for<T>(items: usize) -> Result<(), QError> {
    room(items.saturating_mul(size_of::<T>()))
}

/// Returns an empty list with capacity for `items` values.
///
/// # Errors
/// As [`room`].
pub(crate) fn list(items: usize) -> Result<Vec<Value>, QError> {
    room_for::<Value>(items)?;
    Ok(Vec::with_capacity(items))
}

/// As [`Value::items`], within the memory limit.
///
/// # Errors
/// As [`room`].
pub(crate) fn items(x: &Value) -> Result<Vec<Value>, QError> {
    room_for::<Value>(x.count())?;
    match x {
        Value::Vector(Vector { items: Items::List(_), .. }) => return Ok(x.items()),
        Value::Dict(d) => return items(&d.values),
        _ => {}
    }
    // An item of a table is a dictionary, which takes far more memory and time than a reference.
    let mut out = Vec::with_capacity(x.count());
    for i in 0..x.count() {
        pace()?;
        out.push(x.at(i));
    }
    Ok(out)
}

/// Collects the items within the memory limit.
///
/// # Errors
/// As [`room`].
pub(crate) fn collected<T>(items: impl ExactSizeIterator<Item = T>) -> Result<Vec<T>, QError> {
    room_for::<T>(items.len())?;
    Ok(items.collect())
}

/// Returns the position of a name among column names.
///
/// # Errors
/// `stop` and `wsfull`: a search among many names can reach a limit.
pub(crate) fn place(names: &[Sym], name: Sym) -> Result<Option<usize>, QError> {
    let at = value::place(names, name);
    if at.is_none() {
        settle()?;
    }
    Ok(at)
}

/// Turns a limit that was reached in code without an error path (`columns::sys::budget`) into an error.
///
/// # Errors
/// `stop`, `wsfull`, `stack`.
pub(crate) fn settle() -> Result<(), QError> {
    match budget::take() {
        None => Ok(()),
        Some(budget::Over::Time) => Err(QError::with("stop", "time limit")),
        Some(budget::Over::Memory) => Err(QError::with("wsfull", "memory limit of a query")),
        Some(budget::Over::Interrupt) => Err(QError::named("stop")),
        Some(budget::Over::Depth) => Err(QError::named("stack")),
    }
}

/// Returns a result, unless code that cannot return errors exceeded a limit: then that error, because the result follows from it.
///
/// # Errors
/// Those of [`settle`], and that of the result.
#[inline]
pub(crate) fn settled<T>(result: Result<T, QError>) -> Result<T, QError> {
    settle()?;
    result
}

impl Limits {
    /// Runs work before or after an evaluation (reading the message, sending or showing the result) within the same limits.
    pub fn within<R>(&self, work: impl FnOnce() -> R) -> R {
        let _watch = Watch::open(&Allowance::new(self, 1));
        work()
    }
}
