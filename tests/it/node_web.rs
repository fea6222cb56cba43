//! HTTP and WebSocket at a node: `.z.ph`, `.z.pp`, `.z.ws`.

use crate::harness::wait_for;
use crate::node_program::with;
use crate::rdb_process::{Scene, ask, refused};
use proto::Value;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

fn connect(port: u16) -> TcpStream {
    let stream = TcpStream::connect(("127.0.0.1", port)).expect("connected");
    stream.set_read_timeout(Some(Duration::from_secs(60))).expect("a time limit");
    stream
}

/// The whole response to a request, until the connection is closed.
fn exchange(scene: &Scene, request: &str) -> String {
    exchange_at(scene.port, request)
}

/// The same for any process.
pub fn exchange_at(port: u16, request: &str) -> String {
    let mut stream = connect(port);
    stream.write_all(request.as_bytes()).expect("sent");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("text");
    answer
}

pub fn get(target: &str, fields: &str) -> String {
    format!("GET {target} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n{fields}\r\n")
}

#[test]
fn pages_are_made_by_the_file() {
    let program = ".z.ph:{.h.hy[`txt] x[0],\"|\",x[1;`Host],\"|\",string .z.u}\n.z.pp:{.h.hy[`txt] reverse x 0}\n";
    let (_files, scene) = with("pages", program, &[]);
    // Base64 of ann:x.
    let page = exchange(&scene, &get("/a/b?c=d%20e", "Authorization: Basic YW5uOng=\r\n"));
    assert!(page.starts_with("HTTP/1.1 200 OK\r\n"), "{page}");
    assert!(page.ends_with("a/b?c=d%20e|localhost|ann"), "{page}");
    let posted = exchange(&scene, "POST /x HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\n\r\nhello");
    assert!(posted.ends_with("olleh x"), "{posted}");
    assert!(exchange(&scene, &get("/metrics", "")).contains("elastick_"));
    assert!(exchange(&scene, &get("/health", "")).starts_with("HTTP/1.1 "));
}

#[test]
fn without_a_handler_pages_show_values_and_nothing_is_posted() {
    let (_files, scene) = with("own-pages", "", &[]);
    let page = exchange(&scene, &get("/?40%2b2", ""));
    assert!(page.starts_with("HTTP/1.1 200 OK\r\n") && page.contains("42"), "{page}");
    assert!(exchange(&scene, &get("/.csv?([]a:1%202)", "")).ends_with("\r\n\r\na\n1\n2"));
    // The rights of a client, and its errors.
    let refused = exchange(&scene, &get("/?first%20read0`:/etc/hostname", ""));
    assert!(refused.starts_with("HTTP/1.1 400 ") && refused.ends_with("'access"), "{refused}");
    let posted = exchange(&scene, "POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 3\r\n\r\n1+1");
    assert!(posted.starts_with("HTTP/1.1 405 "), "{posted}");
    assert!(exchange(&scene, &upgrade("")).starts_with("HTTP/1.1 404 "));
}

#[test]
fn a_page_handler_that_fails_or_never_ends_is_the_servers_fault() {
    let program = ".z.ph:{$[x[0]~\"loop\";while[1b;];'`oops]}\n";
    let (_files, scene) = with("bad-pages", program, &["-T", "1"]);
    assert!(exchange(&scene, &get("/fail", "")).starts_with("HTTP/1.1 500 "));
    assert!(exchange(&scene, &get("/loop", "")).starts_with("HTTP/1.1 500 "));
    assert_eq!(ask(&mut scene.connect(), "1+1"), Value::Long(2));
}

#[test]
fn a_page_handler_has_the_callers_rights() {
    let (_files, scene) = with("page-rights", ".z.ph:{.h.hy[`txt]@[{first read0`:/etc/hostname};0;{x}]}\n", &[]);
    assert!(exchange(&scene, &get("/", "")).ends_with("\r\n\r\naccess"));
}

#[test]
fn page_requests_pass_the_login_handler() {
    let program = ".z.pw:{[u;p]u=`ann}\n.z.ph:{.h.hy[`txt]\"in\"}\n.z.ws:{neg[.z.w]x}\n";
    let (_files, scene) = with("page-login", program, &[]);
    assert!(exchange(&scene, &get("/", "")).starts_with("HTTP/1.1 401 "));
    assert!(exchange(&scene, &upgrade("")).starts_with("HTTP/1.1 401 "));
    assert!(exchange(&scene, &get("/", "Authorization: Basic YW5uOng=\r\n")).ends_with("in"));
}

#[test]
fn other_methods_have_a_handler_of_their_own() {
    let (_files, scene) = with("methods", ".z.pm:{.h.hy[`txt]\"|\"sv(string x 0;x 1;x[2]`Host)}\n", &[]);
    let put = exchange(&scene, "PUT /a?b HTTP/1.1\r\nHost: localhost\r\nContent-Length: 3\r\n\r\nc=1");
    assert!(put.ends_with("PUT|a?b c=1|localhost"), "{put}");
    let options = exchange(&scene, "OPTIONS /a HTTP/1.1\r\nHost: localhost\r\n\r\n");
    assert!(options.ends_with("OPTIONS|a|localhost"), "{options}");
    assert!(
        exchange(&scene, "POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1\r\n\r\n1")
            .starts_with("HTTP/1.1 405 ")
    );
}

#[test]
fn a_handler_names_the_user_of_a_page_request() {
    let program = ".z.ac:{t:x[1;`Token];$[t~enlist\"a\";(1;\"ann\");t~enlist\"b\";(4;\"\");t~enlist\"c\";\
                   (2;\"HTTP/1.1 418 Teapot\\r\\nContent-Length: 2\\r\\n\\r\\nno\");t~enlist\"d\";'`oops;(0;\"\")]}\n\
                   .z.pw:{[u;p]u=`bob}\n.z.ph:{.h.hy[`txt]string .z.u}\n";
    let (_files, scene) = with("authorise", program, &[]);
    let page = |fields: &str| exchange(&scene, &get("/", fields));
    assert!(page("Token: a\r\n").ends_with("\r\n\r\nann"));
    assert!(page("Token: a\r\nAuthorization: Bearer x\r\n").ends_with("\r\n\r\nann"));
    // Base64 of bob:x.
    assert!(page("Token: b\r\nAuthorization: Basic Ym9iOng=\r\n").ends_with("\r\n\r\nbob"));
    assert!(page("Token: b\r\n").starts_with("HTTP/1.1 401 "));
    assert!(page("Token: c\r\n").starts_with("HTTP/1.1 418 Teapot\r\n"));
    for token in ["Token: d\r\n", "Token: e\r\n", ""] {
        assert!(page(token).starts_with("HTTP/1.1 401 "), "{token}");
    }
}

#[test]
fn a_body_has_its_limit() {
    let (_files, scene) = with("post-limit", ".z.pp:{.h.hy[`txt] x 0}\n", &["--limit-http-body", "100"]);
    let posted = exchange(&scene, "POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 101\r\n\r\n");
    assert!(posted.starts_with("HTTP/1.1 413 "), "{posted}");
}

fn upgrade(fields: &str) -> String {
    format!(
        "GET / HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade, close\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n\
         Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n{fields}\r\n"
    )
}

/// A WebSocket client.
pub struct Web(TcpStream);

impl Web {
    fn open(scene: &Scene) -> Web {
        Web::open_at(scene.port)
    }

    pub fn open_at(port: u16) -> Web {
        Web::open_with(port, "")
    }

    /// Opens a connection with these fields in its request.
    pub fn open_with(port: u16, fields: &str) -> Web {
        let mut stream = connect(port);
        stream.write_all(upgrade(fields).as_bytes()).expect("sent");
        let mut head = Vec::new();
        let mut byte = [0];
        while !head.ends_with(b"\r\n\r\n") {
            stream.read_exact(&mut byte).expect("an answer");
            head.push(byte[0]);
        }
        let head = String::from_utf8(head).expect("text");
        assert!(head.starts_with("HTTP/1.1 101 "), "{head}");
        assert!(head.contains("Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n"), "{head}");
        Web(stream)
    }

    pub fn send(&mut self, opcode: u8, payload: &[u8]) {
        let mut frame = vec![0x80 | opcode];
        match payload.len() {
            short @ 0..126 => frame.push(0x80 | short as u8),
            long => {
                frame.push(0x80 | 126);
                frame.extend((long as u16).to_be_bytes());
            }
        }
        let mask = [1, 2, 3, 4];
        frame.extend(mask);
        frame.extend(payload.iter().zip(mask.iter().cycle()).map(|(byte, mask)| byte ^ mask));
        self.0.write_all(&frame).expect("sent");
    }

    pub fn next(&mut self) -> (u8, Vec<u8>) {
        let mut head = [0; 2];
        self.0.read_exact(&mut head).expect("a frame");
        let length = match head[1] {
            126 => {
                let mut long = [0; 2];
                self.0.read_exact(&mut long).expect("a length");
                usize::from(u16::from_be_bytes(long))
            }
            short => usize::from(short),
        };
        let mut payload = vec![0; length];
        self.0.read_exact(&mut payload).expect("a payload");
        (head[0] & 0x0f, payload)
    }
}

#[test]
fn a_web_client_queries_and_gets_a_reply() {
    let program = "here:gone:()\n.z.wo:{here::here,x}\n.z.wc:{gone::gone,x}\n\
                   .z.ws:{neg[.z.w]$[10h=type x;.j.j value x;reverse x]}\n";
    let (_files, mut scene) = with("web", program, &[]);
    let mut client = scene.connect();
    scene.guest.feed("trade", &[3, 4], 0);
    scene.holds(&mut client, 2);
    let mut web = Web::open(&scene);
    web.send(1, b"exec n from trade");
    assert_eq!(web.next(), (1, b"[3,4]".to_vec()));
    web.send(2, &[1, 2, 3]);
    assert_eq!(web.next(), (2, vec![3, 2, 1]));
    let long = vec![b' '; 1000];
    web.send(1, &[b"til 2".to_vec(), long].concat());
    assert_eq!(web.next(), (1, b"[0,1]".to_vec()));
    web.send(9, b"ping");
    assert_eq!(web.next(), (10, b"ping".to_vec()));
    assert_eq!(ask(&mut client, "count here"), Value::Long(1));
    web.send(8, b"");
    assert_eq!(web.next().0, 8);
    wait_for("the end to be told", || (ask(&mut client, "here~gone") == Value::Bool(true)).then_some(()));
}

#[test]
fn a_timer_sends_to_web_clients() {
    let program = "webs:()\n.z.wo:{webs::webs,x}\n.z.wc:{webs::webs except x}\n.z.ws:{x}\n.z.ts:{neg[webs]@\\:\"tick\"}\n\\t 20\n";
    let (_files, scene) = with("web-timer", program, &[]);
    let (mut one, mut two) = (Web::open(&scene), Web::open(&scene));
    assert_eq!((one.next(), two.next()), ((1, b"tick".to_vec()), (1, b"tick".to_vec())));
    drop(one);
    assert_eq!(two.next(), (1, b"tick".to_vec()));
    let mut client = scene.connect();
    wait_for("the other to be forgotten", || (ask(&mut client, "count webs") == Value::Long(1)).then_some(()));
}

#[test]
fn a_web_client_has_a_clients_rights_and_limits() {
    let program = ".z.ws:{neg[.z.w]@[{.Q.s1 value x};x;{\"'\",x}]}\n";
    let (_files, scene) = with("web-rights", program, &["--limit-web-message", "100"]);
    let mut web = Web::open(&scene);
    web.send(1, b"read0 `:/etc/hostname");
    assert_eq!(web.next(), (1, b"'access".to_vec()));
    web.send(1, b".z.ws:{x}");
    assert_eq!(web.next(), (1, b"'access".to_vec()));
    web.send(1, &[b'1'; 101]);
    assert_eq!(web.next(), (8, 1009u16.to_be_bytes().to_vec()));
    assert_eq!(refused(&mut scene.connect(), "1+`a"), "type");
}

#[test]
fn a_protocol_error_of_a_web_client_closes_with_the_reason() {
    let (_files, scene) = with("web-broken", ".z.ws:{neg[.z.w]x}\n", &[]);
    for (opcode, payload, code) in [(1, &b"\xff"[..], 1007u16), (3, b"", 1002), (0, b"of nothing", 1002)] {
        let mut web = Web::open(&scene);
        web.send(opcode, payload);
        assert_eq!(web.next(), (8, code.to_be_bytes().to_vec()), "{opcode}");
    }
    let mut web = Web::open(&scene);
    web.send(8, b"\x03\xe8done");
    assert_eq!(web.next(), (8, b"\x03\xe8done".to_vec()));
}

#[test]
fn a_request_hidden_in_anothers_body_is_not_answered() {
    let (_files, scene) = with("smuggled", ".z.ph:{.h.hy[`txt]\"page\"}\n.z.pp:{.h.hy[`txt]\"posted\"}\n", &[]);
    let hidden = "GET /hidden HTTP/1.1\r\nHost: localhost\r\n\r\n";
    for (method, fields, status) in [
        ("POST", format!("Content-Length: {}\r\nContent-Length: 0\r\n", hidden.len()), 400),
        ("POST", "Content-Length: 0\r\nTransfer-Encoding: chunked\r\n".into(), 400),
        ("POST", "Transfer-Encoding: chunked\r\n".into(), 411),
        ("GET", format!("Content-Length: {}\r\n", hidden.len()), 200),
        ("GET", "Transfer-Encoding: chunked\r\n".into(), 200),
    ] {
        let answers = exchange(&scene, &format!("{method} / HTTP/1.1\r\nHost: localhost\r\n{fields}\r\n{hidden}"));
        assert!(answers.starts_with(&format!("HTTP/1.1 {status} ")), "{answers}");
        assert_eq!(answers.matches("HTTP/1.1 ").count(), 1, "{fields}: {answers}");
    }
}

#[test]
fn pages_of_other_sites_send_nothing() {
    let program = ".z.ph:{n+:1;.h.hy[`txt] string n}\nn:0\n";
    let options = ["--allow-origin", "https://desk.example.com", "--allow-host", "rdb.corp"];
    let (_files, scene) = with("sites", program, &options);
    let status = |request: &str| exchange(&scene, request).split(' ').nth(1).map(str::to_owned).expect("a status");
    for (fields, expected) in [
        ("", "200"),
        ("Origin: https://desk.example.com\r\n", "200"),
        ("Origin: http://evil.example\r\n", "403"),
        ("Origin: null\r\n", "403"),
        ("Referer: http://evil.example/x\r\n", "403"),
        ("Sec-Fetch-Site: cross-site\r\nSec-Fetch-Mode: navigate\r\n", "403"),
    ] {
        assert_eq!(status(&get("/?n", fields)), expected, "{fields}");
    }
    for (host, expected) in [("rdb.corp:5011", "200"), ("evil.example:5011", "403"), ("127.0.0.1:5011", "200")] {
        let request = |path| format!("GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n");
        assert_eq!(status(&request("/?n")), expected, "{host}");
        assert_eq!(status(&request("/health")), "200", "{host}: monitoring needs no name");
    }
    let refused = exchange(&scene, &upgrade("Origin: http://evil.example\r\n"));
    assert!(refused.starts_with("HTTP/1.1 403 ") && refused.contains("--allow-origin"), "{refused}");
    assert_eq!(ask(&mut scene.connect(), "n"), Value::Long(4), "only accepted requests are evaluated");
}
