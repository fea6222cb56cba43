//! Conversion of serialised data to values: everything but functions.

use super::symbol::{self, TooManySymbols};
use super::value::{Dict, Table, Value};
use super::vector::{Attr, Items, Vector};
use crate::kernel::sym::Sym;
use crate::sys::shared::{Held, Shared};
use proto::view::VectorView;
use proto::{View, types};
use std::sync::Arc;

/// Reason why an object could not become a value.
#[derive(Clone, Copy, Debug)]
pub enum NoData {
    /// It is, or contains, a function or an error.
    Kind,
    /// `room` returned false.
    Room,
    Symbols(TooManySymbols),
}

impl From<TooManySymbols> for NoData {
    fn from(full: TooManySymbols) -> NoData {
        NoData::Symbols(full)
    }
}

/// Returns the value of a data object. Its nesting is bounded by the limits under which `view` was parsed.
///
/// # Errors
/// [`NoData`], but never [`NoData::Room`].
pub fn data(view: &View<'_>) -> Result<Value, NoData> {
    data_within(view, &mut |_| true)
}

/// As [`data`]. Calls `room` with the bytes of each vector and list before it allocates them; false stops the conversion.
///
/// # Errors
/// [`NoData`].
pub fn data_within(view: &View<'_>, room: &mut impl FnMut(usize) -> bool) -> Result<Value, NoData> {
    if let Some(vector) = view.vector() {
        // A serialised symbol takes at least one byte, a symbol in memory four.
        let held = if vector.ty == types::SYMBOL { size_of::<Sym>() } else { 1 };
        if !room(vector.items.len().saturating_mul(held)) {
            return Err(NoData::Room);
        }
        return Ok(Value::Vector(Vector { attr: attribute(vector.attr), items: items(&vector)? }));
    }
    Ok(match view.type_code() {
        types::LIST => {
            let list = view.list().ok_or(NoData::Kind)?;
            if !room(list.count.saturating_mul(size_of::<Value>())) {
                return Err(NoData::Room);
            }
            let mut items = Vec::with_capacity(list.count.min(list.body.len()));
            for item in list.iter() {
                items.push(data_within(&item, room)?);
            }
            Value::Vector(Vector { attr: attribute(list.attr), items: listed(items) })
        }
        types::SYMBOL_ATOM => Value::Sym(symbol::intern(view.symbol().ok_or(NoData::Kind)?)?),
        types::TABLE => {
            let table = view.table().ok_or(NoData::Kind)?;
            let names = table.names.symbols().map(symbol::intern).collect::<Result<Vec<Sym>, TooManySymbols>>()?;
            let columns = table.columns.iter().map(|column| match data_within(&column, room)? {
                Value::Vector(vector) => Ok(vector),
                _ => Err(NoData::Kind),
            });
            Value::Table(Arc::new(Table {
                sorted: table.attr == types::ATTR_SORTED,
                names,
                columns: columns.collect::<Result<Vec<Vector>, NoData>>()?,
            }))
        }
        types::DICT | types::SORTED_DICT => {
            let dict = view.dict().ok_or(NoData::Kind)?;
            let (keys, values) = (data_within(&dict.keys, room)?, data_within(&dict.values, room)?);
            Value::Dict(Held::new(Dict { sorted: dict.sorted, keys, values }))
        }
        types::UNARY if view.is_null() => Value::Null,
        ty => ty.checked_neg().and_then(|ty| atom(view, ty)).ok_or(NoData::Kind)?,
    })
}

/// Items of a serialised general list. As in kdb+, atoms of one type become a vector: KX's JavaScript client, node-q and Java clients send
/// vectors as lists of atoms.
pub fn listed(items: Vec<Value>) -> Items {
    Items::collapse(items).unwrap_or_else(|items| Items::List(items.into()))
}

/// Wire code of an attribute.
pub fn attribute_code(attr: Attr) -> u8 {
    match attr {
        Attr::None | Attr::Mapped(_) => types::ATTR_NONE,
        Attr::Sorted => types::ATTR_SORTED,
        Attr::Unique => types::ATTR_UNIQUE,
        Attr::Parted => types::ATTR_PARTED,
        Attr::Grouped => types::ATTR_GROUPED,
    }
}

/// Attribute of a wire code; an unknown code is none.
pub fn attribute(byte: u8) -> Attr {
    match byte {
        types::ATTR_SORTED => Attr::Sorted,
        types::ATTR_UNIQUE => Attr::Unique,
        types::ATTR_PARTED => Attr::Parted,
        types::ATTR_GROUPED => Attr::Grouped,
        _ => Attr::None,
    }
}

fn atom(view: &View<'_>, ty: i8) -> Option<Value> {
    Some(match ty {
        types::BOOL => Value::Bool(view.atom()?),
        types::GUID => Value::Guid(view.atom()?),
        types::BYTE => Value::Byte(view.atom()?),
        types::SHORT => Value::Short(view.atom()?),
        types::INT => Value::Int(view.atom()?),
        types::LONG => Value::Long(view.atom()?),
        types::REAL => Value::Real(view.atom()?),
        types::FLOAT => Value::Float(view.atom()?),
        types::CHAR => Value::Char(view.atom()?),
        types::TIMESTAMP => Value::Timestamp(view.atom()?),
        types::MONTH => Value::Month(view.atom()?),
        types::DATE => Value::Date(view.atom()?),
        types::DATETIME => Value::Datetime(view.atom()?),
        types::TIMESPAN => Value::Timespan(view.atom()?),
        types::MINUTE => Value::Minute(view.atom()?),
        types::SECOND => Value::Second(view.atom()?),
        types::TIME => Value::Time(view.atom()?),
        _ => return None,
    })
}

fn items(vector: &VectorView<'_>) -> Result<Items, NoData> {
    if vector.ty == types::SYMBOL {
        let symbols = vector.symbols().map(symbol::intern);
        return Ok(Items::Sym(symbols.collect::<Result<Shared<Sym>, TooManySymbols>>()?));
    }
    fixed(vector).ok_or(NoData::Kind)
}

fn fixed(vector: &VectorView<'_>) -> Option<Items> {
    Some(match vector.ty {
        types::BOOL => Items::Bool(vector.iter::<bool>()?.map(u8::from).collect()),
        types::GUID => Items::Guid(vector.to_vec()?.into()),
        types::BYTE => Items::Byte(vector.to_vec()?.into()),
        types::SHORT => Items::Short(vector.to_vec()?.into()),
        types::INT => Items::Int(vector.to_vec()?.into()),
        types::LONG => Items::Long(vector.to_vec()?.into()),
        types::REAL => Items::Real(vector.to_vec()?.into()),
        types::FLOAT => Items::Float(vector.to_vec()?.into()),
        types::CHAR => Items::Char(vector.to_vec()?.into()),
        types::TIMESTAMP => Items::Timestamp(vector.to_vec()?.into()),
        types::MONTH => Items::Month(vector.to_vec()?.into()),
        types::DATE => Items::Date(vector.to_vec()?.into()),
        types::DATETIME => Items::Datetime(vector.to_vec()?.into()),
        types::TIMESPAN => Items::Timespan(vector.to_vec()?.into()),
        types::MINUTE => Items::Minute(vector.to_vec()?.into()),
        types::SECOND => Items::Second(vector.to_vec()?.into()),
        types::TIME => Items::Time(vector.to_vec()?.into()),
        _ => return None,
    })
}

/// Returns the items of a vector as values: of a general list its items, of a simple vector its atoms.
pub fn atoms(value: &Value) -> Option<Vec<Value>> {
    fn each<T: Copy>(items: &[T], atom: impl Fn(T) -> Value) -> Vec<Value> {
        items.iter().map(|item| atom(*item)).collect()
    }
    let Value::Vector(vector) = value else { return None };
    Some(match &vector.items {
        Items::List(items) => items.to_vec(),
        Items::Bool(items) => each(items, |item| Value::Bool(item != 0)),
        Items::Guid(items) => each(items, Value::Guid),
        Items::Byte(items) => each(items, Value::Byte),
        Items::Short(items) => each(items, Value::Short),
        Items::Int(items) => each(items, Value::Int),
        Items::Link(..) => return atoms(&value.clone().plain()),
        Items::Long(items) => each(items, Value::Long),
        Items::Real(items) => each(items, Value::Real),
        Items::Float(items) => each(items, Value::Float),
        Items::Char(items) => each(items, Value::Char),
        Items::Sym(items) | Items::Enum(_, items) => each(items, Value::Sym),
        Items::Timestamp(items) => each(items, Value::Timestamp),
        Items::Month(items) => each(items, Value::Month),
        Items::Date(items) => each(items, Value::Date),
        Items::Datetime(items) => each(items, Value::Datetime),
        Items::Timespan(items) => each(items, Value::Timespan),
        Items::Minute(items) => each(items, Value::Minute),
        Items::Second(items) => each(items, Value::Second),
        Items::Time(items) => each(items, Value::Time),
    })
}
