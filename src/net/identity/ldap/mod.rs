//! Logins by LDAP: the directory checks the password, and says in which groups the user is.

mod ber;
mod connection;
mod message;

use super::{Bounds, Decision, Job};
use crate::access::ldap::{Ldap, Search};
use crate::access::{BindLogin, ExternalError, Identity};
use crate::metrics::{self, Id};
use connection::{Bound, Connection};
use std::collections::BTreeSet;
use std::time::Instant;

pub(super) type Login<T> = Job<T, BindLogin>;

/// Groups of one user that are requested: more would not fit the limit of an answer.
const MAX_GROUPS: u32 = 10_000;

/// An attribute that no entry has: a search whose entries' names are all that is wanted (RFC 4511, 4.5.1.8).
const NO_ATTRIBUTE: &str = "1.1";

/// Why a login goes no further.
enum Ended {
    Wrong,
    /// For the log only.
    Failed(String),
}

impl From<String> for Ended {
    fn from(reason: String) -> Ended {
        Ended::Failed(reason)
    }
}

/// Decides a login; the servers are tried in turn until one answers.
pub(super) fn decide(login: &BindLogin, bounds: Bounds) -> Decision {
    let ldap = &*login.ldap;
    let mut left = u32::try_from(ldap.servers.len()).unwrap_or(u32::MAX);
    let by = bounds.deadline();
    for server in &ldap.servers {
        // A silent server leaves time for the others.
        let now = Instant::now();
        let share = by.saturating_duration_since(now).checked_div(left).unwrap_or_default();
        let until = now.checked_add(share).unwrap_or(by);
        left = left.saturating_sub(1);
        let asked = Connection::open(server, ldap, bounds, until).map_err(Ended::Failed);
        match asked.and_then(|connection| ask(connection, login)) {
            Ok(values) => {
                return Ok(Identity { by: ldap.name(), user: login.user.clone().into_bytes(), values, until: None });
            }
            Err(Ended::Wrong) => return Err(ExternalError::Wrong("wrong user or password (LDAP)")),
            Err(Ended::Failed(reason)) => {
                metrics::count(Id::IdentityFailures);
                tracing::error!(server = server.host, port = server.port, reason, "the LDAP server decided no login");
            }
        }
    }
    Err(ExternalError::Unavailable("no LDAP server could decide; see the log"))
}

/// Returns the user's groups, if the password is right.
fn ask(mut connection: Connection, login: &BindLogin) -> Result<BTreeSet<String>, Ended> {
    let (ldap, user) = (&*login.ldap, login.user.as_str());
    // An empty one would be right for everybody.
    if login.password.is_empty() {
        return Err(Ended::Wrong);
    }
    let dn = match ldap.bind_name(user) {
        Some(name) => {
            bind_user(&mut connection, &name, login)?;
            match &ldap.user {
                Some(search) => find(&mut connection, search, user)?,
                None => name,
            }
        }
        None => {
            let search = ldap.user.as_ref().ok_or_else(|| "no search for users is configured".to_string())?;
            bind_service(&mut connection, ldap)?;
            let dn = find(&mut connection, search, user)?;
            bind_user(&mut connection, &dn, login)?;
            dn
        }
    };
    let Some(groups) = &ldap.groups else {
        connection.end();
        return Ok(BTreeSet::new());
    };
    // Users often may not read the groups.
    if ldap.service.is_some() {
        bind_service(&mut connection, ldap)?;
    }
    let values = groups_of(&mut connection, ldap, groups, user, &dn)?;
    connection.end();
    Ok(values)
}

fn bind_user(connection: &mut Connection, dn: &str, login: &BindLogin) -> Result<(), Ended> {
    match connection.bind(dn, &login.password)? {
        Bound::Yes => Ok(()),
        Bound::No(outcome) => {
            tracing::info!(
                user = login.user,
                code = outcome.code,
                reason = outcome.text,
                "the LDAP server rejects a bind"
            );
            Err(Ended::Wrong)
        }
    }
}

fn bind_service(connection: &mut Connection, ldap: &Ldap) -> Result<(), Ended> {
    let Some(service) = &ldap.service else { return Err(Ended::Failed("no service account".to_string())) };
    match connection.bind(&service.dn, &service.password)? {
        Bound::Yes => Ok(()),
        Bound::No(outcome) => Err(Ended::Failed(format!(
            "the service account {:?} is rejected: {} {}",
            service.dn, outcome.code, outcome.text
        ))),
    }
}

/// Returns the name of the user's only entry.
fn find(connection: &mut Connection, search: &Search, user: &str) -> Result<String, Ended> {
    let filter = message::filter(&search.filter, user, "");
    let found = connection.search(&search.base, &filter, NO_ATTRIBUTE, 2)?;
    let mut entries = found.unwrap_or_default().into_iter();
    match (entries.next(), entries.next()) {
        // A bind without a name is anonymous: it needs no password.
        (Some(entry), None) if !entry.dn.is_empty() => Ok(entry.dn),
        // Also where several have the name.
        _ => Err(Ended::Wrong),
    }
}

fn groups_of(
    connection: &mut Connection,
    ldap: &Ldap,
    search: &Search,
    user: &str,
    dn: &str,
) -> Result<BTreeSet<String>, Ended> {
    let filter = message::filter(&search.filter, user, dn);
    let by_dn = ldap.group_attribute.eq_ignore_ascii_case("dn");
    let attribute = if by_dn { NO_ATTRIBUTE } else { &ldap.group_attribute };
    let found = connection.search(&search.base, &filter, attribute, MAX_GROUPS)?;
    let groups = found.ok_or_else(|| "the user is in too many groups for one answer".to_string())?;
    let names = groups.into_iter().flat_map(|group| if by_dn { vec![group.dn] } else { group.values });
    Ok(names.map(|name| name.to_lowercase()).collect())
}
