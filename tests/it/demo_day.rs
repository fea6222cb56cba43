//! A short run of the whole demo: it must verify its day, and leave no process or file when it is interrupted.

use crate::harness::{Directory, elastick, is_running, signal, wait_for};
use serde_json::Value as Json;
use std::io::Read;
use std::path::Path;
use std::process::{Command, Stdio};

/// A demo of a short day with small nodes.
fn demo(directory: &Directory, minutes: &str, rate: &str, more: &[&str]) -> Command {
    let dir = directory.path().to_str().expect("a path");
    let day = ["demo", "--json", "--port", "0", "--dir", dir, "--minutes", minutes, "--rate", rate];
    elastick(&[&day[..], &["--node-memory", "2MiB", "--lead-time", "50ms"], more].concat())
}

#[test]
fn a_short_day_is_proved() {
    let directory = Directory::new("demo-day");
    let svg = directory.path().join("day.svg");
    let more = ["--svg", svg.to_str().expect("a path")];
    let output = demo(&directory, "0.3", "2000", &more).output().expect("the demo runs");
    let words = String::from_utf8_lossy(&output.stderr);
    let report: Json = serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {words}"));
    assert!(output.status.success(), "{words}\n{report:#}");
    assert_eq!(report["proved"], true);
    assert_eq!(report["tip"], 36_000);
    assert_eq!(
        report["counted_rows"],
        report["windows"]
            .as_array()
            .map_or(0, |windows| { windows.iter().filter_map(|window| window["rows"].as_u64()).sum() })
    );
    for table in report["tables"].as_array().expect("tables") {
        assert_eq!(table["sent"], table["logged"]);
        assert_eq!(table["logged"], table["held"]);
    }
    assert!(report["peak_nodes"].as_u64() >= Some(8), "{}", report["peak_nodes"]);
    assert_eq!(report["nodes_left"], 1);
    assert!(std::fs::read_to_string(&svg).expect("a picture").contains("</svg>"));
}

#[test]
fn the_plan_of_a_day_agrees_with_the_day() {
    let directory = Directory::new("demo-plan");
    // A node fills a fifth of its memory in more than a second, which is time enough for the next one to join.
    let dir = directory.path().to_str().expect("a path");
    let day = ["demo", "--json", "--port", "0", "--dir", dir, "--minutes", "0.5", "--rate", "4000"];
    let nodes = ["--node-memory", "8MiB", "--lead-time", "100ms"];
    let output = elastick(&[&day[..], &nodes].concat()).output().expect("the demo runs");
    let report: Json = serde_json::from_slice(&output.stdout).expect("a report");
    // Nodes look at their memory every 250 ms of these 30 s.
    let watch_interval_s = 0.25 * 86_400.0 / 30.0;
    let logs = std::fs::read_dir(directory.path().join("log")).expect("logs").flatten().map(|entry| entry.path());
    let mut days: Vec<_> = logs.filter(|path| path.extension().is_some_and(|of| of == "queue")).collect();
    days.sort();
    let log = days[0].with_extension("");
    let prices = directory.path().join("prices.toml");
    let types = "date = \"2026-11-28\"\nsource = \"none\"\n[[type]]\nname = \"node\"\nmemory_gib = 0.0078125\nusd_per_hour = 1.0\n";
    std::fs::write(&prices, types).expect("a file");
    // What an update takes in memory, by the first window.
    let first = report["windows"][0]["last"].as_f64().expect("a window");
    let volume = 0.8 * f64::from(8 << 20) / first * report["tip"].as_f64().expect("a tip");
    // 100 ms of 30 s are 288 s of a day.
    let mut plan =
        elastick(&["plan", "--json", "--type", "node", "--fixed", "node", "--latent", "0B", "--lead", "288s"]);
    plan.arg("--log").arg(&log).arg("--prices").arg(&prices).args(["--volume", &format!("{volume:.0}B")]);
    let output = plan.output().expect("it runs");
    let words = String::from_utf8_lossy(&output.stderr);
    let plan: Json = serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {words}"));
    let nodes = plan["cluster"].as_array().expect("the journal is there");
    assert_eq!(nodes.len(), report["windows"].as_array().map_or(0, Vec::len));
    assert_eq!(plan["cases"][0]["most_nodes"], report["peak_nodes"], "{plan:#}");
    let rolls = nodes.iter().filter_map(|node| Some((node["rolled_s"].as_f64()?, node["planned_rolled_s"].as_f64()?)));
    let rolls: Vec<_> = rolls.collect();
    assert_eq!(rolls.len() + 1, nodes.len(), "{plan:#}");
    assert!(rolls.iter().all(|(real, planned)| (real - planned).abs() < watch_interval_s), "{plan:#}");
}

#[test]
fn a_day_whose_tickerplant_is_killed_is_proved() {
    let directory = Directory::new("demo-kill");
    let output = demo(&directory, "0.2", "2000", &["--kill-tick"]).output().expect("the demo runs");
    let words = String::from_utf8_lossy(&output.stderr);
    let report: Json = serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {words}"));
    assert!(output.status.success(), "{words}\n{report:#}");
    assert_eq!((&report["proved"], &report["tip"]), (&Json::from(true), &Json::from(24_000)));
    assert!(report["take_over"]["took_ns"].as_u64() > Some(0), "{}", report["take_over"]);
}

#[test]
fn a_day_whose_cluster_went_to_zero_and_was_woken_is_proved() {
    let directory = Directory::new("demo-sleep");
    let output = demo(&directory, "0.2", "2000", &["--sleep"]).output().expect("the demo runs");
    let words = String::from_utf8_lossy(&output.stderr);
    let report: Json = serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {words}"));
    assert!(output.status.success(), "{words}\n{report:#}");
    assert_eq!((&report["proved"], &report["tip"]), (&Json::from(true), &Json::from(24_000)));
    assert_eq!(report["nodes_left"], 0);
    let slept = &report["slept"];
    assert!(slept["nodes"].as_u64() > Some(1) && slept["answered_ns"].as_u64() > Some(0), "{slept}");
    assert!(slept["said"].as_str().is_some_and(|said| said.contains("then the log is replayed")), "{slept}");
    // Of an earlier draining, or of the end that their fleet gives to nodes: no instance was launched in their place.
    let fleet = std::fs::read_to_string(directory.path().join("fleet.log")).expect("its output");
    assert!(!fleet.contains("starting its replacement"), "{fleet}");
}

#[test]
fn an_uncovered_window_is_named() {
    let directory = Directory::new("demo-miss");
    let output = demo(&directory, "0.1", "4000", &["--max-nodes", "2"]).output().expect("the demo runs");
    assert_eq!(output.status.code(), Some(1));
    let words = String::from_utf8_lossy(&output.stderr);
    assert!(words.contains("is held by nobody"), "{words}");
    let report: Json = serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {words}"));
    assert_eq!(report["proved"], false);
}

/// The demo's processes and their children, from their output.
fn started(dir: &Path) -> Vec<u32> {
    let text = std::fs::read_to_string(dir.join("fleet.log")).unwrap_or_default();
    let numbers = text.lines().filter_map(|line| line.split_once("started as process ")?.1.trim().parse().ok());
    numbers.collect()
}

#[test]
fn nothing_is_left_when_it_is_interrupted_or_killed() {
    for how in ["INT", "KILL"] {
        let directory = Directory::new(&format!("demo-{how}"));
        let mut command = demo(&directory, "0.3", "2000", &[]);
        command.env("ELASTICK_LOG", "info").stdout(Stdio::null()).stderr(Stdio::piped());
        let mut demo = command.spawn().expect("the demo runs");
        let nodes = wait_for("two nodes", || {
            if let Some(status) = demo.try_wait().expect("a child") {
                let mut words = String::new();
                drop(demo.stderr.take().map(|mut stderr| stderr.read_to_string(&mut words)));
                panic!("the demo ended with {status}: {words}");
            }
            Some(started(directory.path())).filter(|nodes| nodes.len() >= 2)
        });
        let parent = |process: u32| {
            let status = std::fs::read_to_string(format!("/proc/{process}/status")).ok()?;
            status.lines().find_map(|line| line.strip_prefix("PPid:")?.trim().parse::<u32>().ok())
        };
        let fleet = parent(nodes[0]).expect("a node has a parent");
        assert_eq!(parent(fleet), Some(demo.id()));
        signal(demo.id(), how);
        assert!(!demo.wait().expect("it ends").success());
        wait_for("all processes to end", || {
            nodes.iter().chain([&fleet]).all(|process| !is_running(*process)).then_some(())
        });
    }
}
