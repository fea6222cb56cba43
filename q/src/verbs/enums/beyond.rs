//! Items of an enumeration beyond the end of its domain: another process has extended the file of symbols since it was loaded. An enumeration holds
//! symbols, so such an item is a symbol that spells its position and shows as nothing. It is written, and cast to a number, as that position: a table
//! that is sorted on disk keeps its symbols.

use crate::runtime::error::QError;
use columns::table::Sym;
use columns::table::symbol::{intern, text};

/// Begins the spelling of a position; its binary digits follow. None of the bytes is visible, or ends a symbol on the wire.
const MARK: &[u8] = &[1, 1];
const ZERO: u8 = 2;
const ONE: u8 = 3;

/// Symbol for a position.
///
/// # Errors
/// `limit` if the symbol table is full.
pub(crate) fn symbol(place: i64) -> Result<Sym, QError> {
    let bits = i64::BITS.saturating_sub(place.leading_zeros());
    let digits = (0..bits).map(|bit| if place >> bit & 1 == 1 { ONE } else { ZERO });
    intern(&MARK.iter().copied().chain(digits).collect::<Vec<u8>>()).map_err(QError::from)
}

/// Position that a symbol stands for; the null for any other symbol.
pub(super) fn place(symbol: Sym) -> i64 {
    let Some(digits) = text(symbol).strip_prefix(MARK).filter(|digits| digits.len() < i64::BITS as usize) else {
        return i64::MIN;
    };
    let mut place = 0;
    for (bit, digit) in digits.iter().enumerate() {
        match *digit {
            ZERO => {}
            ONE => place |= 1 << bit,
            _ => return i64::MIN,
        }
    }
    place
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_position_is_that_of_its_symbol() {
        for at in [0, 1, 2, 5, 1000, i64::MAX] {
            assert_eq!(place(symbol(at).expect("interned")), at);
        }
        for other in [&b""[..], b"a", &[1], &[1, 1, 4], &[[1u8, 1].as_slice(), &[2; 64]].concat()] {
            assert_eq!(place(intern(other).expect("interned")), i64::MIN);
        }
    }
}
