//! Lists as kdb+ maps them since 3.6, in the form that [`super::mapped`] reads: references for a file, objects for the file `#` beside it, and the
//! symbols in them for `##`.

use super::fixed::is_simple;
use super::mapped::{ALIGNED_BYTES, LIST, OBJECT, WHOLE, head_of};
use crate::io::wire;
use crate::runtime::context::Context;
use crate::runtime::error::QError;
use columns::table::wire::attribute_code;
use columns::table::{Attr, Dict, Items, Sym, Value, Vector};
use proto::types;
use std::borrow::Cow;
use std::collections::HashMap;

type Held<T> = std::result::Result<T, QError>;

/// Bytes of the longest vector that is stored without a head.
const SHORT_BYTES: usize = 127;

/// Objects and symbols that are to be added to those of a list's files.
pub(super) struct Mapper {
    /// Bytes before the new objects.
    start: usize,
    pub objects: Vec<u8>,
    places: HashMap<Sym, u32>,
    pub symbols: Vec<Sym>,
    /// Lists in lists stay references when they are read: what `1:` writes.
    maps_within: bool,
}

/// Serialised form of a value without the message's header and its own.
fn payload(value: &Value, head: usize) -> Held<Vec<u8>> {
    let mut bytes = wire::message(value)?;
    bytes.drain(..bytes.len().min(proto::HEADER_BYTES + head));
    Ok(bytes)
}

impl Mapper {
    /// A mapper that adds to objects of so many bytes, with these symbols.
    pub fn after(objects: usize, known: &[Sym], maps_within: bool) -> Mapper {
        let places = known.iter().zip(0..).map(|(name, at)| (*name, at)).collect();
        Mapper { start: objects, objects: Vec::new(), places, symbols: Vec::new(), maps_within }
    }

    /// Adds items; returns their references, `None` if one of them is a function or holds one.
    pub fn references(&mut self, context: &mut Context, items: &[Value]) -> Held<Option<Vec<u8>>> {
        let mut out = Vec::with_capacity(items.len().saturating_mul(8));
        for item in items {
            let Some(reference) = self.object(context, item, !self.maps_within)? else { return Ok(None) };
            out.extend_from_slice(&reference.to_le_bytes());
        }
        Ok(Some(out))
    }

    fn pad(&mut self, multiple: usize) -> usize {
        let length = (self.start + self.objects.len()).next_multiple_of(multiple);
        self.objects.resize(length - self.start, 0);
        length
    }

    fn place(&mut self, name: Sym) -> Held<u32> {
        if let Some(at) = self.places.get(&name) {
            return Ok(*at);
        }
        let at = u32::try_from(self.places.len()).map_err(|_| QError::named("limit"))?;
        self.places.insert(name, at);
        self.symbols.push(name);
        Ok(at)
    }

    fn head(&mut self, t: i8, attr: Attr, count: usize) -> usize {
        let at = self.pad(ALIGNED_BYTES);
        self.objects.extend_from_slice(&[OBJECT, 0, t.cast_unsigned(), attribute_code(attr), 1, 0, 0, 0]);
        self.objects.extend_from_slice(&(count as u64).to_le_bytes());
        at
    }

    /// Adds an object; returns a reference to it. `is_whole`: a list is read as a list in memory.
    fn object(&mut self, context: &mut Context, value: &Value, is_whole: bool) -> Held<Option<u64>> {
        context.enter()?;
        let plain;
        let value = match value.is_enumerated() {
            true => {
                plain = value.clone().plain();
                &plain
            }
            false => value,
        };
        let (at, is_whole) = match value {
            Value::Null | Value::Func(_) => return Ok(None),
            Value::Vector(Vector { items: Items::List(items), .. }) => {
                let parts: Vec<&Value> = items.iter().collect();
                let Some(at) = self.container(context, LIST, &parts, is_whole)? else { return Ok(None) };
                (at, is_whole)
            }
            Value::Vector(Vector { items: Items::Sym(names), attr }) => (self.names(names, *attr)?, true),
            Value::Vector(v) if is_simple(v.items.type_number()) => {
                let bytes = match &v.items {
                    Items::Char(text) => Cow::Borrowed(&text[..]),
                    _ => Cow::Owned(payload(value, VECTOR_HEAD)?),
                };
                match (v.attr, u8::try_from(v.len())) {
                    (Attr::None, Ok(count)) if bytes.len() <= SHORT_BYTES => {
                        (self.short(&[head_of(v.items.type_number()), count], &bytes), true)
                    }
                    (attr, _) => {
                        let sorted = if attr == Attr::Sorted { attr } else { Attr::None };
                        let at = self.head(v.items.type_number(), sorted, v.len());
                        self.objects.extend_from_slice(&bytes);
                        (at, false)
                    }
                }
            }
            Value::Vector(_) => return Ok(None),
            Value::Sym(name) => {
                let place = self.place(*name)?.to_le_bytes();
                (self.short(&[head_of(-types::SYMBOL)], &place), true)
            }
            Value::Dict(d) => {
                let Dict { keys, values, .. } = &**d;
                let Some(at) = self.container(context, types::DICT, &[keys, values], true)? else { return Ok(None) };
                (at, true)
            }
            Value::Table(t) => {
                let columns = t.columns.iter().map(|c| Value::Vector(c.clone())).collect::<Vec<_>>();
                let columns = Value::from(Vector::from(Items::List(columns.into())));
                let names = Value::symbols(t.names.clone());
                let parts = [&names, &columns];
                let Some(at) = self.container(context, types::TABLE, &parts, false)? else { return Ok(None) };
                (at, true)
            }
            atom => {
                let bytes = payload(atom, 1)?;
                (self.short(&[head_of(atom.type_number())], &bytes), true)
            }
        };
        Ok(Some(at as u64 | if is_whole { WHOLE } else { 0 }))
    }

    /// Adds a head and references to its parts, which follow it.
    fn container(&mut self, context: &mut Context, t: i8, parts: &[&Value], is_whole: bool) -> Held<Option<usize>> {
        let at = self.head(t, Attr::None, parts.len());
        let first = self.objects.len();
        self.objects.resize(first.saturating_add(parts.len().saturating_mul(8)), 0);
        for (index, part) in parts.iter().enumerate() {
            let Some(reference) = self.object(context, part, is_whole)? else { return Ok(None) };
            let slot = self.objects.iter_mut().skip(first + index * 8);
            slot.zip(reference.to_le_bytes()).for_each(|(slot, byte)| *slot = byte);
        }
        Ok(Some(at))
    }

    fn short(&mut self, head: &[u8], bytes: &[u8]) -> usize {
        let at = self.pad(8);
        self.objects.extend_from_slice(head);
        self.objects.extend_from_slice(bytes);
        at
    }

    fn names(&mut self, names: &[Sym], attr: Attr) -> Held<usize> {
        let places: Held<Vec<u32>> = names.iter().map(|name| self.place(*name)).collect();
        let places = places?;
        match u8::try_from(places.len()) {
            Ok(count) if attr == Attr::None && places.len() * 4 <= SHORT_BYTES => {
                let bytes: Vec<u8> = places.iter().flat_map(|place| place.to_le_bytes()).collect();
                Ok(self.short(&[head_of(types::SYMBOL), count], &bytes))
            }
            _ => {
                let sorted = if attr == Attr::Sorted { attr } else { Attr::None };
                let at = self.head(types::ENUM, sorted, places.len());
                self.objects.extend(places.iter().flat_map(|place| u64::from(*place).to_le_bytes()));
                Ok(at)
            }
        }
    }
}

/// Bytes of a serialised vector before its items: type, attribute and 32-bit count.
const VECTOR_HEAD: usize = 6;
