//! The call stack of a process as another reads it, and as handlers and tools see their own.

use crate::harness::{Directory, wait_for};
use crate::q_session::serving;
use crate::rdb_process::{ask, refused};
use crate::remote_rights::{connect, session};
use crate::tick_support::Tick;
use proto::Value;

#[test]
fn a_process_reads_the_call_stack_of_another() {
    // Both never end: one in the register VM, one in the evaluator.
    let program = "g:{i:0;while[x;i+:1];i}\nf:{1+g x}\nslow:{while[x;y:asc 10000?1f]}\nouter:{1+slow[x;()]}\n";
    let (_files, mut watched, port) = serving("watched", program);
    let (_other_files, _other, other_port) = serving("no-rights", "");
    let own_files = Directory::new("session-watcher");
    let script = own_files.path().join("w.q");
    std::fs::write(&script, "-1\"port \",string system\"p\";\n").expect("written");
    let (_watcher, watcher_port) = session(&script, &["-u", "0"]);
    let mut watcher = connect(watcher_port);
    let mut target = connect(port);
    let Value::Int(pid) = ask(&mut target, ".z.i") else { panic!("no process number") };

    let idle = format!("cols .Q.prf0 {pid}i");
    assert_eq!(ask(&mut watcher, &idle), Value::symbols(["name", "file", "line", "col", "text", "pos"]));
    assert_eq!(ask(&mut watcher, &format!("count .Q.prf0 {pid}i")), Value::Long(0));

    target.send_async(&Value::chars("f 1b")).expect("sent");
    target.flush().expect("sent");
    let count = format!("count st::.Q.prf0 {pid}i");
    wait_for("the loop to run", || (ask(&mut watcher, &count) == Value::Long(3)).then_some(()));
    assert_eq!(ask(&mut watcher, "`$st`name"), Value::symbols(["", "..f", "..g"]));
    assert_eq!(ask(&mut watcher, "st`line"), Value::longs([-1, 2, 1]));
    assert_eq!(ask(&mut watcher, "st`col"), Value::longs([-1, 2, 2]));
    assert_eq!(ask(&mut watcher, "all(1_st`file)like\"*/s.q\""), Value::Bool(true));
    assert_eq!(ask(&mut watcher, "last st`text"), Value::chars("{i:0;while[x;i+:1];i}"));
    assert_eq!(ask(&mut watcher, "first st`text"), Value::chars("f 1b"));
    // `pos` of the level of f is the position of g in its text: where f calls g.
    assert_eq!(ask(&mut watcher, "st[`text;1]st[`pos]1"), Value::Char(b'g'));

    // A process without the right to run system commands, a process that is no elastick, and one that is gone.
    assert_eq!(refused(&mut connect(other_port), &format!(".Q.prf0 {pid}i")), "access");
    assert_eq!(refused(&mut watcher, &format!(".Q.prf0 {}i", std::process::id())), "binary mismatch");
    watched.kill();
    assert_eq!(refused(&mut watcher, &format!(".Q.prf0 {pid}i")), "No such process");
}

#[test]
fn a_primitive_is_found_in_the_function_that_applies_it() {
    let program = "inner:{asc x}\nouter:{while[x;inner y]}\n";
    let (_files, _watched, port) = serving("watched-primitive", program);
    let own_files = Directory::new("session-watcher-primitive");
    let script = own_files.path().join("w.q");
    std::fs::write(&script, "-1\"port \",string system\"p\";\n").expect("written");
    let (_watcher, watcher_port) = session(&script, &["-u", "0"]);
    let (mut watcher, mut target) = (connect(watcher_port), connect(port));
    let Value::Int(pid) = ask(&mut target, ".z.i") else { panic!("no process number") };
    target.send_async(&Value::chars("outer[1b;500000?1f]")).expect("sent");
    target.flush().expect("sent");
    // The loop does nothing else: a stack that was read late would be that of outer.
    let look = format!("`$last .Q.prf0[{pid}i]`name");
    wait_for("the loop to run", || (ask(&mut watcher, &look) == Value::symbol("..inner")).then_some(()));
    let looks = format!("`..inner in{{`$last .Q.prf0[{pid}i]`name}}each til 5");
    assert_eq!(ask(&mut watcher, &looks), Value::Bool(true));
}

#[test]
fn the_parts_of_a_tickerplants_functions_are_read_without_calling_them() {
    let tick = Tick::start("function-parts", &[]);
    let mut client = tick.client();
    let day = client.query(".u.d").expect("the day");
    // As editors count parameters.
    assert_eq!(client.query("(value .u.endofday)1").expect("parts"), Value::symbols(["x"]));
    assert_eq!(client.query("(value .u.sub)1").expect("parts"), Value::symbols(["x", "y"]));
    assert_eq!(client.query("last value .u.end").expect("parts"), Value::chars(".u.end"));
    assert_eq!(client.query(".u.d").expect("the day"), day);
}

#[test]
fn a_handler_that_traps_an_error_reads_its_own_stack() {
    let (_files, _process, port) = serving("own-stack", ".z.pg:{.Q.trp[value;x;{[e;b].Q.sbt b}]}\nbad:{x+`a}\n");
    let stack = ask(&mut connect(port), "bad 1");
    let stack = String::from_utf8_lossy(stack.as_text().expect("a text")).into_owned();
    let levels: Vec<&str> = stack.lines().filter(|line| line.starts_with("  [")).collect();
    assert_eq!(levels.len(), 4, "{stack}");
    assert!(levels[0].starts_with("  [3]  ") && levels[0].ends_with("bad:{x+`a}"), "{stack}");
    assert_eq!(levels[1..3], ["  [2]  bad 1", "  [1]  (.Q.trp)"], "{stack}");
    assert!(levels[3].starts_with("  [0]  ") && levels[3].contains("s.q:1: .z.pg:{.Q.trp["), "{stack}");
}

#[test]
fn a_function_that_mentions_a_trap_gives_a_client_no_stack_of_a_handler() {
    let script = "apply:{h:{[e;b].Q.sbt b};s:\".Q.trp\";x . y}\n.z.pg:{secret:1;value x}\n";
    let (_files, _process, port) = serving("mentioned", script);
    let stack = ask(&mut connect(port), "apply[.Q.trp;({1+x};`a;{[e;b].Q.sbt b})]");
    let stack = String::from_utf8_lossy(stack.as_text().expect("a text")).into_owned();
    assert!(!stack.contains("secret"), "{stack}");
}

#[test]
fn a_client_that_copies_a_handler_reads_no_stack_of_it() {
    let script = ".z.pg:{secret:1;.Q.trp[value;x;{[e;b]copied:{.Q.sbt y};'e}]}\n";
    let (_files, _process, port) = serving("copied", script);
    let lambda = |text: &str| Value::Lambda { namespace: Vec::new(), source: text.into() };
    let items = vec![Value::symbol(".Q.trp"), lambda("{1+x}"), Value::symbol("a"), lambda("{.Q.sbt y}")];
    let stack = connect(port).request(&Value::List { attr: 0, items }).expect("a stack");
    let stack = String::from_utf8_lossy(stack.as_text().expect("a text")).into_owned();
    assert!(stack.contains("{1+x}") && !stack.contains("secret"), "{stack}");
}
