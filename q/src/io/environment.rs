//! Verbs on the process around an evaluation: handles, environment variables, clock, memory.

use crate::io::{files, handles};
use crate::runtime::context::Context;
use crate::runtime::error::QError;
use crate::runtime::host::{Setting, is_limit};
use crate::runtime::paths::why_not;
use crate::runtime::time;
use crate::runtime::values::Result;
use crate::runtime::values::type_error;
use crate::verbs::map::map;
use crate::verbs::sort;
use columns::table::symbol::{self, text};
use columns::table::{Items, Sym, Value, Vector};
use std::collections::HashMap;
use std::sync::{LazyLock, PoisonError, RwLock};
use std::time::{Duration, Instant};

/// `exit x`: ends the process with exit code `x`.
pub(crate) fn exit(context: &mut Context, x: Value) -> Result {
    let code = x.as_long().and_then(|c| i32::try_from(c).ok()).ok_or_else(type_error)?;
    if context.host.caller().remote {
        return Err(QError::with("access", "exit is not allowed here"));
    }
    context.host.exit(code)?;
    Ok(Value::Null)
}

/// `<x` in k: `hopen` of a symbol or of `(symbol;timeout)`, `iasc` of anything else.
pub(crate) fn iasc_or_hopen(context: &mut Context, x: Value) -> Result {
    let is_address = match &x {
        Value::Sym(_) => true,
        Value::Vector(Vector { items: Items::List(list), .. }) => {
            matches!(list[..], [Value::Sym(_), Value::Long(_) | Value::Int(_) | Value::Short(_)])
        }
        _ => false,
    };
    if is_address { hopen(context, x) } else { sort::iasc(context, x) }
}

/// `>x` in k: `hclose` of a handle, `idesc` of anything else.
pub(crate) fn idesc_or_hclose(context: &mut Context, x: Value) -> Result {
    if matches!(x, Value::Long(_) | Value::Int(_)) { hclose(context, x) } else { sort::idesc(context, x) }
}

/// Default connection timeout.
const CONNECT_MS: u64 = 10_000;

/// `hopen x`: opens a file or process given as symbol, text or port; `(target;timeout)` adds a timeout in milliseconds.
pub(crate) fn hopen(context: &mut Context, x: Value) -> Result {
    let (target, timeout_ms) = match &x {
        Value::Vector(Vector { items: Items::List(l), .. }) => match &l[..] {
            [target, timeout] => (target.clone(), timeout.as_long().unwrap_or(0)),
            _ => return Err(QError::named("length")),
        },
        other => (other.clone(), 0),
    };
    let address = match &target {
        Value::Sym(s) => text(*s).to_vec(),
        // A number is a port, never a file: `hopen"I"$first opts`port` has a null where the option is missing.
        Value::Long(_) | Value::Int(_) | Value::Short(_) => match target.as_long() {
            Some(port @ 1..=65535) => port.to_string().into_bytes(),
            _ => return Err(QError::with("hop", "a number is a port on localhost, 1 to 65535")),
        },
        other => other.as_text().ok_or_else(type_error)?.to_vec(),
    };
    let process = handles::is_process(address.strip_prefix(b":").unwrap_or(&address));
    let caller = context.host.caller();
    if !context.host.reaches_files() || !(if process { caller.may_use_sockets() } else { caller.may_use_files() }) {
        let (what, grant) = if process { ("new connections", "sockets") } else { ("files", "files") };
        return Err(QError::with("access", why_not(context, what, grant)));
    }
    if let Some(path) = super::pipe::path_of(&address) {
        files::path(context, &Value::chars(path))?;
    } else if !process {
        let path = files::path(context, &Value::chars(&address[..]))?;
        files::reach::check_change(context, &path)?;
    }
    let mut timeout_ms = u64::try_from(timeout_ms).unwrap_or(0);
    if let Some(by) = context.allowance.limits().deadline {
        // 0 is the default timeout. A deadline in the past ends the evaluation at its next check.
        let left_ms =
            u64::try_from(by.saturating_duration_since(Instant::now()).as_millis()).unwrap_or(u64::MAX).max(1);
        timeout_ms = if timeout_ms == 0 { left_ms.min(CONNECT_MS) } else { timeout_ms.min(left_ms) };
    }
    Ok(Value::Int(context.host.open(&address, timeout_ms)?))
}

/// Whether a symbol is a process address, or the `` `:: `` form, which takes address and timeout as an argument.
pub(crate) fn is_address(name: Sym) -> bool {
    let name = text(name);
    name.strip_prefix(b":").is_some_and(|address| address == b":" || handles::is_process(address))
}

/// `` `:host:port message `` and `` `::[(":host:port";timeout);message] ``: one request on a connection opened for it alone. The request
/// to a `ws://` address opens a WebSocket: the result is its handle, null if the server does not agree, and the response.
pub(crate) fn one_shot(context: &mut Context, address: Sym, mut arguments: Vec<Value>) -> Result {
    let target = match (text(address), arguments.len()) {
        (b"::", 2) => arguments.remove(0),
        (b"::", _) => return Err(QError::named("rank")),
        _ => Value::Sym(address),
    };
    let message = if arguments.len() == 1 { arguments.remove(0) } else { Value::collapse(arguments) };
    let address = target.as_text().unwrap_or_else(|| text(address));
    let is_websocket = handles::is_websocket(address.strip_prefix(b":").unwrap_or(address));
    let handle = hopen(context, target)?;
    let answer = send(context, handle.as_long().unwrap_or(0), message);
    let is_open = is_websocket && answer.as_ref().is_ok_and(is_upgrade);
    if !is_open {
        // The message itself may have closed the handle.
        let _ = hclose(context, handle.clone());
    }
    match answer {
        Ok(response) if is_websocket => {
            Ok(Value::list(vec![if is_open { handle } else { Value::Int(i32::MIN) }, response]))
        }
        answer => answer,
    }
}

/// The end of a query that begins now: `\T`.
fn query_deadline(context: &Context) -> Option<Instant> {
    let seconds = u64::try_from(context.host.setting(Setting::QueryTime)).ok().filter(|seconds| *seconds > 0)?;
    Instant::now().checked_add(Duration::from_secs(seconds))
}

/// Whether a response is the head of an upgraded connection.
fn is_upgrade(response: &Value) -> bool {
    response.as_text().is_some_and(|text| text.split(|byte| *byte == b' ').nth(1) == Some(b"101"))
}

/// `hclose x`: closes a handle.
pub(crate) fn hclose(context: &mut Context, x: Value) -> Result {
    if let Value::Vector(_) = x {
        return crate::verbs::map::map(context, &x, hclose);
    }
    let caller = context.host.caller();
    if !context.host.reaches_files() || !(caller.may_use_sockets() || caller.may_use_files()) {
        return Err(QError::with("access", why_not(context, "handles", "sockets")));
    }
    let handle = x.as_long().and_then(|h| i32::try_from(h).ok()).ok_or_else(type_error)?;
    context.host.close(handle)?;
    Ok(Value::Null)
}

/// Rejects operating-system access (`access`) where the host or the caller has no right to it.
pub(crate) fn check_system(context: &Context, what: &str) -> std::result::Result<(), QError> {
    match context.host.reaches_files() && context.host.caller().may_use_system() {
        true => Ok(()),
        false => Err(QError::with("access", why_not(context, what, "system"))),
    }
}

/// `-30!x`: `-30!(::)` defers the response to the current message, `-30!(handle;failed;result)` sends a deferred one.
pub(crate) fn deferred(context: &mut Context, x: &Value) -> Result {
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

/// A dictionary of names to texts, both as symbols.
pub(crate) fn named(entries: &[(&str, String)]) -> Result {
    let symbol = |text: &str| symbol::intern_name(text.as_bytes()).map_err(|_| QError::named("limit"));
    let names = entries.iter().map(|(name, _)| symbol(name)).collect::<std::result::Result<Vec<_>, _>>()?;
    let values = entries.iter().map(|(_, value)| symbol(value)).collect::<std::result::Result<Vec<_>, _>>()?;
    Ok(Value::dict(Value::symbols(names), Value::symbols(values)))
}

/// `(-26!)[]`: the TLS settings of the process.
pub(crate) fn tls(context: &Context) -> Result {
    named(&context.host.tls_settings())
}

/// `getenv x`: returns an environment variable, empty if unset. Callers without a right to the system see an empty environment:
/// editors read optional settings of their own in every query that they send.
pub(crate) fn getenv(context: &mut Context, x: Value) -> Result {
    let name = match x {
        Value::Sym(name) => name,
        Value::Vector(_) => return map(context, &x, getenv),
        _ => return Err(type_error()),
    };
    let is_visible = check_system(context, "environment variables").is_ok();
    Ok(Value::chars(if is_visible { variable(text(name)) } else { Vec::new() }))
}

/// An environment variable, empty if it is not set; the caller's right to read it is checked before.
pub(crate) fn variable(name: &[u8]) -> Vec<u8> {
    use std::os::unix::ffi::OsStrExt;
    let value = ENVIRONMENT.read().unwrap_or_else(PoisonError::into_inner).get(name).cloned();
    let of_process = || std::env::var_os(std::ffi::OsStr::from_bytes(name)).unwrap_or_default().as_bytes().to_vec();
    value.unwrap_or_else(of_process)
}

/// Variables set by `setenv`, visible to `getenv` and to commands of `system`: the environment of the process itself never changes.
static ENVIRONMENT: LazyLock<RwLock<HashMap<Vec<u8>, Vec<u8>>>> = LazyLock::new(RwLock::default);

/// Sets the variables of `setenv` for a command.
pub(crate) fn pass_on(command: &mut std::process::Command) {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt;
    for (name, value) in ENVIRONMENT.read().unwrap_or_else(PoisonError::into_inner).iter() {
        // A name or value that the system cannot hold would make the command fail.
        let is_valid = !name.is_empty() && !name.contains(&b'=') && ![name, value].iter().any(|part| part.contains(&0));
        if is_valid {
            command.env(OsStr::from_bytes(name), OsStr::from_bytes(value));
        }
    }
}

/// `x setenv y`: sets variable `x` to text `y`.
pub(crate) fn setenv(context: &mut Context, x: Value, y: Value) -> Result {
    check_system(context, "environment variables")?;
    let Value::Sym(name) = x else { return Err(type_error()) };
    let value = y.as_text().ok_or_else(type_error)?.to_vec();
    context.host.alters()?;
    ENVIRONMENT.write().unwrap_or_else(PoisonError::into_inner).insert(text(name).to_vec(), value);
    Ok(Value::Null)
}

/// Current offset of local time from UTC, in nanoseconds.
fn offset_ns() -> i64 {
    time::now_local_ns().saturating_sub(time::now_utc_ns())
}

/// The offset rounded to a second, because the two clocks are read one after the other.
fn offset() -> Value {
    const SECOND_NS: i64 = 1_000_000_000;
    let ns = offset_ns();
    Value::Timespan((ns + SECOND_NS / 2).div_euclid(SECOND_NS) * SECOND_NS)
}

fn shifted(context: &mut Context, x: &Value, op: crate::runtime::op::Op) -> Result {
    crate::verbs::arith::atomic(context, op, x, &offset())
}

/// `ltime x`: converts UTC to local time.
pub(crate) fn ltime(context: &mut Context, x: Value) -> Result {
    shifted(context, &x, crate::runtime::op::Op::Arithmetic(columns::kernel::zip::Arithmetic::Add))
}

/// `gtime x`: converts local time to UTC.
pub(crate) fn gtime(context: &mut Context, x: Value) -> Result {
    shifted(context, &x, crate::runtime::op::Op::Arithmetic(columns::kernel::zip::Arithmetic::Subtract))
}

/// `.Q.w x`: memory statistics by name: those of `\w` and `\w 0`.
pub(crate) fn q_w(context: &mut Context, _: Value) -> Result {
    let [used, peak] = context.host.used_bytes();
    let limit = context.host.setting(Setting::Workspace);
    let physical = i64::try_from(columns::sys::memory::Sources::default().memory().map_or(0, |m| m.total_bytes));
    let physical = physical.unwrap_or(i64::MAX);
    let usage = symbol::usage();
    let (symbols, bytes) = (usage.symbols, usage.bytes());
    let names = ["used", "heap", "peak", "wmax", "mmap", "mphy", "syms", "symw"].map(crate::syntax::prims::name);
    let signed = |n: u64| i64::try_from(n).unwrap_or(i64::MAX);
    let values = vec![used, used, peak, limit, 0, physical, signed(symbols), signed(bytes)];
    Ok(Value::dict(Value::symbols(Vec::<Sym>::from(names)), Value::longs(values)))
}

/// Whether a handle is a connection to another process. A remote caller may relay a message to a process, never to a file.
fn is_open(context: &Context, handle: i64) -> bool {
    context.host.open_handles().into_iter().any(|open| i64::from(open).unsigned_abs() == handle.unsigned_abs())
}

/// Whether a handle is a connection to another process, or the caller's own.
pub(crate) fn is_connection(context: &Context, handle: i64) -> bool {
    handle > 0 && (handle == i64::from(context.host.caller().handle) || is_open(context, handle))
}

/// A caller may send to its own connection and to handles it opened; the grant `relay` adds the connections of the process, the grant
/// `sockets` any handle. The owner may send to any.
pub(crate) fn may_send(context: &Context, handle: i64) -> bool {
    let caller = context.host.caller();
    caller.may_use_sockets()
        || handle.saturating_abs() == i64::from(caller.handle)
        || context.host.owns(handle)
        || (caller.grants.relay && is_open(context, handle))
}

/// Sends a message to a handle: 0 is this process, 1 and 2 its stdout and stderr (negative adds a newline).
pub(crate) fn send(context: &mut Context, handle: i64, message: Value) -> Result {
    match handle {
        0 => {
            let Some(by) = query_deadline(context) else { return super::own_messages::evaluate(context, message) };
            context.until(by, |context| super::own_messages::evaluate(context, message)).map_err(|mut error| {
                // The sender may trap the end of this message, unless the evaluation around it has ended as well.
                if is_limit(&error) && &error.name[..] == b"stop" && context.check().is_ok() {
                    error.name = error.name.into_owned().into();
                }
                error
            })
        }
        1 | 2 => {
            let text = message.as_text().ok_or(QError::named("type"))?;
            if handle == 1 {
                context.host.print(text)?;
            } else {
                context.host.print_error(text)?;
            }
            Ok(Value::Long(handle))
        }
        -1 | -2 => {
            let mut text = match message.as_text() {
                Some(text) => text.to_vec(),
                None => {
                    let mut all = Vec::new();
                    for line in message.items() {
                        all.extend_from_slice(line.as_text().ok_or(QError::named("type"))?);
                        all.push(b'\n');
                    }
                    all.pop();
                    all
                }
            };
            text.push(b'\n');
            if handle == -1 {
                context.host.print(&text)?;
            } else {
                context.host.print_error(&text)?;
            }
            Ok(Value::Long(handle))
        }
        // A number that is no handle cannot be read from, like any other atom; nor can a handle of another, which looks the same.
        _ if matches!(message, Value::Null)
            && handle > 0
            && !(may_send(context, handle) && is_connection(context, handle)) =>
        {
            Err(QError::named("type"))
        }
        _ if !may_send(context, handle) => {
            Err(QError::with("access", why_not(context, "handles that the client has not opened", "sockets")))
        }
        _ => context.host.send(handle, &message),
    }
}
