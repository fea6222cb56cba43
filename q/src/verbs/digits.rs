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

/// Room for the digits of any number.
pub(super) type Room = [u8; 20];

/// Writes the digits of a number at the end of `room`, which holds zeros before them. Returns where they start; 0 has none.
fn fill(mut number: u64, room: &mut Room) -> usize {
    *room = [b'0'; 20];
    let mut at = room.len();
    while number > 0 {
        let pair = (number % 100) as usize * 2;
        number /= 100;
        at = at.saturating_sub(2);
        let digits = PAIRS.get(pair..pair + 2).unwrap_or_default();
        room.iter_mut().skip(at).zip(digits).for_each(|(slot, digit)| *slot = *digit);
    }
    // The first pair may begin with a zero.
    if room.get(at) == Some(&b'0') { at + 1 } else { at }
}

/// The digits of a number; 0 has none.
pub(super) fn of(number: u64, room: &mut Room) -> &str {
    let start = fill(number, room);
    room.get(start..).and_then(|digits| std::str::from_utf8(digits).ok()).unwrap_or_default()
}

/// Appends a number with at least so many digits, at most 20.
pub(super) fn digits(number: u64, least: usize, out: &mut Vec<u8>) {
    let mut room = [0; 20];
    let start = fill(number, &mut room);
    out.extend_from_slice(room.get(start.min(room.len().saturating_sub(least))..).unwrap_or_default());
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
