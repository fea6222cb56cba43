//! Layout of a value in a file: `ff 01` and the serialised object; `fe 20` and a simple vector as in memory; `fd 20`, a header of
//! one page and the indices of an enumeration. Formats of older kdb+ releases are read too: enumerations with 32-bit indices,
//! nested vectors with end offsets, compressed files.

use super::{tagged, zipped};
use crate::io::wire;
use crate::runtime::context::Context;
use crate::runtime::error::QError;
use crate::runtime::values::Result;
use crate::runtime::values::type_error;
use crate::verbs::enums;
use columns::table::symbol::{intern, text};
use columns::table::wire::attribute;
use columns::table::{Attr, Element, Items, Sym, Value, Vector};
use proto::{View, types};
use std::path::Path;

/// Bytes before the items of a simple vector: magic, type, attribute, count.
const HEAD_BYTES: usize = 16;
/// Bytes before the items of an enumeration.
const PAGE_BYTES: usize = 4096;
/// Offsets in that page: the name of the domain; type, attribute and count.
const DOMAIN_AT: usize = 16;
const TAIL_AT: usize = 0xff0;
/// Offset of the mark for the parted attribute. kdb+ stores an index of the parts after the items, we store only the mark.
const PARTED_AT: usize = 0x100;
const PARTED: &[u8] = b"elastick:p";

/// Type of a column of lists that kdb+ maps.
const MAPPED_LISTS: i8 = 77;

/// Returns the bytes of a value's file.
pub(super) fn encoded(context: &mut Context, y: &Value) -> std::result::Result<Vec<u8>, QError> {
    match y {
        Value::Vector(Vector { attr, items: Items::Enum(name, _) | Items::Link(name, _) }) => {
            let places = match &y {
                // Without its domain an item is its position.
                Value::Vector(Vector { items: Items::Link(..), .. }) if context.host.global(*name).is_none() => {
                    y.clone().plain()
                }
                _ => enums::places(context, y)?,
            };
            Ok(paged(*name, *attr, &crate::verbs::arith::longs(&places.to_items(), types::LONG)?))
        }
        Value::Vector(v) if is_simple(v.items.type_number()) => plain(v),
        _ => {
            let message = wire::message(&y.clone().plain())?;
            let body = message.get(proto::HEADER_BYTES..).unwrap_or_default();
            let mut out = [&[0xff, 0x01][..], body].concat();
            tagged::append(context, y, &mut out)?;
            Ok(out)
        }
    }
}

/// Whether items of this type have a fixed width.
fn is_simple(number: i8) -> bool {
    matches!(number, types::BOOL | types::GUID | types::BYTE..=types::CHAR | types::TIMESTAMP..=types::TIME)
}

fn plain(v: &Vector) -> std::result::Result<Vec<u8>, QError> {
    /// Header of a serialised vector: type, attribute and 32-bit count.
    const TRAVELS_WITH: usize = 6;
    let message = wire::message(&v.clone().into())?;
    let body = message.get(proto::HEADER_BYTES + TRAVELS_WITH..).unwrap_or_default();
    // Other attributes need an index after the items.
    let sorted = u8::from(v.attr == Attr::Sorted);
    let mut out = vec![0xfe, 0x20, v.items.type_number() as u8, sorted, 0, 0, 0, 0];
    out.extend_from_slice(&(v.len() as u64).to_le_bytes());
    out.extend_from_slice(body);
    Ok(out)
}

fn paged(domain: Sym, attr: Attr, places: &[i64]) -> Vec<u8> {
    let mut out = vec![0u8; PAGE_BYTES];
    let mut put = |at: usize, bytes: &[u8]| {
        out.iter_mut().skip(at).zip(bytes).for_each(|(slot, byte)| *slot = *byte);
    };
    put(0, &[0xfd, 0x20]);
    let name = text(domain);
    put(DOMAIN_AT, name.get(..name.len().min(PARTED_AT - DOMAIN_AT - 1)).unwrap_or_default());
    if attr == Attr::Parted {
        put(PARTED_AT, PARTED);
    }
    put(TAIL_AT, &[0xfd, 0, 20, u8::from(attr == Attr::Sorted)]);
    put(TAIL_AT + 8, &(places.len() as u64).to_le_bytes());
    out.extend(places.iter().flat_map(|p| p.to_le_bytes()));
    out
}

fn number<const N: usize>(bytes: &[u8], at: usize) -> u64 {
    let field = at.checked_add(N).and_then(|end| bytes.get(at..end)).unwrap_or_default();
    field.iter().rev().fold(0u64, |all, b| all << 8 | u64::from(*b))
}

/// Returns the value in a file's bytes; `path` locates files beside it that hold parts of the value.
pub(super) fn decoded(context: &mut Context, path: &Path, bytes: &[u8]) -> Result {
    match bytes {
        [0xff, 0x01, 11, attr, _, _, _, _, names @ ..] => symbols(*attr, names),
        [0xff, 0x01, 0, _, _, _, _, _, items @ ..] => list(context, items),
        [0xff, 0x01, body @ ..] => {
            let view = View::parse(body, proto::Endian::Little, &proto::Limits::default());
            let (view, used) = view.map_err(|e| QError::with("badmsg", e.to_string()))?;
            let value = wire::from_view(&view)?;
            tagged::restore(context, value, body.get(used..).unwrap_or_default())
        }
        [0xfe, 0x20, t @ (77..), ..] => nested(context, path, *t, bytes),
        [0xfe, 0x20, t, attr, ..] => {
            let body = bytes.get(HEAD_BYTES..).unwrap_or_default();
            vector(*t as i8, attribute(*attr), number::<8>(bytes, 8), body)
        }
        [0xfd, 0x20, ..] => page(context, bytes),
        [0xfe, name @ ..] => {
            let name = name.split(|c| *c == 0).next().unwrap_or_default();
            let places = bytes.get(24..).unwrap_or_default().chunks_exact(4);
            let places = places.map(|b| i64::from(number::<4>(b, 0) as i32)).collect();
            enumeration(context, name, attribute(bytes.get(11).copied().unwrap_or(0)), places)
        }
        [b'k', b'x', b'z', b'i', b'p', b'p', b'e', b'd', ..] => {
            let whole = zipped::unpacked(context, bytes)?;
            decoded(context, path, &whole)
        }
        _ => Err(type_error()),
    }
}

/// Items of a general list up to the end of the file: the count in the header is stale after an append, and always 0 in a tickerplant's log.
fn list(context: &mut Context, bytes: &[u8]) -> Result {
    let (limits, mut at, mut items) = (proto::Limits::default(), 0, Vec::new());
    loop {
        context.tick()?;
        let next = proto::log::next_record(bytes.get(at..).unwrap_or_default(), &limits);
        let Some((used, view)) = next.map_err(|error| QError::with("badtail", error.to_string()))? else { break };
        items.push(wire::from_view(&view)?);
        at = at.saturating_add(used);
    }
    Ok(Value::list(items))
}

/// Symbols up to the end of the file: the count in the header is stale after an append.
fn symbols(attr: u8, names: &[u8]) -> Result {
    let names = names.strip_suffix(&[0]).map(|n| n.split(|c| *c == 0)).into_iter().flatten();
    let names: std::result::Result<Vec<Sym>, _> = names.map(intern).collect();
    let names = names.map_err(QError::from)?;
    Ok(Vector { attr: attribute(attr), items: Items::Sym(names.into()) }.into())
}

fn items_of<T: Element, const N: usize>(t: i8, body: &[u8], count: usize, of: fn([u8; N]) -> T) -> Items {
    let one = |b: &[u8]| {
        let mut bytes = [0; N];
        bytes.iter_mut().zip(b).for_each(|(slot, byte)| *slot = *byte);
        of(bytes)
    };
    T::wrap(t, body.chunks_exact(N).take(count).map(one).collect())
}

/// Items of a fixed width up to the end of the file; the count limits them only if the attribute has an index after the items.
fn vector(t: i8, attr: Attr, counted: u64, body: &[u8]) -> Result {
    let most = match attr {
        Attr::None | Attr::Sorted => usize::MAX,
        _ => usize::try_from(counted).unwrap_or(usize::MAX),
    };
    let items = match t {
        types::BOOL | types::BYTE | types::CHAR => items_of(t, body, most, |b: [u8; 1]| b[0]),
        types::GUID => items_of(t, body, most, |b: [u8; 16]| b),
        types::SHORT => items_of(t, body, most, i16::from_le_bytes),
        types::INT | types::MONTH | types::DATE | types::MINUTE | types::SECOND | types::TIME => {
            items_of(t, body, most, i32::from_le_bytes)
        }
        types::LONG | types::TIMESTAMP | types::TIMESPAN => items_of(t, body, most, i64::from_le_bytes),
        types::REAL => items_of(t, body, most, f32::from_le_bytes),
        types::FLOAT | types::DATETIME => items_of(t, body, most, f64::from_le_bytes),
        _ => return Err(type_error()),
    };
    Ok(Vector { attr, items }.into())
}

/// Returns the symbols of a domain at these indices, or the indices if the domain is not loaded.
fn enumeration(context: &mut Context, name: &[u8], attr: Attr, places: Vec<i64>) -> Result {
    let name = intern(name).map_err(QError::from)?;
    let items = match context.host.global(name) {
        Some(Value::Vector(Vector { items: Items::Sym(known), .. })) => {
            enums::note(name);
            let at = |p: &i64| usize::try_from(*p).ok().and_then(|p| known.get(p)).copied().unwrap_or(Sym::NULL);
            Items::Enum(name, places.iter().map(at).collect())
        }
        _ => tagged::item(context, name, Value::longs(places))?.to_items(),
    };
    Ok(Vector { attr, items }.into())
}

fn page(context: &mut Context, bytes: &[u8]) -> Result {
    let body = bytes.get(PAGE_BYTES..).unwrap_or_default();
    let [_, mapped, t, attr] = *bytes.get(TAIL_AT..TAIL_AT + 4).unwrap_or_default() else { return Err(type_error()) };
    let t = t.cast_signed();
    let count = number::<8>(bytes, TAIL_AT + 8);
    let attr = match bytes.get(PARTED_AT..PARTED_AT + PARTED.len()) {
        Some(PARTED) => Attr::Parted,
        _ => attribute(attr),
    };
    if mapped == 1 && t == MAPPED_LISTS {
        return Err(QError::with("nyi", "mapped lists: write such columns to separate files"));
    }
    if t != types::ENUM {
        return vector(t, attr, count, body);
    }
    let most = match attr {
        Attr::Unique | Attr::Grouped => usize::try_from(count).unwrap_or(usize::MAX),
        // Our files have no index after the items; kdb+'s have one, and a count to exclude it.
        Attr::Parted if count > 0 => usize::try_from(count).unwrap_or(usize::MAX),
        _ => usize::MAX,
    };
    let places = body.chunks_exact(8).take(most).map(|b| number::<8>(b, 0).cast_signed()).collect();
    let name = bytes.get(DOMAIN_AT..PARTED_AT).unwrap_or_default().split(|c| *c == 0).next().unwrap_or_default();
    enumeration(context, name, attr, places)
}

/// Vectors stored back to back in the file `path#`, with the end offset of each in this file.
fn nested(context: &Context, path: &Path, t: u8, bytes: &[u8]) -> Result {
    let item = t.checked_sub(77).map(|t| t as i8).filter(|t| is_simple(*t)).ok_or_else(type_error)?;
    let mut beside = path.as_os_str().to_owned();
    beside.push("#");
    let beside = std::path::PathBuf::from(beside);
    super::reach::check(context, &beside)?;
    let held = std::fs::read(&beside).map_err(|e| super::refused(&beside, &e))?;
    let Value::Vector(all) = vector(item, Attr::None, 0, &held)? else { return Err(type_error()) };
    let mut from = 0;
    let mut out = Vec::new();
    for end in bytes.get(HEAD_BYTES..).unwrap_or_default().chunks_exact(8) {
        let end = usize::try_from(number::<8>(end, 0)).unwrap_or(usize::MAX).min(all.len());
        out.push(Value::Vector(all.cut(from.min(end), end)));
        from = end;
    }
    Ok(Value::list(out))
}
