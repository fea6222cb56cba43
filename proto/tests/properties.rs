//! Properties that hold for any value and any bytes.

mod support;

use elastick_proto::{DecodeErrorKind, Endian, Limits, MessageKind, Value, View};
use elastick_proto::{compress, decode, encode, walk};
use proptest::prelude::*;
use support::arbitrary::value;
use support::{reference, second};

const BOTH: [Endian; 2] = [Endian::Little, Endian::Big];

fn limits() -> Limits {
    Limits::default()
}

fn encoded(value: &Value) -> Vec<u8> {
    let mut out = Vec::new();
    encode::encode_object(value, &mut out).expect("travels");
    out
}

/// Reads everything that a view offers, down to the atoms.
fn visit(view: View<'_>) -> usize {
    let mut seen = view.raw().len() + view.count() + view.text().map_or(0, <[u8]>::len);
    if let Some(vector) = view.vector() {
        let items = vector.to_vec::<i64>().map_or(0, |items| items.len()) + vector.symbols().count();
        assert!(items == 0 || items == vector.count);
        seen += items;
    }
    if let Some(list) = view.list() {
        assert_eq!(list.iter().count(), list.count);
        seen += list.iter().map(visit).sum::<usize>();
    }
    if let Some(dict) = view.dict() {
        seen += visit(dict.keys) + visit(dict.values);
    }
    if let Some(table) = view.table() {
        assert_eq!(table.names.count, table.columns.count);
        assert!(table.columns.iter().all(|column| column.count() == table.rows()));
        seen += table.columns.iter().map(visit).sum::<usize>();
    }
    seen
}

/// Checks that all readers agree on these bytes. Returns the value, if there is one.
fn read(bytes: &[u8], endian: Endian) -> Option<Value> {
    let walked = walk::object(bytes, endian, &limits());
    let decoded = decode::object(bytes, endian, &limits());
    let viewed = View::parse(bytes, endian, &limits());
    match (walked, decoded, viewed) {
        (Ok(used), Ok((value, decoded)), Ok((view, viewed))) => {
            assert_eq!((used, used), (decoded, viewed));
            assert_eq!(view.raw(), &bytes[..used]);
            assert_eq!(view.to_value(), value);
            assert_eq!(view.count(), value.len());
            visit(view);
            Some(value)
        }
        (Err(walked), Err(decoded), Err(viewed)) => {
            assert_eq!((walked, walked), (decoded, viewed));
            None
        }
        (walked, decoded, viewed) => panic!("{walked:?}, {decoded:?}, {viewed:?}"),
    }
}

fn flip(bytes: &mut [u8], flips: &[(prop::sample::Index, u8)]) {
    for (at, bit) in flips {
        if !bytes.is_empty() {
            bytes[at.index(bytes.len())] ^= 1 << bit;
        }
    }
}

fn flips() -> impl Strategy<Value = Vec<(prop::sample::Index, u8)>> {
    prop::collection::vec((any::<prop::sample::Index>(), 0..8u8), 1..4)
}

/// Runs of bytes, random, repeated or copied, as input of the compressor.
fn body() -> impl Strategy<Value = Vec<u8>> {
    let random = prop::collection::vec(any::<u8>(), 0..200);
    let constant = (any::<u8>(), 0..3000usize).prop_map(|(byte, count)| vec![byte; count]);
    // Few distinct bytes, so that hashes collide for different bytes.
    let random = prop_oneof![random, prop::collection::vec(0..3u8, 0..600)];
    let period = (prop::collection::vec(0..4u8, 1..40), 0..80usize).prop_map(|(unit, count)| unit.repeat(count));
    prop::collection::vec(prop_oneof![random, constant, period], 0..6).prop_map(|runs| runs.concat())
}

fn message_of(body: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    let start = encode::begin_message(MessageKind::Sync, &mut out);
    out.extend_from_slice(body);
    encode::finish_message(&mut out, start).expect("short");
    out
}

proptest! {
    #[test]
    fn values_encode_as_a_second_encoder_writes_them(value in value()) {
        prop_assert_eq!(encoded(&value), second::encode(&value, Endian::Little));
    }

    #[test]
    fn values_survive_the_wire_in_both_byte_orders(value in value()) {
        for endian in BOTH {
            let bytes = second::encode(&value, endian);
            let (found, used) = decode::object(&bytes, endian, &limits()).expect("decodes");
            prop_assert_eq!(used, bytes.len());
            // The encoded bytes differ for different bits of a NaN; equality does not.
            prop_assert_eq!(encoded(&found), encoded(&value));
            prop_assert_eq!(&found, &value);
        }
    }

    #[test]
    fn a_view_of_either_byte_order_appends_the_little_endian_form(value in value()) {
        for endian in BOTH {
            let bytes = second::encode(&value, endian);
            let (view, _) = View::parse(&bytes, endian, &limits()).expect("parses");
            let mut out = Vec::new();
            view.append_little(&mut out).expect("not deep");
            prop_assert_eq!(out, encoded(&value));
        }
    }

    #[test]
    fn views_walk_and_decoder_agree(value in value()) {
        for endian in BOTH {
            let mut bytes = second::encode(&value, endian);
            bytes.extend_from_slice(b"what follows the object");
            prop_assert_eq!(read(&bytes, endian), Some(value.clone()));
        }
    }

    #[test]
    fn an_object_cut_anywhere_is_incomplete(value in value()) {
        for endian in BOTH {
            let bytes = second::encode(&value, endian);
            for cut in 0..bytes.len() {
                let error = walk::object(&bytes[..cut], endian, &limits()).expect_err("cut");
                prop_assert_eq!(error.kind, DecodeErrorKind::Incomplete, "cut at {} of {}", cut, bytes.len());
                prop_assert!(error.offset <= cut as u64);
            }
        }
    }

    #[test]
    fn a_message_cut_anywhere_is_an_error(value in value()) {
        let message = encode::message(MessageKind::Sync, &value).expect("travels");
        for cut in 0..message.len() {
            prop_assert!(decode::message(&message[..cut], &limits()).is_err());
        }
        prop_assert_eq!(decode::message(&message, &limits()).map(|(_, found)| found), Ok(value));
    }

    #[test]
    fn flipped_bits_are_read_alike_or_rejected_alike(value in value(), flips in flips()) {
        for endian in BOTH {
            let mut bytes = second::encode(&value, endian);
            flip(&mut bytes, &flips);
            if let Some(found) = read(&bytes, endian) {
                let again = encoded(&found);
                prop_assert_eq!(read(&again, Endian::Little), Some(found));
            }
        }
    }

    #[test]
    fn random_bytes_are_read_alike_or_rejected_alike(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        for endian in BOTH {
            read(&bytes, endian);
        }
        let _ = decode::message(&bytes, &limits());
    }

    #[test]
    fn flipped_messages_never_panic(value in value(), flips in flips()) {
        let mut message = encode::message(MessageKind::Async, &value).expect("travels");
        flip(&mut message, &flips);
        let _ = decode::message(&message, &limits());
    }

    #[test]
    fn compression_loses_nothing(body in body()) {
        let message = message_of(&body);
        if let Some(compressed) = compress::compress_always(&message) {
            prop_assert!(compressed.len() <= message.len() / 2);
            prop_assert!(compress::decompress(&compressed, &limits()).expect("decompresses") == message);
        }
        prop_assert_eq!(compress::compress(&message).is_some(),
            message.len() > 2000 && compress::compress_always(&message).is_some());
    }

    #[test]
    fn compression_follows_the_description(body in body(), last in any::<u8>()) {
        let message = message_of(&[&body[..], &[last]].concat());
        prop_assert!(compress::compress_always(&message) == reference::compress(&message));
    }

    #[test]
    fn compression_keeps_the_byte_order(body in body()) {
        let mut message = message_of(&body);
        message[0] = 0;
        message[4..8].reverse();
        if let Some(compressed) = compress::compress_always(&message) {
            prop_assert!(compress::decompress(&compressed, &limits()).expect("decompresses") == message);
        }
    }

    #[test]
    fn broken_compressed_messages_never_panic(body in body(), flips in flips(), cut in any::<prop::sample::Index>()) {
        let message = message_of(&body);
        if let Some(compressed) = compress::compress_always(&message) {
            let mut short = compressed[..cut.index(compressed.len())].to_vec();
            prop_assert!(compress::decompress(&short, &limits()).is_err());
            // A header that declares the shorter length, so that the stream itself ends early.
            if short.len() >= 12 {
                let total = short.len() as u32;
                short[4..8].copy_from_slice(&total.to_le_bytes());
                prop_assert!(compress::decompress(&short, &limits()).is_err());
            }
            let mut flipped = compressed;
            flip(&mut flipped[8..], &flips);
            if let Ok(found) = compress::decompress(&flipped, &limits()) {
                prop_assert!(found.len() <= flipped.len() * 121 + 2056);
            }
        }
    }
}

#[test]
fn the_compressor_gives_up_exactly_where_it_should() {
    // Bytes that do not compress, then bytes that do: for some lengths the output reaches half the message at the start of the last group.
    let noise: Vec<u8> = (0..120u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
    for noisy in 80..noise.len() {
        for zeros in 0..300 {
            let message = message_of(&[&noise[..noisy], &vec![0; zeros]].concat());
            let expected = reference::compress(&message);
            assert!(compress::compress_always(&message) == expected, "{noisy} and {zeros} bytes");
        }
    }
}
