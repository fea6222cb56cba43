//! Applies every primitive to every nested and every long argument and syntax, on a thread with the production stack size. Each
//! case must return a value or an error: a stack overflow would end the process. The cases therefore run in a child process,
//! which records each case before it starts.

use crate::apply;
use crate::process::prelude;
use crate::process::session::{Session, Start};
use crate::runtime::limits::Limits;
use crate::syntax::prims;
use crate::syntax::prims::{Arity, PRIMITIVES};
use crate::verbs::matches;
use crate::{Console, QError, eval_message, eval_text, from_view, one_line, show, to_wire};
use columns::sys::shared::Nests;
use columns::sys::stack;
use columns::table::Value;
use columns::table::function::{Function, Iterator};
use columns::table::symbol::text;
use proto::{Endian, View, Writer};
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

const MARK: &str = "ELASTICK_NESTING_MARK";
const FROM: &str = "ELASTICK_NESTING_FROM";
/// Limit of failures collected before the test ends.
const MAX_FAILURES: usize = 40;

/// Deeply nested values: the function that adds a level, and the value it starts from.
const DEEP: &[(&str, &str)] = &[
    ("{enlist x}", "1"),
    ("{(x;\"a\")}", "`a"),
    ("{(`neg;x)}", "1"),
    ("{(neg;x)}", "1"),
    ("{(x;x)}", "()"),
    ("{`a`b!(x;1)}", "()"),
    ("{(x;1)!1 2}", "()"),
    ("{([]a:(x;1))}", "()"),
    ("{([k:1 2]a:(x;1))}", "()"),
    ("{([k:(x;1)]a:1 2)}", "()"),
    ("{{[a;b]a}[x]}", "1"),
    ("{x[;]}", "{[a;b]a}"),
    ("{('[x;neg])}", "neg"),
    ("{('[neg;x])}", "neg"),
    ("{(x')}", "neg"),
    ("{(x/)}", "{x+y}"),
    ("{(\";\";x)}", "1"),
    ("{(`while;0b;x)}", "1"),
    ("{(:;`zz;x)}", "1"),
    ("{(?;x;();0b;())}", "([]a:1 2)"),
];

/// Long values.
const LONG: &[&str] = &["til 2000", "30000#\"'\"", "2000#enlist 1 2", "2000#`a", "([]a:til 2000)"];

/// Additional arguments passed with a nested or long one.
const BESIDE: &[&str] = &["1", "`a", "{x}"];

/// Prefix, repeated text and suffix.
const SYNTAX: &[(&str, &str, &str)] = &[
    ("neg", "'", " 1"),
    ("+", "/", " 1 2"),
    ("+", "\\", " 1 2"),
    ("-", "':", " 1 2"),
    ("+", "/:", "[1;2]"),
    ("f", "\\:", ""),
    ("", "(", ""),
    ("", "[", ""),
    ("", "{", ""),
    ("", "{[x]", ""),
    ("", "1+", "1"),
    ("", "neg ", "1"),
    ("", "neg neg@", "1"),
    ("", "f g", " 1"),
    ("", "x:", "1"),
    ("", "x::", "1"),
    ("", "a[1]:", "1"),
    ("", "a+:", "1"),
    ("", ":", "1"),
    ("", "'", "`a"),
    ("f", "[1]", ""),
    ("f", "[;1]", ""),
    ("f", "[1;", ""),
    ("", "1;", "1"),
    ("(", "1;", "1)"),
    ("{", "x;", "x}"),
    ("", "$[1b;1;", "1"),
    ("$[", "1b;1;", "1]"),
    ("", "if[1b;", ""),
    ("", "while[0b;", ""),
    ("", "do[1;", ""),
    ("", "select from ", "t"),
    ("", "select a from select ", "t"),
    ("", "(select from ", "t"),
    ("select ", "a,", "a from t"),
    ("select from t where ", "a,", "a"),
    ("", "exec a from (", "t"),
    ("", "([]a:", "1"),
    ("", "([a:1]b:", "1"),
    ("(neg", " neg", ")"),
    ("('[", "neg;", "neg])"),
    ("", "'[neg;", "neg"),
    ("", "@[", "1"),
    ("", ".[", "1"),
    ("", "a.b.", "c"),
    ("", ".a", ""),
    ("", "`a", ""),
    ("", "1 ", ""),
    ("\"", "\\\\", "\""),
    ("", "(1;", "1"),
    ("", "- ", "1"),
    ("", "(-)", "1"),
    ("", "each ", "1"),
    ("", "1 each ", "1"),
    ("", "v::", "1"),
    ("", "k)", "1"),
    ("", "\\", ""),
    ("", "\n", "1"),
    ("", "/ a\n", "1"),
    (":[1;", "1;1;", "1]"),
];

/// Returns the brackets that close those left open by `times` repetitions of a part.
fn closing(part: &str, times: usize) -> String {
    let mut open = Vec::new();
    for c in part.chars() {
        match c {
            '(' => open.push(')'),
            '[' => open.push(']'),
            '{' => open.push('}'),
            ')' | ']' | '}' => drop(open.pop()),
            _ => {}
        }
    }
    open.iter().rev().collect::<String>().repeat(times)
}

fn limits() -> Limits {
    let deadline = Instant::now().checked_add(Duration::from_millis(25));
    Limits { deadline, memory_bytes: 256 << 20, ..Limits::default() }
}

/// Returns the deepest value that a step can build: the last one before an error.
fn deepest(step: &str, first: &str) -> Value {
    let value = |text: &str| eval_text(&mut Session::new(), text.as_bytes(), &Limits::default()).expect(text);
    let (written, step, mut made) = (step, value(step), value(first));
    for _ in 0..proto::DEEPEST {
        match apply(&mut Session::new(), &step, &[made.clone()], &limits()) {
            Ok(deeper) => made = deeper,
            Err(error) if made.depth() < 100 => panic!("{written}: {error} at {} levels", made.depth()),
            Err(_) => break,
        }
    }
    assert!(made.depth() > 100, "{written}: {} levels", made.depth());
    made
}

/// Runs cases, after recording each.
struct Cases {
    mark: File,
    from: usize,
    at: usize,
}

impl Cases {
    fn case(&mut self, name: impl FnOnce() -> String, run: impl FnOnce() -> Result<Value, QError>) {
        self.at += 1;
        if self.at <= self.from {
            return;
        }
        let mut note = format!("{} {}", self.at, name()).into_bytes();
        note.resize(240, b' ');
        self.mark.write_all_at(&note, 0).expect("the note");
        if let Ok(value) = run() {
            assert!(
                usize::from(value.depth()) < proto::DEEPEST,
                "deeper than may be: {}",
                String::from_utf8_lossy(&note)
            );
            used(&value);
        }
    }
}

/// Exercises everything that happens to a value in transit: copy, comparison, display, serialisation, parsing.
fn used(value: &Value) {
    limits().within(|| {
        let copy = value.clone();
        let _ = (matches::same(value, &copy), matches::order(value, &copy), one_line(value).len());
        let _ = show(value, &Console::default());
        let mut bytes = Vec::new();
        let mut writer = Writer::new(&mut bytes);
        let sent = to_wire(value, &mut writer);
        if sent.is_ok()
            && writer.finish().is_ok()
            && let Ok((view, _)) = View::parse(&bytes, Endian::Little, &proto::Limits::default())
        {
            let _ = from_view(&view);
        }
    });
}

fn functions() -> Vec<(String, Value)> {
    let mut all: Vec<(String, Value)> = PRIMITIVES
        .iter()
        .enumerate()
        .map(|(i, p)| (p.name.to_string(), prims::of_index(u16::try_from(i).expect("a small table"))))
        .collect();
    for name in prelude::definitions::all() {
        let written = String::from_utf8_lossy(text(name)).into_owned();
        if let Ok(value @ Value::Func(_)) = eval_text(&mut Session::new(), written.as_bytes(), &Limits::default()) {
            all.push((written, value));
        }
    }
    // Internal functions: `-8!x` and the like.
    for number in 1..=40 {
        let bang = format!("{{(neg {number})!x}}");
        let value = eval_text(&mut Session::new(), bang.as_bytes(), &Limits::default()).expect("a lambda");
        all.push((format!("-{number}!"), value));
    }
    all
}

fn run_all(cases: &mut Cases) {
    syntax(cases);
    let value = |text: &str| eval_text(&mut Session::new(), text.as_bytes(), &Limits::default()).expect(text);
    let beside: Vec<(String, Value)> = BESIDE.iter().map(|t| (t.to_string(), value(t))).collect();
    let mut shapes: Vec<(String, Value, bool)> =
        DEEP.iter().map(|(step, first)| (format!("{step} of {first}"), deepest(step, first), true)).collect();
    shapes.extend(LONG.iter().map(|t| (t.to_string(), value(t), false)));
    let functions = functions();
    for (shape, x, deep) in &shapes {
        cases.case(|| shape.clone(), || Ok(x.clone()));
        let mut host = Session::new();
        let message = |host: &mut Session, object: &Value| eval_message(host, object, &limits());
        cases.case(|| format!("message {shape}"), || message(&mut host, x));
        cases.case(|| format!("message f {shape}"), || message(&mut host, &Value::list(vec![value("{x}"), x.clone()])));
        cases.case(
            || format!("message {shape} 1"),
            || message(&mut host, &Value::list(vec![x.clone(), Value::Long(1)])),
        );
        for (name, f) in &functions {
            let mut host = Session::new();
            let mut call = |cases: &mut Cases, form: &str, f: &Value, given: &[Value]| {
                cases.case(|| format!("{name} {form} {shape}"), || apply(&mut host, f, given, &limits()));
            };
            call(cases, "x", f, std::slice::from_ref(x));
            call(cases, "x x", f, &[x.clone(), x.clone()]);
            // Primitives with three and four arguments.
            let many =
                !matches!(prims::index_of(f).and_then(prims::get).map(|p| p.arity), Some(Arity::Unary | Arity::Binary));
            if many {
                call(cases, "x x x", f, &[x.clone(), x.clone(), x.clone()]);
                call(cases, "x x x x", f, &[x.clone(), x.clone(), x.clone(), x.clone()]);
            }
            for (other, y) in &beside {
                call(cases, &format!("x {other}"), f, &[x.clone(), y.clone()]);
                call(cases, &format!("{other} x"), f, &[y.clone(), x.clone()]);
            }
            let one = Value::Long(1);
            if many {
                call(cases, "x 1 1", f, &[x.clone(), one.clone(), one.clone()]);
                call(cases, "1 x 1", f, &[one.clone(), x.clone(), one.clone()]);
                call(cases, "1 1 x", f, &[one.clone(), one.clone(), x.clone()]);
            }
            if shape != &shapes.first().expect("a shape").0 && prims::index_of(f).is_none() {
                continue;
            }
            for iterator in Iterator::ALL {
                let derived = Value::func(Function::Derived { iterator, function: f.clone() });
                let glyph = iterator.glyph();
                call(cases, &format!("{glyph} x"), &derived, std::slice::from_ref(x));
                if shape == &shapes.first().expect("a shape").0 {
                    call(cases, &format!("{glyph} 1 x"), &derived, &[one.clone(), x.clone()]);
                }
            }
        }
        // The same with the rights of the owner, which remote callers lack.
        for (name, f) in functions.iter().filter(|(name, _)| !matches!(&name[..], "exit" | "system" | "hopen" | "hdel"))
        {
            let mut host = Session::console(Start::default(), None);
            let mut call = |cases: &mut Cases, form: &str, given: &[Value]| {
                cases.case(|| format!("owner's {name} {form} {shape}"), || apply(&mut host, f, given, &limits()));
            };
            if *deep {
                call(cases, "x", std::slice::from_ref(x));
            }
        }
    }
}

fn syntax(cases: &mut Cases) {
    for (before, part, behind) in SYNTAX {
        for times in [900, 30_000] {
            for closes in [false, true] {
                let close = if closes { closing(part, times) } else { String::new() };
                if closes && close.is_empty() {
                    continue;
                }
                let text = format!("{before}{}{behind}{close}", part.repeat(times));
                let name = |how: &str| {
                    format!("{how} {before}{part}{behind} {times} times{}", if closes { ", closed" } else { "" })
                };
                let run = |text: &str| eval_text(&mut Session::new(), text.as_bytes(), &limits());
                cases.case(|| name("text"), || run(&text));
                let parsed = |word: &str| {
                    let message = Value::list(vec![Value::chars(word.as_bytes()), Value::chars(text.as_bytes())]);
                    eval_message(&mut Session::new(), &message, &limits())
                };
                cases.case(|| name("lambda"), || run(&format!("f:{{{text}}};f[1];value f;f~f;-3!f")));
                if times > 1000 {
                    continue;
                }
                cases.case(|| name("parse"), || parsed("parse"));
                cases.case(|| name("eval parse"), || parsed("{eval parse x}"));
                cases.case(|| name("reval parse"), || parsed("{reval parse x}"));
                cases.case(|| name("value"), || parsed("value"));
                cases.case(|| name("view"), || run(&format!("v::{text}")));
                cases.case(|| name(".Q.trp"), || parsed("{.Q.trp[value;x;{.Q.sbt y}]}"));
                cases.case(|| name("trap"), || parsed("{@[value;x;{x}]}"));
                cases.case(|| name(".j.k"), || parsed(".j.k"));
                cases.case(|| name("like"), || parsed("{x like x}"));
                cases.case(|| name("ss"), || parsed("{x ss 20#x}"));
                let _ = crate::parse_names(text.as_bytes());
            }
        }
    }
    for text in RECURSIONS {
        cases.case(|| text.to_string(), || eval_text(&mut Session::new(), text.as_bytes(), &limits()));
    }
}

/// Functions that recurse without end, each in a different way.
const RECURSIONS: &[&str] = &[
    "f:{f x};f 1",
    "{.z.s x}1",
    "f:{f each x};f 1 2",
    "f:{@[f;x;{'x}]};f 1",
    "f:{.[f;enlist x;{'x}]};f 1",
    "f:{.Q.trp[f;x;{'x}]};f 1",
    "f:{value\"f 1\"};f 1",
    "f:{eval(`f;1)};f 1",
    "f:{reval(`f;1)};f 1",
    "f:{(f x;1)};f 1",
    "f:{f/[1;x]};f 1",
    "f:{exec f a from([]a:1 2)};f 1",
    "f:{?[([]a:1 2);();();(`f;1)]};f 1",
    "f:{.[`.;();:;f x]};f 1",
    "f:{0 \"f 1\"};f 1",
    "f:{0(`f;1)};f 1",
    "v::w;w::v;v",
    "f:{if[1b;do[1;while[1b;f x]]]};f 1",
    "f:{`s#f x};f 1",
    "f:('[{f x};neg]);f 1",
    "f:{g x};g:{f x}[];f 1",
    "{x:(x;x)}/[10000;()]",
    "{enlist x}/[10000;()]",
    "{x,enlist x}/[10000;()]",
    "x:();do[10000;x:enlist x]",
    "x:();do[10000;x:(x;1)]",
    "x:enlist();do[10000;x[0]:x]",
    "x:enlist();do[10000;x:@[x;0;:;x]]",
    "x:enlist();do[10000;x:.[x;enlist 0;enlist]]",
    "x:();do[10000;x,:enlist enlist x]",
    "x:(1#`a)!enlist();do[10000;x[`a]:x]",
    "x:(1#`a)!enlist();do[10000;x:x,(1#`a)!enlist x]",
    "x:([]a:enlist());do[10000;x:update a:enlist x from x]",
    "x:([]a:enlist());do[10000;x:([]a:enlist x)]",
    "f:neg;do[10000;f:f']",
    "f:neg;do[10000;f:('[f;neg])]",
    "f:{[a;b]a};do[10000;f:f[;]]",
    "f:{[a;b]a};do[10000;f:f[f]]",
    "f:{x};do[10000;f:value string f]",
    "x:\"1\";do[600;x:\"{\",x,\"}\"];f:value x;f[]",
    "-9!-8!{@[enlist;x;x]}/[600;1]",
    ".j.k .j.j {@[enlist;x;x]}/[600;1]",
    ".j.k (30000#\"[\"),30000#\"]\"",
    ".j.k 30000#\"{\\\"a\\\":\"",
    "x:{@[enlist;x;x]}/[600;1];count each group (x;x);distinct(x;x);x?x;(x;x)?enlist x;asc(x;x);x in(x;x)",
    "x:{@[enlist;x;x]}/[600;1];(x;x)!(x;x);x^x;x|x;x=x;x~x;x<x;x+x;null x;fills x;5$x;x$1",
];

/// Run by the test below in a child process.
#[test]
#[ignore = "run by another test, in a process of its own"]
fn every_case() {
    let Ok(mark) = std::env::var(MARK) else { return };
    let from = std::env::var(FROM).ok().and_then(|n| n.parse().ok()).unwrap_or(0);
    let mark = File::options().write(true).create(true).truncate(false).open(mark).expect("the note's file");
    let running = stack::thread("nesting".into()).spawn(move || {
        let mut cases = Cases { mark, from, at: 0 };
        run_all(&mut cases);
        cases.mark.write_all_at(format!("{:<240}", "ended").as_bytes(), 0).expect("the note");
    });
    running.expect("a thread").join().expect("no panic");
}

#[test]
fn no_shape_of_argument_or_syntax_overflows_the_stack() {
    let folder = std::env::temp_dir().join(format!("elastick-nesting-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder");
    let (mark, mut from, mut failed) = (folder.join("mark"), 0, Vec::new());
    while failed.len() < MAX_FAILURES {
        let child = Command::new(std::env::current_exe().expect("this program"))
            .args(["--exact", "tests::nesting::every_case", "--ignored", "--nocapture"])
            .env(MARK, &mark)
            .env(FROM, format!("{from}"))
            .current_dir(&folder)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .output()
            .expect("a process");
        let note = std::fs::read_to_string(&mark).unwrap_or_default();
        if child.status.success() && note.trim() == "ended" {
            break;
        }
        let why = String::from_utf8_lossy(&child.stderr)
            .lines()
            .filter(|l| !l.trim().is_empty())
            .take(2)
            .collect::<Vec<_>>()
            .join(" ");
        failed.push(format!("{}: {} {why}", note.trim(), child.status));
        from = match note.split(' ').next().and_then(|n| n.parse().ok()) {
            Some(at) if at > from => at,
            _ => break,
        };
    }
    let _ = std::fs::remove_dir_all(&folder);
    assert!(failed.is_empty(), "{} cases end the process:\n{}", failed.len(), failed.join("\n"));
}

/// Evaluation rejects values that are nested too deeply to be read back.
#[test]
fn results_nest_no_deeper_than_messages() {
    let run = |text: &str| {
        let result = eval_text(&mut Session::new(), text.as_bytes(), &Limits::default());
        result.map(|v| String::from_utf8_lossy(&one_line(&v)).into_owned()).map_err(|e| e.to_string())
    };
    let most = proto::DEEPEST - 1;
    assert!(run(&format!("count {{enlist x}}/[{most};1]")).is_ok());
    let refused = run(&format!("count {{enlist x}}/[{};1]", most + 2));
    assert!(refused.as_ref().is_err_and(|e| e.starts_with("'limit")), "{refused:?}");
    // A value that can be made can be sent and read.
    assert_eq!(run("x~-9!-8!x:{enlist x}/[150;1]"), Ok("1b".into()));
}

/// A value one level too deep is rejected where it is made, not by its receiver.
#[test]
fn every_constructible_value_can_be_sent_and_read() {
    let run = || {
        for (next, first) in DEEP {
            for levels in [100, 126, 127, 128, 129, 169, 170, 171, 254, 255, 256, 509, 510, 511, 512, 513] {
                let text = format!("v:({next})/[{levels};{first}];count -9!-8!v");
                let result = eval_text(&mut Session::new(), text.as_bytes(), &limits());
                let is_read = result.as_ref().err().is_none_or(|error| *error.name != *b"badmsg");
                assert!(is_read, "{text}: {result:?}");
            }
        }
    };
    stack::thread("nesting".into()).spawn(run).expect("a thread").join().expect("no panic");
}
