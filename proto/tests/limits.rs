//! Input that exceeds a limit.

use elastick_proto::{Compression, DecodeErrorKind, EncodeError, Endian, Header, Limits, MessageKind, Value};
use elastick_proto::{compress, decode, encode, walk};

const NO_LIMITS: Limits =
    Limits { max_message_bytes: u64::MAX, max_decompressed_bytes: u64::MAX, max_depth: usize::MAX };

/// A compressed message with this stream, which declares this length.
fn compressed(total_bytes: u64, stream: &[u8]) -> Vec<u8> {
    let header = Header {
        endian: Endian::Little,
        kind: MessageKind::Async,
        compression: Compression::Long,
        total_bytes: 16 + stream.len() as u64,
    };
    [&header.write().expect("short")[..], &total_bytes.to_le_bytes(), stream].concat()
}

fn refusal(total_bytes: u64, stream: &[u8]) -> DecodeErrorKind {
    compress::decompress(&compressed(total_bytes, stream), &NO_LIMITS).expect_err("refused").kind
}

#[test]
fn a_message_that_would_expand_over_the_limit_is_rejected() {
    let limits = Limits::default();
    let error = compress::decompress(&compressed(10 << 30, &[0; 8]), &limits).expect_err("too long");
    let (total_bytes, max_bytes) = (10 << 30, limits.max_decompressed_bytes);
    assert_eq!(error.kind, DecodeErrorKind::ExpandsTooFar { total_bytes, max_bytes });
    assert_eq!(error.term(), "limit");
}

#[test]
fn a_length_that_the_stream_cannot_expand_to_is_rejected_unread() {
    // One group expands to at most eight times 257 bytes.
    assert_eq!(refusal(8 + 2056, &[0; 8]), DecodeErrorKind::Incomplete);
    assert_eq!(refusal(8 + 2057, &[0; 8]), DecodeErrorKind::BadCompression);
    assert_eq!(refusal(7, &[0; 8]), DecodeErrorKind::BadCompression);
}

#[test]
fn a_compressed_match_with_nothing_before_it_is_rejected() {
    assert_eq!(refusal(10, &[1, 0, 0]), DecodeErrorKind::BadCompression);
}

#[test]
fn a_compressed_match_over_the_declared_length_is_rejected() {
    // Three literals, then a match of the first two with one extra byte.
    let stream = [0b1000, 7, 7, 7, 0, 1];
    assert!(compress::decompress(&compressed(8 + 6, &stream), &NO_LIMITS).is_ok());
    assert_eq!(refusal(8 + 5, &stream), DecodeErrorKind::BadCompression);
    assert_eq!(refusal(8 + 4, &stream), DecodeErrorKind::BadCompression);
}

#[test]
fn bytes_after_a_compressed_stream_are_rejected() {
    assert_eq!(refusal(8 + 2, &[0, 7, 7, 7]), DecodeErrorKind::Trailing { extra_bytes: 1 });
}

#[test]
fn deep_nesting_is_rejected_whatever_the_limit() {
    let list = [0, 0, 1, 0, 0, 0];
    let projection = [104, 1, 0, 0, 0];
    let derived = [106];
    for unit in [&list[..], &projection, &derived] {
        let mut bytes = unit.repeat(100_000);
        bytes.extend([101, 0]);
        for limits in [Limits::default(), NO_LIMITS] {
            let error = walk::object(&bytes, Endian::Little, &limits).expect_err("too deep");
            assert!(matches!(error.kind, DecodeErrorKind::TooDeep { .. }), "{error}");
            assert_eq!(decode::object(&bytes, Endian::Little, &limits), Err(error));
        }
    }
}

#[test]
fn the_depth_limit_is_exact() {
    let nested = |levels: usize| (1..levels).fold(Value::NULL, |inner, _| Value::list([inner]));
    let limits = Limits { max_depth: 5, ..Limits::default() };
    for (levels, fits) in [(5, true), (6, false)] {
        let mut bytes = Vec::new();
        encode::encode_object(&nested(levels), &mut bytes).expect("shallow");
        assert_eq!(decode::object(&bytes, Endian::Little, &limits).is_ok(), fits, "{levels}");
    }
}

#[test]
fn a_value_too_deep_to_be_read_is_not_written() {
    let deep = (0..600).fold(Value::NULL, |inner, _| Value::list([inner]));
    assert_eq!(encode::message(MessageKind::Async, &deep), Err(EncodeError::TooDeep));
}
