//! How a lease is written as an item of a table.

use super::item::Item;
use super::request::Request;
use crate::lease::{LeaseRecord, LeaseWrite};

/// Attributes and conditions of one kind of record, for one process.
pub trait Layout: Send {
    /// Key of the item.
    fn key(&self) -> Item;

    /// Names of the key's attributes, in words.
    fn key_names(&self) -> String;

    /// The key, for messages.
    fn key_text(&self) -> &str;

    /// Reads an item.
    ///
    /// # Errors
    /// Why it is not one of a lease.
    fn record(&self, item: &Item) -> Result<LeaseRecord, String>;

    fn request(&self, write: &LeaseWrite) -> Request;

    /// Whether the item that an update returns has what it was to set. A program between this host and the table that answers every request with
    /// success returns none.
    fn is_applied(&self, write: &LeaseWrite, now: &Item) -> bool;
}
