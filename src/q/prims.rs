//! The one table of primitives: name, how kdb+ shows it, infix or not, wire code, and the function. Parser, evaluator,
//! serialiser and display read from it.

use super::arith::{self, Op};
use super::context::Context;
use super::error::QError;
use super::{
    address, append, asof, attributes, cast, codec, enums, files, internal, joins, json, linear, monads, process,
    random, sets, shape, sort, stats, strings, tables, trap, tree, views, windows,
};
use crate::kernel::zip::{Arithmetic, Comparison};
use crate::table::function::{Function, Iterator};
use crate::table::symbol::intern;
use crate::table::{Items, Sym, Value};
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

const NONE: (u8, u8) = (100, 0);

/// A keyword of one argument, with its code among the unary ones.
const fn unary(name: &'static str, shown: &'static str, code: u8, run: Unary) -> Primitive {
    Primitive { name, shown, infix: false, code: (101, code), atomic: None, run: Run::Unary(run) }
}

/// A keyword of one argument that kdb+ defines in k.
const fn word(name: &'static str, run: Unary) -> Primitive {
    Primitive { name, shown: name, infix: false, code: NONE, atomic: None, run: Run::Unary(run) }
}

/// A keyword that kdb+ has as an operator with an iterator: type of the iterator, code of the operator.
const fn cover(name: &'static str, shown: &'static str, code: (u8, u8), run: Unary) -> Primitive {
    Primitive { name, shown, infix: false, code, atomic: None, run: Run::Unary(run) }
}

const fn operator(name: &'static str, code: u8, run: Binary) -> Primitive {
    Primitive { name, shown: name, infix: true, code: (102, code), atomic: None, run: Run::Binary(run) }
}

const fn operator_many(name: &'static str, code: u8, least: u8, most: u8, run: Many) -> Primitive {
    Primitive { name, shown: name, infix: true, code: (102, code), atomic: None, run: Run::Many(least, most, run) }
}

const fn infix(name: &'static str, code: (u8, u8), run: Binary) -> Primitive {
    Primitive { name, shown: name, infix: true, code, atomic: None, run: Run::Binary(run) }
}

const fn atomic(name: &'static str, code: (u8, u8), op: Op, run: Binary) -> Primitive {
    Primitive { name, shown: name, infix: true, code, atomic: Some(op), run: Run::Binary(run) }
}

const fn many(name: &'static str, least: u8, most: u8, run: Many) -> Primitive {
    Primitive { name, shown: name, infix: false, code: NONE, atomic: None, run: Run::Many(least, most, run) }
}

const fn iterator(name: &'static str, code: u8, run: Many) -> Primitive {
    Primitive { name, shown: name, infix: false, code: (103, code), atomic: None, run: Run::Many(1, 8, run) }
}

macro_rules! op {
    ($name:literal, $code:expr, $op:expr) => {
        atomic($name, $code, $op, |c, x, y| arith::atomic(c, $op, &x, &y))
    };
}

macro_rules! each {
    ($name:literal, $iterator:ident) => {
        infix($name, NONE, |c, f, x| internal::derive(c, Iterator::$iterator, f, x))
    };
}

macro_rules! derive {
    ($name:literal, $code:literal, $iterator:ident) => {
        iterator($name, $code, |c, a| internal::iterator(c, Iterator::$iterator, a))
    };
}

/// Every primitive. An index into this table is a [`Function::Primitive`].
pub static PRIMITIVES: &[Primitive] = &[
    operator(":", 0x00, internal::right),
    op!("+", (102, 0x01), Op::Arithmetic(Arithmetic::Add)),
    op!("-", (102, 0x02), Op::Arithmetic(Arithmetic::Subtract)),
    op!("*", (102, 0x03), Op::Arithmetic(Arithmetic::Multiply)),
    op!("%", (102, 0x04), Op::Divide),
    op!("&", (102, 0x05), Op::Arithmetic(Arithmetic::Lesser)),
    op!("|", (102, 0x06), Op::Arithmetic(Arithmetic::Greater)),
    op!("^", (102, 0x07), Op::Fill),
    op!("=", (102, 0x08), Op::Compare(Comparison::Equal)),
    op!("<", (102, 0x09), Op::Compare(Comparison::Less)),
    op!(">", (102, 0x0a), Op::Compare(Comparison::More)),
    operator("$", 0x0b, cast::dollar),
    operator(",", 0x0c, shape::join),
    operator("#", 0x0d, shape::take),
    operator("_", 0x0e, shape::drop),
    operator("~", 0x0f, |_, x, y| Ok(Value::Bool(super::matches::same(&x, &y)?))),
    operator_many("!", 0x10, 2, 4, internal::bang),
    operator_many("?", 0x11, 2, 6, internal::query),
    operator_many("@", 0x12, 2, 4, internal::at),
    operator_many(".", 0x13, 2, 4, internal::dot),
    op!("<=", NONE, Op::Compare(Comparison::AtMost)),
    op!(">=", NONE, Op::Compare(Comparison::AtLeast)),
    op!("<>", NONE, Op::Compare(Comparison::Unequal)),
    operator("0:", 0x14, files::text_operator),
    operator("1:", 0x15, files::bytes_operator),
    operator("2:", 0x16, |_, _, _| Err(QError::with("access", "libraries are not reachable from here"))),
    derive!("'", 0x00, Each),
    derive!("/", 0x01, Over),
    derive!("\\", 0x02, Scan),
    derive!("':", 0x03, EachPrior),
    derive!("/:", 0x04, EachRight),
    derive!("\\:", 0x05, EachLeft),
    unary("flip", "+:", 0x01, shape::flip),
    unary("neg", "-:", 0x02, monads::neg),
    unary("first", "*:", 0x03, shape::first),
    unary("reciprocal", "%:", 0x04, monads::reciprocal),
    unary("where", "&:", 0x05, shape::where_),
    unary("reverse", "|:", 0x06, shape::reverse),
    unary("null", "^:", 0x07, monads::null),
    unary("group", "=:", 0x08, sets::group),
    unary("iasc", "<:", 0x09, sort::iasc),
    unary("idesc", ">:", 0x0a, sort::idesc),
    unary("string", "$:", 0x0b, strings::string),
    unary("count", "#:", 0x0d, shape::count),
    unary("floor", "_:", 0x0e, monads::floor),
    unary("not", "~:", 0x0f, monads::not),
    unary("key", "!:", 0x10, tables::key),
    unary("distinct", "?:", 0x11, sets::distinct),
    unary("type", "@:", 0x12, internal::type_),
    unary("value", ".:", 0x13, internal::value),
    unary("get", ".:", 0x13, internal::value),
    unary("avg", "avg", 0x17, stats::avg),
    unary("last", "last", 0x18, shape::last),
    unary("sum", "sum", 0x19, stats::sum),
    unary("prd", "prd", 0x1a, stats::prd),
    unary("min", "min", 0x1b, stats::min),
    unary("max", "max", 0x1c, stats::max),
    unary("exit", "exit", 0x1d, process::exit),
    unary("abs", "abs", 0x1f, monads::abs),
    unary("sqrt", "sqrt", 0x20, monads::sqrt),
    unary("log", "log", 0x21, monads::log),
    unary("exp", "exp", 0x22, monads::exp),
    unary("sin", "sin", 0x23, monads::sin),
    unary("asin", "asin", 0x24, monads::asin),
    unary("cos", "cos", 0x25, monads::cos),
    unary("acos", "acos", 0x26, monads::acos),
    unary("tan", "tan", 0x27, monads::tan),
    unary("atan", "atan", 0x28, monads::atan),
    Primitive {
        name: "enlist",
        shown: "enlist",
        infix: false,
        code: (101, 0x29),
        atomic: None,
        run: Run::Many(1, 255, shape::enlist),
    },
    unary("var", "var", 0x2a, stats::var),
    unary("dev", "dev", 0x2b, stats::dev),
    infix("in", (102, 0x17), sets::in_),
    infix("within", (102, 0x18), sets::within),
    infix("like", (102, 0x19), strings::like),
    infix("bin", (102, 0x1a), sets::bin),
    infix("ss", (102, 0x1b), strings::ss),
    infix("insert", (102, 0x1c), append::insert),
    infix("wsum", (102, 0x1d), stats::wsum),
    infix("wavg", (102, 0x1e), stats::wavg),
    op!("div", (102, 0x1f), Op::Div),
    op!("xexp", (102, 0x20), Op::Power),
    infix("binr", (102, 0x22), sets::binr),
    infix("cov", (102, 0x23), stats::cov),
    infix("cor", (102, 0x24), stats::cor),
    op!("mod", NONE, Op::Mod),
    op!("xlog", NONE, Op::Log),
    op!("xbar", NONE, Op::Bar),
    op!("and", (102, 0x05), Op::Arithmetic(Arithmetic::Lesser)),
    op!("or", (102, 0x06), Op::Arithmetic(Arithmetic::Greater)),
    each!("each", Each),
    infix("peach", NONE, |c, f, x| super::peach::peach(c, &f, x)),
    each!("over", Over),
    each!("scan", Scan),
    each!("prior", EachPrior),
    infix("upsert", NONE, append::upsert),
    infix("union", NONE, sets::union),
    infix("inter", NONE, sets::inter),
    infix("except", NONE, sets::except),
    infix("cross", NONE, shape::cross),
    infix("cut", NONE, shape::cut),
    infix("sublist", NONE, shape::sublist),
    infix("rotate", NONE, shape::rotate),
    infix("xprev", NONE, shape::xprev),
    infix("xrank", NONE, sort::xrank),
    infix("xasc", NONE, sort::xasc),
    infix("xdesc", NONE, sort::xdesc),
    infix("xkey", NONE, tables::xkey),
    infix("xcol", NONE, tables::xcol),
    infix("xcols", NONE, tables::xcols),
    infix("xgroup", NONE, tables::xgroup),
    infix("fby", NONE, tables::fby),
    infix("set", NONE, tables::set),
    infix("lj", NONE, joins::lj),
    infix("ljf", NONE, joins::ljf),
    infix("ij", NONE, joins::ij),
    infix("pj", NONE, joins::pj),
    infix("uj", NONE, joins::uj),
    infix("asof", NONE, asof::asof),
    infix("vs", NONE, strings::vs),
    infix("sv", NONE, strings::sv),
    infix("scov", NONE, stats::scov),
    infix("mmu", NONE, |c, x, y| linear::product(c, &x, &y)),
    infix("lsq", NONE, linear::lsq),
    infix("ijf", NONE, joins::ijf),
    infix("ujf", NONE, joins::ujf),
    infix("dsave", NONE, files::dsave),
    infix("setenv", NONE, process::setenv),
    infix("msum", NONE, stats::msum),
    infix("mavg", NONE, stats::mavg),
    infix("mcount", NONE, stats::mcount),
    infix("mdev", NONE, stats::mdev),
    infix("mmax", NONE, stats::mmax),
    infix("mmin", NONE, stats::mmin),
    infix("ema", NONE, stats::ema),
    word("til", shape::til),
    word("all", stats::all),
    word("any", stats::any),
    word("asc", sort::asc),
    word("desc", sort::desc),
    word("attr", attributes::attr),
    word("avgs", stats::avgs),
    word("ceiling", monads::ceiling),
    word("cols", tables::cols),
    Primitive {
        name: "deltas",
        shown: "-':",
        infix: false,
        code: (109, 0x02),
        atomic: None,
        run: Run::Many(1, 2, stats::deltas),
    },
    word("differ", stats::differ),
    word("eval", tree::eval),
    word("fills", shape::fills),
    word("hsym", strings::hsym),
    word("keys", tables::keys),
    word("lower", monads::lower),
    word("ltrim", strings::ltrim),
    cover("maxs", "|\\", (108, 0x06), stats::maxs),
    word("med", stats::med),
    word("meta", tables::meta),
    cover("mins", "&\\", (108, 0x05), stats::mins),
    word("next", shape::next),
    word("parse", tree::parse),
    cover("prds", "*\\", (108, 0x03), stats::prds),
    cover("prev", ":':", (109, 0x00), shape::prev),
    word("rank", sort::rank),
    Primitive {
        name: "ratios",
        shown: "%':",
        infix: false,
        code: (109, 0x04),
        atomic: None,
        run: Run::Many(1, 2, stats::ratios),
    },
    cover("raze", ",/", (107, 0x0c), shape::raze),
    word("rtrim", strings::rtrim),
    word("sdev", stats::sdev),
    word("show", internal::show_),
    word("signum", monads::signum),
    cover("sums", "+\\", (108, 0x01), stats::sums),
    word("svar", stats::svar),
    word("system", internal::system),
    word("tables", tables::tables),
    word("trim", strings::trim),
    word("ungroup", tables::ungroup),
    word("upper", monads::upper),
    word("rand", random::rand),
    word("inv", linear::inv),
    cover("md5", "-15!", (104, 15), codec::md5),
    word("reval", tree::reval),
    word("getenv", process::getenv),
    Primitive { shown: "<:", ..word("hopen", process::hopen) },
    Primitive { shown: ">:", ..word("hclose", process::hclose) },
    word("hcount", files::hcount),
    Primitive { shown: "~:", ..word("hdel", files::hdel) },
    word("read0", files::read0),
    word("read1", files::read1),
    word("load", files::load_name),
    word("rload", files::rload),
    word("save", files::save),
    word("rsave", files::rsave),
    word("gtime", process::gtime),
    Primitive { shown: "%:", ..word("ltime", process::ltime) },
    word("fkeys", enums::fkeys),
    word("view", views::text_of),
    word("views", views::names),
    many("ssr", 3, 3, strings::ssr),
    many("ej", 3, 3, joins::ej),
    many("aj", 3, 3, asof::aj),
    many("aj0", 3, 3, asof::aj0),
    many("ajf", 3, 3, asof::ajf),
    many("ajf0", 3, 3, asof::ajf0),
    many("wj", 4, 4, windows::wj),
    many("wj1", 4, 4, windows::wj1),
    word(".Q.s", internal::q_s),
    word(".Q.s1", internal::q_s1),
    word(".Q.ty", internal::q_ty),
    word(".Q.id", internal::q_id),
    word(".Q.cn", files::database::q_cn),
    word(".Q.qp", files::database::q_qp),
    many(".Q.lo", 3, 3, files::database::q_lo),
    word(".Q.qt", internal::q_qt),
    word(".Q.sha1", codec::q_sha1),
    word(".Q.btoa", codec::btoa),
    word(".Q.atob", codec::atob),
    infix(".Q.fixed", NONE, codec::fixed),
    word(".Q.addr", address::addr),
    word(".Q.host", address::host),
    word(".Q.w", process::q_w),
    many(".Q.trp", 3, 3, trap::trp),
    many(".Q.trpd", 3, 3, trap::trpd),
    word(".Q.sbt", trap::sbt),
    word(".Q.bt", trap::bt),
    word(".j.j", json::to_json),
    word(".j.jd", json::to_json_with),
    word(".j.k", json::from_json),
];

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

/// Keywords, as `key`.q` lists them.
pub(super) fn keywords() -> Vec<Sym> {
    let words = PRIMITIVES
        .iter()
        .filter(|p| p.name.len() > 1 && p.name.as_bytes().first().is_some_and(u8::is_ascii_alphabetic));
    words.map(|p| name(p.name)).collect()
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
        Some(Primitive { run: Run::Unary(run), .. }) if !x.is_enumerated() => run(context, x),
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
    match primitive.map(|p| &p.run) {
        Some(Run::Binary(run)) => run(context, x, y),
        _ => context.apply(&of_index(index), vec![x, y]),
    }
}

/// What stands before the first item for an each-prior: what leaves it as it is, else a null.
pub(super) fn prior_seed(f: &Value, y: &Value) -> Value {
    let number = y.to_items().type_number();
    match name_of(f) {
        Some("-" | "+") if number > 0 => Value::from_long(if matches!(number, 1 | 4) { 6 } else { number }, 0),
        Some("*" | "%") if number > 0 => Value::from_long(if matches!(number, 1 | 4) { 6 } else { number }, 1),
        Some(",") => Value::empty(),
        _ => y.at(usize::MAX),
    }
}

/// What an operator leaves as it is: where an amend of an undefined name starts.
pub(super) fn identity(f: &Value) -> Option<Value> {
    Some(match name_of(f)? {
        "+" | "-" => Value::Long(0),
        "*" | "%" => Value::Long(1),
        "&" => Value::Long(i64::MAX),
        "|" => Value::Long(-i64::MAX),
        "," => Value::empty(),
        _ => return None,
    })
}

/// The result of folding nothing.
pub(super) fn fold_identity(f: &Value, y: &Value) -> Value {
    match name_of(f) {
        Some("+") => Value::Long(0),
        Some("*") => Value::Long(1),
        Some(",") => y.clone(),
        Some("&") => Value::Long(i64::MAX),
        Some("|") => Value::Long(-i64::MAX),
        Some(_) => match y {
            Value::Vector(v) if !matches!(v.items, Items::List(_)) => v.items.missing(),
            _ => Value::empty(),
        },
        None => Value::empty(),
    }
}

/// Folds of simple vectors by their kernels.
pub(super) fn fast_fold(
    context: &mut Context,
    f: &Value,
    seed: Option<&Value>,
    y: &Value,
    scan: bool,
) -> Option<Answer> {
    let Value::Vector(v) = y else { return None };
    if matches!(v.items, Items::List(_) | Items::Sym(_) | Items::Char(_)) || v.is_empty() || seed.is_some() {
        return None;
    }
    let wide = v.items.type_number() >= 6;
    Some(match (name_of(f)?, scan) {
        ("+", false) if wide => stats::sum(context, y.clone()),
        ("+", true) if wide => stats::sums(context, y.clone()),
        ("&", false) => stats::min(context, y.clone()),
        ("|", false) => stats::max(context, y.clone()),
        ("&", true) => stats::mins(context, y.clone()),
        ("|", true) => stats::maxs(context, y.clone()),
        _ => return None,
    })
}
