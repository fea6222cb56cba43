//! Digests and encodings of bytes: `md5`, `.Q.sha1`, `.Q.btoa`, `.Q.atob`.

use crate::runtime::context::Context;
use crate::runtime::error::QError;
use crate::runtime::settings::precision;
use crate::runtime::values::Result;
use crate::runtime::values::type_error;
use crate::verbs::decimal;
use crate::verbs::format;
use columns::kernel::digest;
use columns::table::{Items, Value, Vector};
use std::borrow::Cow;

/// The bytes of a byte vector, a byte or text.
pub(crate) fn bytes(x: &Value) -> std::result::Result<&[u8], QError> {
    match x {
        Value::Vector(Vector { items: Items::Byte(b), .. }) => Ok(b),
        Value::Byte(b) => Ok(std::slice::from_ref(b)),
        other => other.as_text().ok_or_else(type_error),
    }
}

/// `.Q.sha1 x`.
pub(crate) fn q_sha1(_: &mut Context, x: Value) -> Result {
    Ok(Items::Byte(digest::sha1(bytes(&x)?).to_vec().into()).into())
}

/// `md5 x`.
pub(crate) fn md5(_: &mut Context, x: Value) -> Result {
    Ok(Items::Byte(digest::md5(bytes(&x)?).to_vec().into()).into())
}

/// Checks the limits for a result 4/3 as long as `x`.
fn room(context: &mut Context, x: &Value) -> std::result::Result<(), QError> {
    context.check()?;
    context.reserve(x.count().saturating_mul(4) / 3)
}

/// `.Q.btoa x`: encodes base64.
pub(crate) fn btoa(context: &mut Context, x: Value) -> Result {
    room(context, &x)?;
    Ok(Value::chars(digest::to_base64(bytes(&x)?).into_bytes()))
}

/// `.Q.atob x`: decodes base64. Padding may occur anywhere; a single digit at the end encodes no byte.
pub(crate) fn atob(context: &mut Context, x: Value) -> Result {
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

/// `.Q.fixed[n;x]`: a number as text with `n` decimals. It is multiplied by 10 to the power of `n` and rounded; with `n` 0 the point stays: `"7."`.
pub(crate) fn fixed(_: &mut Context, decimals: Value, x: Value) -> Result {
    let decimals = decimals.as_long().and_then(|d| usize::try_from(d).ok()).filter(|d| *d <= 64);
    let decimals = decimals.ok_or(QError::named("domain"))?;
    let number = x.as_float().ok_or_else(type_error)?;
    if number.is_nan() {
        return Ok(Value::chars(&b""[..]));
    }
    let sign = if number < 0.0 { "-" } else { "" };
    // Below one, the digits are those of the number and ten, whose first is left out.
    let lead = usize::from(number.abs() < 1.0);
    let magnitude = if lead == 1 { 10.0 + number.abs() } else { number.abs() };
    let scaled = (0..decimals).fold(1.0, |power, _| power * 10.0) * magnitude;
    let text = if scaled < EXACT {
        let digits = format!("{scaled:.0}", scaled = scaled.round());
        let (whole, rest) = digits.split_at(digits.len().saturating_sub(decimals));
        format!("{whole}.{rest}")
    } else if lead == 0 && !matches!(x, Value::Float(_) | Value::Real(_)) {
        String::from_utf8_lossy(&format::string(&x)?).trim_start_matches('-').to_owned()
    } else {
        decimal::float(magnitude, precision())
    };
    Ok(Value::chars(format!("{sign}{}", text.get(lead..).unwrap_or_default()).into_bytes()))
}

/// Numbers from here on have digits of their own only: not every integer is a float.
const EXACT: f64 = 9e15;

/// `-27!(n;x)`: as `.Q.fixed`, but rounds the float itself: `0.045`, which is slightly smaller, becomes `0.04`.
pub(crate) fn exactly(context: &mut Context, decimals: Value, x: Value) -> Result {
    match (decimals.as_long().and_then(|d| usize::try_from(d).ok()), x.as_float()) {
        (Some(places @ ..=64), Some(number)) if !number.is_nan() => {
            Ok(Value::chars(format!("{number:.places$}").into_bytes()))
        }
        _ => fixed(context, decimals, x),
    }
}
