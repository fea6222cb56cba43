//! Containers of Swift, and the lease of tickerplants in one (`--lease swift:`).

use super::lease::{DURATION, HEARTBEATS, MAX_DURATION, decoded, parameters};
use super::units;
use std::path::PathBuf;
use std::time::Duration;

/// Longest names of Swift.
const MAX_CONTAINER_BYTES: usize = 256;
const MAX_KEY_BYTES: usize = 1024;
/// Path of tempauth's logins.
pub(super) const AUTH_PATH: &str = "/auth/v1.0";

/// A container of Swift.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SwiftPlace {
    pub host: String,
    pub port: u16,
    pub is_secure: bool,
    pub container: String,
    pub auth: SwiftAuth,
}

/// How a request of Swift says whose it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SwiftAuth {
    /// Nobody asks: the account is named in the path, such as `AUTH_test`.
    None { account: String },
    /// A login by `GET` of this path (tempauth), with the key in a file.
    Login { path: String, user: String, key_file: PathBuf },
}

/// An object that keeps the lease of tickerplants.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SwiftLease {
    /// As it was written.
    pub(super) text: String,
    pub place: SwiftPlace,
    pub key: String,
    pub duration: Duration,
    pub heartbeat: Duration,
}

impl SwiftLease {
    /// Reads what follows `swift://` in `text`.
    ///
    /// # Errors
    /// What is wrong with it.
    pub(super) fn read(text: &str, rest: &str) -> Result<SwiftLease, String> {
        let like = "write it like swift://HOST[:PORT]/CONTAINER/KEY?account=AUTH_x or ?user=U&key-file=F";
        let wrong = |what: &str| format!("{text:?}: {what}");
        let (path, asked) = rest.split_once('?').unwrap_or((rest, ""));
        let (place, key) = match path.match_indices('/').nth(1) {
            Some((slash, _)) => path.split_at(slash),
            None => return Err(wrong(&format!("there is no key; {like}"))),
        };
        let key = decoded(key.trim_start_matches('/')).filter(|key| !key.is_empty() && key.len() <= MAX_KEY_BYTES);
        let key = key.ok_or_else(|| wrong("the key has 1 to 1024 bytes"))?;
        let (mut duration, mut heartbeat, mut of_place) = (DURATION, None, Vec::new());
        for (name, value) in parameters(asked).map_err(|name| wrong(&format!("{name} has no value")))? {
            match name {
                "duration" => duration = units::duration(&value)?,
                "heartbeat" => heartbeat = Some(units::duration(&value)?),
                _ => of_place.push((name.to_string(), value)),
            }
        }
        if duration > MAX_DURATION {
            return Err(wrong("the longest duration is 10m"));
        }
        let place = SwiftPlace::read(place, &of_place).map_err(|what| wrong(&what))?;
        let heartbeat = heartbeat.unwrap_or(duration / HEARTBEATS);
        Ok(SwiftLease { text: text.to_string(), place, key, duration, heartbeat })
    }
}

impl SwiftPlace {
    /// Reads `HOST[:PORT]/CONTAINER`, and the parameters, all of which must be its own.
    ///
    /// # Errors
    /// What is wrong with them.
    pub(super) fn read(place: &str, parameters: &[(String, String)]) -> Result<SwiftPlace, String> {
        let like = "write it like swift://HOST[:PORT]/CONTAINER?account=AUTH_x or ?user=U&key-file=F";
        let (authority, container) = place.split_once('/').ok_or_else(|| format!("there is no container; {like}"))?;
        let is_name = |byte: u8| byte.is_ascii_alphanumeric() || b"_-.".contains(&byte);
        if container.is_empty() || container.len() > MAX_CONTAINER_BYTES || !container.bytes().all(is_name) {
            return Err("a container's name has up to 256 letters, digits, _, - or .".to_string());
        }
        let ([mut account, mut user, mut path], mut key_file) = ([None, None, None], None);
        let mut is_secure = true;
        for (name, value) in parameters {
            match name.as_str() {
                "account" if value.bytes().all(is_name) => account = Some(value.clone()),
                "account" => return Err("an account has letters, digits, _, - or .".to_string()),
                "user" if value.bytes().all(|byte| byte.is_ascii_graphic()) => user = Some(value.clone()),
                "key-file" => key_file = Some(PathBuf::from(value)),
                "auth" if value.starts_with('/') && value.bytes().all(|byte| byte.is_ascii_graphic()) => {
                    path = Some(value.clone());
                }
                "tls" if value == "on" || value == "off" => is_secure = value == "on",
                _ => {
                    return Err(format!(
                        "{name}={value} is none of account=, user=, key-file=, auth=/PATH, tls=on|off"
                    ));
                }
            }
        }
        let default = if is_secure { 443 } else { 80 };
        let (host, port) = match authority.rsplit_once(':').filter(|(_, port)| !port.contains(']')) {
            Some((host, port)) => (host, port.parse().map_err(|_| format!("{port:?} is not a port"))?),
            None => (authority, default),
        };
        let host = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
        if host.is_empty() || !host.bytes().all(|byte| is_name(byte) || byte == b':') {
            return Err(format!("{host:?} is not a host; {like}"));
        }
        let auth = match (account, user, key_file, path) {
            (Some(account), None, None, None) => SwiftAuth::None { account },
            (None, Some(user), Some(key_file), path) => {
                SwiftAuth::Login { path: path.unwrap_or_else(|| AUTH_PATH.to_string()), user, key_file }
            }
            _ => return Err(format!("give account=, or user= and key-file=; {like}")),
        };
        Ok(SwiftPlace { host: host.to_string(), port, is_secure, container: container.to_string(), auth })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<SwiftLease, String> {
        SwiftLease::read(text, text.strip_prefix("swift://").unwrap_or_default())
    }

    #[test]
    fn a_container_and_a_key_with_the_terms_of_every_lease() {
        let of = read("swift://h:8080/leases/tick%2Fsym?account=AUTH_a&tls=off").unwrap();
        assert_eq!((of.key.as_str(), of.place.container.as_str(), of.place.port), ("tick/sym", "leases", 8080));
        assert_eq!((of.duration, of.heartbeat), (Duration::from_secs(6), Duration::from_secs(1)));
        let of = read("swift://h/leases/a/b?user=u&key-file=k&duration=3s&heartbeat=600ms").unwrap();
        assert_eq!((of.key.as_str(), of.duration, of.heartbeat.as_millis()), ("a/b", Duration::from_secs(3), 600));
    }

    #[test]
    fn wrong_urls_are_rejected_with_the_reason() {
        for (text, reason) in [
            ("swift://h/leases?account=a", "there is no key"),
            ("swift://h/leases/?account=a", "the key has"),
            ("swift://h/leases/%zz?account=a", "the key has"),
            ("swift://h/leases/k", "give account="),
            ("swift://h/leases/k?account=a&duration=11m", "the longest duration"),
            ("swift://h/leases/k?account=a&duration=", "duration has no value"),
            ("swift://h/leases/k?account=a&expire=4s", "expire=4s is none of"),
            ("swift://h/le ases/k?account=a", "a container's name"),
        ] {
            let error = read(text).unwrap_err();
            assert!(error.contains(reason), "{text}: {error}");
        }
    }
}
