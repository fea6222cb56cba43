//! The debugger of `elastick q -e 1`: an error in a function suspends it, `:value` continues it.

use crate::harness::{Directory, elastick};
use crate::q_session::{shown, with_one_output};
use crate::rdb_process::{ask, refused};
use crate::remote_rights::connect;
use proto::Value;
use std::io::{BufRead, BufReader, Lines, PipeReader, Write};
use std::process::Child;

/// What a session prints for lines of which one fails in a function, with the debugger on.
fn debugged(lines: &str) -> String {
    shown(&["-e", "1"], lines)
}

#[test]
fn a_suspended_evaluation_continues_with_a_value() {
    // The value takes the place of what failed, not of the function.
    let shown = debugged("{0N!\"x+1 is \",string x+1;x}`asd\n:17\n");
    assert!(shown.starts_with("'type ") && shown.ends_with("^\n\"x+1 is 17\"\n`asd\n"), "{shown}");
    // Locals are in scope of the value, a local that was being changed keeps its items, and each failure suspends.
    assert!(debugged("{l:(x;1;`c);l[1]:{x+`b}each 1 2;l}3\n:10*x\n:5\n").ends_with("3\n10 5\n`c\n"));
    assert!(debugged("f:{breakhere;`ended}\nf 1\n:\n").ends_with("^\n`ended\n"));
    assert!(debugged("{value x}\"1+`a\"\n:8\n").ends_with("^\n8\n"));
    // A trap handles its errors; the function around it is suspended at its own.
    assert!(debugged("{(@[{x+`a};x;\"trapped \",];x+`b)}1\n:2\n").ends_with("^\n\"trapped type\"\n2\n"));
}

#[test]
fn a_suspended_script_continues_with_its_next_line() {
    let directory = Directory::new("session-resumed");
    let script = directory.path().join("s.q");
    std::fs::write(&script, "a:b:0\nfunc:{1+x}\na:func`a\nb:1\n").expect("written");
    let shown = debugged(&format!("\\l {}\n.Q.bt[]\n:42\na,b\n", script.display()));
    let place = format!("  [3]  {}:2: func:{{1+x}}\n", script.display());
    assert!(shown.contains(&place) && shown.contains(":3: a:func`a\n") && shown.ends_with("^\n42 1\n"), "{shown}");
}

#[test]
fn a_suspended_evaluation_shows_the_locals_of_every_frame() {
    let lines = "f:{g[x;2#y]}\ng:{a:x*2;a+y}\nf[3;\"hello\"]\na*4\n`\ny\n.\na\n'other\n(x;y)\n\\\n1+1\n";
    let shown = debugged(lines);
    let frames: Vec<&str> = shown.lines().filter(|line| !line.trim_start().starts_with('^')).collect();
    let expected = [
        "'type (+ was given a long and a string)",
        "  [2]  g:{a:x*2;a+y}",
        "24",
        "  [1]  f:{g[x;2#y]}",
        "\"hello\"",
        "  [2]  g:{a:x*2;a+y}",
        "6",
        "'other",
        "  [1]  f:{g[x;2#y]}",
        "3",
        "\"hello\"",
        "2",
    ];
    assert_eq!(frames, expected);
}

#[test]
fn debuggers_nest_and_each_backslash_ends_one() {
    let lines = "{x+y}[1;`a]\n{x*y}[x;`b]\n.z.ey\n\\\ny\n\\\nx\n";
    let shown = debugged(lines);
    assert!(shown.contains("^\n1\n`b\n`a\n'x (no variable"), "{shown}");
}

#[test]
fn a_suspended_evaluation_continues_with_the_locals_that_the_debugger_leaves() {
    assert!(debugged("f:{a:1;x+`b;a}\nf 5\na:7\na\n:0\n").ends_with("^\n7\n7\n"));
    // A change that failed leaves its local as it was.
    assert!(debugged("f:{x:1;x+:`a;x}\nf 1\nx\n:0\n").ends_with("^\n1\n1\n"));
    assert!(debugged("f:{b:til 3;b[`a]:5;b}\nf 1\n:0\n").ends_with("^\n0 1 2\n"));
    // Of a frame further out, too.
    assert!(debugged("f:{a:1;g x;a}\ng:{x+`b}\nf 5\n`\na:8\n:0\n").ends_with("^\n8\n"));
}

#[test]
fn a_debugger_is_in_the_namespace_of_the_frame() {
    let lines = "\\d .foo\nf:{b:x+`a;b}\nh:2\n\\d .\n.foo.f 1\nh\n`\nh\n:3\nsystem\"d\"\n";
    let shown = debugged(lines);
    assert!(shown.contains("^\n2\n  [0]  .foo.f 1\n") && shown.contains("'h (no variable"), "{shown}");
    assert!(shown.ends_with("^\n3\n`.\n"), "{shown}");
}

/// A session with a debugger and a port, the rest of its output, and the port.
fn suspending(script: Option<&str>) -> (Child, Lines<BufReader<PipeReader>>, u16) {
    let mut command = elastick(&["q"]);
    command.args(script).args(["-q", "-e", "1", "-p", "0W"]);
    let (mut child, output) = with_one_output(command);
    if script.is_none() {
        writeln!(child.stdin.as_mut().expect("piped"), "-1 string system\"p\";").expect("taken");
    }
    let mut output = BufReader::new(output).lines();
    let port = output.next().expect("a line").expect("text").parse().expect("a port");
    (child, output, port)
}

/// Gives a session its last lines, and returns what it prints until it ends.
fn ended(mut child: Child, output: Lines<BufReader<PipeReader>>, lines: &str) -> Vec<String> {
    let input = child.stdin.as_mut().expect("piped");
    writeln!(input, "{lines}\nexit 0").expect("taken");
    let rest = output.map(|line| line.expect("text")).collect();
    assert_eq!(child.wait().expect("it ends").code(), Some(0));
    rest
}

#[test]
fn clients_and_the_timer_are_served_while_an_evaluation_is_suspended() {
    let (mut child, mut output, port) = suspending(None);
    let input = child.stdin.as_mut().expect("piped");
    writeln!(input, "n:0\n.z.ts:{{n+:1}}\n\\t 10\n{{k:x+`a;n>0}}1").expect("taken");
    assert!(output.next().expect("a line").expect("text").starts_with("'type"));
    // The client's own error is its alone, and does not suspend anything.
    let mut client = connect(port);
    assert_eq!(refused(&mut client, "{x+`b}1"), "type");
    assert!((0..100_000).any(|_| ask(&mut client, "n") != Value::Long(0)), "the timer is served");
    let rest = ended(child, output, ":3\n`after");
    assert_eq!(rest[rest.len() - 2..], ["1b", "`after"]);
}

#[test]
fn clients_are_served_while_a_script_of_the_command_line_is_suspended() {
    let directory = Directory::new("session-start");
    let script = directory.path().join("s.q");
    std::fs::write(&script, "-1 string system\"p\";\nf:{x+`a}\nr:f 1\n").expect("written");
    let (child, output, port) = suspending(script.to_str());
    assert_eq!(ask(&mut connect(port), "1+1"), Value::Long(2));
    // What is defined meanwhile is not of the script.
    let rest = ended(child, output, "g:{x+`c}\n:5\nr\ng 1\n\\");
    assert!(rest.contains(&"5".to_string()) && rest.contains(&"  [1]  g:{x+`c}".to_string()), "{rest:?}");
}

#[test]
fn a_suspended_evaluation_gets_no_rights_of_the_lines_at_its_console() {
    for line in ["\\ts 1", "\\t 0", "1+1", ":"] {
        let (mut child, mut output, port) = suspending(None);
        ask(&mut connect(port), "f:{x+`a;system\"echo granted\"}");
        writeln!(child.stdin.as_mut().expect("piped"), "f 1").expect("taken");
        assert!(output.next().expect("a line").expect("text").starts_with("'type"));
        let rest = ended(child, output, &format!("{line}\n:5\n:6")).join("\n");
        assert!(rest.contains("'access") && !rest.contains("\n,\"granted\""), "{line}: {rest}");
    }
}
