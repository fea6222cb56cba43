//! Errors for a console, which requests reasons: kdb+'s name, the reason and the place. Other clients get the name alone.

use crate::q_session::serving;
use crate::rdb_process::live;
use crate::tick_support::{PATIENCE, Tick};
use elastick::net::Client;
use elastick::net::client::ClientError;
use proto::{Explained, Limits};

#[test]
fn a_console_gets_the_reason_and_another_client_the_name() {
    let tick = Tick::start("reasons", &[]);
    let node = live(&[]);
    let (_files, _process, session) = serving("reasons", "");
    for (process, port) in [("tickerplant", tick.port), ("node", node.port), ("session", session)] {
        let address = format!("127.0.0.1:{port}:ann:x").parse().expect("an address");
        let mut console = Client::connect_explained(&address, PATIENCE, Limits::default()).expect("a login");
        let mut other = Client::connect(&address, PATIENCE, Limits::default()).expect("a login");
        for (text, name, reason, place) in [
            ("{enlist x}/[5000;1]", "limit", "values may nest at most ", "  [1]  {enlist x}\n        ^\n"),
            ("1 2+1 2 3", "length", "", "  [0]  1 2+1 2 3\n          ^\n"),
            ("hopen 1", "access", "", "  [0]  hopen 1\n       ^\n"),
            ("nosuch", "nosuch", "", "  [0]  nosuch\n       ^\n"),
        ] {
            let error = |client: &mut Client| match client.query(text) {
                Err(ClientError::Server(error)) => error,
                other => panic!("{process}: {other:?}"),
            };
            assert_eq!(String::from_utf8_lossy(&error(&mut other)), name, "{process}");
            let text = error(&mut console);
            let explained = Explained::parse(&text);
            assert_eq!(explained.name, name.as_bytes(), "{process}");
            assert!(explained.reason.starts_with(reason.as_bytes()), "{process}: {explained:?}");
            assert_eq!(String::from_utf8_lossy(explained.place), place, "{process}");
        }
    }
}
