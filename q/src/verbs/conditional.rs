//! The vector conditional, `?[test;yes;no]`.

use crate::runtime::context::Context;
use crate::runtime::error::QError;
use crate::runtime::limits;
use crate::runtime::values::{listed, truth};
use crate::verbs::cast::to_type;
use columns::table::{Items, Value, Vector};
use proto::types;

/// Returns for each item of `test` the item of `yes` in its place, or that of `no`. Either may be an atom. If one side holds longs and the
/// other floats, the result is floats, and so for any two numeric types: `?[01b;0;1.5 2.5]` is `1.5 0`.
///
/// # Errors
/// `length` for lists of another length; `type` for a test without numbers; `wsfull`, `stop`.
pub(crate) fn vector_conditional(
    context: &mut Context,
    test: &Value,
    yes: &Value,
    no: &Value,
) -> Result<Value, QError> {
    if test.is_scalar() {
        return Ok(if truth(test)? { yes.clone() } else { no.clone() });
    }
    let count = test.count();
    for side in [yes, no] {
        if !side.is_scalar() && side.count() != count {
            return Err(QError::named("length"));
        }
    }
    if let (Value::Vector(Vector { items: Items::Bool(test), .. }), Some((of_yes, of_no))) =
        (test, of_one_type(yes, no)?)
    {
        limits::room(of_yes.held_bytes().saturating_add(of_no.held_bytes()).saturating_mul(2))?;
        limits::room_for::<i64>(count)?;
        let (start, is_one) = (of_yes.len(), [yes.is_scalar(), no.is_scalar()]);
        let place = |(at, test): (usize, &u8)| match (*test != 0, is_one) {
            (true, [true, _]) => 0,
            (true, _) => at as i64,
            (false, [_, true]) => start as i64,
            (false, _) => start.saturating_add(at) as i64,
        };
        let places: Vec<i64> = test.iter().enumerate().map(place).collect();
        return Ok(of_yes.join(&of_no).gather(&places).into());
    }
    let mut out = Vec::with_capacity(count);
    for at in 0..count {
        context.tick()?;
        out.push(if truth(&test.at(at))? { yes.at(at) } else { no.at(at) });
    }
    Ok(Value::collapse(out))
}

/// The items of both sides if they are simple and of one type, or numbers.
fn of_one_type(yes: &Value, no: &Value) -> Result<Option<(Items, Items)>, QError> {
    let items = |side: &Value| match listed(side.clone()) {
        Value::Vector(Vector { items, .. }) if !matches!(items, Items::List(_)) => Some(items),
        _ => None,
    };
    let (Some(mut yes), Some(mut no)) = (items(yes), items(no)) else { return Ok(None) };
    let is_of_one_domain = match (&yes, &no) {
        (Items::Enum(own, _), Items::Enum(other, _)) | (Items::Link(own, _), Items::Link(other, _)) => own == other,
        _ => false,
    };
    if !is_of_one_domain {
        (yes, no) = (yes.plain(), no.plain());
    }
    if is_of_one_domain || yes.type_number() == no.type_number() {
        return Ok(Some((yes, no)));
    }
    let is_number = |items: &Items| (types::SHORT..=types::FLOAT).contains(&items.type_number());
    if !is_number(&yes) || !is_number(&no) {
        return Ok(None);
    }
    let wider = yes.type_number().max(no.type_number());
    Ok(Some((to_type(wider, &yes)?, to_type(wider, &no)?)))
}
