//! Headers, errors, and rejected input of decoder and encoder.

use elastick_proto::{
    Compression, DecodeErrorKind, EncodeError, Endian, Header, Items, Limits, MessageKind, Value, View, Writer,
};
use elastick_proto::{decode, encode, log, types, walk};

fn refusal(bytes: &[u8]) -> DecodeErrorKind {
    walk::object(bytes, Endian::Little, &Limits::default()).expect_err("refused").kind
}

#[test]
fn the_header_carries_forty_bits_of_length() {
    for endian in [Endian::Little, Endian::Big] {
        for total_bytes in [9, u64::from(u32::MAX), 1 << 32, (3 << 32) | 7, (1 << 40) - 1] {
            let header = Header { endian, kind: MessageKind::Response, compression: Compression::Long, total_bytes };
            assert_eq!(Header::parse(&header.write().expect("fits")), Ok(header));
        }
    }
}

#[test]
fn byte_three_is_the_high_byte_of_the_length() {
    let header = Header::parse(&[1, 0, 0, 2, 8, 0, 0, 0]).expect("a header");
    assert_eq!(header.total_bytes, (2 << 32) + 8);
}

#[test]
fn a_length_over_forty_bits_cannot_be_written() {
    let (kind, compression, total_bytes) = (MessageKind::Async, Compression::None, 1 << 40);
    let header = Header { endian: Endian::Little, kind, compression, total_bytes };
    assert_eq!(header.write(), Err(EncodeError::MessageTooLong(total_bytes)));
}

#[test]
fn fields_of_a_header_that_cannot_be_are_named_with_their_place() {
    let cases = [
        ([7, 0, 0, 0, 9, 0, 0, 0], DecodeErrorKind::ByteOrder(7), 0),
        ([1, 3, 0, 0, 9, 0, 0, 0], DecodeErrorKind::MessageKind(3), 1),
        ([1, 0, 3, 0, 9, 0, 0, 0], DecodeErrorKind::Compression(3), 2),
        ([1, 0, 0, 0, 7, 0, 0, 0], DecodeErrorKind::MessageLength { total_bytes: 7 }, 4),
    ];
    for (bytes, kind, offset) in cases {
        let error = Header::parse(&bytes).expect_err("refused");
        assert_eq!((error.kind, error.offset), (kind, offset));
    }
}

#[test]
fn a_message_ends_only_where_one_was_begun() {
    let mut out = vec![0; 20];
    assert_eq!(encode::finish_message(&mut out, 0), Err(EncodeError::NoMessage));
    assert_eq!(encode::finish_message(&mut out, 21), Err(EncodeError::NoMessage));
}

#[test]
fn an_error_message_is_the_bytes_of_q() {
    let message = encode::error_message("type");
    assert_eq!(message, [1, 2, 0, 0, 14, 0, 0, 0, 0x80, b't', b'y', b'p', b'e', 0]);
    let (header, value) = decode::message(&message, &Limits::default()).expect("decodes");
    assert_eq!((header.kind, value), (MessageKind::Response, Value::error("type")));
}

#[test]
fn an_error_inside_another_object_is_rejected_on_both_sides() {
    assert_eq!(refusal(&[0, 0, 1, 0, 0, 0, 0x80, b'x', 0]), DecodeErrorKind::UnknownType(-128));
    let list = Value::list([Value::error("x")]);
    assert_eq!(encode::message(MessageKind::Sync, &list), Err(EncodeError::Type(-128)));
}

#[test]
fn bytes_after_the_object_of_a_message_are_rejected() {
    let mut message = encode::message(MessageKind::Sync, &Value::Long(1)).expect("short");
    message.push(0);
    message[4] += 1;
    let error = decode::message(&message, &Limits::default()).expect_err("trailing");
    assert_eq!((error.kind, error.offset), (DecodeErrorKind::Trailing { extra_bytes: 1 }, 17));
}

#[test]
fn an_error_names_its_cause_and_place_in_kdbs_terms() {
    let error = decode::message(&[1, 0, 0, 0, 10, 0, 0, 0, 20, 0], &Limits::default()).expect_err("refused");
    assert_eq!(error.to_string(), "'badmsg: type 20 cannot be received here (byte 8)");
}

#[test]
fn a_dictionary_needs_as_many_values_as_keys() {
    let keys = [11, 0, 1, 0, 0, 0, b'a', 0];
    let values = [4, 0, 2, 0, 0, 0, 1, 2];
    let bytes = [&[99][..], &keys, &values].concat();
    assert_eq!(refusal(&bytes), DecodeErrorKind::Length { expected: 1, found: 2 });
    let value = Value::dict(Value::symbols(["a"]), Value::bytes([1, 2]));
    assert_eq!(encode::message(MessageKind::Sync, &value), Err(EncodeError::Length { expected: 1, found: 2 }));
}

#[test]
fn a_dictionary_of_atoms_is_rejected() {
    assert_eq!(refusal(&[99, 0xfc, 1, 0xfc, 2]), DecodeErrorKind::NotADict);
}

#[test]
fn columns_of_a_table_have_one_length() {
    let value = Value::table([("a", Value::bytes([1, 2])), ("b", Value::bytes([1]))]);
    assert_eq!(encode::message(MessageKind::Sync, &value), Err(EncodeError::Length { expected: 2, found: 1 }));
    let good = Value::table([("a", Value::bytes([1, 2])), ("b", Value::bytes([1, 2]))]);
    let mut bytes = Vec::new();
    encode::encode_object(&good, &mut bytes).expect("travels");
    let count_at = bytes.len() - 6;
    bytes[count_at] = 1;
    bytes.pop();
    assert_eq!(refusal(&bytes), DecodeErrorKind::Length { expected: 2, found: 1 });
}

#[test]
fn a_table_without_a_dictionary_of_names_and_columns_is_rejected() {
    assert_eq!(refusal(&[98, 0, 4, 0, 0, 0, 0, 0]), DecodeErrorKind::NotATable);
    assert_eq!(refusal(&[98, 0, 99, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]), DecodeErrorKind::NotATable);
}

/// kdb+ sends a partitioned table as the names of its columns and its own name: `+`a`b!`t`.
#[test]
fn a_table_by_name_is_an_item_but_no_column() {
    let by_name = [98, 0, 99, 11, 0, 2, 0, 0, 0, 97, 0, 98, 0, 245, 116, 0];
    let (value, used) = decode::object(&by_name, Endian::Little, &Limits::default()).expect("a table");
    assert_eq!(used, by_name.len());
    assert_eq!(value, Value::TableByName { attr: 0, names: vec![b"a".to_vec(), b"b".to_vec()], place: b"t".to_vec() });
    let mut bytes = Vec::new();
    encode::encode_object(&Value::list([value.clone()]), &mut bytes).expect("travels");
    assert_eq!(bytes, [&[0, 0, 1, 0, 0, 0][..], &by_name].concat());
    for half in [Value::dict(value.clone(), value.clone()), Value::table([("c", value)])] {
        assert_eq!(encode::encode_object(&half, &mut Vec::new()), Err(EncodeError::Type(98)));
    }
    assert_eq!(refusal(&[&[99][..], &by_name, &by_name].concat()), DecodeErrorKind::NotADict);
    let column = [&[98, 0, 99, 11, 0, 1, 0, 0, 0, 97, 0, 0, 0, 1, 0, 0, 0][..], &by_name].concat();
    assert_eq!(refusal(&column), DecodeErrorKind::NotATable);
}

#[test]
fn a_count_with_its_sign_bit_is_rejected() {
    assert_eq!(refusal(&[4, 0, 0xff, 0xff, 0xff, 0xff]), DecodeErrorKind::NegativeCount(-1));
}

#[test]
fn a_symbol_with_a_nul_is_not_sent() {
    for value in [Value::symbol(b"a\0b"), Value::symbols(["a\0b"]), Value::table([("a\0", Value::bytes([]))])] {
        let mut out = vec![1, 2, 3];
        assert_eq!(encode::encode_object(&value, &mut out), Err(EncodeError::Nul));
        assert_eq!(out, [1, 2, 3]);
    }
}

#[test]
fn nulls_of_floats_are_equal() {
    let nan = f64::from_bits(0xfff8_0000_0000_0001);
    assert_eq!(Value::floats([1.0, types::NULL_FLOAT]), Value::floats([1.0, nan]));
    assert_ne!(Value::Float(types::NULL_FLOAT), Value::Float(0.0));
    assert_ne!(Value::longs([1]), Value::longs([1]).with_attr(types::ATTR_SORTED));
}

#[test]
fn a_writer_puts_what_the_value_encoder_puts() {
    let mut out = Vec::new();
    let start = encode::begin_message(MessageKind::Async, &mut out);
    let mut writer = Writer::new(&mut out);
    writer.list_head(3);
    writer.symbol("upd");
    writer.symbol("trade");
    writer.table_head(["sym", "price"]);
    writer.symbols(["a", "b"]);
    writer.vector(types::FLOAT, types::ATTR_NONE, &[1.5, 2.5]);
    writer.finish().expect("travels");
    encode::finish_message(&mut out, start).expect("short");
    let table = Value::table([("sym", Value::symbols(["a", "b"])), ("price", Value::floats([1.5, 2.5]))]);
    let value = Value::list([Value::symbol("upd"), Value::symbol("trade"), table]);
    assert_eq!(encode::message(MessageKind::Async, &value), Ok(out));
}

#[test]
fn a_writer_reports_at_the_end_what_could_not_be_written() {
    let mut out = Vec::new();
    let mut writer = Writer::new(&mut out);
    writer.symbol(b"a\0b");
    writer.atom_long(1);
    assert_eq!(writer.finish(), Err(EncodeError::Nul));
    let mut writer = Writer::new(&mut out);
    writer.atom(types::LONG, 1i32);
    assert_eq!(writer.finish(), Err(EncodeError::Type(types::LONG)));
    let mut writer = Writer::new(&mut out);
    writer.list_head(usize::MAX);
    assert_eq!(writer.finish(), Err(EncodeError::Count(usize::MAX)));
}

#[test]
fn a_view_reads_items_of_its_own_type_only() {
    let bytes = [7, 0, 2, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0];
    let (view, _) = View::parse(&bytes, Endian::Little, &Limits::default()).expect("a vector");
    let vector = view.vector().expect("a vector");
    assert_eq!([0, 1, 2].map(|i| vector.get_i64(i)), [Some(1), Some(2), None]);
    assert_eq!(vector.get_f64(0), None);
    assert_eq!(vector.iter::<i64>().map(Iterator::sum), Some(3i64));
    assert_eq!(vector.get_i64(usize::MAX), None);
}

#[test]
fn a_view_finds_columns_and_keys_by_name() {
    let table = Value::table([("sym", Value::symbols(["a", "b"])), ("size", Value::longs([3, 4]))]);
    let dict = Value::dict(Value::symbols(["t", "n"]), Value::list([table, Value::Long(2)]));
    let mut bytes = Vec::new();
    encode::encode_object(&dict, &mut bytes).expect("travels");
    let (view, _) = View::parse(&bytes, Endian::Little, &Limits::default()).expect("whole");
    let dict = view.dict().expect("a dictionary");
    assert_eq!(dict.get(b"n").and_then(|view| view.atom::<i64>()), Some(2));
    let table = dict.get(b"t").and_then(|view| view.table()).expect("a table");
    assert_eq!(table.rows(), 2);
    assert_eq!(table.column(b"size").and_then(|view| view.vector()?.get_i64(1)), Some(4));
    assert!(table.column(b"none").is_none());
}

#[test]
fn symbols_of_every_length_are_found() {
    let symbols: Vec<Vec<u8>> = (0..200).map(|length| vec![0x80 | (length % 100) as u8; length]).collect();
    let value = Value::symbols(&symbols);
    let mut bytes = Vec::new();
    encode::encode_object(&value, &mut bytes).expect("travels");
    let (view, used) = View::parse(&bytes, Endian::Little, &Limits::default()).expect("whole");
    assert_eq!(used, bytes.len());
    assert!(view.vector().expect("symbols").symbols().eq(symbols.iter().map(Vec::as_slice)));
}

#[test]
fn a_record_is_written_as_tickerplants_write_it() {
    let mut bytes = log::FILE_HEAD.to_vec();
    log::write_record_head(b"trade", 2, &mut bytes);
    for column in [Value::symbols(["a"]), Value::from(Items::Long(vec![7]))] {
        encode::encode_object(&column, &mut bytes).expect("travels");
    }
    assert!(log::is_log_head(&bytes));
    let (used, view) = log::next_record(&bytes[8..], &Limits::default()).expect("good").expect("one record");
    assert_eq!(used, bytes.len() - 8);
    let record = log::record(view).expect("an update");
    assert_eq!((record.function, record.table, record.bytes), (&b"upd"[..], &b"trade"[..], &bytes[8..]));
    assert_eq!(record.columns.to_value(), Value::list([Value::symbols(["a"]), Value::longs([7])]));
    assert!(log::next_record(&bytes[8 + used..], &Limits::default()).expect("the end").is_none());
}

#[test]
fn a_torn_record_is_distinguished_from_a_corrupt_one() {
    let mut bytes = Vec::new();
    log::write_record_head(b"trade", 1, &mut bytes);
    encode::encode_object(&Value::longs([1, 2, 3]), &mut bytes).expect("travels");
    let torn = log::next_record(&bytes[..bytes.len() - 1], &Limits::default()).expect_err("torn");
    assert!(torn.is_incomplete());
    bytes[6] = 0x55;
    let broken = log::next_record(&bytes, &Limits::default()).expect_err("broken");
    assert_eq!((broken.kind, broken.offset), (DecodeErrorKind::UnknownType(0x55), 6));
}

#[test]
fn records_that_are_no_updates_are_records() {
    for value in [Value::chars("delete from `trade"), Value::list([Value::symbol("f"), Value::Long(1)])] {
        let mut bytes = Vec::new();
        encode::encode_object(&value, &mut bytes).expect("travels");
        let (_, view) = log::next_record(&bytes, &Limits::default()).expect("good").expect("one record");
        assert!(log::record(view).is_none());
        assert_eq!(view.to_value(), value);
    }
}
