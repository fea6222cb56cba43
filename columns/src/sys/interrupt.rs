//! Requests to stop an evaluation: Ctrl-C, which stops what a console evaluates, and a [`Cancel`] for one evaluation.

use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

static ASKED: AtomicBool = AtomicBool::new(false);

thread_local! {
    /// Cancellation flag of the evaluation that runs on this thread.
    static OWN: RefCell<Option<Cancel>> = const { RefCell::new(None) };
}

/// Flag with which another thread stops evaluations. Clones share it; once set it stays set.
#[derive(Clone, Debug, Default)]
pub struct Cancel(Arc<AtomicBool>);

impl Cancel {
    /// Stops the evaluations that have this flag. Returns whether it was set already.
    pub fn set(&self) -> bool {
        self.0.swap(true, Ordering::Relaxed)
    }

    pub fn is_set(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// Flags are equal if setting one sets the other.
impl PartialEq for Cancel {
    fn eq(&self, other: &Cancel) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for Cancel {}

/// Requests that the console's evaluation stops. Returns whether that was already requested.
pub fn ask() -> bool {
    ASKED.swap(true, Ordering::Relaxed)
}

/// Clears the request of [`ask`], when an evaluation begins.
pub fn forget() {
    ASKED.store(false, Ordering::Relaxed);
}

/// Whether the evaluation on this thread is to stop.
pub fn is_asked() -> bool {
    ASKED.load(Ordering::Relaxed) || OWN.with_borrow(|own| own.as_ref().is_some_and(Cancel::is_set))
}

/// Sets the flag of the evaluation that begins on this thread. One without a flag keeps that of the evaluation around it. Returns the previous
/// one, to be restored by [`restore`].
pub fn begin(cancel: Option<Cancel>) -> Option<Cancel> {
    OWN.with_borrow_mut(|own| match cancel {
        None => own.clone(),
        Some(cancel) => own.replace(cancel),
    })
}

/// Restores the flag that [`begin`] returned.
pub fn restore(before: Option<Cancel>) {
    OWN.set(before);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_evaluation_within_another_is_stopped_with_it() {
        let (outer, other) = (Cancel::default(), Cancel::default());
        let before = begin(Some(outer.clone()));
        let inner = begin(None);
        assert!(!is_asked());
        outer.set();
        assert!(is_asked());
        restore(inner);
        let of_its_own = begin(Some(other));
        assert!(!is_asked());
        restore(of_its_own);
        assert!(is_asked());
        restore(before);
        assert!(!is_asked());
    }
}
