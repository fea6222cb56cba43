//! Author of the code that this thread parses: the process's owner while start-up files load, else the client that sent it.

use std::cell::Cell;

thread_local! {
    static IS_OWNER: Cell<bool> = const { Cell::new(false) };
}

/// Whether code that is parsed now is the owner's.
pub(crate) fn is_owner() -> bool {
    IS_OWNER.get()
}

/// Until it is dropped, code that this thread parses is the owner's.
pub(crate) struct OfOwner;

impl OfOwner {
    pub(crate) fn begin() -> OfOwner {
        IS_OWNER.set(true);
        OfOwner
    }
}

impl Drop for OfOwner {
    fn drop(&mut self) {
        IS_OWNER.set(false);
    }
}
