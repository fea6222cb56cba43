//! HTTP as a client: a request as its caller wrote it, over TCP or TLS, and the response; or, after an upgrade, a WebSocket.

use super::socket::{LOOK, Socket};
use super::{ClientError, WriteHalf, deadline};
use crate::access::Url;
use crate::config::{Address, Limit};
use crate::kernel::digest::to_base64;
use crate::metrics;
use crate::net::http_response::{Broken, Response};
use crate::net::{upgrade, websocket};
use crate::sys::interrupt;
use std::fmt;
use std::str::FromStr;
use std::time::{Duration, Instant};

/// Bytes of one read.
const READ_BYTES: usize = 64 << 10;

/// `http[s]://[user:password@]host[:port]`, or the same with `ws[s]://`. A path is allowed and has no meaning: the request names its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WebAddress {
    address: Address,
    is_websocket: bool,
}

impl WebAddress {
    /// Whether a connection becomes a WebSocket.
    pub fn is_websocket(&self) -> bool {
        self.is_websocket
    }
}

impl FromStr for WebAddress {
    type Err = String;

    fn from_str(text: &str) -> Result<WebAddress, String> {
        let text = text.strip_prefix(':').unwrap_or(text);
        let (scheme, rest) = text.split_once("://").ok_or("no scheme such as http://")?;
        let authority_end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
        let (authority, path) = rest.split_at(authority_end);
        let (login, host) = authority.rsplit_once('@').unwrap_or(("", authority));
        let (user, password) = login.split_once(':').unwrap_or((login, ""));
        let path = if path.starts_with('/') { path } else { "/" };
        let bare = format!("{scheme}://{host}{path}");
        let is_websocket = scheme.to_ascii_lowercase().starts_with("ws");
        let url = if is_websocket { Url::of_websocket(&bare)? } else { Url::of_service(&bare)? };
        let (user, password) = (user.to_string(), password.to_string());
        Ok(WebAddress {
            address: Address { tls: url.is_secure, host: url.host, port: url.port, user, password },
            is_websocket,
        })
    }
}

impl fmt::Display for WebAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.address.fmt(f)
    }
}

/// A connection to an HTTP server, for one request.
pub struct WebClient {
    socket: Socket,
    /// `user:password` in Base64, if the address has them.
    basic: Option<String>,
}

/// The upgraded connection.
pub struct Upgraded {
    client: WebClient,
    /// Head of the response.
    pub head: Vec<u8>,
    /// First bytes behind the head.
    pub received: Vec<u8>,
}

impl WebClient {
    /// Connects within `timeout`, which also bounds each write, and before `by`.
    ///
    /// # Errors
    /// `Connect`, `Tls`.
    pub fn connect(address: &WebAddress, timeout: Duration, by: Option<Instant>) -> Result<WebClient, ClientError> {
        let within = by.map_or(timeout, |by| by.saturating_duration_since(Instant::now()).min(timeout));
        let socket = Socket::open((&address.address, None), &[], (within, deadline(within)), timeout)?;
        let Address { user, password, .. } = &address.address;
        let basic = (!user.is_empty()).then(|| to_base64(format!("{user}:{password}").as_bytes()));
        Ok(WebClient { socket, basic })
    }

    /// Sends a request and returns head and body of its response, the body without its transfer coding. The address's user and password
    /// are sent if the request has no `Authorization`.
    ///
    /// # Errors
    /// The connection's; `Timeout` at `by`, or on Ctrl-C; a response that is not HTTP, or longer than `max_bytes`.
    pub fn request(mut self, request: &[u8], by: Option<Instant>, max_bytes: usize) -> Result<Vec<u8>, WebError> {
        let (_, response) = self.exchange(request, Vec::new(), by, max_bytes)?;
        Ok(response.into_bytes())
    }

    /// Sends a request, with those of these fields that it lacks, and reads to the end of its response, or to that of the head of an upgrade.
    /// Returns what was sent, and the response.
    fn exchange(
        &mut self,
        request: &[u8],
        mut fields: Vec<(&'static str, String)>,
        by: Option<Instant>,
        max_bytes: usize,
    ) -> Result<(Vec<u8>, Response), WebError> {
        fields.extend(self.basic.as_ref().map(|basic| ("Authorization", format!("Basic {basic}"))));
        let request = upgrade::with_fields(request, &fields);
        self.socket.write_by(&request, by).map_err(ClientError::from)?;
        let mut response = Response::new(&request, max_bytes);
        let mut buffer = vec![0; READ_BYTES];
        loop {
            let read = self.read(&mut buffer, by)?;
            if read == 0 {
                response.end()?;
                return Ok((request, response));
            }
            if response.extend(buffer.get(..read).unwrap_or_default())? {
                return Ok((request, response));
            }
        }
    }

    /// Sends an upgrade request. The fields of the upgrade, and `Authorization` for the address's user, are added where the request
    /// lacks them. A response that does not agree is returned whole, as the error of the inner result.
    ///
    /// # Errors
    /// As [`WebClient::request`]; a response that agrees without having read the request's key.
    pub fn upgrade(
        mut self,
        request: &[u8],
        by: Option<Instant>,
        max_bytes: usize,
    ) -> Result<Result<Upgraded, Vec<u8>>, WebError> {
        let key = websocket::new_key().map_err(ClientError::Io)?;
        let (request, response) = self.exchange(request, upgrade::fields(&key).into(), by, max_bytes)?;
        if response.status() != Some(101) {
            return Ok(Err(response.into_bytes()));
        }
        let (head, _, received) = response.into_parts();
        if !upgrade::is_agreed(&request, &head) {
            return Err(Broken::Malformed("Sec-WebSocket-Accept does not fit the request".to_string()).into());
        }
        Ok(Ok(Upgraded { client: self, head, received }))
    }

    /// Reads available bytes, waiting for some until `by` or Ctrl-C. 0 is the end of the stream.
    fn read(&mut self, buffer: &mut [u8], by: Option<Instant>) -> Result<usize, ClientError> {
        loop {
            let left = by.map_or(LOOK, |by| by.saturating_duration_since(Instant::now()).min(LOOK));
            if interrupt::is_asked() || left.is_zero() {
                return Err(ClientError::Timeout);
            }
            self.socket.set_timeout(Some(left))?;
            match self.socket.read(buffer).map_err(|error| (error.kind(), ClientError::from(error))) {
                Ok(read) => return Ok(read),
                Err((std::io::ErrorKind::Interrupted, _) | (_, ClientError::Timeout)) => {}
                // Servers that close without the end of TLS are common; the response's own framing says whether it is whole.
                Err((std::io::ErrorKind::UnexpectedEof, _)) => return Ok(0),
                Err((_, error)) => return Err(error),
            }
        }
    }
}

impl Upgraded {
    /// Returns the writing half, for another thread than the reader's.
    ///
    /// # Errors
    /// The system's.
    pub fn outgoing(&self) -> std::io::Result<WriteHalf> {
        Ok(WriteHalf { socket: self.client.socket.writer()? })
    }

    /// Reads available bytes, waiting for some. 0 is the end of the stream.
    ///
    /// # Errors
    /// The connection's.
    pub fn read(&mut self, buffer: &mut [u8]) -> Result<usize, ClientError> {
        self.client.socket.set_timeout(None)?;
        loop {
            match self.client.socket.read(buffer) {
                Ok(read) => return Ok(read),
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error.into()),
            }
        }
    }
}

/// Why there is no response.
#[derive(Debug)]
pub enum WebError {
    Connection(ClientError),
    Response(Broken),
}

impl From<ClientError> for WebError {
    fn from(error: ClientError) -> WebError {
        WebError::Connection(error)
    }
}

impl From<Broken> for WebError {
    fn from(error: Broken) -> WebError {
        if matches!(error, Broken::TooLong(_)) {
            metrics::refused(Limit::http_response_bytes);
        }
        WebError::Response(error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses() {
        let parse = |text: &str| text.parse::<WebAddress>().map(|web| (web.address, web.is_websocket));
        let at = |tls, host: &str, port, user: &str, password: &str| Address {
            tls,
            host: host.to_string(),
            port,
            user: user.to_string(),
            password: password.to_string(),
        };
        assert_eq!(parse("http://a.example"), Ok((at(false, "a.example", 80, "", ""), false)));
        assert_eq!(parse(":https://u:p@a.example:9/x?y=1@2"), Ok((at(true, "a.example", 9, "u", "p"), false)));
        assert_eq!(parse("ws://[::1]:5000/feed"), Ok((at(false, "::1", 5000, "", ""), true)));
        assert_eq!(parse("WSS://a?x"), Ok((at(true, "a", 443, "", ""), true)));
        for text in ["http://", "http:///etc/passwd", "ftp://a", "ws://a:x", "http://a b", "http://a\r\nX: y", "a:80"] {
            assert!(parse(text).is_err(), "{text}");
        }
    }
}
