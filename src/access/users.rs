//! The users of a process.

use super::external::{BindLogin, ExternalLogin, TokenLogin};
use super::file::{self, FileError, Parsed, User};
use super::identity::Identity;
use super::ldap::Ldap;
use super::member::CLUSTER_USER;
use super::oidc::{Oidc, is_token};
use super::password::{Kept, Verify};
use super::{Access, Check, Grants, kdb_file};
use crate::config::watch::watch;
use crate::metrics::{self, Id};
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

/// How often the users file is compared with the one last read.
const WATCH_INTERVAL: Duration = Duration::from_secs(1);

/// Users of a file, with their passwords and roles.
pub struct Users {
    users: BTreeMap<Vec<u8>, User>,
    /// A slow hash, computed for unknown users too: how long a login takes must not show which users exist.
    any_hash: Option<Arc<str>>,
    /// Issuer of tokens, and directory, for users who are not in the file.
    oidc: Option<Arc<Oidc>>,
    ldap: Option<Arc<Ldap>>,
    path: PathBuf,
    operators: BTreeSet<Vec<u8>>,
    /// Users of changed files.
    changed: Option<Receiver<Users>>,
}

impl Users {
    /// Reads a users file: TOML if its name ends in `.toml`, otherwise kdb+'s lines of `user:password`. kdb+'s users may publish, subscribe
    /// and query; those among `operators` may operate as well.
    ///
    /// # Errors
    /// The file cannot be read or parsed.
    pub fn read(path: &Path, operators: &BTreeSet<Vec<u8>>) -> Result<Users, FileError> {
        let wrong = |reason| FileError { what: "users (-u, -U)", path: path.to_path_buf(), reason };
        let bytes = std::fs::read(path).map_err(|error| wrong(error.to_string()))?;
        let Parsed { mut users, oidc, ldap } = if path.extension().is_some_and(|ending| ending == "toml") {
            let text = str::from_utf8(&bytes).map_err(|_| wrong("is not UTF-8".to_string()))?;
            file::parse(text).map_err(wrong)?
        } else {
            let client = Arc::new(Grants::client());
            let user = |password| User { password, certificates: Vec::new(), grants: Arc::clone(&client) };
            let users =
                kdb_file::parse(&bytes).map_err(wrong)?.into_iter().map(|(name, kept)| (name, user(kept))).collect();
            Parsed { users, ..Parsed::default() }
        };
        for name in operators {
            if let Some(user) = users.get_mut(name) {
                Arc::make_mut(&mut user.grants).operator = true;
            }
        }
        let any_hash = users.values().find_map(|user| match &user.password {
            Kept::Argon2(hash) => Some(Arc::clone(hash)),
            _ => None,
        });
        let (path, operators) = (path.to_path_buf(), operators.clone());
        Ok(Users { users, any_hash, oidc, ldap, path, operators, changed: None })
    }

    /// Returns how many passwords are kept in each weak form.
    pub(super) fn weak(&self) -> BTreeMap<&'static str, usize> {
        let mut weak = BTreeMap::new();
        for form in self.users.values().filter_map(|user| user.password.weakness()) {
            let count: &mut usize = weak.entry(form).or_default();
            *count = count.saturating_add(1);
        }
        weak
    }
}

impl Users {
    /// Returns the login as an identity service decides it: `None` if there is no service for it, and none inside if no service need be
    /// asked. A token is never sent to the directory.
    fn external(&self, user: &[u8], password: &[u8]) -> Option<Option<ExternalLogin>> {
        if let Some(oidc) = self.oidc.as_ref().filter(|_| is_token(password)) {
            let login = TokenLogin { oidc: Arc::clone(oidc), user: user.to_vec(), token: password.to_vec() };
            return Some(Some(ExternalLogin::Token(login)));
        }
        let ldap = self.ldap.as_ref()?;
        // A bind with a name and no password succeeds with any name: it is anonymous (RFC 4513, 5.1.2).
        let folded = ldap.folded(user).filter(|_| !password.is_empty());
        // Another spelling of a name in the file, which the directory takes for the same.
        let folded = folded.filter(|name| !self.is_named(name.as_bytes()));
        Some(
            folded.map(|user| {
                ExternalLogin::Bind(BindLogin { ldap: Arc::clone(ldap), user, password: password.to_vec() })
            }),
        )
    }
}

impl Access for Users {
    fn check(&self, user: &[u8], password: &[u8]) -> Check {
        let verify = |hash: &Arc<str>, grants| {
            Check::Slow(Verify::Hash { hash: Arc::clone(hash), password: password.to_vec(), grants })
        };
        let known = self.users.get(user);
        // A name in the file is the file's: its password is never sent anywhere, and no service can give the name to somebody else.
        if known.is_none()
            && let Some(login) = self.external(user, password)
        {
            return login.map_or(Check::Refused, Check::External);
        }
        match (known.map(|user| (&user.password, &user.grants)), &self.any_hash) {
            (Some((Kept::Argon2(hash), grants)), _) => verify(hash, Some(Arc::clone(grants))),
            (Some((kept, grants)), _) if kept.is(password) => Check::Admitted(Arc::clone(grants)),
            (Some(_), _) | (None, None) => Check::Refused,
            (None, Some(hash)) => verify(hash, None),
        }
    }

    fn grants(&self, user: &[u8]) -> Option<Arc<Grants>> {
        self.users.get(user).map(|user| Arc::clone(&user.grants))
    }

    fn is_named(&self, user: &[u8]) -> bool {
        self.users.keys().any(|own| own.eq_ignore_ascii_case(user))
    }

    fn identified(&self, identity: &Arc<Identity>) -> Result<Arc<Grants>, &'static str> {
        if self.users.contains_key(&identity.user) || identity.user == CLUSTER_USER.as_bytes() {
            return Err("the name is that of a user in the users file");
        }
        let of_issuer = self.oidc.as_ref().filter(|oidc| oidc.issuer == identity.by).map(|oidc| &oidc.roles);
        let of_directory = self.ldap.as_ref().filter(|ldap| ldap.name == identity.by).map(|ldap| &ldap.roles);
        let roles = of_issuer.or(of_directory).ok_or("the users file does not name this identity service any more")?;
        let grants = roles.grants(&identity.values).ok_or("the user has no role ([oidc.roles], [ldap.roles])")?;
        Ok(Arc::new(Grants { identity: Some(Arc::clone(identity)), ..grants }))
    }

    fn takes_tokens(&self) -> bool {
        self.oidc.is_some()
    }

    fn of_certificate(&self, name: &str) -> Option<Vec<u8>> {
        let mut users = self.users.iter();
        users.find(|(_, user)| user.certificates.iter().any(|own| own == name)).map(|(name, _)| name.clone())
    }

    fn watch(&mut self, wake: Box<dyn Fn() + Send>) -> io::Result<()> {
        let (path, operators) = (self.path.clone(), self.operators.clone());
        let (changed, users) = channel();
        self.changed = Some(users);
        let read = move || match Users::read(&path, &operators).map(|users| changed.send(users)) {
            Ok(Ok(())) => {
                wake();
                ControlFlow::Continue(())
            }
            // The event loop has ended.
            Ok(Err(_)) => ControlFlow::Break(()),
            Err(error) => {
                metrics::count(Id::UsersReloadFailures);
                tracing::error!(%error, "the users as last read stay in force");
                ControlFlow::Continue(())
            }
        };
        let file = self.path.clone();
        watch("users", WATCH_INTERVAL, move || vec![file.clone()], read)?;
        Ok(())
    }

    fn reload(&mut self) -> bool {
        let Some(users) = self.changed.as_ref().and_then(|changed| changed.try_iter().last()) else { return false };
        tracing::info!(path = %self.path.display(), users = users.users.len(), "the users file was read again");
        (self.users, self.any_hash) = (users.users, users.any_hash);
        (self.oidc, self.ldap) = (users.oidc, users.ldap);
        true
    }

    fn is_checked(&self) -> bool {
        true
    }
}

/// Returns how a process checks logins: by a users file, only by the owner's `.z.pw` (`has_handler`), or not at all.
///
/// # Errors
/// The users file cannot be read or parsed.
pub fn open(
    path: Option<&Path>,
    operators: BTreeSet<Vec<u8>>,
    has_handler: bool,
) -> Result<Box<dyn Access>, FileError> {
    let Some(path) = path else {
        return Ok(Box::new(if has_handler { Anyone::checked(operators) } else { Anyone::new(operators) }));
    };
    let users = Users::read(path, &operators)?;
    for (form, passwords) in users.weak() {
        tracing::warn!(path = %path.display(), passwords, "passwords are kept as {form}; `elastick passwd` makes hashes that cannot be guessed fast");
    }
    Ok(Box::new(users))
}

/// Access to a process whose nodes prove themselves: [`CLUSTER_USER`] may connect, and do nothing before its proof.
pub struct WithCluster(pub Box<dyn Access>);

impl Access for WithCluster {
    fn check(&self, user: &[u8], password: &[u8]) -> Check {
        match user == CLUSTER_USER.as_bytes() {
            true => Check::Admitted(Arc::default()),
            false => self.0.check(user, password),
        }
    }

    fn grants(&self, user: &[u8]) -> Option<Arc<Grants>> {
        match user == CLUSTER_USER.as_bytes() {
            true => Some(Arc::default()),
            false => self.0.grants(user),
        }
    }

    fn is_named(&self, user: &[u8]) -> bool {
        self.0.is_named(user)
    }

    fn identified(&self, identity: &Arc<Identity>) -> Result<Arc<Grants>, &'static str> {
        self.0.identified(identity)
    }

    fn takes_tokens(&self) -> bool {
        self.0.takes_tokens()
    }

    fn of_certificate(&self, name: &str) -> Option<Vec<u8>> {
        self.0.of_certificate(name)
    }

    fn watch(&mut self, wake: Box<dyn Fn() + Send>) -> io::Result<()> {
        self.0.watch(wake)
    }

    fn reload(&mut self) -> bool {
        self.0.reload()
    }

    fn is_checked(&self) -> bool {
        self.0.is_checked()
    }
}

/// Access without a users file: every user may connect, as with kdb+ without `-u` and `-U`.
pub struct Anyone {
    grants: Arc<Grants>,
    operator: Arc<Grants>,
    operators: BTreeSet<Vec<u8>>,
    checked: bool,
}

impl Anyone {
    /// Everyone has every role; if `operators` are named, only they are operators.
    pub fn new(operators: BTreeSet<Vec<u8>>) -> Anyone {
        Anyone::with(Grants { operator: operators.is_empty(), ..Grants::everything() }, operators, false)
    }

    /// As [`Anyone::new`], where `.z.pw` checks the users: it says nothing about roles, so each is a client.
    pub fn checked(operators: BTreeSet<Vec<u8>>) -> Anyone {
        Anyone::with(Grants::client(), operators, true)
    }

    fn with(grants: Grants, operators: BTreeSet<Vec<u8>>, checked: bool) -> Anyone {
        let operator = Arc::new(Grants { operator: true, ..grants.clone() });
        Anyone { grants: Arc::new(grants), operator, operators, checked }
    }
}

impl Access for Anyone {
    fn check(&self, user: &[u8], _: &[u8]) -> Check {
        self.grants(user).map_or(Check::Refused, Check::Admitted)
    }

    fn grants(&self, user: &[u8]) -> Option<Arc<Grants>> {
        Some(Arc::clone(if self.operators.contains(user) { &self.operator } else { &self.grants }))
    }

    fn is_checked(&self) -> bool {
        self.checked
    }
}
