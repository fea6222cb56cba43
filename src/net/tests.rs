//! The event loop with real sockets.

mod http;
mod tls;

use super::client::ClientError;
use super::http::{self as pages, Page};
use super::*;
use crate::access::{Access, Anyone, Check, Grants};
use crate::config::{Address, Limits};
use crate::q::handlers::Verdict;
use proto::{Header, MessageKind, Value, encode};
use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

const PATIENCE: Duration = Duration::from_secs(20);

/// Length of the page `/large`.
const LARGE_BYTES: usize = 20 << 20;

/// Responds to each request with its text. `"later"` gets its response after the next one, `"stop"` ends the loop, `"pause"` pauses its
/// connection until any client sends `"resume"`. A request for `/as/USER` has this user, at the next wake-up;
/// one for `/wait` gets no response.
struct Echo {
    events: mpsc::Sender<String>,
    late: Option<SyncRequest>,
    paused: Option<ConnId>,
    judged: Vec<(ConnId, Verdict)>,
    /// The test is over: the next wake-up ends the loop.
    ends: Arc<AtomicBool>,
}

impl Service for Echo {
    fn opened(&mut self, conn: ConnId, peer: &Peer, _: &mut Control) {
        let subject = peer.certificate().map_or(String::new(), |certificate| format!(" {certificate:?}"));
        let user = peer.user.escape_ascii();
        let _ = self.events.send(format!("opened {} {user} {}{subject}", conn.handle(), peer.capability));
    }

    fn message(&mut self, conn: ConnId, header: &Header, body: &[u8], ctl: &mut Control) {
        let text = body.get(6..).unwrap_or_default().escape_ascii().to_string();
        let _ = self.events.send(format!("message {:?} {}", header.kind, text.chars().take(20).collect::<String>()));
        let answer = message::response(body).unwrap();
        match (text.as_str(), ctl.request()) {
            ("stop", _) => ctl.stop(),
            ("later", request) => self.late = request,
            ("pause", _) => {
                ctl.pause(conn);
                self.paused = Some(conn);
            }
            ("resume", _) => ctl.resume(self.paused.take().unwrap()),
            (_, Some(request)) => {
                ctl.reply(request, answer.clone());
                if let Some(late) = self.late.take() {
                    ctl.reply(late, answer);
                }
            }
            (_, None) => {}
        }
    }

    fn iteration_ended(&mut self, _: &mut Control) {}
    fn writable(&mut self, _: ConnId, _: &mut Control) {}
    fn left(&mut self, conn: ConnId, ctl: &mut Control) {
        let is_told = ctl.peer(conn).is_some_and(|peer| peer.gone.is_set());
        let _ = self.events.send(format!("left {} {is_told}", conn.handle()));
    }
    fn closed(&mut self, _: ConnId, reason: &CloseReason, _: &mut Control) {
        let _ = self.events.send(format!("closed {reason}"));
    }
    fn woken(&mut self, ctl: &mut Control) {
        self.judged.drain(..).for_each(|(conn, verdict)| ctl.judge(conn, verdict));
        if self.ends.load(Ordering::SeqCst) {
            ctl.stop();
        }
    }
    fn deadline(&self) -> Option<Instant> {
        None
    }
    fn timer(&mut self, _: &mut Control) {}
    fn authorise(&mut self, conn: ConnId, request: &pages::HttpRequest, _: &Peer, _: &mut Control) -> bool {
        let Some(user) = request.path.strip_prefix("/as/") else { return false };
        self.judged.push((conn, Verdict::User(user.into())));
        let _ = self.events.send(format!("asked as {user}"));
        true
    }
    fn request(&mut self, _: ConnId, request: &pages::HttpRequest, _: &Peer, _: &mut Control) -> bool {
        let waits = request.path == "/wait";
        if waits {
            let _ = self.events.send("waits".to_string());
        }
        waits
    }
    fn page(&mut self, path: &str, _: &str, _: &mut Control) -> Option<Page> {
        match path {
            pages::METRICS => Some(Page::text(200, &format!("page {path}"))),
            "/large" => Some(Page::text(200, &"x".repeat(LARGE_BYTES - 1))),
            _ => None,
        }
    }
}

struct Running {
    port: u16,
    events: mpsc::Receiver<String>,
    waker: Arc<mio::Waker>,
    ends: Arc<AtomicBool>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl Running {
    fn with(limits: Limits, access: Box<dyn Access>, unix: Option<&std::path::Path>) -> Running {
        Running::with_open_pages(limits, access, unix, &[])
    }

    fn with_open_pages(
        limits: Limits,
        access: Box<dyn Access>,
        unix: Option<&std::path::Path>,
        open: &'static [&'static str],
    ) -> Running {
        Running::started(limits, access, unix, open, None)
    }

    fn started(
        limits: Limits,
        access: Box<dyn Access>,
        unix: Option<&std::path::Path>,
        open: &'static [&'static str],
        door: Option<super::tls::Door>,
    ) -> Running {
        let mut listeners = Listeners::tcp(&"127.0.0.1:0".parse().unwrap()).unwrap();
        if let Some(directory) = unix {
            listeners.unix(directory);
        }
        let (sender, events) = mpsc::channel();
        let ends = Arc::new(AtomicBool::new(false));
        let parts = Parts::new().unwrap();
        let (port, waker) = (listeners.port(), parts.waker());
        let echo = Echo { events: sender, late: None, paused: None, judged: Vec::new(), ends: Arc::clone(&ends) };
        let mut reactor = Reactor::new(parts, listeners, access, NetLimits::of(&limits), echo).unwrap();
        reactor.open_pages(open);
        if let Some(door) = door {
            reactor.set_tls(door.into()).unwrap();
        }
        let thread = Some(std::thread::spawn(move || reactor.run().unwrap()));
        Running { port, events, waker, ends, thread }
    }

    fn new() -> Running {
        Running::with(Limits::default(), Box::new(Anyone::new(BTreeSet::new())), None)
    }

    fn address(&self) -> Address {
        format!("127.0.0.1:{}:ann:pw", self.port).parse().unwrap()
    }

    fn client(&self) -> Client {
        Client::connect(&self.address(), PATIENCE, proto::Limits::default()).unwrap()
    }

    /// A client that has paused its connection, with a message behind that.
    fn paused_client(&self) -> Client {
        let mut client = self.client();
        for message in ["pause", "kept"] {
            client.send_async(&Value::chars(message)).unwrap();
        }
        client.flush().unwrap();
        self.expect("message Async pause");
        client
    }

    fn raw(&self) -> TcpStream {
        let stream = TcpStream::connect(("127.0.0.1", self.port)).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream
    }

    fn expect(&self, start: &str) -> String {
        let by = Instant::now() + PATIENCE;
        loop {
            let left = by.saturating_duration_since(Instant::now());
            let event = self.events.recv_timeout(left).unwrap_or_else(|_| panic!("no event {start:?}"));
            if event.starts_with(start) {
                return event;
            }
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.ends.store(true, Ordering::SeqCst);
        let _ = self.waker.wake();
        if let Some(thread) = self.thread.take() {
            thread.join().unwrap();
        }
    }
}

fn sync(text: &str) -> Vec<u8> {
    encode::message(MessageKind::Sync, &Value::chars(text)).unwrap()
}

fn read_to_end(mut stream: &TcpStream) -> Vec<u8> {
    let mut all = Vec::new();
    let _ = stream.read_to_end(&mut all);
    all
}

#[test]
fn a_question_gets_its_answer() {
    let server = Running::new();
    let mut client = server.client();
    assert_eq!(client.capability(), 6);
    assert_eq!(client.request(&Value::chars("hello")).unwrap(), Value::chars("hello"));
    assert_eq!(server.expect("opened"), "opened 5 ann 6");
}

#[test]
fn the_smaller_capability_is_agreed_on() {
    let server = Running::new();
    let mut stream = server.raw();
    stream.write_all(b"bob:pw\x03\0").unwrap();
    let mut answer = [0; 1];
    stream.read_exact(&mut answer).unwrap();
    assert_eq!((answer, server.expect("opened").as_str()), ([3], "opened 5 bob 3"));
}

#[test]
fn replies_keep_the_order_of_requests() {
    let server = Running::new();
    let mut stream = server.raw();
    stream.write_all(b"\x03\0").unwrap();
    stream.write_all(&[sync("later"), sync("now")].concat()).unwrap();
    let mut answers = vec![0; 1 + 17 + 17];
    stream.read_exact(&mut answers).unwrap();
    assert_eq!((&answers[15..18], &answers[32..35]), (&b"now"[..], &b"now"[..]));
}

#[test]
fn messages_that_come_with_the_handshake_are_answered() {
    let server = Running::new();
    let mut stream = server.raw();
    stream.write_all(&[b"bob:pw\x06\0".to_vec(), sync("early")].concat()).unwrap();
    let mut answer = vec![0; 1 + 8 + 6 + 5];
    stream.read_exact(&mut answer).unwrap();
    assert_eq!(&answer[15..], b"early");
}

#[test]
fn a_message_may_come_byte_by_byte() {
    let server = Running::new();
    let (slow, mut quick) = (server.raw(), server.client());
    for byte in [b"bob:pw\x06\0".to_vec(), sync("slow")].concat() {
        (&slow).write_all(&[byte]).unwrap();
        assert_eq!(quick.request(&Value::chars("quick")).unwrap(), Value::chars("quick"));
    }
    let mut answer = vec![0; 1 + 8 + 6 + 4];
    (&slow).read_exact(&mut answer).unwrap();
    assert_eq!(&answer[15..], b"slow");
}

#[test]
fn a_user_who_is_removed_during_the_login_is_not_admitted() {
    /// A user whose password is right, and who is no user any more.
    struct Removed;
    impl Access for Removed {
        fn check(&self, _: &[u8], _: &[u8]) -> Check {
            Check::Admitted(Arc::new(Grants::everything()))
        }

        fn grants(&self, _: &[u8]) -> Option<Arc<Grants>> {
            None
        }

        fn is_checked(&self) -> bool {
            true
        }
    }
    let server = Running::with(Limits::default(), Box::new(Removed), None);
    let mut stream = server.raw();
    stream.write_all(b"ann:pw\x03\0").unwrap();
    assert_eq!(read_to_end(&stream), b"");
    let mut page = server.raw();
    page.write_all(b"GET /metrics HTTP/1.0\r\n\r\n").unwrap();
    assert!(read_to_end(&page).starts_with(b"HTTP/1.1 401 "));
}

#[test]
fn wrong_passwords_are_rejected_without_a_byte() {
    struct Nobody;
    impl Access for Nobody {
        fn check(&self, user: &[u8], password: &[u8]) -> Check {
            if (user, password) == (b"ann", b"pw") { Check::Admitted(Arc::default()) } else { Check::Refused }
        }

        fn grants(&self, _: &[u8]) -> Option<Arc<Grants>> {
            Some(Arc::default())
        }

        fn is_checked(&self) -> bool {
            true
        }
    }
    let server = Running::with(Limits::default(), Box::new(Nobody), None);
    let stream = server.raw();
    (&stream).write_all(b"ann:no\x06\0").unwrap();
    assert_eq!(read_to_end(&stream), b"");
    assert!(matches!(
        Client::connect(
            &format!("127.0.0.1:{}:bob:pw", server.port).parse().unwrap(),
            PATIENCE,
            proto::Limits::default()
        ),
        Err(ClientError::Refused(_))
    ));
    assert!(server.client().request(&Value::chars("in")).is_ok());
}

#[test]
fn garbage_closes_its_own_connection_only() {
    let server = Running::new();
    let mut good = server.client();
    let before = server.raw();
    (&before).write_all(&[0xff; 3000]).unwrap();
    assert_eq!(read_to_end(&before), b"");
    let after = server.raw();
    (&after).write_all(b"x:\x06\0").unwrap();
    (&after).write_all(&[0xab; 64]).unwrap();
    assert_eq!(read_to_end(&after), [6]);
    assert!(server.expect("closed").contains("byte order"));
    assert!(good.request(&Value::chars("still")).is_ok());
}

#[test]
fn a_length_over_the_limit_closes_the_connection() {
    let server = Running::new();
    let stream = server.raw();
    (&stream).write_all(b"x:\x06\0").unwrap();
    (&stream).write_all(&[1, 0, 0, 0, 0, 0, 0, 0x40, 10, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]).unwrap();
    assert_eq!(read_to_end(&stream), [6]);
    assert!(server.expect("closed").contains("'limit"));
}

#[test]
fn a_question_that_is_no_message_is_answered_before_the_connection_is_closed() {
    let server = Running::new();
    let too_long = [1, 1, 0, 0, 0, 0, 0, 0x40, 10, 0, 0, 0];
    let bomb = [1, 1, 1, 0, 20, 0, 0, 0, 0, 0, 0, 0xc0, 0, 0, 0, 0, 0, 0, 0, 0];
    for question in [&too_long[..], &bomb] {
        let stream = server.raw();
        (&stream).write_all(b"x:\x06\0").unwrap();
        (&stream).write_all(question).unwrap();
        let answer = read_to_end(&stream);
        assert!(answer.get(9..).unwrap_or_default().starts_with(b"\x80limit: "), "{}", answer.escape_ascii());
    }
}

#[test]
fn a_bomb_closes_the_connection() {
    let server = Running::new();
    let stream = server.raw();
    (&stream).write_all(b"x:\x06\0").unwrap();
    // A compressed message of 20 bytes that claims 3 GiB.
    (&stream).write_all(&[1, 0, 1, 0, 20, 0, 0, 0, 0, 0, 0, 0xc0, 0, 0, 0, 0, 0, 0, 0, 0]).unwrap();
    assert_eq!(read_to_end(&stream), [6]);
    assert!(server.expect("closed").contains("'limit"));
}

#[test]
fn compressed_messages_are_understood() {
    let server = Running::new();
    let mut client = server.client();
    let text = "a".repeat(5000);
    let message = proto::compress::compress(&sync(&text)).unwrap();
    let answer = client.request_raw(&message, |_| {}).unwrap();
    assert_eq!(answer.view(&proto::Limits::default()).unwrap().chars(), Some(text.as_bytes()));
}

/// A compressed sync message that a thread decompresses.
fn compressed(first: &str, length: usize) -> Vec<u8> {
    proto::compress::compress_always(&sync(&format!("{first}{}", "x".repeat(length)))).unwrap()
}

/// A server that accepts any ratio of compression.
fn any_ratio() -> Running {
    let limits = Limits { compression_ratio: 1000, ..Limits::default() };
    Running::with(limits, Box::new(Anyone::new(BTreeSet::new())), None)
}

#[test]
fn a_large_compressed_message_keeps_its_place_among_the_others() {
    let server = any_ratio();
    let mut stream = server.raw();
    stream.write_all(b"\x03\0").unwrap();
    let messages = [sync("one"), compressed("two", 200_000), sync("three"), compressed("four", 5 << 20), sync("five")];
    stream.write_all(&messages.concat()).unwrap();
    let starts: Vec<String> = (0..5).map(|_| server.expect("message")).collect();
    let words = ["one", "twox", "three", "fourx", "five"];
    assert!(starts.iter().zip(words).all(|(start, word)| start.contains(word)), "{starts:?}");
    let lengths = [3, 3 + 200_000, 5, 4 + (5 << 20), 4];
    let mut answers = vec![0; 1 + lengths.iter().map(|length| 14 + length).sum::<usize>()];
    stream.read_exact(&mut answers).unwrap();
    assert!(answers.ends_with(b"five"));
}

#[test]
fn a_connection_that_closes_while_its_message_is_decompressed_harms_nobody() {
    let server = any_ratio();
    let mut stream = server.raw();
    stream.write_all(b"\x03\0").unwrap();
    stream.write_all(&compressed("gone", 20 << 20)).unwrap();
    drop(stream);
    let mut client = server.client();
    assert_eq!(client.request(&Value::chars("hello")).unwrap(), Value::chars("hello"));
}

#[test]
fn a_compressed_message_over_the_ratio_is_rejected_and_the_next_one_handled() {
    let server = Running::new();
    let mut stream = server.raw();
    stream.write_all(b"\x03\0").unwrap();
    stream.write_all(&[compressed("bomb", 2 << 20), sync("next")].concat()).unwrap();
    assert!(server.expect("message").ends_with("next"));
}

#[test]
fn messages_over_the_memory_of_all_are_rejected() {
    let limits = Limits { compression_ratio: 1000, pending_bytes: 1 << 20, ..Limits::default() };
    let server = Running::with(limits, Box::new(Anyone::new(BTreeSet::new())), None);
    let mut stream = server.raw();
    stream.write_all(b"\x03\0").unwrap();
    stream.write_all(&[compressed("large", 1 << 20), compressed("small", 200_000)].concat()).unwrap();
    assert!(server.expect("message").contains("small"), "the memory of the first is not held");
}

#[test]
fn connections_over_the_limit_are_closed_at_once() {
    let server =
        Running::with(Limits { connections: 1, ..Limits::default() }, Box::new(Anyone::new(BTreeSet::new())), None);
    let mut first = server.client();
    let second = server.raw();
    assert_eq!(read_to_end(&second), b"");
    assert!(first.request(&Value::chars("first")).is_ok());
}

#[test]
fn a_peer_that_never_shakes_hands_is_dropped() {
    let server = Running::with(
        Limits { handshake_ns: 1_000_000, ..Limits::default() },
        Box::new(Anyone::new(BTreeSet::new())),
        None,
    );
    assert_eq!(read_to_end(&server.raw()), b"");
}

#[test]
fn a_paused_connection_loses_nothing() {
    let server = Running::new();
    let (_paused, mut other) = (server.paused_client(), server.client());
    other.request(&Value::chars("between")).unwrap();
    assert_eq!(server.expect("message"), "message Sync between");
    other.send_async(&Value::chars("resume")).unwrap();
    other.flush().unwrap();
    assert_eq!(server.expect("message Async k"), "message Async kept");
}

#[test]
fn the_end_of_a_paused_connection_is_noticed_and_loses_nothing() {
    let server = Running::new();
    let (paused, mut other) = (server.paused_client(), server.client());
    drop(paused);
    assert_eq!(server.expect("left"), "left 5 true");
    other.send_async(&Value::chars("resume")).unwrap();
    other.flush().unwrap();
    assert_eq!(server.expect("message Async k"), "message Async kept");
    assert_eq!(server.expect("closed"), "closed closed by the peer");
}

#[test]
fn a_handle_is_given_again_a_connection_is_not() {
    let server = Running::new();
    drop(server.client());
    assert_eq!(server.expect("opened"), "opened 5 ann 6");
    server.expect("closed");
    let _client = server.client();
    assert_eq!(server.expect("opened"), "opened 5 ann 6");
}

#[test]
fn queued_messages_are_sent_before_the_loop_ends() {
    let server = Running::new();
    let stream = server.raw();
    (&stream).write_all(&[b"x:\x06\0".to_vec(), sync("last"), sync("stop")].concat()).unwrap();
    assert_eq!(&read_to_end(&stream)[15..], b"last");
}

#[test]
fn unix_sockets_are_found_where_kdb_clients_look() {
    let directory = std::env::temp_dir().join(format!("elastick-net-{}", std::process::id()));
    std::fs::create_dir_all(&directory).unwrap();
    let server = Running::with(Limits::default(), Box::new(Anyone::new(BTreeSet::new())), Some(&directory));
    let path = directory.join(format!("kx.{}", server.port));
    let address =
        Address { host: directory.display().to_string(), port: server.port, user: "u".into(), ..Address::default() };
    let mut by_name = Client::connect(&address, PATIENCE, proto::Limits::default()).unwrap();
    assert!(by_name.request(&Value::chars("abstract")).is_ok());
    let mut by_path = std::os::unix::net::UnixStream::connect(&path).unwrap();
    by_path.write_all(b"p:\x03\0").unwrap();
    let mut answer = [0; 1];
    by_path.read_exact(&mut answer).unwrap();
    assert_eq!(answer, [3]);
    drop(server);
    assert!(!path.exists());
    std::fs::remove_dir_all(&directory).unwrap();
}

#[test]
fn a_peer_that_does_not_read_its_answers_is_not_read_either() {
    let server = Running::with(
        Limits { outbox_bytes: 1 << 20, ..Limits::default() },
        Box::new(Anyone::new(BTreeSet::new())),
        None,
    );
    let stream = server.raw();
    (&stream).write_all(b"x:\x06\0").unwrap();
    stream.set_write_timeout(Some(Duration::from_millis(200))).unwrap();
    let question = sync(&"q".repeat(100_000));
    // Stops once all buffers on both sides are full; the server buffers at most twice its limit.
    let mut asked = 0usize;
    while (&stream).write_all(&question).is_ok() {
        asked += question.len();
        assert!(asked < 200 << 20, "the server takes everything");
    }
    assert!(server.client().request(&Value::chars("other")).is_ok());
}

#[test]
fn bytes_of_a_broken_connection_no_longer_count_as_buffered() {
    let parts = Parts::new().unwrap();
    let poll = mio::Poll::new().unwrap();
    let mut ctl = Control::new(poll.registry().try_clone().unwrap(), parts.waker(), NetLimits::of(&Limits::default()));
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    stream.set_nonblocking(true).unwrap();
    let ip = stream.peer_addr().unwrap().ip();
    let conn = ctl.insert(stream::Stream::tcp(mio::net::TcpStream::from_std(stream)), ip, true).unwrap();
    drop(listener.accept().unwrap());
    // More chunks than one write takes. The peer is gone: its system resets the connection at the first write, and the next one fails.
    for _ in 0..200 {
        ctl.send(conn, bytes::Bytes::from_static(b"unread"));
    }
    ctl.write(conn);
    assert_eq!(ctl.outboxes_bytes(), ctl.outbox_bytes(conn));
    ctl.remove(conn).unwrap();
    assert_eq!(ctl.outboxes_bytes(), 0);
}
