//! Who may reach a process without users: callers on this machine only.

use crate::config::Listen;
use std::net::{IpAddr, Ipv4Addr};
use std::path::Path;

/// What a process without users says at its start.
const LOOPBACK_NOTE: &str = "there is no users file (-u, -U), so only this machine can connect: --open lifts that, and then everyone who \
                             reaches the port has every role";

/// Logs who may connect. `users`: the users file, if there is one; `checked`: it or `.z.pw` checks logins.
pub fn log_who_may_connect(users: Option<&Path>, checked: bool, open: bool) {
    match users {
        Some(file) => tracing::info!("the users of {} may connect, each with the roles given there", file.display()),
        None if checked => {
            tracing::info!(".z.pw decides who may connect; whom it admits may publish, subscribe and query")
        }
        None if open => {
            tracing::warn!("--open without a users file: everyone who reaches the port may connect, with every role");
        }
        None => tracing::info!("{LOOPBACK_NOTE}"),
    }
}

/// Returns where to listen. A process that checks users (`checked`), or need not (`open`), listens where `-p` says; any other on
/// loopback only.
///
/// # Errors
/// `-p` names an interface that other machines reach.
pub fn listen_on(listen: Listen, checked: bool, open: bool) -> Result<Listen, String> {
    if checked || open {
        return Ok(listen);
    }
    let is_local = |ip: IpAddr| ip.is_loopback();
    match listen.host.as_str() {
        "" => Ok(Listen { host: Ipv4Addr::LOCALHOST.to_string(), ..listen }),
        "localhost" => Ok(listen),
        host if host.parse().is_ok_and(is_local) => Ok(listen),
        host => Err(format!(
            "-p {host}:{}: without a users file (-u, -U) everyone who reaches this address would have every role. Give one, or --open \
             if that is what you want",
            listen.first
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn host(text: &str, checked: bool, open: bool) -> Result<String, String> {
        listen_on(text.parse().unwrap(), checked, open).map(|listen| listen.host)
    }

    #[test]
    fn without_users_only_this_machine_is_served() {
        assert_eq!(host("5010", false, false), Ok("127.0.0.1".to_string()));
        for own in ["localhost:5010", "127.0.0.2:0", "[::1]:5010"] {
            assert!(host(own, false, false).is_ok(), "{own}");
        }
        assert!(host("10.0.0.1:5010", false, false).is_err_and(|reason| reason.contains("--open")));
    }

    #[test]
    fn with_users_or_open_the_option_says_where() {
        for (checked, open) in [(true, false), (false, true)] {
            assert_eq!(host("5010", checked, open), Ok(String::new()));
            assert_eq!(host("10.0.0.1:5010", checked, open), Ok("10.0.0.1".to_string()));
        }
    }
}
