//! Console size and float precision.

use crate::runtime::settings::PRECISION;

/// Console size and float precision.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Console {
    /// `\c`: lines and columns.
    pub rows: usize,
    pub columns: usize,
    /// `\C`: lines and columns of an HTTP response.
    pub web: [usize; 2],
    /// `\P`; 0 stands for 17 digits.
    pub precision: u8,
}

impl Default for Console {
    fn default() -> Console {
        Console { rows: 25, columns: 80, web: [36, 2000], precision: PRECISION }
    }
}
