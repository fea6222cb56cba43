//! Helpers of the tests of primitives: typed vectors from numbers, and results from q.
#![allow(dead_code, reason = "each of them uses a part")]

use columns::table::{Items, Sym, Value, symbol};
use elastick_q::session::Session;
use elastick_q::{Host, Limits, QError, eval_text, one_line};

pub const NULL: i64 = i64::MIN;
pub const INFINITY: i64 = i64::MAX;
/// All types of simple vectors.
pub const ALL: [i8; 18] = [1, 2, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19];
/// Types with a null.
pub const NULLABLE: [i8; 16] = [2, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19];

fn name(text: &str) -> Sym {
    symbol::intern(text.as_bytes()).expect("a symbol")
}

/// Returns the items as an unaligned slice of a longer vector.
pub fn part(items: Items) -> Value {
    let count = items.len();
    let rows: Vec<i64> = std::iter::once(-1).chain(0..count as i64).chain([-1, -1]).collect();
    Value::from(items.gather(&rows).cut(1, count + 1))
}

pub fn whole(number: i8, longs: &[i64]) -> Value {
    part(Items::from_longs(number, longs.to_vec()))
}

pub fn longs(items: &[i64]) -> Value {
    whole(7, items)
}

fn asked(text: &str, x: Value, y: Value) -> Result<Value, QError> {
    // Sections of two rows, so that short vectors exercise merging too.
    let limits = Limits { section_rows: Some(2), ..Limits::default() };
    let mut session = Session::new();
    session.assign(name("x"), x).expect("a global");
    session.assign(name("y"), y).expect("a global");
    eval_text(&mut session, text.as_bytes(), &limits)
}

pub fn q(text: &str, x: Value, y: Value) -> String {
    asked(text, x, y).map_or_else(|error| error.to_string(), |value| shown(&value))
}

/// Returns the number that an expression evaluates to.
pub fn number(text: &str, x: Value, y: Value) -> f64 {
    let value = asked(text, x, y).unwrap_or_else(|error| panic!("{text}: {error}"));
    value.as_float().unwrap_or_else(|| panic!("{text} is {}", shown(&value)))
}

/// Returns the numbers that an expression evaluates to.
pub fn floats(text: &str, x: Value, y: Value) -> Vec<f64> {
    let value = asked(text, x, y).unwrap_or_else(|error| panic!("{text}: {error}"));
    value.items().iter().map(|item| item.as_float().unwrap_or_else(|| panic!("{text} is {}", shown(&value)))).collect()
}

/// Scales a number to a float in quarters.
pub fn float_of(x: i64) -> f64 {
    if x == NULL { f64::NAN } else { x as f64 / 4.0 }
}

/// Type and items, without attributes.
pub fn shown(value: &Value) -> String {
    let plain = match value {
        Value::Vector(v) => Value::from(v.items.clone()),
        other => other.clone(),
    };
    format!("{} {}", value.type_number(), String::from_utf8_lossy(&one_line(&plain)))
}

/// Returns the numbers as far as a type can represent them: booleans are true above 0.
pub fn canon(t: i8, numbers: &[i64]) -> Vec<i64> {
    match t {
        1 => numbers.iter().map(|i| i64::from(*i > 0)).collect(),
        _ => numbers.to_vec(),
    }
}

/// Small numbers, nulls and infinities as items of a type, in the same order.
pub fn typed(t: i8, numbers: &[i64]) -> Value {
    /// 0 for a null, else 1 to 59.
    fn step(i: i64) -> u8 {
        if i == NULL { 0 } else { (i.clamp(-29, 29) + 30) as u8 }
    }
    fn float(i: i64) -> f64 {
        match i {
            NULL => f64::NAN,
            INFINITY => f64::INFINITY,
            i if i == -INFINITY => f64::NEG_INFINITY,
            i => i as f64 / 4.0,
        }
    }
    part(match t {
        1 => Items::Bool(numbers.iter().map(|i| u8::from(*i > 0)).collect()),
        2 => Items::Guid(numbers.iter().map(|i| [step(*i); 16]).collect()),
        4 => Items::Byte(numbers.iter().map(|i| step(*i)).collect()),
        8 => Items::Real(numbers.iter().map(|i| float(*i) as f32).collect()),
        9 => Items::Float(numbers.iter().map(|i| float(*i)).collect()),
        10 => Items::Char(numbers.iter().map(|i| b' ' + step(*i)).collect()),
        11 => {
            let text = |i: i64| if i == NULL { String::new() } else { format!("s{:02}", step(i)) };
            Items::Sym(numbers.iter().map(|i| name(&text(*i))).collect())
        }
        15 => Items::Datetime(numbers.iter().map(|i| float(*i)).collect()),
        _ => Items::from_longs(t, numbers.to_vec()),
    })
}
