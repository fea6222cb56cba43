//! Notifications to a service manager (sd_notify) from a tickerplant and a node, at a real datagram socket.

use crate::harness::{Directory, Process, elastick, signal};
use std::os::unix::net::UnixDatagram;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

const PATIENCE: Duration = Duration::from_secs(60);
/// Watchdog interval; notifications come every half of it.
const WATCHDOG: Duration = Duration::from_millis(200);

/// A manager's socket in its directory.
struct Manager {
    socket: UnixDatagram,
    directory: Directory,
}

impl Manager {
    fn new(name: &str) -> Manager {
        let directory = Directory::new(name);
        let socket = UnixDatagram::bind(directory.path().join("notify")).expect("a socket");
        Manager { socket, directory }
    }

    fn path(&self) -> PathBuf {
        self.directory.path().join("notify")
    }

    fn start(&self, command: &mut Command) -> Process {
        command.env("NOTIFY_SOCKET", self.path()).env("WATCHDOG_USEC", WATCHDOG.as_micros().to_string());
        Process::start(command)
    }

    fn tick(&self) -> Process {
        let logs = self.directory.path().join("logs").to_string_lossy().into_owned();
        self.start(&mut elastick(&["tick", "sym", &logs, "-p", "127.0.0.1:0", "--unix-sockets="]))
    }

    /// The next notification, if one arrives in time.
    fn receive(&self, within: Duration) -> Option<String> {
        self.socket.set_read_timeout(Some(within)).expect("a timeout");
        let mut buffer = [0; 4096];
        let bytes = self.socket.recv(&mut buffer).ok()?;
        Some(String::from_utf8_lossy(&buffer[..bytes]).into_owned())
    }

    /// Waits for a notification with this prefix; returns those before it.
    fn expect(&self, start: &str) -> Vec<String> {
        let mut before = Vec::new();
        loop {
            let word = self.receive(PATIENCE).unwrap_or_else(|| panic!("never received {start:?}, only {before:?}"));
            if word.starts_with(start) {
                return before;
            }
            before.push(word);
        }
    }
}

#[test]
fn a_tickerplant_is_ready_when_it_listens_then_lives_and_says_when_it_ends() {
    let manager = Manager::new("notify-tick");
    let mut tick = manager.tick();
    assert_eq!(manager.expect("READY=1\nSTATUS=listening on "), ["STATUS=opening the log"]);
    manager.expect("WATCHDOG=1\nSTATUS=0 updates today");
    manager.expect("WATCHDOG=1");
    tick.number_after("listening on");
    tick.stop();
    manager.expect("STOPPING=1");
}

#[test]
fn a_stopped_tickerplant_is_silent() {
    let manager = Manager::new("notify-hang");
    let tick = manager.tick();
    manager.expect("WATCHDOG=1");
    signal(tick.id(), "STOP");
    // Notifications sent before it stopped.
    while manager.receive(5 * WATCHDOG).is_some() {}
    assert_eq!(manager.receive(5 * WATCHDOG), None);
    signal(tick.id(), "CONT");
    manager.expect("WATCHDOG=1");
}

#[test]
fn a_node_is_ready_when_it_has_joined() {
    let manager = Manager::new("notify-node");
    let mut tick = manager.tick();
    let port = tick.number_after("listening on");
    let nodes = Manager::new("notify-nodes");
    let address = format!("127.0.0.1:{port}");
    let mut node = nodes.start(&mut elastick(&["rdb", &address, "-p", "127.0.0.1:0"]));
    assert!(nodes.expect("READY=1\nSTATUS=listening on ").is_empty());
    nodes.expect("WATCHDOG=1\nSTATUS=live, 0 rows, memory ");
    node.stop();
    nodes.expect("STOPPING=1");
}

#[test]
fn a_node_without_its_tickerplant_is_ready_and_reports_what_it_waits_for() {
    let manager = Manager::new("notify-lonely");
    let _node = manager.start(&mut elastick(&["rdb", "127.0.0.1:1", "-p", "127.0.0.1:0"]));
    manager.expect("READY=1");
    manager.expect("WATCHDOG=1\nSTATUS=waiting, waiting for the tickerplant, 0 rows");
}

/// A tickerplant that never replies blocks the ingest thread while the event loop keeps running. The node must stop its watchdog
/// notifications, so that the manager restarts it.
#[test]
fn a_node_whose_ingest_thread_hangs_is_silent() {
    let silent = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = silent.local_addr().expect("an address").to_string();
    let manager = Manager::new("notify-ingest");
    let _node = manager.start(&mut elastick(&["rdb", &address, "-p", "127.0.0.1:0"]));
    let _held = silent.accept().expect("the node connects");
    assert_eq!(manager.receive(5 * WATCHDOG), None);
}
