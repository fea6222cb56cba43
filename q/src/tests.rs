//! What peers send and hosts answer: messages of every shape, calls of native functions, functions on the wire.

use crate::apply;
use crate::process::session::Session;
use crate::runtime::error::QError;
use crate::runtime::host::{Caller, Host, NEEDS_OWNER};
use crate::runtime::limits::Limits;
use crate::syntax::lambda::lambda;
use crate::{eval_message, eval_text, from_view, one_line, parse_names, to_wire};
use columns::table::symbol::{intern, text};
use columns::table::{Sym, Value};
use proto::{Endian, View, Writer};
use std::time::{Duration, Instant};

mod limits;
mod nesting;
mod peach;
mod qsql;
mod reasons;
mod work;

fn sym(name: &str) -> Sym {
    intern(name.as_bytes()).expect("room")
}

/// A tickerplant's face: `.u.sub` and the paper's roll are native, `.u.i` and `.u.L` are values.
#[derive(Default)]
struct Tick {
    caller: Caller,
    calls: Vec<String>,
}

impl Host for Tick {
    fn global(&self, name: Sym) -> Option<Value> {
        match text(name) {
            b".u.i" => Some(Value::Long(42)),
            b".u.L" => Some(Value::Sym(sym(":./sym2026.11.21"))),
            _ => None,
        }
    }
    fn assign(&mut self, _: Sym, _: Value) -> Result<(), QError> {
        Err(NEEDS_OWNER)
    }
    fn names(&self, namespace: Sym) -> Vec<Sym> {
        if text(namespace) == b".u" { vec![sym("i"), sym("L"), sym("sub")] } else { Vec::new() }
    }
    fn native(&self, name: Sym) -> Option<u8> {
        match text(name) {
            b".u.sub" => Some(2),
            b".u.asg.roll" => Some(2),
            b".u.endofday" => Some(0),
            _ => None,
        }
    }
    fn call(&mut self, name: Sym, arguments: &[Value]) -> Result<Value, QError> {
        let shown_arguments: Vec<String> =
            arguments.iter().map(|a| String::from_utf8_lossy(&one_line(a)).into_owned()).collect();
        self.calls.push(format!("{}[{}]", String::from_utf8_lossy(text(name)), shown_arguments.join(";")));
        Ok(Value::Long(7))
    }
    fn append(&mut self, _: Sym, _: &Value) -> Result<Value, QError> {
        Err(NEEDS_OWNER)
    }
    fn caller(&self) -> &Caller {
        &self.caller
    }
}

/// A host that would let its console do everything, asked by a remote caller.
struct Open(Caller);

impl Host for Open {
    fn global(&self, _: Sym) -> Option<Value> {
        None
    }
    fn assign(&mut self, _: Sym, _: Value) -> Result<(), QError> {
        Ok(())
    }
    fn names(&self, _: Sym) -> Vec<Sym> {
        Vec::new()
    }
    fn native(&self, _: Sym) -> Option<u8> {
        None
    }
    fn call(&mut self, _: Sym, _: &[Value]) -> Result<Value, QError> {
        Ok(Value::Null)
    }
    fn append(&mut self, _: Sym, _: &Value) -> Result<Value, QError> {
        Ok(Value::Null)
    }
    fn caller(&self) -> &Caller {
        &self.0
    }
    fn reaches_files(&self) -> bool {
        true
    }
    fn open(&mut self, _: &[u8], _: u64) -> Result<i32, QError> {
        Ok(5)
    }
    fn close(&mut self, _: i32) -> Result<(), QError> {
        Ok(())
    }
    fn send(&mut self, _: i64, _: &Value) -> Result<Value, QError> {
        Ok(Value::Null)
    }
    fn exit(&mut self, _: i32) -> Result<(), QError> {
        Ok(())
    }
}

fn shown(value: &Value) -> String {
    String::from_utf8_lossy(&one_line(value)).into_owned()
}

fn text_of(host: &mut dyn Host, expression: &str) -> String {
    match eval_text(host, expression.as_bytes(), &Limits::default()) {
        Ok(value) => shown(&value),
        Err(error) => format!("'{}", String::from_utf8_lossy(&error.name)),
    }
}

fn message(host: &mut dyn Host, items: Vec<Value>) -> String {
    match eval_message(host, &Value::collapse(items), &Limits::default()) {
        Ok(value) => shown(&value),
        Err(error) => format!("'{}", String::from_utf8_lossy(&error.name)),
    }
}

#[test]
fn the_start_up_string_of_a_subscriber_is_answered_with_subscription_and_position() {
    let mut tick = Tick::default();
    assert_eq!(text_of(&mut tick, "(.u.sub[`;`];.u `i`L)"), "(7;(42;`:./sym2026.11.21))");
    assert_eq!(tick.calls, [".u.sub[`;`]"]);
    assert_eq!(text_of(&mut tick, "`.u `i`L"), "(42;`:./sym2026.11.21)");
}

#[test]
fn a_call_comes_as_name_text_symbols_or_lambda_and_its_arguments_are_not_evaluated() {
    let mut tick = Tick::default();
    let (trade, all) = (Value::Sym(sym("trade")), Value::Sym(Sym::NULL));
    assert_eq!(message(&mut tick, vec![Value::chars(".u.sub"), trade.clone(), all.clone()]), "7");
    assert_eq!(message(&mut tick, vec![Value::Sym(sym(".u.sub")), trade.clone(), all]), "7");
    assert_eq!(message(&mut tick, vec![lambda(b"{.u.asg.roll[.z.w;x]}", Sym::NULL), Value::Long(9746)]), "7");
    assert_eq!(message(&mut tick, vec![Value::Sym(sym(".u.endofday"))]), "7");
    let expected = [".u.sub[`trade;`]", ".u.sub[`trade;`]", ".u.asg.roll[0i;9746]", ".u.endofday[]"];
    assert_eq!(tick.calls, expected);
}

#[test]
fn an_assignment_answers_the_generic_null() {
    let mut session = Session::new();
    assert_eq!(text_of(&mut session, "a:5"), "::");
    assert_eq!(text_of(&mut session, "a+:1;"), "::");
    assert_eq!(text_of(&mut session, "1+b:a"), "7");
}

#[test]
fn a_query_sent_while_connecting_gets_its_reply() {
    let mut session = Session::new();
    let probe = Value::chars("k){x:. x;$[99h<@x;:`$\"_pykx_fn_marker\";99h~@x;:`$\"_pykx_ctx_marker\";x]}");
    assert_eq!(message(&mut session, vec![probe.clone(), Value::Sym(sym(".q.aj"))]), "`_pykx_fn_marker");
    assert_eq!(message(&mut session, vec![probe, Value::Sym(sym(".q"))]), "`_pykx_ctx_marker");
    let names = message(&mut session, vec![Value::chars("key"), Value::Sym(sym(".q"))]);
    assert!(names.starts_with("``"), "{names}");
    assert_eq!(text_of(&mut session, "@[{2<count .s};(::);{0b}]"), "0b");
    assert_eq!(message(&mut session, vec![Value::chars("k){!x}"), Value::Long(2)]), "0 1");
}

#[test]
fn the_need_for_the_owner_passes_through_traps() {
    let mut tick = Tick::default();
    assert_eq!(eval_text(&mut tick, b"@[{a::x};1;`trapped]", &Limits::default()).unwrap_err(), NEEDS_OWNER);
    assert_eq!(eval_text(&mut tick, b"`t insert 1 2", &Limits::default()).unwrap_err(), NEEDS_OWNER);
}

#[test]
fn globals_of_a_text_are_known_before_it_runs() {
    let names: Vec<&[u8]> =
        parse_names(b"{.u.sub[x;y]}[`a;`b]; t:select from trade where sym=`a").into_iter().map(text).collect();
    for name in [&b".u.sub"[..], b"trade", b"t"] {
        assert!(names.contains(&name), "{names:?}");
    }
}

#[test]
fn a_deadline_and_a_memory_limit_stop_endless_queries() {
    let mut session = Session::new();
    let soon = Limits {
        deadline: Some(Instant::now() + Duration::from_millis(20)),
        memory_bytes: 1 << 30,
        ..Limits::default()
    };
    let error = eval_text(&mut session, b"@[{while[1b;x+:1]};0;`trapped]", &soon).unwrap_err();
    assert_eq!(&error.name[..], b"stop");
    let small = Limits { memory_bytes: 1 << 20, ..Limits::default() };
    for text in ["til 1000000", "{x,x}/[100;til 10]", "x:til 1000;while[1b;x:(x;til 1000)]"] {
        assert_eq!(&eval_text(&mut session, text.as_bytes(), &small).unwrap_err().name[..], b"wsfull", "{text}");
    }
}

#[test]
fn functions_travel_by_code_or_text_and_work_when_they_arrive() {
    let mut session = Session::new();
    for (expression, argument, expected) in [
        ("{x+1}", 4, "5"),
        ("neg", 4, "-4"),
        ("(+/)", 4, "4"),
        ("10+", 4, "14"),
        ("{x*y}[3]", 4, "12"),
        ("til", 3, "0 1 2"),
        ("('[neg;abs])", -3, "-3"),
    ] {
        let f = eval_text(&mut session, expression.as_bytes(), &Limits::default()).expect("a function");
        let mut bytes = Vec::new();
        let mut writer = Writer::new(&mut bytes);
        to_wire(&f, &mut writer).expect("a form");
        writer.finish().expect("a form");
        let (view, _) = View::parse(&bytes, Endian::Little, &proto::Limits::default()).expect("an object");
        let back = from_view(&view).expect("a value");
        let result = apply(&mut session, &back, &[Value::Long(argument)], &Limits::default());
        assert_eq!(result.map(|v| shown(&v)).map_err(|e| e.to_string()), Ok(expected.to_owned()), "{expression}");
    }
}

#[test]
fn a_remote_caller_reaches_no_file_process_or_setting() {
    let mut host = Open(Caller { remote: true, ..Caller::default() });
    for expression in [
        "read0 `:x",
        "read0 0",
        "read1 `:x",
        "`:x 0: enlist \"a\"",
        "(\"JJ\";\",\")0:`:x",
        "`:x 1: 0x00",
        "(\"x\";1)1: `:x",
        "`:x set 1",
        "get `:x",
        "value `:x",
        "key `:x",
        "hcount `:x",
        "hdel `:x",
        "save `:x",
        "load `:x",
        "rsave `x",
        "rload `x",
        "`:x dsave `t",
        "`:x?`a",
        "`:x upsert 1",
        "`:x insert 1",
        ".[`:x;();:;1]",
        "-11!`:x",
        "-7!`:x",
        "hopen 5010",
        "hopen `:x",
        "hclose 5",
        "5 \"x\"",
        "neg[5] \"x\"",
        "`A setenv \"b\"",
        "exit 0",
        "system \"ls\"",
        "system \"l x\"",
        "system \"cd /\"",
        "system \"z 1\"",
        "system \"x .z.pi\"",
        "\\ls",
        "reval (read0;enlist `:x)",
        "@[read0;`:x;{'x}]",
    ] {
        assert_eq!(text_of(&mut host, expression), "'access", "{expression}");
    }
    assert_eq!(text_of(&mut host, "getenv `PATH"), "\"\"");
}
