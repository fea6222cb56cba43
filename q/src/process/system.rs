//! Variables of `.z` and `.Q`.

use crate::runtime::context::Context;
use crate::runtime::time;
use crate::runtime::time::DAY_NS;
use crate::syntax::prims;
use columns::table::symbol::intern_name as intern;
use columns::table::{Items, Sym, Value};

/// Names of the system variables, with what each holds: `\help NAME`.
pub(crate) const VARIABLES: [(&str, &str); 38] = [
    (".z.p", "UTC timestamp now"),
    (".z.P", "local timestamp now"),
    (".z.d", "UTC date"),
    (".z.D", "local date"),
    (".z.t", "UTC time of day, in milliseconds"),
    (".z.T", "local time of day, in milliseconds"),
    (".z.n", "UTC time of day, in nanoseconds"),
    (".z.N", "local time of day, in nanoseconds"),
    (".z.z", "UTC datetime, a float of days"),
    (".z.Z", "local datetime, a float of days"),
    (".z.w", "handle of the client whose message runs; 0 at the console"),
    (".z.u", "user of the client whose message runs"),
    (".z.a", "IP address of the client whose message runs, as an int"),
    (".z.K", "version of kdb+ that is followed"),
    (".z.k", "release date of that version"),
    (".z.s", "the running function, for recursion"),
    (".Q.b6", "the 64 digits of base 64"),
    (".z.o", "operating system"),
    (".z.i", "process id"),
    (".z.x", "arguments of the script"),
    (".z.X", "the whole command line"),
    (".z.f", "the script as given on the command line"),
    (".z.q", "whether the process was started with -q"),
    (".z.r", "whether this evaluation may change nothing"),
    (".z.b", "views by the globals that they read"),
    (".z.e", "TLS cipher and protocol of the client's connection"),
    (".Q.x", "arguments of the script before the first option"),
    (".z.c", "number of processors"),
    (".z.W", "open handles, with the bytes that wait for each"),
    (".z.H", "open handles"),
    (".z.l", "fields of the licence; all empty, as none is needed"),
    (".z.h", "name of this machine"),
    (".Q.a", "lower-case letters"),
    (".Q.A", "upper-case letters"),
    (".Q.n", "digits"),
    (".Q.an", "letters, underscore and digits"),
    (".Q.nA", "digits and upper-case letters"),
    (".Q.t", "type letters, by type number"),
];

/// Names of a namespace's variables that never change, without the namespace. In kdb+ they are ordinary members of `.Q`, unlike those of `.z`.
pub(crate) fn constants(space: &[u8]) -> impl Iterator<Item = Sym> {
    let is_within = move |name: &str| space == b".Q" && name.as_bytes().strip_prefix(space).is_some();
    let names =
        VARIABLES.iter().filter(move |(name, _)| is_within(name)).filter_map(|(name, _)| name.rsplit('.').next());
    names.filter(|name| *name != "x").map(prims::name)
}

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
        b".Q.b6" => Value::chars(
            [&(b'A'..=b'Z').collect::<Vec<u8>>()[..], &(b'a'..=b'z').collect::<Vec<u8>>(), b"0123456789+/"].concat(),
        ),
        b".z.o" => Value::Sym(prims::name("l64")),
        b".z.i" => Value::Int(i32::try_from(std::process::id()).unwrap_or(0)),
        b".z.x" => context.host.arguments(),
        b".z.X" => context.host.command_line(),
        b".z.f" => Value::Sym(context.host.started_with()),
        b".z.q" => Value::Bool(context.host.is_quiet()),
        b".z.r" => Value::Bool(context.host.is_read_only()),
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
            let (handles, waiting) = (context.host.open_handles(), context.host.waiting_bytes());
            // kdb+ 4.0 lists the size of each message; only their sum is known here.
            let of = |handle: &i32| waiting.iter().find(|(own, bytes)| own == handle && *bytes > 0);
            let sizes = |handle| Value::longs(of(handle).map(|(_, bytes)| *bytes).into_iter().collect());
            let sizes = handles.iter().map(sizes).collect();
            Value::dict(Items::Int(handles.into()).into(), Value::list(sizes))
        }
        b".z.H" => Items::Int(context.host.open_handles().into()).into(),
        // kdb+ has nine strings here, and exporters of metrics index them (the expiry date is the second).
        b".z.l" => Value::list(vec![Value::chars(Vec::new()); 9]),
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::process::session::Session;
    use crate::runtime::limits::Limits;

    #[test]
    fn every_variable_is_listed_and_every_listed_one_exists() {
        let mut session = Session::new();
        let context = Context::new(&mut session, &Limits::default());
        for (name, _) in VARIABLES.iter().filter(|(name, _)| *name != ".z.s") {
            assert!(variable(&context, name.as_bytes()).is_some(), "{name}");
        }
        let arms = include_str!("system.rs").lines().filter_map(|line| line.trim().strip_prefix("b\"."));
        for arm in arms.filter_map(|rest| Some(rest.split_once("\" =>")?.0)) {
            assert!(VARIABLES.iter().any(|(name, _)| name.strip_prefix('.') == Some(arm)), ".{arm}");
        }
    }
}
