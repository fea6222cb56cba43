//! The users of a process.

use super::file::{self, FileError, User};
use super::member::CLUSTER_USER;
use super::{Access, Grants, kdb_file};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;

/// Users of a file, with their passwords and roles.
pub struct Users {
    users: BTreeMap<Vec<u8>, User>,
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
        Ok(Users { users })
    }

    /// Returns the user with this name in a verified certificate.
    pub fn of_certificate(&self, name: &str) -> Option<&[u8]> {
        let mut users = self.users.iter();
        users.find(|(_, user)| user.certificates.iter().any(|own| own == name)).map(|(name, _)| name.as_slice())
    }

    /// Returns how many passwords are kept in each weak form.
    pub fn weak(&self) -> BTreeMap<&'static str, usize> {
        let mut weak = BTreeMap::new();
        for form in self.users.values().filter_map(|user| user.password.weakness()) {
            let count: &mut usize = weak.entry(form).or_default();
            *count = count.saturating_add(1);
        }
        weak
    }
}

impl Access for Users {
    fn admits(&self, user: &[u8], password: &[u8]) -> Option<Arc<Grants>> {
        let user = self.users.get(user)?;
        user.password.is(password).then(|| Arc::clone(&user.grants))
    }

    fn grants(&self, user: &[u8]) -> Option<Arc<Grants>> {
        self.users.get(user).map(|user| Arc::clone(&user.grants))
    }

    fn is_checked(&self) -> bool {
        true
    }
}

/// Access to a process whose nodes prove themselves: [`CLUSTER_USER`] may connect, and do nothing before its proof.
pub struct WithCluster(pub Box<dyn Access>);

impl Access for WithCluster {
    fn admits(&self, user: &[u8], password: &[u8]) -> Option<Arc<Grants>> {
        match user == CLUSTER_USER.as_bytes() {
            true => Some(Arc::default()),
            false => self.0.admits(user, password),
        }
    }

    fn grants(&self, user: &[u8]) -> Option<Arc<Grants>> {
        self.0.grants(user)
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
    fn admits(&self, user: &[u8], _: &[u8]) -> Option<Arc<Grants>> {
        self.grants(user)
    }

    fn grants(&self, user: &[u8]) -> Option<Arc<Grants>> {
        Some(Arc::clone(if self.operators.contains(user) { &self.operator } else { &self.grants }))
    }

    fn is_checked(&self) -> bool {
        self.checked
    }
}
