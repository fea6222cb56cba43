//! One request over HTTP/1.1 without a body, of which only the head of the response counts. Blocking, with one deadline. Redirects are not
//! followed: they could lead anywhere.

use super::identity::dial::Stream;
use crate::access::Url;
use std::time::Instant;

/// Most bytes and fields of a response's head.
const MAX_HEAD_BYTES: usize = 16 << 10;
const MAX_FIELDS: usize = 64;

/// Head of a response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reply {
    pub status: u16,
    /// Names in lower case; values that are not text are left out.
    pub fields: Vec<(String, String)>,
}

impl Reply {
    /// Returns the value of a field, by its name in lower case.
    pub fn field(&self, name: &str) -> Option<&str> {
        self.fields.iter().find(|(own, _)| own == name).map(|(_, value)| value.as_str())
    }
}

/// Makes a request before `by`. The caller's names, values and path have no line breaks.
///
/// # Errors
/// Why there is no response.
pub fn call(method: &str, url: &Url, fields: &[(&str, &str)], by: Instant) -> Result<Reply, String> {
    let host = if url.host.contains(':') { format!("[{}]", url.host) } else { url.host.clone() };
    let more: String = fields.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
    let request = format!(
        "{method} {} HTTP/1.1\r\nHost: {host}:{}\r\nUser-Agent: elastick\r\nContent-Length: 0\r\nConnection: close\r\n{more}\r\n",
        url.path, url.port
    );
    let mut stream = Stream::open_for(url, by, || "no answer in time".to_string())?;
    stream.write(request.as_bytes())?;
    let mut received = Vec::new();
    let mut buffer = vec![0; 4 << 10];
    loop {
        let read = stream.read(&mut buffer)?;
        received.extend_from_slice(buffer.get(..read).unwrap_or_default());
        if let Some(reply) = head(&received)? {
            return Ok(reply);
        }
        if read == 0 {
            return Err("the answer is incomplete".to_string());
        }
        if received.len() > MAX_HEAD_BYTES {
            return Err(format!("the head of the answer is longer than {MAX_HEAD_BYTES} bytes"));
        }
    }
}

fn head(received: &[u8]) -> Result<Option<Reply>, String> {
    let mut fields = [httparse::EMPTY_HEADER; MAX_FIELDS];
    let mut head = httparse::Response::new(&mut fields);
    if head.parse(received).map_err(|error| format!("no HTTP response: {error}"))?.is_partial() {
        return Ok(None);
    }
    let text = |field: &httparse::Header<'_>| {
        Some((field.name.to_ascii_lowercase(), std::str::from_utf8(field.value).ok()?.trim().to_string()))
    };
    let fields = head.headers.iter().filter_map(text).collect();
    Ok(Some(Reply { status: head.code.unwrap_or_default(), fields }))
}

/// Returns the seconds from 1970 of a `Date` field.
pub fn seconds_of(date: &str) -> Option<i64> {
    jiff::fmt::rfc2822::parse(date).ok().map(|time| time.timestamp().as_second())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heads() {
        let reply = head(b"HTTP/1.1 204 No Content\r\nX-Auth-Token: t\r\nDate: x\r\n\r\nbody").unwrap().unwrap();
        assert_eq!((reply.status, reply.field("x-auth-token"), reply.field("none")), (204, Some("t"), None));
        assert_eq!(head(b"HTTP/1.1 204 No"), Ok(None));
        assert!(head(b"SSH-2.0\r\n").is_err());
    }

    #[test]
    fn dates() {
        assert_eq!(seconds_of("Fri, 27 Nov 2026 00:00:00 GMT"), Some(1_795_737_600));
        assert_eq!(seconds_of("yesterday"), None);
    }
}
