//! The users of a process.

use super::file::{self, FileError, User};
use super::member::CLUSTER_USER;
use super::password::{Kept, Verify};
use super::watch;
use super::{Access, Check, Grants, kdb_file};
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::Receiver;

/// Users of a file, with their passwords and roles.
pub struct Users {
    users: BTreeMap<Vec<u8>, User>,
    /// A slow hash, computed for unknown users too: how long a login takes must not show which users exist.
    any_hash: Option<Arc<str>>,
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
        let mut users = if path.extension().is_some_and(|ending| ending == "toml") {
            let text = str::from_utf8(&bytes).map_err(|_| wrong("is not UTF-8".to_string()))?;
            file::parse(text).map_err(wrong)?
        } else {
            let client = Arc::new(Grants::client());
            let user = |password| User { password, certificates: Vec::new(), grants: Arc::clone(&client) };
            kdb_file::parse(&bytes).map_err(wrong)?.into_iter().map(|(name, kept)| (name, user(kept))).collect()
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
        Ok(Users { users, any_hash, path, operators, changed: None })
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

impl Access for Users {
    fn check(&self, user: &[u8], password: &[u8]) -> Check {
        let verify = |hash: &Arc<str>, grants| {
            Check::Slow(Verify { hash: Arc::clone(hash), password: password.to_vec(), grants })
        };
        let user = self.users.get(user);
        match (user.map(|user| (&user.password, &user.grants)), &self.any_hash) {
            (Some((Kept::Argon2(hash), grants)), _) => verify(hash, Some(Arc::clone(grants))),
            (Some((kept, grants)), _) if kept.is(password) => Check::Admitted(Arc::clone(grants)),
            (Some(_), _) | (None, None) => Check::Refused,
            (None, Some(hash)) => verify(hash, None),
        }
    }

    fn grants(&self, user: &[u8]) -> Option<Arc<Grants>> {
        self.users.get(user).map(|user| Arc::clone(&user.grants))
    }

    fn of_certificate(&self, name: &str) -> Option<Vec<u8>> {
        let mut users = self.users.iter();
        users.find(|(_, user)| user.certificates.iter().any(|own| own == name)).map(|(name, _)| name.clone())
    }

    fn watch(&mut self, wake: Box<dyn Fn() + Send>) -> io::Result<()> {
        let (path, operators) = (self.path.clone(), self.operators.clone());
        let read = move || Users::read(&path, &operators);
        self.changed = Some(watch::start(self.path.clone(), read, wake)?);
        Ok(())
    }

    fn reload(&mut self) -> bool {
        let Some(users) = self.changed.as_ref().and_then(|changed| changed.try_iter().last()) else { return false };
        tracing::info!(path = %self.path.display(), users = users.users.len(), "the users file was read again");
        (self.users, self.any_hash) = (users.users, users.any_hash);
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
