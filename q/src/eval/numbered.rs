//! Internal functions, called by number: `-3!x` and the like.

use crate::eval::internal;
use crate::io::{files, wire};
use crate::qsql::tree;
use crate::runtime::context::Context;
use crate::runtime::error::QError;
use crate::runtime::host::Made;
use crate::runtime::values::Result;
use crate::runtime::values::type_error;
use crate::syntax::{lex, prims};
use crate::verbs::above::Evaluate;
use crate::verbs::{address, attributes, codec, enums, format, json, strings};
use columns::sys::allocated;
use columns::sys::memory::Sources;
use columns::table::symbol::text;
use columns::table::{Items, Table, Value, Vector};
use std::sync::Arc;

/// `n!x` for a negative `n`.
pub(crate) fn call(context: &mut Context, n: i64, x: Value) -> Result {
    match n {
        i64::MIN => internal::print_through(context, x),
        -1 => match &x {
            // Loaders of scripts apply it to each line, and look for a blank before one that continues another.
            Value::Vector(Vector { items: Items::Char(line), .. }) => {
                let line = line.trim_ascii_end();
                let indent = line.iter().take_while(|c| matches!(c, b' ' | b'\t')).count();
                let (_, code) = line.split_at(indent);
                Ok(Value::chars([&vec![b' '; indent][..], code].concat()))
            }
            _ => strings::hsym(context, x),
        },
        -2 => attributes::attr(context, x),
        -3 => Ok(Value::chars(format::one_line_at(&x, context.host.console().precision)?)),
        -4 => pieces(&x),
        -5 => tree::parse(context, x),
        -6 => tree::eval(context, x),
        -7 => files::hcount(context, x),
        -8 => Ok(Items::Byte(wire::message(&x)?.into()).into()),
        -9 => {
            let value = deserialised(&x)?;
            context.host.makes_code(Made::Value(&value))?;
            Ok(value)
        }
        -10 => free_type(&x),
        -11 => files::replay(context, x),
        -12 => address::host(context, x),
        -13 => address::addr(context, x),
        -14 => quoted(context, &x),
        -15 => codec::md5(context, x),
        -16 => Ok(Value::Int(holders(&x))),
        -18 => compressed(&x),
        -19 => files::pack_file(context, &x),
        -20 => Ok(Value::Long(give_back())),
        -21 => files::compression(context, x),
        -22 => Ok(Value::Long(wire::message(&x)?.len() as i64)),
        -23 => Ok(x),
        -24 => tree::reval(context, x),
        -25 => broadcast(context, &x),
        -26 => crate::io::environment::tls(context),
        -27 => {
            let (decimals, number) = (x.at(0), x.at(1));
            if x.count() != 2 {
                return Err(QError::named("length"));
            }
            crate::verbs::map::map(context, &number, |c, item| codec::exactly(c, decimals.clone(), item))
        }
        -29 => json::from_json(context, x),
        -30 => crate::io::environment::deferred(context, &x),
        -31 => json::to_json(context, x),
        -32 => codec::btoa(context, x),
        -33 => codec::q_sha1(context, x),
        -34 => {
            let timed = context.global(prims::name(".Q.ts"))?;
            context.apply(&timed, x.items())
        }
        -35 => files::gz(context, x),
        -36 if matches!(x, Value::Null) => Ok(Value::Bool(false)),
        -36 => Err(QError::signal("Encryption lib unavailable")),
        -37 => crate::io::snapshot::of_process(context, &x),
        -38 => sockets(context, &x),
        // Values of `.m` lie in the memory of the others.
        -120 => Ok(Value::Long(0)),
        -105 => match x.count() {
            3 => super::trap::trpd(context, x.items()),
            _ => Err(QError::named("length")),
        },
        _ => Err(QError::named("nyi")),
    }
}

/// `-10!20h`: whether no enumeration has this type number; all enumerations have 20.
fn free_type(x: &Value) -> Result {
    let Value::Short(number) = x else { return Err(type_error()) };
    match *number {
        20 => Ok(Value::Bool(!enums::has_domains())),
        21..=76 => Ok(Value::Bool(true)),
        _ => Err(QError::named("domain")),
    }
}

/// `-38!x`: protocol and family of the sockets of handles.
fn sockets(context: &mut Context, x: &Value) -> Result {
    let mut kinds = [Vec::new(), Vec::new()];
    for handle in x.items() {
        let handle = handle.as_long().ok_or_else(type_error)?;
        let kind = i32::try_from(handle).ok().and_then(|handle| context.host.socket(handle)).unwrap_or(*b"  ");
        for (column, letter) in kinds.iter_mut().zip(kind) {
            column.push(letter);
        }
    }
    let names = vec![prims::name("p"), prims::name("f")];
    let table = Table::new(names, kinds.into_iter().map(|letters| Items::Char(letters.into()).into()).collect());
    let table = Value::table(table);
    Ok(if x.is_scalar() { table.at(0) } else { table })
}

/// `.Q.gc[]`: trims the allocator. Returns the bytes given back to the operating system; 0, without a trim, if the process
/// trimmed within the last second.
fn give_back() -> i64 {
    let sources = Sources::default();
    let before = sources.own_bytes();
    if !allocated::give_back() {
        return 0;
    }
    let bytes = before.unwrap_or(0).saturating_sub(sources.own_bytes().unwrap_or(0));
    i64::try_from(bytes).unwrap_or(i64::MAX)
}

/// Reference count of a value; 1 for an atom, which is copied.
fn holders(x: &Value) -> i32 {
    let count = match x {
        Value::Vector(v) => v.items.holders(),
        Value::Dict(d) => d.holders(),
        Value::Table(t) => Arc::strong_count(t),
        Value::Func(f) => f.holders(),
        _ => 0,
    };
    // The argument itself is a reference.
    i32::try_from(count.saturating_sub(1)).unwrap_or(i32::MAX).max(1)
}

/// Tokens of a text, including white space and comments.
fn pieces(x: &Value) -> Result {
    let source = x.as_text().ok_or_else(type_error)?;
    let mut out = Vec::new();
    let mut at = 0;
    for token in lex::pieces(source)? {
        push_blanks(source.get(at..token.start).unwrap_or_default(), &mut out);
        push_token(source.get(token.start..token.end).unwrap_or_default(), &mut out);
        at = token.end.max(at);
    }
    Ok(Value::list(out))
}

/// Appends a token. A list of numbers continues on the next line only if that line is indented; a line that is not begins a new statement.
fn push_token(token: &[u8], out: &mut Vec<Value>) {
    let is_number = token.first().is_some_and(|c| c.is_ascii_digit() || matches!(c, b'-' | b'.'));
    let statement = |at: &usize| matches!(token.get(*at..), Some([b'\n', c, ..]) if !c.is_ascii_whitespace());
    match (0..token.len()).find(statement).filter(|_| is_number) {
        Some(end) => {
            out.push(Value::chars(token.get(..end).unwrap_or_default().trim_ascii_end()));
            out.push(Value::chars(&b"\n"[..]));
            push_token(token.get(end + 1..).unwrap_or_default(), out);
        }
        None if token.is_empty() => {}
        None => out.push(Value::chars(token)),
    }
}

/// Appends the tokens of what separates others: each blank and line end is its own, a comment begins at the blank before it. Editors split
/// text into statements at the tokens that are one line end.
fn push_blanks(mut gap: &[u8], out: &mut Vec<Value>) {
    while !gap.is_empty() {
        // Only what begins a comment is searched for its end.
        let is_comment = gap.iter().take(2).any(|c| *c == b'/');
        let line = || gap.iter().skip(1).position(|c| *c == b'\n').map_or(gap.len(), |end| end + 1);
        let (token, rest) = gap.split_at(if is_comment { line() } else { 1 });
        out.push(Value::chars(token));
        gap = rest;
    }
}

/// `-25!(handles;message)`: sends a message to each handle asynchronously.
fn broadcast(context: &mut Context, x: &Value) -> Result {
    let (handles, message) = (x.at(0), x.at(1));
    if x.count() != 2 {
        return Err(QError::named("length"));
    }
    let mut all = Vec::new();
    for handle in handles.items() {
        let handle = handle.as_long().ok_or_else(type_error)?;
        // Nothing is sent if one of them is wrong.
        if !crate::io::environment::is_connection(context, handle) {
            return Err(QError::signal(format!("{handle} is not an ipc handle")));
        }
        all.push(handle);
    }
    for handle in all {
        crate::io::environment::send(context, -handle, message.clone())?;
    }
    Ok(Value::Null)
}

fn bytes(x: &Value) -> std::result::Result<&[u8], QError> {
    match x {
        Value::Vector(Vector { items: Items::Byte(b), .. }) => Ok(b),
        _ => Err(type_error()),
    }
}

fn deserialised(x: &Value) -> Result {
    let message = bytes(x)?;
    // The third byte of the header is the compression flag.
    if message.get(2) != Some(&1) {
        return wire::from_message(message);
    }
    let plain = proto::compress::decompress(message, &proto::Limits::default());
    wire::from_message(&plain.map_err(|e| QError::with("badmsg", e.to_string()))?)
}

fn compressed(x: &Value) -> Result {
    let message = wire::message(x)?;
    Ok(Items::Byte(proto::compress::compress(&message).unwrap_or(message).into()).into())
}

/// Quotes text as a CSV field if necessary, and doubles quotes in it.
fn quoted(context: &mut Context, x: &Value) -> Result {
    if let Value::Vector(Vector { items: Items::List(_), .. }) = x {
        return crate::verbs::map::map(context, x, |c, item| quoted(c, &item));
    }
    let source = match x {
        Value::Sym(s) => text(*s),
        other => other.as_text().ok_or_else(type_error)?,
    };
    if !source.iter().any(|c| matches!(c, b'"' | b',' | b'\n')) {
        return Ok(Value::chars(source));
    }
    let mut out = vec![b'"'];
    for c in source {
        if *c == b'"' {
            out.push(b'"');
        }
        out.push(*c);
    }
    out.push(b'"');
    Ok(Value::chars(out))
}
