//! Reads enumerated columns of a table that kdb+ has saved as one file: `` `:t set ([]s:`sym$`a`b) ``.
//!
//! The bytes of `` `sym$`a`b `` in such a file, in order: type (20 to 76), `sym` and a zero byte, attribute, count (32 bits), and for each item its index in
//! `sym`: 64 bits, or 32 in files of releases before 3.6. IPC has no such form: it sends symbols.
//!
//! The layout follows from the published sizes of such files: 30 bytes for an empty table of one column, and one position for each row.

use super::tagged;
use crate::io::wire;
use crate::runtime::context::Context;
use crate::runtime::error::QError;
use crate::runtime::limits;
use columns::table::{Sym, Value, symbol};
use proto::{View, types};

type Held<T> = Result<T, QError>;

/// Most enumerations in one object: each of them changes the value around it.
const MAX_ENUMERATIONS: usize = 4096;

/// An enumeration in an object: its place, its domain, and the positions of its items.
struct Found {
    path: Vec<i64>,
    domain: Sym,
    places: Vec<i64>,
}

/// Rewrites an object with longs in the place of its enumerations.
struct Rewriter<'a, 'c, 'h> {
    context: &'c mut Context<'h>,
    rest: &'a [u8],
    /// Bytes of a position.
    width: usize,
    out: Vec<u8>,
    path: Vec<i64>,
    found: Vec<Found>,
}

impl<'a> Rewriter<'a, '_, '_> {
    /// Takes bytes from the object; `None` if it ends before.
    fn take(&mut self, bytes: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.rest.split_at_checked(bytes)?;
        self.rest = rest;
        Some(taken)
    }

    fn copy(&mut self, bytes: usize) -> Option<&'a [u8]> {
        let taken = self.take(bytes)?;
        self.out.extend_from_slice(taken);
        Some(taken)
    }

    fn inside(&mut self, at: usize) -> Held<Option<()>> {
        self.path.push(at as i64);
        let done = self.object();
        self.path.pop();
        done
    }

    /// `None` for bytes that are no object of this width.
    fn object(&mut self) -> Held<Option<()>> {
        self.context.enter()?;
        let Some(kind) = self.rest.first().copied() else { return Ok(None) };
        match kind.cast_signed() {
            20..=76 if self.found.len() >= MAX_ENUMERATIONS => {
                Err(QError::with("limit", format!("more than {MAX_ENUMERATIONS} enumerations in one file")))
            }
            20..=76 => Ok(self.enumeration()),
            types::TABLE => {
                // Attribute, then the dictionary of names and columns.
                let names = self.copy(3).is_some() && self.whole()?.is_some();
                if names { self.items() } else { Ok(None) }
            }
            types::DICT | types::SORTED_DICT => {
                if self.copy(1).is_none() || self.inside(0)?.is_none() {
                    return Ok(None);
                }
                self.inside(1)
            }
            types::LIST => self.items(),
            _ => self.whole(),
        }
    }

    fn items(&mut self) -> Held<Option<()>> {
        let Some([0, _, count @ ..]) = self.copy(6) else { return Ok(None) };
        let Ok(count) = <[u8; 4]>::try_from(count) else { return Ok(None) };
        for at in 0..u32::from_le_bytes(count) as usize {
            if self.inside(at)?.is_none() {
                return Ok(None);
            }
        }
        Ok(Some(()))
    }

    /// An object without enumerations.
    fn whole(&mut self) -> Held<Option<()>> {
        let Ok((_, used)) = View::parse(self.rest, proto::Endian::Little, &proto::Limits::default()) else {
            return Ok(None);
        };
        limits::room(used)?;
        Ok(self.copy(used).map(|_| ()))
    }

    fn enumeration(&mut self) -> Option<()> {
        self.take(1)?;
        let name_bytes = self.rest.iter().position(|byte| *byte == 0)?;
        let domain = symbol::intern_name(self.take(name_bytes)?).ok()?;
        self.take(1)?;
        let attr = *self.take(1)?.first()?;
        let count = self.take(4)?;
        let rows = u32::from_le_bytes(count.try_into().ok()?) as usize;
        let width = self.width;
        let positions = self.take(rows.checked_mul(width)?)?.chunks_exact(width);
        let places: Option<Vec<i64>> = positions
            .map(|place| match width {
                8 => Some(i64::from_le_bytes(place.try_into().ok()?)),
                _ => Some(i64::from(i32::from_le_bytes(place.try_into().ok()?))),
            })
            .collect();
        let places = places?;
        self.out.extend_from_slice(&[types::LONG.cast_unsigned(), attr]);
        self.out.extend_from_slice(count);
        places.iter().for_each(|place| self.out.extend_from_slice(&place.to_le_bytes()));
        self.found.push(Found { path: self.path.clone(), domain, places });
        Some(())
    }
}

/// Returns the value of an object with enumerations; `None` if the bytes are none, or something follows.
///
/// # Errors
/// `wsfull` and `stop` at the limits; `stack` if it nests too deep.
pub(super) fn decoded(context: &mut Context, body: &[u8]) -> Held<Option<Value>> {
    for width in [8, 4] {
        let mut rewriter =
            Rewriter { context, rest: body, width, out: Vec::new(), path: Vec::new(), found: Vec::new() };
        let is_whole = rewriter.object()?.is_some() && rewriter.rest.is_empty();
        let Rewriter { out, found, .. } = rewriter;
        if !is_whole || found.is_empty() {
            continue;
        }
        let Ok((view, _)) = View::parse(&out, proto::Endian::Little, &proto::Limits::default()) else { continue };
        let mut value = wire::from_view(&view)?;
        for Found { path, domain, places } in found {
            let items = tagged::item(context, domain, Value::longs(places))?;
            value = tagged::put(context, value, &path, items)?;
        }
        return Ok(Some(value));
    }
    Ok(None)
}
