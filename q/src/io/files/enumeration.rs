//! Enumerations from files: positions in their domains.

use super::fixed::Source;
use super::tagged;
use crate::runtime::context::Context;
use crate::runtime::error::QError;
use crate::verbs::enums;
use columns::table::symbol::{self, intern};
use columns::table::{Items, Sym, Value, Vector};
use std::cell::RefCell;

/// Returns the symbols of a domain at the indices that a source has, or the indices if the domain is not loaded. An index beyond
/// the end of the domain becomes a [`symbol::placeholder`].
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
            let failed = RefCell::new(None);
            let items = source.items(|bytes| {
                let place = place(bytes);
                match usize::try_from(place).ok().and_then(|place| known.get(place)) {
                    Some(symbol) => *symbol,
                    None => missing(place, &failed),
                }
            })?;
            match failed.into_inner() {
                Some(error) => Err(error),
                None => Ok(Items::Enum(name, items.into())),
            }
        }
        _ => Ok(tagged::item(context, name, Value::longs(source.items(place)?))?.to_items()),
    }
}

/// The item at a place that the domain does not have. Kept out of the loop over the items, which is fast without it.
#[cold]
#[inline(never)]
fn missing(place: i64, failed: &RefCell<Option<QError>>) -> Sym {
    let symbol = if place < 0 { Ok(Sym::NULL) } else { symbol::placeholder(place).map_err(QError::from) };
    symbol.unwrap_or_else(|error| {
        *failed.borrow_mut() = Some(error);
        Sym::NULL
    })
}
