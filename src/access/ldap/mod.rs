//! LDAP: the table `[ldap]` of a users file, and the names of users and groups.

mod filter;
mod name;
#[cfg(test)]
mod tests;

pub use filter::{Filter, Piece};

use super::one_or_more::OneOrMore;
use super::role_map::RoleMap;
use super::url::Url;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::fmt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The table `[ldap]`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct LdapEntry {
    url: OneOrMore,
    #[serde(default)]
    start_tls: bool,
    ca: Option<PathBuf>,
    bind_dn: Option<String>,
    service_dn: Option<String>,
    service_password_file: Option<PathBuf>,
    search_base: Option<String>,
    search_filter: Option<String>,
    group_base: Option<String>,
    group_filter: Option<String>,
    group_attribute: Option<String>,
    #[serde(default)]
    pub(super) every_user: Vec<String>,
    #[serde(default)]
    pub(super) roles: BTreeMap<String, Vec<String>>,
}

/// Where to search, and for what.
#[derive(Debug)]
pub struct Search {
    pub base: String,
    pub filter: Filter,
}

/// Account that searches for users and groups.
pub struct ServiceAccount {
    pub dn: String,
    pub password: Vec<u8>,
}

/// Written by hand to keep the password out of messages and logs.
impl fmt::Debug for ServiceAccount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServiceAccount").field("dn", &self.dn).finish_non_exhaustive()
    }
}

/// How logins are decided by a directory.
#[derive(Debug)]
pub struct Ldap {
    /// Servers of the directory, in the order in which they are tried.
    pub servers: Vec<Url>,
    pub start_tls: bool,
    /// PEM file of trusted authorities in place of the process's.
    pub authorities: Option<PathBuf>,
    bind_dn: Option<String>,
    pub service: Option<ServiceAccount>,
    /// Search for the user's entry.
    pub user: Option<Search>,
    /// Search for the user's groups.
    pub groups: Option<Search>,
    /// Attribute that names a group; `dn` for its distinguished name.
    pub group_attribute: String,
    pub(super) name: Arc<str>,
    pub(super) roles: RoleMap,
}

impl Ldap {
    /// # Errors
    /// What is wrong with the table, or why the service account's password cannot be read.
    pub(super) fn of(entry: LdapEntry, roles: RoleMap) -> Result<Ldap, String> {
        let urls = entry.url.list();
        let parse = |url: &String| server(url, entry.start_tls).map_err(|reason| format!("url: {reason}"));
        let servers = urls.iter().map(parse).collect::<Result<Vec<_>, _>>()?;
        if servers.is_empty() {
            return Err("url: no server".to_string());
        }
        if roles.is_empty() {
            return Err("no user has a role: set [ldap.roles] or every_user".to_string());
        }
        let user = search("search", entry.search_base, entry.search_filter)?;
        let groups = search("group", entry.group_base, entry.group_filter)?;
        if !roles.by_value.is_empty() && groups.is_none() {
            return Err("[ldap.roles] needs group_base and group_filter".to_string());
        }
        let service = match (entry.service_dn, entry.service_password_file) {
            (Some(dn), Some(path)) if !dn.is_empty() => Some(ServiceAccount { dn, password: password(&path)? }),
            (None, None) => None,
            _ => return Err("service_dn and service_password_file belong together".to_string()),
        };
        check_names(entry.bind_dn.as_deref(), service.is_some(), user.as_ref(), groups.as_ref())?;
        Ok(Ldap {
            servers,
            start_tls: entry.start_tls,
            authorities: entry.ca,
            bind_dn: entry.bind_dn,
            service,
            user,
            groups,
            group_attribute: entry.group_attribute.unwrap_or_else(|| "cn".to_string()),
            name: urls.join(" ").into(),
            roles,
        })
    }

    /// Address of the directory, in the form of the users file.
    pub fn name(&self) -> Arc<str> {
        Arc::clone(&self.name)
    }

    /// Returns the name under which the directory binds a user; `None` if the user's entry is searched for first.
    pub fn bind_name(&self, user: &str) -> Option<String> {
        let template = self.bind_dn.as_ref()?;
        // Without an attribute it is a user principal name, as Active Directory accepts it, which has no escapes.
        let name = if template.contains('=') { name::escaped(user) } else { user.to_string() };
        Some(template.replace("{user}", &name))
    }

    /// Returns the user's name as it is used everywhere; `None` if it cannot be one.
    pub fn folded(&self, user: &[u8]) -> Option<String> {
        let is_principal = self.bind_dn.as_ref().is_some_and(|template| !template.contains('='));
        // In DOMAIN\user and user@domain a name could choose another domain.
        name::folded(user).filter(|name| !is_principal || !name.contains(['\\', '@', '/', '=', ',']))
    }
}

fn server(url: &str, start_tls: bool) -> Result<Url, String> {
    let url = Url::parse(url, ("ldap", 389), ("ldaps", 636))?;
    if url.path != "/" {
        return Err("an LDAP server has no path; names belong into search_base".to_string());
    }
    if url.is_secure && start_tls {
        return Err("ldaps:// is encrypted from the start: leave start_tls out".to_string());
    }
    match url.is_secure || start_tls || url.is_loopback() {
        true => Ok(url),
        false => Err("ldap:// would send passwords in plain text: use ldaps://, or start_tls = true".to_string()),
    }
}

fn search(name: &str, base: Option<String>, filter: Option<String>) -> Result<Option<Search>, String> {
    match (base, filter) {
        (Some(base), Some(filter)) => Ok(Some(Search { base, filter: Filter::parse(&filter)? })),
        (None, None) => Ok(None),
        _ => Err(format!("{name}_base and {name}_filter belong together")),
    }
}

/// Checks that every place of a template has a value, and that each user has a name of its own.
fn check_names(
    bind_dn: Option<&str>,
    has_service: bool,
    user: Option<&Search>,
    groups: Option<&Search>,
) -> Result<(), String> {
    if user.is_some_and(|search| !search.filter.has(&Piece::User) || search.filter.has(&Piece::Dn)) {
        return Err("search_filter needs {user}, and cannot have {dn}, which it finds".to_string());
    }
    if groups.is_some_and(|search| !search.filter.has(&Piece::User) && !search.filter.has(&Piece::Dn)) {
        return Err("group_filter needs {dn} or {user}: every user would be in every group".to_string());
    }
    match (bind_dn, has_service, user.is_some()) {
        (Some(_), true, _) => Err("bind_dn and service_dn exclude each other".to_string()),
        (None, false, _) => Err("set bind_dn, or service_dn and its search for users".to_string()),
        (None, true, false) => Err("service_dn needs search_base and search_filter".to_string()),
        (Some(template), false, _) if !template.contains("{user}") => Err("bind_dn needs {user}".to_string()),
        (Some(template), false, false)
            if !template.contains('=') && groups.is_some_and(|search| search.filter.has(&Piece::Dn)) =>
        {
            Err("{dn} of group_filter is not known: set search_base and search_filter".to_string())
        }
        _ => Ok(()),
    }
}

/// Reads the service account's password, without white space at its end.
fn password(path: &Path) -> Result<Vec<u8>, String> {
    let wrong = |reason: String| format!("service_password_file, {}: {reason}", path.display());
    let (bytes, metadata) = std::fs::read(path)
        .and_then(|bytes| Ok((bytes, std::fs::metadata(path)?)))
        .map_err(|error| wrong(error.to_string()))?;
    if metadata.permissions().mode() & 0o007 != 0 {
        return Err(wrong("every user of this machine may read or write it: chmod 600".to_string()));
    }
    match bytes.trim_ascii_end() {
        [] => Err(wrong("is empty".to_string())),
        password => Ok(password.to_vec()),
    }
}
