//! JSON serialiser and parser: `.j.j` and `.j.k`.

use crate::runtime::context::Context;
use crate::runtime::error::QError;
use crate::runtime::limits;
use crate::runtime::values::Result;
use crate::runtime::values::type_error;
use crate::verbs::format;
use columns::kernel::blocks;
use columns::sys::budget::{self, BLOCK};
use columns::table::symbol::{intern, text};
use columns::table::{Items, Sym, Value, Vector};

/// `.j.j x`: a value as JSON.
pub(crate) fn to_json(context: &mut Context, x: Value) -> Result {
    let mut out = Vec::new();
    write(context, &x, &mut out)?;
    Ok(Value::chars(out))
}

/// `.j.jd (x;d)`: as [`to_json`]; if `` d`null0w `` is true, infinities become `null`.
pub(crate) fn to_json_with(context: &mut Context, x: Value) -> Result {
    let (value, options) = (x.at(0), x.at(1));
    let Value::Dict(options) = options else { return Err(type_error()) };
    let at = crate::verbs::find::position(&options.keys, &Value::Sym(crate::syntax::prims::name("null0w")))?;
    let as_null = at.is_some_and(|at| matches!(options.values.at(at), Value::Bool(true)));
    let value = if as_null { finite(context, &value)? } else { value };
    to_json(context, value)
}

/// Replaces infinities by nulls.
fn finite(context: &mut Context, x: &Value) -> Result {
    context.enter()?;
    let null = |f: &f64| if f.is_infinite() { f64::NAN } else { *f };
    Ok(match x {
        Value::Float(f) => Value::Float(null(f)),
        Value::Vector(Vector { items: Items::Float(v), .. }) => Value::floats(blocks::map(v, null)),
        Value::Vector(Vector { items: Items::List(_), .. }) => {
            crate::verbs::map::map(context, x, |c, item| finite(c, &item))?
        }
        Value::Dict(d) => Value::dict(finite(context, &d.keys)?, finite(context, &d.values)?),
        Value::Table(t) => {
            let mut t = (**t).clone();
            for column in &mut t.columns {
                let held = finite(context, &column.clone().into())?;
                *column = held.into_vector().ok_or_else(type_error)?;
            }
            Value::table(t)
        }
        other => other.clone(),
    })
}

fn quoted(bytes: &[u8], out: &mut Vec<u8>) {
    out.push(b'"');
    for (i, c) in bytes.iter().enumerate() {
        if i.is_multiple_of(BLOCK) && budget::spend(bytes.len().min(BLOCK)) {
            break;
        }
        match c {
            b'"' | b'\\' => out.extend_from_slice(&[b'\\', *c]),
            b'\n' => out.extend_from_slice(b"\\n"),
            b'\r' => out.extend_from_slice(b"\\r"),
            b'\t' => out.extend_from_slice(b"\\t"),
            0x08 => out.extend_from_slice(b"\\b"),
            0x0c => out.extend_from_slice(b"\\f"),
            0..=31 => out.extend_from_slice(format!("\\u{c:04x}").as_bytes()),
            c => out.push(*c),
        }
    }
    out.push(b'"');
}

fn list(context: &mut Context, items: &[Value], between: &[u8], out: &mut Vec<u8>) -> std::result::Result<(), QError> {
    out.push(b'[');
    for (i, item) in items.iter().enumerate() {
        if i > 0 {
            out.extend_from_slice(between);
        }
        context.tick()?;
        write(context, item, out)?;
    }
    out.push(b']');
    Ok(())
}

fn write(context: &mut Context, x: &Value, out: &mut Vec<u8>) -> std::result::Result<(), QError> {
    context.enter()?;
    match x {
        Value::Null => out.extend_from_slice(b"null"),
        Value::Bool(b) => out.extend_from_slice(if *b { b"true" } else { b"false" }),
        Value::Char(c) => quoted(&[*c], out),
        Value::Vector(Vector { items: Items::Char(c), .. }) => quoted(c, out),
        Value::Sym(s) | Value::Enum(_, s) => quoted(text(*s), out),
        Value::Byte(_)
        | Value::Short(_)
        | Value::Int(_)
        | Value::Long(_)
        | Value::Real(_)
        | Value::Float(_)
        | Value::Link(..) => {
            out.extend_from_slice(&number(x, context.host.console().precision));
        }
        Value::Date(_) | Value::Timestamp(_) | Value::Datetime(_) | Value::Month(_) => {
            let mut spelled = format::cell(x, 17)?;
            // ISO 8601 dates have dashes.
            spelled.iter_mut().take(10).filter(|c| **c == b'.').for_each(|c| *c = b'-');
            quoted(&spelled, out);
        }
        Value::Vector(_) => {
            let items = limits::items(x)?;
            list(context, &items, b",", out)?;
        }
        Value::Table(_) => {
            let rows = limits::items(x)?;
            list(context, &rows, b",\n ", out)?;
        }
        Value::Dict(d) if d.keyed().is_some() => {
            let flat = crate::verbs::rows::unkey(x)?;
            write(context, &flat, out)?;
        }
        Value::Dict(d) => {
            out.push(b'{');
            for i in 0..d.keys.count() {
                if i > 0 {
                    out.push(b',');
                }
                let key = d.keys.at(i);
                match key.as_text() {
                    Some(text) => quoted(text, out),
                    None => quoted(&format::string(&key)?, out),
                }
                out.push(b':');
                write(context, &d.values.at(i), out)?;
            }
            out.push(b'}');
        }
        Value::Func(_) => return Err(type_error()),
        atom => quoted(&format::cell(atom, 17)?, out),
    }
    context.reserve(out.len())
}

/// A number's digits. Nulls become `null`; infinities become words, as in q, although JSON has none.
fn number(x: &Value, precision: u8) -> Vec<u8> {
    match x {
        Value::Byte(b) => return b.to_string().into_bytes(),
        Value::Real(f) if f.is_infinite() => {}
        Value::Float(f) if f.is_infinite() => {}
        _ if format::is_blank(x) => return b"null".to_vec(),
        other => return format::item(other, precision),
    }
    let negative = x.as_float().is_some_and(|f| f < 0.0);
    if negative { b"-inf".to_vec() } else { b"inf".to_vec() }
}

/// `.j.k x`: parses JSON text; a list of lines is joined first.
pub(crate) fn from_json(_: &mut Context, x: Value) -> Result {
    let joined;
    let bytes = match x.as_text() {
        Some(text) => text,
        None => {
            let mut all = Vec::new();
            for line in limits::items(&x)? {
                all.extend_from_slice(line.as_text().ok_or_else(type_error)?);
                all.push(b'\n');
            }
            joined = all;
            &joined
        }
    };
    let mut reader = Reader { bytes, at: 0 };
    let value = reader.value()?;
    reader.space();
    if reader.at < bytes.len() {
        return Err(reader.wrong());
    }
    Ok(value)
}

struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl Reader<'_> {
    fn wrong(&self) -> QError {
        QError::with("type", format!("not JSON at {}", self.at))
    }

    fn peek(&self) -> u8 {
        self.bytes.get(self.at).copied().unwrap_or(0)
    }

    fn space(&mut self) {
        while self.peek().is_ascii_whitespace() {
            self.at += 1;
            if self.at.is_multiple_of(BLOCK) && budget::spend(BLOCK) {
                break;
            }
        }
    }

    fn word(&mut self, word: &[u8], value: Value) -> Result {
        if self.bytes.get(self.at..).is_some_and(|rest| rest.starts_with(word)) {
            self.at += word.len();
            return Ok(value);
        }
        Err(self.wrong())
    }

    fn value(&mut self) -> Result {
        limits::step()?;
        self.space();
        match self.peek() {
            b'{' => self.object(),
            b'[' => self.array(),
            b'"' => self.string().map(Value::chars),
            b't' => self.word(b"true", Value::Bool(true)),
            b'f' => self.word(b"false", Value::Bool(false)),
            b'n' => self.word(b"null", Value::Float(f64::NAN)),
            _ => self.number(),
        }
    }

    fn number(&mut self) -> Result {
        let start = self.at;
        while matches!(self.peek(), b'0'..=b'9' | b'-' | b'+' | b'.' | b'e' | b'E') {
            self.at += 1;
        }
        let digits = self.bytes.get(start..self.at).and_then(|d| std::str::from_utf8(d).ok());
        digits.and_then(|d| d.parse().ok()).map(Value::Float).ok_or_else(|| self.wrong())
    }

    fn code_unit(&mut self) -> std::result::Result<u32, QError> {
        let digits = self.bytes.get(self.at..self.at + 4).and_then(|d| std::str::from_utf8(d).ok());
        let unit = digits.and_then(|d| u32::from_str_radix(d, 16).ok()).ok_or_else(|| self.wrong())?;
        self.at += 4;
        Ok(unit)
    }

    fn string(&mut self) -> std::result::Result<Vec<u8>, QError> {
        let mut out = Vec::new();
        self.at += 1;
        loop {
            let c = *self.bytes.get(self.at).ok_or_else(|| self.wrong())?;
            self.at += 1;
            if out.len() % BLOCK == BLOCK - 1 {
                limits::check()?;
                limits::room(out.len().saturating_mul(2))?;
            }
            match c {
                b'"' => return Ok(out),
                b'\\' => {
                    let escape = self.peek();
                    self.at += 1;
                    match escape {
                        b'n' => out.push(b'\n'),
                        b't' => out.push(b'\t'),
                        b'r' => out.push(b'\r'),
                        b'b' => out.push(8),
                        b'f' => out.push(12),
                        b'u' => {
                            let mut code = self.code_unit()?;
                            if (0xd800..0xdc00).contains(&code) && self.bytes.get(self.at..self.at + 2) == Some(b"\\u")
                            {
                                self.at += 2;
                                let low = self.code_unit()?;
                                code = 0x10000 + ((code - 0xd800) << 10) + (low & 0x3ff);
                            }
                            let c = char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER);
                            out.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes());
                        }
                        other => out.push(other),
                    }
                }
                c => out.push(c),
            }
        }
    }

    fn array(&mut self) -> Result {
        let mut items = Vec::new();
        self.at += 1;
        self.space();
        if self.peek() == b']' {
            self.at += 1;
            return Ok(Value::empty());
        }
        loop {
            items.push(self.value()?);
            self.space();
            self.at += 1;
            match self.bytes.get(self.at - 1) {
                Some(b',') => {}
                Some(b']') => break,
                _ => return Err(self.wrong()),
            }
        }
        // Nulls among booleans or strings stay generic nulls; among numbers they are float nulls already.
        Ok(Value::collapse(items))
    }

    fn object(&mut self) -> Result {
        let (mut names, mut values): (Vec<Sym>, Vec<Value>) = (Vec::new(), Vec::new());
        self.at += 1;
        self.space();
        if self.peek() == b'}' {
            self.at += 1;
            return Ok(Value::dict(Value::symbols(names), Value::empty()));
        }
        loop {
            self.space();
            if self.peek() != b'"' {
                return Err(self.wrong());
            }
            let name = self.string()?;
            names.push(intern(&name).map_err(QError::from)?);
            self.space();
            if self.peek() != b':' {
                return Err(self.wrong());
            }
            self.at += 1;
            values.push(self.value()?);
            self.space();
            self.at += 1;
            match self.bytes.get(self.at - 1) {
                Some(b',') => {}
                Some(b'}') => break,
                _ => return Err(self.wrong()),
            }
        }
        Ok(Value::dict(Value::symbols(names), Value::collapse(values)))
    }
}
