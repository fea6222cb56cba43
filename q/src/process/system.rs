//! Variables of `.z` and `.Q`.

use crate::runtime::context::Context;
use crate::runtime::time;
use crate::runtime::time::DAY_NS;
use crate::syntax::prims;
use columns::table::symbol::intern_name as intern;
use columns::table::{Items, Sym, Value};

/// Returns the value of a system variable.
pub(crate) fn variable(context: &Context, name: &[u8]) -> Option<Value> {
    let day = |ns: i64| Value::Date(i32::try_from(ns.div_euclid(DAY_NS)).unwrap_or(i32::MIN));
    let local_ns = || match crate::runtime::settings::utc_offset() {
        Some(hours @ -23..=23) => time::now_utc_ns().saturating_add(i64::from(hours) * 3_600_000_000_000),
        Some(minutes) => time::now_utc_ns().saturating_add(i64::from(minutes) * 60_000_000_000),
        None => time::now_local_ns(),
    };
    let clock = |ns: i64| Value::Time((ns.rem_euclid(DAY_NS) / 1_000_000) as i32);
    let caller = context.host.caller();
    let letters = |from: u8, to: u8| Value::chars((from..=to).collect::<Vec<u8>>());
    Some(match name {
        b".z.p" => Value::Timestamp(time::now_utc_ns()),
        b".z.P" => Value::Timestamp(local_ns()),
        b".z.d" => day(time::now_utc_ns()),
        b".z.D" => day(local_ns()),
        b".z.t" => clock(time::now_utc_ns()),
        b".z.T" => clock(local_ns()),
        b".z.n" => Value::Timespan(time::now_utc_ns().rem_euclid(DAY_NS)),
        b".z.N" => Value::Timespan(local_ns().rem_euclid(DAY_NS)),
        b".z.z" => Value::Datetime(time::now_utc_ns() as f64 / DAY_NS as f64),
        b".z.Z" => Value::Datetime(local_ns() as f64 / DAY_NS as f64),
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
                .map(|n| prims::keyword(columns::table::symbol::text(n)).unwrap_or(Value::Null));
            let values = std::iter::once(Value::Null).chain(functions).collect();
            Value::dict(Value::symbols(names), Value::list(values))
        }
        b".Q.b6" => Value::chars(
            [&(b'A'..=b'Z').collect::<Vec<u8>>()[..], &(b'a'..=b'z').collect::<Vec<u8>>(), b"0123456789+/"].concat(),
        ),
        b".z.o" => Value::Sym(prims::name("l64")),
        b".z.i" => Value::Int(i32::try_from(std::process::id()).unwrap_or(0)),
        b".z.x" => context.host.arguments(),
        b".z.X" => context.host.command_line(),
        b".z.f" => Value::Sym(context.host.started_with()),
        b".z.q" => Value::Bool(context.host.is_quiet()),
        b".z.b" => crate::eval::views::dependencies(context),
        b".z.e" => match &caller.tls {
            Some((cipher, protocol)) => {
                let entries = [("CIPHER", cipher.clone()), ("PROTOCOL", protocol.to_string())];
                crate::io::environment::named(&entries).ok()?
            }
            None => Value::dict(Value::symbols(Vec::new()), Value::empty()),
        },
        // The arguments before the first option.
        b".Q.x" => {
            let words = context.host.arguments().items();
            Value::list(words.into_iter().take_while(|w| w.as_text().is_some_and(|w| !w.starts_with(b"-"))).collect())
        }
        b".z.c" => Value::Int(std::thread::available_parallelism().map_or(1, |n| i32::try_from(n.get()).unwrap_or(1))),
        b".z.W" => {
            let handles = context.host.open_handles();
            // Sizes of queued messages: always empty, because sends are not queued here.
            let waiting = vec![Value::longs(Vec::new()); handles.len()];
            Value::dict(Items::Int(handles.into()).into(), Value::list(waiting))
        }
        b".z.H" => Items::Int(context.host.open_handles().into()).into(),
        b".z.l" => Value::list(Vec::new()),
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
