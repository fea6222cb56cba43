//! Pages for HTTP clients, beside kdb+ clients on the same port.

use super::*;
use crate::access::Users;
use crate::config::Limit;
use crate::metrics::counts::refusals;
use std::collections::BTreeSet;

/// Returns what the server sends until it closes.
fn exchange(server: &Running, request: &str) -> String {
    let mut stream = server.raw();
    stream.write_all(request.as_bytes()).unwrap();
    String::from_utf8(read_to_end(&stream)).unwrap()
}

/// Reads one response and its body, by its content length.
fn one_answer(stream: &mut TcpStream) -> String {
    let mut text = String::new();
    let mut byte = [0; 1];
    while !text.ends_with("\r\n\r\n") {
        stream.read_exact(&mut byte).unwrap();
        text.push(char::from(byte[0]));
    }
    let length = text.lines().find_map(|line| line.strip_prefix("Content-Length: ")).unwrap().parse().unwrap();
    let mut body = vec![0; length];
    stream.read_exact(&mut body).unwrap();
    text + &String::from_utf8(body).unwrap()
}

fn get(path: &str) -> String {
    format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
}

fn with_limits(change: impl FnOnce(&mut Limits)) -> Running {
    let mut limits = Limits::default();
    change(&mut limits);
    Running::with(limits, Box::new(Anyone::new(BTreeSet::new())), None)
}

#[test]
fn a_page_is_served_and_the_connection_closed_on_request() {
    let answer = exchange(&Running::new(), &get("/metrics?x=1"));
    assert!(answer.starts_with("HTTP/1.1 200 OK\r\n") && answer.ends_with("\r\n\r\npage /metrics\n"), "{answer}");
}

#[test]
fn a_connection_is_used_again() {
    let server = Running::new();
    let mut stream = server.raw();
    for _ in 0..3 {
        stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
        assert!(one_answer(&mut stream).ends_with("page /metrics\n"));
    }
    stream.write_all(b"HEAD /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").unwrap();
    let answer = String::from_utf8(read_to_end(&stream)).unwrap();
    assert!(answer.contains("Content-Length: 14\r\n") && answer.ends_with("\r\n\r\n"), "{answer}");
}

#[test]
fn requests_that_come_together_are_answered_in_order() {
    let server = Running::new();
    let mut stream = server.raw();
    let both = "GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\nGET /none HTTP/1.1\r\nHost: localhost\r\n\r\n";
    stream.write_all(both.as_bytes()).unwrap();
    stream.shutdown(std::net::Shutdown::Write).unwrap();
    let answers = String::from_utf8(read_to_end(&stream)).unwrap();
    let places = ["200 OK", "page /metrics", "404 Not Found"].map(|text| answers.find(text).unwrap());
    assert!(places.is_sorted(), "{answers}");
}

#[test]
fn a_request_may_arrive_byte_by_byte() {
    let server = Running::new();
    let mut stream = server.raw();
    stream.set_nodelay(true).unwrap();
    get("/metrics").bytes().for_each(|byte| stream.write_all(&[byte]).unwrap());
    assert!(String::from_utf8(read_to_end(&stream)).unwrap().ends_with("page /metrics\n"));
}

#[test]
fn a_page_larger_than_a_sockets_buffer_arrives_whole() {
    let answer = exchange(&Running::new(), &get("/large"));
    assert_eq!(answer.len() - answer.find("\r\n\r\n").unwrap(), 4 + LARGE_BYTES);
}

#[test]
fn a_malformed_request_gets_an_error_and_affects_no_other_client() {
    let server = Running::new();
    let mut client = server.client();
    for (request, status) in [
        ("GET /metrics\r\n\r\n", "400 "),
        ("GET /metrics HTTP/1.1\r\n\r\n", "400 "),
        ("POST /metrics HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\n\r\nhello", "405 "),
        ("GET /metrics HTTP/3\r\nHost: localhost\r\n\r\n", "505 "),
    ] {
        let answer = exchange(&server, request);
        assert!(answer.starts_with(&format!("HTTP/1.1 {status}")), "{request:?}: {answer}");
        assert!(answer.contains("Connection: close\r\n"), "{answer}");
    }
    assert_eq!(client.request(&Value::chars("hello")).unwrap(), Value::chars("hello"));
}

#[test]
fn a_request_without_end_is_rejected_at_its_limit() {
    let before = refusals(Limit::http_request_bytes);
    let server = with_limits(|limits| limits.http_request_bytes = 1000);
    let answer = exchange(&server, &format!("GET / HTTP/1.1\r\nHost: localhost\r\nX: {}", "x".repeat(1000)));
    assert!(answer.starts_with("HTTP/1.1 431 "), "{answer}");
    assert!(refusals(Limit::http_request_bytes) > before);
}

#[test]
fn a_request_that_takes_too_long_is_cut_off() {
    let before = refusals(Limit::http_time_ns);
    let server = with_limits(|limits| limits.http_time_ns = 50_000_000);
    assert!(exchange(&server, "GET /metrics HTTP/1.1\r\n").starts_with("HTTP/1.1 408 "));
    assert!(refusals(Limit::http_time_ns) > before);
}

#[test]
fn an_idle_http_connection_is_closed() {
    let server = with_limits(|limits| limits.http_idle_ns = 50_000_000);
    let answer = exchange(&server, "GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n");
    assert!(answer.ends_with("page /metrics\n"), "{answer}");
}

#[test]
fn one_client_too_many_gets_the_place_of_one_that_waits() {
    let before = refusals(Limit::http_connections);
    let server = with_limits(|limits| limits.http_connections = 2);
    let mut idle = server.raw();
    idle.write_all(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
    one_answer(&mut idle);
    let begin = || {
        let mut begun = server.raw();
        begun.write_all(b"GET /metrics HTTP/1.1\r\n").unwrap();
        begun
    };
    let (oldest, mut newest) = (begin(), begin());
    assert_eq!(read_to_end(&idle), b"", "a connection without a request is closed first");
    // With no idle connection left, the oldest incomplete request is rejected, so that incomplete requests cannot use up the limit.
    assert!(exchange(&server, &get("/metrics")).starts_with("HTTP/1.1 200 "));
    assert!(read_to_end(&oldest).starts_with(b"HTTP/1.1 503 "));
    assert!(refusals(Limit::http_connections) > before);
    newest.write_all(b"Host: localhost\r\n\r\n").unwrap();
    assert!(one_answer(&mut newest).ends_with("page /metrics\n"));
}

#[test]
fn requests_that_wait_for_pages_leave_places_for_others() {
    let server = with_limits(|limits| limits.http_connections = 4);
    let waiting: Vec<TcpStream> = (0..3)
        .map(|_| {
            let mut stream = server.raw();
            stream.write_all(get("/wait").as_bytes()).unwrap();
            server.expect("waits");
            stream
        })
        .collect();
    assert!(exchange(&server, &get("/wait")).starts_with("HTTP/1.1 503 "));
    for _ in 0..3 {
        assert!(exchange(&server, &get("/metrics")).starts_with("HTTP/1.1 200 "));
    }
    drop(waiting);
}

/// A users file with the user ann.
fn users_file(name: &str) -> std::path::PathBuf {
    let path = std::env::temp_dir().join(format!("elastick-http-{name}-{}", std::process::id()));
    std::fs::write(&path, "ann:secret\n").unwrap();
    path
}

#[test]
fn an_unknown_user_of_a_handler_delays_no_other_request() {
    let path = users_file("verdicts");
    let users = Box::new(Users::read(&path, &BTreeSet::new()).unwrap());
    let server = Running::with(Limits::default(), users, None);
    // The handler decides on both in one iteration.
    let (mut unknown, mut known) = (server.raw(), server.raw());
    unknown.write_all(get("/as/nobody").as_bytes()).unwrap();
    server.expect("asked as nobody");
    known.write_all(get("/as/ann").as_bytes()).unwrap();
    server.expect("asked as ann");
    server.waker.wake().unwrap();
    let statuses = [&unknown, &known].map(|stream| String::from_utf8(read_to_end(stream)).unwrap());
    assert!(statuses[0].starts_with("HTTP/1.1 401 ") && statuses[1].starts_with("HTTP/1.1 404 "), "{statuses:?}");
    std::fs::remove_file(path).unwrap();
}

#[test]
fn users_need_their_password_but_for_open_pages() {
    let path = users_file("users");
    let users = || Box::new(Users::read(&path, &BTreeSet::new()).unwrap());
    let asked = |server: &Running, field: &str| {
        let answer = exchange(server, &format!("GET /metrics HTTP/1.0\r\n{field}\r\n"));
        answer.split(' ').nth(1).unwrap().to_string()
    };
    let closed = Running::with(Limits::default(), users(), None);
    assert_eq!(asked(&closed, ""), "401");
    assert_eq!(asked(&closed, "Authorization: Basic YW5uOndyb25n\r\n"), "401");
    assert_eq!(asked(&closed, "Authorization: Basic YW5uOnNlY3JldA==\r\n"), "200");
    let open = Running::with_open_pages(Limits::default(), users(), None, pages::OPEN);
    assert_eq!(asked(&open, ""), "200");
    assert!(exchange(&open, &get("/large")).starts_with("HTTP/1.1 401 "));
    std::fs::remove_file(path).unwrap();
}
