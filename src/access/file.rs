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

use super::grants::{Grants, Names, PerTable, Role, Rows};
use super::password::Kept;
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
        })
    }
}

/// A user of the file.
pub(super) struct User {
    pub(super) password: Kept,
    pub(super) certificates: Vec<String>,
    pub(super) grants: Arc<Grants>,
}

/// Parses a users file.
///
/// # Errors
/// What is wrong, with line and column or with the user's name.
pub(super) fn parse(text: &str) -> Result<BTreeMap<Vec<u8>, User>, String> {
    let document: Document = toml::from_str(text).map_err(|error| error.to_string())?;
    let mut roles: BTreeMap<String, Grants> =
        Role::ALL.map(|role| (role.name().to_string(), Grants::only(role))).into();
    for (name, entry) in document.roles {
        if roles.contains_key(&name) {
            return Err(format!("[roles.{name}]: {name} is a built-in role; choose another name"));
        }
        let grants = entry.grants().map_err(|reason| format!("[roles.{name}]: {reason}"))?;
        roles.insert(name, grants);
    }
    let user = |(name, entry): (String, UserEntry)| {
        let mut grants = Grants { by_name: true, ..Grants::default() };
        for role in &entry.roles {
            let known = || roles.keys().map(String::as_str).collect::<Vec<_>>().join(", ");
            let role = roles
                .get(role)
                .ok_or_else(|| format!("[users.{name}]: there is no role {role:?}; roles are {}", known()))?;
            grants.unite(role);
        }
        let password = entry.password.map_or(Ok(Kept::None), |text| Kept::read(text.as_bytes()));
        let password = password.map_err(|reason| format!("[users.{name}]: {reason}"))?;
        let user = User { password, certificates: entry.certificates, grants: Arc::new(grants) };
        Ok((name.into_bytes(), user))
    };
    document.users.into_iter().map(user).collect()
}
