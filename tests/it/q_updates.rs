//! `elastick q FILE -l`: the log of updates, across the end of the process.

use crate::harness::{Directory, elastick, wait_for};
use crate::rdb_process::{ask, refused};
use crate::remote_rights::{connect, session};
use proto::Value;

const PROGRAM: &str = "trade:([]sym:`symbol$();price:`float$())\nupd:insert\n-1\"port \",string system\"p\";\n";

#[test]
fn updates_of_clients_outlive_the_process() {
    let directory = Directory::new("updates");
    std::fs::write(directory.path().join("trade.q"), PROGRAM).expect("written");
    let base = directory.path().join("trade");
    let (mut process, port) = session(&base, &["-l"]);
    let mut client = connect(port);
    ask(&mut client, "`trade insert(`a;1f)");
    assert_eq!(refused(&mut client, "`trade insert(`b;2f);'oops"), "oops");
    assert_eq!(ask(&mut client, "count trade"), Value::Long(1));
    client.send_async(&Value::chars("upd[`trade;(`c;3f)]")).expect("sent");
    assert_eq!(ask(&mut client, "count trade"), Value::Long(2));
    process.kill();
    drop(process);

    let (mut process, port) = session(&base, &["-L"]);
    let mut client = connect(port);
    assert_eq!(ask(&mut client, "exec sym from trade"), Value::symbols(["a", "c"]));
    assert_eq!(refused(&mut client, "\\l"), "access");
    ask(&mut client, "delete from `trade where sym=`a");
    process.kill();
    drop(process);

    // The owner checkpoints in the script of another start.
    let script = format!("{PROGRAM}.z.ts:{{system\"l\";system\"t 0\"}}\n\\t 10\n");
    std::fs::write(directory.path().join("trade.q"), script).expect("written");
    let (mut process, port) = session(&base, &["-l"]);
    let log = directory.path().join("trade.log");
    wait_for("the checkpoint", || std::fs::metadata(&log).ok().filter(|found| found.len() == 8));
    assert_eq!(ask(&mut connect(port), "exec sym from trade"), Value::symbols(["c"]));
    process.kill();
    drop(process);
    let (_process, port) = session(&base, &["-l"]);
    assert_eq!(ask(&mut connect(port), "exec sym from trade"), Value::symbols(["c"]));
}

#[test]
fn a_log_needs_a_file_and_a_script_that_works() {
    let directory = Directory::new("updates-bad");
    let output = elastick(&["q", "-l"]).output().expect("it runs");
    assert!(!output.status.success());
    assert!(String::from_utf8_lossy(&output.stderr).contains("-l and -L need a FILE"));
    let script = directory.path().join("bad.q");
    std::fs::write(&script, "a:1\nb:1+`x\n").expect("written");
    let output = elastick(&["q", script.to_str().expect("a path"), "-l"]).output().expect("it runs");
    assert!(!output.status.success() && !directory.path().join("bad.log").exists());
}
