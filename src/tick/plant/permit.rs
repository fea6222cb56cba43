//! What a caller may do: checked once, before a function runs.
//!
//! `Plant::permit` checks the caller's role. Functions with further conditions (tables, symbols, a queue, a handle) read their arguments first, and
//! then check them with the other functions of this module.

use super::Plant;
use super::functions::Row;
use crate::access::{Grants, Names, Role, needs_role};
use crate::net::{ConnId, Links};
use crate::q::QError;
use crate::tick::core::Reason;
use crate::tick::subscriptions::RequestedSymbols;
use std::sync::Arc;

/// Stands for the connection of a call that `.z.ts` of a start-up file makes. No client's connection has this id.
pub const OWNER: ConnId = ConnId::new(u32::MAX, 0);

impl Plant {
    /// Returns what a connection may do; nothing if it has closed meanwhile.
    pub(super) fn grants(conn: ConnId, ctl: &dyn Links) -> Arc<Grants> {
        match ctl.peer(conn) {
            _ if conn == OWNER => Arc::new(Grants::everything()),
            Some(peer) => Arc::clone(&peer.grants),
            None => Arc::default(),
        }
    }

    /// Checks that a caller may call a function at all.
    ///
    /// # Errors
    /// `access` without the function's role; `noupdate` for a function that changes data, under `-b`.
    pub(super) fn permit(&self, row: &Row, conn: ConnId, ctl: &dyn Links) -> Result<(), QError> {
        if conn == OWNER {
            return Ok(());
        }
        let grants = ctl.peer(conn).map(|peer| &peer.grants);
        if let Some(role) = row.role
            && !grants.is_some_and(|grants| grants.has(role))
        {
            return Err(needs_role(row.name, role));
        }
        if self.block_writes && row.writes() && !grants.is_some_and(|grants| grants.by_name) {
            return Err(QError::with("noupdate", format!("{} changes data, which clients may not do (-b)", row.name)));
        }
        Ok(())
    }

    /// Logs why a sync call or query was rejected with `access`, since most clients show the name only: the 1st, 2nd, 4th, 8th and so on, as a
    /// client can cause any number.
    pub(in crate::tick) fn note_denied(&mut self, error: &QError, conn: ConnId, ctl: &dyn Links) {
        if *error.name != *b"access" {
            return;
        }
        self.stats.denied = self.stats.denied.wrapping_add(1);
        if self.stats.denied.is_power_of_two() {
            let from = self.label(conn, ctl);
            tracing::warn!(%from, %error, rejected = self.stats.denied, "call rejected");
        }
    }

    /// Returns why a connection may not publish a table, if so.
    pub(super) fn publish_refused(&self, conn: ConnId, table: &[u8], ctl: &dyn Links) -> Option<Reason> {
        match ctl.peer(conn) {
            _ if conn == OWNER => None,
            Some(peer) if peer.grants.publishes(table) => {
                (self.block_writes && !peer.grants.by_name).then_some(Reason::Blocked)
            }
            _ => Some(Reason::NoRole),
        }
    }
}

/// Checks that a call concerns the caller's own connection, unless an operator makes it.
///
/// # Errors
/// `access` for the handle of another connection.
pub(super) fn own_handle(function: &str, handle: i32, conn: ConnId, ctl: &dyn Links) -> Result<(), QError> {
    if handle == conn.handle() || Plant::grants(conn, ctl).operator {
        return Ok(());
    }
    let reason = format!("{function} of another's handle ({handle}) needs the role {}", Role::Operator.name());
    Err(QError::with("access", reason))
}

/// Restricts requested symbols of a table to those that a caller may have. `None` without any permission for the table.
///
/// # Errors
/// `access` for a symbol that is requested by name and not permitted.
pub(super) fn permitted_symbols(
    grants: &Grants,
    table: &[u8],
    requested: &RequestedSymbols,
) -> Result<Option<RequestedSymbols>, QError> {
    let permitted = match grants.subscribe.of(table) {
        None => return Ok(None),
        Some(Names::All) => return Ok(Some(requested.clone())),
        Some(Names::Only(permitted)) => permitted,
    };
    match requested {
        RequestedSymbols::All => Ok(Some(RequestedSymbols::List(permitted.into_iter().collect()))),
        RequestedSymbols::List(symbols) => match symbols.iter().find(|symbol| !permitted.contains(*symbol)) {
            None => Ok(Some(requested.clone())),
            Some(symbol) => {
                let (symbol, table) = (symbol.escape_ascii(), table.escape_ascii());
                Err(QError::with("access", format!("you may not subscribe to the symbol {symbol} of {table}")))
            }
        },
    }
}

/// Error of a caller that may not subscribe to a table.
pub(super) fn no_subscription(table: &[u8]) -> QError {
    QError::with("access", format!("you may not subscribe to {}", table.escape_ascii()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::access::PerTable;

    fn list(symbols: &[&str]) -> RequestedSymbols {
        RequestedSymbols::List(symbols.iter().map(|symbol| symbol.as_bytes().to_vec()).collect())
    }

    fn desk() -> Grants {
        let mut subscribe = PerTable::default();
        subscribe.add(b"trade".to_vec(), Names::Only([b"AAPL".to_vec(), b"MSFT".to_vec()].into()));
        subscribe.add(b"quote".to_vec(), Names::All);
        Grants { subscribe, ..Grants::default() }
    }

    #[test]
    fn all_symbols_are_those_that_the_user_may_have() {
        let of = |table: &str, requested| permitted_symbols(&desk(), table.as_bytes(), &requested).unwrap();
        assert_eq!(of("trade", RequestedSymbols::All), Some(list(&["AAPL", "MSFT"])));
        assert_eq!(of("trade", list(&["MSFT"])), Some(list(&["MSFT"])));
        assert_eq!(of("quote", RequestedSymbols::All), Some(RequestedSymbols::All));
        assert_eq!(of("orders", RequestedSymbols::All), None);
    }

    #[test]
    fn a_symbol_that_is_not_permitted_is_named() {
        let refused = permitted_symbols(&desk(), b"trade", &list(&["AAPL", "IBM"])).unwrap_err();
        assert_eq!((&*refused.name, refused.to_string().contains("IBM")), (&b"access"[..], true));
    }
}
