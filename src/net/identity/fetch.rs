//! Reads an issuer's public keys from a file, or by one GET over HTTP/1.1. Redirects are not followed: they could lead anywhere.

use super::Bounds;
use super::dial::Stream;
use crate::access::Url;
use crate::access::oidc::{KeySource, Keys};
use crate::config::Limit;
use crate::metrics;
use std::fs::File;
use std::io::Read;
use std::path::Path;

const MAX_FIELDS: usize = 64;

/// Reads the keys.
///
/// # Errors
/// Why there are none.
pub(super) fn keys(source: &KeySource, bounds: Bounds) -> Result<Keys, String> {
    let document = match source {
        KeySource::File(path) => file(path, bounds.bytes)?,
        KeySource::Url { url, authorities } => {
            let stream = Stream::open(url, authorities.as_deref(), bounds.deadline())?;
            get(stream, url, bounds.bytes)?
        }
    };
    Keys::parse(&document)
}

fn too_long(most: usize) -> String {
    metrics::refused(Limit::identity_bytes);
    format!("more than {most} bytes (--limit-identity-answer)")
}

fn file(path: &Path, most: usize) -> Result<Vec<u8>, String> {
    let file = File::open(path).map_err(|error| error.to_string())?;
    let mut document = Vec::new();
    let read = file.take(u64::try_from(most).unwrap_or(u64::MAX).saturating_add(1)).read_to_end(&mut document);
    read.map_err(|error| error.to_string())?;
    if document.len() > most { Err(too_long(most)) } else { Ok(document) }
}

fn get(mut stream: Stream, url: &Url, most: usize) -> Result<Vec<u8>, String> {
    let host = if url.host.contains(':') { format!("[{}]", url.host) } else { url.host.clone() };
    let request = format!(
        "GET {} HTTP/1.1\r\nHost: {host}:{}\r\nAccept: application/json\r\nUser-Agent: elastick\r\nConnection: close\r\n\r\n",
        url.path, url.port
    );
    stream.write(request.as_bytes())?;
    let mut received = Vec::new();
    let mut buffer = vec![0; 16 << 10];
    loop {
        let read = stream.read(&mut buffer)?;
        received.extend_from_slice(buffer.get(..read).unwrap_or_default());
        if let Some(body) = body(&received, read == 0)? {
            return Ok(body);
        }
        if received.len() > most {
            return Err(too_long(most));
        }
    }
}

/// How the end of a body is known.
enum End {
    Length(usize),
    Chunks,
    Close,
}

/// Returns the body of a response, or `None` until it is complete.
///
/// # Errors
/// A response that is malformed, incomplete, or not a success.
fn body(received: &[u8], is_closed: bool) -> Result<Option<Vec<u8>>, String> {
    let mut fields = [httparse::EMPTY_HEADER; MAX_FIELDS];
    let mut head = httparse::Response::new(&mut fields);
    let incomplete = || if is_closed { Err("the answer is incomplete".to_string()) } else { Ok(None) };
    let used = match head.parse(received).map_err(|error| format!("no HTTP response: {error}"))? {
        httparse::Status::Complete(used) => used,
        httparse::Status::Partial => return incomplete(),
    };
    let code = head.code.unwrap_or_default();
    if code != 200 {
        return Err(format!("HTTP status {code}"));
    }
    let rest = received.get(used..).unwrap_or_default();
    match end(head.headers)? {
        End::Length(bytes) => rest.get(..bytes).map(<[u8]>::to_vec).map_or_else(incomplete, |body| Ok(Some(body))),
        End::Chunks => chunks(rest)?.map_or_else(incomplete, |body| Ok(Some(body))),
        End::Close if is_closed => Ok(Some(rest.to_vec())),
        End::Close => Ok(None),
    }
}

fn end(fields: &[httparse::Header<'_>]) -> Result<End, String> {
    let field = |name: &str| fields.iter().find(|field| field.name.eq_ignore_ascii_case(name)).map(|field| field.value);
    if let Some(coding) = field("transfer-encoding") {
        return match coding.trim_ascii().eq_ignore_ascii_case(b"chunked") {
            true => Ok(End::Chunks),
            false => Err("an unknown transfer encoding".to_string()),
        };
    }
    let Some(length) = field("content-length") else { return Ok(End::Close) };
    let digits = std::str::from_utf8(length).ok().and_then(|text| text.trim().parse().ok());
    digits.map(End::Length).ok_or_else(|| "the content length is not a number".to_string())
}

/// Returns the bytes of all chunks, or `None` until the last one is there.
fn chunks(mut rest: &[u8]) -> Result<Option<Vec<u8>>, String> {
    let wrong = || "a malformed chunk".to_string();
    let mut body = Vec::new();
    loop {
        let (used, size) = match httparse::parse_chunk_size(rest).map_err(|_| wrong())? {
            httparse::Status::Complete(parsed) => parsed,
            httparse::Status::Partial => return Ok(None),
        };
        if size == 0 {
            return Ok(Some(body));
        }
        let size = usize::try_from(size).map_err(|_| wrong())?;
        let end = used.checked_add(size).ok_or_else(wrong)?;
        let Some(chunk) = rest.get(used..end) else { return Ok(None) };
        body.extend_from_slice(chunk);
        rest = rest.get(end..).unwrap_or_default();
        match rest.strip_prefix(b"\r\n") {
            Some(after) => rest = after,
            None if rest.len() < 2 => return Ok(None),
            None => return Err(wrong()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::body;

    #[test]
    fn responses() {
        let full = |text: &str| body(text.as_bytes(), true);
        for (text, wanted) in [
            ("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}rest", Ok(Some("{}"))),
            ("HTTP/1.1 200 OK\r\n\r\n{\"a\":1}", Ok(Some("{\"a\":1}"))),
            ("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\n{\r\n1\r\n}\r\n0\r\n\r\n", Ok(Some("{}"))),
            ("HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\n{}", Err("incomplete")),
            ("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n{", Err("incomplete")),
            ("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nffffffffffffffff\r\n{", Err("chunk")),
            ("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\n{}}", Err("chunk")),
            ("HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\n{}", Err("transfer encoding")),
            ("HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n{}", Err("content length")),
            ("HTTP/1.1 302 Found\r\nLocation: http://evil/\r\n\r\n", Err("status 302")),
            ("HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n", Err("status 404")),
            ("SSH-2.0-OpenSSH\r\n", Err("no HTTP response")),
            ("", Err("incomplete")),
        ] {
            match (full(text), wanted) {
                (Ok(got), Ok(wanted)) => assert_eq!(got.as_deref(), wanted.map(str::as_bytes), "{text}"),
                (Err(got), Err(wanted)) => assert!(got.contains(wanted), "{text}: {got}"),
                (got, wanted) => panic!("{text}: {got:?}, not {wanted:?}"),
            }
        }
    }

    #[test]
    fn every_prefix_of_a_response_is_incomplete() {
        let whole = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n";
        for end in 0..whole.len() {
            assert_eq!(body(&whole[..end], false), Ok(None), "{end}");
        }
        assert_eq!(body(whole, false), Ok(Some(b"{}".to_vec())));
    }
}
