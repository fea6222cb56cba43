//! Bytes recorded from real q processes decode, and encode to the same bytes again.

mod support;

use std::fs;

use elastick_proto::{Compression, Endian, HEADER_BYTES, Header, Limits, MessageKind, Value, View};
use elastick_proto::{compress, decode, encode, log, walk};
use support::{golden, hex, json_lines, text, unhex};

/// Decodes a serialised object with every reader, and encodes it again.
fn object_round_trip(bytes: &[u8], what: &str) -> Value {
    let limits = Limits::default();
    let (value, used) =
        decode::object(bytes, Endian::Little, &limits).unwrap_or_else(|error| panic!("{what}: {error}"));
    assert_eq!(used, bytes.len(), "{what}: length");
    assert_eq!(walk::object(bytes, Endian::Little, &limits), Ok(used), "{what}: walk");
    let (view, _) = View::parse(bytes, Endian::Little, &limits).expect("walked");
    assert_eq!(view.to_value(), value, "{what}: view");
    assert_eq!(view.count(), value.len(), "{what}: count");
    let mut again = Vec::new();
    encode::encode_object(&value, &mut again).unwrap_or_else(|error| panic!("{what}: {error}"));
    assert_eq!(hex(&again), hex(bytes), "{what}: bytes");
    value
}

/// Decodes a whole message and encodes it again.
fn message_round_trip(bytes: &[u8], what: &str) -> Value {
    let limits = Limits::default();
    let (header, value) = decode::message(bytes, &limits).unwrap_or_else(|error| panic!("{what}: {error}"));
    match header.compression {
        Compression::None => {
            assert_eq!(hex(&encode::message(header.kind, &value).expect("encodes")), hex(bytes), "{what}");
        }
        _ => compressed_round_trip(bytes, what),
    }
    value
}

fn compressed_round_trip(bytes: &[u8], what: &str) {
    let plain = compress::decompress(bytes, &Limits::default()).unwrap_or_else(|error| panic!("{what}: {error}"));
    let again = compress::compress_always(&plain).unwrap_or_else(|| panic!("{what}: does not compress"));
    assert!(again == bytes, "{what}: compressed bytes");
    object_round_trip(&plain[HEADER_BYTES..], what);
}

/// Restores the header that the recording omits from a compressed payload.
fn with_compressed_header(payload: &[u8]) -> Vec<u8> {
    let total_bytes = (payload.len() + HEADER_BYTES) as u64;
    let compression = Compression::Short;
    let header = Header { endian: Endian::Little, kind: MessageKind::Async, compression, total_bytes };
    [&header.write().expect("short")[..], payload].concat()
}

#[test]
fn recorded_expressions_keep_their_bytes() {
    for record in json_lines("expr-bytes.jsonl") {
        let what = format!("{} {}", text(&record, "expr"), text(&record, "note"));
        let bytes = unhex(text(&record, "hex"));
        let value = match text(&record, "kind") {
            "payload" => object_round_trip(&bytes, &what),
            "message" => message_round_trip(&bytes, &what),
            "compressed-payload" => message_round_trip(&with_compressed_header(&bytes), &what),
            other => panic!("unknown kind {other}"),
        };
        support::assert_reads_as(&value, &record["decoded"], &what);
    }
}

#[test]
fn messages_compressed_elsewhere_keep_their_bytes() {
    for record in json_lines("golden-compressed.jsonl") {
        let bytes = unhex(text(&record, "hex"));
        let plain = compress::decompress(&bytes, &Limits::default()).expect("decompresses");
        assert_eq!(Some(plain.len() as u64), record["ulen"].as_u64(), "{}", text(&record, "id"));
        // Only the shorter messages are recorded uncompressed; for the others, the compressed bytes must match.
        if let Some(recorded) = record["uhex"].as_str() {
            assert!(plain == unhex(recorded), "{}", text(&record, "id"));
        }
        message_round_trip(&bytes, text(&record, "id"));
        // The sender did not compress messages that are short or would stay over half.
        let sent = compress::compress(&plain).unwrap_or(plain);
        assert!(sent == bytes, "{}", text(&record, "id"));
    }
}

#[test]
fn an_eight_byte_length_is_read_as_a_four_byte_one() {
    for record in json_lines("golden-compressed.jsonl") {
        let bytes = unhex(text(&record, "hex"));
        let short = Header::parse(&bytes).expect("a header");
        if short.compression == Compression::None {
            continue;
        }
        let total_bytes = short.total_bytes + 4;
        let header = Header { compression: Compression::Long, total_bytes, ..short }.write().expect("short");
        let length = match short.endian {
            Endian::Little => [&bytes[8..12], &[0; 4]].concat(),
            Endian::Big => [&[0; 4], &bytes[8..12]].concat(),
        };
        let long = [&header[..], &length, &bytes[12..]].concat();
        let plain = |bytes: &[u8]| compress::decompress(bytes, &Limits::default()).expect("decompresses");
        assert!(plain(&long)[8..] == plain(&bytes)[8..], "{}", text(&record, "id"));
    }
}

#[test]
fn recorded_pairs_of_expression_and_bytes_decode() {
    let Some(raw) = golden("raw") else { return };
    for project in fs::read_dir(raw).expect("readable") {
        for file in fs::read_dir(project.expect("readable").path()).expect("readable") {
            let path = file.expect("readable").path();
            if path.extension().is_none_or(|extension| extension != "out") {
                continue;
            }
            let compressed = path.to_string_lossy().contains("Compressed");
            let content = fs::read_to_string(&path).expect("readable");
            let lines: Vec<&str> = content.lines().collect();
            for [expression, bytes] in lines.as_chunks::<2>().0 {
                let bytes = unhex(bytes);
                if compressed {
                    message_round_trip(&with_compressed_header(&bytes), expression);
                } else {
                    object_round_trip(&bytes, expression);
                }
            }
        }
    }
}

#[test]
fn recorded_logs_hold_the_recorded_messages() {
    let Some(disk) = golden("disk") else { return };
    let limits = Limits::default();
    let mut logs = 0;
    for record in json_lines("disk-decoded.jsonl") {
        if text(&record, "format") != "log" {
            continue;
        }
        let path = disk.join(text(&record, "path"));
        let bytes = fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        assert!(log::is_log_head(&bytes), "{}", path.display());
        let mut at = log::FILE_HEAD.len();
        let mut messages = 0;
        while let Some((used, view)) = log::next_record(&bytes[at..], &limits).expect("whole") {
            let update = log::record(view).expect("an update");
            assert_eq!(update.bytes, &bytes[at..at + used]);
            object_round_trip(update.bytes, text(&record, "path"));
            at += used;
            messages += 1;
        }
        assert_eq!(Some(messages), record["messages"].as_u64(), "{}", path.display());
        assert_eq!(Some(at as u64), record["valid_bytes"].as_u64(), "{}", path.display());
        logs += 1;
    }
    assert!(logs > 50, "only {logs} logs found");
}
