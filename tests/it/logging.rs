//! Log lines on standard error: formats and filters.

use crate::harness::{Directory, Process, elastick, wait_for};
use serde_json::Value as Json;
use std::fs::{self, File};
use std::path::Path;

/// Log lines of a tickerplant and of a node that joins it, up to the tickerplant's line about a live node.
fn lines(directory: &Path, arguments: &[&str]) -> String {
    let path = directory.join("lines");
    let mut tick = elastick(&["tick", "sym"]);
    tick.arg(directory).args(["-p", "127.0.0.1:0"]).args(arguments).stderr(File::create(&path).expect("a file"));
    let mut tick = Process::start(&mut tick);
    let port = tick.number_after("listening on").to_string();
    let node = ["rdb", &format!("127.0.0.1:{port}"), "-p", "127.0.0.1:0", "--node", "n1", "--queue", "q1"];
    let _node = Process::start(&mut elastick(&node));
    wait_for("the node to be live", || {
        let text = fs::read_to_string(&path).unwrap_or_default();
        text.lines().any(|line| line.contains("the node is live")).then_some(text)
    })
}

#[test]
fn a_json_line_has_the_objects_as_fields() {
    let directory = Directory::new("logging-json");
    let lines = lines(directory.path(), &["--log-format", "json", "--log-filter", "info"]);
    let of: Vec<Json> = lines.lines().map(|line| serde_json::from_str(line).expect(line)).collect();
    let live = of.iter().find(|line| line["message"] == "the node is live from update 0").expect("the line");
    assert_eq!((&live["queue"], &live["node"], &live["level"]), (&"q1".into(), &"n1".into(), &"INFO".into()));
}

#[test]
fn a_text_line_ends_with_the_fields() {
    let directory = Directory::new("logging-text");
    let lines = lines(directory.path(), &["--log-filter", "warn,elastick::tick::plant::queue=info"]);
    assert!(lines.lines().all(|line| line.contains(" INFO elastick::tick::plant::queue: ")), "{lines}");
    assert!(lines.contains("the node is live from update 0 queue=q1 node=n1\n"), "{lines}");
}

#[test]
fn a_filter_or_format_that_is_none_is_rejected_in_words() {
    for (option, value, words) in
        [("--log-filter", "loud", "is not a log filter"), ("--log-format", "xml", "is not a log format")]
    {
        let output = elastick(&["tick", "sym", option, value]).output().expect("it runs");
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success() && said.contains(words), "{said}");
    }
}
