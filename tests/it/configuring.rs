//! Configuration files as operators meet them: `elastick config`, and a supervisor that is found by its file.

use crate::harness::{Directory, Process, elastick};
use std::path::PathBuf;
use std::process::Output;

fn file(directory: &Directory, text: &str) -> PathBuf {
    let path = directory.path().join("elastick.toml");
    std::fs::write(&path, text).expect("written");
    path
}

fn printed(output: &Output) -> (String, String) {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (text(&output.stdout), text(&output.stderr))
}

#[test]
fn a_check_names_each_wrong_line_and_fails() {
    let directory = Directory::new("config-check");
    let path = file(&directory, "[tick]\nmemory = \"4GB\"\nprot = 5010\n\n[rdb]\nscale = 0.6\n");
    let output = elastick(&["config", "check"]).arg(&path).output().expect("it runs");
    let (out, complaint) = printed(&output);
    assert_eq!((output.status.code(), out.lines().count()), (Some(1), 3), "{out}");
    for (line, word) in out.lines().zip(["line 2: tick has no option", "line 3: unknown option", "line 6: scale"]) {
        assert!(line.starts_with(&format!("{}: {word}", path.display())), "{line}");
    }
    assert!(complaint.contains("3 problems"), "{complaint}");
    let path = file(&directory, "[tick]\nport = 5010\n");
    let output = elastick(&["config", "check"]).arg(&path).output().expect("it runs");
    assert!(output.status.success() && printed(&output).0.contains("valid, 1 key set"), "{output:?}");
}

#[test]
fn every_program_rejects_a_file_with_a_wrong_line() {
    let directory = Directory::new("config-wrong");
    let path = file(&directory, "\n[tick]\nmemory = \"4GB\"\n");
    let path = path.to_str().expect("a path");
    for program in [&["tick"][..], &["rdb"], &["feed"], &["fleet", "--", "true"], &["log", "info", "x"]] {
        let (first, rest) = program.split_at(if program[0] == "log" { 2 } else { 1 });
        let output = elastick(&[first, &["--config", path], rest].concat()).output().expect("it runs");
        let (_, complaint) = printed(&output);
        assert_eq!(output.status.code(), Some(2), "{program:?}: {complaint}");
        assert!(complaint.contains("line 3: tick has no option \"memory\""), "{program:?}: {complaint}");
    }
}

#[test]
fn show_prints_each_value_with_its_source() {
    let directory = Directory::new("config-show");
    let path = file(&directory, "limit-outbox = \"128MiB\"\n[tick]\ndurability = \"each\"\ntimer = 5\n");
    let path = path.to_str().expect("a path");
    let mut command = elastick(&["config", "show", "tick", "sym", "/data", "--config", path, "-p", "7"]);
    let output = command.env("ELASTICK_TIMER", "100").output().expect("it runs");
    let (out, complaint) = printed(&output);
    assert!(output.status.success(), "{complaint}");
    for (value, source) in [
        ("dir = \"/data\"", "command line".to_string()),
        ("port = 7", "command line".to_string()),
        ("timer = 100", "ELASTICK_TIMER".to_string()),
        ("durability = \"each\"", format!("{path}, line 3")),
        ("limit-outbox = \"128MiB\"", format!("{path}, line 1")),
        ("roll-time = \"00:00\"", "default".to_string()),
    ] {
        let line = out.lines().find(|line| line.starts_with(value)).unwrap_or_else(|| panic!("{value}: {out}"));
        assert!(line.ends_with(&format!("# {source}")), "{line}");
    }
    // What is shown is a file that sets the same values.
    let shown = file(&directory, &out);
    let output = elastick(&["config", "check"]).arg(&shown).output().expect("it runs");
    assert!(output.status.success(), "{}", printed(&output).0);
}

#[test]
fn the_status_of_a_fleet_is_found_by_its_file_or_port() {
    let directory = Directory::new("config-fleet");
    let command = ["fleet", "-p", "127.0.0.1:0", "--group", "idle", "--min", "0", "--max", "3", "--", "true"];
    let mut process = Process::start(&mut elastick(&command));
    let port = process.number_after("answers at port");
    let path = file(&directory, &format!("[fleet]\nport = \"127.0.0.1:{port}\"\ngroup = \"idle\"\n"));
    let by_file = elastick(&["fleet", "status", "--config"]).arg(&path).output().expect("it runs");
    assert!(printed(&by_file).0.starts_with("group idle: 0 desired of 0 to 3"), "{by_file:?}");
    let port = port.to_string();
    let by_port = elastick(&["fleet", "status", "-p", &port, "--group", "idle"]).output().expect("it runs");
    assert!(printed(&by_port).0.starts_with("group idle"), "{by_port:?}");
    let nowhere = elastick(&["fleet", "status", "-p", "0"]).output().expect("it runs");
    assert!(printed(&nowhere).1.contains("--fleet HOST:PORT"), "{nowhere:?}");
}
