//! Names and letters of types and attributes.

use crate::syntax::literal::LETTERS;
use crate::syntax::prims;
use columns::table::{Attr, Sym};
use proto::types;

/// Type names in `` `float$ `` and the like.
pub(crate) const NAMES: [(&str, i8); 18] = [
    ("boolean", types::BOOL),
    ("guid", types::GUID),
    ("byte", types::BYTE),
    ("short", types::SHORT),
    ("int", types::INT),
    ("long", types::LONG),
    ("real", types::REAL),
    ("float", types::FLOAT),
    ("char", types::CHAR),
    ("symbol", types::SYMBOL),
    ("timestamp", types::TIMESTAMP),
    ("month", types::MONTH),
    ("date", types::DATE),
    ("datetime", types::DATETIME),
    ("timespan", types::TIMESPAN),
    ("minute", types::MINUTE),
    ("second", types::SECOND),
    ("time", types::TIME),
];

/// A type's name, as `key` of an empty vector returns it and `` `name$ `` accepts it.
pub(crate) fn type_name(number: i8) -> &'static str {
    NAMES.iter().find(|(_, n)| *n == number).map_or("", |(name, _)| name)
}

/// The letter of a type in `meta` and `.Q.ty`.
pub(crate) fn letter(number: i8) -> u8 {
    usize::try_from(number).ok().and_then(|n| LETTERS.get(n)).copied().unwrap_or(b' ')
}

/// The symbol of an attribute, null for none.
pub(crate) fn attribute_name(attr: Attr) -> Sym {
    prims::name(match attr {
        Attr::None | Attr::Mapped(_) => "",
        Attr::Sorted => "s",
        Attr::Unique => "u",
        Attr::Parted => "p",
        Attr::Grouped => "g",
    })
}
