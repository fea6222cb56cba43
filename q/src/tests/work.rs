//! Every primitive, applied to long arguments of every type, looks at the limits as it goes: measured in items between two
//! looks, not in time. The standard sort inside `asc`, `iasc`, `med` and the like looks only before it begins, and reports nothing.

use crate::process::session::Session;
use crate::runtime::limits::Limits;
use crate::syntax::prims::{self, Arity, PRIMITIVES};
use crate::{apply, eval_text};
use columns::sys::budget::{self, BLOCK};
use columns::table::Value;
use std::time::Instant;

/// Items of an argument.
const COUNT: usize = 3 * BLOCK;

/// Long arguments; `n` is [`COUNT`].
const LONG: &[&str] = &[
    "n?100",
    "n?0b",
    "n?100i",
    "n?1f",
    "n?\" \"",
    "n?`a`b`c",
    "\"n\"$n?100",
    "n#enlist \"abcdefg\"",
    "n#(1;`a;\"x\";2f)",
    "([]a:n?100;b:n?10f)",
    "([k:til n]v:n?100)",
    "(til n)!n?100",
];

/// Second arguments.
const BESIDE: &[&str] = &["3", "\"*b*\""];

/// Primitives that take the same time for any number of items, only read what is asked of them, or belong to the system.
const SHORT: &[&str] = &[
    ":", "enlist", ",:", "type", "count", "first", "last", "attr", "key", "get", "value", "til", "cols", "keys",
    "meta", "tables", "flip", "sublist", "_", "!", "#", "@", ".", "xcol", "xcols", "xkey", "null", "floor", "ceiling",
    "and", "show", "exit", "raze", "upsert", "insert", "set", "each", "peach", "over", "scan", "prior", "system",
    "read0", "read1", "hopen", "hclose", "save", "load", "rload", "rsave", "dsave", "hdel", "hcount", "setenv",
    "getenv", "view", "views", "fkeys", "eval", "reval", "parse", "rand", ".Q.s", ".Q.S", ".Q.w", ".Q.bt", ".Q.Ll",
    ".Q.btx", ".Q.pl", ".Q.sbt", ".Q.rp", ".j.jd", "trim", "ltrim", "rtrim", ".Q.ty", ".Q.id", ".Q.qp", ".Q.qt",
    "ungroup", "uj", "ujf", "distinct", "'", "/", "\\", "':", "/:", "\\:", "0:", "1:", "2:", "$", ",", "?", "enlist",
];

/// Primitives that may have their result from the first items, if the other argument is short.
const EARLY: &[&str] = &["~", "in", "inter", "except", "union"];

fn is_judged(name: &str, text: &str) -> bool {
    // A list is not compared with itself.
    let is_same = text.starts_with("~[n#");
    let is_early = EARLY.contains(&name) && BESIDE.iter().any(|beside| text.contains(&format!("[{beside};")));
    !(is_same || is_early || SHORT.contains(&name))
}

fn unlimited() -> Limits {
    Limits { memory_bytes: 1 << 30, ..Limits::default() }
}

fn arguments(session: &mut Session, texts: &[&str]) -> Vec<(String, Value)> {
    let mut value = |text: &str| eval_text(session, text.as_bytes(), &unlimited()).expect("an argument");
    value(&format!("n:{COUNT}"));
    texts.iter().map(|text| ((*text).to_owned(), value(text))).collect()
}

/// Calls `f` with each application of a primitive to a long argument: its description and how to run it.
fn each_application(mut f: impl FnMut(&str, &str, &mut dyn FnMut(&Limits) -> Result<Value, crate::QError>)) {
    let mut session = Session::new();
    let long = arguments(&mut session, LONG);
    let beside = arguments(&mut session, BESIDE);
    for (index, primitive) in PRIMITIVES.iter().enumerate() {
        let name = primitive.name;
        let function = prims::of_index(u16::try_from(index).expect("a short table"));
        let mut lists: Vec<(String, Vec<Value>)> = Vec::new();
        for (text, x) in &long {
            match primitive.arity {
                Arity::Unary => lists.push((format!("{name} {text}"), vec![x.clone()])),
                Arity::Binary => {
                    lists.push((format!("{name}[{text};{text}]"), vec![x.clone(), x.clone()]));
                    for (other, y) in &beside {
                        lists.push((format!("{name}[{other};{text}]"), vec![y.clone(), x.clone()]));
                    }
                }
                Arity::Many(..) => {}
            }
        }
        for (text, arguments) in lists {
            f(name, &text, &mut |limits| apply(&mut session, &function, &arguments, limits));
        }
    }
}

/// Limits that end what would take minutes; such applications are judged by what they did until then.
fn patient() -> Limits {
    Limits { deadline: Some(Instant::now() + std::time::Duration::from_millis(100)), ..unlimited() }
}

#[test]
fn every_primitive_looks_at_the_limits_once_a_block() {
    let (mut wrong, mut applied) = (Vec::new(), 0);
    each_application(|name, text, run| {
        budget::reset_meter();
        let result = run(&patient());
        let meter = budget::meter();
        applied += usize::from(result.is_ok());
        if meter.longest > 2 * BLOCK {
            wrong.push(format!("{text}: {} items between two looks", meter.longest));
        }
        if result.is_ok() && is_judged(name, text) && meter.items < (COUNT / 8) as u64 {
            wrong.push(format!("{text}: reports {} items of {COUNT}", meter.items));
        }
    });
    assert!(applied > 1000, "{applied} applications returned a value");
    assert!(wrong.is_empty(), "{} of {applied}\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn a_primitive_past_the_deadline_returns_nothing() {
    let mut wrong = Vec::new();
    each_application(|name, text, run| {
        let limits = Limits { deadline: Some(Instant::now()), ..unlimited() };
        if run(&limits).is_ok() && is_judged(name, text) {
            wrong.push(text.to_owned());
        }
    });
    assert!(wrong.is_empty(), "{} return a value\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn a_row_for_a_keyed_table_is_not_sought_among_all() {
    let mut session = Session::new();
    for (keys, key) in [("k:til 100000", ""), ("j:100000#0;k:til 100000", "0;"), ("s:100000#`a`b;k:til 100000", "`b;")]
    {
        eval_text(&mut session, format!("t:([{keys}]v:til 100000)").as_bytes(), &unlimited()).expect("a table");
        // The first row makes the index.
        for row in ["`t upsert (KEY99999;1)", "`t upsert (KEY99999;2)", "`t insert (KEY100000;3)"] {
            budget::reset_meter();
            let text = row.replace("KEY", key);
            eval_text(&mut session, text.as_bytes(), &unlimited()).expect(row);
            let items = budget::meter().items;
            assert!(row.ends_with("1)") || items < 1000, "{keys}: {items} items for {text}");
        }
    }
}

#[test]
fn nothing_is_assigned_past_the_deadline() {
    let mut session = Session::new();
    eval_text(&mut session, b"t:([]a:til 300000)", &unlimited()).expect("a table");
    for text in ["u:neg t", "t:reverse t", "`u set til 1000000", "@[`t;`a;neg]", "update neg a from`t"] {
        let limits = Limits { deadline: Some(Instant::now()), ..unlimited() };
        let error = eval_text(&mut session, text.as_bytes(), &limits).expect_err(text);
        assert_eq!(error.name.as_ref(), b"stop", "{text}");
        let kept = eval_text(&mut session, b"(t~([]a:til 300000);`u in key`.)", &unlimited()).expect("the table");
        assert_eq!(crate::one_line(&kept), b"10b", "{text}");
    }
}
