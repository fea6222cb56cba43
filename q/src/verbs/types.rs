//! Names and letters of types and attributes.

use crate::syntax::literal::LETTERS;
use crate::syntax::prims;
use columns::table::{Attr, Sym};

/// Type names in `` `float$ `` and the like.
pub(crate) const NAMES: [(&str, i8); 18] = [
    ("boolean", 1),
    ("guid", 2),
    ("byte", 4),
    ("short", 5),
    ("int", 6),
    ("long", 7),
    ("real", 8),
    ("float", 9),
    ("char", 10),
    ("symbol", 11),
    ("timestamp", 12),
    ("month", 13),
    ("date", 14),
    ("datetime", 15),
    ("timespan", 16),
    ("minute", 17),
    ("second", 18),
    ("time", 19),
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
        Attr::None => "",
        Attr::Sorted => "s",
        Attr::Unique => "u",
        Attr::Parted => "p",
        Attr::Grouped => "g",
    })
}
