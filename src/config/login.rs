//! User and password for another process, from a file instead of its address.

use super::address::Address;
use super::addresses::Addresses;
use super::options;
use super::settings::{ConfigError, Settings, Source};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

/// Returns the tickerplant's addresses with the login of `--login-file`.
///
/// # Errors
/// Those of the option, or of the file.
pub fn tickerplant(settings: &Settings) -> Result<Addresses, ConfigError> {
    let given = settings.get(&options::TICKERPLANT)?;
    if matches!(settings.source(&options::TICKERPLANT), Some(Source::CommandLine)) {
        warn_of_password(&given);
    }
    complete(given, settings)
}

/// Warns of passwords that stand on the command line.
pub fn warn_of_password(addresses: &Addresses) {
    for address in addresses.iter().filter(|address| !address.password.is_empty()) {
        tracing::warn!(%address, "every user of this machine can see the password on the command line: use --login-file");
    }
}

/// Adds the login of `--login-file` to addresses, which have none.
///
/// # Errors
/// The file cannot be read, other users may read it, it is not `user:password`, or an address has a password or another user.
pub fn complete(addresses: Addresses, settings: &Settings) -> Result<Addresses, ConfigError> {
    let Some(path) = settings.find(&options::LOGIN_FILE)? else { return Ok(addresses) };
    let (user, password) = read(&path).map_err(|reason| ConfigError::File { path: path.clone(), reason })?;
    addresses.map(|address| {
        if !(address.user.is_empty() || address.user == user) || !address.password.is_empty() {
            let reason =
                format!("--login-file has the user {user:?}, but the address {address} has a login of its own");
            return Err(ConfigError::File { path: path.clone(), reason });
        }
        Ok(Address { user: user.clone(), password: password.clone(), ..address })
    })
}

fn read(path: &Path) -> Result<(String, String), String> {
    let text = std::fs::read_to_string(path).map_err(|error| format!("cannot read the --login-file: {error}"))?;
    let mode = std::fs::metadata(path).map_err(|error| error.to_string())?.permissions().mode();
    if mode & 0o007 != 0 {
        return Err("every user of this machine may read or write it: chmod 600".to_string());
    }
    let line = text.trim_end_matches(['\r', '\n']);
    match line.split_once(':') {
        Some((user, password)) if !user.is_empty() && !line.contains('\n') => Ok((user.into(), password.into())),
        _ => Err("expected one line, user:password".to_string()),
    }
}
