//! Encodes owned values and frames messages. All output is little-endian.

use crate::error::EncodeError;
use crate::header::{Compression, Endian, HEADER_BYTES, Header, MessageKind};
use crate::limits::DEEPEST;
use crate::types;
use crate::value::{Items, Value};
use crate::walk::{is_column, is_countable};
pub use crate::writer::Writer;

/// Appends the serialised form of a value.
///
/// # Errors
/// The value, or a part of it, cannot be serialised; `out` is unchanged.
pub fn encode_object(value: &Value, out: &mut Vec<u8>) -> Result<(), EncodeError> {
    let start = out.len();
    let result = try_object(value, out);
    if result.is_err() {
        out.truncate(start);
    }
    result
}

fn try_object(value: &Value, out: &mut Vec<u8>) -> Result<(), EncodeError> {
    let mut writer = Writer::new(out);
    match value {
        Value::Error(text) => writer.error(text),
        _ => put(&mut writer, value, DEEPEST)?,
    }
    writer.finish()
}

/// Encodes a whole uncompressed message.
///
/// # Errors
/// The value, or a part of it, cannot be serialised.
pub fn message(kind: MessageKind, value: &Value) -> Result<Vec<u8>, EncodeError> {
    let mut out = Vec::new();
    let start = begin_message(kind, &mut out);
    encode_object(value, &mut out)?;
    finish_message(&mut out, start)?;
    Ok(out)
}

/// Appends space for a header and returns its position. The caller then writes one object and calls [`finish_message`].
pub fn begin_message(kind: MessageKind, out: &mut Vec<u8>) -> usize {
    let start = out.len();
    let kind = match kind {
        MessageKind::Async => 0,
        MessageKind::Sync => 1,
        MessageKind::Response => 2,
    };
    out.extend_from_slice(&[1, kind, 0, 0, 0, 0, 0, 0]);
    start
}

/// Writes the length of the message that [`begin_message`] began at `start` and that ends with the buffer.
///
/// # Errors
/// `MessageTooLong` if the length exceeds the header's 40 bits, `NoMessage` if no message was begun at `start`.
pub fn finish_message(out: &mut [u8], start: usize) -> Result<(), EncodeError> {
    let message = out.get_mut(start..).ok_or(EncodeError::NoMessage)?;
    let total_bytes = message.len() as u64;
    let head = message.first_chunk_mut::<HEADER_BYTES>().ok_or(EncodeError::NoMessage)?;
    let kind = match head {
        [1, 0, 0, 0, 0, 0, 0, 0] => MessageKind::Async,
        [1, 1, 0, 0, 0, 0, 0, 0] => MessageKind::Sync,
        [1, 2, 0, 0, 0, 0, 0, 0] => MessageKind::Response,
        _ => return Err(EncodeError::NoMessage),
    };
    *head = Header { endian: Endian::Little, kind, compression: Compression::None, total_bytes }.write()?;
    Ok(())
}

/// Encodes an error response. `text` comes without the quote and is cut at its first NUL.
pub fn error_message(text: impl AsRef<[u8]>) -> Vec<u8> {
    let text = text.as_ref().split(|byte| *byte == 0).next().unwrap_or_default();
    let mut out = Vec::new();
    let start = begin_message(MessageKind::Response, &mut out);
    out.push(types::ERROR.cast_unsigned());
    out.extend_from_slice(text);
    out.push(0);
    // Fails only for a text of a terabyte.
    let _ = finish_message(&mut out, start);
    out
}

fn put(writer: &mut Writer<'_>, value: &Value, depth_left: usize) -> Result<(), EncodeError> {
    let inner = depth_left.checked_sub(1).ok_or(EncodeError::TooDeep)?;
    match value {
        Value::Bool(item) => writer.atom(types::BOOL, *item),
        Value::Guid(item) => writer.atom(types::GUID, *item),
        Value::Byte(item) => writer.atom(types::BYTE, *item),
        Value::Short(item) => writer.atom(types::SHORT, *item),
        Value::Int(item) => writer.atom(types::INT, *item),
        Value::Long(item) => writer.atom(types::LONG, *item),
        Value::Real(item) => writer.atom(types::REAL, *item),
        Value::Float(item) => writer.atom(types::FLOAT, *item),
        Value::Char(item) => writer.atom(types::CHAR, *item),
        Value::Symbol(text) => writer.symbol(text),
        Value::Timestamp(item) => writer.atom(types::TIMESTAMP, *item),
        Value::Month(item) => writer.atom(types::MONTH, *item),
        Value::Date(item) => writer.atom(types::DATE, *item),
        Value::Datetime(item) => writer.atom(types::DATETIME, *item),
        Value::Timespan(item) => writer.atom(types::TIMESPAN, *item),
        Value::Minute(item) => writer.atom(types::MINUTE, *item),
        Value::Second(item) => writer.atom(types::SECOND, *item),
        Value::Time(item) => writer.atom(types::TIME, *item),
        Value::Vector { attr, items } => put_items(writer, *attr, items),
        Value::List { attr, items } => {
            writer.vector_head(types::LIST, *attr, items.len());
            put_all(writer, items, inner)?;
        }
        Value::Dict { sorted, keys, values } => {
            put_dict(writer, *sorted, keys, values, inner)?;
        }
        Value::Table { attr, names, columns } => {
            check_table(names, columns)?;
            writer.table_head_attr(*attr, names);
            put_all(writer, columns, inner)?;
        }
        Value::TableByName { attr, names, place } => writer.table_by_name(*attr, names, place),
        Value::Lambda { namespace, source } => writer.lambda(namespace, source),
        Value::Unary(code) | Value::Binary(code) | Value::Iterator(code) => {
            writer.primitive(value.type_code(), *code);
        }
        Value::Projection(parts) | Value::Composition(parts) => {
            writer.function_head(value.type_code(), parts.len());
            put_all(writer, parts, inner)?;
        }
        Value::Derived(ty, function) => {
            writer.derived_head(*ty);
            put(writer, function, inner)?;
        }
        Value::Error(_) => return Err(EncodeError::Type(types::ERROR)),
    }
    Ok(())
}

fn put_all(writer: &mut Writer<'_>, values: &[Value], depth_left: usize) -> Result<(), EncodeError> {
    values.iter().try_for_each(|value| put(writer, value, depth_left))
}

fn put_dict(
    writer: &mut Writer<'_>,
    sorted: bool,
    keys: &Value,
    values: &Value,
    depth_left: usize,
) -> Result<(), EncodeError> {
    for part in [keys, values] {
        if !is_countable(part.type_code()) || matches!(part, Value::TableByName { .. }) {
            return Err(EncodeError::Type(part.type_code()));
        }
    }
    if keys.len() != values.len() {
        return Err(EncodeError::Length { expected: keys.len(), found: values.len() });
    }
    if sorted {
        writer.sorted_dict_head()
    } else {
        writer.dict_head()
    }
    put(writer, keys, depth_left)?;
    put(writer, values, depth_left)
}

fn check_table(names: &[Vec<u8>], columns: &[Value]) -> Result<(), EncodeError> {
    if names.len() != columns.len() {
        return Err(EncodeError::Length { expected: names.len(), found: columns.len() });
    }
    let rows = columns.first().map_or(0, Value::len);
    for column in columns {
        if !is_column(column.type_code()) || matches!(column, Value::TableByName { .. }) {
            return Err(EncodeError::Type(column.type_code()));
        }
        if column.len() != rows {
            return Err(EncodeError::Length { expected: rows, found: column.len() });
        }
    }
    Ok(())
}

fn put_items(writer: &mut Writer<'_>, attr: u8, items: &Items) {
    let ty = items.type_code();
    match items {
        Items::Bool(items) => writer.vector(ty, attr, items),
        Items::Guid(items) => writer.vector(ty, attr, items),
        Items::Byte(items) | Items::Char(items) => writer.vector(ty, attr, items),
        Items::Short(items) => writer.vector(ty, attr, items),
        Items::Int(items)
        | Items::Month(items)
        | Items::Date(items)
        | Items::Minute(items)
        | Items::Second(items)
        | Items::Time(items) => writer.vector(ty, attr, items),
        Items::Long(items) | Items::Timestamp(items) | Items::Timespan(items) => writer.vector(ty, attr, items),
        Items::Real(items) => writer.vector(ty, attr, items),
        Items::Float(items) | Items::Datetime(items) => writer.vector(ty, attr, items),
        Items::Symbol(texts) => {
            writer.vector_head(ty, attr, texts.len());
            for text in texts {
                writer.symbol_item(text);
            }
        }
    }
}
