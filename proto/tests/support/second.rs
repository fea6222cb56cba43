//! A second encoder, independent of the crate's, in either byte order.

use elastick_proto::{Endian, Items, Value};

pub fn encode(value: &Value, endian: Endian) -> Vec<u8> {
    let mut out = Out { endian, bytes: Vec::new() };
    out.object(value);
    out.bytes
}

struct Out {
    endian: Endian,
    bytes: Vec<u8>,
}

macro_rules! number {
    ($self:ident, $value:expr) => {{
        let bytes = match $self.endian {
            Endian::Big => $value.to_be_bytes(),
            Endian::Little => $value.to_le_bytes(),
        };
        $self.bytes.extend(bytes)
    }};
}

impl Out {
    fn text(&mut self, text: &[u8]) {
        self.bytes.extend(text);
        self.bytes.push(0);
    }

    fn vector<T: Copy>(&mut self, attr: u8, items: &[T], mut one: impl FnMut(&mut Out, T)) {
        self.bytes.push(attr);
        number!(self, items.len() as u32);
        items.iter().for_each(|item| one(self, *item));
    }

    fn all(&mut self, values: &[Value]) {
        number!(self, values.len() as u32);
        values.iter().for_each(|value| self.object(value));
    }

    fn names(&mut self, names: &[Vec<u8>]) {
        number!(self, names.len() as u32);
        names.iter().for_each(|name| self.text(name));
    }

    fn object(&mut self, value: &Value) {
        self.bytes.push(value.type_code() as u8);
        match value {
            Value::Bool(item) => self.bytes.push(u8::from(*item)),
            Value::Guid(item) => self.bytes.extend(item),
            Value::Byte(item) | Value::Char(item) => self.bytes.push(*item),
            Value::Short(item) => number!(self, item),
            Value::Int(item)
            | Value::Month(item)
            | Value::Date(item)
            | Value::Minute(item)
            | Value::Second(item)
            | Value::Time(item) => number!(self, item),
            Value::Long(item) | Value::Timestamp(item) | Value::Timespan(item) => number!(self, item),
            Value::Real(item) => number!(self, item),
            Value::Float(item) | Value::Datetime(item) => number!(self, item),
            Value::Symbol(text) | Value::Error(text) => self.text(text),
            Value::Vector { attr, items } => self.items(*attr, items),
            Value::List { attr, items } => {
                self.bytes.push(*attr);
                self.all(items);
            }
            Value::Dict { keys, values, .. } => {
                self.object(keys);
                self.object(values);
            }
            Value::Table { attr, names, columns } => {
                self.bytes.extend([*attr, 99, 11, 0]);
                self.names(names);
                self.bytes.extend([0, 0]);
                self.all(columns);
            }
            Value::TableByName { attr, names, place } => {
                self.bytes.extend([*attr, 99, 11, 0]);
                self.names(names);
                self.bytes.push(245);
                self.text(place);
            }
            Value::Lambda { namespace, source } => {
                self.text(namespace);
                self.bytes.extend([10, 0]);
                number!(self, source.len() as u32);
                self.bytes.extend(source);
            }
            Value::Unary(code) | Value::Binary(code) | Value::Iterator(code) => self.bytes.push(*code),
            Value::Projection(parts) | Value::Composition(parts) => self.all(parts),
            Value::Derived(_, function) => self.object(function),
        }
    }

    fn items(&mut self, attr: u8, items: &Items) {
        match items {
            Items::Bool(items) => self.vector(attr, items, |out, item| out.bytes.push(u8::from(item))),
            Items::Guid(items) => self.vector(attr, items, |out, item| out.bytes.extend(item)),
            Items::Byte(items) | Items::Char(items) => self.vector(attr, items, |out, item| out.bytes.push(item)),
            Items::Short(items) => self.vector(attr, items, |out, item| number!(out, item)),
            Items::Int(items)
            | Items::Month(items)
            | Items::Date(items)
            | Items::Minute(items)
            | Items::Second(items)
            | Items::Time(items) => self.vector(attr, items, |out, item| number!(out, item)),
            Items::Long(items) | Items::Timestamp(items) | Items::Timespan(items) => {
                self.vector(attr, items, |out, item| number!(out, item));
            }
            Items::Real(items) => self.vector(attr, items, |out, item| number!(out, item)),
            Items::Float(items) | Items::Datetime(items) => self.vector(attr, items, |out, item| number!(out, item)),
            Items::Symbol(texts) => {
                self.bytes.push(attr);
                self.names(texts);
            }
        }
    }
}
