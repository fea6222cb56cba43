//! HTTP/1.1 on the kdb+ port, as far as monitoring pages and q's HTTP handlers need it: Basic authentication, one request at a time.
//! Heads are parsed by `httparse`; what their fields mean is decided here. Pure; the event loop's part is in `reactor::pages`.

use crate::access::Grants;
use crate::kernel::digest::from_base64;
use crate::metrics::health::{Health, Level};
use crate::metrics::{Snapshot, prometheus};
use crate::q::handlers::WebRequest;
use bytes::Bytes;
use jiff::Timestamp;
use jiff::fmt::rfc2822::DateTimePrinter;
use std::sync::Arc;
use std::time::Instant;

/// Page of all metrics.
pub const METRICS: &str = "/metrics";
/// Page with the health of the process.
pub const HEALTH: &str = "/health";
/// Both; `--metrics-open` serves them without a password.
pub const OPEN: &[&str] = &[METRICS, HEALTH];

/// Whether the query of [`HEALTH`] requests a passive process rather than an active one, as a check of a standby does: `role=passive`.
pub fn asks_for_passive(query: &str) -> bool {
    query.split('&').any(|part| part == "role=passive")
}

/// Supported methods: GET, HEAD and, if a handler accepts them, the others.
const METHODS: [&str; 7] = ["GET", "HEAD", "POST", "OPTIONS", "PATCH", "PUT", "DELETE"];

const PLAIN: &str = "text/plain; charset=utf-8";

/// State of an HTTP connection.
#[derive(Debug)]
pub(super) struct Session {
    pub(super) stage: Stage,
    /// Deadline at which it is closed unless it progresses.
    pub(super) by: Instant,
    /// The request that waits for authorisation by another thread.
    pub(super) asked: Option<Box<HttpRequest>>,
    /// The response that another thread makes is sent without its body: HEAD.
    pub(super) head_only: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    /// Between two requests.
    Idle,
    /// A request has begun.
    Reading,
    /// A request waits for another thread: for authorisation, or for its response.
    Asking,
    /// A response is being sent.
    Sending { keep: bool },
    /// The last response was sent; input is read and discarded, because closing with unread input would reset the connection and lose the
    /// response.
    Ending,
}

/// Contents of a response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Page {
    pub status: u16,
    pub content_type: &'static str,
    pub body: Bytes,
}

impl Page {
    /// The metrics page, in Prometheus' text format.
    pub fn metrics(snapshot: &Snapshot) -> Page {
        Page { status: 200, content_type: prometheus::CONTENT_TYPE, body: prometheus::render(snapshot).into() }
    }

    /// The health page: 200, or 503 if the process is of no use, with the reasons.
    pub fn health(health: &Health) -> Page {
        let status = if health.level() == Level::Failed { 503 } else { 200 };
        Page::text(status, &health.to_string())
    }

    /// The page of a handler that failed, with the name of its error as kdb+ writes it.
    pub fn failed(name: &[u8]) -> Page {
        Page::text(500, &format!("'{}", String::from_utf8_lossy(name)))
    }

    /// A plain-text page of one line.
    pub fn text(status: u16, line: &str) -> Page {
        Page { status, content_type: PLAIN, body: format!("{line}\n").into() }
    }
}

/// A parsed request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HttpRequest {
    /// One of `METHODS`.
    pub method: &'static str,
    /// The response has no body.
    pub head_only: bool,
    /// Length of the body that follows the head.
    pub body_bytes: u64,
    /// The body, once received.
    pub body: Vec<u8>,
    /// Target after the first `/`, with the query; not decoded.
    pub target: String,
    /// Path from `/` on, without the query.
    pub path: String,
    /// Header fields in order.
    pub fields: Vec<(Vec<u8>, Vec<u8>)>,
    /// Key of a WebSocket upgrade.
    pub web_key: Option<Vec<u8>>,
    /// User and password; empty if none were given.
    pub credentials: (Vec<u8>, Vec<u8>),
    /// What the user may do, once the login is decided.
    pub grants: Arc<Grants>,
    /// The connection stays open after the response.
    pub keep: bool,
}

impl HttpRequest {
    /// Whether the method is GET or HEAD.
    pub fn is_get(&self) -> bool {
        matches!(self.method, "GET" | "HEAD")
    }

    /// Returns the query behind the path, without the question mark.
    pub fn query(&self) -> &str {
        self.target.split_once('?').map_or("", |(_, query)| query)
    }

    /// Returns the token of `Authorization: Bearer TOKEN`, unless the request has a user and password.
    pub fn bearer(&self) -> Option<Vec<u8>> {
        if !self.credentials.0.is_empty() || !self.credentials.1.is_empty() {
            return None;
        }
        let (_, value) = self.fields.iter().find(|(name, _)| name.eq_ignore_ascii_case(b"authorization"))?;
        let (scheme, token) = value.split_at_checked(7)?;
        scheme.eq_ignore_ascii_case(b"bearer ").then(|| token.trim_ascii().to_vec())
    }

    /// Returns what the audit log shows: the target, and the body behind it, which may hold an expression.
    pub fn shown(&self) -> Vec<u8> {
        match self.body.is_empty() {
            true => self.target.clone().into_bytes(),
            false => [self.target.as_bytes(), b" ", &self.body].concat(),
        }
    }

    /// Returns the request as q's handlers receive it.
    pub fn for_handler(&self) -> WebRequest {
        let target = self.target.clone().into_bytes();
        let text = match self.method {
            "GET" | "HEAD" => target,
            // Handlers cut it at the first space, also without a body.
            method if method != "POST" && self.body.is_empty() => target,
            _ => [&target, b" ".as_slice(), &self.body].concat(),
        };
        WebRequest { method: self.method, text, fields: self.fields.clone() }
    }
}

/// A rejected request. The connection is closed after the response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HttpError {
    pub status: u16,
    pub reason: &'static str,
}

const fn refused(status: u16, reason: &'static str) -> HttpError {
    HttpError { status, reason }
}

/// Maximum number of header fields; browsers and proxies send a few dozen.
const MAX_FIELDS: usize = 128;

/// Parses the request at the start of `bytes`; returns it with the length of its head, or `None` if it is incomplete.
///
/// # Errors
/// A malformed request, or one for an unsupported feature.
pub fn parse(bytes: &[u8]) -> Result<Option<(HttpRequest, usize)>, HttpError> {
    let mut fields = [httparse::EMPTY_HEADER; MAX_FIELDS];
    let mut head = httparse::Request::new(&mut fields);
    match head.parse(bytes) {
        Ok(httparse::Status::Complete(head_bytes)) => Ok(Some((request(&head)?, head_bytes))),
        Ok(httparse::Status::Partial) => Ok(None),
        Err(error) => Err(malformed(error)),
    }
}

const fn malformed(error: httparse::Error) -> HttpError {
    match error {
        httparse::Error::HeaderName => refused(400, "a header field without a name, or its name is no token"),
        httparse::Error::HeaderValue => refused(400, "a control character in a header field"),
        httparse::Error::NewLine => refused(400, "a line does not end with CR LF"),
        httparse::Error::TooManyHeaders => refused(431, "more than 128 header fields"),
        httparse::Error::Version => refused(505, "only HTTP/1.1 and 1.0 are supported"),
        httparse::Error::Token | httparse::Error::Status => {
            refused(400, "the request line must be: method, target, version")
        }
    }
}

/// Meaning of the header fields.
#[derive(Default)]
struct Fields {
    hosts: usize,
    is_chunked: bool,
    body_bytes: Option<u64>,
    upgrades: bool,
    is_web: bool,
    web_key: Option<Vec<u8>>,
    web_version: bool,
    close: bool,
    keep_alive: bool,
    credentials: Option<(Vec<u8>, Vec<u8>)>,
}

impl Fields {
    fn add(&mut self, name: &str, value: &[u8]) -> Result<(), HttpError> {
        match name.to_ascii_lowercase().as_str() {
            "upgrade" => self.is_web |= value.eq_ignore_ascii_case(b"websocket"),
            "sec-websocket-key" => self.web_key = Some(value.to_vec()),
            "sec-websocket-version" => self.web_version |= value == b"13",
            "host" => self.hosts = self.hosts.saturating_add(1),
            "transfer-encoding" => self.is_chunked = true,
            "content-length" => {
                // A proxy in front may have taken another of several lengths, and the rest of the body for the next request.
                if self.body_bytes.is_some() {
                    return Err(refused(400, "more than one content length"));
                }
                self.body_bytes = Some(length(value).ok_or(refused(400, "the content length is not a number"))?);
            }
            "connection" => {
                for option in value.split(|byte| *byte == b',').map(<[u8]>::trim_ascii) {
                    self.close |= option.eq_ignore_ascii_case(b"close");
                    self.upgrades |= option.eq_ignore_ascii_case(b"upgrade");
                    self.keep_alive |= option.eq_ignore_ascii_case(b"keep-alive");
                }
            }
            // Other schemes are left to q's handler, which receives the field.
            "authorization" if value.get(..6).is_some_and(|scheme| scheme.eq_ignore_ascii_case(b"basic ")) => {
                let given = basic(value).ok_or(refused(401, "the user and password are malformed"))?;
                self.credentials = Some(given);
            }
            _ => {}
        }
        Ok(())
    }
}

/// Returns a length of digits only; `parse` alone would take a sign.
fn length(value: &[u8]) -> Option<u64> {
    let digits = std::str::from_utf8(value).ok().filter(|text| text.bytes().all(|byte| byte.is_ascii_digit()))?;
    digits.parse().ok()
}

fn request(head: &httparse::Request<'_, '_>) -> Result<HttpRequest, HttpError> {
    let (Some(method), Some(target), Some(minor)) = (head.method, head.path, head.version) else {
        return Err(malformed(httparse::Error::Token));
    };
    let is_1_1 = minor == 1;
    let mut fields = Fields::default();
    let mut all = Vec::with_capacity(head.headers.len());
    for field in head.headers.iter() {
        let value = field.value.trim_ascii();
        fields.add(field.name, value)?;
        all.push((field.name.as_bytes().to_vec(), value.to_vec()));
    }
    let known = METHODS.into_iter().find(|known| *known == method);
    let method = known.ok_or(refused(405, "this method is not supported"))?;
    let (head_only, has_handler) = (method == "HEAD", !matches!(method, "GET" | "HEAD"));
    // Either may be what a proxy in front has gone by.
    if fields.is_chunked && fields.body_bytes.is_some() {
        return Err(refused(400, "both a content length and a transfer encoding"));
    }
    if has_handler && fields.is_chunked {
        return Err(refused(411, "a request with a body needs a Content-Length"));
    }
    if fields.hosts > 1 || (is_1_1 && fields.hosts == 0) {
        return Err(refused(400, "HTTP/1.1 requires exactly one Host header"));
    }
    let target = local(target).ok_or(refused(400, "the target is not a path"))?;
    let body_bytes = fields.body_bytes.unwrap_or(0);
    let has_body = fields.is_chunked || body_bytes > 0;
    // The body of an upgrade would be taken for frames.
    let is_web = fields.is_web && fields.upgrades && fields.web_version && method == "GET" && is_1_1 && !has_body;
    Ok(HttpRequest {
        method,
        head_only,
        body_bytes: if has_handler { body_bytes } else { 0 },
        body: Vec::new(),
        path: target.split('?').next().unwrap_or(target).to_string(),
        target: target.strip_prefix('/').unwrap_or(target).to_string(),
        web_key: fields.web_key.filter(|_| is_web),
        fields: all,
        credentials: fields.credentials.unwrap_or_default(),
        grants: Arc::default(),
        // The body of a GET or HEAD is not read, so it would be parsed as the next request.
        keep: !fields.close && (has_handler || !has_body) && (is_1_1 || fields.keep_alive),
    })
}

/// Returns `/path?query` from `/path?query` or `http://host/path?query`.
fn local(target: &str) -> Option<&str> {
    let target = match target.strip_prefix("http://") {
        Some(rest) => rest.find('/').and_then(|slash| rest.get(slash..)).unwrap_or("/"),
        None => target,
    };
    target.starts_with('/').then_some(target)
}

/// Returns user and password from `Basic BASE64`.
fn basic(value: &[u8]) -> Option<(Vec<u8>, Vec<u8>)> {
    let (_, coded) = value.split_at_checked(6)?;
    let coded = coded.trim_ascii();
    // With or without padding.
    let digits = coded.strip_suffix(b"==").or_else(|| coded.strip_suffix(b"=")).unwrap_or(coded);
    let plain = from_base64(digits)?;
    let colon = plain.iter().position(|byte| *byte == b':')?;
    let (user, password) = plain.split_at(colon);
    Some((user.to_vec(), password.get(1..).unwrap_or_default().to_vec()))
}

const fn reason(status: u16) -> &'static str {
    match status {
        200 => "OK",
        400 => "Bad Request",
        401 => "Unauthorized",
        403 => "Forbidden",
        404 => "Not Found",
        405 => "Method Not Allowed",
        408 => "Request Timeout",
        411 => "Length Required",
        413 => "Content Too Large",
        426 => "Upgrade Required",
        431 => "Request Header Fields Too Large",
        500 => "Internal Server Error",
        503 => "Service Unavailable",
        505 => "HTTP Version Not Supported",
        _ => "Status",
    }
}

/// Returns a whole response.
pub fn answer(page: &Page, head_only: bool, keep: bool, now: Timestamp) -> Bytes {
    let mut text = format!("HTTP/1.1 {} {}\r\n", page.status, reason(page.status));
    // Dates from the year 10000 on have no such format; the field is optional.
    if let Ok(date) = DateTimePrinter::new().timestamp_to_rfc9110_string(&now) {
        text.push_str(&format!("Date: {date}\r\n"));
    }
    match page.status {
        401 => text.push_str("WWW-Authenticate: Basic realm=\"elastick\"\r\n"),
        405 => text.push_str("Allow: GET, HEAD\r\n"),
        426 => text.push_str("Upgrade: websocket\r\n"),
        _ => {}
    }
    let connection = if keep { "keep-alive" } else { "close" };
    text.push_str(&format!(
        "Content-Type: {}\r\nContent-Length: {}\r\nCache-Control: no-store\r\nConnection: {connection}\r\n\r\n",
        page.content_type,
        page.body.len()
    ));
    let mut bytes = text.into_bytes();
    if !head_only {
        bytes.extend_from_slice(&page.body);
    }
    bytes.into()
}

/// Returns the head of a whole response.
pub fn head_of(response: &Bytes) -> Bytes {
    const END: &[u8] = b"\r\n\r\n";
    match response.windows(END.len()).position(|bytes| bytes == END) {
        Some(at) => response.slice(..at.saturating_add(END.len())),
        None => response.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn good(text: &str) -> HttpRequest {
        let (request, used) = parse(text.as_bytes()).expect("accepted").expect("whole");
        assert_eq!(used, text.len());
        request
    }

    fn status(text: &str) -> u16 {
        parse(text.as_bytes()).expect_err("refused").status
    }

    #[test]
    fn a_request_is_its_path_and_whether_the_connection_stays() {
        let request = good("GET /metrics?x=/y HTTP/1.1\r\nHost: h\r\nAccept: */*\r\n\r\n");
        assert_eq!((request.path.as_str(), request.keep, request.head_only), ("/metrics", true, false));
        assert!(!good("GET / HTTP/1.1\r\nhost:h\r\nConnection: TE, Close\r\n\r\n").keep);
        assert!(!good("GET / HTTP/1.0\r\n\r\n").keep);
        assert!(good("GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n").keep);
        assert!(!good("GET / HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\n\r\n").keep);
        assert!(good("HEAD / HTTP/1.1\nHost: h\n\n").head_only);
        assert_eq!(good("GET http://h:1/health HTTP/1.1\r\nHost: h\r\n\r\n").path, "/health");
        assert_eq!(good("GET http://h HTTP/1.1\r\nHost: h\r\n\r\n").path, "/");
    }

    #[test]
    fn a_request_is_waited_for_until_its_empty_line() {
        let text = "GET /metrics HTTP/1.1\r\nHost: h\r\n\r\n";
        for cut in 0..text.len() {
            assert_eq!(parse(&text.as_bytes()[..cut]), Ok(None), "{cut}");
        }
        let two = [text, text].concat();
        assert_eq!(parse(two.as_bytes()).expect("accepted").expect("whole").1, text.len());
    }

    #[test]
    fn a_malformed_request_is_rejected() {
        for text in [
            "GET /\r\n\r\n",
            "GET  / HTTP/1.1\r\nHost: h\r\n\r\n",
            "GET / HTTP/1.1\r\n\r\n",
            "GET / HTTP/1.1\r\nHost: h\r\nHost: i\r\n\r\n",
            "GET / HTTP/1.1\r\nHost: h\r\n: v\r\n\r\n",
            "GET / HTTP/1.1\r\nHost: h\r\na b: v\r\n\r\n",
            "GET / HTTP/1.1\r\nHost: h\r\nA: b\r\n folded: c\r\n\r\n",
            "GET / HTTP/1.1\r\nHost: h\r\nno colon\r\n\r\n",
            "GET / HTTP/1.1\r\nHost: h\r\nContent-Length: -1\r\n\r\n",
            "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: +1\r\n\r\nx",
            "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: \r\n\r\n",
            "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 1, 1\r\n\r\nx",
            "GET / HTTP/1.1\r\nHost: h\r\nAccept : x\r\n\r\n",
            "GET * HTTP/1.1\r\nHost: h\r\n\r\n",
            "GET /\u{1} HTTP/1.1\r\n",
        ] {
            assert_eq!(status(text), 400, "{text:?}");
        }
        assert_eq!(parse(b"GET /\xff HTTP/1.1\r\nHost: h\r\n\r\n").expect_err("refused").status, 400);
    }

    #[test]
    fn unsupported_options_are_recognised() {
        assert_eq!(status("TRACE / HTTP/1.1\r\nHost: h\r\n\r\n"), 405);
        assert_eq!(status("POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n"), 411);
        assert_eq!(status("GET / HTTP/2.0\r\nHost: h\r\n\r\n"), 505);
        assert_eq!(status("GET / XTTP/1.1\r\nHost: h\r\n\r\n"), 505);
        let bearer = good("GET / HTTP/1.1\r\nHost: h\r\nAuthorization: Bearer x\r\n\r\n");
        assert_eq!(bearer.credentials, (Vec::new(), Vec::new()));
        assert_eq!(status("GET / HTTP/1.1\r\nHost: h\r\nAuthorization: Basic ?\r\n\r\n"), 401);
    }

    #[test]
    fn a_body_whose_end_a_proxy_may_see_elsewhere_is_rejected() {
        for method in ["GET", "POST"] {
            for fields in [
                "Content-Length: 3\r\nContent-Length: 5",
                "Content-Length: 3\r\nContent-Length: 3",
                "Content-Length: 3\r\nTransfer-Encoding: chunked",
                "Transfer-Encoding: chunked\r\nContent-Length: 3",
                "Transfer-Encoding: identity\r\ncontent-length: 0",
            ] {
                assert_eq!(
                    status(&format!("{method} / HTTP/1.1\r\nHost: h\r\n{fields}\r\n\r\n")),
                    400,
                    "{method} {fields}"
                );
            }
        }
        // A chunked body of a GET is not read: nothing behind it is taken for a request.
        assert!(!good("GET / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n").keep);
    }

    #[test]
    fn as_many_fields_are_read_as_fit() {
        let text = |fields: usize| format!("GET / HTTP/1.1\r\nHost: h\r\n{}\r\n", "A: b\r\n".repeat(fields));
        assert_eq!(good(&text(MAX_FIELDS - 1)).fields.len(), MAX_FIELDS);
        assert_eq!(status(&text(MAX_FIELDS)), 431);
    }

    #[test]
    fn a_handlers_argument_is_kept() {
        let request = good("POST /a/b?c=%20d HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\nX-Y: z\r\n\r\n");
        assert_eq!((request.target.as_str(), request.path.as_str()), ("a/b?c=%20d", "/a/b"));
        assert_eq!((request.method, request.body_bytes, request.keep), ("POST", 3, true));
        assert_eq!(request.fields.last(), Some(&(b"X-Y".to_vec(), b"z".to_vec())));
    }

    #[test]
    fn an_upgrade_has_a_key_and_a_version() {
        let text = |version: &str| {
            format!(
                "GET / HTTP/1.1\r\nHost: h\r\nConnection: keep-alive, Upgrade\r\nUpgrade: WebSocket\r\n\
                 Sec-WebSocket-Key: abc\r\nSec-WebSocket-Version: {version}\r\n\r\n"
            )
        };
        assert_eq!(good(&text("13")).web_key.as_deref(), Some(&b"abc"[..]));
        assert_eq!(good(&text("8")).web_key, None);
        assert_eq!(good(&text("13\r\nContent-Length: 1")).web_key, None);
    }

    #[test]
    fn basic_credentials_are_read() {
        for (coded, user, password) in [
            ("YW5uOnNlY3JldA==", "ann", "secret"),
            ("YW5uOnM6OmN0", "ann", "s::ct"),
            ("OnB3", "", "pw"),
            ("dTrDqQ", "u", "é"),
        ] {
            let request = good(&format!("GET / HTTP/1.1\r\nHost: h\r\nAuthorization: basic {coded}\r\n\r\n"));
            assert_eq!(request.credentials, (user.into(), password.into()), "{coded}");
        }
    }

    #[test]
    fn an_answer_says_how_long_it_is_also_without_its_body() {
        let now = Timestamp::from_second(1_700_000_000).expect("a time");
        let whole = answer(&Page::text(200, "ok"), false, true, now);
        assert_eq!(
            std::str::from_utf8(&whole).expect("text"),
            "HTTP/1.1 200 OK\r\nDate: Tue, 14 Nov 2023 22:13:20 GMT\r\nContent-Type: text/plain; charset=utf-8\r\n\
             Content-Length: 3\r\nCache-Control: no-store\r\nConnection: keep-alive\r\n\r\nok\n"
        );
        let head = answer(&Page::text(200, "ok"), true, true, now);
        assert_eq!(whole.strip_suffix(b"ok\n"), Some(&head[..]));
    }

    proptest! {
        #[test]
        fn any_bytes_are_a_request_or_none(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            if let Ok(Some((_, used))) = parse(&bytes) {
                prop_assert!(used <= bytes.len());
            }
        }
    }
}
