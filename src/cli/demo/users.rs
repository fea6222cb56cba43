//! Users, roles and secret of the demo's cluster, as a firm would set them up.

use crate::access::hashed;
use crate::cli::CliError;
use crate::config::Address;
use ring::rand::{SecureRandom, SystemRandom};
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// Where all processes of the demo listen: other machines do not reach them.
pub const HOST: &str = "127.0.0.1";

/// User and password with which anyone on this machine may publish, subscribe and query while the demo runs.
pub const GUEST: &str = "guest";

/// Files of the cluster's users, and the demo's own login.
pub struct DemoUsers {
    /// Users file of tickerplant and nodes.
    pub users: PathBuf,
    /// Secret by which nodes and tickerplant prove to be members.
    pub secret: PathBuf,
    /// Login of the feed, for `--login-file`.
    pub feed: PathBuf,
    /// Password of the demo itself, which watches the cluster and ends the day.
    password: String,
}

impl DemoUsers {
    /// Writes the files, with new passwords.
    ///
    /// # Errors
    /// A file cannot be written, or the system has no random bytes.
    pub fn create(dir: &Path) -> Result<DemoUsers, CliError> {
        let (password, of_feed) = (random()?, random()?);
        let hash = |password: &str| hashed(password.as_bytes()).map_err(CliError::Failed);
        let text = format!(
            "[roles.guest]\npublish = true\nsubscribe = true\nquery = true\n\n\
             [users.demo]\npassword = \"{}\"\nroles = [\"operator\", \"query\"]\n\n\
             [users.feed]\npassword = \"{}\"\nroles = [\"publish\"]\n\n\
             [users.{GUEST}]\npassword = \"{}\"\nroles = [\"guest\"]\n",
            hash(&password)?,
            hash(&of_feed)?,
            hash(GUEST)?
        );
        Ok(DemoUsers {
            users: file(dir, "users.toml", &text)?,
            secret: file(dir, "secret", &random()?)?,
            feed: file(dir, "feed.login", &format!("feed:{of_feed}\n"))?,
            password,
        })
    }

    /// Returns the address of a process on this machine with the demo's login.
    pub fn address(&self, port: u16) -> Address {
        let (user, password) = ("demo".to_string(), self.password.clone());
        Address { host: HOST.to_string(), port, user, password, ..Address::default() }
    }
}

/// Writes a file that only the demo's user may read.
fn file(dir: &Path, name: &str, text: &str) -> Result<PathBuf, CliError> {
    let path = dir.join(name);
    let failed = |error: std::io::Error| CliError::Failed(format!("{}: {error}", path.display()));
    let mut options = std::fs::File::options();
    let mut file = options.write(true).create(true).truncate(true).mode(0o600).open(&path).map_err(failed)?;
    file.write_all(text.as_bytes()).map_err(failed)?;
    Ok(path)
}

/// Returns 32 random hexadecimal digits.
fn random() -> Result<String, CliError> {
    let mut bytes = [0; 16];
    SystemRandom::new().fill(&mut bytes).map_err(|_| CliError::Failed("the system has no random bytes".to_string()))?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}
