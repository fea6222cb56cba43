//! The table of primitives: name, kdb+'s display form, infix or not, wire code, arity. Used by parser, evaluator,
//! serialiser and display; `process::functions` holds the functions in the same order.

mod rows;

use crate::runtime::op::Op;
use columns::table::function::{Function, Iterator};
use columns::table::symbol::{intern_name as intern, intern_own};
use columns::table::{Sym, Value};
use proto::types;
pub use rows::PRIMITIVES;
use std::collections::HashMap;
use std::sync::LazyLock;

/// Number of arguments of a primitive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arity {
    Unary,
    Binary,
    /// Minimum and maximum.
    Many(u8, u8),
}

/// An entry of the table.
pub struct Primitive {
    /// Glyph or keyword.
    pub name: &'static str,
    /// What it does, in one line: `\\help NAME`.
    pub help: &'static str,
    /// kdb+'s display form of the function.
    pub shown: &'static str,
    pub infix: bool,
    /// Type and code on the wire. Type 100 is sent as the text of a lambda, 104 as `!` with a negative number, 106 to 111
    /// as an operator under an iterator.
    pub code: (i8, u8),
    /// Binary atomic function, if the primitive is one.
    pub atomic: Option<Op>,
    pub arity: Arity,
}

static BY_NAME: LazyLock<HashMap<&'static [u8], u16>> = LazyLock::new(|| {
    PRIMITIVES.iter().enumerate().map(|(i, p)| (p.name.as_bytes(), u16::try_from(i).unwrap_or(u16::MAX))).collect()
});

/// Interns a built-in name; the null symbol if the symbol table is full.
pub(crate) fn name(text: &'static str) -> Sym {
    intern_own(text.as_bytes()).unwrap_or(Sym::NULL)
}

/// The primitive at an index of the table.
pub(crate) fn get(index: u16) -> Option<&'static Primitive> {
    PRIMITIVES.get(usize::from(index))
}

/// The primitive at an index as a value.
pub(crate) fn of_index(index: u16) -> Value {
    Value::func(Function::Primitive(index))
}

/// The function of a keyword.
pub(crate) fn keyword(name: &[u8]) -> Option<Value> {
    let first = name.first()?;
    if !first.is_ascii_alphabetic() && *first != b'.' || name.len() == 1 {
        return None;
    }
    // Second names of a primitive: `and~(&)` and `get~value` are true.
    let name: &[u8] = match name {
        b"and" => b"&",
        b"or" => b"|",
        b"get" => b"value",
        other => other,
    };
    BY_NAME.get(name).map(|i| of_index(*i))
}

/// The function of an operator; with a colon appended (`#:`) its unary form.
pub(crate) fn find_glyph(glyph: &str) -> Option<Value> {
    if let Some(index) = BY_NAME.get(glyph.as_bytes()) {
        return Some(of_index(*index));
    }
    let at = PRIMITIVES.iter().position(|p| p.shown == glyph)?;
    u16::try_from(at).ok().map(of_index)
}

/// Returns the unary form of an operator: `#:` for `#`. In a parse tree it stands for an assignment such as `x#:y`. Other functions are returned
/// as they are.
pub(crate) fn unary_form(f: &Value) -> Value {
    name_of(f).and_then(|name| find_glyph(&format!("{name}:"))).unwrap_or_else(|| f.clone())
}

/// The operator of a unary form, `#` of `#:`.
pub(crate) fn binary_form(f: &Value) -> Option<Value> {
    let shown = get(index_of(f)?)?.shown.strip_suffix(':')?;
    BY_NAME.get(shown.as_bytes()).filter(|_| shown.len() == 1).map(|i| of_index(*i))
}

/// As [`find_glyph`], or the generic null.
pub(crate) fn glyph(glyph: &str) -> Value {
    find_glyph(glyph).unwrap_or(Value::Null)
}

/// Index of a primitive in the table.
pub(crate) fn index_of(f: &Value) -> Option<u16> {
    match f {
        Value::Func(function) => match **function {
            Function::Primitive(index) => Some(index),
            _ => None,
        },
        _ => None,
    }
}

/// The name of a primitive.
pub(crate) fn name_of(f: &Value) -> Option<&'static str> {
    index_of(f).and_then(get).map(|p| p.name)
}

/// Whether a function is the primitive of a glyph, which may be in kdb+'s display form.
pub(crate) fn is_glyph(f: &Value, glyph: &str) -> bool {
    index_of(f).and_then(get).is_some_and(|p| p.name == glyph || (glyph.len() > 1 && p.shown == glyph))
}

/// Whether a function is written as an operator rather than a keyword.
pub(crate) fn is_operator(f: &Value) -> bool {
    name_of(f).is_some_and(|n| !n.starts_with(|c: char| c.is_ascii_alphabetic() || c == '.'))
}

/// Whether a function stands between its arguments.
pub(crate) fn is_infix(f: &Value) -> bool {
    index_of(f).and_then(get).is_some_and(|p| p.infix)
}

/// What a keyword is in kdb+, where that is an operator under an iterator: `+\` for `sums`.
pub(crate) fn derived(primitive: &Primitive) -> Option<Value> {
    let iterator = Iterator::ALL.into_iter().find(|i| i.type_number() == primitive.code.0)?;
    let function = find_glyph(primitive.shown.strip_suffix(iterator.glyph())?)?;
    Some(Value::func(Function::Derived { iterator, function }))
}

/// The binary atomic function of a primitive.
pub(crate) fn atomic_op(index: u16) -> Option<Op> {
    get(index)?.atomic
}

/// Whether applying a function to a list equals applying it to each item.
pub(crate) fn is_atomic(f: &Value) -> bool {
    let Some(primitive) = index_of(f).and_then(get) else { return false };
    primitive.atomic.is_some()
        || matches!(primitive.name, "neg" | "abs" | "sqrt" | "exp" | "log" | "not" | "floor" | "ceiling" | "signum")
}

/// The binary atomic function of a glyph.
pub(crate) fn op(glyph: &str) -> Option<Op> {
    BY_NAME.get(glyph.as_bytes()).and_then(|i| atomic_op(*i))
}

/// kdb+'s display form of a primitive. `<>`, `<=` and `>=` are compositions there: not equal, not greater, not less.
pub(crate) fn shown(index: u16) -> &'static str {
    get(index).map_or("", |p| match p.name {
        "<>" => "~=",
        "<=" => "~>",
        ">=" => "~<",
        _ => p.shown,
    })
}

/// The first keywords of `.q`, in kdb+'s order.
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

/// Keywords in the order of `key`.q`.
pub(crate) fn keywords() -> Vec<Sym> {
    let is_word = |p: &&Primitive| p.name.len() > 1 && p.name.as_bytes().first().is_some_and(u8::is_ascii_alphabetic);
    let mut words: Vec<&str> = PRIMITIVES.iter().filter(is_word).map(|p| p.name).collect();
    // The sort is stable: other keywords keep their order after these.
    words.sort_by_key(|word| FIRST_WORDS.iter().position(|first| first == word).unwrap_or(FIRST_WORDS.len()));
    words.into_iter().map(name).collect()
}

/// Names of the primitives of a namespace (`.j`), without the namespace.
pub(crate) fn names_in(space: &[u8]) -> Vec<Sym> {
    let inside = |p: &Primitive| {
        let short = p.name.as_bytes().strip_prefix(space)?.strip_prefix(b".")?;
        if short.contains(&b'.') { None } else { intern(short).ok() }
    };
    if space.is_empty() { Vec::new() } else { PRIMITIVES.iter().filter_map(inside).collect() }
}

/// The primitive with a wire code. Codes of kdb+ primitives that do not exist here are kept as codes.
pub(crate) fn by_code(kind: i8, code: u8) -> Value {
    if (kind, code) == (types::UNARY, 0) {
        return Value::Null;
    }
    match PRIMITIVES.iter().position(|p| p.code == (kind, code) && kind != types::LAMBDA) {
        Some(index) => of_index(index as u16),
        None => Value::func(Function::Coded(kind, code)),
    }
}
