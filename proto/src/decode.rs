//! Decodes bytes to owned values.
//!
//! An object is walked before it is built, so a count that its bytes cannot hold never reaches an allocation. The value
//! takes at most about forty times the bytes it was read from (worst case: a list of booleans).

use crate::compress;
use crate::cursor::Cursor;
use crate::error::{DecodeError, DecodeErrorKind};
use crate::head::Head;
use crate::header::{Compression, Endian, HEADER_BYTES, Header};
use crate::item::Item;
use crate::limits::Limits;
use crate::types;
use crate::value::{Items, Value};
use crate::walk;

/// Decodes the object at the start of `bytes`. Returns it with its length in bytes. An error object becomes [`Value::Error`].
///
/// # Errors
/// Those of [`walk::object`].
pub fn object(bytes: &[u8], endian: Endian, limits: &Limits) -> Result<(Value, usize), DecodeError> {
    let used = walk::object(bytes, endian, limits)?;
    let value = build_object(&mut Cursor::new(bytes, endian))?;
    Ok((value, used))
}

/// Decodes a whole message. Returns its header as sent, and its object, decompressed if necessary.
///
/// # Errors
/// Those of header, compression or object; `Trailing` if bytes are left over. Offsets count from the start of the
/// message; in a compressed one, from the start of the decompressed message.
pub fn message(bytes: &[u8], limits: &Limits) -> Result<(Header, Value), DecodeError> {
    let header = whole_header(bytes, limits)?;
    let decompressed;
    let plain = if header.compression == Compression::None {
        bytes
    } else {
        decompressed = compress::decompress(bytes, limits)?;
        &decompressed
    };
    let body = plain.get(HEADER_BYTES..).unwrap_or_default();
    let (value, used) = object(body, header.endian, limits).map_err(|error| error.shifted(HEADER_BYTES as u64))?;
    match body.len().checked_sub(used) {
        Some(0) => Ok((header, value)),
        extra => {
            let extra_bytes = extra.unwrap_or(0) as u64;
            let at = plain.len() as u64;
            Err(DecodeError::new(DecodeErrorKind::Trailing { extra_bytes }, at.saturating_sub(extra_bytes)))
        }
    }
}

/// Returns the header of `bytes`, which must be exactly one message within the limit.
pub(crate) fn whole_header(bytes: &[u8], limits: &Limits) -> Result<Header, DecodeError> {
    let header = Header::parse(bytes)?;
    let total_bytes = header.total_bytes;
    if total_bytes > limits.max_message_bytes {
        let max_bytes = limits.max_message_bytes;
        return Err(DecodeError::new(DecodeErrorKind::MessageTooLong { total_bytes, max_bytes }, 4));
    }
    match total_bytes.cmp(&(bytes.len() as u64)) {
        core::cmp::Ordering::Equal => Ok(header),
        core::cmp::Ordering::Greater => Err(DecodeError::new(DecodeErrorKind::Incomplete, bytes.len() as u64)),
        core::cmp::Ordering::Less => Err(DecodeError::new(DecodeErrorKind::MessageLength { total_bytes }, 4)),
    }
}

/// Builds the object at the cursor, which has been walked.
pub(crate) fn build_object(cursor: &mut Cursor<'_>) -> Result<Value, DecodeError> {
    let start = *cursor;
    let ty = cursor.ty()?;
    Ok(match ty {
        types::ERROR => Value::Error(cursor.text()?.to_vec()),
        types::TIME_ATOM..=types::BOOL_ATOM => atom(cursor, ty)?,
        types::LIST => {
            let head = Head::after_type(ty, cursor)?;
            Value::List { attr: head.attr, items: objects(cursor, head.count())? }
        }
        types::BOOL..=types::TIME => {
            let head = Head::after_type(ty, cursor)?;
            Value::Vector { attr: head.attr, items: items(cursor, ty, head.count())? }
        }
        types::TABLE => table(cursor)?,
        types::DICT | types::SORTED_DICT => {
            let keys = Box::new(build_object(cursor)?);
            let values = Box::new(build_object(cursor)?);
            Value::Dict { sorted: ty == types::SORTED_DICT, keys, values }
        }
        types::LAMBDA => {
            let namespace = cursor.text()?.to_vec();
            let source = inner_head(cursor)?;
            Value::Lambda { namespace, source: cursor.take(source.count())?.to_vec() }
        }
        types::UNARY => Value::Unary(cursor.byte()?),
        types::BINARY => Value::Binary(cursor.byte()?),
        types::ITERATOR => Value::Iterator(cursor.byte()?),
        types::PROJECTION => Value::Projection(counted(cursor)?),
        types::COMPOSITION => Value::Composition(counted(cursor)?),
        types::EACH..=types::EACH_LEFT => Value::Derived(ty, Box::new(build_object(cursor)?)),
        _ => return Err(start.error(DecodeErrorKind::UnknownType(ty))),
    })
}

fn atom(cursor: &mut Cursor<'_>, ty: i8) -> Result<Value, DecodeError> {
    Ok(match ty.saturating_neg() {
        types::BOOL => Value::Bool(cursor.item()?),
        types::GUID => Value::Guid(cursor.item()?),
        types::BYTE => Value::Byte(cursor.item()?),
        types::SHORT => Value::Short(cursor.item()?),
        types::INT => Value::Int(cursor.item()?),
        types::LONG => Value::Long(cursor.item()?),
        types::REAL => Value::Real(cursor.item()?),
        types::FLOAT => Value::Float(cursor.item()?),
        types::CHAR => Value::Char(cursor.item()?),
        types::SYMBOL => Value::Symbol(cursor.text()?.to_vec()),
        types::TIMESTAMP => Value::Timestamp(cursor.item()?),
        types::MONTH => Value::Month(cursor.item()?),
        types::DATE => Value::Date(cursor.item()?),
        types::DATETIME => Value::Datetime(cursor.item()?),
        types::TIMESPAN => Value::Timespan(cursor.item()?),
        types::MINUTE => Value::Minute(cursor.item()?),
        types::SECOND => Value::Second(cursor.item()?),
        types::TIME => Value::Time(cursor.item()?),
        _ => return Err(cursor.error(DecodeErrorKind::UnknownType(ty))),
    })
}

fn items(cursor: &mut Cursor<'_>, ty: i8, count: usize) -> Result<Items, DecodeError> {
    Ok(match ty {
        types::BOOL => Items::Bool(run(cursor, count)?),
        types::GUID => Items::Guid(run(cursor, count)?),
        types::BYTE => Items::Byte(run(cursor, count)?),
        types::SHORT => Items::Short(run(cursor, count)?),
        types::INT => Items::Int(run(cursor, count)?),
        types::LONG => Items::Long(run(cursor, count)?),
        types::REAL => Items::Real(run(cursor, count)?),
        types::FLOAT => Items::Float(run(cursor, count)?),
        types::CHAR => Items::Char(run(cursor, count)?),
        types::SYMBOL => Items::Symbol(symbols(cursor, count)?),
        types::TIMESTAMP => Items::Timestamp(run(cursor, count)?),
        types::MONTH => Items::Month(run(cursor, count)?),
        types::DATE => Items::Date(run(cursor, count)?),
        types::DATETIME => Items::Datetime(run(cursor, count)?),
        types::TIMESPAN => Items::Timespan(run(cursor, count)?),
        types::MINUTE => Items::Minute(run(cursor, count)?),
        types::SECOND => Items::Second(run(cursor, count)?),
        types::TIME => Items::Time(run(cursor, count)?),
        _ => return Err(cursor.error(DecodeErrorKind::UnknownType(ty))),
    })
}

fn run<T: Item>(cursor: &mut Cursor<'_>, count: usize) -> Result<Vec<T>, DecodeError> {
    let bytes = count.checked_mul(T::WIDTH).ok_or(cursor.error(DecodeErrorKind::Incomplete))?;
    Ok(T::read_all(cursor.take(bytes)?, cursor.endian))
}

fn symbols(cursor: &mut Cursor<'_>, count: usize) -> Result<Vec<Vec<u8>>, DecodeError> {
    let mut symbols = Vec::with_capacity(count.min(cursor.rest().len()));
    for _ in 0..count {
        symbols.push(cursor.text()?.to_vec());
    }
    Ok(symbols)
}

/// Reads the head of a vector or list inside a lambda or table; the walk has checked its type.
fn inner_head(cursor: &mut Cursor<'_>) -> Result<Head, DecodeError> {
    let ty = cursor.ty()?;
    Head::after_type(ty, cursor)
}

/// Reads a count and that many objects.
fn counted(cursor: &mut Cursor<'_>) -> Result<Vec<Value>, DecodeError> {
    let count = cursor.count()?;
    objects(cursor, count)
}

fn objects(cursor: &mut Cursor<'_>, count: usize) -> Result<Vec<Value>, DecodeError> {
    let mut objects = Vec::with_capacity(count.min(cursor.rest().len() / 2));
    for _ in 0..count {
        objects.push(build_object(cursor)?);
    }
    Ok(objects)
}

/// Reads a table after its type byte. Drops an attribute on the list of names or of columns: it has no meaning for a table.
fn table(cursor: &mut Cursor<'_>) -> Result<Value, DecodeError> {
    let attr = cursor.byte()?;
    // Type byte of the dictionary.
    cursor.ty()?;
    let count = inner_head(cursor)?.count();
    let names = symbols(cursor, count)?;
    let ty = cursor.ty()?;
    if ty == types::SYMBOL_ATOM {
        return Ok(Value::TableByName { attr, names, place: cursor.text()?.to_vec() });
    }
    let count = Head::after_type(ty, cursor)?.count();
    Ok(Value::Table { attr, names, columns: objects(cursor, count)? })
}
