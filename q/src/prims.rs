//! The one table of primitives: name, how kdb+ shows it, infix or not, wire code, and the function. Parser, evaluator,
//! serialiser and display read from it.

mod fold;
mod rows;

use super::arith::Op;
use super::context::Context;
use super::error::QError;
use super::footprint;
use super::limits::made;
use columns::table::function::Function;
use columns::table::symbol::intern_name as intern;
use columns::table::{Sym, Value};
pub(super) use fold::{fast_fold, fold_identity, identity, prior_seed};
pub use rows::PRIMITIVES;
use std::collections::HashMap;
use std::sync::LazyLock;

type Answer = Result<Value, QError>;
type Unary = fn(&mut Context<'_>, Value) -> Answer;
type Binary = fn(&mut Context<'_>, Value, Value) -> Answer;
type Many = fn(&mut Context<'_>, Vec<Value>) -> Answer;

/// How a primitive is called.
pub enum Run {
    Unary(Unary),
    Binary(Binary),
    /// With at least and at most so many arguments.
    Many(u8, u8, Many),
}

/// An entry of the table.
pub struct Primitive {
    /// Glyph or keyword.
    pub name: &'static str,
    /// How kdb+ shows the function.
    pub shown: &'static str,
    pub infix: bool,
    /// Type and code on the wire; type 100 for those that travel as the text of a lambda, 104 for those that are `!` with a
    /// negative number, 106 to 111 for operators under an iterator.
    pub code: (u8, u8),
    /// Where it works item by item on two arguments.
    pub atomic: Option<Op>,
    pub run: Run,
}

static BY_NAME: LazyLock<HashMap<&'static [u8], u16>> = LazyLock::new(|| {
    PRIMITIVES.iter().enumerate().map(|(i, p)| (p.name.as_bytes(), u16::try_from(i).unwrap_or(u16::MAX))).collect()
});

/// A symbol of the program's own; the null symbol if the table of symbols is full.
pub(super) fn name(text: &str) -> Sym {
    intern(text.as_bytes()).unwrap_or(Sym::NULL)
}

pub(super) fn get(index: u16) -> Option<&'static Primitive> {
    PRIMITIVES.get(usize::from(index))
}

pub(super) fn of_index(index: u16) -> Value {
    Value::func(Function::Primitive(index))
}

/// The function of a keyword.
pub(super) fn keyword(name: &[u8]) -> Option<Value> {
    let first = name.first()?;
    if !first.is_ascii_alphabetic() && *first != b'.' || name.len() == 1 {
        return None;
    }
    BY_NAME.get(name).map(|i| of_index(*i))
}

/// The function of an operator; with a colon behind it (`#:`) the unary one.
pub(super) fn find_glyph(glyph: &str) -> Option<Value> {
    if let Some(index) = BY_NAME.get(glyph.as_bytes()) {
        return Some(of_index(*index));
    }
    let at = PRIMITIVES.iter().position(|p| p.shown == glyph)?;
    match glyph {
        ",:" => BY_NAME.get(&b"enlist"[..]).map(|i| of_index(*i)),
        _ => u16::try_from(at).ok().map(of_index),
    }
}

/// As [`find_glyph`], the generic null where there is none.
pub(super) fn glyph(glyph: &str) -> Value {
    find_glyph(glyph).unwrap_or(Value::Null)
}

/// Where a primitive stands in the table.
pub(super) fn index_of(f: &Value) -> Option<u16> {
    match f {
        Value::Func(function) => match **function {
            Function::Primitive(index) => Some(index),
            _ => None,
        },
        _ => None,
    }
}

/// The name of a primitive.
pub(super) fn name_of(f: &Value) -> Option<&'static str> {
    index_of(f).and_then(get).map(|p| p.name)
}

pub(super) fn is_glyph(f: &Value, glyph: &str) -> bool {
    index_of(f).and_then(get).is_some_and(|p| p.name == glyph || (glyph.len() > 1 && p.shown == glyph))
}

/// Whether a function is written as an operator and not as a word.
pub(super) fn is_operator(f: &Value) -> bool {
    name_of(f).is_some_and(|n| !n.starts_with(|c: char| c.is_ascii_alphabetic() || c == '.'))
}

/// Whether a function stands between its arguments.
pub(super) fn is_infix(f: &Value) -> bool {
    index_of(f).and_then(get).is_some_and(|p| p.infix)
}

/// The item-by-item function of a primitive.
pub(super) fn atomic_op(index: u16) -> Option<Op> {
    get(index)?.atomic
}

/// Whether a function gives item by item what it gives for the items alone.
pub(super) fn is_atomic(f: &Value) -> bool {
    let Some(primitive) = index_of(f).and_then(get) else { return false };
    primitive.atomic.is_some()
        || matches!(primitive.name, "neg" | "abs" | "sqrt" | "exp" | "log" | "not" | "floor" | "ceiling" | "signum")
}

/// The item-by-item function behind a glyph.
pub(super) fn op(glyph: &str) -> Option<Op> {
    BY_NAME.get(glyph.as_bytes()).and_then(|i| atomic_op(*i))
}

pub(super) fn shown(index: u16) -> &'static str {
    get(index).map_or("", |p| p.shown)
}

/// With which keywords `.q` begins.
const FIRST_WORDS: [&str; 78] = [
    "neg",
    "not",
    "null",
    "string",
    "reciprocal",
    "floor",
    "ceiling",
    "signum",
    "mod",
    "xbar",
    "xlog",
    "and",
    "or",
    "each",
    "scan",
    "over",
    "prior",
    "mmu",
    "lsq",
    "inv",
    "md5",
    "ltime",
    "gtime",
    "count",
    "first",
    "svar",
    "sdev",
    "scov",
    "med",
    "all",
    "any",
    "rand",
    "sums",
    "prds",
    "mins",
    "maxs",
    "fills",
    "deltas",
    "ratios",
    "avgs",
    "differ",
    "prev",
    "next",
    "rank",
    "reverse",
    "iasc",
    "idesc",
    "asc",
    "desc",
    "msum",
    "mcount",
    "mavg",
    "mdev",
    "xrank",
    "mmin",
    "mmax",
    "xprev",
    "rotate",
    "distinct",
    "group",
    "where",
    "flip",
    "type",
    "key",
    "til",
    "value",
    "attr",
    "cut",
    "set",
    "upsert",
    "raze",
    "union",
    "inter",
    "except",
    "cross",
    "sv",
    "vs",
    "sublist",
];

/// Keywords, as `key`.q` lists them.
pub(super) fn keywords() -> Vec<Sym> {
    let is_word = |p: &&Primitive| p.name.len() > 1 && p.name.as_bytes().first().is_some_and(u8::is_ascii_alphabetic);
    let mut words: Vec<&str> = PRIMITIVES.iter().filter(is_word).map(|p| p.name).collect();
    // A stable sort: the others keep their order behind these.
    words.sort_by_key(|word| FIRST_WORDS.iter().position(|first| first == word).unwrap_or(FIRST_WORDS.len()));
    words.into_iter().map(name).collect()
}

/// Short names of the primitives of a namespace (`.j`).
pub(super) fn names_in(space: &[u8]) -> Vec<Sym> {
    let inside = |p: &Primitive| p.name.as_bytes().strip_prefix(space)?.strip_prefix(b".").and_then(|n| intern(n).ok());
    if space.is_empty() { Vec::new() } else { PRIMITIVES.iter().filter_map(inside).collect() }
}

/// The primitive with a code on the wire; those of kdb+ that are not here are kept as their code.
pub(super) fn by_code(kind: u8, code: u8) -> Value {
    if (kind, code) == (101, 0) {
        return Value::Null;
    }
    let kind_code = if (kind, code) == (101, 0x0c) { (101, 0x29) } else { (kind, code) };
    match PRIMITIVES.iter().position(|p| p.code == kind_code && kind != 100) {
        Some(index) => of_index(index as u16),
        None => Value::func(Function::Coded(kind, code)),
    }
}

/// Whether a primitive takes what is enumerated as it is; to the others it is plain symbols or longs.
pub(super) fn keeps_domain(primitive: &Primitive) -> bool {
    matches!(
        primitive.name,
        "first"
            | "last"
            | "reverse"
            | "#"
            | "_"
            | "@"
            | "."
            | "enlist"
            | ","
            | "flip"
            | "distinct"
            | "next"
            | "prev"
            | "xprev"
            | "rotate"
            | "sublist"
            | "cut"
            | "~"
            | "type"
            | "key"
            | "value"
            | "get"
            | "attr"
            | "$"
            | "!"
            | "set"
            | "insert"
            | "upsert"
            | "show"
            | "group"
            | "null"
            | "count"
            | ":"
            | "each"
            | "over"
            | "scan"
            | "prior"
            | "peach"
            | "fills"
            | "asc"
            | "desc"
            | ".Q.s"
            | ".Q.s1"
            | ".Q.ty"
            | "eval"
    )
}

/// Calls a primitive with one argument.
pub(super) fn run1(context: &mut Context, index: u16, x: Value) -> Answer {
    match get(index) {
        Some(Primitive { name, run: Run::Unary(run), .. }) if !x.is_enumerated() => {
            footprint::ask(name, &[&x])?;
            made(run(context, x)?)
        }
        _ => context.apply(&of_index(index), vec![x]),
    }
}

/// Calls a primitive with two arguments.
pub(super) fn run2(context: &mut Context, index: u16, x: Value, y: Value) -> Answer {
    let primitive = get(index);
    let (x, y) = match primitive {
        Some(p) if (x.is_enumerated() || y.is_enumerated()) && !keeps_domain(p) => (x.plain(), y.plain()),
        _ => (x, y),
    };
    match primitive {
        Some(Primitive { name, run: Run::Binary(run), .. }) => {
            footprint::ask(name, &[&x, &y])?;
            made(run(context, x, y)?)
        }
        _ => context.apply(&of_index(index), vec![x, y]),
    }
}
