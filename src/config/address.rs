//! Addresses in kdb+'s notation: where to connect, and where to listen.

use std::fmt;
use std::str::FromStr;

/// Host of an address `unix://port[:user[:password]]`: the Unix socket of that port on this machine.
pub const UNIX: &str = "unix://";

/// Prefix of the address of a connection with TLS.
pub const TLS: &str = "tcps://";

/// `[tcps://]host:port[:user[:password]]` or `unix://port[:user[:password]]`; an empty host means this machine. The leading colon of a
/// kdb+ handle is allowed.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Address {
    /// Connect with TLS.
    pub tls: bool,
    pub host: String,
    pub port: u16,
    pub user: String,
    pub password: String,
}

impl Address {
    /// Whether it is that of a Unix socket: by port, or, for a host that is a path, in that directory.
    pub fn is_unix(&self) -> bool {
        self.host == UNIX || self.host.starts_with('/')
    }
}

impl FromStr for Address {
    type Err = String;

    fn from_str(text: &str) -> Result<Address, String> {
        let wrong = || format!("{text:?} is not an address; write it like host:5010 or host:5010:user:password");
        let text = text.trim().trim_start_matches('`');
        let bare = text.strip_prefix(':').unwrap_or(text);
        let unix = bare.strip_prefix(UNIX);
        let secured = bare.strip_prefix(TLS);
        let text = secured.unwrap_or(text);
        // A handle `:host:port` has one more colon than `host:port`; the colon of `:port` stands for an empty host.
        let plain = match text.strip_prefix(':') {
            Some(rest) if rest.starts_with(':') => rest,
            Some(rest) if rest.split(':').next().is_some_and(|first| first.parse::<u16>().is_err()) => rest,
            _ => text,
        };
        let (host, rest) = match plain.strip_prefix('[') {
            _ if unix.is_some() => (UNIX, unix.unwrap_or_default()),
            Some(bracketed) => bracketed.split_once("]:").ok_or_else(wrong)?,
            None if plain.bytes().all(|b| b.is_ascii_digit()) => ("", plain),
            None => plain.split_once(':').ok_or_else(wrong)?,
        };
        let mut parts = rest.splitn(3, ':');
        let port = parts.next().and_then(|port| port.parse().ok()).filter(|port| *port != 0).ok_or_else(wrong)?;
        let host = if host.is_empty() { "localhost" } else { host };
        Ok(Address {
            tls: secured.is_some(),
            host: host.to_string(),
            port,
            user: parts.next().unwrap_or_default().to_string(),
            password: parts.next().unwrap_or_default().to_string(),
        })
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.host == UNIX {
            return write!(f, "{UNIX}{}", self.port);
        }
        let scheme = if self.tls { TLS } else { "" };
        write!(f, "{scheme}{}:{}", self.host, self.port)
    }
}

/// Written by hand to keep the password out of messages and logs.
impl fmt::Debug for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}:{}:***", self.user)
    }
}

/// Where to listen: kdb+'s `-p`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listen {
    /// Interface to bind; empty means all.
    pub host: String,
    /// First port to try; 0 lets the kernel choose.
    pub first: u16,
    /// Last port to try.
    pub last: u16,
    /// Whether other processes may listen on the same port (`rp,`).
    pub reuse: bool,
}

impl FromStr for Listen {
    type Err = String;

    fn from_str(text: &str) -> Result<Listen, String> {
        let wrong = || format!("{text:?} is not a port; write it like 5010, host:5010, 5010/5020 or 0W");
        let rest = text.trim();
        if rest.starts_with('-') {
            return Err(format!("{text:?}: a negative port (one thread per connection) is not supported"));
        }
        let (reuse, rest) = match rest.strip_prefix("rp,") {
            Some(rest) => (true, rest),
            None => (false, rest),
        };
        let (host, ports) = rest.rsplit_once(':').unwrap_or(("", rest));
        let port = |text: &str| text.parse::<u16>().map_err(|_| wrong());
        let (first, last) = match ports.split_once('/') {
            _ if ports == "0W" => (0, 0),
            Some((first, last)) => (port(first)?, port(last)?),
            None => (port(ports)?, port(ports)?),
        };
        if first > last {
            return Err(wrong());
        }
        let host = host.trim_start_matches('[').trim_end_matches(']');
        Ok(Listen { host: host.to_string(), first, last, reuse })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parts(text: &str) -> (String, u16, String, String) {
        let address: Address = text.parse().unwrap();
        (address.host, address.port, address.user, address.password)
    }

    #[test]
    fn addresses_come_in_kdb_forms() {
        let of = |host: &str, port, user: &str, password: &str| (host.into(), port, user.into(), password.into());
        assert_eq!(parts(":5010"), of("localhost", 5010, "", ""));
        assert_eq!(parts("5010"), of("localhost", 5010, "", ""));
        assert_eq!(parts("tp1:5010"), of("tp1", 5010, "", ""));
        assert_eq!(parts(":tp1:5010:ann:a:b"), of("tp1", 5010, "ann", "a:b"));
        assert_eq!(parts("::5010:ann:x"), of("localhost", 5010, "ann", "x"));
        assert_eq!(parts("[::1]:5010"), of("::1", 5010, "", ""));
        assert_eq!(parts(":unix://5010"), of("unix://", 5010, "", ""));
        assert_eq!(parts("`:unix://5010:ann:x"), of("unix://", 5010, "ann", "x"));
    }

    #[test]
    fn an_address_may_ask_for_tls() {
        for text in ["tcps://tp1:5010:ann:x", ":tcps://tp1:5010:ann:x", "`:tcps://tp1:5010:ann:x"] {
            let address: Address = text.parse().unwrap();
            assert!(address.tls, "{text}");
            assert_eq!(parts(text), ("tp1".into(), 5010, "ann".into(), "x".into()));
        }
        let address: Address = "tcps://:5010".parse().unwrap();
        assert_eq!((address.to_string().as_str(), address.tls), ("tcps://localhost:5010", true));
        assert!(!"tp1:5010".parse::<Address>().unwrap().tls);
    }

    #[test]
    fn addresses_without_a_port_are_rejected() {
        for text in
            ["", "tp1", "tp1:", "tp1:x", ":0", ":70000", "unix://", ":unix://x", "unix://0", "tcps://", "tcps://tp1"]
        {
            assert!(text.parse::<Address>().is_err(), "{text}");
        }
    }

    #[test]
    fn a_password_is_not_shown() {
        let address: Address = "tp1:5010:ann:secret".parse().unwrap();
        assert!(!format!("{address} {address:?}").contains("secret"));
    }

    #[test]
    fn ports_may_be_a_range_or_any() {
        let listen: Listen = "rp,127.0.0.1:5010/5020".parse().unwrap();
        assert_eq!(listen, Listen { host: "127.0.0.1".into(), first: 5010, last: 5020, reuse: true });
        assert_eq!("0W".parse::<Listen>().map(|l| l.first), Ok(0));
        for text in ["", "x", "-5010", "5020/5010", "70000"] {
            assert!(text.parse::<Listen>().is_err(), "{text}");
        }
    }
}
