//! Enumerations from files: positions in their domains.

use super::fixed::Source;
use super::tagged;
use crate::runtime::context::Context;
use crate::runtime::error::QError;
use crate::verbs::enums;
use columns::table::symbol::intern;
use columns::table::{Items, Sym, Value, Vector};

/// Returns the symbols of a domain at the indices that a source has, or the indices if the domain is not loaded.
pub(super) fn enumeration<const N: usize>(
    context: &mut Context,
    name: &[u8],
    source: &mut impl Source,
    place: impl Fn([u8; N]) -> i64,
) -> std::result::Result<Items, QError> {
    let name = intern(name).map_err(QError::from)?;
    match context.host.global(name) {
        Some(Value::Vector(Vector { items: Items::Sym(known), .. })) => {
            enums::note(name);
            let at = |bytes| usize::try_from(place(bytes)).ok().and_then(|place| known.get(place)).copied();
            Ok(Items::Enum(name, source.items(|bytes| at(bytes).unwrap_or(Sym::NULL))?.into()))
        }
        _ => Ok(tagged::item(context, name, Value::longs(source.items(place)?))?.to_items()),
    }
}
