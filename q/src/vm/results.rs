//! Collects the results of repeated applications.

use crate::runtime::scalar::Scalar;
use columns::table::Value;

/// Results in order, packed while all are of one type.
pub(crate) enum Results {
    None,
    Longs(Vec<i64>),
    Floats(Vec<f64>),
    Bools(Vec<u8>),
    Values(Vec<Value>),
}

impl Results {
    pub fn new() -> Results {
        Results::None
    }

    /// Appends an atom.
    #[inline]
    pub fn push_atom(&mut self, atom: &Scalar) {
        match (&mut *self, atom) {
            (Results::Longs(v), Scalar::Long(l)) => v.push(*l),
            (Results::Floats(v), Scalar::Float(f)) => v.push(*f),
            (Results::Bools(v), Scalar::Bool(b)) => v.push(u8::from(*b)),
            (Results::None, Scalar::Long(l)) => *self = Results::Longs(vec![*l]),
            (Results::None, Scalar::Float(f)) => *self = Results::Floats(vec![*f]),
            (Results::None, Scalar::Bool(b)) => *self = Results::Bools(vec![u8::from(*b)]),
            (_, other) => {
                if let Some(value) = other.value(&[]) {
                    self.push(value);
                }
            }
        }
    }

    pub fn push(&mut self, value: Value) {
        match (&mut *self, &value) {
            (Results::None | Results::Longs(_), Value::Long(_))
            | (Results::None | Results::Floats(_), Value::Float(_))
            | (Results::None | Results::Bools(_), Value::Bool(_)) => {
                if let Some(atom) = Scalar::of(&value) {
                    self.push_atom(&atom);
                }
            }
            (Results::Values(values), _) => values.push(value),
            _ => self.spread(value),
        }
    }

    /// Unpacks the results to append a value of another type.
    fn spread(&mut self, value: Value) {
        let mut values = match std::mem::replace(self, Results::None) {
            Results::None => Vec::new(),
            Results::Longs(v) => v.into_iter().map(Value::Long).collect(),
            Results::Floats(v) => v.into_iter().map(Value::Float).collect(),
            Results::Bools(v) => v.into_iter().map(|b| Value::Bool(b != 0)).collect(),
            Results::Values(v) => v,
        };
        values.push(value);
        *self = Results::Values(values);
    }

    pub fn len(&self) -> usize {
        match self {
            Results::None => 0,
            Results::Longs(v) => v.len(),
            Results::Floats(v) => v.len(),
            Results::Bools(v) => v.len(),
            Results::Values(v) => v.len(),
        }
    }

    /// Returns the results as a list, collapsed as by [`Value::collapse`].
    pub fn into_value(self) -> Value {
        match self {
            Results::None => Value::collapse(Vec::new()),
            Results::Longs(v) => Value::longs(v),
            Results::Floats(v) => Value::floats(v),
            Results::Bools(v) => Value::bools(v),
            Results::Values(v) => Value::collapse(v),
        }
    }
}
