//! What a handle of a file appends: text, bytes, the items of a vector as in memory, or those of a general list, each serialised.

use crate::io::wire;
use crate::runtime::error::QError;
use columns::table::Value;
use std::io::{Read, Seek, Write};

/// Form of a file, by its head and size. A file that cannot be read counts as text.
#[derive(Clone, Copy)]
pub(super) enum FileForm {
    /// Text or bytes.
    Plain,
    /// A general list, as `set` writes it.
    List,
    Symbols,
    /// A vector of this fixed-width type, as in memory.
    Items(i8),
    /// Compressed, nested, mapped or enumerated items: bytes at the end would damage it.
    Compound,
}

/// Least bytes of an item of a type in a file.
fn item_bytes(t: u8) -> u64 {
    match t {
        2 => 16,
        5 => 2,
        6 | 8 | 13 | 14 | 17..=19 => 4,
        7 | 9 | 12 | 15 | 16 => 8,
        _ => 1,
    }
}

impl FileForm {
    pub fn of(path: &std::path::Path) -> FileForm {
        /// Bytes of the longest head, that of an enumeration, and where it has the type, the attribute and the count.
        const PAGE: usize = 4096;
        const TAIL: usize = 0xff0;
        // Reading the head of a pipe, which /dev/stderr may be, would wait until somebody writes.
        if !std::fs::metadata(path).is_ok_and(|found| found.is_file()) {
            return FileForm::Plain;
        }
        let mut head = Vec::new();
        let read = |file: std::fs::File| {
            let size = file.metadata()?.len();
            file.take(PAGE as u64).read_to_end(&mut head)?;
            Ok::<_, std::io::Error>(size)
        };
        let Ok(size) = std::fs::File::open(path).and_then(read) else { return FileForm::Plain };
        let start = head.get(..proto::log::FILE_HEAD.len()).unwrap_or_default();
        // The bytes of any file may begin like a head: it is one only if its count and its attribute may be true.
        let fits = |count_at: usize, head_bytes: usize, width: u64| {
            let count =
                head.get(count_at..).and_then(|rest| rest.first_chunk()).map(|bytes| u64::from_le_bytes(*bytes));
            let held = size.checked_sub(head_bytes as u64);
            count.zip(held).is_some_and(|(count, held)| count.saturating_mul(width) <= held)
        };
        let is_attribute = |at: usize| head.get(at).is_some_and(|attr| *attr <= 4);
        match start {
            _ if proto::log::is_log_head(start) => FileForm::List,
            [0xff, 0x01, 11, ..] => FileForm::Symbols,
            [0xfe, 0x20, t @ 1..=19, attr, ..] if *attr <= 4 && fits(8, 16, item_bytes(*t)) => {
                FileForm::Items(*t as i8)
            }
            [0xfe, 0x20, 77..=0xff, attr, ..] if *attr <= 4 && fits(8, 16, 8) => FileForm::Compound,
            [0xfd, 0x20, ..] if is_attribute(TAIL + 3) && fits(TAIL + 8, PAGE, 1) => FileForm::Compound,
            // An enumeration of an older release: the name of its domain, then attribute and count.
            [0xfe, name, ..]
                if (name.is_ascii_alphabetic() || *name == b'.') && is_attribute(11) && fits(16, 24, 4) =>
            {
                FileForm::Compound
            }
            b"kxzipped" => FileForm::Compound,
            _ => FileForm::Plain,
        }
    }
}

/// Appends bytes whole or not at all: half a message, as a full disk leaves it, would make those appended later unreadable. With several writers of
/// one file the half stays if another has written behind it; one that writes at the very moment of the cut would lose its message.
fn append(file: &mut std::fs::File, bytes: &[u8], handle: i64) -> Result<(), QError> {
    let mut written = 0;
    while written < bytes.len() {
        let error = match file.write(bytes.get(written..).unwrap_or_default()) {
            Ok(0) => std::io::ErrorKind::WriteZero.into(),
            Ok(count) => {
                written += count;
                continue;
            }
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => continue,
            Err(error) => error,
        };
        let end = file.stream_position().unwrap_or(0);
        if written > 0 && file.metadata().is_ok_and(|found| found.is_file() && found.len() == end) {
            // The part stays if this fails, too: the error is reported either way.
            let _ = file.set_len(end.saturating_sub(written as u64));
        }
        return Err(QError::reported(format_args!("Cannot write to handle {handle}"), &error));
    }
    Ok(())
}

/// Appends text, bytes or items as in memory to a file; a negative handle ends each text with a newline. Readers take the items up to the
/// end of the file, so the count in its head stays as it is.
pub(super) fn write(file: &mut std::fs::File, holds: FileForm, handle: i64, message: &Value) -> Result<Value, QError> {
    let mut out = Vec::new();
    let mut line = |text: &[u8]| {
        out.extend_from_slice(text);
        if handle < 0 && matches!(holds, FileForm::Plain) {
            out.push(b'\n');
        }
    };
    let number = message.type_number().unsigned_abs() as i8;
    let is_mixed = number == 0 && message.items().iter().any(|item| item.as_text().is_none());
    if is_mixed && handle > 0 && matches!(holds, FileForm::Plain) {
        return write_items(file, handle, message);
    }
    match (holds, message) {
        (FileForm::Compound, _) => {
            return Err(QError::with("type", "append to this file by its name, with upsert"));
        }
        (FileForm::Items(t), _) if t != number => return Err(QError::named("type")),
        (FileForm::Symbols, Value::Sym(_)) => line(&in_memory(message)?),
        (FileForm::Symbols, other) if other.as_symbols().is_some() => line(&in_memory(message)?),
        (FileForm::Symbols, _) => return Err(QError::named("type")),
        (_, other) if other.as_text().is_some() => line(other.as_text().unwrap_or_default()),
        _ if matches!(number, 1..=9 | 12..=19) => line(&in_memory(message)?),
        (_, other) => {
            for text in other.items() {
                line(text.as_text().ok_or(QError::named("type"))?);
            }
        }
    }
    append(file, &out, handle)?;
    Ok(Value::Int(i32::try_from(handle).unwrap_or(0)))
}

/// Bytes of an atom's or a vector's items.
fn in_memory(x: &Value) -> Result<Vec<u8>, QError> {
    /// Bytes before the items of a serialised vector (type, attribute and 32-bit count) and of an atom (type).
    const OF_VECTOR: usize = 6;
    const OF_ATOM: usize = 1;
    let message = wire::message(x)?;
    let head = if x.is_atom() { OF_ATOM } else { OF_VECTOR };
    Ok(message.get(proto::HEADER_BYTES + head..).unwrap_or_default().to_vec())
}

/// Appends each item of a list; anything else is one item. The count in the file's head stays as it is, as kdb+ leaves it.
pub(super) fn write_items(file: &mut std::fs::File, handle: i64, message: &Value) -> Result<Value, QError> {
    let mut out = Vec::new();
    let items = if let Value::Vector(_) = message { message.items() } else { vec![message.clone()] };
    for item in &items {
        let message = wire::message(item)?;
        out.extend_from_slice(message.get(proto::HEADER_BYTES..).unwrap_or_default());
    }
    append(file, &out, handle)?;
    Ok(Value::Int(i32::try_from(handle).unwrap_or(0)))
}
