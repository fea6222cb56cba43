//! The account of what runs on this thread, for what is handed no context: walks over nested values, and text that grows.
//!
//! A value that holds itself twice, sixty times over, is small and takes forever to walk. So every walk over nested values
//! calls [`step`] for each that it enters, and what it makes asks for [`room`] first. Nothing else has to know.

use super::{Allowance, Limits};
use crate::error::QError;
use columns::sys::{budget, stack};
use columns::table::{Sym, Value, value};
use std::cell::{Cell, RefCell};
use std::marker::PhantomData;

thread_local! {
    /// The accounts of the evaluations on this thread, the innermost last.
    static OPEN: RefCell<Vec<Allowance>> = const { RefCell::new(Vec::new()) };
    static STEPS: Cell<u32> = const { Cell::new(0) };
}

/// Steps between two looks at the account.
const STEPS_MASK: u32 = 0x3f;

/// While it lives, walks on this thread are on its account. The last that was opened is the first that is dropped.
#[derive(Debug)]
pub(crate) struct Watch {
    before: budget::Budget,
    /// It belongs to its thread.
    here: PhantomData<*const ()>,
}

impl Watch {
    pub fn open(allowance: &Allowance) -> Watch {
        OPEN.with_borrow_mut(|open| open.push(allowance.again()));
        let limits = allowance.limits();
        Watch { before: budget::begin(limits.deadline, limits.processor_time, limits.memory_bytes), here: PhantomData }
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        OPEN.with_borrow_mut(Vec::pop);
        budget::end(self.before);
    }
}

/// Asks the account of this thread; where there is none, nobody limits it.
fn ask(question: impl FnOnce(&Allowance) -> Result<(), QError>) -> Result<(), QError> {
    OPEN.with_borrow(|open| open.last().map_or(Ok(()), question))
}

/// A walk enters one more value.
///
/// # Errors
/// `stack` where it has gone too deep; `stop` and `wsfull` at the limits.
#[inline]
pub(crate) fn step() -> Result<(), QError> {
    if stack::is_deep() {
        return Err(QError::named("stack"));
    }
    pace()
}

/// As [`step`], of work that does not nest.
///
/// # Errors
/// `stop` and `wsfull` at the limits.
#[inline]
pub(crate) fn pace() -> Result<(), QError> {
    let steps = STEPS.get().wrapping_add(1);
    STEPS.set(steps);
    if steps & STEPS_MASK == 0 { check() } else { Ok(()) }
}

/// As [`pace`], at once.
///
/// # Errors
/// `stop` and `wsfull` at the limits.
pub(crate) fn check() -> Result<(), QError> {
    ask(Allowance::check)
}

/// Asks for as many bytes more.
///
/// # Errors
/// `wsfull` where they are too many.
pub(crate) fn room(bytes: usize) -> Result<(), QError> {
    ask(|allowance| allowance.reserve(bytes))
}

/// As [`room`], of so many items.
///
/// # Errors
/// As [`room`].
pub(crate) fn room_for<T>(items: usize) -> Result<(), QError> {
    room(items.saturating_mul(size_of::<T>()))
}

/// Room for so many values.
///
/// # Errors
/// As [`room`].
pub(crate) fn list(items: usize) -> Result<Vec<Value>, QError> {
    room_for::<Value>(items)?;
    Ok(Vec::with_capacity(items))
}

/// As [`Value::items`].
///
/// # Errors
/// As [`room`].
pub(crate) fn items(x: &Value) -> Result<Vec<Value>, QError> {
    room_for::<Value>(x.count())?;
    Ok(x.items())
}

/// All of them.
///
/// # Errors
/// As [`room`].
pub(crate) fn collected<T>(items: impl ExactSizeIterator<Item = T>) -> Result<Vec<T>, QError> {
    room_for::<T>(items.len())?;
    Ok(items.collect())
}

/// Where a name stands among those of columns.
///
/// # Errors
/// `stop` and `wsfull` at the limits, which a search among many names may meet.
pub(crate) fn place(names: &[Sym], name: Sym) -> Result<Option<usize>, QError> {
    let at = value::place(names, name);
    if at.is_none() {
        settle()?;
    }
    Ok(at)
}

/// Whether something was given up that could not answer with an error: then it is one now.
///
/// # Errors
/// `stop`, `wsfull`, `stack`.
pub(crate) fn settle() -> Result<(), QError> {
    match budget::take() {
        None => Ok(()),
        Some(budget::Over::Time) => Err(QError::with("stop", "time limit")),
        Some(budget::Over::Memory) => Err(QError::with("wsfull", "memory limit of a query")),
        Some(budget::Over::Depth) => Err(QError::named("stack")),
    }
}

impl Limits {
    /// Runs what comes before or after an evaluation (reading the message, sending or showing the answer) within the same
    /// bounds.
    pub fn within<R>(&self, work: impl FnOnce() -> R) -> R {
        let _watch = Watch::open(&Allowance::new(self, 1));
        work()
    }
}
