//! Heads of vectors and lists: every writer and reader of the crate agrees on the same six bytes.

use elastick_proto::head::has_head;
use elastick_proto::{DecodeErrorKind, EncodeError, Endian, HEAD_BYTES, Head, Limits, View, Writer, types};
use proptest::prelude::*;

/// The bytes of a head, written from the format's table without the crate.
fn by_hand(ty: i8, attr: u8, count: i32, endian: Endian) -> Vec<u8> {
    let count = if endian == Endian::Little { count.to_le_bytes() } else { count.to_be_bytes() };
    [&[ty as u8, attr][..], &count].concat()
}

fn endian() -> impl Strategy<Value = Endian> {
    prop_oneof![Just(Endian::Little), Just(Endian::Big)]
}

/// Type codes of vectors and lists; there is no type 3.
fn travelling() -> impl Strategy<Value = i8> {
    (types::LIST..=types::TIME).prop_filter("a known type", |ty| *ty != 3)
}

proptest! {
    #[test]
    fn a_head_comes_back_as_it_was_written(ty in types::LIST..=types::TIME, attr: u8, count in 0..=i32::MAX, tail: Vec<u8>) {
        let head = Head::with_attr(ty, attr, count as usize).expect("it fits");
        let mut bytes = Vec::new();
        head.write(&mut bytes);
        prop_assert_eq!(&bytes, &by_hand(ty, attr, count, Endian::Little));
        prop_assert_eq!(bytes.as_slice(), &head.to_bytes());
        let mut by_writer = Vec::new();
        let mut writer = Writer::new(&mut by_writer);
        writer.vector_head(ty, attr, count as usize);
        writer.finish().expect("it fits");
        prop_assert_eq!(&bytes, &by_writer);
        bytes.extend_from_slice(&tail);
        prop_assert_eq!(Head::split(&bytes), Some((head, tail.as_slice())));
    }

    #[test]
    fn any_bytes_read_as_a_head_or_name_the_field_that_is_wrong(bytes: Vec<u8>, endian in endian()) {
        let found = Head::parse(&bytes, endian);
        if endian == Endian::Little {
            prop_assert_eq!(found.ok(), Head::split(&bytes));
        }
        match (found, bytes.as_slice()) {
            (Ok((head, rest)), _) => {
                prop_assert_eq!(rest, &bytes[HEAD_BYTES..]);
                prop_assert_eq!(by_hand(head.ty, head.attr, head.count() as i32, endian), &bytes[..HEAD_BYTES]);
            }
            (Err(error), []) => prop_assert_eq!((error.is_incomplete(), error.offset), (true, 0)),
            (Err(error), [_]) => prop_assert_eq!((error.is_incomplete(), error.offset), (true, 1)),
            (Err(error), short) if short.len() < HEAD_BYTES => {
                prop_assert_eq!((error.is_incomplete(), error.offset), (true, 2));
            }
            (Err(error), _) => {
                prop_assert!(matches!(error.kind, DecodeErrorKind::NegativeCount(count) if count < 0));
                prop_assert_eq!(error.offset, 2);
            }
        }
    }

    #[test]
    fn a_view_says_what_the_head_says(ty in travelling(), attr: u8, count in 0usize..50, endian in endian()) {
        let width = types::width(ty).unwrap_or(1);
        let mut bytes = by_hand(ty, attr, count as i32, endian);
        // An empty symbol is a NUL; each object of a general list is the boolean 0b.
        let item = if ty == types::LIST { vec![types::BOOL.wrapping_neg() as u8, 0] } else { vec![0; width] };
        bytes.extend(item.repeat(count));
        let (head, _) = Head::parse(&bytes, endian).expect("a head");
        let (view, used) = View::parse(&bytes, endian, &Limits::default()).expect("an object");
        prop_assert_eq!(used, bytes.len());
        let seen = view.vector().map(|vector| (vector.ty, vector.attr, vector.count));
        let seen = seen.or(view.list().map(|list| (types::LIST, list.attr, list.count)));
        prop_assert_eq!(seen, Some((head.ty, head.attr, head.count())));
    }
}

#[test]
fn a_count_that_does_not_fit_the_wire_makes_no_head() {
    let most = i32::MAX as usize;
    assert_eq!(Head::new(types::LONG, most).map(Head::count), Ok(most));
    assert_eq!(Head::new(types::LONG, most + 1), Err(EncodeError::Count(most + 1)));
    assert_eq!(Head::saturating(types::LONG, usize::MAX), Head::new(types::LONG, most).expect("it fits"));
}

#[test]
fn simple_vectors_and_general_lists_have_heads_and_nothing_else_has() {
    let with_head: Vec<i8> = (i8::MIN..=i8::MAX).filter(|ty| has_head(*ty)).collect();
    assert_eq!(with_head, (types::LIST..=types::TIME).collect::<Vec<i8>>());
}
