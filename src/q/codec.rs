//! Digests and text codes of bytes: `md5`, `.Q.sha1`, `.Q.btoa`, `.Q.atob`.

use super::context::Context;
use super::error::QError;
use super::shape::{Result, type_error};
use crate::table::{Items, Value, Vector};

pub(super) fn bytes(x: &Value) -> std::result::Result<&[u8], QError> {
    match x {
        Value::Vector(Vector { items: Items::Byte(b), .. }) => Ok(b),
        Value::Byte(b) => Ok(std::slice::from_ref(b)),
        other => other.as_text().ok_or_else(type_error),
    }
}

/// A message padded to whole blocks of 64 bytes, its length in bits at the end.
fn padded(message: &[u8], big_endian: bool) -> Vec<u8> {
    let bits = (message.len() as u64).wrapping_mul(8);
    let mut out = message.to_vec();
    out.push(0x80);
    while out.len() % 64 != 56 {
        out.push(0);
    }
    out.extend_from_slice(&if big_endian { bits.to_be_bytes() } else { bits.to_le_bytes() });
    out
}

/// The words of a block.
fn words(block: &[u8], big_endian: bool) -> Vec<u32> {
    let word = |b: &[u8]| {
        let mut four = [0; 4];
        four.iter_mut().zip(b).for_each(|(slot, byte)| *slot = *byte);
        if big_endian { u32::from_be_bytes(four) } else { u32::from_le_bytes(four) }
    };
    block.chunks(4).map(word).collect()
}

/// FIPS 180-4.
fn sha1(message: &[u8]) -> Vec<u8> {
    let mut state: [u32; 5] = [0x6745_2301, 0xefcd_ab89, 0x98ba_dcfe, 0x1032_5476, 0xc3d2_e1f0];
    for block in padded(message, true).chunks(64) {
        let mut w = words(block, true);
        for i in 16..80 {
            let at = |back: usize| w.get(i - back).copied().unwrap_or(0);
            w.push((at(3) ^ at(8) ^ at(14) ^ at(16)).rotate_left(1));
        }
        let [mut a, mut b, mut c, mut d, mut e] = state;
        for (i, word) in w.iter().enumerate() {
            let (f, k) = match i {
                0..20 => ((b & c) | (!b & d), 0x5a82_7999u32),
                20..40 => (b ^ c ^ d, 0x6ed9_eba1),
                40..60 => ((b & c) | (b & d) | (c & d), 0x8f1b_bcdc),
                _ => (b ^ c ^ d, 0xca62_c1d6),
            };
            let next = a.rotate_left(5).wrapping_add(f).wrapping_add(e).wrapping_add(k).wrapping_add(*word);
            (a, b, c, d, e) = (next, a, b.rotate_left(30), c, d);
        }
        for (slot, add) in state.iter_mut().zip([a, b, c, d, e]) {
            *slot = slot.wrapping_add(add);
        }
    }
    state.iter().flat_map(|w| w.to_be_bytes()).collect()
}

/// RFC 1321.
fn md5_of(message: &[u8]) -> Vec<u8> {
    const TURNS: [u32; 16] = [7, 12, 17, 22, 5, 9, 14, 20, 4, 11, 16, 23, 6, 10, 15, 21];
    let mut state: [u32; 4] = [0x6745_2301, 0xefcd_ab89, 0x98ba_dcfe, 0x1032_5476];
    for block in padded(message, false).chunks(64) {
        let w = words(block, false);
        let [mut a, mut b, mut c, mut d] = state;
        for i in 0..64usize {
            let (f, g) = match i / 16 {
                0 => ((b & c) | (!b & d), i),
                1 => ((d & b) | (!d & c), (5 * i + 1) % 16),
                2 => (b ^ c ^ d, (3 * i + 5) % 16),
                _ => (c ^ (b | !d), (7 * i) % 16),
            };
            let constant = (((i + 1) as f64).sin().abs() * 4_294_967_296.0) as u32;
            let word = w.get(g).copied().unwrap_or(0);
            let turn = TURNS.get(i / 16 * 4 + i % 4).copied().unwrap_or(0);
            let sum = a.wrapping_add(f).wrapping_add(constant).wrapping_add(word).rotate_left(turn);
            (a, b, c, d) = (d, b.wrapping_add(sum), b, c);
        }
        for (slot, add) in state.iter_mut().zip([a, b, c, d]) {
            *slot = slot.wrapping_add(add);
        }
    }
    state.iter().flat_map(|w| w.to_le_bytes()).collect()
}

/// `.Q.sha1 x`.
pub(super) fn q_sha1(_: &mut Context, x: Value) -> Result {
    Ok(Items::Byte(sha1(bytes(&x)?).into()).into())
}

/// `md5 x`.
pub(super) fn md5(_: &mut Context, x: Value) -> Result {
    Ok(Items::Byte(md5_of(bytes(&x)?).into()).into())
}

/// Whether there is time and memory for a result as long as `x`, and a third more.
fn room(context: &mut Context, x: &Value) -> std::result::Result<(), QError> {
    context.check()?;
    context.reserve(x.count().saturating_mul(4) / 3)
}

const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// `.Q.btoa x`: base 64.
pub(super) fn btoa(context: &mut Context, x: Value) -> Result {
    room(context, &x)?;
    let mut out = Vec::new();
    for chunk in bytes(&x)?.chunks(3) {
        let byte = |i: usize| u32::from(chunk.get(i).copied().unwrap_or(0));
        let all = byte(0) << 16 | byte(1) << 8 | byte(2);
        for i in 0..4 {
            let digit = ALPHABET.get((all >> (18 - 6 * i) & 63) as usize).copied().unwrap_or(b'=');
            out.push(if i > chunk.len() { b'=' } else { digit });
        }
    }
    Ok(Value::chars(out))
}

/// `.Q.atob x`: the bytes behind base 64.
pub(super) fn atob(context: &mut Context, x: Value) -> Result {
    room(context, &x)?;
    let mut out = Vec::new();
    let (mut held, mut bits) = (0u32, 0u32);
    for c in bytes(&x)?.iter().filter(|c| **c != b'=') {
        let digit = ALPHABET.iter().position(|a| a == c).ok_or(QError::named("domain"))?;
        held = (held << 6 | digit as u32) & 0xffff;
        bits += 6;
        if bits >= 8 {
            bits -= 8;
            out.push((held >> bits & 0xff) as u8);
        }
    }
    Ok(Items::Byte(out.into()).into())
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
