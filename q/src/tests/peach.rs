//! Each expression gives the same result on several threads as on one.

use crate::process::session::Session;
use crate::{Caller, Limits, eval_text, one_line};

/// More threads than the tests of this process use at once, so that helpers are always free.
const THREADS: usize = 64;

fn with_threads(threads: usize, lines: &[&str]) -> String {
    let mut session = Session::new().with_threads(threads);
    let mut last = String::new();
    for line in lines {
        last = match eval_text(&mut session, line.as_bytes(), &Limits::default()) {
            Ok(value) => String::from_utf8_lossy(&one_line(&value)).into_owned(),
            Err(error) => format!("'{}", String::from_utf8_lossy(&error.name)),
        };
        last.push_str(&String::from_utf8_lossy(&session.take_printed()));
    }
    last
}

#[test]
fn results_are_those_of_each() {
    let lists = [
        "til 1000",
        "0#0",
        "enlist 5",
        "5",
        "`a`b`c!1 2 3",
        "()!()",
        "(1 2;`a;\"x\";3.5)",
        "([]a:1 2 3;b:`x`y`z)",
        "([k:`p`q]v:1 2)",
        "\"abc\"",
    ];
    let functions = ["{x}", "{enlist x}", "{2#x}", "{type x}", "count", "string", "{[a]a,a}", "{x;y}[1]"];
    for list in lists {
        for function in functions {
            let each = with_threads(0, &[&format!("{function} each {list}")]);
            for parallel in [format!("{function} peach {list}"), format!("{function}':[{list}]")] {
                assert_eq!(with_threads(THREADS, &[&parallel]), each, "{parallel}");
            }
        }
    }
}

#[test]
fn the_error_is_that_of_the_first_item() {
    let bad = "{if[x>3;'`$\"bad\",string x];x} peach til 100";
    assert_eq!(with_threads(THREADS, &[bad]), "'bad4");
}

#[test]
fn an_error_does_not_wait_for_later_items() {
    let line = "{$[x;while[1b];'`first]} peach 0 1";
    assert_eq!(with_threads(THREADS, &[line]), "'first");
}

#[test]
fn assigning_is_rejected_where_threads_help_and_not_where_none_do() {
    let lines = ["f:{a::x}", "f peach 1 2 3", "a"];
    assert_eq!(with_threads(THREADS, &lines[..2]), "'noupdate");
    assert_eq!(with_threads(0, &lines), "3");
}

#[test]
fn globals_and_functions_are_seen() {
    let lines = ["k:10", ".n.f:{k*x}", "g:{.n.f[x]+1}", "sum g peach til 100"];
    assert_eq!(with_threads(THREADS, &lines), "49600");
}

#[test]
fn a_helper_runs_peach_as_each() {
    let nested = "{sum {x*x} peach til x} peach 3 4 5";
    assert_eq!(with_threads(THREADS, &[nested]), "5 14 30");
}

#[test]
fn output_of_helper_threads_keeps_the_order_of_items() {
    let printed = with_threads(THREADS, &["{-1 string x;} peach til 5;"]);
    assert!(printed.ends_with("0\n1\n2\n3\n4\n"), "{printed}");
}

#[test]
fn the_memory_limit_counts_helpers_together() {
    let mut session = Session::new().with_threads(THREADS);
    let limits = Limits { memory_bytes: 4 << 20, ..Limits::default() };
    // Each result fits in memory, all together do not.
    let error = eval_text(&mut session, b"{x+til 100000} peach til 100", &limits).expect_err("too much");
    assert_eq!(&error.name[..], b"wsfull");
}

#[test]
fn depth_of_recursion_is_bounded_on_helpers() {
    assert_eq!(with_threads(THREADS, &["f:{f x+1}", "f peach 1 2 3"]), "'stack");
}

#[test]
fn a_function_of_a_vector_is_applied_to_a_piece_for_each_thread() {
    assert_eq!(with_threads(4, &["(neg til 10)~.Q.fc[neg;til 10]"]), "1b");
    assert_eq!(with_threads(4, &["count each .Q.fc[{enlist x};til 10]"]), "2 3 2 3");
    assert_eq!(with_threads(0, &["count each .Q.fc[{enlist x};til 10]"]), ",10");
}

#[test]
fn the_number_of_threads_is_shown_and_lowered() {
    assert_eq!(with_threads(4, &["system\"s\""]), "4i");
    assert_eq!(with_threads(4, &["\\s 2", "\\s"]), "2i");
    assert_eq!(with_threads(4, &["\\s 5"]), "'limit");
    assert_eq!(with_threads(4, &["\\s 2", "\\s 0N"]), "4i");
}

#[test]
fn below_zero_the_processes_of_its_handles_work() {
    let three = "{x+1}peach 1 2 3";
    assert_eq!(with_threads(4, &["\\s -2", "\\s"]), "-2i");
    assert_eq!(with_threads(4, &["\\s -2", "\\s 0N"]), "4i");
    assert_eq!(with_threads(0, &["\\s -2", "\\s 0N"]), "-2i");
    assert_eq!(with_threads(4, &["\\s -2", "\\s 3", "\\s"]), "3i");
    // Without handles it is each.
    assert_eq!(with_threads(0, &["\\s -2", three]), "2 3 4");
    assert_eq!(with_threads(0, &["\\s -2", ".z.pd:`u#`int$()", three]), "2 3 4");
    assert_eq!(with_threads(0, &["\\s -2", ".z.pd:{0#0i}", three]), "2 3 4");
    for handles in ["7 8i", "`u#7 8", "{7 8i}", "7i"] {
        assert_eq!(with_threads(0, &["\\s -2", &format!(".z.pd:{handles}"), three]), "'type", "{handles}");
    }
    assert!(with_threads(0, &["\\s -2", ".z.pd:`u#77 78i", three]).starts_with("'Cannot write to handle 77"));
    assert_eq!(with_threads(0, &["\\s -2", ".z.pd:{'gone}", three]), "'gone");
}

#[test]
fn the_owner_alone_sets_processes() {
    let mut session = Session::new();
    session.set_caller(Caller { handle: 7, remote: true, ..Caller::default() });
    for line in ["system\"s -2\"", ".z.pd:`u#7 8i"] {
        let error = eval_text(&mut session, line.as_bytes(), &Limits::default()).expect_err(line);
        assert_eq!(&error.name[..], b"access", "{line}");
    }
}
