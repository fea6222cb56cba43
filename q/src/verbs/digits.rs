//! Writes whole numbers in decimal.

/// Digits of numbers below 100, in pairs.
const PAIRS: [u8; 200] = pairs();

const fn pairs() -> [u8; 200] {
    let (mut out, mut n) = ([0; 200], 0);
    while n < 100 {
        out[2 * n] = b'0' + (n / 10) as u8;
        out[2 * n + 1] = b'0' + (n % 10) as u8;
        n += 1;
    }
    out
}

/// Appends a number with at least so many digits, at most 20.
pub(super) fn digits(mut number: u64, least: usize, out: &mut Vec<u8>) {
    const MAX: usize = 20;
    let mut held = [b'0'; MAX];
    let mut at = MAX;
    while number > 0 {
        let pair = (number % 100) as usize * 2;
        number /= 100;
        at = at.saturating_sub(2);
        let digits = PAIRS.get(pair..pair + 2).unwrap_or_default();
        held.iter_mut().skip(at).zip(digits).for_each(|(slot, digit)| *slot = *digit);
    }
    // The first pair may begin with a zero.
    if held.get(at) == Some(&b'0') {
        at += 1;
    }
    out.extend_from_slice(held.get(at.min(MAX - least.min(MAX))..).unwrap_or_default());
}

/// Appends a whole number.
pub(super) fn whole(number: i64, out: &mut Vec<u8>) {
    if number < 0 {
        out.push(b'-');
    }
    digits(number.unsigned_abs(), 1, out);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_numbers_have_their_digits() {
        for number in [0, 1, 9, 10, 99, 100, 101, 1234567, -1, -10, i64::MAX, i64::MIN + 1, i64::MIN] {
            let mut out = Vec::new();
            whole(number, &mut out);
            assert_eq!(String::from_utf8_lossy(&out), number.to_string());
        }
        let mut out = Vec::new();
        digits(7, 3, &mut out);
        digits(0, 2, &mut out);
        digits(u64::MAX, 1, &mut out);
        assert_eq!(String::from_utf8_lossy(&out), format!("00700{}", u64::MAX));
    }
}
