//! The event loop's part of HTTP. A connection whose first bytes are an HTTP request is kept apart from kdb+ clients: it has its own limits
//! of number, size and time, and the service sees only its requests.

use super::checks::{Attempt, Checked};
use super::{Login, Reactor, Service};
use crate::access::{Grants, Role};
use crate::config::Limit;
use crate::metrics::{self, Id};
use crate::net::http::{self, Page, Session, Stage};
use crate::net::sites::Sites;
use crate::net::{CloseReason, ConnId, Peer};
use crate::q::handlers::Verdict;
use jiff::Timestamp;
use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Time limit of a response from another thread, which has limits of its own.
const ASKING: Duration = Duration::from_secs(3600);
/// Time limit for the peer to close after the last response.
const ENDING: Duration = Duration::from_secs(2);

/// Why most logins are rejected.
const WRONG: &str = "wrong user or password";

/// Why a request is rejected whose record is required.
const UNRECORDED: &str = "the audit log cannot be written";

impl<S: Service> Reactor<S> {
    /// Sets the pages that need no authentication.
    pub fn open_pages(&mut self, paths: &'static [&'static str]) {
        self.open_pages = paths;
    }

    /// Sets the web pages that may send requests. None but the process's own may before.
    pub fn set_sites(&mut self, sites: Sites) {
        self.sites = sites;
    }

    /// Turns a connection whose login bytes begin a request into an HTTP connection.
    pub(super) fn begin_http(&mut self, conn: ConnId) {
        if self.control.sessions.len() >= self.control.limits.http_connections && !self.make_room() {
            return self.refuse_session(conn);
        }
        let by = self.control.now;
        if let Some(connection) = self.control.get_mut(conn) {
            connection.http = Some(Session { stage: Stage::Reading, by, asked: None, head_only: false });
        }
        self.enter(conn, Stage::Reading);
        self.answer_next(conn);
    }

    /// Closes a connection over a limit; the page with the reason is written only if the socket accepts it at once.
    fn turn_away(&mut self, conn: ConnId, status: u16, why: String) {
        metrics::count(Id::HttpRequests);
        self.control.send(conn, http::answer(&Page::text(status, &why), false, false, Timestamp::now()));
        self.control.close_with(conn, CloseReason::Limit(why));
    }

    /// Closes a connection that is between requests, or else the oldest unfinished request of the address with the most of them: clients that
    /// never finish theirs keep nobody away. Returns false if there is none.
    fn make_room(&mut self) -> bool {
        let idle = self.first_session(|conn| self.stage(conn) == Some(Stage::Idle));
        let Some((by, conn)) = idle.or_else(|| self.oldest_unfinished()) else { return false };
        let is_unfinished = self.stage(conn) == Some(Stage::Reading);
        self.control.sessions.remove(&(by, conn));
        if is_unfinished {
            self.refuse_session(conn);
        } else {
            self.control.close_with(conn, CloseReason::Service("closed to make room for another HTTP client".into()));
        }
        true
    }

    fn refuse_session(&mut self, conn: ConnId) {
        metrics::refused(Limit::http_connections);
        let most = self.control.limits.http_connections;
        self.turn_away(conn, 503, format!("{most} HTTP connections are open (--limit-http-connections)"));
    }

    fn first_session(&self, is_it: impl Fn(ConnId) -> bool) -> Option<(Instant, ConnId)> {
        self.control.sessions.iter().find(|(_, conn)| is_it(*conn)).copied()
    }

    /// Also connections that have only to be closed by their client.
    fn oldest_unfinished(&self) -> Option<(Instant, ConnId)> {
        let is_unfinished = |conn: ConnId| matches!(self.stage(conn), Some(Stage::Reading | Stage::Ending));
        let ip = |conn: ConnId| self.control.get(conn).map(|connection| connection.ip);
        let mut counts: HashMap<Option<IpAddr>, usize> = HashMap::new();
        for (_, conn) in self.control.sessions.iter().filter(|(_, conn)| is_unfinished(*conn)) {
            let count = counts.entry(ip(*conn)).or_default();
            *count = count.saturating_add(1);
        }
        let (most, _) = counts.into_iter().max_by_key(|(_, count)| *count)?;
        self.first_session(|conn| is_unfinished(conn) && ip(conn) == most)
    }

    /// Enters a stage and sets its deadline.
    fn enter(&mut self, conn: ConnId, stage: Stage) {
        let time = match stage {
            Stage::Idle => self.control.limits.http_idle,
            Stage::Reading | Stage::Sending { .. } => self.control.limits.http_time,
            Stage::Asking => ASKING,
            Stage::Ending => ENDING,
        };
        let by = self.control.now.checked_add(time).unwrap_or(self.control.now);
        let Some(session) = self.control.get_mut(conn).and_then(|connection| connection.http.as_mut()) else { return };
        session.stage = stage;
        let before = std::mem::replace(&mut session.by, by);
        self.control.sessions.remove(&(before, conn));
        self.control.sessions.insert((by, conn));
    }

    fn stage(&self, conn: ConnId) -> Option<Stage> {
        Some(self.control.get(conn)?.http.as_ref()?.stage)
    }

    /// Reads once. Returns the bytes read.
    pub(super) fn read_http(&mut self, conn: ConnId) -> usize {
        if self.stage(conn) == Some(Stage::Idle) {
            // The next request may have arrived with the previous one.
            self.answer_next(conn);
        }
        let Some(stage) = self.stage(conn) else { return 0 };
        if stage == Stage::Asking && self.leaves(conn) {
            self.control.close_with(conn, CloseReason::Peer);
            return 0;
        }
        if matches!(stage, Stage::Asking | Stage::Sending { .. }) {
            // Read again after the response has left.
            return 0;
        }
        let mut buffer = [0u8; 4096];
        let Some(read) = self.read_once(conn, &mut buffer) else { return 0 };
        if stage != Stage::Ending {
            if let Some(connection) = self.control.get_mut(conn) {
                connection.login.extend_from_slice(buffer.get(..read).unwrap_or_default());
            }
            self.answer_next(conn);
        }
        read
    }

    /// Handles the next request, if it is complete.
    fn answer_next(&mut self, conn: ConnId) {
        let (most, most_body) = (self.control.limits.http_request_bytes, self.control.limits.http_body_bytes);
        let Some(connection) = self.control.get_mut(conn) else { return };
        let Some(session) = &connection.http else { return };
        let begins = session.stage == Stage::Idle && !connection.login.is_empty();
        let parsed = http::parse(&connection.login);
        let length =
            parsed.as_ref().map_or(0, |parsed| parsed.as_ref().map_or(connection.login.len(), |(_, used)| *used));
        if length > most {
            metrics::refused(Limit::http_request_bytes);
            return self.send_page(conn, &Page::text(431, "the request line and headers are too long"), false, false);
        }
        match parsed {
            Ok(Some((mut request, used))) => {
                let body = usize::try_from(request.body_bytes).unwrap_or(usize::MAX);
                if body > most_body {
                    metrics::refused(Limit::http_body_bytes);
                    return self.send_page(conn, &Page::text(413, "the body is too long"), false, false);
                }
                let whole = used.saturating_add(body);
                if connection.login.len() >= whole {
                    request.body = connection.login.get(used..whole).unwrap_or_default().to_vec();
                    connection.login.drain(..whole);
                    self.asked(conn, request);
                } else if begins {
                    self.enter(conn, Stage::Reading);
                }
            }
            Ok(None) if begins => self.enter(conn, Stage::Reading),
            Ok(None) => {}
            Err(refusal) => self.send_page(conn, &Page::text(refusal.status, refusal.reason), false, false),
        }
    }

    /// Authorises a complete request, then serves it.
    fn asked(&mut self, conn: ConnId, request: http::HttpRequest) {
        let is_plain = request.is_get() && request.web_key.is_none();
        if is_plain && self.open_pages.contains(&request.path.as_str()) {
            return self.serve(conn, &request);
        }
        // Monitoring may use any name of the machine, and its pages change nothing.
        let is_monitoring = is_plain && http::OPEN.contains(&request.path.as_str());
        if let Some(reason) = self.sites.refusal(&request, self.checks.is_checked() || is_monitoring) {
            return self.refuse_site(conn, &request, reason);
        }
        let Some(peer) = self.peer_of(conn, &request) else { return };
        match self.service.authorise(conn, &request, &peer, &mut self.control) {
            true => self.wait(conn, request),
            false => self.basic(conn, request),
        }
    }

    fn refuse_site(&mut self, conn: ConnId, request: &http::HttpRequest, reason: &str) {
        let shown = |name: &str| {
            let own = request.fields.iter().find(|(own, _)| own.eq_ignore_ascii_case(name.as_bytes()));
            own.map(|(_, value)| value.escape_ascii().to_string())
        };
        let (host, origin, referer) = (shown("host"), shown("origin"), shown("referer"));
        tracing::warn!(path = %request.path.escape_debug(), host, origin, referer, "HTTP request rejected: {reason}");
        let page = Page::text(403, reason);
        self.audit_nobodys_page(conn, request, reason, page.body.len());
        self.send_page(conn, &page, request.head_only, false);
    }

    /// Authorises by user and password.
    fn basic(&mut self, conn: ConnId, mut request: http::HttpRequest) {
        if self.checks.takes_tokens()
            && let Some(token) = request.bearer()
        {
            request.credentials = (Vec::new(), token);
        }
        let Some(ip) = self.control.get(conn).map(|connection| connection.ip) else { return };
        let (user, password) = &request.credentials;
        let attempt = Attempt { conn, ip, user: user.clone() };
        match self.checks.check(&attempt, password, self.control.now) {
            // A node that has not proved itself: on this connection it cannot.
            Checked::Admitted(grants) if *grants == Grants::default() => self.refuse_user(conn, &request, WRONG),
            Checked::Admitted(grants) => self.ask_about_user(conn, request, grants),
            Checked::Refused(reason) => self.refuse_user(conn, &request, reason),
            Checked::Later => self.wait(conn, request),
        }
    }

    /// Continues the waiting request after the check of its password.
    pub(super) fn page_checked(&mut self, conn: ConnId, checked: Checked) {
        let session = self.control.get_mut(conn).and_then(|connection| connection.http.as_mut());
        let Some(request) = session.and_then(|session| session.asked.take()) else { return };
        match checked {
            Checked::Admitted(grants) => self.ask_about_user(conn, *request, grants),
            Checked::Refused(reason) => self.refuse_user(conn, &request, reason),
            Checked::Later => self.wait(conn, *request),
        }
    }

    /// Lets the service decide on a user whose password is right.
    fn ask_about_user(&mut self, conn: ConnId, mut request: http::HttpRequest, grants: Arc<Grants>) {
        if let Some(identity) = &grants.identity {
            request.credentials.0.clone_from(&identity.user);
        }
        let (user, password) = &request.credentials;
        let login = self.service.login(conn, user, password, &mut self.control);
        request.grants = grants;
        match login {
            Login::Admitted => self.serve_user(conn, request),
            Login::Later => self.wait(conn, request),
        }
    }

    /// Keeps the request while another thread decides on it.
    fn wait(&mut self, conn: ConnId, request: http::HttpRequest) {
        self.enter(conn, Stage::Asking);
        if let Some(session) = self.control.get_mut(conn).and_then(|connection| connection.http.as_mut()) {
            session.asked = Some(Box::new(request));
        }
    }

    fn peer_of(&self, conn: ConnId, request: &http::HttpRequest) -> Option<Peer> {
        let connection = self.control.get(conn)?;
        let user = request.credentials.0.clone();
        let grants = Arc::clone(&request.grants);
        let tls = connection.secured();
        let gone = connection.gone.clone();
        Some(Peer {
            user,
            ip: connection.ip,
            capability: 0,
            explains: false,
            local: connection.local,
            tls,
            grants,
            gone,
        })
    }

    /// Continues the requests that another thread has decided on.
    pub(super) fn finish_verdicts(&mut self) {
        for (conn, verdict) in std::mem::take(&mut self.control.judged) {
            let session = self.control.get_mut(conn).and_then(|connection| connection.http.as_mut());
            let Some(mut request) = session.and_then(|session| session.asked.take()) else { continue };
            match verdict {
                Verdict::Refused => self.refuse_user(conn, &request, WRONG),
                Verdict::Basic => self.basic(conn, *request),
                Verdict::User(user) => {
                    let Some(grants) = self.checks.grants(&user) else {
                        self.refuse_user(conn, &request, WRONG);
                        continue;
                    };
                    request.grants = grants;
                    request.credentials = (user, Vec::new());
                    self.serve(conn, &request);
                }
                Verdict::Answer(_) if self.control.audit.admits().is_err() => {
                    self.send_page(conn, &Page::text(503, UNRECORDED), false, false);
                }
                Verdict::Answer(answer) => {
                    self.audit_answer(conn, &request, &answer);
                    metrics::count(Id::HttpRequests);
                    self.enter(conn, Stage::Sending { keep: false });
                    self.control.send(conn, answer.into());
                }
            }
        }
    }

    /// Continues the waiting request after the decision on its user.
    pub(super) fn page_admitted(&mut self, conn: ConnId, admitted: bool) {
        let session = self.control.get_mut(conn).and_then(|connection| connection.http.as_mut());
        let Some(request) = session.and_then(|session| session.asked.take()) else { return };
        match admitted {
            true => self.serve_user(conn, *request),
            false => self.refuse_user(conn, &request, WRONG),
        }
    }

    fn refuse_user(&mut self, conn: ConnId, request: &http::HttpRequest, reason: &str) {
        let (user, password) = &request.credentials;
        metrics::count(Id::LoginsRefused);
        // Browsers first send no password, to find out whether one is needed.
        if !user.is_empty() || !password.is_empty() {
            let ip = self.control.get(conn).map(|connection| connection.ip.to_string()).unwrap_or_default();
            tracing::warn!(%ip, user = %user.escape_ascii(), "HTTP request rejected: {reason}");
            self.audit_refused(conn, user, reason);
        }
        self.send_page(conn, &Page::text(401, "a user and password are required"), request.head_only, request.keep);
    }

    /// Returns why this user gets no WebSocket, which is a connection like any other.
    fn refusal_of_web(&self, conn: ConnId, peer: &Peer) -> Option<Page> {
        if !self.service.takes_web() {
            return Some(Page::text(404, "WebSocket is not supported here"));
        }
        if !peer.grants.has(Role::Query) {
            return Some(Page::text(403, "a WebSocket needs the role query"));
        }
        if self.control.audit.admits().is_err() {
            return Some(Page::text(503, UNRECORDED));
        }
        let why = self.refusal_of_user(&peer.user, &peer.grants)?;
        self.audit_refused(conn, &peer.user, &why);
        Some(Page::text(503, &why))
    }

    /// Serves a request whose user is known.
    fn serve_user(&mut self, conn: ConnId, mut request: http::HttpRequest) {
        // The users file may have changed while the request waited.
        let now = self.peer_of(conn, &request).and_then(|peer| self.checks.current(&peer));
        match now {
            Some(grants) => {
                request.grants = grants;
                self.serve(conn, &request);
            }
            None => self.refuse_user(conn, &request, WRONG),
        }
    }

    /// Serves an authorised request.
    fn serve(&mut self, conn: ConnId, request: &http::HttpRequest) {
        let Some(peer) = self.peer_of(conn, request) else { return };
        if let Some(key) = &request.web_key {
            return match self.refusal_of_web(conn, &peer) {
                Some(page) => {
                    self.audit_page(conn, &peer, request, page.status, page.body.len());
                    self.send_page(conn, &page, false, request.keep);
                }
                None => self.begin_web(conn, key, peer),
            };
        }
        let may_watch = peer.grants.has(Role::Query) || peer.grants.has(Role::Operator);
        if request.is_get() && request.path == http::METRICS && !self.open_pages.contains(&http::METRICS) && !may_watch
        {
            let page = Page::text(403, "this page needs the role query or operator, or --metrics-open");
            self.audit_page(conn, &peer, request, page.status, page.body.len());
            return self.send_page(conn, &page, request.head_only, request.keep);
        }
        let (path, query) = (&request.path, request.query());
        let page = if request.is_get() { self.service.page(path, query, &mut self.control) } else { None };
        let page = match page {
            Some(page) => page,
            None if !peer.grants.has(Role::Query) => Page::text(403, "this page needs the role query"),
            None if self.control.audit.admits().is_err() => Page::text(503, UNRECORDED),
            None if self.is_busy() => {
                metrics::refused(Limit::http_connections);
                Page::text(503, "three quarters of the HTTP connections wait for pages (--limit-http-connections)")
            }
            None if self.service.request(conn, request, &peer, &mut self.control) => {
                if let Some(session) = self.control.get_mut(conn).and_then(|connection| connection.http.as_mut()) {
                    session.head_only = request.head_only;
                }
                return self.enter(conn, Stage::Asking);
            }
            None if !request.is_get() => Page::text(405, "this request is not supported"),
            None => Page::text(404, "no such page; there are /metrics and /health"),
        };
        if !self.open_pages.contains(&request.path.as_str()) {
            self.audit_page(conn, &peer, request, page.status, page.body.len());
        }
        self.send_page(conn, &page, request.head_only, request.keep && request.is_get());
    }

    /// Sends responses made by other threads.
    pub(super) fn finish_pages(&mut self) {
        for (conn, answer) in std::mem::take(&mut self.control.pages) {
            if self.stage(conn) != Some(Stage::Asking) {
                continue;
            }
            let session = self.control.get(conn).and_then(|connection| connection.http.as_ref());
            let head_only = session.is_some_and(|session| session.head_only);
            match answer {
                Ok(answer) => {
                    metrics::count(Id::HttpRequests);
                    // The handler's `Connection` field is not parsed, so close.
                    self.enter(conn, Stage::Sending { keep: false });
                    self.control.send(conn, if head_only { http::head_of(&answer) } else { answer });
                }
                Err(page) => self.send_page(conn, &page, head_only, false),
            }
        }
    }

    fn send_page(&mut self, conn: ConnId, page: &Page, head_only: bool, keep: bool) {
        metrics::count(Id::HttpRequests);
        self.enter(conn, Stage::Sending { keep });
        self.control.send(conn, http::answer(page, head_only, keep, Timestamp::now()));
    }

    /// Continues after a write that has emptied the send buffer.
    pub(super) fn http_written(&mut self, conn: ConnId) {
        let Some(Stage::Sending { keep }) = self.stage(conn) else { return };
        let Some(connection) = self.control.get_mut(conn).filter(|connection| connection.unsent_bytes() == 0) else {
            return;
        };
        if keep {
            self.enter(conn, Stage::Idle);
        } else {
            connection.login = Vec::new();
            // If the peer is gone, the next read reports it.
            let _ = connection.stream.shutdown_write();
            self.enter(conn, Stage::Ending);
        }
        self.control.queue_read(conn);
    }

    /// Whether so many requests wait for pages of q that the last connections must be left to `/health` and `/metrics`.
    fn is_busy(&self) -> bool {
        let most = self.control.limits.http_connections;
        let waits = |conn: ConnId| {
            let session = self.control.get(conn).and_then(|connection| connection.http.as_ref());
            session.is_some_and(|session| session.stage == Stage::Asking && session.asked.is_none())
        };
        let waiting = self.control.sessions.iter().filter(|(_, conn)| waits(*conn)).count();
        waiting >= most.saturating_sub(most / 4)
    }

    /// Closes sessions past their deadline.
    pub(super) fn drop_slow_sessions(&mut self) {
        while let Some((by, conn)) = self.control.sessions.first().copied() {
            if by > self.control.now {
                return;
            }
            self.control.sessions.pop_first();
            match self.stage(conn) {
                Some(Stage::Idle) => metrics::refused(Limit::http_idle_ns),
                Some(Stage::Reading) => {
                    metrics::refused(Limit::http_time_ns);
                    let time = self.control.limits.http_time;
                    self.turn_away(conn, 408, format!("no complete request within {time:?} (--limit-http-time)"));
                }
                Some(Stage::Asking | Stage::Sending { .. }) => metrics::refused(Limit::http_time_ns),
                Some(Stage::Ending) | None => {}
            }
            self.control.close_with(conn, CloseReason::Service("HTTP timeout".into()));
        }
    }
}
