//! Which web pages may send requests. A browser sends what any page of any site tells it to, with the user's network and passwords, so requests
//! of other sites' pages are rejected. Programs other than browsers send none of the header fields that show it.

use super::http::HttpRequest;
use crate::config::{ConfigError, Settings, options};
use std::borrow::Cow;
use std::net::{IpAddr, Ipv6Addr};

/// Origins and host names that are accepted.
#[derive(Clone, Debug, Default)]
pub struct Sites {
    /// Origins whose pages may send requests beside the process's own, like `https://desk.example.com`; `*` for all.
    origins: Vec<String>,
    /// Names of this machine, each in full: below a domain of an attacker there may be a machine of any name.
    hosts: Vec<String>,
}

impl Sites {
    /// Accepts the origins and host names of the options, and the machine's own name.
    ///
    /// # Errors
    /// An invalid option.
    pub fn resolve(settings: &Settings) -> Result<Sites, ConfigError> {
        let own = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
        let resolver = std::fs::read_to_string("/etc/resolv.conf").unwrap_or_default();
        let mut hosts = settings.get(&options::ALLOW_HOST)?;
        hosts.extend(names(own.trim(), &resolver));
        Ok(Sites { origins: settings.get(&options::ALLOW_ORIGIN)?, hosts })
    }

    /// Returns why a request is rejected: a page of another site sent it.
    ///
    /// `checks_users`: users need a password, so host names do not matter. An attacker's own name may lead to this machine's address (DNS
    /// rebinding) and makes the attacker's pages pages of this process, but the browser sends no password to that name.
    pub fn refusal(&self, request: &HttpRequest, checks_users: bool) -> Option<&'static str> {
        let host = field(request, "host");
        let host = host.as_deref();
        if !checks_users && host.is_some_and(|host| !is_own(host, &self.hosts)) {
            return Some("the request names another host; --allow-host accepts further names of this one");
        }
        if self.origins.iter().any(|origin| origin == "*") {
            return None;
        }
        let (origin, referer) = (field(request, "origin"), field(request, "referer"));
        let stated = origin.as_deref().or_else(|| referer.as_deref().map(origin_of));
        let is_foreign = match stated {
            Some(origin) => !self.accepts(origin, host),
            // The browser hides the page's address, but says that it is another site's. Following a link to a page is harmless; an expression in
            // the link is not.
            None => {
                let site = field(request, "sec-fetch-site");
                let is_link =
                    field(request, "sec-fetch-mode").as_deref() == Some("navigate") && !request.target.contains('?');
                matches!(site.as_deref(), Some("cross-site" | "same-site")) && !is_link
            }
        };
        // The address bar's own request after a link has a referer as well.
        let is_typed = origin.is_none() && field(request, "sec-fetch-site").as_deref() == Some("none");
        (is_foreign && !is_typed).then_some("a web page of another site sent the request; --allow-origin accepts sites")
    }

    fn accepts(&self, origin: &str, host: Option<&str>) -> bool {
        // Browsers send a scheme, or `null`; q's WebSocket clients send the host alone.
        let bare = Some(origin).filter(|origin| *origin != "null");
        let authority = origin.split_once("://").map_or(bare, |(_, authority)| Some(authority));
        let is_own = authority.zip(host).is_some_and(|(authority, host)| authority.eq_ignore_ascii_case(host));
        is_own || self.origins.iter().any(|accepted| accepted.eq_ignore_ascii_case(origin))
    }
}

/// Value of a header field; `None` if it is missing. What is not UTF-8 is replaced and agrees with no site, rather than being taken for missing.
fn field<'a>(request: &'a HttpRequest, name: &str) -> Option<Cow<'a, str>> {
    let (_, value) = request.fields.iter().find(|(own, _)| own.eq_ignore_ascii_case(name.as_bytes()))?;
    Some(String::from_utf8_lossy(value))
}

/// Returns `scheme://host:port` of an address.
fn origin_of(address: &str) -> &str {
    let start = address.find("://").map_or(0, |at| at.saturating_add(3));
    let length = address.get(start..).and_then(|rest| rest.find(['/', '?', '#']));
    length.and_then(|length| address.get(..start.saturating_add(length))).unwrap_or(address)
}

/// Returns the names of a machine: its own, without its domain, and within each domain in which the resolver searches for names.
fn names(own: &str, resolver: &str) -> Vec<String> {
    let Some(short) = own.split('.').next().filter(|short| !short.is_empty()) else { return Vec::new() };
    let words = resolver.lines().map(str::split_ascii_whitespace);
    let searched = words.filter_map(|mut words| matches!(words.next(), Some("search" | "domain")).then_some(words));
    let domains = searched.flatten().map(|domain| domain.trim_matches('.')).filter(|domain| !domain.is_empty());
    let full = domains.map(|domain| format!("{short}.{domain}"));
    [own.to_string(), short.to_string()].into_iter().chain(full).collect()
}

/// Whether `host[:port]` is an IP address, `localhost`, or one of `names`.
fn is_own(host: &str, names: &[String]) -> bool {
    let (name, port) = match host.strip_prefix('[').map(|rest| rest.split_once(']')) {
        Some(Some((address, port))) if address.parse::<Ipv6Addr>().is_ok() => (address, port),
        Some(_) => return false,
        None => host.split_at(host.find(':').unwrap_or(host.len())),
    };
    let is_port = port.strip_prefix(':').is_some_and(|digits| digits.bytes().all(|byte| byte.is_ascii_digit()));
    if !port.is_empty() && !is_port {
        return false;
    }
    let name = name.trim_end_matches('.').to_ascii_lowercase();
    let of_machine = |own: &String| own.trim_end_matches('.').eq_ignore_ascii_case(&name);
    name.parse::<IpAddr>().is_ok() || name == "localhost" || names.iter().any(of_machine)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::net::http::parse;

    fn is_refused(sites: &Sites, checks_users: bool, target: &str, fields: &[&str]) -> bool {
        let text = format!("GET {target} HTTP/1.1\r\n{}\r\n\r\n", fields.join("\r\n"));
        let (request, _) = parse(text.as_bytes()).expect("accepted").expect("whole");
        sites.refusal(&request, checks_users).is_some()
    }

    #[test]
    fn pages_of_other_sites_are_rejected() {
        let sites = Sites { origins: vec!["https://desk.example.com".to_string()], hosts: Vec::new() };
        for (fields, refused) in [
            (&["Host: n:5010"][..], false),
            (&["Host: n:5010", "Origin: http://n:5010"], false),
            (&["Host: n:5010", "Origin: http://N:5010"], false),
            (&["Host: n:5010", "Origin: http://n:80"], true),
            (&["Host: n:5010", "Origin: http://evil.example"], true),
            (&["Host: n:5010", "Origin: null"], true),
            (&["Host: null", "Origin: null"], true),
            (&["Host: n:5010", "Origin: n:5010"], false),
            (&["Host: n:5010", "Origin: n"], true),
            (&["Host: n:5010", "Origin: https://desk.example.com"], false),
            (&["Host: n:5010", "Origin: http://desk.example.com"], true),
            (&["Host: n:5010", "Referer: https://desk.example.com/a?b"], false),
            (&["Host: n:5010", "Referer: http://n:5010/?trade"], false),
            (&["Host: n:5010", "Referer: http://evil.example/n:5010"], true),
            (&["Host: n:5010", "Sec-Fetch-Site: cross-site", "Sec-Fetch-Mode: no-cors"], true),
            (&["Host: n:5010", "Sec-Fetch-Site: cross-site", "Sec-Fetch-Mode: navigate"], true),
            (&["Host: n:5010", "Sec-Fetch-Site: none", "Sec-Fetch-Mode: navigate"], false),
            (&["Host: n:5010", "Sec-Fetch-Site: same-origin", "Sec-Fetch-Mode: cors"], false),
        ] {
            assert_eq!(is_refused(&sites, true, "/?trade", fields), refused, "{fields:?}");
        }
        let link = ["Host: n:5010", "Sec-Fetch-Site: cross-site", "Sec-Fetch-Mode: navigate"];
        assert!(!is_refused(&sites, true, "/", &link), "a link without an expression");
        let all = Sites { origins: vec!["*".to_string()], hosts: Vec::new() };
        assert!(!is_refused(&all, true, "/?trade", &["Host: n", "Origin: http://evil.example"]));
    }

    #[test]
    fn a_machine_has_its_name_with_and_without_its_domains() {
        assert_eq!(names("n.a.com", "search b.com\ndomain c.com"), ["n.a.com", "n", "n.b.com", "n.c.com"]);
        assert_eq!(names("n", "options ndots:5\nsearch .\n# search d.com"), ["n", "n"]);
        assert!(names("", "search b.com").is_empty());
    }

    #[test]
    fn a_field_that_is_not_text_is_no_missing_field() {
        for (checks_users, field) in [(false, &b"Host: evil\xff"[..]), (true, b"Host: n\r\nOrigin: http://n\xff")] {
            let text = [b"GET /?trade HTTP/1.1\r\n", field, b"\r\n\r\n"].concat();
            let (request, _) = parse(&text).expect("accepted").expect("whole");
            assert!(Sites::default().refusal(&request, checks_users).is_some(), "{}", field.escape_ascii());
        }
    }

    #[test]
    fn only_names_of_the_machine_are_accepted() {
        let mut hosts = names("node1", "nameserver 10.0.0.2\nsearch example.com corp.example.com.\n");
        hosts.push("rdb.corp".to_string());
        let sites = Sites { origins: Vec::new(), hosts };
        for (host, refused) in [
            ("127.0.0.1:5010", false),
            ("[::1]:5010", false),
            ("localhost:5010", false),
            ("node1", false),
            ("Node1.example.com:5010", false),
            ("node1.corp.example.com", false),
            ("node1.evil.example", true),
            ("rdb.corp.evil.example", true),
            ("rdb.corp.:5010", false),
            ("node10:5010", true),
            ("evil.example:5010", true),
            ("localhost.evil.example", true),
            ("127.0.0.1.evil.example", true),
            ("[::1]", false),
            ("[::1]evil.example", true),
            ("[::1]:5010.evil.example", true),
            ("[::1", true),
            ("[localhost]", true),
            ("localhost:evil.example", true),
            ("", true),
        ] {
            assert_eq!(is_refused(&sites, false, "/?trade", &[&format!("Host: {host}")]), refused, "{host}");
        }
    }
}
