//! Response to an HTTP request (RFC 9112), as its bytes arrive: where it ends, and its body without the transfer coding. Pure.

use std::fmt;

/// Most bytes and fields of a head; so many bytes may also the interim heads have, and the fields behind a body in chunks.
const MAX_HEAD_BYTES: usize = 64 << 10;
const MAX_FIELDS: usize = 256;

/// Why received bytes are not a response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Broken {
    /// It does not follow the protocol.
    Malformed(String),
    /// The connection ended before the response did.
    Incomplete,
    /// It exceeds this limit, bytes.
    TooLong(usize),
}

impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Broken::Malformed(reason) => write!(f, "no HTTP response: {reason}"),
            Broken::Incomplete => f.write_str("the response is incomplete: the connection ended"),
            Broken::TooLong(bytes) => write!(f, "the response is longer than {bytes} bytes"),
        }
    }
}

/// What the head says about the body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Body {
    Bytes(usize),
    Chunked(Chunk),
    /// To the end of the connection.
    ToEnd,
}

/// What comes next of a body in chunks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Chunk {
    Size,
    /// Remaining bytes of the chunk's data.
    Data(usize),
    /// The line's end behind the data.
    DataEnd,
    /// Fields behind the last chunk, which are left out.
    Trailer,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Head,
    Body { status: u16, body: Body },
    Whole { status: u16 },
}

/// A response that arrives.
#[derive(Debug)]
pub struct Response {
    stage: Stage,
    /// The request was HEAD, whose response has no body whatever its head says.
    is_bodiless: bool,
    max_bytes: usize,
    /// Head and decoded body.
    out: Vec<u8>,
    head_bytes: usize,
    /// Received bytes, decoded up to `at`.
    raw: Vec<u8>,
    at: usize,
    /// Bytes that were left out of `out` because they belong neither to the final head nor to the body.
    aside_bytes: usize,
}

impl Response {
    /// For the response to this request, of at most `max_bytes` with its head.
    pub fn new(request: &[u8], max_bytes: usize) -> Response {
        let is_bodiless = request.get(..5).is_some_and(|method| method.eq_ignore_ascii_case(b"HEAD "));
        Response {
            stage: Stage::Head,
            is_bodiless,
            max_bytes,
            out: Vec::new(),
            head_bytes: 0,
            raw: Vec::new(),
            at: 0,
            aside_bytes: 0,
        }
    }

    /// Status of the final head, once it has arrived.
    pub fn status(&self) -> Option<u16> {
        match self.stage {
            Stage::Head => None,
            Stage::Body { status, .. } | Stage::Whole { status } => Some(status),
        }
    }

    /// Takes received bytes. Returns true once the response is whole.
    ///
    /// # Errors
    /// `Malformed`, `TooLong`.
    pub fn extend(&mut self, bytes: &[u8]) -> Result<bool, Broken> {
        self.raw.extend_from_slice(bytes);
        if self.out.len().saturating_add(self.raw.len()) > self.max_bytes {
            return Err(Broken::TooLong(self.max_bytes));
        }
        // A head is parsed from its start: once for each of its lines, not for each byte that arrives.
        if self.stage == Stage::Head && !bytes.contains(&b'\n') {
            return if self.raw.len() > MAX_HEAD_BYTES { Err(Broken::TooLong(MAX_HEAD_BYTES)) } else { Ok(false) };
        }
        while self.advance()? {}
        // Once for all that was decoded: a read may hold thousands of chunks.
        self.raw.drain(..self.at.min(self.raw.len()));
        self.at = 0;
        Ok(matches!(self.stage, Stage::Whole { .. }))
    }

    /// Takes the end of the connection.
    ///
    /// # Errors
    /// `Incomplete`.
    pub fn end(&self) -> Result<(), Broken> {
        match self.stage {
            Stage::Whole { .. } | Stage::Body { body: Body::ToEnd, .. } => Ok(()),
            _ => Err(Broken::Incomplete),
        }
    }

    /// Returns head and body.
    pub fn into_bytes(self) -> Vec<u8> {
        self.out
    }

    /// Returns head, body, and the bytes behind it: after an upgrade, they are not HTTP any more.
    pub fn into_parts(mut self) -> (Vec<u8>, Vec<u8>, Vec<u8>) {
        let body = self.out.split_off(self.head_bytes.min(self.out.len()));
        (self.out, body, self.raw)
    }

    /// Decodes one step. Returns false if it needs more bytes, or none.
    fn advance(&mut self) -> Result<bool, Broken> {
        match self.stage {
            Stage::Head => self.take_head(),
            Stage::Whole { .. } => Ok(false),
            Stage::Body { body: Body::ToEnd, .. } => {
                self.take_body(usize::MAX);
                Ok(false)
            }
            Stage::Body { status, body: Body::Bytes(left) } => {
                let left = left.saturating_sub(self.take_body(left));
                self.stage =
                    if left == 0 { Stage::Whole { status } } else { Stage::Body { status, body: Body::Bytes(left) } };
                Ok(false)
            }
            Stage::Body { status, body: Body::Chunked(chunk) } => {
                let next = self.take_chunk(chunk)?;
                self.stage = match next {
                    None => return Ok(false),
                    Some(Some(chunk)) => Stage::Body { status, body: Body::Chunked(chunk) },
                    Some(None) => Stage::Whole { status },
                };
                Ok(true)
            }
        }
    }

    /// Moves at most `most` bytes to the body; returns how many.
    fn take_body(&mut self, most: usize) -> usize {
        let rest = self.raw.get(self.at..).unwrap_or_default();
        let taken = most.min(rest.len());
        self.out.extend_from_slice(rest.get(..taken).unwrap_or_default());
        self.at = self.at.saturating_add(taken);
        taken
    }

    /// Skips bytes of an interim head, or of fields behind the body.
    fn set_aside(&mut self, length: usize) -> Result<(), Broken> {
        self.at = self.at.saturating_add(length);
        self.aside_bytes = self.aside_bytes.saturating_add(length);
        if self.aside_bytes > MAX_HEAD_BYTES { Err(Broken::TooLong(MAX_HEAD_BYTES)) } else { Ok(()) }
    }

    fn take_head(&mut self) -> Result<bool, Broken> {
        let mut fields = [httparse::EMPTY_HEADER; MAX_FIELDS];
        let mut head = httparse::Response::new(&mut fields);
        let rest = self.raw.get(self.at..).unwrap_or_default();
        let parsed = lenient().parse_response(&mut head, rest).map_err(|error| Broken::Malformed(error.to_string()))?;
        let httparse::Status::Complete(length) = parsed else {
            return if rest.len() > MAX_HEAD_BYTES { Err(Broken::TooLong(MAX_HEAD_BYTES)) } else { Ok(false) };
        };
        let status = head.code.unwrap_or_default();
        let body = body_of(status, head.headers, self.is_bodiless)?;
        // Interim responses come before the final one.
        if (100..200).contains(&status) && status != 101 {
            self.set_aside(length)?;
            return Ok(true);
        }
        if matches!(body, Body::Bytes(bytes) if bytes > self.max_bytes) {
            return Err(Broken::TooLong(self.max_bytes));
        }
        self.take_body(length);
        self.head_bytes = length;
        self.stage = match body {
            Body::Bytes(0) => Stage::Whole { status },
            body => Stage::Body { status, body },
        };
        Ok(true)
    }

    /// Returns the next part of a body in chunks, `Some(None)` at its end, `None` if bytes are missing.
    fn take_chunk(&mut self, chunk: Chunk) -> Result<Option<Option<Chunk>>, Broken> {
        /// Longest line of a chunk's size with its extensions.
        const MAX_LINE_BYTES: usize = 4 << 10;
        if let Chunk::Data(left) = chunk {
            let left = left.saturating_sub(self.take_body(left));
            if left == 0 {
                return Ok(Some(Some(Chunk::DataEnd)));
            }
            self.set_chunk(Chunk::Data(left));
            return Ok(None);
        }
        let rest = self.raw.get(self.at..).unwrap_or_default();
        if chunk == Chunk::Size {
            return match httparse::parse_chunk_size(rest) {
                Ok(httparse::Status::Complete((length, size))) => {
                    self.at = self.at.saturating_add(length);
                    let size = usize::try_from(size).ok().filter(|size| *size <= self.max_bytes);
                    let size = size.ok_or(Broken::TooLong(self.max_bytes))?;
                    Ok(Some(Some(if size == 0 { Chunk::Trailer } else { Chunk::Data(size) })))
                }
                Ok(httparse::Status::Partial) if rest.len() <= MAX_LINE_BYTES => Ok(None),
                _ => Err(Broken::Malformed("the size of a chunk is no number".to_string())),
            };
        }
        let Some(end) = rest.iter().position(|byte| *byte == b'\n') else {
            return match rest.len() > MAX_LINE_BYTES {
                true => Err(Broken::Malformed("a line of a chunk is too long".to_string())),
                false => Ok(None),
            };
        };
        let is_empty = matches!(rest.get(..=end), Some(b"\r\n" | b"\n"));
        match chunk {
            Chunk::DataEnd if is_empty => {
                self.at = self.at.saturating_add(end).saturating_add(1);
                Ok(Some(Some(Chunk::Size)))
            }
            Chunk::DataEnd => Err(Broken::Malformed("a chunk is longer than its size".to_string())),
            _ => {
                self.set_aside(end.saturating_add(1))?;
                Ok(Some(if is_empty { None } else { Some(Chunk::Trailer) }))
            }
        }
    }

    fn set_chunk(&mut self, chunk: Chunk) {
        if let Stage::Body { body: Body::Chunked(own), .. } = &mut self.stage {
            *own = chunk;
        }
    }
}

/// What real servers send and other clients, kdb+ among them, accept.
fn lenient() -> httparse::ParserConfig {
    let mut config = httparse::ParserConfig::default();
    config
        .allow_spaces_after_header_name_in_responses(true)
        .allow_obsolete_multiline_headers_in_responses(true)
        .allow_multiple_spaces_in_response_status_delimiters(true)
        .ignore_invalid_headers_in_responses(true);
    config
}

/// Length of the body: by the status, the transfer coding, the content's length, or the end of the connection, in this order.
fn body_of(status: u16, fields: &[httparse::Header<'_>], is_bodiless: bool) -> Result<Body, Broken> {
    if is_bodiless || (100..200).contains(&status) || matches!(status, 204 | 304) {
        return Ok(Body::Bytes(0));
    }
    if let Some(coding) = values(fields, "transfer-encoding").last() {
        let last = coding.rsplit(|byte| *byte == b',').next().unwrap_or_default().trim_ascii();
        return Ok(if last.eq_ignore_ascii_case(b"chunked") { Body::Chunked(Chunk::Size) } else { Body::ToEnd });
    }
    let mut lengths = values(fields, "content-length");
    let Some(length) = lengths.next() else { return Ok(Body::ToEnd) };
    let number =
        std::str::from_utf8(length.trim_ascii()).ok().filter(|text| text.bytes().all(|byte| byte.is_ascii_digit()));
    match number.and_then(|text| text.parse().ok()) {
        Some(bytes) if lengths.all(|other| other == length) => Ok(Body::Bytes(bytes)),
        _ => Err(Broken::Malformed("Content-Length is no number".to_string())),
    }
}

fn values<'a>(fields: &'a [httparse::Header<'a>], name: &'a str) -> impl Iterator<Item = &'a [u8]> {
    fields.iter().filter(move |field| field.name.eq_ignore_ascii_case(name)).map(|field| field.value)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The response, arriving in pieces of this many bytes, then the end of the connection.
    fn got(request: &str, response: &[u8], piece: usize) -> Result<String, Broken> {
        let mut reader = Response::new(request.as_bytes(), 4096);
        for bytes in response.chunks(piece) {
            if reader.extend(bytes)? {
                return Ok(String::from_utf8(reader.into_bytes()).unwrap());
            }
        }
        reader.end().map(|()| String::from_utf8(reader.into_bytes()).unwrap())
    }

    const OK: &str = "HTTP/1.1 200 OK\r\n";

    #[test]
    fn bodies_end_where_their_heads_say() {
        for (head, body, wanted) in [
            ("Content-Length: 3\r\n\r\n", "abcd", "abc"),
            ("content-length:0\r\n\r\n", "abcd", ""),
            ("\r\n", "to the end", "to the end"),
            ("Transfer-Encoding: gzip\r\n\r\n", "to the end", "to the end"),
            ("Transfer-Encoding: chunked\r\n\r\n", "3\r\nabc\r\n2;x=y\r\nde\r\n0\r\nX: 1\r\n\r\nnext", "abcde"),
            ("Content-Length: 9\r\nTransfer-Encoding: gzip, Chunked\r\n\r\n", "1\r\na\r\n0\r\n\r\n", "a"),
        ] {
            for piece in [1, 7, 4096] {
                let response = format!("{OK}{head}{body}");
                assert_eq!(
                    got("GET /", response.as_bytes(), piece),
                    Ok(format!("{OK}{head}{wanted}")),
                    "{head} by {piece}"
                );
            }
        }
    }

    #[test]
    fn responses_without_a_body() {
        let head = "Content-Length: 3\r\n\r\n";
        assert_eq!(got("head / HTTP/1.1", format!("{OK}{head}").as_bytes(), 9), Ok(format!("{OK}{head}")));
        for status in ["204 No Content", "304 Not Modified"] {
            let response = format!("HTTP/1.1 {status}\r\n{head}");
            assert_eq!(got("GET /", response.as_bytes(), 9), Ok(response));
        }
        let interim = format!("HTTP/1.1 100 Continue\r\n\r\n{OK}Content-Length: 1\r\n\r\na");
        assert_eq!(got("POST /", interim.as_bytes(), 5), Ok(format!("{OK}Content-Length: 1\r\n\r\na")));
    }

    #[test]
    fn what_is_not_a_response_is_refused() {
        let of = |text: &str| got("GET /", text.as_bytes(), 11).unwrap_err();
        assert!(matches!(of("SSH-2.0-OpenSSH\r\n"), Broken::Malformed(_)));
        assert!(matches!(of(&format!("{OK}Content-Length: x\r\n\r\n")), Broken::Malformed(_)));
        assert!(matches!(of(&format!("{OK}Content-Length: -1\r\n\r\n")), Broken::Malformed(_)));
        assert!(matches!(of(&format!("{OK}Content-Length: 1\r\nContent-Length: 2\r\n\r\nab")), Broken::Malformed(_)));
        let chunked = format!("{OK}Transfer-Encoding: chunked\r\n\r\n");
        assert!(matches!(of(&format!("{chunked}zz\r\n")), Broken::Malformed(_)));
        assert!(matches!(of(&format!("{chunked}1\r\nabc\r\n")), Broken::Malformed(_)));
        assert_eq!(of(&format!("{chunked}5\r\nab")), Broken::Incomplete);
        assert_eq!(of(&format!("{OK}Content-Length: 5\r\n\r\nab")), Broken::Incomplete);
        assert_eq!(of(OK), Broken::Incomplete);
        assert_eq!(of(""), Broken::Incomplete);
        assert_eq!(of(&format!("{OK}\r\n{}", "x".repeat(5000))), Broken::TooLong(4096));
        // A length above the limit is refused before any byte of the body arrives.
        assert_eq!(of(&format!("{OK}Content-Length: 5000\r\n\r\n")), Broken::TooLong(4096));
        for size in ["ffffffffffff", "ffffffffffffffff", "1001"] {
            assert_eq!(of(&format!("{chunked}{size}\r\n")), Broken::TooLong(4096), "{size}");
        }
        assert!(matches!(of(&format!("{chunked}10000000000000000\r\n")), Broken::Malformed(_)));
    }

    #[test]
    fn what_is_left_out_has_a_limit() {
        let endless = |start: &str, part: &str| {
            let mut reader = Response::new(b"GET /", 1 << 20);
            let mut fed = reader.extend(start.as_bytes());
            for _ in 0..10_000 {
                fed = fed.and_then(|_| reader.extend(part.as_bytes()));
            }
            fed
        };
        assert_eq!(endless("", "HTTP/1.1 100 Continue\r\n\r\n"), Err(Broken::TooLong(MAX_HEAD_BYTES)));
        assert_eq!(endless(OK, "aaaaaaaaaa"), Err(Broken::TooLong(MAX_HEAD_BYTES)));
        let chunked = format!("{OK}Transfer-Encoding: chunked\r\n\r\n0\r\n");
        assert_eq!(endless(&chunked, "X: trailer\r\n"), Err(Broken::TooLong(MAX_HEAD_BYTES)));
    }

    #[test]
    fn heads_that_other_clients_accept() {
        for head in
            ["HTTP/1.0 200\r\n", "HTTP/1.1  200  OK\nX : 1\r\n", "HTTP/1.1 200 OK\r\nnot a field\r\nX: 1\r\n 2\r\n"]
        {
            let response = format!("{head}Content-Length: 1\r\n\r\na");
            assert_eq!(got("GET /", response.as_bytes(), 3), Ok(response));
        }
    }

    #[test]
    fn bytes_behind_an_upgrade_are_not_http() {
        let mut reader = Response::new(b"GET /", 4096);
        assert_eq!(reader.extend(b"HTTP/1.1 101 Switching Protocols\r\n\r\n\x81\x01a"), Ok(true));
        assert_eq!(reader.status(), Some(101));
        let (head, _, behind) = reader.into_parts();
        assert_eq!((&head[..], &behind[..]), (&b"HTTP/1.1 101 Switching Protocols\r\n\r\n"[..], &b"\x81\x01a"[..]));
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..200), piece in 1usize..50) {
            for head in ["", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"] {
                let mut reader = Response::new(b"GET /", 300);
                for bytes in [head.as_bytes(), &bytes].concat().chunks(piece) {
                    if reader.extend(bytes).is_err() {
                        break;
                    }
                }
                let _ = reader.end();
            }
        }
    }
}
