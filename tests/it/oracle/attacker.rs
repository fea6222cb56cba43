//! A user's connections, and what comes back on them.

use super::cluster::{Case, Cluster, login};
use super::messages::Message;
use elastick::net::Client;
use elastick::net::client::ClientError;
use proto::{MessageKind, Value, encode};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    Tick,
    Node,
}

/// Longest wait for a response; a request that is not answered is not a finding, as `-30!` may defer it for ever.
const WAIT: Duration = Duration::from_secs(5);

pub struct Attacker {
    user: String,
    hidden: Vec<Vec<u8>>,
    ports: [u16; 2],
    clients: [Option<Client>; 2],
    /// Inputs whose response held what the role hides.
    pub leaks: Vec<String>,
    pub answered: usize,
    pub refused: usize,
    pub closed: usize,
}

fn holds(bytes: &[u8], mark: &[u8]) -> bool {
    bytes.windows(mark.len()).any(|part| part == mark)
}

fn encoded(value: &Value) -> Vec<u8> {
    let mut bytes = Vec::new();
    encode::encode_object(value, &mut bytes).expect("what was received can be sent");
    bytes
}

impl Attacker {
    pub fn new(case: &Case, cluster: &Cluster) -> Attacker {
        Attacker {
            user: case.user.clone(),
            hidden: case.hidden.clone(),
            ports: [cluster.tick_port, cluster.node_port],
            clients: [None, None],
            leaks: Vec::new(),
            answered: 0,
            refused: 0,
            closed: 0,
        }
    }

    fn client(&mut self, target: Target) -> &mut Client {
        let (user, port) = (&self.user, self.ports[target as usize]);
        self.clients[target as usize].get_or_insert_with(|| {
            let mut client = login(port, user);
            client.set_timeout(Some(WAIT));
            client
        })
    }

    /// Checks what came back. A connection that the process has closed is opened again, which fails if the process has ended.
    fn check(&mut self, target: Target, tried: &str, result: Result<Vec<u8>, ClientError>) {
        let bytes = match result {
            Ok(bytes) => {
                self.answered += 1;
                bytes
            }
            Err(ClientError::Server(error)) => {
                self.refused += 1;
                error
            }
            Err(_) => {
                self.closed += 1;
                self.clients[target as usize] = None;
                self.client(target);
                return;
            }
        };
        self.search(tried, &bytes);
    }

    fn search(&mut self, tried: &str, bytes: &[u8]) {
        for mark in self.hidden.iter().filter(|mark| holds(bytes, mark)) {
            self.leaks.push(format!("{} shows {}", tried, mark.escape_ascii()));
        }
    }

    pub fn expression(&mut self, target: Target, text: &str) {
        let result = self.client(target).query(text).map(|value| encoded(&value));
        self.check(target, &format!("{target:?} {text:?}"), result);
    }

    pub fn message(&mut self, target: Target, message: &Message) {
        let tried = format!("{target:?} {message:?}");
        match message {
            Message::Login(bytes) => self.login(target, &tried, bytes),
            Message::Call { value, is_sync: true, bytes: None } => {
                let result = self.client(target).request(value).map(|value| encoded(&value));
                self.check(target, &tried, result);
            }
            Message::Call { value, is_sync, bytes } => {
                let kind = if *is_sync { MessageKind::Sync } else { MessageKind::Async };
                let whole = bytes.clone().or_else(|| encode::message(kind, value).ok()).unwrap_or_default();
                match is_sync {
                    true => {
                        let result =
                            self.client(target).request_raw(&whole, |_| {}).map(|incoming| incoming.body.to_vec());
                        self.check(target, &tried, result);
                    }
                    false => {
                        let sent = self.client(target).send_raw(&whole);
                        // A response to a query shows that the message before it was taken.
                        let taken = sent.and_then(|()| self.client(target).request(&Value::symbol("nothing")));
                        self.check(target, &tried, taken.map(|_| Vec::new()));
                    }
                }
            }
        }
    }

    /// A login with other bytes than the user's: nothing may be answered but a close.
    fn login(&mut self, target: Target, tried: &str, bytes: &[u8]) {
        let mut stream = TcpStream::connect(("127.0.0.1", self.ports[target as usize])).expect("it listens");
        stream.set_read_timeout(Some(Duration::from_millis(300))).expect("a timeout");
        let _ = stream.write_all(bytes);
        let mut answer = [0u8; 64];
        let count = stream.read(&mut answer).unwrap_or(0);
        let is_http = answer.starts_with(b"HTTP/1.1 4");
        if count > 0 && !is_http {
            self.leaks.push(format!("{tried} was accepted: {}", answer[..count].escape_ascii()));
        }
        self.closed += 1;
    }

    /// Reads the async messages that have arrived, such as updates of a subscription.
    pub fn read_messages(&mut self) {
        for target in [Target::Tick, Target::Node] {
            while let Some(client) = &mut self.clients[target as usize] {
                match client.next_message(Some(Instant::now() + Duration::from_millis(1))) {
                    Ok(Some(incoming)) => {
                        let body = incoming.body.to_vec();
                        self.search("a message", &body);
                    }
                    Ok(None) => break,
                    Err(_) => self.clients[target as usize] = None,
                }
            }
        }
    }
}
