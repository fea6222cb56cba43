//! MD5 (RFC 1321) and SHA-1 (RFC 3174), in hex: the forms in which kdb+ keeps passwords. Neither protects a password that
//! can be guessed; they are here to read the files that users have.

/// Splits a message into 64-byte blocks with the padding that both hashes share.
fn blocks(message: &[u8], big_endian: bool) -> Vec<[u32; 16]> {
    let mut padded = message.to_vec();
    padded.push(0x80);
    while padded.len() % 64 != 56 {
        padded.push(0);
    }
    let bits = (message.len() as u64).wrapping_mul(8);
    padded.extend(if big_endian { bits.to_be_bytes() } else { bits.to_le_bytes() });
    let word = |bytes: &[u8; 4]| if big_endian { u32::from_be_bytes(*bytes) } else { u32::from_le_bytes(*bytes) };
    let (blocks, _) = padded.as_chunks::<64>();
    blocks
        .iter()
        .map(|block| {
            let mut words = [0; 16];
            let (chunks, _) = block.as_chunks::<4>();
            words.iter_mut().zip(chunks).for_each(|(to, from)| *to = word(from));
            words
        })
        .collect()
}

fn hex(bytes: impl IntoIterator<Item = u8>) -> String {
    bytes.into_iter().map(|byte| format!("{byte:02x}")).collect()
}

/// MD5 as 32 hex digits.
pub(super) fn md5_hex(message: &[u8]) -> String {
    const SHIFTS: [[u32; 4]; 4] = [[7, 12, 17, 22], [5, 9, 14, 20], [4, 11, 16, 23], [6, 10, 15, 21]];
    let mut state: [u32; 4] = [0x6745_2301, 0xefcd_ab89, 0x98ba_dcfe, 0x1032_5476];
    for words in blocks(message, false) {
        let [mut a, mut b, mut c, mut d] = state;
        for (round, shifts) in SHIFTS.iter().enumerate() {
            for step in 0..16usize {
                let (mix, word) = match round {
                    0 => ((b & c) | (!b & d), step),
                    1 => ((d & b) | (!d & c), (5 * step + 1) % 16),
                    2 => (b ^ c ^ d, (3 * step + 5) % 16),
                    _ => (c ^ (b | !d), (7 * step) % 16),
                };
                // The table of RFC 1321: the integer part of 2^32 times |sin(i+1)|.
                let sine = (((round * 16 + step + 1) as f64).sin().abs() * 4_294_967_296.0) as u32;
                let word = words.get(word).copied().unwrap_or(0);
                let shift = shifts.get(step % 4).copied().unwrap_or(0);
                let sum = a.wrapping_add(mix).wrapping_add(sine).wrapping_add(word).rotate_left(shift);
                (a, d, c, b) = (d, c, b, b.wrapping_add(sum));
            }
        }
        let add = [a, b, c, d];
        state.iter_mut().zip(add).for_each(|(to, from)| *to = to.wrapping_add(from));
    }
    hex(state.iter().flat_map(|word| word.to_le_bytes()))
}

/// SHA-1 as 40 hex digits.
pub(super) fn sha1_hex(message: &[u8]) -> String {
    hex(sha1(message))
}

/// SHA-1.
pub(super) fn sha1(message: &[u8]) -> Vec<u8> {
    let mut state: [u32; 5] = [0x6745_2301, 0xefcd_ab89, 0x98ba_dcfe, 0x1032_5476, 0xc3d2_e1f0];
    for words in blocks(message, true) {
        let [mut a, mut b, mut c, mut d, mut e] = state;
        // The last sixteen words of the schedule; each new one comes from four of them.
        let mut schedule = words;
        for step in 0..80usize {
            let [w0, _, w2, .., w8, _, _, _, _, w13, _, _] = schedule;
            let (mix, constant) = match step / 20 {
                0 => ((b & c) | (!b & d), 0x5a82_7999),
                1 => (b ^ c ^ d, 0x6ed9_eba1),
                2 => ((b & c) | (b & d) | (c & d), 0x8f1b_bcdc),
                _ => (b ^ c ^ d, 0xca62_c1d6u32),
            };
            let sum = a.rotate_left(5).wrapping_add(mix).wrapping_add(e).wrapping_add(w0).wrapping_add(constant);
            (e, d, c, b, a) = (d, c, b.rotate_left(30), a, sum);
            schedule.rotate_left(1);
            if let Some(last) = schedule.last_mut() {
                *last = (w0 ^ w2 ^ w8 ^ w13).rotate_left(1);
            }
        }
        let add = [a, b, c, d, e];
        state.iter_mut().zip(add).for_each(|(to, from)| *to = to.wrapping_add(from));
    }
    state.iter().flat_map(|word| word.to_be_bytes()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn md5_gives_the_values_of_its_rfc() {
        assert_eq!(md5_hex(b""), "d41d8cd98f00b204e9800998ecf8427e");
        assert_eq!(md5_hex(b"abc"), "900150983cd24fb0d6963f7d28e17f72");
        let digits = b"12345678901234567890123456789012345678901234567890123456789012345678901234567890";
        assert_eq!(md5_hex(digits), "57edf4a22be3c955ac49da2e2107b67a");
    }

    #[test]
    fn sha1_gives_the_values_of_its_rfc() {
        assert_eq!(sha1_hex(b"abc"), "a9993e364706816aba3e25717850c26c9cd0d89d");
        let text = b"abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq";
        assert_eq!(sha1_hex(text), "84983e441c3bd26ebaae4aa1f95129e5e54670f1");
    }
}
