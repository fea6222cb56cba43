//! A node's handles: sync calls from the node to its clients, and connections that the node has opened.

use crate::harness::{Directory, wait_for};
use crate::node_program::{list, pushed, sym, tell, until, with};
use crate::rdb_process::{Scene, ask, refused};
use crate::rdb_support::{Door, Guest};
use elastick::net::client::{Client, ClientError};
use proto::{MessageKind, Value, encode};
use std::io::Write;
use std::net::TcpListener;

fn handle_of(client: &mut Client) -> i32 {
    match ask(client, ".z.w") {
        Value::Int(handle) => handle,
        other => panic!("{other:?}"),
    }
}

fn answer(value: &Value) -> Vec<u8> {
    encode::message(MessageKind::Response, value).expect("encodes")
}

/// Sends a query and replies to the calls that come back before its reply.
fn ask_answering(client: &mut Client, question: &str, with: &Value) -> Value {
    let mut out = client.outgoing().expect("a socket");
    let question = encode::message(MessageKind::Sync, &Value::chars(question)).expect("encodes");
    let mut asked = 0;
    let answered = client.request_raw(&question, |incoming| {
        assert_eq!(incoming.header.kind, MessageKind::Sync);
        asked += 1;
        out.send(&answer(with)).expect("sent");
    });
    assert_eq!(asked, 1);
    let answered = answered.expect("answered");
    proto::decode::object(&answered.body, answered.header.endian, &proto::Limits::default()).expect("an object").0
}

/// A live node whose start-up file has connected to the test.
fn with_peer(name: &str, program: &str, options: &[&str]) -> (Directory, Scene, Guest) {
    let door = Door::open();
    let program = format!("h:hopen`::{}\n{program}", door.port());
    let accepted = std::thread::spawn(move || door.accept());
    let (files, scene) = with(name, &program, options);
    (files, scene, accepted.join().expect("no panic"))
}

const SOCKETS: [&str; 2] = ["--remote-may", "sockets"];

#[test]
fn a_client_can_be_called_back_during_its_own_query() {
    let (_files, scene) = with("ask-back", "back:{1+.z.w x}\n", &[]);
    let mut client = scene.connect();
    assert_eq!(ask_answering(&mut client, "back`question", &Value::Long(41)), Value::Long(42));
    // An evaluation that assigns is restarted; the call must still be sent only once.
    assert_eq!(ask_answering(&mut client, "{kept::back x;kept}`question", &Value::Long(6)), Value::Long(7));
}

#[test]
fn clients_that_do_not_respond_hold_no_query_thread() {
    let options = ["-s", "1", "--limit-client-wait", "2s", "--limit-client-waits", "3"];
    let (_files, scene) = with("ask-idle", "back:{.z.w x}\n", &options);
    let mut idle: Vec<_> = (0..3).map(|_| scene.connect()).collect();
    let by = || Some(std::time::Instant::now() + std::time::Duration::from_secs(60));
    for client in &mut idle {
        client
            .send_raw(&proto::encode::message(MessageKind::Sync, &Value::chars("back\"1+1\"")).expect("a message"))
            .expect("sent");
        client.flush().expect("sent");
        client.next_message(by()).expect("the connection lives").expect("a question");
    }
    let mut other = scene.connect();
    assert_eq!(ask(&mut other, "1+1"), Value::Long(2));
    assert!(refused(&mut other, "back\"1+1\"").starts_with("limit"));
    for client in &mut idle {
        let ended = client.next_message(by()).expect("the connection lives").expect("a response");
        assert_eq!((ended.header.kind, &ended.body[..9]), (MessageKind::Response, &b"\x80timeout\0"[..]));
    }
}

#[test]
fn a_deferred_response_can_be_sent_while_its_query_waits_for_a_client() {
    let program = "ask:{-30!(::);neg[peer]`go;peer\"1+1\";`late}\nfree:{-30!(x;0b;7)}\njoin:{peer::.z.w}\n";
    let (_files, scene) = with("ask-deferred", program, &SOCKETS);
    let (mut client, mut peer, mut other) = (scene.connect(), scene.connect(), scene.connect());
    ask(&mut peer, "join[]");
    let handle = handle_of(&mut client);
    let by = || Some(std::time::Instant::now() + std::time::Duration::from_secs(60));
    let answered = std::thread::scope(|scope| {
        let waiting = scope.spawn(|| client.query("ask[]"));
        // The message that makes another client respond has left before the query waits.
        assert_eq!(peer.next_message(by()).expect("connected").expect("a message").header.kind, MessageKind::Async);
        assert_eq!(peer.next_message(by()).expect("connected").expect("a question").header.kind, MessageKind::Sync);
        ask(&mut other, &format!("free {handle}"));
        let answered = waiting.join().expect("no panic");
        peer.send_raw(&answer(&Value::Long(2))).expect("sent");
        peer.flush().expect("sent");
        answered
    });
    assert_eq!(answered.expect("answered"), Value::Long(7));
    assert!(refused(&mut other, &format!("free {handle}")).contains("not expecting a response"));
}

#[test]
fn a_client_receives_a_request_after_its_own_messages_were_read() {
    let (_files, scene) = with("ask-behind", "n:0\nback:{kept::.z.w`go}\nkept:0\n", &[]);
    let mut client = scene.connect();
    tell(&mut client, "back[]");
    tell(&mut client, "n:n+1");
    let by = std::time::Instant::now() + std::time::Duration::from_secs(60);
    let question = client.next_message(Some(by)).expect("the connection lives").expect("a message");
    assert_eq!(question.header.kind, MessageKind::Sync);
    client.send_raw(&answer(&Value::Long(5))).expect("sent");
    client.flush().expect("sent");
    assert_eq!(ask(&mut client, "kept,n"), Value::longs([5, 1]));
}

#[test]
fn another_client_can_be_called_if_sockets_are_granted() {
    let (_files, scene) = with("ask-other", "", &SOCKETS);
    let (mut client, mut other) = (scene.connect(), scene.connect());
    let handle = handle_of(&mut other);
    let question = format!("{handle}\"1+1\"");
    let asked = std::thread::scope(|scope| {
        let waiting = scope.spawn(|| client.query(&question));
        let by = std::time::Instant::now() + std::time::Duration::from_secs(60);
        let asked = other.next_message(Some(by)).expect("the connection lives").expect("a message");
        assert_eq!(asked.header.kind, MessageKind::Sync);
        other.send_raw(&answer(&Value::Long(2))).expect("sent");
        other.flush().expect("sent");
        waiting.join().expect("no panic")
    });
    assert_eq!(asked.expect("answered"), Value::Long(2));
    // A peer that disconnects instead of replying.
    let lost = std::thread::scope(|scope| {
        let waiting = scope.spawn(|| client.query(&question));
        let by = std::time::Instant::now() + std::time::Duration::from_secs(60);
        other.next_message(Some(by)).expect("the connection lives").expect("a message");
        drop(other);
        waiting.join().expect("no panic")
    });
    assert!(matches!(lost, Err(ClientError::Server(name)) if name == b"close"));
}

#[test]
fn messages_on_a_handle_are_evaluated() {
    let (_asked_files, asked) = with("tells", "back:{neg[.z.w](`got;x)}\n", &[]);
    let program = format!(
        "h:hopen`::{}\nkept:seen:()\ngot:{{kept::kept,x}}\n.z.ps:{{seen::seen,.z.w=h;value x}}\npost:{{neg[h](`back;x)}}\n",
        asked.port
    );
    let (_files, scene) = with("told", &program, &SOCKETS);
    let mut client = scene.connect();
    for value in [5, 6] {
        ask(&mut client, &format!("post {value}"));
    }
    until(&mut client, "kept", &Value::longs([5, 6]));
    assert_eq!(ask(&mut client, "all seen"), Value::Bool(true));
}

#[test]
fn queries_of_a_connected_process_run_with_a_clients_rights() {
    let (_files, scene, mut peer) = with_peer("peer-asks", "secret:{read0`:/etc/hostname}\n", &[]);
    for (question, answered) in [
        ("2+3", Value::Long(5)),
        ("secret[]", Value::Error("access".into())),
        (".z.ps:{x}", Value::Error("access".into())),
    ] {
        peer.write(MessageKind::Sync, |w| w.chars(question));
        assert_eq!(peer.next(), (MessageKind::Response, answered), "{question}");
    }
    drop(scene);
}

#[test]
fn a_deferred_answer_is_waited_for() {
    let (_asked_files, asked) = with("deferring", "n:0\nwork:{neg[.z.w] 2*x;n::n+1}\n", &[]);
    let program = format!("h:hopen`::{}\ndefer:{{neg[h](`work;x);neg[h][];h[]}}\n", asked.port);
    let (_files, scene) = with("deferred-sync", &program, &SOCKETS);
    let mut client = scene.connect();
    assert_eq!(ask(&mut client, "defer 21"), Value::Long(42));
    assert_eq!(ask(&mut client, "defer each 1 2 3"), Value::longs([2, 4, 6]));
    assert_eq!(ask(&mut client, "{kept::defer x;kept}5"), Value::Long(10));
    assert_eq!(ask(&mut asked.connect(), "n"), Value::Long(5));
}

#[test]
fn side_effects_of_an_evaluation_happen_once() {
    let directory = Directory::new("handles-once");
    let path = |name: &str| directory.path().join(name).to_str().expect("a path").to_string();
    let lines = |name: &str| std::fs::read_to_string(directory.path().join(name)).map(|text| text.lines().count()).ok();
    let (_files, scene) = with("once", "kept:0\n", &["--remote-may", "files,system"]);
    let mut client = scene.connect();
    ask(&mut client, &format!("{{h:hopen`$\":{}\";neg[h]x;hclose h;kept::x}}\"line\"", path("by-handle")));
    assert_eq!(lines("by-handle"), Some(1));
    ask(&mut client, &format!("{{system\"echo line >> {}\";kept::x}}1", path("by-command")));
    assert_eq!(lines("by-command"), Some(1));
    ask(&mut client, &format!("{{f:`$\":{}\";f set 1 2;kept::x;.[f;();,;3 4];hcount f}}2", path("by-amend")));
    assert_eq!(ask(&mut client, &format!("get`$\":{}\"", path("by-amend"))), Value::longs([1, 2, 3, 4]));
    // A second run would find no file to delete.
    ask(&mut client, &format!("{{hdel`$\":{}\";kept::x}}3", path("by-amend")));
    assert_eq!((lines("by-amend"), ask(&mut client, "kept")), (None, Value::Long(3)));
}

#[test]
fn a_handle_that_cannot_be_had_says_why() {
    let (_files, scene) = with("hopen", "", &SOCKETS);
    let mut client = scene.connect();
    // Accepts connections but never replies to the handshake.
    let silent = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = silent.local_addr().expect("bound").port();
    assert_eq!(refused(&mut client, &format!("hopen(`::{port};100)")), "timeout");
    // Not a port that was just closed: another test may have it by now.
    assert_eq!(refused(&mut client, "hopen`::1"), "hop. OS reports: Connection refused");
    let (_files, closed) = with("hopen-pw", ".z.pw:{[u;p]0b}\n", &[]);
    assert_eq!(refused(&mut client, &format!("hopen`:127.0.0.1:{}:ann:x", closed.port)), "access");
}

#[test]
fn a_process_that_ends_in_the_middle_closes_its_handle() {
    let (_files, scene, mut peer) = with_peer("dies", "gone:()\n.z.pc:{gone::gone,x}\n", &SOCKETS);
    let (mut client, mut other) = (scene.connect(), scene.connect());
    let handle = ask(&mut client, "h");
    let lost = std::thread::scope(|scope| {
        let waiting = scope.spawn(|| refused(&mut other, "h\"never\""));
        assert_eq!(peer.next(), (MessageKind::Sync, Value::chars("never")));
        drop(peer);
        waiting.join().expect("no panic")
    });
    assert_eq!(lost, "close");
    until(&mut client, "first gone", &handle);
    assert!(refused(&mut client, "h\"1\"").ends_with("OS reports: Bad file descriptor"));
}

#[test]
fn a_process_that_sends_garbage_loses_its_handle_alone() {
    for (name, garbage) in
        [("header", &b"HTTP/1.1 400 Bad Request\r\n\r\n"[..]), ("body", b"\x01\x02\0\0\x0c\0\0\0\xfe\xfe\xfe\xfe")]
    {
        let door = TcpListener::bind("127.0.0.1:0").expect("a port");
        let port = door.local_addr().expect("bound").port();
        let answering = std::thread::spawn(move || {
            let (mut stream, _) = door.accept().expect("connected");
            let mut read = [0; 256];
            while std::io::Read::read(&mut stream, &mut read).expect("a handshake") == 0 {}
            stream.write_all(&[3]).expect("sent");
            // The question.
            let asked = std::io::Read::read(&mut stream, &mut read).expect("a message");
            assert!(asked > 0);
            stream.write_all(garbage).expect("sent");
            stream
        });
        let (_files, scene) = with(&format!("garbage-{name}"), &format!("h:hopen`::{port}\n"), &SOCKETS);
        let mut client = scene.connect();
        assert_eq!(refused(&mut client, "h\"1\""), "badmsg", "{name}");
        assert_eq!(ask(&mut client, "1+1"), Value::Long(2));
        drop(answering.join());
    }
}

#[test]
fn the_number_of_a_closed_connection_is_nobodys_before_its_end_is_dealt_with() {
    let (_files, scene, mut peer) = with_peer("numbers", ".z.pc:{h(`gone;x)}\n", &["--limit-handler-time", "60s"]);
    let mut gone = scene.connect();
    let handle = handle_of(&mut gone);
    drop(gone);
    assert_eq!(peer.next(), (MessageKind::Sync, list([sym("gone"), Value::Int(handle)])));
    assert_ne!(handle_of(&mut scene.connect()), handle);
    peer.answer(|w| w.atom_long(1));
    wait_for("the number to be free", || (handle_of(&mut scene.connect()) == handle).then_some(()));
}

#[test]
fn a_client_closes_no_handle_of_others() {
    let (_files, scene, _peer) = with_peer("hclose", "", &["--remote-may", "sockets,files"]);
    let (mut client, mut other) = (scene.connect(), scene.connect());
    let handle = handle_of(&mut other);
    assert_eq!(refused(&mut client, "hclose h"), "access");
    assert_eq!(refused(&mut client, &format!("hclose {handle}i")), "access");
    assert_eq!(ask(&mut other, "1+1"), Value::Long(2));
}

#[test]
fn an_owners_event_closes_a_client() {
    let (_files, scene) = with("closes", ".z.po:{if[`bob=.z.u;hclose x]}\ngone:()\n.z.pc:{gone::gone,x}\n", &[]);
    let mut client = scene.connect();
    let address = format!("127.0.0.1:{}:bob:x", scene.port).parse().expect("an address");
    let bob = Client::connect(&address, std::time::Duration::from_secs(30), proto::Limits::default());
    let mut bob = bob.expect("connected");
    assert!(bob.query("1+1").is_err());
    // As in kdb+, `.z.pc` is not called for a connection that this side closes.
    assert_eq!(ask(&mut client, "count gone"), Value::Long(0));
}

#[test]
fn bytes_that_are_no_message_are_kept_and_their_connection_closed() {
    let (_files, scene) = with("malformed", "bad:()\n.z.bm:{bad::x}\n", &[]);
    let (mut client, mut other) = (scene.connect(), scene.connect());
    let handle = handle_of(&mut other);
    let wrong = [1, 1, 0, 0, 12, 0, 0, 0, 0xfe, 0xfe, 0xfe, 0xfe];
    other.send_raw(&wrong).expect("sent");
    assert!(matches!(other.query("1"), Err(ClientError::Server(name)) if name == b"badmsg"));
    assert!(matches!(other.query("1"), Err(ClientError::Closed | ClientError::Io(_))));
    until(&mut client, "first bad", &Value::Int(handle));
    assert_eq!(ask(&mut client, "last bad"), Value::Vector { attr: 0, items: proto::Items::Byte(wrong.to_vec()) });
}

#[test]
fn a_message_taken_early_is_no_answer_to_a_client() {
    let (_files, scene) = with("early", "work:{neg[.z.w]`first;`second}\n", &[]);
    let mut client = scene.connect();
    assert_eq!(ask(&mut client, "work[]"), sym("second"));
    assert_eq!(pushed(&mut client), sym("first"));
}
