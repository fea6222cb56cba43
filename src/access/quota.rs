//! Limits of one user, from the users file. Pure.

use crate::config::units;
use serde::Deserialize;

/// What a user may use of a process at most. `None` leaves it to the process's own limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Quota {
    /// Connections at once.
    pub connections: Option<u64>,
    /// Queries that are evaluated or wait for a thread at once.
    pub queries: Option<u64>,
    /// Time and memory of one query; those of the process hold as well.
    pub query_time_ns: Option<u64>,
    pub query_memory_bytes: Option<u64>,
    /// Bytes of symbols that the user's queries add while the process lives.
    pub symbol_bytes: Option<u64>,
    /// Bytes that wait to be sent to all connections of the user.
    pub outbox_bytes: Option<u64>,
}

impl Quota {
    /// Combines the limits of two roles: of each kind the larger one that a role names.
    pub fn unite(&mut self, other: &Quota) {
        // `None` is less than every value.
        self.connections = self.connections.max(other.connections);
        self.queries = self.queries.max(other.queries);
        self.query_time_ns = self.query_time_ns.max(other.query_time_ns);
        self.query_memory_bytes = self.query_memory_bytes.max(other.query_memory_bytes);
        self.symbol_bytes = self.symbol_bytes.max(other.symbol_bytes);
        self.outbox_bytes = self.outbox_bytes.max(other.outbox_bytes);
    }
}

/// `[roles.NAME.limits]` of a users file.
#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct QuotaEntry {
    connections: Option<u64>,
    queries: Option<u64>,
    query_time: Option<String>,
    query_memory: Option<String>,
    symbols: Option<String>,
    outbox: Option<String>,
}

impl QuotaEntry {
    /// # Errors
    /// The limit that is none.
    pub(super) fn quota(self) -> Result<Quota, String> {
        let size = |name, text: Option<String>| value(name, text, units::bytes);
        Ok(Quota {
            connections: self.connections,
            queries: self.queries,
            query_time_ns: value("query-time", self.query_time, units::nanoseconds)?,
            query_memory_bytes: size("query-memory", self.query_memory)?,
            symbol_bytes: size("symbols", self.symbols)?,
            outbox_bytes: size("outbox", self.outbox)?,
        })
    }
}

fn value(name: &str, text: Option<String>, parse: impl Fn(&str) -> Result<u64, String>) -> Result<Option<u64>, String> {
    text.map(|text| parse(&text).map_err(|reason| format!("limits.{name}: {reason}"))).transpose()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_two_roles_the_larger_limit_holds_and_one_that_is_named() {
        let mut own = Quota { queries: Some(2), connections: Some(9), ..Quota::default() };
        own.unite(&Quota { queries: Some(5), connections: Some(3), outbox_bytes: Some(1), ..Quota::default() });
        let wanted = Quota { queries: Some(5), connections: Some(9), outbox_bytes: Some(1), ..Quota::default() };
        assert_eq!(own, wanted);
    }
}
