//! Start errors, and kdb+'s options.

use crate::harness::{Directory, Process, elastick, signal, wait_for};
use elastick::net::Client;
use proto::{Limits, Value};
use std::time::Duration;

/// Error output of a process that must fail to start.
fn said(arguments: &[&str]) -> String {
    let output = elastick(arguments).stdin(std::process::Stdio::null()).output().expect("it runs");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(matches!(output.status.code(), Some(1 | 2)), "{arguments:?}: {said}");
    said
}

fn says(arguments: &[&str], words: &[&str]) {
    let said = said(arguments);
    for word in words {
        assert!(said.contains(word), "{arguments:?} does not say {word:?}: {said}");
    }
}

#[test]
fn a_port_in_use_is_named_with_advice() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = format!("127.0.0.1:{}", taken.local_addr().expect("bound").port());
    let number = port.rsplit(':').next().expect("a number");
    let words = [number, "on 127.0.0.1", "Address already in use", "ss -ltnp"];
    says(&["tick", "sym", "-p", &port], &words);
    says(&["rdb", ":1", "-p", &port], &words);
    says(&["q", "-p", &port], &words);
    says(&["fleet", "-p", &port, "--min", "0", "--max", "1", "--", "true"], &words);
    says(&["tick", "sym", "--open", "-p", "192.0.2.1:5010"], &["192.0.2.1 is not an address of this machine"]);
}

#[test]
fn a_subcommand_that_has_moved_names_its_new_place() {
    says(&["sim", "--seed", "1"], &["elastick-sim days"]);
    says(&["model"], &["elastick-sim model"]);
}

#[test]
fn an_unknown_option_of_any_program_is_named() {
    let programs: [&[&str]; 14] = [
        &[],
        &["demo"],
        &["feed"],
        &["fleet"],
        &["fleet", "status"],
        &["log", "cat"],
        &["log", "info"],
        &["log", "repair"],
        &["log", "verify"],
        &["q"],
        &["q", "-s", "4"],
        &["q", "127.0.0.1:1"],
        &["rdb"],
        &["tick"],
    ];
    for program in programs {
        let arguments = [program, &["--nosuch"]].concat();
        let output = elastick(&arguments).stdin(std::process::Stdio::null()).output().expect("it runs");
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {said}");
        assert!(said.contains("--nosuch") && output.stdout.is_empty(), "{arguments:?}: {said}");
    }
    let directory = Directory::new("starting-options");
    let script = directory.path().join("s.q");
    std::fs::write(&script, "-1 \" \"sv .z.x;\n").expect("written");
    let arguments = ["q", script.to_str().expect("a path"), "--nosuch", "-x", "1"];
    let output = elastick(&arguments).stdin(std::process::Stdio::null()).output().expect("it runs");
    assert_eq!(String::from_utf8_lossy(&output.stdout), "--nosuch -x 1\n");
}

#[test]
fn a_time_zone_that_is_unknown_ends_the_start() {
    let programs: [&[&str]; 5] =
        [&["tick", "sym", "-p", "127.0.0.1:0"], &["rdb", ":1"], &["q"], &["feed", ":1"], &["demo"]];
    for arguments in programs {
        let mut command = elastick(arguments);
        let output = command.env("TZ", "Europe/Zurch").stdin(std::process::Stdio::null()).output().expect("it runs");
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {said}");
        assert!(said.contains("TZ is \"Europe/Zurch\"") && said.contains("tzdata"), "{arguments:?}: {said}");
    }
    // On Unix an empty TZ is UTC; a POSIX rule and a path need no time zone database.
    for zone in ["", "UTC", "EST5EDT,M3.2.0,M11.1.0", "<+03>-3"] {
        let output = elastick(&["q"]).env("TZ", zone).stdin(std::process::Stdio::null()).output().expect("it runs");
        assert!(output.status.success(), "{zone:?}: {}", String::from_utf8_lossy(&output.stderr));
    }
}

#[test]
fn a_log_that_cannot_be_written_is_named_with_advice() {
    let directory = Directory::new("starting-log");
    let file = directory.path().join("file");
    std::fs::write(&file, "").expect("written");
    let file = file.to_str().expect("a path");
    says(&["tick", "sym", file, "-p", "127.0.0.1:0"], &[file, "must be a directory"]);
}

#[test]
fn an_error_in_a_schema_is_shown_where_it_is() {
    let directory = Directory::new("starting-schema");
    let file = directory.path().join("bad.q");
    std::fs::write(&file, "a:1\ntrade:([]time:`timespan$();sym:`symbol$();x:1+`a)\n").expect("written");
    let file = file.to_str().expect("a path");
    says(&["tick", "bad", "-p", "127.0.0.1:0", "--schemas", file], &[file, "line 2", "'type", "x:1+`a", "^"]);
    let nowhere = directory.path().to_str().expect("a path");
    says(
        &["tick", "nosuch", "-p", "127.0.0.1:0", "--schemas", nowhere],
        &["no nosuch.q", &format!("at {nowhere}/nosuch.q, /"), "/schemas/nosuch.q, /", "/tick/nosuch.q", "--schemas"],
    );
    says(&["rdb", ":1", "-p", "127.0.0.1:0", "-u", "/nonexistent/users"], &["-u, -U", "/nonexistent/users"]);
    says(&["q", "-p", "127.0.0.1:0", "-u", "/nonexistent/users"], &["-u, -U", "/nonexistent/users"]);
    says(&["q", "-U", "/nonexistent/users"], &["-u, -U", "/nonexistent/users"]);
    says(&["rdb", ":1", "-p", "127.0.0.1:0", "--allow", "/nonexistent/names"], &["--allow", "/nonexistent/names"]);
}

#[test]
fn options_of_kdb_are_accepted_or_rejected_by_meaning() {
    for program in [&["tick", "sym"][..], &["rdb", ":1"]] {
        for (option, word) in [
            (&["-l"][..], "tick SRC DIR"),
            (&["-L"], "tick SRC DIR"),
            (&["-r", ":h:5010"], "elastick rdb"),
            (&["-o", "2"], "TZ"),
            (&["-S", "42"], "seed"),
            (&["-m", "/mnt"], "memory domain"),
            (&["-e", "1"], "suspends"),
            (&["-P", "x"], ""),
            (&["-W", "9"], "0 to 6"),
        ] {
            says(&[program, option, &["-p", "127.0.0.1:0"]].concat(), &[word]);
        }
    }
    says(&["tick", "sym", "-s", "4"], &["peach"]);
    says(&["tick", "sym", "-C", "40", "200"], &["pages", ".z.ph"]);
    says(&["rdb", ":1", "-t", "0.5ms"], &["whole number of milliseconds"]);
    says(&["rdb", ":1", "-c", "25"], &["rows and columns"]);
    let mut command = elastick(&["rdb", ":1", "-p", "127.0.0.1:0", "--unix-sockets=", "--memory", "64MiB"]);
    let files = Directory::new("starting-options");
    let file = files.path().join("timer.q");
    std::fs::write(&file, "called:0\n.z.ts:{called+:1}\n").expect("written");
    let mut node = Process::start(
        command
            .arg(&file)
            .args(["-t", "5"])
            .args(["-z", "1", "-W", "0", "-P", "3", "-g", "1", "-e", "0"])
            .args(["-c", "30", "100", "-C", "40", "200"]),
    );
    let port = node.number_after("listening on");
    let address = format!("127.0.0.1:{port}:test:").parse().expect("an address");
    let mut client = Client::connect(&address, Duration::from_secs(30), Limits::default()).expect("connected");
    let mut answer = |question: &str| client.query(question).expect(question);
    assert_eq!(answer("\"D\"$\"03/04/2026\""), answer("2026.04.03"));
    assert_eq!(answer("system\"c\""), Value::ints([30, 100]));
    assert_eq!(answer("system\"C\""), Value::ints([40, 200]));
    assert_eq!(answer("string 1%3"), Value::chars("0.333"));
    assert_eq!(answer("system\"t\""), Value::Int(5));
    wait_for("the timer", || (answer("called>2") == Value::Bool(true)).then_some(()));
    let mut tick = elastick(&["tick", "sym", "-p", "127.0.0.1:0", "-z", "1", "-g", "0"]);
    let mut tick = Process::start(tick.args(["-P", "3", "-c", "30", "100"]));
    let port = tick.number_after("listening on");
    let address = format!("127.0.0.1:{port}:test:").parse().expect("an address");
    let mut client = Client::connect(&address, Duration::from_secs(30), Limits::default()).expect("connected");
    let mut answer = |question: &str| client.query(question).expect(question);
    assert_eq!(answer("\"D\"$\"03/04/2026\""), answer("2026.04.03"));
    // On a query thread, and on the event loop.
    for question in ["string 1%3", "{.u.t;string x}1%3"] {
        assert_eq!(answer(question), Value::chars("0.333"));
    }
    assert_eq!(answer("system\"c\""), Value::ints([30, 100]));
}

#[test]
fn an_empty_value_is_rejected_in_words() {
    for option in ["--load=", "--tables=", "--symbols=", "--remote-may=", "--node=", "-p="] {
        says(&["rdb", ":1", option, "-p", "127.0.0.1:0"][..if option == "-p=" { 3 } else { 5 }], &["empty"]);
    }
    says(&["tick", "sym", "--operators="], &["operators (from command line)", "empty", "unset the option"]);
    let mut command = elastick(&["rdb", ":1"]);
    let output = command.env("ELASTICK_LOAD", "").stdin(std::process::Stdio::null()).output().expect("it runs");
    assert!(
        String::from_utf8_lossy(&output.stderr).contains("load (from ELASTICK_LOAD): the value is empty"),
        "{output:?}"
    );
}

#[test]
fn a_feed_reports_an_unreachable_tickerplant_and_ends_on_sigterm() {
    use std::io::BufRead;
    let nobody = std::net::TcpListener::bind("127.0.0.1:0").and_then(|server| server.local_addr()).expect("a port");
    let mut command = elastick(&["feed", &nobody.to_string()]);
    let mut feed = command.stderr(std::process::Stdio::piped()).spawn().expect("it runs");
    let mut lines = std::io::BufReader::new(feed.stderr.take().expect("piped")).lines();
    let line = lines.next().expect("a line").expect("text");
    assert!(line.contains(&format!("cannot connect to {nobody}")) && line.contains("; retrying for "), "{line}");
    signal(feed.id(), "TERM");
    assert_eq!(feed.wait().expect("it ends").code(), Some(1));
    let rest: Vec<String> = lines.map_while(Result::ok).collect();
    assert!(rest.last().is_some_and(|line| line.starts_with("elastick feed: cannot connect to")), "{rest:?}");
}
