//! Equality of values. NaN equals NaN, because both are the null.

use super::{Items, Value};

trait Same {
    fn same(&self, other: &Self) -> bool;
}

impl Same for f32 {
    fn same(&self, other: &f32) -> bool {
        self == other || (self.is_nan() && other.is_nan())
    }
}

impl Same for f64 {
    fn same(&self, other: &f64) -> bool {
        self == other || (self.is_nan() && other.is_nan())
    }
}

impl<T: Same> Same for Vec<T> {
    fn same(&self, other: &Vec<T>) -> bool {
        self.len() == other.len() && self.iter().zip(other).all(|(left, right)| left.same(right))
    }
}

impl PartialEq for Items {
    fn eq(&self, other: &Items) -> bool {
        use Items::*;
        match (self, other) {
            (Bool(left), Bool(right)) => left == right,
            (Guid(left), Guid(right)) => left == right,
            (Byte(left), Byte(right)) | (Char(left), Char(right)) => left == right,
            (Short(left), Short(right)) => left == right,
            (Int(left), Int(right))
            | (Month(left), Month(right))
            | (Date(left), Date(right))
            | (Minute(left), Minute(right))
            | (Second(left), Second(right))
            | (Time(left), Time(right)) => left == right,
            (Long(left), Long(right)) | (Timestamp(left), Timestamp(right)) | (Timespan(left), Timespan(right)) => {
                left == right
            }
            (Real(left), Real(right)) => left.same(right),
            (Float(left), Float(right)) | (Datetime(left), Datetime(right)) => left.same(right),
            (Symbol(left), Symbol(right)) => left == right,
            _ => false,
        }
    }
}

impl PartialEq for Value {
    fn eq(&self, other: &Value) -> bool {
        use Value::*;
        match (self, other) {
            (Bool(left), Bool(right)) => left == right,
            (Guid(left), Guid(right)) => left == right,
            (Short(left), Short(right)) => left == right,
            (Int(left), Int(right))
            | (Month(left), Month(right))
            | (Date(left), Date(right))
            | (Minute(left), Minute(right))
            | (Second(left), Second(right))
            | (Time(left), Time(right)) => left == right,
            (Long(left), Long(right)) | (Timestamp(left), Timestamp(right)) | (Timespan(left), Timespan(right)) => {
                left == right
            }
            (Real(left), Real(right)) => left.same(right),
            (Float(left), Float(right)) | (Datetime(left), Datetime(right)) => left.same(right),
            (Symbol(left), Symbol(right)) | (Error(left), Error(right)) => left == right,
            (Vector { attr: a, items: left }, Vector { attr: b, items: right }) => a == b && left == right,
            (List { attr: a, items: left }, List { attr: b, items: right }) => a == b && left == right,
            (Dict { sorted: a, keys: ka, values: va }, Dict { sorted: b, keys: kb, values: vb }) => {
                a == b && ka == kb && va == vb
            }
            (TableByName { attr: a, names: na, place: pa }, TableByName { attr: b, names: nb, place: pb }) => {
                (a, na, pa) == (b, nb, pb)
            }
            (Table { attr: a, names: na, columns: ca }, Table { attr: b, names: nb, columns: cb }) => {
                a == b && na == nb && ca == cb
            }
            (Lambda { namespace: na, source: sa }, Lambda { namespace: nb, source: sb }) => na == nb && sa == sb,
            (Byte(left), Byte(right))
            | (Char(left), Char(right))
            | (Unary(left), Unary(right))
            | (Binary(left), Binary(right))
            | (Iterator(left), Iterator(right)) => left == right,
            (Projection(left), Projection(right)) | (Composition(left), Composition(right)) => left == right,
            (Derived(a, left), Derived(b, right)) => a == b && left == right,
            _ => false,
        }
    }
}
