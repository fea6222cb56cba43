//! The table of primitives, with the short forms in which its rows are written.

use super::{Primitive, Run};
use crate::arith::{self, Op};
use crate::context::Context;
use crate::error::QError;
use crate::{
    address, append, asof, attributes, cast, codec, enums, files, internal, joins, json, linear, monads, moving,
    process, random, sets, shape, sort, stats, strings, tables, take, trap, tree, views, windows,
};
use columns::kernel::zip::{Arithmetic, Comparison};
use columns::table::Value;
use columns::table::function::Iterator;

type Answer = Result<Value, QError>;
type Unary = fn(&mut Context<'_>, Value) -> Answer;
type Binary = fn(&mut Context<'_>, Value, Value) -> Answer;
type Many = fn(&mut Context<'_>, Vec<Value>) -> Answer;

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
    operator("#", 0x0d, take::take),
    operator("_", 0x0e, take::drop),
    operator("~", 0x0f, |_, x, y| Ok(Value::Bool(crate::matches::same(&x, &y)?))),
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
    infix("peach", NONE, |c, f, x| crate::peach::peach(c, &f, x)),
    each!("over", Over),
    each!("scan", Scan),
    each!("prior", EachPrior),
    infix("upsert", NONE, append::upsert),
    infix("union", NONE, sets::union),
    infix("inter", NONE, sets::inter),
    infix("except", NONE, sets::except),
    infix("cross", NONE, shape::cross),
    infix("cut", NONE, take::cut),
    infix("sublist", NONE, take::sublist),
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
    infix("msum", NONE, moving::msum),
    infix("mavg", NONE, moving::mavg),
    infix("mcount", NONE, moving::mcount),
    infix("mdev", NONE, moving::mdev),
    infix("mmax", NONE, moving::mmax),
    infix("mmin", NONE, moving::mmin),
    infix("ema", NONE, moving::ema),
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
    word(".Q.gz", files::gz),
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
