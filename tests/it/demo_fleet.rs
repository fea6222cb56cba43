//! `elastick fleet` with real child processes.

use crate::harness::{Directory, Process, elastick, is_running, signal, wait_for};
use elastick::fleet::local::Local;
use elastick::fleet::protocol::Call;
use elastick::fleet::{Capacity, Description, Fleet, FleetError, Identity, Reason, Stage};
use elastick::net::Client;
use proto::Limits;
use std::time::Duration;

/// Arguments of a fleet of processes that idle until they are terminated.
fn fleet(arguments: &[&str]) -> (Process, u16) {
    let idle = ["--", "sleep", "100000"];
    let mut process =
        Process::start(&mut elastick(&[&["fleet", "-p", "127.0.0.1:0", "--group", "idle"], arguments, &idle].concat()));
    let port = process.number_after("answers at port");
    (process, port)
}

fn member(port: u16, instance: &str) -> Local {
    let identity = Identity { instance: instance.to_string(), group: "idle".to_string() };
    Local::new(format!("127.0.0.1:{port}").parse().expect("an address"), identity)
}

fn running(description: &Description) -> Vec<(String, u32)> {
    let ids = description.members.iter().map(|m| Some((m.instance.clone(), m.process?)));
    ids.collect::<Option<_>>().unwrap_or_default()
}

/// Name of an instance, which has a tag of its supervisor before its number.
fn name(port: u16, number: u32) -> String {
    let members = operator(port).describe().expect("the fleet answers").members;
    let mut names = members.into_iter().map(|member| member.instance);
    names.find(|name| name.ends_with(&format!("-{number}"))).expect("there is such an instance")
}

/// A caller that is no instance.
fn operator(port: u16) -> Local {
    member(port, "operator")
}

/// The instances, once there are `count` and all of them run.
fn wait_for_running(port: u16, count: usize) -> Vec<(String, u32)> {
    let mut fleet = operator(port);
    wait_for("instances to run", || {
        Some(running(&fleet.describe().expect("the fleet answers"))).filter(|running| running.len() == count)
    })
}

#[test]
fn it_starts_with_its_minimum_and_grows_on_request() {
    let (_process, port) = fleet(&["--min", "2", "--max", "4"]);
    assert_eq!(wait_for_running(port, 2).len(), 2);
    let mut first = operator(port);
    for _ in 0..2 {
        assert_eq!(first.at_least(3).expect("an answer"), Capacity::Granted { desired: 3 });
    }
    assert_eq!(wait_for_running(port, 3).len(), 3);
}

#[test]
fn one_that_is_replaced_has_notice_until_it_is_released() {
    let (_process, port) = fleet(&[]);
    let (name, first) = wait_for_running(port, 1).remove(0);
    let mut own = member(port, &name);
    own.ready().expect("an answer");
    assert_eq!(own.notice().expect("an answer"), None);
    own.replace(&name).expect("an answer");
    let notice = own.notice().expect("an answer").expect("a notice");
    assert_eq!(notice.reason, Reason::Unhealthy);
    assert!(notice.left.is_some_and(|left| !left.is_zero()), "{notice:?}");
    assert!(wait_for_running(port, 2)[1].0.ends_with("-2"), "its successor starts meanwhile");
    assert!(is_running(first));
    own.released().expect("an answer");
    wait_for("the first to end", || (!is_running(first)).then_some(()));
}

#[test]
fn a_group_that_is_made_smaller_leaves_those_that_are_protected() {
    let (_process, port) = fleet(&["--min", "0", "--max", "2"]);
    operator(port).at_least(2).expect("an answer");
    let name = wait_for_running(port, 2).remove(0).0;
    let mut first = member(port, &name);
    first.protect(true).expect("an answer");
    let address = format!("127.0.0.1:{port}").parse().expect("an address");
    let mut operator = Client::connect(&address, Duration::from_secs(30), Limits::default()).expect("connected");
    let smaller = Call::Exactly { group: "idle".to_string(), desired: 0 };
    operator.request(&smaller.encode()).expect("done");
    let left = wait_for_running(port, 1);
    assert_eq!(left[0].0, name);
    first.protect(false).expect("an answer");
    wait_for_running(port, 0);
}

#[test]
fn its_status_is_a_table() {
    let (_process, port) = fleet(&["--min", "2"]);
    wait_for_running(port, 2);
    let address = format!("127.0.0.1:{port}");
    let output = elastick(&["fleet", "status", "--fleet", &address, "--group", "idle"]).output().expect("it runs");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(text.starts_with("group idle: 2 desired of 2 to 10"), "{text}");
    for word in ["instance", "stage", &name(port, 1), &name(port, 2), "starting", "process"] {
        assert!(text.contains(word), "{text}");
    }
    assert!(!text.contains("zone"), "only what a supervisor knows: {text}");
}

#[test]
fn it_rejects_more_than_its_maximum() {
    let (_process, port) = fleet(&["--max", "2"]);
    let refused = operator(port).at_least(3).expect("an answer");
    assert!(matches!(refused, Capacity::Refused { desired: 2, .. }), "{refused:?}");
}

#[test]
fn a_killed_child_is_replaced() {
    let (_process, port) = fleet(&[]);
    let before = wait_for_running(port, 1);
    signal(before[0].1, "KILL");
    let mut fleet = operator(port);
    let after = wait_for("another instance", || {
        Some(running(&fleet.describe().expect("the fleet answers"))).filter(|now| now.len() == 1 && *now != before)
    });
    assert!(after[0].0.ends_with("-2"), "{after:?}");
}

#[test]
fn a_terminated_child_ends_and_is_not_replaced() {
    let (_process, port) = fleet(&[]);
    operator(port).at_least(2).expect("an answer");
    let children = wait_for_running(port, 2);
    member(port, &name(port, 1)).terminate_me().expect("it may go");
    assert_eq!(wait_for_running(port, 1), children[1..]);
    wait_for("the child to end", || (!is_running(children[0].1)).then_some(()));
    let kept = member(port, &name(port, 2)).terminate_me();
    assert!(matches!(&kept, Err(FleetError::Refused(reason)) if reason.contains("minimum")), "{kept:?}");
}

#[test]
fn lead_time_is_measured_until_ready() {
    let (_process, port) = fleet(&["--launch-delay", "100ms"]);
    wait_for_running(port, 1);
    let mut first = member(port, &name(port, 1));
    first.ready().expect("an answer");
    let description = first.describe().expect("an answer");
    assert_eq!(description.members[0].stage, Stage::InService);
    assert!(description.lead_time.is_some_and(|lead| lead.as_millis() >= 100), "{description:?}");
}

#[test]
fn nothing_is_left_when_it_ends() {
    let (mut process, port) = fleet(&["--min", "3"]);
    let children = wait_for_running(port, 3);
    assert!(process.stop().success());
    assert!(children.iter().all(|(_, id)| !is_running(*id)));
}

#[test]
fn nothing_is_left_when_it_is_killed() {
    let (mut process, port) = fleet(&["--min", "3"]);
    let children = wait_for_running(port, 3);
    process.kill();
    wait_for("the children to die", || children.iter().all(|(_, id)| !is_running(*id)).then_some(()));
}

#[test]
fn children_know_their_fleet_and_write_to_their_own_file() {
    let directory = Directory::new("fleet-output");
    let output = directory.path().to_str().expect("a path");
    let script = "echo $ELASTICK_INSTANCE $ELASTICK_GROUP $ELASTICK_FLEET; exec sleep 100000";
    let command = ["fleet", "-p", "127.0.0.1:0", "--group", "idle", "--output", output, "--", "sh", "-c", script];
    let mut process = Process::start(&mut elastick(&command));
    let port = process.number_after("answers at port");
    wait_for("the child's words", || {
        let file = std::fs::read_dir(directory.path()).expect("the directory").flatten().next()?.path();
        let name = file.file_stem()?.to_str()?;
        let text = std::fs::read_to_string(&file).ok()?;
        (text == format!("{name} idle 127.0.0.1:{port}\n")).then_some(())
    });
}
