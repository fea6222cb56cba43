//! The users file in TOML: roles by name, and users with their roles.
//!
//! ```toml
//! [roles.desk]
//! subscribe = { trade = ["AAPL", "MSFT"], quote = true }
//! query = { trade = "sym in `AAPL`MSFT" }
//!
//! [users.ann]
//! password = "…"
//! roles = ["desk"]
//! ```
//!
//! The tables `[oidc]` and `[ldap]` are in modules of their own.

use super::grants::{Grants, Names, PerTable, Role, Rows};
use super::ldap::{Ldap, LdapEntry};
use super::oidc::{Oidc, OidcEntry};
use super::password::Kept;
use super::quota::QuotaEntry;
use super::role_map::RoleMap;
use crate::q::restrict;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

/// Why a file of an option cannot be used.
#[derive(Debug)]
pub struct FileError {
    /// The option.
    pub what: &'static str,
    pub path: PathBuf,
    pub reason: String,
}

impl fmt::Display for FileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, {}: {}", self.what, self.path.display(), self.reason)
    }
}

impl std::error::Error for FileError {}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Document {
    #[serde(default)]
    roles: BTreeMap<String, RoleEntry>,
    #[serde(default)]
    users: BTreeMap<String, UserEntry>,
    oidc: Option<OidcEntry>,
    ldap: Option<LdapEntry>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RoleEntry {
    publish: Option<Which>,
    subscribe: Option<Subscribe>,
    query: Option<Query>,
    node: Option<Which>,
    #[serde(default)]
    operator: bool,
    #[serde(default)]
    limits: QuotaEntry,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct UserEntry {
    password: Option<String>,
    #[serde(default)]
    certificates: Vec<String>,
    roles: Vec<String>,
}

#[derive(Deserialize)]
#[serde(untagged, expecting = "expected true, or a list of names")]
enum Which {
    All(bool),
    Names(Vec<String>),
}

#[derive(Deserialize)]
#[serde(untagged, expecting = "expected true, a list of tables, or for each table true or a list of symbols")]
enum Subscribe {
    All(bool),
    Tables(Vec<String>),
    Symbols(BTreeMap<String, Which>),
}

#[derive(Deserialize)]
#[serde(untagged, expecting = "expected true, a list of tables, or for each table true or a where-clause")]
enum Query {
    All(bool),
    Tables(Vec<String>),
    Rows(BTreeMap<String, RowsEntry>),
}

#[derive(Deserialize)]
#[serde(untagged, expecting = "expected true, or a where-clause such as \"sym in `AAPL`MSFT\"")]
enum RowsEntry {
    All(bool),
    Where(String),
}

impl Which {
    fn names(self) -> Option<Names> {
        match self {
            Which::All(all) => all.then_some(Names::All),
            Which::Names(names) => Some(Names::Only(names.into_iter().map(String::into_bytes).collect())),
        }
    }
}

impl Subscribe {
    fn permission(self) -> PerTable<Names> {
        let mut permission = PerTable::default();
        match self {
            Subscribe::All(true) => permission = PerTable::every(Names::All),
            Subscribe::All(false) => {}
            Subscribe::Tables(tables) => {
                tables.into_iter().for_each(|table| permission.add(table.into_bytes(), Names::All));
            }
            Subscribe::Symbols(tables) => {
                let named = tables.into_iter().filter_map(|(table, symbols)| Some((table, symbols.names()?)));
                named.for_each(|(table, symbols)| permission.add(table.into_bytes(), symbols));
            }
        }
        permission
    }
}

impl Query {
    fn permission(self) -> PerTable<Rows> {
        let mut permission = PerTable::default();
        match self {
            Query::All(true) => permission = PerTable::every(Rows::All),
            Query::All(false) => {}
            Query::Tables(tables) => {
                tables.into_iter().for_each(|table| permission.add(table.into_bytes(), Rows::All));
            }
            Query::Rows(tables) => {
                for (table, rows) in tables {
                    match rows {
                        RowsEntry::All(true) => permission.add(table.into_bytes(), Rows::All),
                        RowsEntry::All(false) => {}
                        RowsEntry::Where(clause) => permission.add(table.into_bytes(), Rows::Where([clause].into())),
                    }
                }
            }
        }
        permission
    }
}

impl RoleEntry {
    /// # Errors
    /// A table's where-clause that is none.
    fn grants(self) -> Result<Grants, String> {
        if let Some(Query::Rows(tables)) = &self.query {
            for (table, rows) in tables {
                if let RowsEntry::Where(clause) = rows {
                    restrict::check(clause).map_err(|error| format!("query.{table}: {clause:?}: {error}"))?;
                }
            }
        }
        Ok(Grants {
            publish: self.publish.and_then(Which::names),
            subscribe: self.subscribe.map(Subscribe::permission).unwrap_or_default(),
            query: self.query.map(Query::permission).unwrap_or_default(),
            node: self.node.and_then(Which::names),
            operator: self.operator,
            by_name: true,
            proved: false,
            quota: self.limits.quota()?,
            identity: None,
        })
    }
}

/// A user of the file.
pub(super) struct User {
    pub(super) password: Kept,
    pub(super) certificates: Vec<String>,
    pub(super) grants: Arc<Grants>,
}

/// Users of a file, and the services that know others.
#[derive(Default)]
pub(super) struct Parsed {
    pub(super) users: BTreeMap<Vec<u8>, User>,
    pub(super) oidc: Option<Arc<Oidc>>,
    pub(super) ldap: Option<Arc<Ldap>>,
}

/// The roles of a file, by name.
struct Roles(BTreeMap<String, Grants>);

impl Roles {
    /// # Errors
    /// A role with the name of a built-in one, or with a wrong where-clause.
    fn of(entries: BTreeMap<String, RoleEntry>) -> Result<Roles, String> {
        let mut roles: BTreeMap<String, Grants> =
            Role::ALL.map(|role| (role.name().to_string(), Grants::only(role))).into();
        for (name, entry) in entries {
            if roles.contains_key(&name) {
                return Err(format!("[roles.{name}]: {name} is a built-in role; choose another name"));
            }
            let grants = entry.grants().map_err(|reason| format!("[roles.{name}]: {reason}"))?;
            roles.insert(name, grants);
        }
        Ok(Roles(roles))
    }

    /// Returns what all roles of a list give together.
    ///
    /// # Errors
    /// A role that there is not, with the place that names it.
    fn united(&self, names: &[String], place: &str) -> Result<Grants, String> {
        let mut grants = Grants { by_name: true, ..Grants::default() };
        for name in names {
            let known = || self.0.keys().map(String::as_str).collect::<Vec<_>>().join(", ");
            let role =
                self.0.get(name).ok_or_else(|| format!("{place}: there is no role {name:?}; roles are {}", known()))?;
            grants.unite(role);
        }
        Ok(grants)
    }

    /// Returns the roles of the users of a service. `fold` gives a value the form in which it is looked up.
    fn mapped(
        &self,
        service: &str,
        every_user: &[String],
        by_value: &BTreeMap<String, Vec<String>>,
        fold: impl Fn(&str) -> String,
    ) -> Result<RoleMap, String> {
        let every = match every_user {
            [] => Grants::default(),
            names => self.united(names, &format!("[{service}] every_user"))?,
        };
        let mut roles = RoleMap { every, by_value: BTreeMap::new() };
        for (value, names) in by_value {
            let grants = self.united(names, &format!("[{service}.roles] {value:?}"))?;
            if roles.by_value.insert(fold(value), grants).is_some() {
                return Err(format!("[{service}.roles]: {value:?} occurs twice, apart from upper and lower case"));
            }
        }
        Ok(roles)
    }
}

/// Parses a users file.
///
/// # Errors
/// What is wrong, with line and column or with the user's name.
pub(super) fn parse(text: &str) -> Result<Parsed, String> {
    let document: Document = toml::from_str(text).map_err(|error| {
        // Its own text shows the line, which may have a password.
        let before = error.span().and_then(|span| text.get(..span.start)).unwrap_or_default();
        format!("line {}: {}", before.matches('\n').count().saturating_add(1), error.message())
    })?;
    let roles = Roles::of(document.roles)?;
    let user = |(name, entry): (String, UserEntry)| {
        let place = format!("[users.{name}]");
        let grants = roles.united(&entry.roles, &place)?;
        let password = entry.password.map_or(Ok(Kept::None), |text| Kept::read(text.as_bytes()));
        let password = password.map_err(|reason| format!("{place}: {reason}"))?;
        let user = User { password, certificates: entry.certificates, grants: Arc::new(grants) };
        Ok::<_, String>((name.into_bytes(), user))
    };
    let oidc = |entry: OidcEntry| {
        let roles = roles.mapped("oidc", &entry.every_user, &entry.roles, str::to_string)?;
        Oidc::of(entry, roles).map(Arc::new).map_err(|reason| format!("[oidc]: {reason}"))
    };
    let ldap = |entry: LdapEntry| {
        let roles = roles.mapped("ldap", &entry.every_user, &entry.roles, str::to_lowercase)?;
        Ldap::of(entry, roles).map(Arc::new).map_err(|reason| format!("[ldap]: {reason}"))
    };
    Ok(Parsed {
        users: document.users.into_iter().map(user).collect::<Result<_, _>>()?,
        oidc: document.oidc.map(oidc).transpose()?,
        ldap: document.ldap.map(ldap).transpose()?,
    })
}
