//! Any split of a stream yields the same whole messages.

mod support;

use elastick_proto::{DecodeErrorKind, FrameReader, Limits, MessageKind, Value, encode};
use proptest::prelude::*;

fn message(bytes: usize) -> Vec<u8> {
    encode::message(MessageKind::Async, &Value::bytes(vec![7; bytes])).expect("short")
}

/// Feeds bytes in steps of at most `step` and collects the messages.
fn feed(reader: &mut FrameReader, mut stream: &[u8], step: usize, out: &mut Vec<Vec<u8>>) {
    while !stream.is_empty() {
        let room = reader.spare();
        assert!(!room.is_empty());
        let count = room.len().min(step).min(stream.len());
        room[..count].copy_from_slice(&stream[..count]);
        reader.filled(count);
        stream = &stream[count..];
        while let Some((header, message)) = reader.next().expect("a good stream") {
            assert_eq!(header.total_bytes, message.len() as u64);
            out.push(message.to_vec());
        }
    }
}

proptest! {
    #[test]
    fn messages_come_out_whole_however_the_stream_is_cut(
        sizes in prop::collection::vec(prop_oneof![0..50usize, 0..20_000usize], 0..20),
        steps in prop::collection::vec(prop_oneof![1..20usize, 1..100_000usize], 1..10),
    ) {
        let messages: Vec<Vec<u8>> = sizes.iter().map(|size| message(*size)).collect();
        let stream = messages.concat();
        let mut reader = FrameReader::new(Limits::default());
        let mut out = Vec::new();
        let mut rest = &stream[..];
        for step in steps.iter().cycle() {
            if rest.is_empty() {
                break;
            }
            let (part, after) = rest.split_at((*step).min(rest.len()));
            feed(&mut reader, part, *step, &mut out);
            rest = after;
        }
        prop_assert!(out == messages);
        prop_assert_eq!(reader.held_bytes(), 0);
    }
}

#[test]
fn bytes_that_came_with_the_login_are_messages() {
    let messages = [message(3), message(5000), message(1)];
    let stream = messages.concat();
    let mut reader = FrameReader::new(Limits::default());
    reader.extend(&stream);
    for expected in &messages {
        let (_, found) = reader.next().expect("good").expect("whole");
        assert_eq!(found, &expected[..]);
    }
    assert!(reader.next().expect("good").is_none());
}

#[test]
fn a_declared_length_alone_takes_no_memory() {
    let limits = Limits { max_message_bytes: u64::MAX, ..Limits::default() };
    let mut reader = FrameReader::new(limits);
    // Declares 1 TiB less a byte, and sends twelve bytes of it.
    feed(
        &mut reader,
        &[1, 0, 0, 0xff, 0xff, 0xff, 0xff, 0xff, 10, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10],
        20,
        &mut Vec::new(),
    );
    assert!(reader.capacity_bytes() <= 64 * 1024, "{}", reader.capacity_bytes());
}

#[test]
fn the_buffer_stays_within_twice_what_has_arrived() {
    let message = message(5_000_000);
    let mut reader = FrameReader::new(Limits::default());
    let mut arrived = 0;
    for part in message[..message.len() - 1].chunks(10_000) {
        feed(&mut reader, part, 10_000, &mut Vec::new());
        arrived += part.len();
        assert!(reader.capacity_bytes() <= (2 * arrived).max(512 * 1024), "{arrived}: {}", reader.capacity_bytes());
    }
}

#[test]
fn the_buffer_is_small_again_after_a_large_message() {
    let mut reader = FrameReader::new(Limits::default());
    let mut out = Vec::new();
    feed(&mut reader, &message(20_000_000), usize::MAX, &mut out);
    assert_eq!(out.len(), 1);
    assert!(reader.capacity_bytes() <= 256 * 1024, "{}", reader.capacity_bytes());
}

#[test]
fn a_large_buffer_is_not_kept_for_the_start_of_the_next_message() {
    let mut reader = FrameReader::new(Limits::default());
    let stream = [message(20_000_000), message(30)].concat();
    let mut out = Vec::new();
    feed(&mut reader, &stream[..stream.len() - 1], usize::MAX, &mut out);
    assert_eq!(out.len(), 1);
    assert!(reader.capacity_bytes() <= 256 * 1024, "{}", reader.capacity_bytes());
    feed(&mut reader, &stream[stream.len() - 1..], 1, &mut out);
    assert_eq!(out, [message(20_000_000), message(30)]);
}

#[test]
fn a_message_over_the_limit_is_rejected_by_its_header() {
    let limits = Limits { max_message_bytes: 1000, ..Limits::default() };
    let mut reader = FrameReader::new(limits);
    reader.extend(&message(1000)[..8]);
    let error = reader.next().expect_err("too long");
    assert_eq!(error.kind, DecodeErrorKind::MessageTooLong { total_bytes: 1014, max_bytes: 1000 });
    assert_eq!(error.term(), "limit");
}

#[test]
fn a_message_after_a_bad_header_is_not_looked_for() {
    let mut reader = FrameReader::new(Limits::default());
    reader.extend(b"GET / HTTP/1.1\r\n\r\n");
    assert_eq!(reader.next().expect_err("no header").kind, DecodeErrorKind::ByteOrder(b'G'));
    assert!(reader.next().is_err());
}
