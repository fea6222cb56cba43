//! The implementation of each primitive, in the order of the table of names.

use crate::eval::{internal, iterate, trap, views};
use crate::io::environment;
use crate::io::files;
use crate::process::modules;
use crate::qsql::tree;
use crate::runtime::error::QError;
use crate::runtime::op::Op;
use crate::syntax::prims::{Arity, PRIMITIVES};
use crate::verbs::above::Run;
use crate::verbs::on_disk::held;
use crate::verbs::{
    address, append, arith, asof, attributes, cast, codec, enums, joins, json, linear, monads, moving, random, replace,
    sets, shape, sort, stats, strings, tables, take, windows,
};
use columns::table::Value;
use columns::table::function::Iterator;

/// An atomic operator, as listed in the table of names.
macro_rules! op {
    ($name:literal) => {{
        const OP: Op = atomic($name);
        ($name, Run::Binary(|c, x, y| arith::atomic(c, OP, &x, &y)))
    }};
}

/// A function that needs its tables in memory: an argument that is a splayed table is read first, a partitioned one is `'par`.
macro_rules! whole {
    ($name:literal, $run:path) => {
        ($name, Run::Unary(|c, x| held(c, x).and_then(|x| $run(c, x))))
    };
    ($name:literal, both of $run:path) => {
        (
            $name,
            Run::Binary(|c, x, y| {
                let (x, y) = (held(c, x)?, held(c, y)?);
                $run(c, x, y)
            }),
        )
    };
    ($name:literal, right of $run:path) => {
        ($name, Run::Binary(|c, x, y| held(c, y).and_then(|y| $run(c, x, y))))
    };
}

macro_rules! each {
    ($name:literal, $iterator:ident) => {
        ($name, Run::Binary(|c, f, x| iterate::derive(c, Iterator::$iterator, f, x)))
    };
}

macro_rules! derive {
    ($name:literal, $iterator:ident) => {
        ($name, Run::Many(|c, a| internal::iterator(c, Iterator::$iterator, a)))
    };
}

/// Names and implementations; a name must equal that of the row with the same index.
static FUNCTIONS: &[(&str, Run)] = &[
    (":", Run::Binary(internal::right)),
    op!("+"),
    op!("-"),
    op!("*"),
    op!("%"),
    op!("&"),
    op!("|"),
    op!("^"),
    op!("="),
    op!("<"),
    op!(">"),
    ("$", Run::Binary(cast::dollar)),
    (",", Run::Binary(shape::join)),
    ("#", Run::Binary(take::take)),
    ("_", Run::Binary(take::drop)),
    ("~", Run::Binary(|_, x, y| Ok(Value::Bool(crate::verbs::matches::same(&x, &y)?)))),
    ("!", Run::Many(internal::bang)),
    ("?", Run::Many(internal::query)),
    ("@", Run::Many(internal::at)),
    (".", Run::Many(internal::dot)),
    op!("<="),
    op!(">="),
    op!("<>"),
    whole!("0:", right of files::text_operator),
    ("1:", Run::Binary(files::bytes_operator)),
    ("2:", Run::Binary(|_, _, _| Err(QError::with("access", "shared libraries are not supported")))),
    derive!("'", Each),
    derive!("/", Over),
    derive!("\\", Scan),
    derive!("':", EachPrior),
    derive!("/:", EachRight),
    derive!("\\:", EachLeft),
    ("flip", Run::Unary(shape::flip)),
    ("neg", Run::Unary(monads::neg)),
    ("first", Run::Unary(shape::first)),
    ("reciprocal", Run::Unary(monads::reciprocal)),
    ("where", Run::Unary(shape::where_)),
    ("reverse", Run::Unary(shape::reverse)),
    ("null", Run::Unary(monads::null)),
    whole!("group", sets::group),
    whole!("iasc", sort::iasc),
    whole!("idesc", sort::idesc),
    ("string", Run::Unary(strings::string)),
    ("count", Run::Unary(shape::count)),
    (",:", Run::Unary(|_, x| Ok(x.enlist()))),
    ("floor", Run::Unary(monads::floor)),
    ("not", Run::Unary(monads::not)),
    ("key", Run::Unary(tables::key)),
    whole!("distinct", sets::distinct),
    ("type", Run::Unary(internal::type_)),
    ("value", Run::Unary(internal::value)),
    ("get", Run::Unary(internal::value)),
    whole!("avg", stats::avg),
    ("last", Run::Unary(shape::last)),
    whole!("sum", stats::sum),
    whole!("prd", stats::prd),
    whole!("min", stats::min),
    whole!("max", stats::max),
    ("exit", Run::Unary(environment::exit)),
    ("abs", Run::Unary(monads::abs)),
    ("sqrt", Run::Unary(monads::sqrt)),
    ("log", Run::Unary(monads::log)),
    ("exp", Run::Unary(monads::exp)),
    ("sin", Run::Unary(monads::sin)),
    ("asin", Run::Unary(monads::asin)),
    ("cos", Run::Unary(monads::cos)),
    ("acos", Run::Unary(monads::acos)),
    ("tan", Run::Unary(monads::tan)),
    ("atan", Run::Unary(monads::atan)),
    ("enlist", Run::Many(shape::enlist)),
    whole!("var", stats::var),
    whole!("dev", stats::dev),
    ("in", Run::Binary(sets::in_)),
    ("within", Run::Binary(sets::within)),
    ("like", Run::Binary(strings::like)),
    ("bin", Run::Binary(sets::bin)),
    ("ss", Run::Binary(replace::ss)),
    whole!("insert", right of append::insert),
    ("wsum", Run::Binary(stats::wsum)),
    ("wavg", Run::Binary(stats::wavg)),
    op!("div"),
    op!("xexp"),
    ("binr", Run::Binary(sets::binr)),
    ("cov", Run::Binary(stats::cov)),
    ("cor", Run::Binary(stats::cor)),
    op!("mod"),
    op!("xlog"),
    op!("xbar"),
    op!("and"),
    op!("or"),
    each!("each", Each),
    ("peach", Run::Binary(|c, f, x| iterate::peach(c, &f, x))),
    each!("over", Over),
    each!("scan", Scan),
    each!("prior", EachPrior),
    whole!("upsert", right of append::upsert),
    whole!("union", both of sets::union),
    whole!("inter", both of sets::inter),
    whole!("except", both of sets::except),
    whole!("cross", both of shape::cross),
    whole!("cut", right of take::cut),
    ("sublist", Run::Binary(files::database::sublist)),
    whole!("rotate", right of shape::rotate),
    whole!("xprev", right of shape::xprev),
    whole!("xrank", right of sort::xrank),
    whole!("xasc", right of sort::xasc),
    whole!("xdesc", right of sort::xdesc),
    ("xkey", Run::Binary(tables::xkey)),
    ("xcol", Run::Binary(tables::xcol)),
    ("xcols", Run::Binary(tables::xcols)),
    ("xgroup", Run::Binary(tables::xgroup)),
    ("fby", Run::Binary(tables::fby)),
    ("set", Run::Binary(tables::set)),
    ("lj", Run::Binary(joins::lj)),
    ("ljf", Run::Binary(joins::ljf)),
    ("ij", Run::Binary(joins::ij)),
    ("pj", Run::Binary(joins::pj)),
    ("uj", Run::Binary(joins::uj)),
    ("asof", Run::Binary(asof::asof)),
    ("vs", Run::Binary(strings::vs)),
    ("sv", Run::Binary(strings::sv)),
    ("scov", Run::Binary(stats::scov)),
    ("mmu", Run::Binary(|c, x, y| linear::product(c, &x, &y))),
    ("lsq", Run::Binary(linear::lsq)),
    ("ijf", Run::Binary(joins::ijf)),
    ("ujf", Run::Binary(joins::ujf)),
    ("dsave", Run::Binary(files::dsave)),
    ("setenv", Run::Binary(environment::setenv)),
    ("msum", Run::Binary(moving::msum)),
    ("mavg", Run::Binary(moving::mavg)),
    ("mcount", Run::Binary(moving::mcount)),
    ("mdev", Run::Binary(moving::mdev)),
    ("mmax", Run::Binary(moving::mmax)),
    ("mmin", Run::Binary(moving::mmin)),
    ("ema", Run::Binary(moving::ema)),
    ("til", Run::Unary(shape::til)),
    ("all", Run::Unary(stats::all)),
    ("any", Run::Unary(stats::any)),
    whole!("asc", sort::asc),
    whole!("desc", sort::desc),
    ("attr", Run::Unary(attributes::attr)),
    whole!("avgs", stats::avgs),
    ("ceiling", Run::Unary(monads::ceiling)),
    ("cols", Run::Unary(tables::cols)),
    ("deltas", Run::Many(stats::deltas)),
    ("differ", Run::Many(stats::differ_from)),
    ("eval", Run::Unary(tree::eval)),
    whole!("fills", shape::fills),
    ("hsym", Run::Unary(strings::hsym)),
    ("keys", Run::Unary(tables::keys)),
    ("lower", Run::Unary(monads::lower)),
    ("ltrim", Run::Unary(strings::ltrim)),
    whole!("maxs", stats::maxs),
    whole!("med", stats::med),
    ("meta", Run::Unary(tables::meta)),
    whole!("mins", stats::mins),
    whole!("next", shape::next),
    ("parse", Run::Unary(tree::parse)),
    whole!("prds", stats::prds),
    whole!("prev", shape::prev),
    whole!("rank", sort::rank),
    ("ratios", Run::Many(stats::ratios)),
    whole!("raze", shape::raze),
    ("rtrim", Run::Unary(strings::rtrim)),
    whole!("sdev", stats::sdev),
    ("show", Run::Unary(internal::show_)),
    ("signum", Run::Unary(monads::signum)),
    whole!("sums", stats::sums),
    whole!("svar", stats::svar),
    ("system", Run::Unary(internal::system)),
    ("tables", Run::Unary(tables::tables)),
    ("trim", Run::Unary(strings::trim)),
    ("ungroup", Run::Unary(tables::ungroup)),
    ("upper", Run::Unary(monads::upper)),
    ("rand", Run::Unary(random::rand)),
    ("inv", Run::Unary(linear::inv)),
    ("md5", Run::Unary(codec::md5)),
    ("reval", Run::Unary(tree::reval)),
    ("getenv", Run::Unary(environment::getenv)),
    ("hopen", Run::Unary(environment::hopen)),
    ("hclose", Run::Unary(environment::hclose)),
    ("hcount", Run::Unary(files::hcount)),
    ("hdel", Run::Unary(files::hdel)),
    ("read0", Run::Unary(files::read0)),
    ("read1", Run::Unary(files::read1)),
    ("load", Run::Unary(files::load_name)),
    ("rload", Run::Unary(files::rload)),
    ("save", Run::Unary(files::save)),
    ("rsave", Run::Unary(files::rsave)),
    ("gtime", Run::Unary(environment::gtime)),
    ("ltime", Run::Unary(environment::ltime)),
    ("fkeys", Run::Unary(enums::fkeys)),
    ("view", Run::Unary(views::text_of)),
    ("views", Run::Unary(views::names)),
    ("ssr", Run::Many(replace::ssr)),
    ("ej", Run::Many(joins::ej)),
    ("aj", Run::Many(asof::aj)),
    ("aj0", Run::Many(asof::aj0)),
    ("ajf", Run::Many(asof::ajf)),
    ("ajf0", Run::Many(asof::ajf0)),
    ("wj", Run::Many(windows::wj)),
    ("wj1", Run::Many(windows::wj1)),
    (".Q.s", Run::Unary(internal::q_s)),
    (".Q.S", Run::Many(internal::q_lines)),
    (".Q.s1", Run::Unary(internal::q_s1)),
    (".Q.ty", Run::Unary(internal::q_ty)),
    (".Q.id", Run::Unary(internal::q_id)),
    (".Q.cn", Run::Unary(files::database::q_cn)),
    (".Q.qp", Run::Unary(files::database::q_qp)),
    (".Q.lo", Run::Many(files::database::q_lo)),
    (".Q.qt", Run::Unary(internal::q_qt)),
    (".Q.sha1", Run::Unary(codec::q_sha1)),
    (".Q.gz", Run::Unary(files::gz)),
    (".Q.btoa", Run::Unary(codec::btoa)),
    (".Q.atob", Run::Unary(codec::atob)),
    (".Q.fixed", Run::Binary(codec::fixed)),
    (".Q.addr", Run::Unary(address::addr)),
    (".Q.host", Run::Unary(address::host)),
    (".Q.w", Run::Unary(environment::q_w)),
    (".Q.trp", Run::Many(trap::trp)),
    (".Q.trpd", Run::Many(trap::trpd)),
    (".Q.pl", Run::Unary(trap::pl)),
    (".Q.sbt", Run::Unary(trap::sbt)),
    (".Q.bt", Run::Unary(trap::bt)),
    (".Q.Ll", Run::Unary(trap::stack)),
    (".Q.btx", Run::Unary(trap::btx)),
    (".Q.rp", Run::Unary(modules::resolved)),
    (".Q.m.mp", Run::Unary(modules::path_of)),
    (".Q.m.use", Run::Unary(modules::use_module)),
    whole!(".j.j", json::to_json),
    (".j.jd", Run::Unary(json::to_json_with)),
    (".j.k", Run::Unary(json::from_json)),
    whole!("<:", environment::iasc_or_hopen),
    whole!(">:", environment::idesc_or_hclose),
    ("2::", Run::Unary(|_, _| Err(QError::named("nyi")))),
];

const _: () = assert!(agree(), "the tables of primitives differ in a name, arity or position");

const fn same(x: &str, y: &str) -> bool {
    let (x, y) = (x.as_bytes(), y.as_bytes());
    let mut at = 0;
    while at < x.len() && at < y.len() && x[at] == y[at] {
        at += 1;
    }
    at == x.len() && at == y.len()
}

/// Compile-time check that both tables have the same names in the same order, with matching arities.
const fn agree() -> bool {
    let mut at = 0;
    while at < FUNCTIONS.len() && at < PRIMITIVES.len() {
        let fits = matches!(
            (&FUNCTIONS[at].1, PRIMITIVES[at].arity),
            (Run::Unary(_), Arity::Unary) | (Run::Binary(_), Arity::Binary) | (Run::Many(_), Arity::Many(..))
        );
        if !fits || !same(FUNCTIONS[at].0, PRIMITIVES[at].name) {
            return false;
        }
        at += 1;
    }
    FUNCTIONS.len() == PRIMITIVES.len()
}

/// The atomic operator of a row.
const fn atomic(name: &str) -> Op {
    let mut at = 0;
    while at < PRIMITIVES.len() {
        if let (Some(op), true) = (PRIMITIVES[at].atomic, same(PRIMITIVES[at].name, name)) {
            return op;
        }
        at += 1;
    }
    panic!("no primitive of this name is atomic")
}

/// Returns the implementation of a primitive by index.
#[inline]
pub(crate) fn get(index: u16) -> Option<&'static Run> {
    FUNCTIONS.get(usize::from(index)).map(|(_, run)| run)
}
