//! Layout of a value in a file: `ff 01` and the serialised object; `fe 20` and a simple vector as in memory; `fd 20`, a header of
//! one page and the indices of an enumeration. Formats of older kdb+ releases are read too: enumerations with 32-bit indices,
//! nested vectors with end offsets, compressed files.

use super::enumeration::enumeration;
use super::fixed::{Body, check_count, counted, is_simple, number, vector};
use super::growing::each_item;
pub(super) use super::growing::{bytes_of, ends};
use super::head::{
    DOMAIN_AT, HEAD_BYTES, MAPPED_AT, MARK, MARK_AT, PAGE_BYTES, TAIL_AT, cut_head, domain_of, is_mapped, located,
    marked,
};
use super::mapper::Mapper;
use super::stored_rows::StoredRows;
use super::{enumerated, growing, mapped, tagged, zipped};
use crate::io::wire;
use crate::runtime::context::Context;
use crate::runtime::error::QError;
use crate::runtime::values::Result;
use crate::runtime::values::type_error;
use crate::verbs::enums;
use columns::table::symbol::{intern, text};
pub(super) use columns::table::wire::attribute;
use columns::table::wire::attribute_code;
use columns::table::{Attr, Items, Sym, Value, Vector};
use proto::{View, types};
use std::io::{Read, Seek};
use std::path::Path;

/// Type of a nested column less that of its items.
const NESTED: u8 = 77;

/// The bytes of a value's file, and of those beside it: `#`, and `##`.
#[derive(Default)]
pub(super) struct Parts {
    pub own: Vec<u8>,
    pub beside: Vec<Vec<u8>>,
}

/// Returns the files of a value. `maps_within`: lists in lists are mapped too.
pub(super) fn parts(context: &mut Context, y: &Value, maps_within: bool) -> std::result::Result<Parts, QError> {
    if let Value::Vector(Vector { items: Items::List(items), .. }) = y
        && !items.is_empty()
    {
        let mut mapper = Mapper::after(0, &[], maps_within);
        if let Some(references) = mapper.references(context, items)? {
            let mut own = paged(mapped::LIST, b"", Attr::None, items.len(), &references);
            own.iter_mut().skip(MAPPED_AT).take(1).for_each(|flag| *flag = 1);
            let mut beside = vec![paged(types::BYTE, b"", Attr::None, 0, &mapper.objects)];
            if !mapper.symbols.is_empty() {
                beside.push(encoded(context, &Value::symbols(mapper.symbols))?);
            }
            return Ok(Parts { own, beside });
        }
    }
    Ok(Parts { own: encoded(context, y)?, beside: Vec::new() })
}

/// Whether a path is the file, which may be compressed, of a list whose items are in files beside it.
pub(super) fn has_beside(context: &Context, path: &Path) -> bool {
    // To open a pipe would wait for its writer.
    if !path.is_file() {
        return false;
    }
    let mut head = Vec::new();
    let Ok(mut file) = std::fs::File::open(path) else { return false };
    let read = match zipped::part(context, path, &mut file, (0, PAGE_BYTES as u64)) {
        Ok(Some(plain)) => {
            head = plain;
            true
        }
        Ok(None) => file.rewind().is_ok() && file.take(PAGE_BYTES as u64).read_to_end(&mut head).is_ok(),
        Err(_) => false,
    };
    read && (is_mapped(&head) || matches!(&head[..], [0xfe, 0x20, NESTED..=u8::MAX, ..]))
}

/// Returns the bytes of a value in one file.
pub(super) fn encoded(context: &mut Context, y: &Value) -> std::result::Result<Vec<u8>, QError> {
    match y {
        Value::Vector(Vector { attr, items: Items::Enum(name, _) | Items::Link(name, _) }) => {
            let places = places(context, *name, y)?;
            let items: Vec<u8> = places.iter().flat_map(|p| p.to_le_bytes()).collect();
            Ok(paged(types::ENUM, text(*name), *attr, places.len(), &items))
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

/// Positions of the items of an enumeration in its domain.
fn places(context: &mut Context, domain: Sym, y: &Value) -> std::result::Result<Vec<i64>, QError> {
    let places = match &y {
        // Without its domain an item is its position.
        Value::Vector(Vector { items: Items::Link(..), .. }) if context.host.global(domain).is_none() => {
            y.clone().plain()
        }
        _ => enums::places(context, y)?,
    };
    crate::verbs::arith::longs(&places.to_items(), types::LONG)
}

/// Bytes of the items of a simple vector or an enumeration, as they follow the head of its file.
pub(super) fn items_bytes(context: &mut Context, y: &Value) -> std::result::Result<Vec<u8>, QError> {
    match y {
        Value::Vector(Vector { items: Items::Enum(name, _) | Items::Link(name, _), .. }) => {
            Ok(places(context, *name, y)?.into_iter().flat_map(i64::to_le_bytes).collect())
        }
        Value::Vector(v) => simple_bytes(v),
        _ => Err(type_error()),
    }
}

/// Type of the vectors of a nested column, by the type in its head.
pub(super) fn nested_type(head: u8) -> std::result::Result<i8, QError> {
    head.checked_sub(NESTED).map(|t| t as i8).filter(|t| is_simple(*t)).ok_or_else(type_error)
}

/// The file beside a nested column that holds the items.
pub(super) fn beside(path: &Path) -> std::path::PathBuf {
    let mut beside = path.as_os_str().to_owned();
    beside.push("#");
    beside.into()
}

fn simple_bytes(v: &Vector) -> std::result::Result<Vec<u8>, QError> {
    /// Header of a serialised vector: type, attribute and 32-bit count.
    const TRAVELS_WITH: usize = 6;
    let mut message = wire::message(&v.clone().into())?;
    message.drain(..message.len().min(proto::HEADER_BYTES + TRAVELS_WITH));
    Ok(message)
}

fn plain(v: &Vector) -> std::result::Result<Vec<u8>, QError> {
    if !matches!(v.attr, Attr::None | Attr::Sorted) {
        return Ok(paged(v.items.type_number(), b"", v.attr, v.len(), &simple_bytes(v)?));
    }
    let mut out = simple_head(v.items.type_number() as u8, u8::from(v.attr == Attr::Sorted), v.len());
    out.extend(simple_bytes(v)?);
    Ok(out)
}

fn simple_head(t: u8, attr: u8, count: usize) -> Vec<u8> {
    let mut out = vec![0xfe, 0x20, t, attr, 0, 0, 0, 0];
    out.extend_from_slice(&(count as u64).to_le_bytes());
    out
}

/// End offsets of vectors, counted from `start`, and their items; `None` if these are not all vectors of type `t`.
pub(super) fn nested_bytes(t: i8, items: &Items, start: u64) -> std::result::Result<Option<[Vec<u8>; 2]>, QError> {
    let Items::List(items) = items else { return Ok(None) };
    let (mut end, mut ends, mut all) = (start, Vec::new(), Vec::new());
    for item in items.iter() {
        let Value::Vector(v) = item else { return Ok(None) };
        if v.items.type_number() != t || v.attr != Attr::None {
            return Ok(None);
        }
        match &v.items {
            Items::Char(text) => all.extend_from_slice(text),
            _ => all.extend(simple_bytes(v)?),
        }
        end = end.saturating_add(v.len() as u64);
        ends.extend_from_slice(&end.to_le_bytes());
    }
    Ok(Some([ends, all]))
}

/// Index of the parts of an empty enumeration, as q writes it: a word, the parts as a vector with `u#` and its hash, their offsets.
const NO_PARTS: [u64; 10] = [0, 0x0214_0002, 0, 0, 0, u64::MAX, u64::MAX, 0x0007_0001, 1, 0];

/// A vector after a head of one page.
fn paged(t: i8, domain: &[u8], attr: Attr, count: usize, items: &[u8]) -> Vec<u8> {
    let mut out = vec![0u8; PAGE_BYTES];
    let mut put = |at: usize, bytes: &[u8]| {
        out.iter_mut().skip(at).zip(bytes).for_each(|(slot, byte)| *slot = *byte);
    };
    put(0, &[0xfd, 0x20]);
    put(DOMAIN_AT, domain.get(..domain.len().min(MARK_AT - DOMAIN_AT - 1)).unwrap_or_default());
    let has_index = attr == Attr::Parted && count == 0 && t == types::ENUM;
    if !has_index && !matches!(attr, Attr::None | Attr::Sorted) {
        put(MARK_AT, MARK);
        put(MARK_AT + MARK.len(), &[attribute_code(attr)]);
    }
    let shown = if has_index || attr == Attr::Sorted { attribute_code(attr) } else { 0 };
    put(TAIL_AT, &[0xfd, 0, t.cast_unsigned(), shown]);
    put(TAIL_AT + 8, &(count as u64).to_le_bytes());
    out.extend_from_slice(items);
    if has_index {
        NO_PARTS.iter().for_each(|word| out.extend_from_slice(&word.to_le_bytes()));
    }
    out
}

/// Returns the value in a file's bytes; `path` locates files beside it that hold parts of the value.
pub(super) fn decoded(context: &mut Context, path: &Path, bytes: &[u8]) -> Result {
    match bytes {
        [0xff, 0x01, 11, attr, _, _, _, _, names @ ..] => {
            let names = symbols(*attr, names)?;
            check_count(number::<4>(bytes, 4), names.count())?;
            Ok(names)
        }
        [0xff, 0x01, 0, _, _, _, _, _, items @ ..] => {
            let items = match list(context, items) {
                Ok(items) => items,
                Err(error) => {
                    let body = bytes.get(2..).unwrap_or_default();
                    return enumerated::decoded(context, body)?.ok_or(error);
                }
            };
            check_count(number::<4>(bytes, 4), items.count())?;
            Ok(items)
        }
        [0xff, 0x01, body @ ..] => {
            let parsed = View::parse(body, proto::Endian::Little, &proto::Limits::default());
            let (view, used) = match parsed {
                Ok(parsed) => parsed,
                Err(error) => {
                    let value = enumerated::decoded(context, body)?;
                    return value.ok_or_else(|| QError::with("badmsg", error.to_string()));
                }
            };
            let value = wire::from_view(&view)?;
            tagged::restore(context, value, body.get(used..).unwrap_or_default())
        }
        [0xfe, 0x20, t @ (77..), ..] => nested(context, path, *t, bytes),
        [0xfe, 0x20, t, attr, ..] => {
            let body = bytes.get(HEAD_BYTES..).ok_or_else(cut_head)?;
            let (attr, count) = (attribute(*attr), number::<8>(bytes, 8));
            let items = vector(*t as i8, attr, counted(attr, count), body)?;
            check_count(count, items.count())?;
            Ok(items)
        }
        [0xfd, 0x20, ..] => page(context, path, bytes),
        [0xfe, name @ ..] => {
            let name = name.split(|c| *c == 0).next().unwrap_or_default();
            let (attr, count) = (attribute(bytes.get(11).copied().unwrap_or(0)), number::<8>(bytes, 16));
            let mut body = Body { bytes: bytes.get(24..).ok_or_else(cut_head)?, most: counted(attr, count) };
            let items = enumeration(context, name, &mut body, |place| i64::from(i32::from_le_bytes(place)))?;
            check_count(count, items.len())?;
            Ok(Vector { attr, items }.into())
        }
        _ => Err(type_error()),
    }
}

/// Items of a general list up to the end of the file: the count in the header is stale after an append, and always 0 in a tickerplant's log.
fn list(context: &mut Context, bytes: &[u8]) -> Result {
    let mut items = Vec::new();
    each_item(context, bytes, |view, _| {
        items.push(wire::from_view(view)?);
        Ok(())
    })?;
    Ok(Value::list(items))
}

/// Symbols up to the end of the file: the count in the header is stale after an append. A last name that is not whole is none: its append was
/// interrupted.
fn symbols(attr: u8, names: &[u8]) -> Result {
    let end = names.iter().rposition(|byte| *byte == 0);
    let names = end.and_then(|end| names.get(..end)).map(|n| n.split(|c| *c == 0)).into_iter().flatten();
    let names: std::result::Result<Vec<Sym>, _> = names.map(intern).collect();
    let names = names.map_err(QError::from)?;
    Ok(Vector { attr: attribute(attr), items: Items::Sym(names.into()) }.into())
}

fn page(context: &mut Context, path: &Path, bytes: &[u8]) -> Result {
    let body = bytes.get(PAGE_BYTES..).ok_or_else(cut_head)?;
    let [_, _, t, attr] = *bytes.get(TAIL_AT..TAIL_AT + 4).unwrap_or_default() else { return Err(type_error()) };
    let t = t.cast_signed();
    let count = number::<8>(bytes, TAIL_AT + 8);
    let attr = attribute(attr);
    if is_mapped(bytes) {
        let items = references(context, path, body)?;
        check_count(count, items.count())?;
        return Ok(items);
    }
    // Our files have no index after the items.
    let most = counted(attr, count);
    let attr = marked(bytes).unwrap_or(attr);
    if t != types::ENUM {
        let items = vector(t, attr, most, body)?;
        check_count(count, items.count())?;
        return Ok(items);
    }
    let items = enumeration(context, domain_of(bytes), &mut Body { bytes: body, most }, i64::from_le_bytes)?;
    check_count(count, items.len())?;
    Ok(Vector { attr, items }.into())
}

/// A mapped list: its objects are in the file `path#`, the symbols in them in `path##`.
fn references(context: &mut Context, path: &Path, body: &[u8]) -> Result {
    let objects = beside(path);
    let symbols = symbols_of(context, &objects)?;
    let mut objects = bytes_of(context, &objects)?;
    objects.drain(..PAGE_BYTES.min(objects.len()));
    mapped::list(context, &mapped::Heap::new(objects, symbols), body)
}

/// The symbols in the objects of a mapped list, from the file beside theirs.
pub(super) fn symbols_of(context: &mut Context, objects: &Path) -> std::result::Result<Vec<Sym>, QError> {
    let symbols = beside(objects);
    match symbols.exists() {
        true => Ok(read(context, &symbols)?.as_symbols().ok_or_else(type_error)?.to_vec()),
        false => Ok(Vec::new()),
    }
}

/// Returns the value in a file.
pub(super) fn read(context: &mut Context, path: &Path) -> Result {
    if let Some(items) = simple(context, path)? {
        return Ok(items);
    }
    let bytes = growing::bytes(context, path)?;
    decoded(context, path, &bytes).map_err(|error| located(path, error))
}

/// Returns a simple vector or an enumeration from its file; `None` for another form.
fn simple(context: &mut Context, path: &Path) -> std::result::Result<Option<Value>, QError> {
    let rows = StoredRows::open(context, path).map_err(|error| located(path, error))?;
    let Some(rows) = rows else { return Ok(None) };
    rows.read_all(context, path).map(|items| Some(items.into())).map_err(|error| located(path, error))
}

/// As [`read`], for the column of a splayed table: of a general list whose last item is not whole, because an append was interrupted, the
/// items before it.
///
/// # Errors
/// `badtail` if these are fewer than the head says.
pub(super) fn read_column(context: &mut Context, path: &Path) -> Result {
    if let Some(items) = simple(context, path)? {
        return Ok(items);
    }
    let bytes = growing::bytes(context, path)?;
    let [0xff, 0x01, 0, _, _, _, _, _, items @ ..] = &bytes[..] else {
        return decoded(context, path, &bytes).map_err(|error| located(path, error));
    };
    match list(context, items).map_err(|error| located(path, error)) {
        Err(error) if *error.name == *b"badtail" => {
            let ends = ends(context, items)?;
            if (ends.len() as u64) < number::<4>(&bytes, 4) {
                return Err(error);
            }
            let last = ends.last().and_then(|end| usize::try_from(*end).ok()).unwrap_or(0);
            list(context, items.get(..last).unwrap_or_default())
        }
        read => read,
    }
}

/// Vectors stored back to back in the file `path#`, with the end offset of each in this file.
fn nested(context: &mut Context, path: &Path, t: u8, bytes: &[u8]) -> Result {
    let item = nested_type(t)?;
    let beside = beside(path);
    let held = bytes_of(context, &beside)?;
    let Value::Vector(all) = vector(item, Attr::None, usize::MAX, &held)? else { return Err(type_error()) };
    let mut from = 0;
    let mut out = Vec::new();
    for end in bytes.get(HEAD_BYTES..).ok_or_else(cut_head)?.as_chunks().0 {
        let end = usize::try_from(u64::from_le_bytes(*end)).ok().filter(|end| (from..=all.len()).contains(end));
        let end = end.ok_or_else(|| {
            QError::with("badtail", format!("item {} ends past those of {}", out.len(), beside.display()))
        })?;
        out.push(Value::Vector(all.cut(from, end)));
        from = end;
    }
    check_count(number::<8>(bytes, 8), out.len())?;
    Ok(Vector { attr: Attr::Mapped(t.cast_signed()), items: Items::List(out.into()) }.into())
}
