//! Memory follows the bytes that have arrived, not the sizes that they declare. A test program of one test, so that no
//! other test allocates at the same time.

use std::fs;

use elastick_proto::{Compression, DecodeErrorKind, Endian, Header, Limits, MessageKind};
use elastick_proto::{compress, decode};

const NO_LIMITS: Limits =
    Limits { max_message_bytes: u64::MAX, max_decompressed_bytes: u64::MAX, max_depth: usize::MAX };

/// Peak address space of this process in bytes, which shows even a reservation that was never touched.
fn peak_bytes() -> u64 {
    let status = fs::read_to_string("/proc/self/status").expect("Linux");
    let line = status.lines().find(|line| line.starts_with("VmPeak:")).expect("VmPeak");
    line.split_whitespace().nth(1).expect("a number").parse::<u64>().expect("a number") * 1024
}

/// A compressed message with eight bytes of stream that declares this length.
fn bomb(total_bytes: u64) -> Vec<u8> {
    let stream = [0xff, 0, 0xff, 0, 0xff, 0, 0xff, 0];
    let header = Header {
        endian: Endian::Little,
        kind: MessageKind::Async,
        compression: Compression::Long,
        total_bytes: 16 + stream.len() as u64,
    };
    [&header.write().expect("short")[..], &total_bytes.to_le_bytes(), &stream].concat()
}

/// Objects that declare far more items than they have bytes.
fn claims() -> Vec<Vec<u8>> {
    let count = i32::MAX.to_le_bytes();
    let mut claims: Vec<Vec<u8>> = (0..=19).map(|ty| [&[ty, 0][..], &count, &[0; 20]].concat()).collect();
    for ty in [104, 105] {
        claims.push([&[ty][..], &count, &[101, 0, 101, 0]].concat());
    }
    claims.push([&[98, 0, 99, 11, 0][..], &count, &[b'a', 0, b'b', 0]].concat());
    claims
}

#[test]
fn claims_reserve_nothing() {
    let before = peak_bytes();
    for claim in claims() {
        let error = decode::object(&claim, Endian::Little, &NO_LIMITS).expect_err("not there");
        assert!(matches!(error.kind, DecodeErrorKind::Incomplete | DecodeErrorKind::UnknownType(3)), "{error}");
    }
    for total_bytes in [10 << 30, u64::MAX, 1 << 40] {
        let error = compress::decompress(&bomb(total_bytes), &NO_LIMITS).expect_err("cannot expand so far");
        assert_eq!(error.kind, DecodeErrorKind::BadCompression);
    }
    // 1 GiB in the header, 20 bytes present.
    let short = [&[1, 0, 0, 0, 0, 0, 0, 0x40][..], &[0; 12]].concat();
    assert_eq!(decode::message(&short, &NO_LIMITS).expect_err("short").kind, DecodeErrorKind::Incomplete);
    let grown = peak_bytes() - before;
    assert!(grown < 16 << 20, "{grown} bytes");
}
