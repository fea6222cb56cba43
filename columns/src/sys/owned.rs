//! Memory of a shared slice that is a vector.

use std::any::Any;
use std::sync::Mutex;

/// A vector, with what was built over its items.
pub(super) struct Owned<T> {
    pub(super) items: Vec<T>,
    /// An index over the first items. Lives until they change other than by growing.
    pub(super) index: Mutex<Option<Box<dyn Any + Send + Sync>>>,
}

impl<T> From<Vec<T>> for Owned<T> {
    fn from(items: Vec<T>) -> Owned<T> {
        Owned { items, index: Mutex::default() }
    }
}
