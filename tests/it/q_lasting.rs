//! Sessions that run for long: a change of the port, memory figures, tables that grow on disk, and SIGTERM.

use crate::harness::{Directory, Process, elastick, wait_for};
use crate::q_session::serving;
use crate::rdb_process::ask;
use crate::remote_rights::{connect, session};
use crate::tick_support::call;
use proto::Value;

/// A session that trusts its clients, as kdb+ does.
fn trusting(name: &str, program: &str) -> (Directory, Process, u16) {
    let directory = Directory::new(&format!("session-{name}"));
    let script = directory.path().join("s.q");
    std::fs::write(&script, format!("{program}-1\"port \",string system\"p\";\n")).expect("written");
    let (process, port) = session(&script, &["-u", "0"]);
    (directory, process, port)
}

fn long(client: &mut elastick::net::client::Client, text: &str) -> i64 {
    match ask(client, text) {
        Value::Long(n) => n,
        other => panic!("{text}: {other:?}"),
    }
}

/// SIGTERM comes while the session waits, and while it evaluates.
#[test]
fn the_handler_of_the_end_runs_on_sigterm() {
    let (_files, mut process, port) = serving("sigterm", ".z.exit:{-1\"bye \",.Q.s1 x;}\n");
    assert_eq!(ask(&mut connect(port), "1+1"), Value::Long(2));
    assert_eq!(process.stop().code(), Some(143));
    process.line(|line| (line == "bye 143i").then_some(()));

    let busy = ".z.exit:{-1\"bye \",.Q.s1 x;}\n.z.ts:{system\"t 0\";-1\"busy\";while[1b;]}\nsystem\"t 1\";\n";
    let (_files, mut process, _) = serving("sigterm-busy", busy);
    process.line(|line| (line == "busy").then_some(()));
    assert_eq!(process.stop().code(), Some(143));
    process.line(|line| (line == "bye 143i").then_some(()));
}

#[test]
fn connections_outlive_the_port_and_its_change() {
    let (_files, _process, first) = trusting("port", "closed:0\n.z.pc:{closed+:1}\n");
    let mut ann = connect(first);
    ask(&mut ann, "system\"p 0W\"");
    let second = ask(&mut ann, "system\"p\"");
    let Value::Int(second) = second else { panic!("{second:?}") };
    let second = u16::try_from(second).expect("a port");
    assert_ne!(first, second);
    let mut bob = connect(second);
    wait_for("the first port to close", || std::net::TcpStream::connect(("127.0.0.1", first)).is_err().then_some(()));
    assert_eq!(long(&mut bob, "count .z.W"), 2);
    ask(&mut bob, "system\"p 0\"");
    assert_eq!((long(&mut ann, "closed"), long(&mut bob, "closed")), (0, 0));
}

/// Messages and responses are freed once they are handled.
#[test]
fn the_figures_of_memory_do_not_drift() {
    let (_files, _process, port) = serving("memory", "x:til 100\nf:{count x}\n");
    let mut ann = connect(port);
    let used = |ann: &mut _| long(ann, ".Q.w[]`used");
    let before = used(&mut ann);
    for _ in 0..20 {
        ask(&mut ann, "1000000#0x00");
        let sent = call("f", [Value::chars("a".repeat(1_000_000))]);
        assert_eq!(ann.request(&sent).expect("counted"), Value::Long(1_000_000));
    }
    let after = used(&mut ann);
    assert!((after - before).abs() < 8_000_000, "{before} before, {after} after 40 MB");
    assert!(before > 0 && long(&mut ann, ".Q.w[]`peak") >= after);
}

/// A session serves a database as it is on disk, also to clients who may not read files.
#[test]
fn a_loaded_splayed_table_shows_what_another_process_appends() {
    let data = Directory::new("appended");
    let table = data.path().join("t");
    let path = table.to_str().expect("a path");
    let write = |text: &str| {
        let script = data.path().join("write.q");
        std::fs::write(&script, text).expect("written");
        let done = elastick(&["q", "-q", script.to_str().expect("a path")]).output().expect("it runs");
        assert!(done.status.success(), "{done:?}");
    };
    write(&format!("(hsym`$\"{path}/\")set([]a:1 2);\n"));
    let (_files, _process, port) = serving("appended", &format!("\\l {path}\n"));
    let mut ann = connect(port);
    assert_eq!(long(&mut ann, "count t"), 2);
    write(&format!("(hsym`$\"{path}/\")upsert([]a:3 4 5);\n"));
    assert_eq!((long(&mut ann, "count t"), long(&mut ann, "exec last a from t")), (5, 5));
}
