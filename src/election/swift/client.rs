//! Requests of one container of Swift: login, account, and the times of objects.

use super::super::store::StoreError;
use crate::access::Url;
use crate::config::{SwiftAuth, SwiftPlace};
use crate::net::http_call::{self, Reply};
use std::fs::File;
use std::io::Read;
use std::time::{Duration, Instant};

/// Longest key of a login that is read.
const MAX_KEY_BYTES: usize = 1024;
/// Status of a request for which Swift's proxy found no server in time.
const NO_SERVER: u16 = 503;
/// Pauses before a read is repeated.
const RETRY_AFTER: [Duration; 2] = [Duration::from_millis(200), Duration::from_millis(600)];
/// When Swift deletes an object, in seconds of its own clock.
const DELETE_AT: &str = "x-delete-at";
/// The same from the request on; an integer of at least 1. A `POST` without it takes away the end of the object.
pub const DELETE_AFTER: &str = "X-Delete-After";

/// A container, with the session of its account.
pub struct Client {
    place: SwiftPlace,
    /// Account's address and token; `None` before the first login, and after one that is over.
    session: Option<Session>,
}

#[derive(Clone)]
struct Session {
    account: Url,
    token: Option<String>,
}

/// The end of an object, by the server's own clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// It never ends.
    Never,
    /// A server without an expirer may answer for objects after their end.
    Past,
    Ahead,
}

impl Client {
    /// Calls nothing yet.
    pub fn new(place: SwiftPlace) -> Client {
        Client { place, session: None }
    }

    fn base(&self, path: &str) -> Url {
        let SwiftPlace { host, port, is_secure, .. } = &self.place;
        Url { is_secure: *is_secure, host: host.clone(), port: *port, path: path.to_string() }
    }

    /// Names the container in an error.
    pub fn failed(&self, what: &str) -> StoreError {
        StoreError::Failed(self.named(what))
    }

    /// Names the container in the words of an error.
    pub fn named(&self, what: &str) -> String {
        let SwiftPlace { host, port, container, .. } = &self.place;
        format!("Swift at {host}:{port}, container {container}: {what}")
    }

    /// Returns the session, after a login if there is none.
    fn session(&mut self, by: Instant) -> Result<Session, StoreError> {
        if let Some(session) = &self.session {
            return Ok(session.clone());
        }
        let session = match &self.place.auth {
            SwiftAuth::None { account } => Session { account: self.base(&format!("/v1/{account}")), token: None },
            SwiftAuth::Login { path, user, key_file } => {
                let named = |error: &dyn std::fmt::Display| {
                    StoreError::Failed(format!("the key of Swift's user {user}: {}: {error}", key_file.display()))
                };
                let mut key = String::new();
                let file = File::open(key_file).map_err(|error| named(&error))?;
                file.take(MAX_KEY_BYTES as u64 + 2).read_to_string(&mut key).map_err(|error| named(&error))?;
                let key = key.trim_end();
                if key.is_empty() || key.len() > MAX_KEY_BYTES || !key.bytes().all(|byte| byte.is_ascii_graphic()) {
                    return Err(named(&"not a key of up to 1024 printable characters in one line"));
                }
                let fields = [("X-Auth-User", user.as_str()), ("X-Auth-Key", key)];
                let reply =
                    http_call::call("GET", &self.base(path), &fields, by).map_err(|error| self.failed(&error))?;
                self.logged_in(&reply, user)?
            }
        };
        Ok(self.session.insert(session).clone())
    }

    fn logged_in(&self, reply: &Reply, user: &str) -> Result<Session, StoreError> {
        if reply.status == 401 || reply.status == 403 {
            return Err(self.failed(&format!("rejects the login of {user}: the user or its key is wrong")));
        }
        let (Some(account), Some(token)) = (reply.field("x-storage-url"), reply.field("x-auth-token")) else {
            return Err(self.failed(&format!("no login there: HTTP status {} without a token", reply.status)));
        };
        let account = Url::of_service(account).map_err(|error| self.failed(&format!("X-Storage-Url: {error}")))?;
        if self.place.is_secure && !account.is_secure {
            return Err(self.failed("the account's address has no TLS: the token would be readable on the network"));
        }
        Ok(Session { account, token: Some(token.to_string()) })
    }

    /// Makes one request of the container, or of an object in it. The object's name is one for a URL; names and values of the fields have no line
    /// breaks. A token that is over is replaced once.
    ///
    /// # Errors
    /// There is no answer, or the server rejects the login or its token.
    pub fn request(
        &mut self,
        method: &str,
        object: Option<&str>,
        own: &[(&str, &str)],
        by: Instant,
    ) -> Result<Reply, StoreError> {
        for attempt in 0..2 {
            let Session { account, token } = self.session(by)?;
            let container = &self.place.container;
            let path = match object {
                Some(object) => format!("{}/{container}/{object}", account.path.trim_end_matches('/')),
                None => format!("{}/{container}", account.path.trim_end_matches('/')),
            };
            let token = token.as_deref().map(|token| ("X-Auth-Token", token));
            let fields: Vec<_> = token.into_iter().chain(own.iter().copied()).collect();
            let url = Url { path, ..account };
            let reply = http_call::call(method, &url, &fields, by).map_err(|error| self.failed(&error))?;
            match reply.status {
                401 if attempt == 0 => self.session = None,
                401 | 403 => {
                    let why = match &self.place.auth {
                        SwiftAuth::None { .. } => "it wants a login: user= and key-file=",
                        SwiftAuth::Login { .. } => "the user may not use this container",
                    };
                    return Err(self.failed(&format!("HTTP status {}: {why}", reply.status)));
                }
                _ => return Ok(reply),
            }
        }
        Err(self.failed("a token that was just given out is rejected"))
    }

    /// Looks at an object: of several replicas, at the one that was written last.
    ///
    /// # Errors
    /// Those of a request.
    pub fn head(&mut self, object: &str, by: Instant) -> Result<Reply, StoreError> {
        self.read(Some(object), &[("X-Newest", "true")], by)
    }

    /// Makes a request that changes nothing, and repeats it in a moment where Swift had no server for it.
    fn read(&mut self, object: Option<&str>, own: &[(&str, &str)], by: Instant) -> Result<Reply, StoreError> {
        for pause in RETRY_AFTER {
            let reply = self.request("HEAD", object, own, by)?;
            if reply.status != NO_SERVER || by.saturating_duration_since(Instant::now()) <= pause {
                return Ok(reply);
            }
            std::thread::sleep(pause);
        }
        self.request("HEAD", object, own, by)
    }

    /// Error for a status that says nothing.
    pub fn unexpected(&self, method: &str, reply: &Reply) -> StoreError {
        self.failed(&format!("{method}: HTTP status {}", reply.status))
    }

    /// Whether the container is there; without it, no object's absence means anything.
    ///
    /// # Errors
    /// Those of a request.
    pub fn has_container(&mut self, by: Instant) -> Result<bool, StoreError> {
        let reply = self.read(None, &[], by)?;
        match reply.status {
            200..=299 => Ok(true),
            404 => Ok(false),
            _ => Err(self.unexpected("HEAD of the container", &reply)),
        }
    }

    /// Returns the end of an object, both times being of the server's own clock.
    ///
    /// # Errors
    /// One of the times cannot be read.
    pub fn end(&self, reply: &Reply) -> Result<End, StoreError> {
        let Some(ends) = reply.field(DELETE_AT) else { return Ok(End::Never) };
        let ends: Option<i64> = ends.parse().ok();
        match ends.zip(reply.field("date").and_then(http_call::seconds_of)) {
            Some((ends, now)) if ends <= now => Ok(End::Past),
            Some(_) => Ok(End::Ahead),
            None => Err(self.failed("X-Delete-At or Date is not a time")),
        }
    }
}

/// Returns the life that covers a duration, in whole seconds.
pub fn seconds(life: Duration) -> u64 {
    life.as_secs().saturating_add(u64::from(life.subsec_nanos() > 0)).max(1)
}

/// Returns when a call that begins now has to be over.
pub fn deadline(within: Duration) -> Instant {
    let now = Instant::now();
    now.checked_add(within).unwrap_or(now)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    fn client(is_secure: bool) -> Client {
        let auth = SwiftAuth::None { account: "AUTH_a".into() };
        Client::new(SwiftPlace { host: "h".into(), port: 80, is_secure, container: "leases".into(), auth })
    }

    fn reply(fields: &[(&str, &str)]) -> Reply {
        let fields = fields.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect();
        Reply { status: 200, fields }
    }

    #[test]
    fn an_object_ends_by_the_servers_clock() {
        let date = ("date", "Thu, 01 Jan 1970 00:01:40 GMT");
        let end = |at: &str| client(false).end(&reply(&[date, (DELETE_AT, at)]));
        assert_eq!((end("100"), end("101")), (Ok(End::Past), Ok(End::Ahead)));
        assert!(end("soon").is_err());
        assert_eq!(client(false).end(&reply(&[date])), Ok(End::Never));
    }

    /// Answers one connection with each of these statuses, and returns the port.
    fn server(statuses: &'static [&'static str]) -> u16 {
        let listener = std::net::TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let port = listener.local_addr().unwrap().port();
        std::thread::spawn(move || {
            for status in statuses {
                let (mut stream, _) = listener.accept().unwrap();
                let mut head = Vec::new();
                while !head.ends_with(b"\r\n\r\n") {
                    let mut byte = [0];
                    stream.read_exact(&mut byte).unwrap();
                    head.push(byte[0]);
                }
                write!(stream, "HTTP/1.1 {status}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n").unwrap();
            }
        });
        port
    }

    #[test]
    fn a_read_is_repeated_where_swift_has_no_server_for_it() {
        let status = |statuses| {
            let mut client = client(false);
            (client.place.host, client.place.port) = ("127.0.0.1".into(), server(statuses));
            client.head("tick", deadline(Duration::from_secs(60))).map(|reply| reply.status)
        };
        assert_eq!(status(&["503 Busy", "404 None"]), Ok(404));
        assert_eq!(status(&["503 Busy", "503 Busy", "503 Busy"]), Ok(503));
        assert_eq!(status(&["500 Broken"]), Ok(500));
    }

    #[test]
    fn lives_are_whole_seconds_of_at_least_one() {
        assert_eq!([0, 1500, 2000].map(|ms| seconds(Duration::from_millis(ms))), [1, 2, 2]);
    }

    #[test]
    fn a_token_is_not_sent_without_tls_by_a_login_with_it() {
        let of = client(true);
        let fields = |url| reply(&[("x-storage-url", url), ("x-auth-token", "t")]);
        assert!(of.logged_in(&fields("https://h/v1/AUTH_a"), "u").is_ok());
        let Err(error) = of.logged_in(&fields("http://h/v1/AUTH_a"), "u") else { panic!("it is sent") };
        assert!(error.to_string().contains("has no TLS"), "{error}");
    }
}
