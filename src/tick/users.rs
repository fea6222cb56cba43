//! Whose globals an expression sees: where users have roles, each user's are the user's own.
//!
//! Callers who may do everything, as all may without users, share their globals as in kdb+. With roles, a function that one user defines must not
//! run with another's.

use crate::access::Grants;
use crate::net::{ConnId, Peer};
use std::collections::{HashMap, HashSet};

/// A set of globals.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Space(u64);

impl Space {
    /// Globals of the start-up files, and of callers who may do everything.
    pub const SHARED: Space = Space(0);
    /// Author of what an evaluation stores after it has read another user's values: nobody's own.
    pub const NOBODY: Space = Space(u64::MAX);

    pub fn is_shared(self) -> bool {
        self == Space::SHARED
    }
}

#[derive(Debug)]
struct User {
    space: Space,
    connections: HashSet<ConnId>,
}

/// The connected users.
#[derive(Debug, Default)]
pub struct Users {
    /// Spaces are numbered once: an evaluation that ends after its user has left finds no successor's.
    opened: u64,
    users: HashMap<Vec<u8>, User>,
    spaces: HashMap<ConnId, Space>,
}

impl Users {
    pub fn opened(&mut self, conn: ConnId, peer: &Peer) {
        let space = match *peer.grants == Grants::everything() {
            true => Space::SHARED,
            false => {
                let opened = &mut self.opened;
                let user = self.users.entry(peer.user.clone()).or_insert_with(|| {
                    *opened = opened.saturating_add(1);
                    User { space: Space(*opened), connections: HashSet::new() }
                });
                user.connections.insert(conn);
                user.space
            }
        };
        self.spaces.insert(conn, space);
    }

    /// Removes a connection. Returns the space of a user who has left with it.
    pub fn closed(&mut self, conn: ConnId) -> Option<Space> {
        let space = self.spaces.remove(&conn).filter(|space| !space.is_shared())?;
        let mut is_left = false;
        self.users.retain(|_, user| {
            let is_last = user.connections.remove(&conn) && user.connections.is_empty();
            is_left |= is_last;
            !is_last
        });
        is_left.then_some(space)
    }

    /// Returns the space of an open connection.
    pub fn of(&self, conn: ConnId) -> Option<Space> {
        self.spaces.get(&conn).copied()
    }

    /// Whether a connection of the space's user is open.
    pub fn is_open(&self, space: Space) -> bool {
        space.is_shared() || self.users.values().any(|user| user.space == space)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::Ipv4Addr;
    use std::sync::Arc;

    fn peer(user: &str, grants: Grants) -> Peer {
        let ip = Ipv4Addr::LOCALHOST.into();
        Peer {
            user: user.into(),
            ip,
            capability: 0,
            explains: false,
            local: false,
            tls: None,
            gone: crate::sys::interrupt::Cancel::default(),
            grants: Arc::new(grants),
        }
    }

    #[test]
    fn a_user_with_roles_has_a_space_until_the_last_connection_closes() {
        let mut users = Users::default();
        let conns = [1, 2, 3].map(|number| ConnId::new(number, number));
        users.opened(conns[0], &peer("ann", Grants::client()));
        users.opened(conns[1], &peer("ann", Grants::client()));
        users.opened(conns[2], &peer("bob", Grants::client()));
        let space = users.of(conns[0]).expect("open");
        assert_eq!(users.of(conns[1]), Some(space));
        assert_ne!(users.of(conns[2]), Some(space));
        assert_eq!(users.closed(conns[0]), None);
        assert!(users.is_open(space));
        assert_eq!(users.closed(conns[1]), Some(space));
        assert!(!users.is_open(space));
        users.opened(conns[0], &peer("ann", Grants::client()));
        assert_ne!(users.of(conns[0]), Some(space), "an evaluation that has not ended finds no successor");
    }

    #[test]
    fn callers_who_may_do_everything_share_their_globals() {
        let mut users = Users::default();
        let conns = [1, 2].map(|number| ConnId::new(number, number));
        users.opened(conns[0], &peer("ann", Grants::everything()));
        users.opened(conns[1], &peer("bob", Grants::everything()));
        assert_eq!(conns.map(|conn| users.of(conn)), [Some(Space::SHARED); 2]);
        assert_eq!(users.closed(conns[0]), None);
        assert!(users.is_open(Space::SHARED));
    }
}
