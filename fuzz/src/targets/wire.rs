//! Objects and messages: decoding, views, walking, encoding, compression.

use super::{limits, memory};
use elastick::q;
use proto::{Endian, Items, Value, View, Writer, compress, decode, encode, walk};

/// Maximum memory of a decoded object per encoded byte; a list of booleans is the worst case.
const BYTES_PER_BYTE: usize = 64;
/// Tolerance for allocations that do not grow with the input.
const SPARE_BYTES: usize = 64 << 10;

/// Target `codec`: the first byte selects the byte order, the rest is an object.
pub fn codec(bytes: &[u8]) {
    let Some((order, bytes)) = bytes.split_first() else { return };
    let endian = if order & 1 == 0 { Endian::Little } else { Endian::Big };
    let limits = limits();
    let walked = memory::within(0, || walk::object(bytes, endian, &limits));
    let viewed = View::parse(bytes, endian, &limits);
    let most_bytes = bytes.len().saturating_mul(BYTES_PER_BYTE).saturating_add(SPARE_BYTES);
    let decoded = memory::within(most_bytes, || decode::object(bytes, endian, &limits));
    match (&walked, &viewed, &decoded) {
        (Ok(length), Ok((view, of_view)), Ok((value, of_value))) => {
            assert!(length == of_view && length == of_value, "they agree on the length");
            assert_eq!(view.raw().len(), *length);
            agree(view, value);
            written_alike(view, value);
            as_q(view);
        }
        (Err(walked), Err(viewed), Err(decoded)) => {
            assert_eq!(walked, viewed);
            assert_eq!(walked, decoded);
        }
        _ => panic!("walk {walked:?}, view {viewed:?} and decode {decoded:?} disagree"),
    }
}

/// Checks that a view agrees with the decoded value, at every level.
fn agree(view: &View<'_>, value: &Value) {
    assert_eq!(&view.to_value(), value);
    match value {
        Value::Symbol(text) => assert_eq!(view.symbol(), Some(&text[..])),
        Value::Error(text) => assert_eq!(view.error(), Some(&text[..])),
        Value::Lambda { namespace, source } => assert_eq!(view.lambda(), Some((&namespace[..], &source[..]))),
        Value::Vector { attr, items } => {
            let vector = view.vector().expect("a vector");
            assert_eq!(vector.attr, *attr);
            match items {
                Items::Char(text) => assert_eq!(view.chars(), Some(&text[..])),
                Items::Symbol(all) => assert!(vector.symbols().eq(all.iter().map(|text| &text[..]))),
                _ => {}
            }
            assert!(
                items.item(vector.count).is_none() && (vector.count == 0 || items.item(vector.count - 1).is_some())
            );
        }
        Value::List { attr, items } => {
            let list = view.list().expect("a list");
            assert_eq!((list.attr, list.count), (*attr, items.len()));
            list.iter().zip(items).for_each(|(view, value)| agree(&view, value));
        }
        Value::Dict { sorted, keys, values } => {
            let dict = view.dict().expect("a dictionary");
            assert_eq!(dict.sorted, *sorted);
            assert_eq!(dict.keys.count(), dict.values.count());
            agree(&dict.keys, keys);
            agree(&dict.values, values);
        }
        Value::Table { attr, names, columns } => {
            let table = view.table().expect("a table");
            assert_eq!((table.attr, table.names.count), (*attr, names.len()));
            assert!(table.names.symbols().eq(names.iter().map(|name| &name[..])));
            assert!(table.columns.iter().all(|column| column.count() == table.rows()));
            table.columns.iter().zip(columns).for_each(|(view, value)| agree(&view, value));
        }
        _ => {}
    }
}

/// Checks that a decoded value is encoded and decoded again to itself. Of little-endian input the encoding must equal the input, except in
/// bytes without meaning: the nonzero byte of a true boolean, and attributes inside a table's header and of a lambda's text.
fn written_alike(view: &View<'_>, value: &Value) {
    let mut encoded = Vec::new();
    encode::encode_object(value, &mut encoded).expect("what was read can be written");
    assert_eq!(encoded.len(), view.raw().len());
    let (again, length) = decode::object(&encoded, Endian::Little, &limits()).expect("what was written can be read");
    assert_eq!((length, &again), (encoded.len(), value));
    if view.endian() == Endian::Little {
        let dictionary = proto::types::DICT.cast_unsigned();
        let means_the_same = |(read, written): (&u8, &u8)| read == written || [0, 1, dictionary].contains(written);
        assert!(view.raw().iter().zip(&encoded).all(means_the_same), "{:?} is written as {encoded:?}", view.raw());
    } else {
        let mut little = Vec::new();
        view.append_little(&mut little).expect("what was read can be written");
        assert_eq!(little, encoded);
    }
}

/// Checks that an object that q accepts as a value can be sent, and is received unchanged.
fn as_q(view: &View<'_>) {
    let sent = |value: &elastick::table::Value| {
        let mut out = Vec::new();
        let mut writer = Writer::new(&mut out);
        // Evaluate both: the writer must be finished in any case.
        let put = q::to_wire(value, &mut writer).is_ok();
        (writer.finish().is_ok() & put).then_some(out)
    };
    let Ok(value) = q::from_view(view) else { return };
    let Some(first) = sent(&value) else { return };
    let (view, length) =
        View::parse(&first, Endian::Little, &proto::Limits::default()).expect("what is sent can be read");
    assert_eq!(length, first.len());
    let back = q::from_view(&view).expect("what was sent is a value");
    assert_eq!(sent(&back), Some(first));
}

/// Target `decompress`: a compressed message; the same bytes also as the body of a message to compress.
pub fn decompress(bytes: &[u8]) {
    let limits = limits();
    let most = usize::try_from(limits.max_decompressed_bytes).unwrap_or(usize::MAX);
    let plain = memory::within(most.max(bytes.len()).saturating_add(4096), || compress::decompress(bytes, &limits));
    if let Ok(plain) = &plain {
        let is_compressed = bytes.get(2) != Some(&0);
        assert!(!is_compressed || plain.len() <= most, "within the limit");
        let header = proto::Header::parse(plain).expect("a message");
        assert_eq!(header.total_bytes, plain.len() as u64);
    }
    if let Ok((header, _)) = decode::message(bytes, &limits) {
        assert_eq!(header.total_bytes, bytes.len() as u64);
        assert!(plain.is_ok(), "what can be decoded can be expanded");
    }
    // As the body of a message to compress.
    let mut message = vec![1, 0, 0, 0];
    message.extend_from_slice(&u32::try_from(bytes.len().saturating_add(8)).unwrap_or(u32::MAX).to_le_bytes());
    message.extend_from_slice(bytes);
    if let Some(packed) = compress::compress_always(&message) {
        assert!(packed.len() < message.len() / 2 + 8, "worth it");
        let back = compress::decompress(&packed, &proto::Limits::default()).expect("what was compressed expands");
        assert_eq!(back, message, "compression loses nothing");
    }
}
