//! Messages sent by `neg h` to a process that does not read: the session queues them and goes on.

use crate::harness::{Directory, Process, elastick};
use proto::{MessageKind, Value, encode};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};

/// More than the kernel buffers for a connection, so that a part must be queued.
const MANY_BYTES: usize = 60_000_000;

/// Starts a session that opens handle `h` to this test and then runs `program`. Returns the session and the test's end of the connection.
fn connected(name: &str, program: &str) -> (Directory, Process, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("bound").port();
    let directory = Directory::new(name);
    let script = directory.path().join("s.q");
    std::fs::write(&script, format!("h:hopen`::{port}\n{program}")).expect("written");
    let session = Process::start(&mut elastick(&["q", script.to_str().expect("a path")]));
    let (mut peer, _) = listener.accept().expect("a connection");
    let mut login = Vec::new();
    BufReader::new(&mut peer).read_until(0, &mut login).expect("a login");
    peer.write_all(&[3]).expect("accepted");
    (directory, session, peer)
}

fn next(session: &mut Process) -> String {
    session.line(|line| Some(line.to_owned()))
}

/// Reads as many bytes as this message has when encoded, and checks that they are this message.
fn read(peer: &mut TcpStream, kind: MessageKind, value: &Value) {
    let expected = encode::message(kind, value).expect("encodes");
    let mut bytes = vec![0; expected.len()];
    peer.read_exact(&mut bytes).expect("a message");
    assert!(bytes == expected, "another message came, or part of one is missing");
}

/// Reads the two messages that every program here queues: many zero bytes, then "second".
fn read_queued(peer: &mut TcpStream) {
    let zeros = Value::Vector { attr: 0, items: proto::Items::Byte(vec![0; MANY_BYTES]) };
    read(peer, MessageKind::Async, &zeros);
    read(peer, MessageKind::Async, &Value::chars("second"));
}

#[test]
fn async_messages_wait_in_memory_for_a_peer_that_does_not_read() {
    let program = format!(
        "neg[h]{MANY_BYTES}#0x00\nneg[h]\"second\"\n-1\"waiting \",string {}<sum .z.W h;\nneg[h][]\n-1\"sent \",string sum .z.W h;\nh\"third\"\n",
        MANY_BYTES / 4
    );
    let (_files, mut session, mut peer) = connected("outgoing-waits", &program);
    assert_eq!(next(&mut session), "waiting 1");
    read_queued(&mut peer);
    assert_eq!(next(&mut session), "sent 0");
    read(&mut peer, MessageKind::Sync, &Value::chars("third"));
}

#[test]
fn a_sync_message_goes_after_all_that_waits() {
    let program = format!("neg[h]{MANY_BYTES}#0x00\nneg[h]\"second\"\n-1\"asks\";\n-1 h\"third\";\n");
    let (_files, mut session, mut peer) = connected("outgoing-asks", &program);
    assert_eq!(next(&mut session), "asks");
    read_queued(&mut peer);
    read(&mut peer, MessageKind::Sync, &Value::chars("third"));
    peer.write_all(&encode::message(MessageKind::Response, &Value::chars("answer")).expect("encodes")).expect("sent");
    assert_eq!(next(&mut session), "answer");
}

#[test]
fn a_closed_handle_still_sends_what_waits() {
    let program = format!("neg[h]{MANY_BYTES}#0x00\nneg[h]\"second\"\nhclose h\n-1\"closed \",string count .z.W;\n");
    let (_files, mut session, mut peer) = connected("outgoing-closed", &program);
    assert_eq!(next(&mut session), "closed 0");
    read_queued(&mut peer);
    assert_eq!(peer.read(&mut [0; 1]).expect("its end"), 0);
}

#[test]
fn a_peer_that_leaves_ends_the_wait_for_it() {
    let program = format!(
        ".z.pc:{{-1\"left \",string x=h}}\nneg[h]{MANY_BYTES}#0x00\n-1\"waiting\";\n-1@[neg h;::;{{\"'\",x}}];\n"
    );
    let (_files, mut session, peer) = connected("outgoing-left", &program);
    assert_eq!(next(&mut session), "waiting");
    drop(peer);
    assert_eq!(next(&mut session), "'close");
    assert_eq!(next(&mut session), "left 1");
}
