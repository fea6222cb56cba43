//! Expressions that need more memory than there is, sent to a node: each gets an error, the node keeps running in little memory,
//! and other clients are unaffected.

use crate::node_program::with;
use crate::rdb_process::ask;
use elastick::net::client::ClientError;
use proto::Value;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

/// Definitions, and expressions.
fn huge() -> (String, Vec<String>) {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/q/tests/huge.txt");
    let text = std::fs::read_to_string(file).expect("q/tests/huge.txt");
    let (mut definitions, mut expressions) = (String::new(), Vec::new());
    for line in text.lines().filter(|l| !l.is_empty() && !l.starts_with('#')) {
        match line.split_once(' ').expect("a word and an expression") {
            ("define", definition) => definitions = definitions + definition + "\n",
            (_, expression) => expressions.push(expression.to_owned()),
        }
    }
    (definitions, expressions)
}

/// Peak resident memory of a process.
fn peak_bytes(process: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).expect("it runs");
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).expect("a figure");
    line.trim().trim_end_matches(" kB").parse::<u64>().expect("a number") * 1024
}

#[test]
fn huge_expressions_of_a_client_affect_no_other() {
    let (definitions, expressions) = huge();
    let limits = ["--limit-query-memory", "8MiB", "--limit-query-time", "300ms", "--query-threads", "2"];
    let (_files, scene) = with("huge", &definitions, &limits);
    let before = peak_bytes(scene.node.id());
    let (mut client, mut other) = (scene.connect(), scene.connect());
    let over = AtomicBool::new(false);
    thread::scope(|scope| {
        let beside = scope.spawn(|| {
            let mut answered = 0;
            while !over.load(Ordering::Relaxed) {
                assert_eq!(ask(&mut other, "sum til 10"), Value::Long(45));
                answered += 1;
            }
            answered
        });
        for text in &expressions {
            match client.query(text) {
                Ok(_) | Err(ClientError::Server(_)) => {}
                Err(error) => {
                    over.store(true, Ordering::Relaxed);
                    panic!("{text}: {error}");
                }
            }
        }
        over.store(true, Ordering::Relaxed);
        assert!(beside.join().expect("the other client was answered") > 0);
    });
    assert_eq!(ask(&mut scene.connect(), "count l"), Value::Long(400_000));
    let grown = peak_bytes(scene.node.id()) - before;
    assert!(grown < 200 << 20, "{grown} bytes");
}
