//! Ranges of updates by time.

use super::support::*;
use crate::config::LogPosition;
use crate::config::position::log_position;
use crate::log::moment::{MomentError, window_of};
use proto::types;
use std::ops::Range;

/// An update of one row, whose first column is of a type of eight bytes.
fn timed(ty: i8, ns: i64) -> Vec<u8> {
    let mut out = Vec::new();
    proto::log::write_record_head(b"trade", 2, &mut out);
    out.extend_from_slice(&[ty.to_le_bytes()[0], 0, 1, 0, 0, 0]);
    out.extend_from_slice(&ns.to_le_bytes());
    out.extend_from_slice(&[11, 0, 1, 0, 0, 0, b'a', 0]);
    out
}

fn ns(text: &str) -> i64 {
    match log_position(text) {
        Ok(LogPosition::TimeOfDay(ns) | LogPosition::Timestamp(ns)) => ns,
        other => panic!("{text}: {other:?}"),
    }
}

fn log_of(times: &[&str]) -> (Folder, std::path::PathBuf) {
    let folder = Folder::new();
    let ty = |text: &str| if text.contains('D') { types::TIMESTAMP } else { types::TIMESPAN };
    let updates: Vec<Vec<u8>> = times.iter().map(|text| timed(ty(text), ns(text))).collect();
    let path = folder.with(&updates);
    (folder, path)
}

fn window(path: &std::path::Path, from: &str, to: Option<&str>) -> Result<Range<u64>, MomentError> {
    window_of(&mut reader(path), log_position(from).unwrap(), to.map(|to| log_position(to).unwrap()), CHUNK)
}

#[test]
fn a_range_of_times_is_the_range_of_updates_that_holds_them() {
    let (_folder, path) = log_of(&["09:30", "09:31", "09:32", "09:33"]);
    let of = |from: &str, to: Option<&str>| window(&path, from, to).unwrap();
    assert_eq!(of("09:31", Some("09:33")), 1..3);
    assert_eq!(of("09:31:30", None), 2..u64::MAX);
    assert_eq!(of("02:00", Some("09:31")), 0..1);
    assert_eq!(of("1", Some("09:33")), 1..3);
    assert_eq!(of("09:31", Some("2")), 1..2);
    assert_eq!(of("1", Some("3")), 1..3, "indices are taken as they are");
    assert!(of("10:00", Some("11:00")).is_empty() && of("09:31:10", Some("09:31:20")).is_empty());
}

#[test]
fn times_that_go_back_are_all_in_the_range() {
    let (_folder, path) = log_of(&["09:30", "09:33", "09:31", "09:30", "09:35"]);
    assert_eq!(window(&path, "09:31", Some("09:34")).unwrap(), 1..3);
}

#[test]
fn a_day_that_passes_midnight_has_its_hours_in_order() {
    let (_folder, path) = log_of(&["17:00", "23:59", "00:01", "23:58", "02:00", "16:30"]);
    let of = |from: &str, to: Option<&str>| window(&path, from, to).unwrap();
    assert_eq!(of("00:00", Some("02:00")), 2..3);
    assert_eq!(of("23:00", Some("00:00")), 1..4, "a late update of the evening is in the range");
    assert_eq!(of("16:00", None), 5..u64::MAX);
    assert_eq!(of("17:00", Some("18:00")), 0..1);
}

#[test]
fn timestamps_are_found_by_date_or_by_time_of_day() {
    let (_folder, path) = log_of(&["2026.11.20D17:00", "2026.11.20D23:00", "2026.11.21D02:00", "2026.11.21D16:00"]);
    let of = |from: &str, to: Option<&str>| window(&path, from, to).unwrap();
    assert_eq!(of("2026.11.20D23:00", Some("2026-11-21T10:00")), 1..3);
    assert_eq!(of("02:00", None), 2..u64::MAX);
    assert_eq!(of("2026.11.21", None), 2..u64::MAX);
}

#[test]
fn a_log_without_times_or_dates_is_an_error_that_says_so() {
    let folder = Folder::new();
    let path = folder.with(&updates(4));
    assert!(matches!(window(&path, "02:00", None), Err(MomentError::NoTimes { .. })));
    assert_eq!(window(&path, "1", Some("3")).unwrap(), 1..3);
    let (_folder, path) = log_of(&["09:30"]);
    assert!(matches!(window(&path, "2026.11.21D02:00", None), Err(MomentError::NoDates { .. })));
}
