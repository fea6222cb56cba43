//! Per-thread settings of evaluations: calendar and precision.

use std::cell::Cell;

/// Default digits of floats: `\P 7`.
pub const PRECISION: u8 = 7;

thread_local! {
    /// `\z 1`: days come before months in dates with slashes.
    static DAY_FIRST: Cell<bool> = const { Cell::new(false) };
    /// `\o`: offset of local time from UTC in hours, or in minutes if above 23; `None` uses the system's time zone.
    static UTC_OFFSET: Cell<Option<i32>> = const { Cell::new(None) };
    /// `\W`: first day of the week, 0 for Saturday.
    static WEEK_START: Cell<i64> = const { Cell::new(2) };
    /// Digits of floats in the evaluation on this thread.
    static DIGITS: Cell<u8> = const { Cell::new(PRECISION) };
}

/// Settings of a thread that helper threads inherit.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    day_first: bool,
    week_start: i64,
}

/// The settings of this thread.
pub fn settings() -> Settings {
    Settings { day_first: DAY_FIRST.get(), week_start: WEEK_START.get() }
}

/// Replaces the settings of this thread.
pub fn adopt(settings: Settings) {
    DAY_FIRST.set(settings.day_first);
    WEEK_START.set(settings.week_start);
}

pub(crate) fn day_first() -> bool {
    DAY_FIRST.get()
}

pub(crate) fn set_day_first(on: bool) {
    DAY_FIRST.set(on);
}

pub(crate) fn week_start() -> i64 {
    WEEK_START.get()
}

pub(crate) fn set_week_start(day: i64) {
    WEEK_START.set(day);
}

pub(crate) fn utc_offset() -> Option<i32> {
    UTC_OFFSET.get()
}

pub(crate) fn set_utc_offset(offset: Option<i32>) {
    UTC_OFFSET.set(offset);
}

/// Digits of floats: `\P`.
pub(crate) fn precision() -> u8 {
    DIGITS.get()
}

pub(crate) fn set_precision(digits: u8) {
    DIGITS.set(digits);
}
