//! Steps over an object without decoding it.
//!
//! A walk checks everything that later reading relies on: known types, counts that the bytes can hold, a NUL after
//! every symbol, as many values as keys, columns of equal length, and the depth. It allocates nothing. A vector of
//! fixed-width items costs one bounds check, a symbol vector one pass over its bytes.

use crate::cursor::Cursor;
use crate::error::{DecodeError, DecodeErrorKind};
use crate::head::Head;
use crate::header::Endian;
use crate::limits::{DEEPEST, Limits};
use crate::types;

/// Returns the length in bytes of the object at the start of `bytes`.
///
/// # Errors
/// `Incomplete` if the bytes end inside the object and are otherwise valid; else the error, with its offset.
pub fn object(bytes: &[u8], endian: Endian, limits: &Limits) -> Result<usize, DecodeError> {
    let mut cursor = Cursor::new(bytes, endian);
    if bytes.first() == Some(&types::ERROR.cast_unsigned()) {
        cursor.byte()?;
        cursor.text()?;
    } else {
        step(&mut cursor, limits.depth(), limits.depth())?;
    }
    Ok(cursor.offset())
}

/// Count of a table by name. Neither a column nor half of a dictionary has it.
const UNKNOWN: usize = usize::MAX;

/// Steps over an object that was walked as part of another one.
pub(crate) fn skip(cursor: &mut Cursor<'_>) -> Result<(), DecodeError> {
    step(cursor, DEEPEST, DEEPEST).map(drop)
}

/// Steps over one object and returns its q `count`. `depth_left` of `max_depth` levels may still be opened.
fn step(cursor: &mut Cursor<'_>, max_depth: usize, depth_left: usize) -> Result<usize, DecodeError> {
    let Some(inner) = depth_left.checked_sub(1) else {
        return Err(cursor.error(DecodeErrorKind::TooDeep { max_depth }));
    };
    let start = *cursor;
    let ty = cursor.ty()?;
    if let Some(width) = types::width(ty) {
        if ty < 0 {
            cursor.take(width)?;
            return Ok(1);
        }
        let count = Head::after_type(ty, cursor)?.count();
        let Some(bytes) = count.checked_mul(width) else {
            return Err(cursor.error(DecodeErrorKind::Incomplete));
        };
        cursor.take(bytes)?;
        return Ok(count);
    }
    match ty {
        types::LIST => {
            let count = Head::after_type(ty, cursor)?.count();
            for _ in 0..count {
                step(cursor, max_depth, inner)?;
            }
            Ok(count)
        }
        types::SYMBOL => {
            let count = Head::after_type(ty, cursor)?.count();
            let run = symbol_run(cursor.rest(), count).ok_or(cursor.error(DecodeErrorKind::Incomplete))?;
            cursor.take(run)?;
            Ok(count)
        }
        types::SYMBOL_ATOM => {
            cursor.text()?;
            Ok(1)
        }
        types::TABLE => {
            cursor.byte()?;
            table(cursor, max_depth, inner)
        }
        types::DICT | types::SORTED_DICT => {
            expect_type(cursor, is_countable, DecodeErrorKind::NotADict)?;
            let keys = step(cursor, max_depth, inner)?;
            let values_at = *cursor;
            expect_type(cursor, is_countable, DecodeErrorKind::NotADict)?;
            let values = step(cursor, max_depth, inner)?;
            if keys == UNKNOWN || values == UNKNOWN {
                return Err(start.error(DecodeErrorKind::NotADict));
            }
            if keys != values {
                return Err(values_at.error(DecodeErrorKind::Length { expected: keys, found: values }));
            }
            Ok(keys)
        }
        types::LAMBDA => {
            cursor.text()?;
            expect_type(cursor, |ty| ty == types::CHAR, DecodeErrorKind::NotASource)?;
            step(cursor, max_depth, inner)?;
            Ok(1)
        }
        types::UNARY | types::BINARY | types::ITERATOR => {
            cursor.byte()?;
            Ok(1)
        }
        types::PROJECTION | types::COMPOSITION => {
            let count = cursor.count()?;
            for _ in 0..count {
                step(cursor, max_depth, inner)?;
            }
            Ok(1)
        }
        types::EACH..=types::EACH_LEFT => {
            step(cursor, max_depth, inner)?;
            Ok(1)
        }
        _ => Err(start.error(DecodeErrorKind::UnknownType(ty))),
    }
}

/// Steps over the dictionary of a table: a symbol vector as keys, a general list of columns or a place as values. Returns the number
/// of rows, or [`UNKNOWN`].
fn table(cursor: &mut Cursor<'_>, max_depth: usize, depth_left: usize) -> Result<usize, DecodeError> {
    let Some(inner) = depth_left.checked_sub(1) else {
        return Err(cursor.error(DecodeErrorKind::TooDeep { max_depth }));
    };
    expect_type(cursor, |ty| matches!(ty, types::DICT | types::SORTED_DICT), DecodeErrorKind::NotATable)?;
    cursor.ty()?;
    expect_type(cursor, |ty| ty == types::SYMBOL, DecodeErrorKind::NotATable)?;
    let names = step(cursor, max_depth, inner)?;
    if cursor.rest().first() == Some(&types::SYMBOL_ATOM.cast_unsigned()) {
        step(cursor, max_depth, inner)?;
        return Ok(UNKNOWN);
    }
    expect_type(cursor, |ty| ty == types::LIST, DecodeErrorKind::NotATable)?;
    let columns_at = *cursor;
    let ty = cursor.ty()?;
    let columns = Head::after_type(ty, cursor)?.count();
    if names != columns {
        return Err(columns_at.error(DecodeErrorKind::Length { expected: names, found: columns }));
    }
    let mut rows = None;
    for _ in 0..columns {
        let column_at = *cursor;
        expect_type(cursor, is_column, DecodeErrorKind::NotATable)?;
        let found = step(cursor, max_depth, inner.saturating_sub(1))?;
        if found == UNKNOWN {
            return Err(column_at.error(DecodeErrorKind::NotATable));
        }
        let expected = *rows.get_or_insert(found);
        if found != expected {
            return Err(column_at.error(DecodeErrorKind::Length { expected, found }));
        }
    }
    Ok(rows.unwrap_or(0))
}

/// Returns whether an object of this type can be the keys or values of a dictionary.
pub(crate) const fn is_countable(ty: i8) -> bool {
    matches!(ty, types::LIST..=types::TIME | types::TABLE | types::DICT | types::SORTED_DICT)
}

/// Returns whether an object of this type can be a column.
pub(crate) const fn is_column(ty: i8) -> bool {
    matches!(ty, types::LIST..=types::TIME | types::TABLE)
}

fn expect_type(cursor: &Cursor<'_>, allowed: fn(i8) -> bool, wrong: DecodeErrorKind) -> Result<(), DecodeError> {
    match cursor.rest().first() {
        None => Err(cursor.error(DecodeErrorKind::Incomplete)),
        Some(ty) if allowed(ty.cast_signed()) => Ok(()),
        Some(_) => Err(cursor.error(wrong)),
    }
}

/// Returns the bytes of `count` NUL-terminated symbols at the start of `bytes`; `None` if `bytes` ends earlier.
fn symbol_run(bytes: &[u8], count: usize) -> Option<usize> {
    /// Counting NULs in blocks of this size compiles to vector instructions; most symbols are shorter.
    const BLOCK: usize = 64;
    // Every symbol takes at least its NUL.
    if count > bytes.len() {
        return None;
    }
    let mut missing = count;
    let mut passed: usize = 0;
    let (blocks, _) = bytes.as_chunks::<BLOCK>();
    for block in blocks {
        let nuls = block.iter().map(|byte| u8::from(*byte == 0)).sum::<u8>();
        match missing.checked_sub(usize::from(nuls)) {
            Some(left) if left > 0 => missing = left,
            _ => break,
        }
        passed = passed.checked_add(BLOCK)?;
    }
    for byte in bytes.get(passed..)? {
        if missing == 0 {
            break;
        }
        passed = passed.checked_add(1)?;
        missing = missing.checked_sub(usize::from(*byte == 0))?;
    }
    (missing == 0).then_some(passed)
}
