//! Shares of the connections: clients that never log in, one user, and what is kept for nodes and operators.

use crate::harness::wait_for;
use crate::roles::Firm;
use crate::tick_support::{PATIENCE, Tick};
use elastick::net::Client;
use elastick::net::client::ClientError;
use proto::{Limits, Value};
use std::io::Read;
use std::net::TcpStream;
use std::time::Duration;

fn silent(port: u16) -> TcpStream {
    TcpStream::connect(("127.0.0.1", port)).expect("connected")
}

fn login(firm: &Firm, user: &str) -> Result<Client, ClientError> {
    let password: String = user.chars().take(1).collect();
    let address = format!("127.0.0.1:{}:{user}:{password}", firm.tick.port).parse().expect("an address");
    Client::connect(&address, PATIENCE, Limits::default())
}

#[test]
fn clients_that_never_log_in_keep_nobody_out() {
    let tick = Tick::start("crowd-silent", &["--limit-half-open", "20", "--limit-handshake-time", "10m"]);
    let mut crowd = Vec::new();
    for _ in 0..8 {
        crowd.extend((0..20).map(|_| silent(tick.port)));
        assert_eq!(tick.client().query("1+1").expect("an honest client is served"), Value::Long(2));
    }
    let is_closed = |stream: &mut TcpStream| {
        stream.set_read_timeout(Some(Duration::from_millis(1))).expect("set");
        matches!(stream.read(&mut [0]), Ok(0))
    };
    wait_for("the oldest to be closed", || {
        (crowd.iter_mut().filter_map(|s| is_closed(s).then_some(())).count() >= 140).then_some(())
    });
    assert!(!is_closed(crowd.last_mut().expect("a connection")), "the newest may still log in");
}

#[test]
fn one_user_has_a_share_of_the_connections() {
    let firm = Firm::start("crowd-user", &["--limit-user-connections", "3"]);
    let held: Vec<Client> = (0..3).map(|_| login(&firm, "reader").expect("a login")).collect();
    assert!(login(&firm, "reader").is_err());
    assert!(login(&firm, "feed").is_ok(), "others are served");
    drop(held);
    wait_for("the user's connections to be free again", || login(&firm, "reader").is_ok().then_some(()));
}

#[test]
fn connections_are_kept_for_nodes_and_operators() {
    let firm = Firm::start("crowd-kept", &["--limit-connections", "12", "--limit-reserved-connections", "3"]);
    let held: Vec<Client> = (0..9).map(|_| login(&firm, "reader").expect("a login")).collect();
    assert!(login(&firm, "reader").is_err());
    let (_ops, _node) = (login(&firm, "ops").expect("a login"), login(&firm, "node").expect("a login"));
    drop(held);
}
