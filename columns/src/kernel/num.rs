//! Numbers of kdb+: nulls and infinities are values of the machine types.

use super::sym::Sym;

/// A numeric type with a null.
pub trait Num: Copy + Default + PartialOrd + Send + Sync + 'static {
    const NULL: Self;
    const INFINITY: Self;
    const NEGATIVE_INFINITY: Self;

    fn is_null(self) -> bool;
    /// Sum; null if either operand is null.
    fn plus(self, other: Self) -> Self;
    /// Sum of two numbers as a running total takes it: what overflows to the null goes on from there as a number.
    #[inline]
    fn added(self, other: Self) -> Self {
        self.plus(other)
    }
    /// Product, as [`Num::added`].
    #[inline]
    fn multiplied(self, other: Self) -> Self {
        self.times(other)
    }
    fn minus(self, other: Self) -> Self;
    fn times(self, other: Self) -> Self;
    fn negate(self) -> Self;
    fn absolute(self) -> Self;
    /// As a float: null becomes NaN, an integer infinity becomes an ordinary number.
    fn to_float(self) -> f64;
}

/// An integer type with a null.
pub trait Int: Num {
    /// Widens: null stays null, an infinity becomes an ordinary number.
    fn to_long(self) -> i64;
    /// Narrows: null stays null, a number out of range becomes an infinity.
    fn from_long(long: i64) -> Self;
}

macro_rules! int {
    ($($t:ty),*) => { $(
        impl Num for $t {
            const NULL: $t = <$t>::MIN;
            const INFINITY: $t = <$t>::MAX;
            const NEGATIVE_INFINITY: $t = -<$t>::MAX;

            #[inline]
            fn is_null(self) -> bool {
                self == Self::NULL
            }
            #[inline]
            fn plus(self, other: $t) -> $t {
                if self.is_null() | other.is_null() { Self::NULL } else { self.wrapping_add(other) }
            }
            #[inline]
            fn added(self, other: $t) -> $t {
                self.wrapping_add(other)
            }
            #[inline]
            fn multiplied(self, other: $t) -> $t {
                self.wrapping_mul(other)
            }
            #[inline]
            fn minus(self, other: $t) -> $t {
                if self.is_null() | other.is_null() { Self::NULL } else { self.wrapping_sub(other) }
            }
            #[inline]
            fn times(self, other: $t) -> $t {
                if self.is_null() | other.is_null() { Self::NULL } else { self.wrapping_mul(other) }
            }
            #[inline]
            fn negate(self) -> $t {
                self.wrapping_neg()
            }
            #[inline]
            fn absolute(self) -> $t {
                self.wrapping_abs()
            }
            #[inline]
            fn to_float(self) -> f64 {
                if self.is_null() { f64::NAN } else { self as f64 }
            }
        }

        impl Int for $t {
            #[inline]
            fn to_long(self) -> i64 {
                if self.is_null() { i64::NULL } else { self as i64 }
            }
            #[inline]
            fn from_long(long: i64) -> $t {
                if long.is_null() {
                    Self::NULL
                } else {
                    long.clamp(Self::NEGATIVE_INFINITY as i64, Self::INFINITY as i64) as $t
                }
            }
        }
    )* };
}
int!(i16, i32, i64);

macro_rules! unsigned {
    ($($t:ty),*) => { $(
        /// Row numbers and bytes: no null, no infinity.
        impl Num for $t {
            const NULL: $t = 0;
            const INFINITY: $t = <$t>::MAX;
            const NEGATIVE_INFINITY: $t = 0;

            #[inline]
            fn is_null(self) -> bool {
                false
            }
            #[inline]
            fn plus(self, other: $t) -> $t {
                self.wrapping_add(other)
            }
            #[inline]
            fn minus(self, other: $t) -> $t {
                self.wrapping_sub(other)
            }
            #[inline]
            fn times(self, other: $t) -> $t {
                self.wrapping_mul(other)
            }
            #[inline]
            fn negate(self) -> $t {
                self.wrapping_neg()
            }
            #[inline]
            fn absolute(self) -> $t {
                self
            }
            #[inline]
            fn to_float(self) -> f64 {
                self as f64
            }
        }

        impl Int for $t {
            #[inline]
            fn to_long(self) -> i64 {
                self as i64
            }
            #[inline]
            fn from_long(long: i64) -> $t {
                long as $t
            }
        }
    )* };
}
unsigned!(u8, u32);

macro_rules! float {
    ($($t:ty),*) => { $(
        impl Num for $t {
            const NULL: $t = <$t>::NAN;
            const INFINITY: $t = <$t>::INFINITY;
            const NEGATIVE_INFINITY: $t = <$t>::NEG_INFINITY;

            #[inline]
            fn is_null(self) -> bool {
                self.is_nan()
            }
            #[inline]
            fn plus(self, other: $t) -> $t {
                self + other
            }
            #[inline]
            fn minus(self, other: $t) -> $t {
                self - other
            }
            #[inline]
            fn times(self, other: $t) -> $t {
                self * other
            }
            #[inline]
            fn negate(self) -> $t {
                -self
            }
            #[inline]
            fn absolute(self) -> $t {
                self.abs()
            }
            #[inline]
            fn to_float(self) -> f64 {
                f64::from(self)
            }
        }
    )* };
}
float!(f32, f64);

/// kdb+'s comparison tolerance: floats are equal if they differ by at most this share of the larger.
pub const TOLERANCE: f64 = 1.0 / (1u64 << 43) as f64;

/// q's `=` on floats: nulls are equal, and numbers within [`TOLERANCE`].
#[inline]
pub fn float_equal(x: f64, y: f64) -> bool {
    if x == y {
        return true;
    }
    if x.is_nan() || y.is_nan() {
        return x.is_nan() && y.is_nan();
    }
    if x.is_infinite() || y.is_infinite() {
        return false;
    }
    x != 0.0 && y != 0.0 && (x - y).abs() <= TOLERANCE * x.abs().max(y.abs())
}

/// Total order of floats: null first, zeros equal.
#[inline]
pub fn float_order(x: f64, y: f64) -> std::cmp::Ordering {
    x.partial_cmp(&y).unwrap_or_else(|| y.is_nan().cmp(&x.is_nan()))
}

impl Sym {
    pub fn is_null(self) -> bool {
        self == Sym::NULL
    }
}
