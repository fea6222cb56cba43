//! Digests and base64. MD5 and SHA-1 are here for kdb+ password files, q's own functions and the WebSocket handshake
//! (SHA-1); neither protects secrets that can be guessed.

use crate::sys::budget::{self, BLOCK};
use base64::Engine;
use base64::alphabet::STANDARD as ALPHABET;
use base64::engine::DecodePaddingMode;
use base64::engine::general_purpose::{GeneralPurpose, GeneralPurposeConfig, STANDARD};
use sha1::{Digest, Sha1};

/// Callers strip the padding. Unused bits of the last digit may be anything, as in kdb+ and in browsers.
const LENIENT: GeneralPurpose = GeneralPurpose::new(
    &ALPHABET,
    GeneralPurposeConfig::new()
        .with_decode_allow_trailing_bits(true)
        .with_decode_padding_mode(DecodePaddingMode::RequireNone),
);

/// Bytes coded at once: a multiple of 3, so that a block of base64 needs no padding.
const CODED_BYTES: usize = BLOCK / 4 * 3;

/// Ends early past the limits of the thread.
fn in_blocks(message: &[u8], mut f: impl FnMut(&[u8])) {
    for block in message.chunks(CODED_BYTES) {
        if budget::spend(block.len()) {
            return;
        }
        f(block);
    }
}

/// MD5 (RFC 1321).
pub fn md5(message: &[u8]) -> [u8; 16] {
    let mut digest = md5::Md5::new();
    in_blocks(message, |block| digest.update(block));
    digest.finalize().into()
}

/// SHA-1 (RFC 3174).
pub fn sha1(message: &[u8]) -> [u8; 20] {
    let mut digest = Sha1::new();
    in_blocks(message, |block| digest.update(block));
    digest.finalize().into()
}

/// Lowercase hexadecimal: two digits for each byte.
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Base64 with padding (RFC 4648, section 4).
pub fn to_base64(bytes: &[u8]) -> String {
    let mut out = String::with_capacity(bytes.len().div_ceil(3).saturating_mul(4));
    in_blocks(bytes, |block| STANDARD.encode_string(block, &mut out));
    out
}

/// Decodes base64 without padding. Returns `None` for any other character, or for a single digit at the end, which encodes no byte.
pub fn from_base64(digits: &[u8]) -> Option<Vec<u8>> {
    let mut out = Vec::with_capacity(digits.len() / 4 * 3 + 3);
    // Whole groups of four digits: a group ends a byte.
    for block in digits.chunks(BLOCK) {
        if budget::spend(block.len()) {
            break;
        }
        LENIENT.decode_vec(block, &mut out).ok()?;
    }
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn md5_gives_the_values_of_its_rfc() {
        assert_eq!(hex(&md5(b"")), "d41d8cd98f00b204e9800998ecf8427e");
        assert_eq!(hex(&md5(b"abc")), "900150983cd24fb0d6963f7d28e17f72");
        let digits = b"12345678901234567890123456789012345678901234567890123456789012345678901234567890";
        assert_eq!(hex(&md5(digits)), "57edf4a22be3c955ac49da2e2107b67a");
    }

    #[test]
    fn sha1_gives_the_values_of_its_rfc() {
        assert_eq!(hex(&sha1(b"abc")), "a9993e364706816aba3e25717850c26c9cd0d89d");
        let text = b"abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq";
        assert_eq!(hex(&sha1(text)), "84983e441c3bd26ebaae4aa1f95129e5e54670f1");
    }

    #[test]
    fn base64_gives_the_values_of_its_rfc() {
        for (plain, coded) in [("", ""), ("f", "Zg=="), ("fo", "Zm8="), ("foo", "Zm9v"), ("foob", "Zm9vYg==")] {
            assert_eq!(to_base64(plain.as_bytes()), coded);
            assert_eq!(from_base64(coded.trim_end_matches('=').as_bytes()).as_deref(), Some(plain.as_bytes()));
        }
    }

    #[test]
    fn left_over_bits_are_ignored_and_what_is_no_base64_is_rejected() {
        assert_eq!(from_base64(b"Zh"), Some(b"f".to_vec()));
        for wrong in [&b"Z"[..], b"Zm9vY", b"Zm9v=", b"Zm 9v", b"Zm-_", b"\xff\xff"] {
            assert_eq!(from_base64(wrong), None, "{}", wrong.escape_ascii());
        }
    }

    proptest! {
        #[test]
        fn base64_gives_back_what_was_coded(plain in prop::collection::vec(any::<u8>(), 0..50)) {
            let coded = to_base64(&plain);
            prop_assert_eq!(from_base64(coded.trim_end_matches('=').as_bytes()), Some(plain));
        }
    }
}
