//! Floats in the format of C's `%g`.

use super::digits::{self, whole};

/// Powers of ten that are floats exactly.
const POWERS: [f64; 23] = [
    1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20,
    1e21, 1e22,
];

/// Longest number of digits at which a scaled float keeps a fraction.
const SHORT: usize = 15;

/// A float in the format of `%.{precision}g`; precision 0 stands for 17.
pub(crate) fn float(f: f64, precision: u8) -> String {
    let mut out = Vec::new();
    put(f, precision, &mut out);
    String::from_utf8(out).unwrap_or_default()
}

/// Appends what [`float`] returns.
pub(super) fn put(f: f64, precision: u8, out: &mut Vec<u8>) {
    let digits = if precision == 0 { 17 } else { usize::from(precision) };
    if f.is_nan() {
        return out.extend_from_slice(b"0n");
    }
    if f.is_sign_negative() {
        out.push(b'-');
    }
    let size = f.abs();
    if size.is_infinite() {
        return out.extend_from_slice(b"0w");
    }
    // The bound is exact: powers of ten up to 1e16 are.
    if size.fract() == 0.0 && size < 10f64.powi(digits.min(16) as i32) {
        return whole(size as i64, out);
    }
    match rounded(size, digits) {
        Some((significand, exponent)) => {
            lay_out(digits::of(without_zeros(significand), &mut [0; 20]), exponent, digits, out);
        }
        None => {
            let scientific = format!("{:.*e}", digits - 1, size);
            let (mantissa, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
            let mantissa = mantissa.replace('.', "");
            lay_out(mantissa.trim_end_matches('0'), exponent.parse().unwrap_or(0), digits, out);
        }
    }
}

/// The first digits of a positive float as a number, rounded from its exact value, ties to even, and the exponent of the first digit.
/// `None` where the power of ten between the two is no float.
fn rounded(f: f64, digits: usize) -> Option<(u64, i32)> {
    if !(1..=SHORT).contains(&digits) {
        return None;
    }
    let (least, most) = (*POWERS.get(digits - 1)?, *POWERS.get(digits)?);
    // `log10` may be rounded up to an integer: the exponent is then one too high, and corrected below.
    let mut exponent = f.log10().floor() as i32;
    for _ in 0..3 {
        let shift = digits as i32 - 1 - exponent;
        let power = *POWERS.get(shift.unsigned_abs() as usize)?;
        // `scaled` is rounded; `rest` is what a product lacks, and has the sign of what a quotient lacks.
        let (scaled, rest) = match shift >= 0 {
            true => (f * power, f.mul_add(power, -(f * power))),
            false => (f / power, (-(f / power)).mul_add(power, f)),
        };
        if scaled < least {
            exponent -= 1;
        } else if scaled >= most {
            exponent += 1;
        } else {
            let whole = scaled.floor();
            let down = whole as u64;
            // Exact, and larger than `rest` unless it is 0.
            let above_half = scaled - whole - 0.5;
            let up = above_half > 0.0 || above_half == 0.0 && (rest > 0.0 || rest == 0.0 && down % 2 == 1);
            let nearest = down + u64::from(up);
            return Some(if nearest as f64 >= most { (least as u64, exponent + 1) } else { (nearest, exponent) });
        }
    }
    None
}

/// A number without zeros at its end.
fn without_zeros(mut number: u64) -> u64 {
    while number > 0 && number.is_multiple_of(10) {
        number /= 10;
    }
    number
}

/// Writes digits, of which the first has this exponent.
fn lay_out(text: &str, exponent: i32, digits: usize, out: &mut Vec<u8>) {
    if exponent < -4 || exponent >= digits as i32 {
        let (first, rest) = text.split_at(1.min(text.len()));
        out.extend_from_slice(first.as_bytes());
        if !rest.is_empty() {
            out.push(b'.');
            out.extend_from_slice(rest.as_bytes());
        }
        out.extend_from_slice(if exponent < 0 { b"e-" } else { b"e+" });
        if exponent.abs() < 10 {
            out.push(b'0');
        }
        return whole(i64::from(exponent.abs()), out);
    }
    match usize::try_from(exponent) {
        Ok(exponent) => {
            let (before, after) = text.split_at((exponent + 1).min(text.len()));
            out.extend_from_slice(before.as_bytes());
            out.extend(std::iter::repeat_n(b'0', exponent + 1 - before.len()));
            if !after.is_empty() {
                out.push(b'.');
                out.extend_from_slice(after.as_bytes());
            }
        }
        Err(_) => {
            out.extend_from_slice(b"0.");
            out.extend(std::iter::repeat_n(b'0', exponent.unsigned_abs() as usize - 1));
            out.extend_from_slice(text.as_bytes());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::float;
    use proptest::prelude::*;

    /// `%.{digits}g` spelled twice: for the exponent, then with as many decimals as are left.
    fn slow(f: f64, digits: usize) -> String {
        let scientific = format!("{:.*e}", digits - 1, f);
        let (mantissa, exponent) = scientific.split_once('e').expect("an exponent");
        let exponent: i32 = exponent.parse().expect("a number");
        let strip = |s: &str| match s.contains('.') {
            true => s.trim_end_matches('0').trim_end_matches('.').to_owned(),
            false => s.to_owned(),
        };
        if exponent < -4 || exponent >= digits as i32 {
            let sign = if exponent < 0 { '-' } else { '+' };
            return format!("{}e{sign}{:02}", strip(mantissa), exponent.abs());
        }
        let decimals = usize::try_from(digits as i32 - 1 - exponent).expect("not negative");
        strip(&format!("{f:.decimals$}"))
    }

    proptest! {
        #[test]
        fn floats_are_spelled_as_by_printf(bits: u64, near in -1e6f64..1e6, whole in -1_000_000_000_000i64..1_000_000_000_000, precision in 1u8..18) {
            let rounded = (near * 1000.0).round() / 1000.0;
            // Ties: a multiple of a half, an eighth, and their tenths.
            let ties = [whole as f64 / 2.0, whole as f64 / 8.0, whole as f64 / 1024.0, (whole % 100_000) as f64 + 0.5];
            let any = [f64::from_bits(bits), near, rounded, whole as f64, 1e4 / (whole as f64 + 0.5), near * 1e12, near * 1e-12];
            for f in any.into_iter().chain(ties) {
                if f.is_finite() && f != 0.0 {
                    prop_assert_eq!(float(f, precision), slow(f, usize::from(precision)), "{:e}", f);
                }
            }
        }
    }
}
