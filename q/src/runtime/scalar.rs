//! Contents of a VM register: an atom, or a reference to a larger value.

use columns::table::{Sym, Value};

macro_rules! scalars {
    ($($variant:ident($inner:ty))*) => {
        /// Contents of a VM register: 16 bytes, copied without reference counting, with the payload in the last eight.
        #[derive(Clone, Copy, Debug)]
        #[repr(C, u8)]
        pub(crate) enum Scalar {
            /// A local before its first assignment.
            Unset,
            /// The generic null.
            Null,
            $($variant($inner),)*
            /// A list, dictionary or table, as an index into the run's objects.
            Object(u32),
        }

        impl Scalar {
            /// The register contents for an atom; `None` for values larger than eight bytes.
            #[inline]
            pub fn of(value: &Value) -> Option<Scalar> {
                match value {
                    Value::Null => Some(Scalar::Null),
                    $(Value::$variant(inner) => Some(Scalar::$variant(*inner)),)*
                    _ => None,
                }
            }

            /// The value of a register; `None` if unset.
            pub fn value(self, objects: &[Value]) -> Option<Value> {
                match self {
                    Scalar::Unset => None,
                    Scalar::Null => Some(Value::Null),
                    $(Scalar::$variant(inner) => Some(Value::$variant(inner)),)*
                    Scalar::Object(place) => objects.get(place as usize).cloned(),
                }
            }
        }
    };
}
scalars! {
    Bool(bool) Byte(u8) Short(i16) Int(i32) Long(i64) Real(f32) Float(f64) Char(u8) Sym(Sym) Timestamp(i64) Month(i32)
    Date(i32) Datetime(f64) Timespan(i64) Minute(i32) Second(i32) Time(i32)
}

impl Scalar {
    /// Copies `from`. The most common variants are copied field by field: a 16-byte load just after two narrower stores
    /// stalls on store forwarding.
    #[inline]
    pub fn take(&mut self, from: &Scalar) {
        match from {
            Scalar::Long(long) => *self = Scalar::Long(*long),
            Scalar::Float(float) => *self = Scalar::Float(*float),
            Scalar::Bool(bool) => *self = Scalar::Bool(*bool),
            other => *self = *other,
        }
    }
}

/// Whether a value can be indexed without a call.
pub(crate) fn is_object(value: &Value) -> bool {
    matches!(value, Value::Vector(_) | Value::Dict(_) | Value::Table(_))
}
