//! Strings: patterns, search, split and join, trim.

use crate::runtime::context::Context;
use crate::runtime::error::QError;
use crate::runtime::limits;
use crate::runtime::values::Result;
use crate::runtime::values::type_error;
use crate::verbs::map::map;
use crate::verbs::{bases, cast, shape};
use columns::kernel::blocks;
use columns::kernel::num::Num;
use columns::sys::budget;
use columns::table::symbol::{intern, text};
use columns::table::{Items, Raw, Table, Value, Vector};

/// An element of a `like` pattern.
pub(super) enum Piece {
    Char(u8),
    Any,
    Many,
    Class { negated: bool, ranges: Vec<(u8, u8)> },
}

pub(super) fn pattern(bytes: &[u8]) -> Vec<Piece> {
    let mut out = Vec::new();
    let mut rest = bytes;
    // False once no closing bracket is left, so that later open brackets are not searched again (quadratic time).
    let mut closes = true;
    while let Some((c, after)) = rest.split_first() {
        if out.len() % STEPS == STEPS - 1 && budget::spend(STEPS) {
            break;
        }
        rest = after;
        out.push(match c {
            b'?' => Piece::Any,
            b'*' => Piece::Many,
            b'[' if closes => {
                let negated = rest.first() == Some(&b'^');
                let body = if negated { rest.get(1..).unwrap_or_default() } else { rest };
                // A closing bracket in first position is a member of the set.
                let Some(end) = body.iter().skip(1).position(|c| *c == b']').map(|p| p + 1) else {
                    closes = false;
                    out.push(Piece::Char(b'['));
                    continue;
                };
                let members = body.get(..end).unwrap_or_default();
                rest = body.get(end + 1..).unwrap_or_default();
                let mut ranges = Vec::new();
                let mut i = 0;
                while let Some(from) = members.get(i) {
                    match (members.get(i + 1), members.get(i + 2)) {
                        (Some(b'-'), Some(to)) => {
                            ranges.push((*from, *to));
                            i += 3;
                        }
                        _ => {
                            ranges.push((*from, *from));
                            i += 1;
                        }
                    }
                }
                Piece::Class { negated, ranges }
            }
            c => Piece::Char(*c),
        });
    }
    out
}

fn fits(piece: &Piece, c: u8) -> bool {
    match piece {
        Piece::Char(p) => *p == c,
        Piece::Any | Piece::Many => true,
        Piece::Class { negated, ranges } => ranges.iter().any(|(a, b)| (*a..=*b).contains(&c)) != *negated,
    }
}

/// Whether all of `subject` matches. On a mismatch it suffices to backtrack to the last star.
///
/// False past a limit: a pattern of many pieces after a star takes as many steps for each byte.
fn matches(pieces: &[Piece], subject: &[u8]) -> bool {
    let (mut p, mut s) = (0, 0);
    let mut star: Option<(usize, usize)> = None;
    let mut steps = 0usize;
    loop {
        steps += 1;
        if steps.is_multiple_of(STEPS) && budget::spend(STEPS) {
            return false;
        }
        match (pieces.get(p), subject.get(s)) {
            (Some(Piece::Many), _) => {
                star = Some((p + 1, s));
                p += 1;
            }
            (Some(piece), Some(c)) if fits(piece, *c) => {
                p += 1;
                s += 1;
            }
            (None, None) => return true,
            _ => match star {
                Some((after, from)) if from < subject.len() => {
                    star = Some((after, from + 1));
                    p = after;
                    s = from + 1;
                }
                _ => return false,
            },
        }
    }
}

/// Comparisons of one match between two checks of the limits.
const STEPS: usize = 1 << 12;

/// Patterns that kdb+ rejects: a star at the start and another one before the end.
fn is_too_hard(pieces: &[Piece]) -> bool {
    let [Piece::Many, rest @ ..] = pieces else { return false };
    let inner = match rest {
        [inner @ .., Piece::Many] if !inner.is_empty() => inner,
        all => all,
    };
    inner.iter().any(|p| matches!(p, Piece::Many))
}

/// `x like y`.
pub(crate) fn like(context: &mut Context, x: Value, y: Value) -> Result {
    let pieces = pattern(y.as_text().ok_or_else(type_error)?);
    if is_too_hard(&pieces) {
        return Err(QError::named("nyi"));
    }
    like_pieces(context, &x, &pieces)
}

fn like_pieces(context: &mut Context, x: &Value, pieces: &[Piece]) -> Result {
    context.enter()?;
    match x {
        Value::Sym(s) => Ok(Value::Bool(matches(pieces, text(*s)))),
        Value::Vector(Vector { items: Items::Sym(v), .. }) => {
            Ok(Value::bools(blocks::map(v, |s| u8::from(matches(pieces, text(*s))))))
        }
        Value::Char(_) | Value::Vector(Vector { items: Items::Char(_), .. }) => {
            Ok(Value::Bool(matches(pieces, x.as_text().unwrap_or_default())))
        }
        Value::Vector(Vector { items: Items::List(l), .. }) if l.is_empty() => Ok(Value::bools(Vec::new())),
        Value::Vector(Vector { items: Items::List(l), .. })
            if l.iter().all(|v| matches!(v, Value::Sym(_)) || v.as_text().is_some()) =>
        {
            map(context, x, |c, item| like_pieces(c, &item, pieces))
        }
        Value::Dict(_) => map(context, x, |c, item| like_pieces(c, &item, pieces)),
        _ => Err(type_error()),
    }
}

/// Whether a pattern without stars matches at the start of `subject`.
fn fits_here(pieces: &[Piece], subject: &[u8]) -> bool {
    pieces.len() <= subject.len() && pieces.iter().zip(subject).all(|(p, c)| fits(p, *c))
}

/// Bytes compared between two checks of the limits.
const COMPARED: usize = 1 << 16;

pub(super) fn occurrences(
    context: &Context,
    subject: &[u8],
    pieces: &[Piece],
) -> std::result::Result<Vec<usize>, QError> {
    let mut out = Vec::new();
    let mut at = 0;
    let mut compared = 0usize;
    while at < subject.len() && !pieces.is_empty() {
        compared += pieces.len();
        if compared > COMPARED {
            context.check()?;
            compared = 0;
        }
        if fits_here(pieces, subject.get(at..).unwrap_or_default()) {
            if out.len() == out.capacity() {
                context.reserve_items(out.len(), 2 * size_of::<usize>())?;
            }
            out.push(at);
            at += pieces.len();
        } else {
            at += 1;
        }
    }
    Ok(out)
}

fn trimmed(context: &mut Context, x: &Value, left: bool, right: bool) -> Result {
    context.enter()?;
    match x {
        Value::Vector(Vector { items: Items::Char(v), .. }) => {
            let blank = |block: &&[u8]| !budget::spend(block.len()) && block.iter().all(|c| *c == b' ');
            let (mut start, mut end) = (0, v.len());
            if left {
                start = v.chunks(STEPS).take_while(blank).map(<[u8]>::len).sum();
                start += v.get(start..).and_then(|rest| rest.iter().position(|c| *c != b' ')).unwrap_or(0);
            }
            if right {
                end -= v.rchunks(STEPS).take_while(blank).map(<[u8]>::len).sum::<usize>();
                end = v.get(..end).and_then(|rest| rest.iter().rposition(|c| *c != b' ')).map_or(end, |at| at + 1);
            }
            Ok(x.cut(start, end.max(start)))
        }
        Value::Vector(Vector { items: Items::List(_), .. }) => {
            map(context, x, |c, item| trimmed(c, &item, left, right))
        }
        Value::Dict(d) => match d.keyed() {
            Some(_) => Ok(Value::dict(d.keys.clone(), trimmed(context, &d.values, left, right)?)),
            None => map(context, x, |c, item| trimmed(c, &item, left, right)),
        },
        // By row: a column that is not a list of lists stays as it is.
        Value::Table(t) => {
            let mut t = Table::clone(t);
            for column in t.columns.iter_mut().filter(|c| matches!(c.items, Items::List(_))) {
                let trimmed = trimmed(context, &column.clone().into(), left, right)?;
                *column = trimmed.into_vector().ok_or_else(type_error)?;
            }
            Ok(Value::table(t))
        }
        Value::Vector(v) => {
            let nulls = crate::verbs::monads::null(context, x.clone())?;
            let Value::Vector(Vector { items: Items::Bool(nulls), .. }) = nulls else { return Err(type_error()) };
            let start = if left { nulls.iter().position(|n| *n == 0).unwrap_or(v.len()) } else { 0 };
            let end = if right { nulls.iter().rposition(|n| *n == 0).map_or(0, |at| at + 1) } else { v.len() };
            Ok(x.cut(start, end.max(start)))
        }
        Value::Null | Value::Func(_) => Err(type_error()),
        atom => Ok(atom.clone()),
    }
}

pub(crate) fn trim(context: &mut Context, x: Value) -> Result {
    trimmed(context, &x, true, true)
}

pub(crate) fn ltrim(context: &mut Context, x: Value) -> Result {
    trimmed(context, &x, true, false)
}

pub(crate) fn rtrim(context: &mut Context, x: Value) -> Result {
    trimmed(context, &x, false, true)
}

fn split<'a>(subject: &'a [u8], by: &[u8]) -> Vec<&'a [u8]> {
    let mut out = Vec::new();
    let (mut from, mut at) = (0, 0);
    let mut steps = 0usize;
    while !by.is_empty() && at + by.len() <= subject.len() {
        steps += 1;
        if steps.is_multiple_of(STEPS) && budget::spend(STEPS) {
            break;
        }
        if subject.get(at..at + by.len()) == Some(by) {
            out.push(subject.get(from..at).unwrap_or_default());
            at += by.len();
            from = at;
        } else {
            at += 1;
        }
    }
    out.push(subject.get(from..).unwrap_or_default());
    out
}

/// Checks the memory limit for the pieces of a text: per piece a slice, a value, a vector and its bytes.
fn room_to_split(subject: &[u8], by: &[u8]) -> std::result::Result<(), QError> {
    limits::check()?;
    let pieces = by
        .first()
        .map_or(0, |first| blocks::fold(subject, 0usize, |count, c| count + usize::from(c == first)))
        .saturating_add(1);
    let each = 2 * size_of::<&[u8]>() + size_of::<Value>() + size_of::<Vec<u8>>() + 2 * size_of::<usize>();
    limits::room(pieces.saturating_mul(each).saturating_add(subject.len()))
}

/// A list of one value for each piece, within the limits.
fn all_pieces(pieces: Vec<&[u8]>, value: impl Fn(&[u8]) -> Value) -> Result {
    let mut out = limits::list(pieces.len())?;
    for piece in pieces {
        limits::pace()?;
        out.push(value(piece));
    }
    Ok(Value::list(out))
}

/// `x vs y`: splits text at a separator, a symbol at its dots, a number into digits of a base, or into bytes or bits.
pub(crate) fn vs(context: &mut Context, x: Value, y: Value) -> Result {
    context.enter()?;
    // Bytes are split like text.
    if let Value::Vector(Vector { items: Items::Byte(b), .. }) = &y
        && (matches!(x, Value::Sym(_)) || x.as_text().is_some())
    {
        return vs(context, x, Value::chars(b.to_vec()));
    }
    if let (
        Value::Byte(_) | Value::Vector(Vector { items: Items::Byte(_), .. }),
        Value::Vector(Vector { items: Items::Byte(b), .. }),
    ) = (&x, &y)
    {
        let by = match &x {
            Value::Byte(one) => vec![*one],
            Value::Vector(v) => match v.items.raw() {
                Raw::U8(many) => many.to_vec(),
                _ => return Err(type_error()),
            },
            _ => return Err(type_error()),
        };
        room_to_split(b, &by)?;
        let bytes = |piece: &[u8]| Items::Byte(piece.to_vec().into()).into();
        return all_pieces(split(b, &by), bytes);
    }
    if let Value::Vector(Vector { items: Items::List(l), .. }) = &y
        && !l.is_empty()
    {
        let numbers =
            !matches!(x, Value::Sym(_) | Value::Char(_) | Value::Vector(Vector { items: Items::Char(_), .. }));
        if numbers && l.iter().any(Value::is_atom) && l.iter().any(|v| matches!(v, Value::Vector(_))) {
            let flat = crate::verbs::shape::raze(context, y.clone())?;
            return vs(context, x, flat);
        }
        return map(context, &y, |c, item| vs(c, x.clone(), item));
    }
    match (&x, &y) {
        (Value::Sym(s), Value::Sym(y)) if s.is_null() => {
            let whole = text(*y);
            let parts: Vec<&[u8]> = if whole.first() == Some(&b':') {
                match whole.iter().rposition(|c| *c == b'/') {
                    Some(at) => vec![whole.get(..at).unwrap_or_default(), whole.get(at + 1..).unwrap_or_default()],
                    // A file in the working directory.
                    None => vec![b":.", whole.get(1..).unwrap_or_default()],
                }
            } else {
                split(whole, b".")
            };
            let names: std::result::Result<Vec<_>, _> = parts.iter().map(|p| intern(p)).collect();
            Ok(Value::symbols(names.map_err(QError::from)?))
        }
        (Value::Sym(s), _) if s.is_null() && y.as_text().is_some() => {
            let lines = y.as_text().unwrap_or_default();
            let lines = lines.strip_suffix(b"\n").unwrap_or(lines);
            room_to_split(lines, b"\n")?;
            all_pieces(split(lines, b"\n"), |line| Value::chars(line.strip_suffix(b"\r").unwrap_or(line)))
        }
        _ if x.as_text().is_some() && y.as_text().is_some() => {
            let (whole, by) = (y.as_text().unwrap_or_default(), x.as_text().unwrap_or_default());
            room_to_split(whole, by)?;
            all_pieces(split(whole, by), |piece| Value::chars(piece))
        }
        (Value::Byte(0), _) => bases::bytes_of(&y),
        (Value::Bool(false), _) => {
            let bytes = bases::bytes_of(&y)?;
            let Value::Vector(Vector { items: Items::Byte(b), .. }) = bytes else { return Err(type_error()) };
            Ok(Value::bools(b.iter().flat_map(|b| (0..8).rev().map(move |i| b >> i & 1)).collect()))
        }
        (Value::Byte(base @ 2..), Value::Long(n)) => Ok(bases::digit_bytes(*base, *n)),
        _ => bases::digits(context, &x, &y),
    }
}

/// A byte or byte vector between byte vectors, as text between strings; `None` for other arguments.
fn joined_bytes(context: &Context, x: &Value, y: &Value) -> std::result::Result<Option<Value>, QError> {
    let by: &[u8] = match x {
        Value::Byte(by) => std::slice::from_ref(by),
        Value::Vector(Vector { items: Items::Byte(by), .. }) => by,
        _ => return Ok(None),
    };
    let Value::Vector(Vector { items: Items::List(pieces), .. }) = y else { return Ok(None) };
    let bytes = |piece| match piece {
        &Value::Vector(Vector { items: Items::Byte(ref bytes), .. }) => Some(&bytes[..]),
        Value::Byte(one) => Some(std::slice::from_ref(one)),
        _ => None,
    };
    let Some(pieces) = pieces.iter().map(bytes).collect::<Option<Vec<&[u8]>>>().filter(|all| !all.is_empty()) else {
        return Ok(None);
    };
    let size = pieces.iter().map(|piece| piece.len().saturating_add(by.len())).fold(0, usize::saturating_add);
    context.reserve(size.saturating_mul(2))?;
    Ok(Some(Items::Byte(pieces.join(by).into()).into()))
}

/// `x sv y`: the inverse of `vs`.
pub(crate) fn sv(context: &mut Context, x: Value, y: Value) -> Result {
    if let Some(joined) = joined_bytes(context, &x, &y)? {
        return Ok(joined);
    }
    match (&x, &y) {
        (Value::Sym(s), _) if s.is_null() && y.as_symbols().is_some() => {
            let names: Vec<&[u8]> = y.as_symbols().unwrap_or_default().iter().map(|s| text(*s)).collect();
            let by: &[u8] = if names.first().is_some_and(|n| n.first() == Some(&b':')) { b"/" } else { b"." };
            Ok(Value::Sym(intern(&names.join(by)).map_err(QError::from)?))
        }
        (Value::Sym(s), Value::Vector(_)) if s.is_null() => {
            let mut out = Vec::new();
            for line in limits::items(&y)? {
                out.extend_from_slice(line.as_text().ok_or_else(type_error)?);
                out.push(b'\n');
            }
            Ok(Value::chars(out))
        }
        _ if x.as_text().is_some() && matches!(y, Value::Vector(_)) => {
            let by = x.as_text().unwrap_or_default();
            // An item that is itself a list of chars and strings is razed first.
            let mut flat = |part: Value| if part.as_text().is_some() { Ok(part) } else { shape::raze(context, part) };
            let held =
                limits::items(&y)?.into_iter().map(&mut flat).collect::<std::result::Result<Vec<_>, QError>>()?;
            let parts = held.iter().map(|part| part.count().saturating_add(by.len())).fold(0, usize::saturating_add);
            context.reserve(parts)?;
            let mut out = Vec::new();
            for (i, part) in held.iter().enumerate() {
                limits::pace()?;
                if i > 0 {
                    out.extend_from_slice(by);
                }
                out.extend_from_slice(part.as_text().ok_or_else(type_error)?);
            }
            Ok(Value::chars(out))
        }
        (Value::Byte(0), Value::Vector(v)) => from_bytes(&v.items),
        // Between bytes, as a char between strings.
        (Value::Byte(by), Value::Vector(Vector { items: Items::Byte(bytes), .. })) => {
            context.reserve(bytes.len().saturating_mul(2))?;
            let mut out = Vec::with_capacity(bytes.len().saturating_mul(2));
            for (at, byte) in bytes.iter().enumerate() {
                limits::pace()?;
                out.extend((at > 0).then_some(*by));
                out.push(*byte);
            }
            Ok(Items::Byte(out.into()).into())
        }
        (Value::Bool(false), Value::Vector(v)) => {
            let Items::Bool(bits) = &v.items else { return Err(type_error()) };
            let bytes: Vec<u8> = blocks::numbers(0..bits.len().div_ceil(8), |i| {
                let bits = bits.get(i * 8..(i * 8 + 8).min(bits.len())).unwrap_or_default();
                bits.iter().fold(0, |all, b| all << 1 | b)
            });
            from_bytes(&Items::Byte(bytes.into()))
        }
        (_, Value::Vector(v)) => {
            if let Items::List(_) = v.items {
                let columns = crate::verbs::rows::flip_list(y.clone())?;
                return map(context, &columns, |c, item| sv(c, x.clone(), item));
            }
            let bases: Vec<f64> = match &x {
                Value::Vector(b) => crate::verbs::convert::floats(&b.items)?,
                base => vec![base.as_float().ok_or_else(type_error)?; v.len()],
            };
            if bases.len() != v.len() {
                return Err(QError::named("length"));
            }
            if matches!(v.items, Items::Float(_) | Items::Real(_)) || matches!(x, Value::Float(_)) {
                let digits = crate::verbs::convert::floats(&v.items)?;
                let pairs: Vec<(f64, f64)> = blocks::both(&bases, &digits, |base, digit| (*base, *digit));
                return Ok(Value::Float(blocks::fold(&pairs, 0.0, |all, (base, digit)| all * base + digit)));
            }
            let digits = crate::verbs::arith::longs(&v.items, 7)?;
            let pairs: Vec<(i64, i64)> = blocks::both(&bases, &digits, |base, digit| (*base as i64, *digit));
            // A null digit makes the number null, however much is added to it.
            let next = |all: i64, (base, digit): &(i64, i64)| match all.is_null() {
                true => all,
                false => all.wrapping_mul(*base).plus(*digit),
            };
            Ok(Value::Long(blocks::fold(&pairs, 0, next)))
        }
        _ => Err(type_error()),
    }
}

fn from_bytes(items: &Items) -> Result {
    let Raw::U8(b) = items.raw() else { return Err(type_error()) };
    let whole = |n: &[u8]| n.iter().fold(0u64, |all, b| all << 8 | u64::from(*b));
    Ok(match b.len() {
        1 => Value::Byte(b.first().copied().unwrap_or(0)),
        2 => Value::Short(whole(b) as i16),
        4 => Value::Int(whole(b) as i32),
        8 => Value::Long(whole(b) as i64),
        16 => {
            let mut guid = [0; 16];
            guid.copy_from_slice(b);
            Value::Guid(guid)
        }
        _ => return Err(QError::named("length")),
    })
}

/// `hsym x`: file symbols.
pub(crate) fn hsym(context: &mut Context, x: Value) -> Result {
    match &x {
        Value::Sym(s) => {
            let name = text(*s);
            if name.first() == Some(&b':') {
                return Ok(x);
            }
            Ok(Value::Sym(intern(&[b":", name].concat()).map_err(QError::from)?))
        }
        Value::Vector(Vector { items: Items::Sym(_), .. }) => map(context, &x, hsym),
        _ => Err(type_error()),
    }
}

/// `string x`.
pub(crate) fn string(context: &mut Context, x: Value) -> Result {
    cast::string(context, &x)
}
