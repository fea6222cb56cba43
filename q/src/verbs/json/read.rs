//! JSON parser: `.j.k`.

use crate::runtime::context::Context;
use crate::runtime::error::QError;
use crate::runtime::limits;
use crate::runtime::values::{Result, type_error};
use columns::sys::budget::{self, BLOCK};
use columns::table::symbol::{intern, text};
use columns::table::{Items, Sym, Table, Value, Vector};

/// `.j.k x`: parses JSON text, which may be bytes as `read1` returns them; a list of lines is joined first.
pub(crate) fn from_json(_: &mut Context, x: Value) -> Result {
    let joined;
    let bytes = match (&x, x.as_text()) {
        (Value::Vector(Vector { items: Items::Byte(bytes), .. }), _) => bytes,
        (_, Some(text)) => text,
        _ => {
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
        let digits = self.bytes.get(self.at..self.at + 4).filter(|d| d.iter().all(u8::is_ascii_hexdigit));
        let digits = digits.and_then(|d| std::str::from_utf8(d).ok());
        let unit = digits.and_then(|d| u32::from_str_radix(d, 16).ok()).ok_or_else(|| self.wrong())?;
        self.at += 4;
        Ok(unit)
    }

    /// Bytes up to the next quote or backslash, at most a block of them.
    fn run(&self) -> &[u8] {
        let rest = self.bytes.get(self.at..).unwrap_or_default();
        let block = rest.get(..BLOCK).unwrap_or(rest);
        let end = block.iter().position(|c| matches!(c, b'"' | b'\\')).unwrap_or(block.len());
        block.get(..end).unwrap_or_default()
    }

    fn string(&mut self) -> std::result::Result<Vec<u8>, QError> {
        let mut out = Vec::new();
        self.at += 1;
        loop {
            let run = self.run();
            out.extend_from_slice(run);
            let length = run.len();
            self.at += length;
            if length == BLOCK {
                limits::check()?;
                limits::room(out.len().saturating_mul(2))?;
                continue;
            }
            let c = *self.bytes.get(self.at).ok_or_else(|| self.wrong())?;
            self.at += 1;
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
                            let next = self.at;
                            if (0xd800..0xdc00).contains(&code) && self.bytes.get(next..next + 2) == Some(b"\\u") {
                                self.at += 2;
                                match self.code_unit()? {
                                    low @ 0xdc00..0xe000 => code = 0x10000 + ((code - 0xd800) << 10) + (low & 0x3ff),
                                    // Half a pair, before another character.
                                    _ => self.at = next,
                                }
                            }
                            let c = char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER);
                            out.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes());
                        }
                        other => out.push(other),
                    }
                }
                other => out.push(other),
            }
        }
    }

    /// Goes past what comes after an item; returns whether another one follows.
    fn goes_on(&mut self, end: u8) -> std::result::Result<bool, QError> {
        self.space();
        self.at += 1;
        match self.bytes.get(self.at - 1) {
            Some(b',') => Ok(true),
            Some(c) if *c == end => Ok(false),
            _ => Err(self.wrong()),
        }
    }

    fn array(&mut self) -> Result {
        self.at += 1;
        self.space();
        match self.peek() {
            b']' => {
                self.at += 1;
                Ok(Value::empty())
            }
            b'{' => self.rows(),
            _ => self.items(Vec::new()),
        }
    }

    /// Reads an array from an item on; `items` are before it.
    fn items(&mut self, mut items: Vec<Value>) -> Result {
        loop {
            let item = self.value()?;
            if items.len() == items.capacity() {
                // The limit is checked before the list doubles.
                let more = items.len().max(4);
                limits::room_for::<Value>(more)?;
                items.reserve_exact(more);
            }
            items.push(item);
            if !self.goes_on(b']')? {
                break;
            }
        }
        // A null is a float null; among numbers the array is a vector.
        Ok(Value::collapse(items))
    }

    /// Reads an array that begins with an object. Objects with the same names in the same order are read into columns.
    fn rows(&mut self) -> Result {
        limits::step()?;
        let (mut names, mut values) = (Vec::new(), Vec::new());
        self.members(&mut names, &mut values)?;
        let mut rows = Rows::new(names, values);
        while self.goes_on(b']')? {
            self.space();
            if self.peek() != b'{' || rows.names.is_empty() {
                let items = rows.into_items()?;
                return self.items(items);
            }
            limits::step()?;
            if let Some(other) = self.row(&mut rows)? {
                let mut items = rows.into_items()?;
                items.push(other);
                return match self.goes_on(b']')? {
                    true => self.items(items),
                    false => Ok(Value::collapse(items)),
                };
            }
        }
        rows.into_value()
    }

    /// Reads an object. If it has the names of `rows`, its values are added to their columns; otherwise it is returned as a dictionary.
    fn row(&mut self, rows: &mut Rows) -> std::result::Result<Option<Value>, QError> {
        self.at += 1;
        for at in 0..rows.columns.len() {
            self.space();
            let key = rows.keys.get(at).map(Vec::as_slice).unwrap_or_default();
            let is_next = self.bytes.get(self.at..).is_some_and(|rest| rest.starts_with(key));
            let is_last = at + 1 == rows.columns.len();
            if !is_next {
                return self.other(rows, at).map(Some);
            }
            self.at += key.len();
            self.space();
            if self.peek() != b':' {
                return Err(self.wrong());
            }
            self.at += 1;
            let value = self.value()?;
            if let Some(column) = rows.columns.get_mut(at) {
                column.push(value);
            }
            let goes_on = self.goes_on(b'}')?;
            if goes_on == is_last {
                let (mut names, mut values) = rows.taken(at + 1);
                if goes_on {
                    self.more_members(&mut names, &mut values)?;
                }
                return Ok(Some(Value::dict(Value::symbols(names), Value::collapse(values))));
            }
        }
        rows.count += 1;
        Ok(None)
    }

    /// Reads the rest of an object whose first members, so many, are in the columns.
    fn other(&mut self, rows: &mut Rows, members: usize) -> Result {
        let (mut names, mut values) = rows.taken(members);
        if members == 0 && self.peek() == b'}' {
            self.at += 1;
            return Ok(Value::dict(Value::symbols(names), Value::empty()));
        }
        self.more_members(&mut names, &mut values)?;
        Ok(Value::dict(Value::symbols(names), Value::collapse(values)))
    }

    /// Reads the members of an object.
    fn members(&mut self, names: &mut Vec<Sym>, values: &mut Vec<Value>) -> std::result::Result<(), QError> {
        self.at += 1;
        self.space();
        if self.peek() == b'}' {
            self.at += 1;
            return Ok(());
        }
        self.more_members(names, values)
    }

    /// Reads the members of an object from one of them on.
    fn more_members(&mut self, names: &mut Vec<Sym>, values: &mut Vec<Value>) -> std::result::Result<(), QError> {
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
            if !self.goes_on(b'}')? {
                return Ok(());
            }
        }
    }

    fn object(&mut self) -> Result {
        let (mut names, mut values) = (Vec::new(), Vec::new());
        self.members(&mut names, &mut values)?;
        let values = if names.is_empty() { Value::empty() } else { Value::collapse(values) };
        Ok(Value::dict(Value::symbols(names), values))
    }
}

/// Values of one name in objects.
enum Column {
    Floats(Vec<f64>),
    Values(Vec<Value>),
}

impl Column {
    fn new(first: Value) -> Column {
        if let Value::Float(f) = first { Column::Floats(vec![f]) } else { Column::Values(vec![first]) }
    }

    fn push(&mut self, value: Value) {
        match (&mut *self, value) {
            (Column::Floats(held), Value::Float(f)) => held.push(f),
            (Column::Floats(held), other) => {
                *self = Column::Values(held.iter().map(|f| Value::Float(*f)).chain([other]).collect());
            }
            (Column::Values(held), value) => held.push(value),
        }
    }

    fn pop(&mut self) -> Option<Value> {
        match self {
            Column::Floats(held) => held.pop().map(Value::Float),
            Column::Values(held) => held.pop(),
        }
    }

    fn get(&self, row: usize) -> Value {
        match self {
            Column::Floats(held) => held.get(row).map_or(Value::Null, |f| Value::Float(*f)),
            Column::Values(held) => held.get(row).cloned().unwrap_or(Value::Null),
        }
    }

    /// As [`Value::collapse`] makes it of dictionaries.
    fn into_vector(self) -> Vector {
        match self {
            Column::Floats(held) => Items::Float(held.into()).into(),
            Column::Values(held) => Items::collapse(held).unwrap_or_else(|items| Items::List(items.into())).into(),
        }
    }
}

/// Objects with the same names.
struct Rows {
    names: Vec<Sym>,
    /// The names as JSON spells them, quoted.
    keys: Vec<Vec<u8>>,
    columns: Vec<Column>,
    count: usize,
}

impl Rows {
    /// Begins with one object.
    fn new(names: Vec<Sym>, values: Vec<Value>) -> Rows {
        let key = |name: &Sym| {
            let mut key = Vec::new();
            super::quoted(text(*name), &mut key);
            key
        };
        Rows {
            keys: names.iter().map(key).collect(),
            names,
            columns: values.into_iter().map(Column::new).collect(),
            count: 1,
        }
    }

    /// Takes the first members, so many, of a row that is not complete.
    fn taken(&mut self, members: usize) -> (Vec<Sym>, Vec<Value>) {
        let values = self.columns.iter_mut().take(members).filter_map(Column::pop).collect();
        (self.names.iter().take(members).copied().collect(), values)
    }

    fn into_items(self) -> std::result::Result<Vec<Value>, QError> {
        let mut items = limits::list(self.count)?;
        let names = Value::symbols(self.names);
        for row in 0..self.count {
            limits::pace()?;
            let values: Vec<Value> = self.columns.iter().map(|column| column.get(row)).collect();
            let values = if values.is_empty() { Value::empty() } else { Value::collapse(values) };
            items.push(Value::dict(names.clone(), values));
        }
        Ok(items)
    }

    fn into_value(self) -> Result {
        if self.columns.is_empty() {
            return Ok(Value::collapse(self.into_items()?));
        }
        let columns = self.columns.into_iter().map(Column::into_vector).collect();
        Ok(Value::table(Table::new(self.names, columns)))
    }
}
