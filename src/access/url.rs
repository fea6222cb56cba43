//! Addresses of identity services.

/// An address such as `https://sso.example.com/keys`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Url {
    pub is_secure: bool,
    pub host: String,
    pub port: u16,
    /// From `/` on; `/` without a path.
    pub path: String,
}

impl Url {
    /// Parses an address with the scheme `plain` or `secure`, each with its default port.
    ///
    /// # Errors
    /// What is wrong with the text.
    pub(super) fn parse(text: &str, plain: (&str, u16), secure: (&str, u16)) -> Result<Url, String> {
        let wrong = || format!("{text:?} is not an address like {}://host:port", secure.0);
        let (scheme, rest) = text.split_once("://").ok_or_else(wrong)?;
        let is_secure = scheme.eq_ignore_ascii_case(secure.0);
        if !is_secure && !scheme.eq_ignore_ascii_case(plain.0) {
            return Err(wrong());
        }
        let (authority, path) = match rest.find('/') {
            Some(slash) => rest.split_at(slash),
            None => (rest, "/"),
        };
        if !path.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(format!("{text:?} has characters that an address cannot have"));
        }
        let default = if is_secure { secure.1 } else { plain.1 };
        // The colons of an IPv6 address are within brackets.
        let (host, port) = match authority.rsplit_once(':').filter(|(_, port)| !port.contains(']')) {
            Some((host, port)) => (host, port.parse().map_err(|_| wrong())?),
            None => (authority, default),
        };
        let host = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
        let is_host = |byte: u8| byte.is_ascii_alphanumeric() || b".-_:".contains(&byte);
        if host.is_empty() || !host.bytes().all(is_host) || port == 0 {
            return Err(wrong());
        }
        Ok(Url { is_secure, host: host.to_string(), port, path: path.to_string() })
    }

    /// Parses an `http://` or `https://` address.
    ///
    /// # Errors
    /// What is wrong with the text.
    pub fn of_service(text: &str) -> Result<Url, String> {
        Url::parse(text, ("http", 80), ("https", 443))
    }

    /// Parses a `ws://` or `wss://` address.
    ///
    /// # Errors
    /// What is wrong with the text.
    pub fn of_websocket(text: &str) -> Result<Url, String> {
        Url::parse(text, ("ws", 80), ("wss", 443))
    }

    /// Whether nobody on a network can read or change what is sent there without TLS.
    pub(super) fn is_loopback(&self) -> bool {
        match self.host.parse::<std::net::IpAddr>() {
            Ok(ip) => ip.is_loopback(),
            Err(_) => self.host == "localhost",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses() {
        let parse = |text| Url::parse(text, ("http", 80), ("https", 443));
        for (text, is_secure, host, port, path) in [
            ("https://sso.example.com/a/keys?x=1", true, "sso.example.com", 443, "/a/keys?x=1"),
            ("http://127.0.0.1:8080", false, "127.0.0.1", 8080, "/"),
            ("HTTPS://[::1]:9/k", true, "::1", 9, "/k"),
            ("https://[::1]", true, "::1", 443, "/"),
        ] {
            let wanted = Url { is_secure, host: host.to_string(), port, path: path.to_string() };
            assert_eq!(parse(text), Ok(wanted), "{text}");
        }
        for text in
            ["", "https://", "ftp://h", "https://user@h", "https://h:0", "https://h:x", "https://h/a b", "h/a\r\n"]
        {
            assert!(parse(text).is_err(), "{text}");
        }
        for (text, is) in
            [("http://localhost", true), ("http://127.9.9.9", true), ("http://[::1]", true), ("http://10.0.0.1", false)]
        {
            assert_eq!(parse(text).unwrap().is_loopback(), is, "{text}");
        }
    }
}
