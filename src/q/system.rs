//! q's own variables (`.z`, `.Q`) and its `\` commands.

use super::context::Context;
use super::error::QError;
use super::format;
use super::prims;
use super::random;
use super::shape::Result;
use super::time::{self, DAY_NS};
use crate::table::symbol::intern;
use crate::table::{Items, Sym, Value};

/// The value of a name that belongs to q itself.
pub(super) fn variable(context: &Context, name: &[u8]) -> Option<Value> {
    let day = |ns: i64| Value::Date(i32::try_from(ns.div_euclid(DAY_NS)).unwrap_or(i32::MIN));
    let clock = |ns: i64| Value::Time((ns.rem_euclid(DAY_NS) / 1_000_000) as i32);
    let caller = context.host.caller();
    let letters = |from: u8, to: u8| Value::chars((from..=to).collect::<Vec<u8>>());
    Some(match name {
        b".z.p" => Value::Timestamp(time::now_utc_ns()),
        b".z.P" => Value::Timestamp(time::now_local_ns()),
        b".z.d" => day(time::now_utc_ns()),
        b".z.D" => day(time::now_local_ns()),
        b".z.t" => clock(time::now_utc_ns()),
        b".z.T" => clock(time::now_local_ns()),
        b".z.n" => Value::Timespan(time::now_utc_ns().rem_euclid(DAY_NS)),
        b".z.N" => Value::Timespan(time::now_local_ns().rem_euclid(DAY_NS)),
        b".z.z" => Value::Datetime(time::now_utc_ns() as f64 / DAY_NS as f64),
        b".z.Z" => Value::Datetime(time::now_local_ns() as f64 / DAY_NS as f64),
        b".z.w" => Value::Int(caller.handle),
        b".z.u" => Value::Sym(intern(&caller.user).ok()?),
        b".z.a" => Value::Int(caller.address),
        b".z.K" => Value::Float(4.0),
        b".z.k" => Value::Date(time::date(2020, 5, 4).unwrap_or(0)),
        b".z.s" => context.running.clone()?,
        b".q" => {
            let mut names = vec![Sym::NULL];
            names.extend(prims::keywords());
            let functions = prims::keywords()
                .into_iter()
                .map(|n| prims::keyword(crate::table::symbol::text(n)).unwrap_or(Value::Null));
            let values = std::iter::once(Value::Null).chain(functions).collect();
            Value::dict(Value::symbols(names), Value::list(values))
        }
        b".Q.M" => Value::Long(i64::MAX),
        b".Q.b6" => Value::chars(
            [&(b'A'..=b'Z').collect::<Vec<u8>>()[..], &(b'a'..=b'z').collect::<Vec<u8>>(), b"0123456789+/"].concat(),
        ),
        b".z.o" => Value::Sym(prims::name("l64")),
        b".z.i" => Value::Int(i32::try_from(std::process::id()).unwrap_or(0)),
        b".z.x" => Value::empty(),
        b".z.h" => Value::Sym(intern(rustix::system::uname().nodename().to_bytes()).ok()?),
        b".Q.a" => letters(b'a', b'z'),
        b".Q.A" => letters(b'A', b'Z'),
        b".Q.n" => letters(b'0', b'9'),
        b".Q.an" => Value::chars(
            [&(b'a'..=b'z').collect::<Vec<u8>>()[..], &(b'A'..=b'Z').collect::<Vec<u8>>(), b"_0123456789"].concat(),
        ),
        b".Q.nA" => Value::chars([&b"0123456789"[..], &(b'A'..=b'Z').collect::<Vec<u8>>()].concat()),
        b".Q.t" => Value::chars(&b" bg xhijefcspmdznuvts"[..]),
        _ => return None,
    })
}

/// A command without its backslash.
pub(super) fn command(context: &mut Context, text: &[u8]) -> Result {
    let text = text.trim_ascii();
    let split = text.iter().position(|c| *c == b' ').unwrap_or(text.len());
    let (word, rest) = text.split_at(split);
    // A comment ends a command as it ends an expression.
    let comment = rest.windows(2).position(|w| w == b" /").unwrap_or(rest.len());
    let rest = rest.get(..comment).unwrap_or_default().trim_ascii();
    let number = || std::str::from_utf8(rest).ok().and_then(|n| n.parse::<i64>().ok());
    let mut console = context.host.console();
    match word {
        b"d" => {
            if rest.is_empty() {
                let space = context.host.namespace();
                return Ok(Value::Sym(if space == Sym::NULL { prims::name(".") } else { space }));
            }
            let space = if rest == b"." { Sym::NULL } else { super::parse::symbol(rest)? };
            context.host.set_namespace(space)?;
            Ok(Value::Null)
        }
        b"P" => {
            let Some(digits) = number() else { return Ok(Value::Int(i32::from(console.precision))) };
            console.precision = u8::try_from(digits.clamp(0, 17)).unwrap_or(format::PRECISION);
            context.host.set_console(console)?;
            Ok(Value::Null)
        }
        b"c" => {
            if rest.is_empty() {
                return Ok(Items::Int(vec![console.rows as i32, console.columns as i32].into()).into());
            }
            let mut sizes =
                rest.split(|c| *c == b' ').filter_map(|n| std::str::from_utf8(n).ok()?.parse::<usize>().ok());
            let (Some(rows), Some(columns)) = (sizes.next(), sizes.next()) else { return Err(QError::named("length")) };
            console.rows = rows.clamp(10, 2000);
            console.columns = columns.clamp(10, 2000);
            context.host.set_console(console)?;
            Ok(Value::Null)
        }
        b"S" => {
            match number() {
                Some(seed) => random::seed(seed),
                None => return Ok(Value::Int(random::DEFAULT_SEED as i32)),
            }
            Ok(Value::Null)
        }
        b"a" => {
            let space = if rest.is_empty() { context.host.namespace() } else { super::parse::symbol(rest)? };
            let found = super::tables::tables(context, Value::Sym(space))?;
            Ok(found.to_items().into())
        }
        b"v" | b"f" => {
            let space = if rest.is_empty() { context.host.namespace() } else { super::parse::symbol(rest)? };
            let Some(Value::Dict(d)) = context.namespace(space) else { return Ok(Value::symbols(Vec::new())) };
            let mut names = Vec::new();
            for (i, name) in d.keys.as_symbols().unwrap_or_default().iter().enumerate().skip(1) {
                if matches!(d.values.at(i), Value::Func(_)) == (word == b"f") {
                    names.push(*name);
                }
            }
            names.sort_by_key(|n| crate::table::symbol::text(*n));
            Ok(Value::symbols(names))
        }
        b"t" if !rest.is_empty() && number().is_none() => {
            let start = std::time::Instant::now();
            super::run_text(context, rest)?;
            Ok(Value::Long(i64::try_from(start.elapsed().as_millis()).unwrap_or(i64::MAX)))
        }
        b"ts" if !rest.is_empty() => {
            let start = std::time::Instant::now();
            let before = crate::sys::allocated::thread_bytes();
            super::run_text(context, rest)?;
            let ms = i64::try_from(start.elapsed().as_millis()).unwrap_or(i64::MAX);
            Ok(Value::longs(vec![ms, crate::sys::allocated::thread_bytes().saturating_sub(before).max(0)]))
        }
        b"t" => Ok(Value::Int(0)),
        b"o" => Ok(Value::Int(i32::MIN)),
        b"W" => Ok(Value::Int(2)),
        b"z" => Ok(Value::Int(0)),
        _ => Err(QError::with("access", "this command is not available here")),
    }
}
