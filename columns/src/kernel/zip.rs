//! Item-wise loops over two slices, either of which may be a single item.

use super::blocks;
use super::num::{Num, float_equal};

/// Applies `f` item by item; repeats a slice of one item. Other slices must be of equal length: extra items of the longer are ignored.
#[inline(always)]
pub fn zip<A: Copy, B: Copy, R: Default + Clone>(x: &[A], y: &[B], f: impl Fn(A, B) -> R) -> Vec<R> {
    match (x, y) {
        ([x], [y]) => vec![f(*x, *y)],
        (x, [y]) => blocks::map(x, |x| f(*x, *y)),
        ([x], y) => blocks::map(y, |y| f(*x, *y)),
        (x, y) => blocks::both(x, y, |x, y| f(*x, *y)),
    }
}

/// Arithmetic on two numbers of one type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arithmetic {
    Add,
    Subtract,
    Multiply,
    Lesser,
    Greater,
}

/// Comparisons of two items of one type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Comparison {
    Equal,
    Unequal,
    Less,
    More,
    AtMost,
    AtLeast,
}

/// Lesser of two numbers; null is least.
#[inline(always)]
pub fn lesser<T: Num>(x: T, y: T) -> T {
    if x.is_null() || !(y < x || y.is_null()) { x } else { y }
}

/// Greater of two numbers; null is least.
#[inline(always)]
pub fn greater<T: Num>(x: T, y: T) -> T {
    if y.is_null() || x > y { x } else { y }
}

/// Applies `op` item by item; repeats a slice of one item.
pub fn arithmetic<T: Num>(op: Arithmetic, x: &[T], y: &[T]) -> Vec<T> {
    match op {
        Arithmetic::Add => zip(x, y, T::plus),
        Arithmetic::Subtract => zip(x, y, T::minus),
        Arithmetic::Multiply => zip(x, y, T::times),
        Arithmetic::Lesser => zip(x, y, lesser),
        Arithmetic::Greater => zip(x, y, greater),
    }
}

/// Compares integers, and types ordered like integers.
pub fn compare<T: Copy + PartialOrd>(op: Comparison, x: &[T], y: &[T]) -> Vec<u8> {
    match op {
        Comparison::Equal => zip(x, y, |x, y| u8::from(x == y)),
        Comparison::Unequal => zip(x, y, |x, y| u8::from(x != y)),
        Comparison::Less => zip(x, y, |x, y| u8::from(x < y)),
        Comparison::More => zip(x, y, |x, y| u8::from(x > y)),
        Comparison::AtMost => zip(x, y, |x, y| u8::from(x <= y)),
        Comparison::AtLeast => zip(x, y, |x, y| u8::from(x >= y)),
    }
}

#[inline(always)]
fn float_less(x: f64, y: f64) -> bool {
    (x < y || (x.is_nan() && !y.is_nan())) && !float_equal(x, y)
}

/// Compares two floats within the comparison tolerance; null is least.
#[inline]
pub fn float_holds(op: Comparison, x: f64, y: f64) -> bool {
    match op {
        Comparison::Equal => float_equal(x, y),
        Comparison::Unequal => !float_equal(x, y),
        Comparison::Less => float_less(x, y),
        Comparison::More => float_less(y, x),
        Comparison::AtMost => !float_less(y, x),
        Comparison::AtLeast => !float_less(x, y),
    }
}

/// Compares floats item by item, within the comparison tolerance; null is least.
pub fn compare_floats(op: Comparison, x: &[f64], y: &[f64]) -> Vec<u8> {
    match op {
        Comparison::Equal => zip(x, y, |x, y| u8::from(float_equal(x, y))),
        Comparison::Unequal => zip(x, y, |x, y| u8::from(!float_equal(x, y))),
        Comparison::Less => zip(x, y, |x, y| u8::from(float_less(x, y))),
        Comparison::More => zip(x, y, |x, y| u8::from(float_less(y, x))),
        Comparison::AtMost => zip(x, y, |x, y| u8::from(!float_less(y, x))),
        Comparison::AtLeast => zip(x, y, |x, y| u8::from(!float_less(x, y))),
    }
}
