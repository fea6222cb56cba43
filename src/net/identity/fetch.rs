//! Reads an issuer's public keys from a file, or by one GET over HTTP/1.1. Redirects are not followed: they could lead anywhere.

use super::Bounds;
use super::dial::Stream;
use crate::access::Url;
use crate::access::oidc::{KeySource, Keys};
use crate::config::Limit;
use crate::metrics;
use crate::net::http_response::{Broken, Response};
use std::fs::File;
use std::io::Read;
use std::path::Path;

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
    let mut response = Response::new(request.as_bytes(), most);
    let mut buffer = vec![0; 16 << 10];
    loop {
        let read = stream.read(&mut buffer)?;
        let taken = if read == 0 {
            response.end().map(|()| true)
        } else {
            response.extend(buffer.get(..read).unwrap_or_default())
        };
        match taken {
            Ok(true) => break,
            Ok(false) => {}
            Err(Broken::TooLong(_)) => return Err(too_long(most)),
            Err(broken) => return Err(broken.to_string()),
        }
    }
    document(response)
}

/// Returns the body of a whole response, if the status is 200: a redirect could lead anywhere.
fn document(response: Response) -> Result<Vec<u8>, String> {
    match response.status() {
        Some(200) => Ok(response.into_parts().1),
        status => Err(format!("HTTP status {}", status.unwrap_or_default())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_success_is_a_document() {
        for (text, wanted) in [
            ("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}rest", Ok("{}")),
            ("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\n{\r\n1\r\n}\r\n0\r\n\r\n", Ok("{}")),
            ("HTTP/1.1 302 Found\r\nLocation: http://evil/\r\nContent-Length: 0\r\n\r\n", Err("HTTP status 302")),
            ("HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n", Err("HTTP status 404")),
        ] {
            let mut response = Response::new(b"GET /", 1 << 10);
            assert_eq!(response.extend(text.as_bytes()), Ok(true), "{text}");
            let wanted = wanted.map(|body| body.as_bytes().to_vec()).map_err(str::to_string);
            assert_eq!(document(response), wanted, "{text}");
        }
    }
}
