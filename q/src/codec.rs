//! Digests and text codes of bytes: `md5`, `.Q.sha1`, `.Q.btoa`, `.Q.atob`.

use super::context::Context;
use super::error::QError;
use super::shape::{Result, type_error};
use columns::kernel::digest;
use columns::table::{Items, Value, Vector};
use std::borrow::Cow;

pub(super) fn bytes(x: &Value) -> std::result::Result<&[u8], QError> {
    match x {
        Value::Vector(Vector { items: Items::Byte(b), .. }) => Ok(b),
        Value::Byte(b) => Ok(std::slice::from_ref(b)),
        other => other.as_text().ok_or_else(type_error),
    }
}

/// `.Q.sha1 x`.
pub(super) fn q_sha1(_: &mut Context, x: Value) -> Result {
    Ok(Items::Byte(digest::sha1(bytes(&x)?).to_vec().into()).into())
}

/// `md5 x`.
pub(super) fn md5(_: &mut Context, x: Value) -> Result {
    Ok(Items::Byte(digest::md5(bytes(&x)?).to_vec().into()).into())
}

/// Whether there is time and memory for a result as long as `x`, and a third more.
fn room(context: &mut Context, x: &Value) -> std::result::Result<(), QError> {
    context.check()?;
    context.reserve(x.count().saturating_mul(4) / 3)
}

/// `.Q.btoa x`: base 64.
pub(super) fn btoa(context: &mut Context, x: Value) -> Result {
    room(context, &x)?;
    Ok(Value::chars(digest::to_base64(bytes(&x)?).into_bytes()))
}

/// `.Q.atob x`: the bytes behind base 64. Padding may stand anywhere; a single digit at the end holds no byte.
pub(super) fn atob(context: &mut Context, x: Value) -> Result {
    room(context, &x)?;
    let text = bytes(&x)?;
    let (text, _) = text.split_at(text.iter().rposition(|c| *c != b'=').map_or(0, |last| last + 1));
    let digits = if text.contains(&b'=') {
        Cow::Owned(text.iter().copied().filter(|c| *c != b'=').collect::<Vec<u8>>())
    } else {
        Cow::Borrowed(text)
    };
    let (whole, single) = digits.split_at(digits.len() - usize::from(digits.len() % 4 == 1));
    let is_digit = |c: &u8| digest::from_base64(&[*c, b'A']).is_some();
    let plain = digest::from_base64(whole).filter(|_| single.iter().all(is_digit));
    Ok(Items::Byte(plain.ok_or(QError::named("domain"))?.into()).into())
}

/// `.Q.fixed[n;x]`: a number with `n` decimals.
pub(super) fn fixed(_: &mut Context, decimals: Value, x: Value) -> Result {
    let decimals = decimals.as_long().and_then(|d| usize::try_from(d).ok()).filter(|d| *d <= 64);
    let decimals = decimals.ok_or(QError::named("domain"))?;
    let number = x.as_float().ok_or_else(type_error)?;
    if number.is_nan() {
        return Ok(Value::chars(&b""[..]));
    }
    // A nudge to the larger side: 1.005 is meant as that, although the nearest float lies below it.
    let nudged = number * (1.0 + f64::EPSILON);
    Ok(Value::chars(format!("{nudged:.decimals$}").into_bytes()))
}
