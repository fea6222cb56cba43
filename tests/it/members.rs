//! Nodes that prove themselves with the cluster's secret.

use crate::harness::{Directory, Process, elastick, wait_for};
use crate::rdb_process::refused;
use crate::tick_support::{PATIENCE, Tick, all, call, eventually, trades};
use elastick::net::Client;
use elastick::net::client::ClientError;
use proto::{Limits, MessageKind, Value, encode};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Stdio;
use std::sync::{Arc, Mutex};

fn secret(directory: &Path, name: &str, text: &str) -> String {
    let path = directory.join(name);
    std::fs::write(&path, text).expect("written");
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).expect("private");
    path.to_string_lossy().into_owned()
}

struct Cluster {
    tick: Tick,
    files: Directory,
}

impl Cluster {
    fn start(name: &str, options: &[&str]) -> Cluster {
        let files = Directory::new(&format!("{name}-files"));
        let path = secret(files.path(), "secret", "the secret of this cluster\n");
        let tick = Tick::start(name, &[&["--cluster-secret-file", path.as_str()], options].concat());
        Cluster { tick, files }
    }

    fn node(&self, port: u16, name: &str, secret_file: Option<&str>) -> Process {
        let address = format!("127.0.0.1:{port}");
        let mut arguments = vec!["rdb", &address, "-p", "127.0.0.1:0", "--unix-sockets=", "--node", name];
        arguments.extend(secret_file.map(|path| ["--cluster-secret-file", path]).iter().flatten());
        Process::start(elastick(&arguments).stderr(Stdio::piped()))
    }

    fn path(&self, name: &str) -> String {
        self.files.path().join(name).to_string_lossy().into_owned()
    }
}

/// Reads the first lines of a node's log until one has these words.
fn logs(process: &mut Process, words: &str) {
    let errors = process.errors();
    let mut lines = BufReader::new(errors).lines();
    let found = lines.by_ref().take(20).map_while(Result::ok).any(|line| line.contains(words));
    assert!(found, "the log has no line with {words}");
    std::thread::spawn(move || lines.for_each(drop));
}

fn states(client: &mut Client, expected: &[&str]) {
    eventually(client, "exec node from .u.asg.tab where state<>`lost", &Value::symbols(expected));
}

#[test]
fn a_node_with_the_secret_joins_and_others_do_not() {
    let cluster = Cluster::start("members-join", &[]);
    let mut client = cluster.tick.client();
    client.request(&trades(0..5)).expect("published");
    let own = cluster.path("secret");
    let other = secret(cluster.files.path(), "other", "the secret of another cluster\n");
    let _honest = cluster.node(cluster.tick.port, "honest", Some(&own));
    let mut wrong = cluster.node(cluster.tick.port, "wrong", Some(&other));
    let mut without = cluster.node(cluster.tick.port, "without", None);
    logs(&mut wrong, "the proof is wrong");
    logs(&mut without, "must know the secret of the cluster");
    states(&mut client, &["honest"]);
}

#[test]
fn a_join_without_proof_is_refused_whatever_its_name() {
    let cluster = Cluster::start("members-names", &[]);
    let mut client = cluster.tick.client();
    let paper = call(".u.asg.sub", [Value::symbol("trade"), Value::symbol(""), Value::symbol("rdb")]);
    assert!(matches!(client.request(&paper), Err(ClientError::Server(_))));
    assert_eq!(refused(&mut client, ".u.asg.prove[`a;32#0x00;32#0x00]"), "access");
    let nonce = client.request(&call(".u.asg.nonce", [Value::NULL])).expect("a number");
    assert_eq!(nonce.as_bytes().map(<[u8]>::len), Some(32));
    // A wrong proof uses the number up.
    for _ in 0..2 {
        let proof = [Value::symbol("a"), Value::bytes(vec![0; 32]), Value::bytes(vec![0; 32])];
        assert!(matches!(client.request(&call(".u.asg.prove", proof)), Err(ClientError::Server(_))));
    }
}

#[test]
fn the_user_of_a_node_may_do_nothing_else() {
    let cluster = Cluster::start("members-user", &[]);
    let address = format!("127.0.0.1:{}:cluster:", cluster.tick.port).parse().expect("an address");
    let mut client = Client::connect(&address, PATIENCE, Limits::default()).expect("a login");
    for message in [trades(0..1), all("trade"), Value::chars("1+1"), call(".u.endofday", [Value::NULL])] {
        let error = client.request(&message).expect_err("no role").to_string();
        assert!(error.contains("access"), "{message:?}: {error}");
    }
}

/// Passes bytes on, and keeps what the node sends.
fn recorder(to: u16) -> (u16, Arc<Mutex<Vec<u8>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("bound").port();
    let kept = Arc::new(Mutex::new(Vec::new()));
    let recorded = Arc::clone(&kept);
    std::thread::spawn(move || {
        let (mut node, _) = listener.accept().expect("a connection");
        let mut tick = TcpStream::connect(("127.0.0.1", to)).expect("connected");
        let (mut back, mut from) = (node.try_clone().expect("cloned"), tick.try_clone().expect("cloned"));
        std::thread::spawn(move || std::io::copy(&mut from, &mut back));
        let mut buffer = [0; 4096];
        while let Ok(read @ 1..) = node.read(&mut buffer) {
            recorded.lock().expect("locked").extend_from_slice(&buffer[..read]);
            if tick.write_all(&buffer[..read]).is_err() {
                break;
            }
        }
        // The copying thread holds the connection too.
        let _ = tick.shutdown(std::net::Shutdown::Both);
    });
    (port, kept)
}

#[test]
fn a_recorded_join_is_of_no_use() {
    let cluster = Cluster::start("members-replay", &[]);
    let mut client = cluster.tick.client();
    let (port, recorded) = recorder(cluster.tick.port);
    let mut honest = cluster.node(port, "honest", Some(&cluster.path("secret")));
    states(&mut client, &["honest"]);
    honest.kill();
    eventually(&mut client, "count select from .u.asg.tab where state<>`lost", &Value::Long(0));
    let bytes = recorded.lock().expect("locked").clone();
    let mut thief = TcpStream::connect(("127.0.0.1", cluster.tick.port)).expect("connected");
    thief.write_all(&bytes).expect("sent");
    // Its login, the number, the refused proof and the refused join are answered.
    wait_for("the answers", || {
        let mut answers = [0; 4096];
        let read = thief.peek(&mut answers).ok()?;
        let text = answers.get(..read)?;
        text.windows(6).filter(|part| part == b"access").count().ge(&2).then_some(())
    });
    eventually(&mut client, "count select from .u.asg.tab where state<>`lost", &Value::Long(0));
}

#[test]
fn a_tickerplant_without_the_secret_gets_no_node() {
    let cluster = Cluster::start("members-false", &[]);
    let other = secret(cluster.files.path(), "other", "the secret of another cluster\n");
    for options in [&[][..], &["--cluster-secret-file", other.as_str()]] {
        let tick = Tick::start("members-false-tick", options);
        let mut node = cluster.node(tick.port, "honest", Some(&cluster.path("secret")));
        logs(&mut node, "rejects this node");
        assert_eq!(tick.client().query("count .u.asg.tab").expect("answered"), Value::Long(0));
    }
}

#[test]
fn a_tickerplant_that_accepts_any_proof_is_found_out() {
    let cluster = Cluster::start("members-fake", &[]);
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("bound").port();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.expect("a connection");
            let mut buffer = [0; 4096];
            let _ = stream.read(&mut buffer);
            let _ = stream.write_all(&[3]);
            let any = encode::message(MessageKind::Response, &Value::bytes(vec![7; 32])).expect("encodes");
            while matches!(stream.read(&mut buffer), Ok(1..)) {
                let _ = stream.write_all(&any);
            }
        }
    });
    let mut node = cluster.node(port, "honest", Some(&cluster.path("secret")));
    logs(&mut node, "does not know the secret of the cluster");
}

#[test]
fn a_secret_that_others_can_read_stops_the_start() {
    let files = Directory::new("members-readable");
    let path = secret(files.path(), "secret", "the secret of this cluster\n");
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o644)).expect("set");
    for arguments in [["tick", "sym"], ["rdb", ":1"]] {
        let output = elastick(&arguments).args(["-p", "0", "--cluster-secret-file", &path]).output().expect("it runs");
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success() && error.contains("chmod 600"), "{error}");
    }
}

#[test]
fn a_connection_that_never_proves_itself_does_not_stay() {
    let cluster = Cluster::start("members-idle", &["--limit-handshake-time", "300ms"]);
    let address = format!("127.0.0.1:{}:cluster:", cluster.tick.port).parse().expect("an address");
    let mut idle = Client::connect(&address, PATIENCE, Limits::default()).expect("a login");
    let _node = cluster.node(cluster.tick.port, "honest", Some(&cluster.path("secret")));
    wait_for("the idle connection to be closed", || {
        idle.request(&all("trade")).is_err_and(|e| !e.is_answer()).then_some(())
    });
    let mut client = cluster.tick.client();
    states(&mut client, &["honest"]);
}

#[test]
fn the_user_of_a_node_gets_no_pages() {
    let cluster = Cluster::start("members-pages", &[]);
    let mut stream = TcpStream::connect(("127.0.0.1", cluster.tick.port)).expect("connected");
    let basic = elastick::kernel::digest::to_base64(b"cluster:");
    let head = format!(
        "GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nAuthorization: Basic {basic}\r\n\r\n"
    );
    stream.write_all(head.as_bytes()).expect("sent");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("answered");
    assert!(answer.starts_with("HTTP/1.1 401"), "{answer}");
}
