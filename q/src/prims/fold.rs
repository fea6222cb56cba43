//! Where folds and scans begin, what folding nothing gives, and folds that a kernel does.

use super::name_of;
use crate::context::Context;
use crate::error::QError;
use crate::stats;
use columns::table::{Items, Value};

type Answer = Result<Value, QError>;

/// What stands before the first item for an each-prior: what leaves it as it is, else a null.
pub(crate) fn prior_seed(f: &Value, y: &Value) -> Value {
    let number = y.to_items().type_number();
    match name_of(f) {
        Some("-" | "+") if number > 0 => Value::from_long(if matches!(number, 1 | 4) { 6 } else { number }, 0),
        Some("*" | "%") if number > 0 => Value::from_long(if matches!(number, 1 | 4) { 6 } else { number }, 1),
        Some(",") => Value::empty(),
        _ => y.at(usize::MAX),
    }
}

/// What an operator leaves as it is: where an amend of an undefined name starts.
pub(crate) fn identity(f: &Value) -> Option<Value> {
    Some(match name_of(f)? {
        "+" | "-" => Value::Long(0),
        "*" | "%" => Value::Long(1),
        "&" => Value::Long(i64::MAX),
        "|" => Value::Long(-i64::MAX),
        "," => Value::empty(),
        _ => return None,
    })
}

/// The result of folding nothing.
pub(crate) fn fold_identity(f: &Value, y: &Value) -> Value {
    match name_of(f) {
        Some("+") => Value::Long(0),
        Some("*") => Value::Long(1),
        Some(",") => y.clone(),
        Some("&") => Value::Long(i64::MAX),
        Some("|") => Value::Long(-i64::MAX),
        Some(_) => match y {
            Value::Vector(v) if !matches!(v.items, Items::List(_)) => v.items.missing(),
            _ => Value::empty(),
        },
        None => Value::empty(),
    }
}

/// Folds of simple vectors by their kernels.
pub(crate) fn fast_fold(
    context: &mut Context,
    f: &Value,
    seed: Option<&Value>,
    y: &Value,
    scan: bool,
) -> Option<Answer> {
    let Value::Vector(v) = y else { return None };
    if matches!(v.items, Items::List(_) | Items::Sym(_) | Items::Char(_)) || v.is_empty() || seed.is_some() {
        return None;
    }
    let wide = v.items.type_number() >= 6;
    Some(match (name_of(f)?, scan) {
        ("+", false) if wide => stats::sum(context, y.clone()),
        ("+", true) if wide => stats::sums(context, y.clone()),
        ("&", false) => stats::min(context, y.clone()),
        ("|", false) => stats::max(context, y.clone()),
        ("&", true) => stats::mins(context, y.clone()),
        ("|", true) => stats::maxs(context, y.clone()),
        _ => return None,
    })
}
