//! Seeds of folds and scans, results of empty folds, and folds with a kernel.

use crate::runtime::context::Context;
use crate::runtime::error::QError;
use crate::syntax::prims::name_of;
use crate::verbs::format::is_blank;
use crate::verbs::stats;
use columns::table::{Items, Value};
use proto::types;

type Evaluated = Result<Value, QError>;

/// The item before the first one in an each-prior: the neutral element if there is one, else a null.
pub(crate) fn prior_seed(f: &Value, y: &Value) -> Value {
    let number = match y.to_items().type_number() {
        types::BOOL | types::BYTE => types::INT,
        // Items of a list, rows of a table.
        0 => types::LONG,
        number => number,
    };
    match name_of(f) {
        Some("-" | "+") => Value::from_long(number, 0),
        Some("*" | "%") => Value::from_long(number, 1),
        // Items that are lists compare with a null of their own type, dictionaries with that of their values.
        Some("=" | "<>" | "<" | ">" | "<=" | ">=" | "^") if !matches!(y, Value::Table(_)) => match y.at(0) {
            list @ Value::Vector(_) => Value::null_of(list.to_items().type_number()),
            Value::Dict(d) => Value::null_of(d.values.to_items().type_number()),
            _ => y.at(usize::MAX),
        },
        _ => y.at(usize::MAX),
    }
}

/// Whether the first item of an each-prior stays as it is: the operator has a neutral element, and with it would change no more than the type.
pub(crate) fn keeps_first(f: &Value) -> bool {
    matches!(name_of(f), Some("," | "&" | "|"))
}

/// Neutral element of an operator; an amend of an undefined name starts from it.
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

/// Result of folding an empty list. `+`, `*`, `&` and `|` over an empty vector of numbers give what `sum`, `prd`, `min` and `max` give.
pub(crate) fn fold_identity(context: &mut Context, f: &Value, y: &Value) -> Evaluated {
    let simple = match y {
        Value::Vector(v) if !matches!(v.items, Items::List(_)) => Some(&v.items),
        _ => None,
    };
    let is_summed = simple.is_some_and(|items| !matches!(items, Items::Sym(_) | Items::Char(_)));
    let missing = simple.map_or_else(Value::empty, Items::missing);
    match name_of(f) {
        Some("+") if is_summed => stats::sum(context, y.clone()),
        Some("*") if is_summed && y.type_number() <= types::FLOAT => stats::prd(context, y.clone()),
        Some("&") if is_summed => stats::min(context, y.clone()),
        Some("|") if is_summed => stats::max(context, y.clone()),
        Some("+" | "*" | "&" | "|") => Ok(identity(f).unwrap_or(missing)),
        Some(",") => Ok(y.clone()),
        Some(_) => Ok(missing),
        None => Ok(Value::empty()),
    }
}

/// Folds simple vectors by their kernels.
pub(crate) fn fast_fold(
    context: &mut Context,
    f: &Value,
    seed: Option<&Value>,
    y: &Value,
    scan: bool,
) -> Option<Evaluated> {
    let Value::Vector(v) = y else { return None };
    // `,/` is raze: a list even of one item.
    if name_of(f) == Some(",") && seed.is_none() && !scan && !v.is_empty() && !matches!(v.items, Items::List(_)) {
        return Some(Ok(v.items.clone().into()));
    }
    if matches!(v.items, Items::List(_) | Items::Sym(_)) || v.is_empty() {
        return None;
    }
    let name = name_of(f).filter(|name| matches!(*name, "+" | "*" | "&" | "|"))?;
    // There are sums of characters, although `+` does not take two of them.
    if matches!(v.items, Items::Char(_)) && name != "+" {
        return None;
    }
    if let Some(seed) = seed {
        let number = v.items.type_number();
        if !matches!(number, types::INT | types::LONG | types::REAL | types::FLOAT)
            || seed.type_number() != -number
            || is_blank(seed)
        {
            return None;
        }
        // The seed is the first item, whose own result is left out.
        let all = Value::from(seed.clone().enlist().to_items().join(&v.items));
        let result = fast_fold(context, f, None, &all, scan)?;
        return Some(if scan {
            result.map(|all| match all {
                Value::Vector(v) => v.cut(1, v.len()).into(),
                other => other,
            })
        } else {
            result
        });
    }
    Some(match (name, scan) {
        ("+", false) => stats::sum(context, y.clone()),
        ("+", true) => stats::sums(context, y.clone()),
        ("*", false) => stats::prd(context, y.clone()),
        ("*", true) => stats::prds(context, y.clone()),
        ("&", false) => stats::min(context, y.clone()),
        ("|", false) => stats::max(context, y.clone()),
        ("&", true) => stats::mins(context, y.clone()),
        ("|", true) => stats::maxs(context, y.clone()),
        _ => return None,
    })
}
