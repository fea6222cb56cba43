//! Type codes, item widths, nulls and infinities.
//!
//! The code of an atom is the negative of its vector's. Types 20 to 97 (enumerations, mapped lists) are never
//! serialised: q converts them to plain symbols and lists first.

/// General list.
pub const LIST: i8 = 0;
/// Boolean: one byte, 0 or 1.
pub const BOOL: i8 = 1;
/// Guid: 16 bytes in printing order.
pub const GUID: i8 = 2;
/// Byte.
pub const BYTE: i8 = 4;
/// 16-bit integer.
pub const SHORT: i8 = 5;
/// 32-bit integer.
pub const INT: i8 = 6;
/// 64-bit integer.
pub const LONG: i8 = 7;
/// 32-bit IEEE float.
pub const REAL: i8 = 8;
/// 64-bit IEEE float.
pub const FLOAT: i8 = 9;
/// Character: one byte.
pub const CHAR: i8 = 10;
/// Symbol: bytes ended by NUL.
pub const SYMBOL: i8 = 11;
/// Boolean atom.
pub const BOOL_ATOM: i8 = -BOOL;
/// Time atom.
pub const TIME_ATOM: i8 = -TIME;
/// Character atom: how some clients send a text of one character.
pub const CHAR_ATOM: i8 = -CHAR;
/// A symbol atom: the only simple atom without a fixed width.
pub const SYMBOL_ATOM: i8 = -SYMBOL;
/// Nanoseconds from 2000.01.01, as a long.
pub const TIMESTAMP: i8 = 12;
/// Months from 2000.01, as an int.
pub const MONTH: i8 = 13;
/// Days from 2000.01.01, as an int.
pub const DATE: i8 = 14;
/// Days from 2000.01.01, as a float.
pub const DATETIME: i8 = 15;
/// Nanoseconds, as a long.
pub const TIMESPAN: i8 = 16;
/// Minutes, as an int.
pub const MINUTE: i8 = 17;
/// Seconds, as an int.
pub const SECOND: i8 = 18;
/// Milliseconds, as an int.
pub const TIME: i8 = 19;
/// Symbols of an enumeration, in memory and in files only.
pub const ENUM: i8 = 20;
/// Table.
pub const TABLE: i8 = 98;
/// Dictionary.
pub const DICT: i8 = 99;
/// Lambda: namespace and source text.
pub const LAMBDA: i8 = 100;
/// Primitive of one argument; code 0 is the generic null `::`, code 0xff an elided argument.
pub const UNARY: i8 = 101;
/// Primitive of two arguments.
pub const BINARY: i8 = 102;
/// Iterator such as `/` or `'`.
pub const ITERATOR: i8 = 103;
/// Projection: a function and its arguments, some of them elided.
pub const PROJECTION: i8 = 104;
/// Composition of functions.
pub const COMPOSITION: i8 = 105;
/// First of the functions derived by an iterator (`f'`).
pub const EACH: i8 = 106;
/// Derived by `/`.
pub const OVER: i8 = 107;
/// Derived by `\`.
pub const SCAN: i8 = 108;
/// Derived by `':`.
pub const EACH_PRIOR: i8 = 109;
/// Derived by `/:`.
pub const EACH_RIGHT: i8 = 110;
/// Last of the functions derived by an iterator (`f\:`).
pub const EACH_LEFT: i8 = 111;
/// Sorted dictionary.
pub const SORTED_DICT: i8 = 127;
/// Error object: NUL-terminated text, only as a whole message.
pub const ERROR: i8 = -128;

/// Code of the generic null `::` among the unary primitives.
pub const UNARY_NULL: u8 = 0x00;
/// Code of an elided argument among the unary primitives.
pub const UNARY_HOLE: u8 = 0xff;

/// Attribute byte: none.
pub const ATTR_NONE: u8 = 0;
/// Attribute byte: sorted, `` `s# ``.
pub const ATTR_SORTED: u8 = 1;
/// Attribute byte: unique, `` `u# ``.
pub const ATTR_UNIQUE: u8 = 2;
/// Attribute byte: parted, `` `p# ``.
pub const ATTR_PARTED: u8 = 3;
/// Attribute byte: grouped, `` `g# ``.
pub const ATTR_GROUPED: u8 = 4;

/// Null short, `0Nh`.
pub const NULL_SHORT: i16 = i16::MIN;
/// Null int, also of month, date, minute, second and time.
pub const NULL_INT: i32 = i32::MIN;
/// Null long, also of timestamp and timespan.
pub const NULL_LONG: i64 = i64::MIN;
/// Null real as q writes it. Any NaN reads as null.
pub const NULL_REAL: f32 = f32::from_bits(0x7fc0_0000);
/// Null float as q writes it, also of datetime. Any NaN reads as null.
pub const NULL_FLOAT: f64 = f64::from_bits(0x7ff8_0000_0000_0000);
/// Null character.
pub const NULL_CHAR: u8 = b' ';
/// Null guid.
pub const NULL_GUID: [u8; 16] = [0; 16];
/// Infinite short, `0Wh`. Its negative is minus infinity.
pub const INF_SHORT: i16 = i16::MAX;
/// Infinite int. Its negative is minus infinity.
pub const INF_INT: i32 = i32::MAX;
/// Infinite long. Its negative is minus infinity.
pub const INF_LONG: i64 = i64::MAX;

/// Returns the bytes of one item of a fixed-width type, vector or atom; `None` for symbols, lists and all other types.
pub const fn width(ty: i8) -> Option<usize> {
    match ty.saturating_abs() {
        BOOL | BYTE | CHAR => Some(1),
        SHORT => Some(2),
        INT | REAL | MONTH | DATE | MINUTE | SECOND | TIME => Some(4),
        LONG | FLOAT | TIMESTAMP | DATETIME | TIMESPAN => Some(8),
        GUID => Some(16),
        _ => None,
    }
}

/// Returns the name of a vector's or atom's type, as in the kdb+ reference.
pub const fn name(ty: i8) -> &'static str {
    if ty == ERROR {
        return "error";
    }
    match ty.saturating_abs() {
        LIST => "list",
        BOOL => "boolean",
        GUID => "guid",
        BYTE => "byte",
        SHORT => "short",
        INT => "int",
        LONG => "long",
        REAL => "real",
        FLOAT => "float",
        CHAR => "char",
        SYMBOL => "symbol",
        TIMESTAMP => "timestamp",
        MONTH => "month",
        DATE => "date",
        DATETIME => "datetime",
        TIMESPAN => "timespan",
        MINUTE => "minute",
        SECOND => "second",
        TIME => "time",
        TABLE => "table",
        DICT | SORTED_DICT => "dictionary",
        LAMBDA => "lambda",
        UNARY => "unary primitive",
        BINARY => "binary primitive",
        ITERATOR => "iterator",
        PROJECTION => "projection",
        COMPOSITION => "composition",
        EACH..=EACH_LEFT => "derived function",
        _ => "unknown",
    }
}

/// Returns the suffix that marks the type of a literal, after a number or the last item of a vector; empty where the form itself shows it.
pub const fn literal_suffix(ty: i8) -> &'static str {
    match ty {
        BOOL => "b",
        SHORT => "h",
        INT => "i",
        REAL => "e",
        MONTH => "m",
        _ => "",
    }
}

/// Returns the letter of a simple type, as in `meta` and casts; `None` if it has none.
pub const fn letter(ty: i8) -> Option<u8> {
    Some(match ty.saturating_abs() {
        BOOL => b'b',
        GUID => b'g',
        BYTE => b'x',
        SHORT => b'h',
        INT => b'i',
        LONG => b'j',
        REAL => b'e',
        FLOAT => b'f',
        CHAR => b'c',
        SYMBOL => b's',
        TIMESTAMP => b'p',
        MONTH => b'm',
        DATE => b'd',
        DATETIME => b'z',
        TIMESPAN => b'n',
        MINUTE => b'u',
        SECOND => b'v',
        TIME => b't',
        _ => return None,
    })
}
