//! A connection to an LDAP server: one request at a time.

use super::ber::{self, Parsed, SEQUENCE};
use super::message::{self, Entry, Outcome, Response};
use crate::access::Url;
use crate::access::ldap::Ldap;
use crate::config::Limit;
use crate::metrics;
use crate::net::identity::Bounds;
use crate::net::identity::dial::Stream;
use std::time::Instant;

/// Outcome of a bind.
pub(super) enum Bound {
    Yes,
    /// Name or password are wrong, or the account may not log in.
    No(Outcome),
}

/// A connection.
pub(super) struct Connection {
    stream: Stream,
    received: Vec<u8>,
    /// Number of the last request.
    id: u32,
    bounds: Bounds,
}

impl Connection {
    /// Connects before `by`, with TLS if the directory is to have it.
    ///
    /// # Errors
    /// Why there is no connection.
    pub(super) fn open(server: &Url, ldap: &Ldap, bounds: Bounds, by: Instant) -> Result<Connection, String> {
        let authorities = ldap.authorities.as_deref();
        let stream = Stream::open(server, authorities, by)?;
        let mut connection = Connection { stream, received: Vec::new(), id: 0, bounds };
        if !ldap.start_tls {
            return Ok(connection);
        }
        connection.send(&message::start_tls())?;
        let outcome = connection.outcome(message::EXTENDED_RESPONSE)?;
        if outcome.code != message::SUCCESS {
            return Err(format!("StartTLS is rejected: {} {}", outcome.code, outcome.text));
        }
        // Plain bytes behind the response could be anybody's, and would count as the server's.
        if !connection.received.is_empty() {
            return Err("bytes after the response to StartTLS".to_string());
        }
        connection.stream = connection.stream.secure(&server.host, authorities)?;
        Ok(connection)
    }

    /// Binds with name and password.
    ///
    /// # Errors
    /// The server cannot decide.
    pub(super) fn bind(&mut self, dn: &str, password: &[u8]) -> Result<Bound, String> {
        self.send(&message::bind(dn, password))?;
        let outcome = self.outcome(message::BIND_RESPONSE)?;
        match outcome.code {
            message::SUCCESS => Ok(Bound::Yes),
            message::INVALID_CREDENTIALS | message::UNWILLING_TO_PERFORM => Ok(Bound::No(outcome)),
            message::REFERRAL => Err("the server refers to another one, which is not followed".to_string()),
            code => Err(format!("bind: result {code} {}", outcome.text)),
        }
    }

    /// Searches for at most `size` entries, with one of their attributes; `None` if there are more.
    ///
    /// # Errors
    /// The search failed.
    pub(super) fn search(
        &mut self,
        base: &str,
        filter: &[u8],
        attribute: &str,
        size: u32,
    ) -> Result<Option<Vec<Entry>>, String> {
        let seconds = u32::try_from(self.bounds.time.as_secs()).unwrap_or(u32::MAX).max(1);
        self.send(&message::search(base, size, seconds, filter, attribute))?;
        let mut entries = Vec::new();
        let mut bytes = 0_usize;
        loop {
            let contents = self.receive()?;
            bytes = bytes.saturating_add(contents.len());
            if bytes > self.bounds.bytes {
                return Err(self.too_long());
            }
            let response = Response::parse(&contents)?;
            if response.id != self.id {
                return Err(unexpected(&response));
            }
            match response.kind {
                message::SEARCH_ENTRY => entries.push(Entry::parse(response.contents)?),
                message::SEARCH_REFERENCE => {}
                message::SEARCH_DONE => {
                    let outcome = Outcome::parse(response.contents)?;
                    return match outcome.code {
                        message::SUCCESS => Ok(Some(entries)),
                        message::SIZE_LIMIT_EXCEEDED => Ok(None),
                        message::REFERRAL => Err("the server refers to another one, which is not followed".to_string()),
                        code => Err(format!("search below {base:?}: result {code} {}", outcome.text)),
                    };
                }
                _ => return Err(unexpected(&response)),
            }
        }
    }

    /// Ends the session; the server closes the connection.
    pub(super) fn end(mut self) {
        // The decision is made; a server that is gone changes nothing.
        let _ = self.send(&message::unbind());
    }

    fn send(&mut self, operation: &[u8]) -> Result<(), String> {
        self.id = self.id.saturating_add(1);
        self.stream.write(&message::request(self.id, operation))
    }

    fn outcome(&mut self, kind: u8) -> Result<Outcome, String> {
        let contents = self.receive()?;
        let response = Response::parse(&contents)?;
        if response.id != self.id || response.kind != kind {
            return Err(unexpected(&response));
        }
        Outcome::parse(response.contents)
    }

    /// Returns the contents of the next message.
    fn receive(&mut self) -> Result<Vec<u8>, String> {
        loop {
            let wanted = match ber::parse(&self.received)? {
                Parsed::Element { tag: SEQUENCE, contents, rest } => {
                    let (contents, used) = (contents.to_vec(), self.received.len().saturating_sub(rest.len()));
                    self.received.drain(..used);
                    return Ok(contents);
                }
                Parsed::Element { tag, .. } => return Err(format!("no LDAP message: tag {tag:#04x}")),
                Parsed::Incomplete(wanted) => wanted.unwrap_or_default(),
            };
            if wanted > self.bounds.bytes {
                return Err(self.too_long());
            }
            let mut buffer = [0; 16 << 10];
            match self.stream.read(&mut buffer)? {
                0 => return Err("the server closed the connection".to_string()),
                read => self.received.extend_from_slice(buffer.get(..read).unwrap_or_default()),
            }
        }
    }

    fn too_long(&self) -> String {
        metrics::refused(Limit::identity_bytes);
        format!("an answer of more than {} bytes (--limit-identity-answer)", self.bounds.bytes)
    }
}

/// Number 0 is a notice of disconnection, whose text says why.
fn unexpected(response: &Response<'_>) -> String {
    match Outcome::parse(response.contents) {
        Ok(outcome) if response.id == 0 => format!("the server ends the session: {} {}", outcome.code, outcome.text),
        _ => format!("an unexpected response of kind {:#04x}", response.kind),
    }
}
