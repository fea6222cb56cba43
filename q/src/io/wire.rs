//! Values in kdb+'s IPC format. Functions travel as source text or opcode; data is written directly from shared storage.

use crate::runtime::error::QError;
use crate::runtime::limits;
use crate::runtime::locked;
use crate::syntax::lambda::lambda;
use crate::syntax::prims;
use crate::syntax::prims::Arity;
use columns::sys::stack;
use columns::table::function::{Function, Iterator};
use columns::table::symbol::{intern, text};
use columns::table::wire::{NoData, attribute_code, data, data_within};
use columns::table::{Items, Sym, Value, Vector};
use proto::view::View;
use proto::{Writer, types};

/// Returns the value of a parsed message.
///
/// # Errors
/// `limit` if the symbol table is full or the nesting too deep; `type` for an object that is not a value (an error object).
pub fn from_view(view: &View<'_>) -> Result<Value, QError> {
    let mut refused = None;
    let value = data_within(view, &mut |bytes| {
        refused = limits::room(bytes).err();
        refused.is_none()
    });
    match (value, refused) {
        (Ok(value), _) => Ok(value),
        (Err(_), Some(error)) => Err(error),
        (Err(NoData::Symbols(full)), None) => Err(full.into()),
        (Err(_), None) => from_owned(&view.to_value()),
    }
}

/// [`from_view`] for an owned object; needed for objects that contain functions.
pub fn from_owned(object: &proto::Value) -> Result<Value, QError> {
    use proto::Value as P;
    if stack::is_deep() {
        return Err(QError::named("limit"));
    }
    let all = |items: &[P]| items.iter().map(from_owned).collect::<Result<Vec<Value>, QError>>();
    Ok(match object {
        P::Lambda { namespace, source } => {
            let space = if namespace.is_empty() { Sym::NULL } else { symbol(&[b".", &namespace[..]].concat())? };
            lambda(source, space)
        }
        P::Unary(code) => prims::by_code(types::UNARY, *code),
        P::Binary(code) => prims::by_code(types::BINARY, *code),
        P::Iterator(code) => prims::by_code(types::ITERATOR, *code),
        P::Projection(items) => {
            let (f, arguments) = items.split_first().ok_or(QError::named("type"))?;
            let hole = |a: &P| matches!(a, P::Unary(types::UNARY_HOLE));
            let arguments: Result<Vec<Option<Value>>, QError> =
                arguments.iter().map(|a| if hole(a) { Ok(None) } else { from_owned(a).map(Some) }).collect();
            Value::func(Function::Projection { function: from_owned(f)?, arguments: arguments? })
        }
        P::Composition(items) => Value::func(Function::Composition(all(items)?)),
        P::Derived(ty, function) => {
            let at = ty.checked_sub(types::EACH).and_then(|i| usize::try_from(i).ok());
            let iterator = *at.and_then(|i| Iterator::ALL.get(i)).ok_or(QError::named("type"))?;
            Value::func(Function::Derived { iterator, function: from_owned(function)? })
        }
        P::List { attr, items } => {
            let attr = columns::table::wire::attribute(*attr);
            Value::Vector(Vector { attr, items: columns::table::wire::listed(all(items)?) })
        }
        P::Dict { sorted, keys, values } => Value::Dict(columns::sys::shared::Held::new(columns::table::Dict {
            sorted: *sorted,
            keys: from_owned(keys)?,
            values: from_owned(values)?,
        })),
        P::Table { attr, names, columns } => {
            let names: Result<Vec<Sym>, QError> = names.iter().map(|n| symbol(n)).collect();
            let columns: Option<Vec<Vector>> = all(columns)?.into_iter().map(Value::into_vector).collect();
            let table = columns::table::Table::new(names?, columns.ok_or(QError::named("type"))?);
            Value::table(columns::table::Table { sorted: *attr == types::ATTR_SORTED, ..table })
        }
        P::TableByName { names, place, .. } => {
            let columns: Result<Vec<Sym>, QError> = names.iter().map(|n| symbol(n)).collect();
            Value::func(Function::OnDisk { columns: columns?, place: symbol(place)? })
        }
        simple => {
            let mut bytes = Vec::new();
            proto::encode::encode_object(simple, &mut bytes).map_err(|_| QError::named("type"))?;
            let parsed = View::parse(&bytes, proto::Endian::Little, &proto::Limits::default());
            let (view, _) = parsed.map_err(|_| QError::named("type"))?;
            data(&view).map_err(|error| match error {
                NoData::Symbols(full) => full.into(),
                _ => QError::named("type"),
            })?
        }
    })
}

fn symbol(name: &[u8]) -> Result<Sym, QError> {
    intern(name).map_err(QError::from)
}

/// Writes a value directly from shared storage.
///
/// # Errors
/// `limit` for nesting deeper than readers of the format accept; `length` for a keyed table without value columns; `type` for a table on
/// disk; `stop`, `wsfull` and `stack` at the limits of the evaluation. The writer records other failures (a symbol with a NUL, more than
/// 2147483647 items).
pub fn to_wire(value: &Value, out: &mut Writer<'_>) -> Result<(), QError> {
    put(value, out, 0)
}

/// Reserves bytes, charged to the memory budget of the current evaluation.
fn room(out: &mut Writer<'_>, bytes: usize) -> Result<(), QError> {
    if out.spare() < bytes {
        let more = bytes.max(out.capacity());
        limits::room(more.saturating_add(out.capacity()))?;
        out.reserve_exact(more);
    }
    Ok(())
}

/// Upper bound of an atom or of the header of any object, without names.
const HEAD_BYTES: usize = 32;

fn put(value: &Value, out: &mut Writer<'_>, depth: usize) -> Result<(), QError> {
    if depth >= proto::DEEPEST {
        return Err(QError::with("limit", "nested too deeply to send"));
    }
    limits::step()?;
    room(out, HEAD_BYTES)?;
    match value {
        Value::Null => out.null(),
        Value::Vector(v) => put_vector(v, out, depth)?,
        Value::Table(t) => {
            let attr = if t.sorted { types::ATTR_SORTED } else { types::ATTR_NONE };
            out.table_head_attr(attr, t.names.iter().map(|n| text(*n)));
            for column in &t.columns {
                put_vector(column, out, depth + 3)?;
            }
        }
        // A keyed table with key columns only has keys without values. Readers reject it.
        Value::Dict(d) if d.keys.count() != d.values.count() => return Err(QError::named("length")),
        // A table on disk: column names and location.
        Value::Dict(d) if d.values.is_scalar() => return Err(QError::named("type")),
        Value::Dict(d) => {
            if d.sorted {
                out.sorted_dict_head();
            } else {
                out.dict_head();
            }
            put(&d.keys, out, depth + 1)?;
            put(&d.values, out, depth + 1)?;
        }
        Value::Func(f) => put_function(f, out, depth)?,
        Value::Sym(s) | Value::Enum(_, s) => out.symbol(text(*s)),
        Value::Link(..) => put(&value.clone().plain(), out, depth)?,
        Value::Bool(b) => out.atom_bool(*b),
        Value::Guid(g) => out.atom(types::GUID, *g),
        Value::Byte(b) => out.atom_byte(*b),
        Value::Short(i) => out.atom_short(*i),
        Value::Int(i) => out.atom_int(*i),
        Value::Long(i) => out.atom_long(*i),
        Value::Real(f) => out.atom(types::REAL, *f),
        Value::Float(f) => out.atom_float(*f),
        Value::Char(c) => out.atom_char(*c),
        Value::Timestamp(i) => out.atom_timestamp(*i),
        Value::Month(i) => out.atom(types::MONTH, *i),
        Value::Date(i) => out.atom_date(*i),
        Value::Datetime(f) => out.atom(types::DATETIME, *f),
        Value::Timespan(i) => out.atom_timespan(*i),
        Value::Minute(i) => out.atom(types::MINUTE, *i),
        Value::Second(i) => out.atom(types::SECOND, *i),
        Value::Time(i) => out.atom(types::TIME, *i),
    }
    Ok(())
}

/// Names written between two checks of the budget.
const NAMES_AT_ONCE: usize = 1 << 12;

fn put_vector(v: &Vector, out: &mut Writer<'_>, depth: usize) -> Result<(), QError> {
    let attr = attribute_code(v.attr);
    room(out, HEAD_BYTES.saturating_add(v.len().saturating_mul(v.items.wire_bytes())))?;
    match &v.items {
        Items::List(items) => {
            out.vector_head(types::LIST, attr, items.len());
            for item in items.iter() {
                put(item, out, depth + 1)?;
            }
        }
        Items::Sym(names) | Items::Enum(_, names) => {
            out.vector_head(types::SYMBOL, attr, names.len());
            for names in names.chunks(NAMES_AT_ONCE) {
                limits::check()?;
                room(out, names.iter().map(|n| text(*n).len() + 1).sum())?;
                names.iter().for_each(|n| out.symbol_item(text(*n)));
            }
        }
        Items::Bool(b) => out.vector(types::BOOL, attr, b),
        Items::Guid(g) => out.vector(types::GUID, attr, g),
        Items::Byte(b) => out.vector(types::BYTE, attr, b),
        Items::Short(i) => out.vector(types::SHORT, attr, i),
        Items::Int(i) => out.vector(types::INT, attr, i),
        Items::Long(i) => out.vector(types::LONG, attr, i),
        Items::Link(..) => put_vector(&Vector { attr: v.attr, items: v.items.plain() }, out, depth)?,
        Items::Real(f) => out.vector(types::REAL, attr, f),
        Items::Float(f) => out.vector(types::FLOAT, attr, f),
        Items::Char(c) => out.vector(types::CHAR, attr, c),
        Items::Timestamp(i) => out.vector(types::TIMESTAMP, attr, i),
        Items::Month(i) => out.vector(types::MONTH, attr, i),
        Items::Date(i) => out.vector(types::DATE, attr, i),
        Items::Datetime(f) => out.vector(types::DATETIME, attr, f),
        Items::Timespan(i) => out.vector(types::TIMESPAN, attr, i),
        Items::Minute(i) => out.vector(types::MINUTE, attr, i),
        Items::Second(i) => out.vector(types::SECOND, attr, i),
        Items::Time(i) => out.vector(types::TIME, attr, i),
    }
    Ok(())
}

fn put_function(f: &Function, out: &mut Writer<'_>, depth: usize) -> Result<(), QError> {
    match f {
        Function::Lambda(l) | Function::View(l) if locked::is_locked(&l.source) => {
            return Err(QError::with("type", "a function of a locked script is neither sent nor stored"));
        }
        Function::Lambda(l) | Function::View(l) => {
            let space = text(l.namespace);
            out.lambda(space.strip_prefix(b".").unwrap_or(space), &l.source);
        }
        Function::Primitive(index) => {
            let primitive = prims::get(*index).ok_or(QError::named("type"))?;
            match primitive.code {
                (types::LAMBDA, _) => out.lambda(b"", as_lambda(primitive).as_bytes()),
                (types::PROJECTION, number) => {
                    let bang = prims::glyph("!");
                    out.function_head(types::PROJECTION, 2);
                    put(&bang, out, depth + 1)?;
                    out.atom_long(-i64::from(number));
                }
                (kind @ types::EACH..=types::EACH_LEFT, code) => {
                    out.derived_head(kind);
                    out.primitive(types::BINARY, code);
                }
                (kind, code) => out.primitive(kind, code),
            }
        }
        Function::Coded(kind, code) => out.primitive(*kind, *code),
        Function::Native(name) => out.lambda(b"", &[b"{", text(*name), b"[x]}"].concat()),
        Function::Projection { function, arguments } => {
            out.function_head(types::PROJECTION, arguments.len() + 1);
            put(function, out, depth + 1)?;
            for argument in arguments {
                match argument {
                    Some(value) => put(value, out, depth + 1)?,
                    None => out.primitive(types::UNARY, types::UNARY_HOLE),
                }
            }
        }
        Function::Composition(parts) => {
            out.function_head(types::COMPOSITION, parts.len());
            for part in parts {
                put(part, out, depth + 1)?;
            }
        }
        // Only the names of its columns and its place travel, as from kdb+.
        Function::OnDisk { columns, place } => {
            room(out, columns.iter().map(|name| text(*name).len() + 1).sum::<usize>().saturating_add(HEAD_BYTES))?;
            out.table_by_name(types::ATTR_NONE, columns.iter().map(|name| text(*name)), text(*place));
        }
        Function::Derived { iterator, function } => {
            out.derived_head(iterator.type_number());
            put(function, out, depth + 1)?;
        }
    }
    Ok(())
}

/// Source of a lambda that calls, by name, a primitive without opcode.
fn as_lambda(primitive: &prims::Primitive) -> String {
    let name = primitive.name;
    match primitive.arity {
        Arity::Unary => format!("{{{name} x}}"),
        Arity::Many(least, _) if least > 3 => format!("{{[x;y;z;w]{name}[x;y;z;w]}}"),
        Arity::Many(..) => format!("{{{name}[x;y;z]}}"),
        _ => format!("{{x {name} y}}"),
    }
}

/// Returns a whole message: `-8!`.
pub(crate) fn message(value: &Value) -> Result<Vec<u8>, QError> {
    let mut out = Vec::new();
    let start = proto::encode::begin_message(proto::MessageKind::Async, &mut out);
    let mut writer = Writer::new(&mut out);
    to_wire(value, &mut writer)?;
    writer.finish().map_err(|e| QError::with("type", e.to_string()))?;
    proto::encode::finish_message(&mut out, start).map_err(|e| QError::with("limit", e.to_string()))?;
    Ok(out)
}

/// Returns the value of a whole message: `-9!`.
pub(crate) fn from_message(bytes: &[u8]) -> Result<Value, QError> {
    let body = bytes.get(proto::HEADER_BYTES..).ok_or(QError::named("badmsg"))?;
    let endian = match bytes.first() {
        Some(0) => proto::Endian::Big,
        Some(1) => proto::Endian::Little,
        _ => return Err(QError::with("badmsg", "the first byte of a message is 0 or 1")),
    };
    let limits = proto::Limits::default();
    let (view, _) = View::parse(body, endian, &limits).map_err(|e| QError::with("badmsg", e.to_string()))?;
    from_view(&view)
}
