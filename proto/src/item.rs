//! Fixed-width items of the wire format.

use crate::header::Endian;
use crate::types;

mod sealed {
    pub trait Sealed {}
}

/// A Rust type that represents one item of some fixed-width kdb+ types.
pub trait Item: Copy + sealed::Sealed {
    /// Bytes of one item.
    const WIDTH: usize;

    /// Returns whether vectors and atoms of this type code hold such items.
    fn holds(ty: i8) -> bool;

    /// Reads the first item of `bytes`; `None` if they are too short.
    fn read(bytes: &[u8], endian: Endian) -> Option<Self>;

    /// Appends the item to `out`, little-endian.
    fn write(self, out: &mut Vec<u8>);

    /// Reads consecutive items; ignores an incomplete last one.
    fn read_all(bytes: &[u8], endian: Endian) -> Vec<Self>;

    /// Appends consecutive items to `out`, little-endian.
    fn write_all(items: &[Self], out: &mut Vec<u8>);
}

macro_rules! number {
    ($($rust:ty, $width:literal, $($code:path)|+;)*) => {$(
        impl sealed::Sealed for $rust {}
        impl Item for $rust {
            const WIDTH: usize = $width;
            fn holds(ty: i8) -> bool {
                matches!(ty.checked_abs(), $(Some($code))|+)
            }
            fn read(bytes: &[u8], endian: Endian) -> Option<Self> {
                let bytes = *bytes.first_chunk::<$width>()?;
                Some(match endian {
                    Endian::Little => <$rust>::from_le_bytes(bytes),
                    Endian::Big => <$rust>::from_be_bytes(bytes),
                })
            }
            fn write(self, out: &mut Vec<u8>) {
                out.extend_from_slice(&self.to_le_bytes());
            }
            fn read_all(bytes: &[u8], endian: Endian) -> Vec<Self> {
                let (items, _) = bytes.as_chunks::<$width>();
                match endian {
                    Endian::Little => items.iter().map(|item| <$rust>::from_le_bytes(*item)).collect(),
                    Endian::Big => items.iter().map(|item| <$rust>::from_be_bytes(*item)).collect(),
                }
            }
            fn write_all(items: &[Self], out: &mut Vec<u8>) {
                let start = out.len();
                out.resize(start.saturating_add(size_of_val(items)), 0);
                let (room, _) = out.get_mut(start..).unwrap_or_default().as_chunks_mut::<$width>();
                for (bytes, item) in room.iter_mut().zip(items) {
                    *bytes = item.to_le_bytes();
                }
            }
        }
    )*};
}

number! {
    i16, 2, types::SHORT;
    i32, 4, types::INT | types::MONTH | types::DATE | types::MINUTE | types::SECOND | types::TIME;
    i64, 8, types::LONG | types::TIMESTAMP | types::TIMESPAN;
    f32, 4, types::REAL;
    f64, 8, types::FLOAT | types::DATETIME;
}

impl sealed::Sealed for u8 {}
impl Item for u8 {
    const WIDTH: usize = 1;
    fn holds(ty: i8) -> bool {
        matches!(ty.checked_abs(), Some(types::BOOL | types::BYTE | types::CHAR))
    }
    fn read(bytes: &[u8], _: Endian) -> Option<u8> {
        bytes.first().copied()
    }
    fn write(self, out: &mut Vec<u8>) {
        out.push(self);
    }
    fn read_all(bytes: &[u8], _: Endian) -> Vec<u8> {
        bytes.to_vec()
    }
    fn write_all(items: &[u8], out: &mut Vec<u8>) {
        out.extend_from_slice(items);
    }
}

impl sealed::Sealed for bool {}
impl Item for bool {
    const WIDTH: usize = 1;
    fn holds(ty: i8) -> bool {
        ty.checked_abs() == Some(types::BOOL)
    }
    fn read(bytes: &[u8], _: Endian) -> Option<bool> {
        bytes.first().map(|byte| *byte != 0)
    }
    fn write(self, out: &mut Vec<u8>) {
        out.push(u8::from(self));
    }
    fn read_all(bytes: &[u8], _: Endian) -> Vec<bool> {
        bytes.iter().map(|byte| *byte != 0).collect()
    }
    fn write_all(items: &[bool], out: &mut Vec<u8>) {
        out.extend(items.iter().map(|item| u8::from(*item)));
    }
}

impl sealed::Sealed for [u8; 16] {}
impl Item for [u8; 16] {
    const WIDTH: usize = 16;
    fn holds(ty: i8) -> bool {
        ty.checked_abs() == Some(types::GUID)
    }
    fn read(bytes: &[u8], _: Endian) -> Option<[u8; 16]> {
        bytes.first_chunk().copied()
    }
    fn write(self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self);
    }
    fn read_all(bytes: &[u8], _: Endian) -> Vec<[u8; 16]> {
        bytes.as_chunks().0.to_vec()
    }
    fn write_all(items: &[[u8; 16]], out: &mut Vec<u8>) {
        out.extend_from_slice(items.as_flattened());
    }
}
