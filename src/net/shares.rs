//! What the queries of each user use of a process: queries at once, and symbols.

use super::departed::is_abandoned;
use super::peer::Peer;
use crate::config::{Limit, Limits};
use crate::less;
use crate::metrics;
use crate::q::QError;
use crate::table::symbol::{Allotment, Budget};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// The shares of all users.
#[derive(Debug)]
pub struct Shares {
    users: Mutex<HashMap<Vec<u8>, User>>,
    queries: u64,
    symbol_bytes: u64,
}

#[derive(Debug, Default)]
struct User {
    queries: u64,
    /// Kept while the process lives, as symbols are.
    symbols: Arc<Allotment>,
}

/// One query's part of its user's share, free again when it is dropped.
#[derive(Debug)]
pub struct Share {
    of: Arc<Shares>,
    user: Vec<u8>,
    symbols: Arc<Allotment>,
    symbol_bytes: u64,
}

impl Shares {
    pub fn new(limits: &Limits) -> Arc<Shares> {
        let Limits { user_queries, user_symbol_bytes, .. } = *limits;
        Arc::new(Shares { users: Mutex::default(), queries: user_queries, symbol_bytes: user_symbol_bytes })
    }

    fn users(&self) -> MutexGuard<'_, HashMap<Vec<u8>, User>> {
        self.users.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins a query.
    ///
    /// # Errors
    /// `limit`: as many as allowed are in evaluation, or wait for it.
    pub fn take(self: &Arc<Shares>, peer: &Peer) -> Result<Share, QError> {
        let (quota, most) = (&peer.grants.quota, peer.grants.quota.queries.unwrap_or(self.queries));
        let mut users = self.users();
        let is_over = users.get(&peer.user).map_or(0, |user| user.queries) >= most;
        if is_over {
            metrics::refused(Limit::user_queries);
            let user = peer.user.escape_ascii();
            let why = format!(
                "user {user} has {most} queries in evaluation or waiting (--limit-user-queries, or queries of a role)"
            );
            return Err(QError::with("limit", why));
        }
        let user = users.entry(peer.user.clone()).or_default();
        user.queries = user.queries.saturating_add(1);
        Ok(Share {
            of: Arc::clone(self),
            user: peer.user.clone(),
            symbols: Arc::clone(&user.symbols),
            symbol_bytes: quota.symbol_bytes.unwrap_or(self.symbol_bytes),
        })
    }

    /// Most queries of one user at the moment.
    pub fn most_queries(&self) -> u64 {
        self.users().values().map(|user| user.queries).max().unwrap_or(0)
    }

    /// Most bytes of symbols that the queries of one user have added.
    pub fn most_symbol_bytes(&self) -> u64 {
        self.users().values().map(|user| user.symbols.bytes()).max().unwrap_or(0)
    }
}

impl Share {
    /// Returns the budget of symbols of an evaluation that may add so many.
    pub fn budget(&self, symbols: u64) -> Arc<Budget> {
        Budget::of_user(symbols, Arc::clone(&self.symbols), self.symbol_bytes)
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        let mut users = self.of.users();
        let Some(user) = users.get_mut(&self.user) else { return };
        user.queries = less!(user.queries, 1);
        // Users without symbols leave nothing behind.
        if user.queries == 0 && user.symbols.bytes() == 0 {
            users.remove(&self.user);
        }
    }
}

/// Returns time and memory of a peer's query: those of the process, or less if a role says so.
pub fn bounds_of(peer: Option<&Peer>, time: Duration, memory_bytes: u64) -> (Duration, u64) {
    let quota = peer.map(|peer| peer.grants.quota).unwrap_or_default();
    let own_time = quota.query_time_ns.map_or(time, Duration::from_nanos);
    (time.min(own_time), memory_bytes.min(quota.query_memory_bytes.unwrap_or(u64::MAX)))
}

/// Returns an error of a peer's query, with the user and the limit in its text if the limit is the user's.
pub fn explained(error: QError, peer: &Peer, time: Duration, memory_bytes: u64) -> QError {
    let user = peer.user.escape_ascii();
    let (own_time, own_memory) = bounds_of(Some(peer), time, memory_bytes);
    let text = match error.name.as_ref() {
        b"stop" if own_time < time && !is_abandoned(&error) => {
            format!("stop: a query of user {user} may take {own_time:?} (query-time of a role)")
        }
        b"wsfull" if own_memory < memory_bytes => {
            format!("wsfull: a query of user {user} may use {own_memory} bytes (query-memory of a role)")
        }
        b"limit" if error.detail.contains("--limit-user-symbols") => format!("limit: user {user}: {}", error.detail),
        _ => return error,
    };
    QError::signal(text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::access::{Grants, Quota};

    fn peer(user: &str, quota: Quota) -> Peer {
        let grants = Arc::new(Grants { quota, ..Grants::client() });
        Peer {
            user: user.into(),
            ip: [127, 0, 0, 1].into(),
            capability: 6,
            explains: false,
            local: true,
            grants,
            tls: None,
            gone: crate::sys::interrupt::Cancel::default(),
        }
    }

    #[test]
    fn each_user_has_queries_of_its_own() {
        let shares = Shares::new(&Limits { user_queries: 2, ..Limits::default() });
        let (ann, bob) = (peer("ann", Quota::default()), peer("bob", Quota { queries: Some(1), ..Quota::default() }));
        let held = (shares.take(&ann), shares.take(&ann), shares.take(&bob));
        assert!(held.0.is_ok() && held.1.is_ok() && held.2.is_ok());
        for (peer, text) in [(&ann, "user ann has 2 queries"), (&bob, "user bob has 1 queries")] {
            assert!(shares.take(peer).is_err_and(|error| error.to_string().contains(text)));
        }
        drop(held.0);
        assert!(shares.take(&ann).is_ok() && shares.take(&bob).is_err());
        drop((held.1, held.2));
        assert!(shares.users().is_empty());
    }

    #[test]
    fn a_role_may_lower_time_and_memory_and_not_raise_them() {
        let quota = Quota { query_time_ns: Some(5), query_memory_bytes: Some(500), ..Quota::default() };
        let ann = peer("ann", quota);
        assert_eq!(bounds_of(Some(&ann), Duration::from_nanos(9), 100), (Duration::from_nanos(5), 100));
        let stop = explained(QError::named("stop"), &ann, Duration::from_nanos(9), 100);
        assert_eq!(&*stop.name, b"stop: a query of user ann may take 5ns (query-time of a role)");
        assert_eq!(&*explained(QError::named("wsfull"), &ann, Duration::from_nanos(9), 100).name, b"wsfull");
    }
}
