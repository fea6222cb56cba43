//! The process around an evaluation: handles, environment, clock, memory.

use super::context::Context;
use super::error::QError;
use super::shape::{Result, type_error};
use super::time;
use super::{files, handles};
use columns::table::symbol::{self, text};
use columns::table::{Items, Sym, Value, Vector};
use std::collections::HashMap;
use std::sync::{LazyLock, PoisonError, RwLock};

/// `exit x`.
pub(super) fn exit(context: &mut Context, x: Value) -> Result {
    let code = x.as_long().and_then(|c| i32::try_from(c).ok()).ok_or_else(type_error)?;
    if context.host.caller().remote {
        return Err(QError::with("access", "exit is not allowed here"));
    }
    context.host.exit(code)?;
    Ok(Value::Null)
}

/// `hopen x`: of a file or process by symbol, text or port; with a time limit as the second item.
pub(super) fn hopen(context: &mut Context, x: Value) -> Result {
    let (target, timeout_ms) = match &x {
        Value::Vector(Vector { items: Items::List(l), .. }) => match &l[..] {
            [target, timeout] => (target.clone(), timeout.as_long().unwrap_or(0)),
            _ => return Err(QError::named("length")),
        },
        other => (other.clone(), 0),
    };
    let address = match &target {
        Value::Sym(s) => text(*s).to_vec(),
        Value::Long(_) | Value::Int(_) | Value::Short(_) => target.as_long().unwrap_or(0).to_string().into_bytes(),
        other => other.as_text().ok_or_else(type_error)?.to_vec(),
    };
    let process = handles::is_process(address.strip_prefix(b":").unwrap_or(&address));
    let caller = context.host.caller();
    if !context.host.reaches_files() || !(if process { caller.may_use_sockets() } else { caller.may_use_files() }) {
        return Err(QError::with("access", "handles are not opened here"));
    }
    if !process {
        files::path(context, &Value::chars(&address[..]))?;
    }
    Ok(Value::Int(context.host.open(&address, u64::try_from(timeout_ms).unwrap_or(0))?))
}

/// Whether a symbol is a process's address, or the `` `:: `` that takes one with a time limit.
pub(super) fn is_address(name: Sym) -> bool {
    let name = text(name);
    name.strip_prefix(b":").is_some_and(|address| address == b":" || handles::is_process(address))
}

/// `` `:host:port message `` and `` `::[(":host:port";timeout);message] ``: one question over a connection of its own.
pub(super) fn one_shot(context: &mut Context, address: Sym, mut arguments: Vec<Value>) -> Result {
    let target = match (text(address), arguments.len()) {
        (b"::", 2) => arguments.remove(0),
        (b"::", _) => return Err(QError::named("rank")),
        _ => Value::Sym(address),
    };
    let message = if arguments.len() == 1 { arguments.remove(0) } else { Value::collapse(arguments) };
    let handle = hopen(context, target)?;
    let answer = context.send(handle.as_long().unwrap_or(0), message);
    // It may be gone already.
    let _ = hclose(context, handle);
    answer
}

/// `hclose x`.
pub(super) fn hclose(context: &mut Context, x: Value) -> Result {
    if let Value::Vector(_) = x {
        return super::iterate::map(context, &x, hclose);
    }
    let caller = context.host.caller();
    if !context.host.reaches_files() || !(caller.may_use_sockets() || caller.may_use_files()) {
        return Err(QError::with("access", "handles are not opened here"));
    }
    let handle = x.as_long().and_then(|h| i32::try_from(h).ok()).ok_or_else(type_error)?;
    context.host.close(handle)?;
    Ok(Value::Null)
}

/// Refuses what is the operating system's where it is out of reach.
pub(super) fn check_system(context: &Context, what: &str) -> std::result::Result<(), QError> {
    match context.host.reaches_files() && context.host.caller().may_use_system() {
        true => Ok(()),
        false => Err(QError::with("access", what)),
    }
}

/// `-30!x`: puts the answer to the message that is being evaluated off, or gives one that was put off.
pub(super) fn deferred(context: &mut Context, x: &Value) -> Result {
    if matches!(x, Value::Null) {
        context.host.defer()?;
        return Ok(Value::Null);
    }
    if x.count() != 3 {
        return Err(QError::named("length"));
    }
    let handle = x.at(0).as_long().and_then(|h| i32::try_from(h).ok()).ok_or_else(type_error)?;
    let Value::Bool(failed) = x.at(1) else { return Err(type_error()) };
    let result = x.at(2);
    match (failed, &result) {
        (false, _) => context.host.respond(handle, Ok(&result))?,
        (true, Value::Sym(name)) => context.host.respond(handle, Err(text(*name)))?,
        (true, other) => context.host.respond(handle, Err(other.as_text().ok_or_else(type_error)?))?,
    }
    Ok(Value::Null)
}

/// `getenv x`: a variable of the environment, empty where there is none.
pub(super) fn getenv(context: &mut Context, x: Value) -> Result {
    use std::os::unix::ffi::OsStrExt;
    check_system(context, "the environment is not reachable from here")?;
    let Value::Sym(name) = x else { return Err(type_error()) };
    let name = std::ffi::OsStr::from_bytes(text(name));
    let value = ENVIRONMENT.read().unwrap_or_else(PoisonError::into_inner).get(name.as_bytes()).cloned();
    Ok(Value::chars(value.unwrap_or_else(|| std::env::var_os(name).unwrap_or_default().as_bytes().to_vec())))
}

/// What `setenv` has set: seen by `getenv`; the process's own environment stays as it is.
static ENVIRONMENT: LazyLock<RwLock<HashMap<Vec<u8>, Vec<u8>>>> = LazyLock::new(RwLock::default);

/// `x setenv y`.
pub(super) fn setenv(context: &mut Context, x: Value, y: Value) -> Result {
    check_system(context, "the environment is not reachable from here")?;
    let Value::Sym(name) = x else { return Err(type_error()) };
    let value = y.as_text().ok_or_else(type_error)?.to_vec();
    context.host.alters()?;
    ENVIRONMENT.write().unwrap_or_else(PoisonError::into_inner).insert(text(name).to_vec(), value);
    Ok(Value::Null)
}

/// The offset of the local clock, now.
fn offset_ns() -> i64 {
    time::now_local_ns().saturating_sub(time::now_utc_ns())
}

/// To the second: the two clocks are read one after the other.
fn offset() -> Value {
    const SECOND_NS: i64 = 1_000_000_000;
    let ns = offset_ns();
    Value::Timespan((ns + SECOND_NS / 2).div_euclid(SECOND_NS) * SECOND_NS)
}

fn shifted(context: &mut Context, x: &Value, op: super::arith::Op) -> Result {
    super::arith::atomic(context, op, x, &offset())
}

/// `ltime x`: UTC as local time.
pub(super) fn ltime(context: &mut Context, x: Value) -> Result {
    shifted(context, &x, super::arith::Op::Arithmetic(columns::kernel::zip::Arithmetic::Add))
}

/// `gtime x`: local time as UTC.
pub(super) fn gtime(context: &mut Context, x: Value) -> Result {
    shifted(context, &x, super::arith::Op::Arithmetic(columns::kernel::zip::Arithmetic::Subtract))
}

/// `.Q.w x`: memory by name.
pub(super) fn q_w(context: &mut Context, _: Value) -> Result {
    let used = columns::sys::allocated::thread_bytes().max(0);
    let limit = i64::try_from(context.allowance.limits().memory_bytes).unwrap_or(i64::MAX);
    let (symbols, bytes) = symbol::usage();
    let names = ["used", "heap", "peak", "wmax", "mmap", "mphy", "syms", "symw"].map(super::prims::name);
    let signed = |n: u64| i64::try_from(n).unwrap_or(i64::MAX);
    let values = vec![used, used, used, limit, 0, 0, signed(symbols), signed(bytes)];
    Ok(Value::dict(Value::symbols(Vec::<Sym>::from(names)), Value::longs(values)))
}
