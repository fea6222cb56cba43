//! Decides for each message whether the process handles it itself, or the owner's `.z.pg` or `.z.ps` does, and applies `--allow`.

use super::globals::Globals;
use super::plant::functions::Row;
use super::users::Space;
use crate::access::{Grants, Role, needs_role};
use crate::q::{QError, Rules};
use crate::table::symbol;

/// The owner's rules for calls of `.u`.
pub struct Gate {
    /// Whether `.z.pg` and `.z.ps` are defined. Only start-up files can define them.
    has_sync_handler: bool,
    has_async_handler: bool,
    /// Whether `--allow` leaves `.u.upd` to every publisher.
    allows_updates: bool,
}

impl Gate {
    pub fn new(globals: &Globals, rules: &Rules) -> Gate {
        let has = |name: &[u8]| symbol::find(name).is_some_and(|name| globals.get(Space::SHARED, name).is_some());
        let allows_updates = is_allowed(rules, b".u.upd");
        Gate { has_sync_handler: has(b".z.pg"), has_async_handler: has(b".z.ps"), allows_updates }
    }

    /// Whether the owner's handler gets this message, as in kdb+. Messages between tickerplant and node are no q: no handler gets them.
    pub fn is_handled(&self, row: &Row, is_sync: bool) -> bool {
        !row.is_protocol() && self.has_handler(is_sync)
    }

    /// Whether the owner's handler gets every message of this kind.
    pub fn has_handler(&self, is_sync: bool) -> bool {
        if is_sync { self.has_sync_handler } else { self.has_async_handler }
    }

    /// Whether updates bypass all rules but the publisher's role.
    pub fn passes_updates(&self, is_sync: bool) -> bool {
        self.allows_updates && !self.has_handler(is_sync)
    }
}

fn is_allowed(rules: &Rules, name: &[u8]) -> bool {
    rules.allowed.as_ref().is_none_or(|allowed| symbol::find(name).is_some_and(|name| allowed.contains(&name)))
}

/// Checks a call of `.u` against `--allow`. A role that a users file grants by name is the finer rule, and enough.
///
/// # Errors
/// `access` for a function that the list lacks.
pub fn allowed(row: &Row, rules: &Rules, grants: Option<&Grants>) -> Result<(), QError> {
    let is_free = row.role.is_none() || grants.is_some_and(|grants| grants.by_name);
    if is_free || is_allowed(rules, row.name.as_bytes()) {
        return Ok(());
    }
    Err(QError::with("access", format!("{} is not allowed (--allow)", row.name)))
}

/// What kdb+'s `r.q` sends to subscribe, without white space: its subscriptions and the position in the log, of one moment.
const START_UP: [&[u8]; 2] = [b"(.u.sub[`;`];`.u`i`L)", b"(.u.sub[`;`];.u`i`L)"];

/// The tables and the position in the log, without white space: publishers and subscribers need them.
const KNOWN_TO_ALL: [&[u8]; 6] = [b".u.t", b".u.i", b".u.j", b".u.L", b".u`i`L", b".u`i`j`L"];

/// Checks that a caller may evaluate an expression. Publishers and subscribers may evaluate three kinds without the role query: the subscription
/// of a stock `r.q` (role subscribe), the position in the log, and `0#trade`, the columns of a table that they publish or subscribe to.
///
/// # Errors
/// `access` without the role.
pub fn may_query(text: Option<&[u8]>, grants: Option<&Grants>) -> Result<(), QError> {
    let has = |role| grants.is_some_and(|grants| grants.has(role));
    let is_one_of = |known: &[&[u8]]| text.is_some_and(|text| is_one_of(text, known));
    let is_client = has(Role::Publish) || has(Role::Subscribe);
    let has_columns = text.and_then(|text| text.strip_prefix(b"0#")).is_some_and(|table| {
        grants.is_some_and(|grants| is_name(table) && (grants.publishes(table) || grants.subscribe.of(table).is_some()))
    });
    if has(Role::Query)
        || (has(Role::Subscribe) && is_one_of(&START_UP))
        || (is_client && (is_one_of(&KNOWN_TO_ALL) || has_columns))
    {
        return Ok(());
    }
    Err(needs_role("a query", Role::Query))
}

fn is_one_of(text: &[u8], known: &[&[u8]]) -> bool {
    let bare = || text.iter().filter(|byte| !byte.is_ascii_whitespace());
    text.len() < 64 && known.iter().any(|known| bare().eq(known.iter()))
}

/// Whether this is one name, and no expression.
fn is_name(text: &[u8]) -> bool {
    !text.is_empty() && text.iter().all(|byte| byte.is_ascii_alphanumeric() || *byte == b'_')
}
