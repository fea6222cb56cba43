//! Times of updates: which updates of a log belong to a range of times.
//!
//! The time of an update is the first item of its first column. kdb+tick's is a time of day, which restarts at midnight in a day that rolls
//! at another hour; timestamps have their date. Publishers may send times of their own, so times may go back.

use super::error::LogError;
use super::reader::{LogReader, Next};
use crate::config::LogPosition;
use proto::time::DAY_NS;
use proto::{View, types};
use std::ops::Range;
use thiserror::Error;

/// Time of an update.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Moment {
    /// Nanoseconds of the time of day.
    OfDay(i64),
    /// Nanoseconds from 2000.01.01.
    Stamp(i64),
}

impl Moment {
    /// Nanoseconds from midnight, or from 2000.01.01.
    pub fn nanoseconds(self) -> i64 {
        match self {
            Moment::OfDay(ns) | Moment::Stamp(ns) => ns,
        }
    }
}

/// Returns the first item of an update's first column; `None` if it is no time.
pub fn moment_of(columns: &View<'_>) -> Option<Moment> {
    let list = columns.table().map(|table| table.columns).or_else(|| columns.list())?;
    let first = list.iter().next()?;
    let ty = first.type_code().saturating_abs();
    let (long, int, float) = match first.vector() {
        Some(vector) => (vector.get_i64(0), vector.get_i32(0), vector.get_f64(0)),
        None => (first.atom::<i64>(), first.atom::<i32>(), first.atom::<f64>()),
    };
    let scaled = |unit_ns: i64| int.filter(|n| *n != types::NULL_INT).and_then(|n| i64::from(n).checked_mul(unit_ns));
    let long = long.filter(|ns| *ns != types::NULL_LONG);
    match ty {
        types::TIMESPAN => long.map(Moment::OfDay),
        types::TIMESTAMP => long.map(Moment::Stamp),
        types::TIME => scaled(1_000_000).map(Moment::OfDay),
        types::SECOND => scaled(1_000_000_000).map(Moment::OfDay),
        types::MINUTE => scaled(60_000_000_000).map(Moment::OfDay),
        types::DATETIME => {
            float.filter(|days| days.is_finite()).map(|days| Moment::Stamp((days * DAY_NS as f64) as i64))
        }
        _ => None,
    }
}

/// Why a range of times selects no range of updates.
#[derive(Debug, Error)]
pub enum MomentError {
    #[error(transparent)]
    Log(#[from] LogError),
    #[error("{path}: no update begins with a time; give indices")]
    NoTimes { path: String },
    #[error("{path}: its updates have a time of day and no date; write it like 02:00")]
    NoDates { path: String },
}

/// Returns the updates from one position up to before another: the smallest range that contains every update with a time in between.
/// `None` is the end of the log; an index is taken as it is, whether the log reaches it or not.
///
/// # Errors
/// The log cannot be read, or has no times to compare with.
pub fn window_of(
    reader: &mut LogReader,
    from: LogPosition,
    to: Option<LogPosition>,
    chunk_bytes: usize,
) -> Result<Range<u64>, MomentError> {
    let is_time = |position: LogPosition| !matches!(position, LogPosition::Index(_));
    if !is_time(from) && !to.is_some_and(is_time) {
        let index = |position| if let LogPosition::Index(index) = position { index } else { u64::MAX };
        return Ok(index(from)..to.map_or(u64::MAX, index));
    }
    let mut ends: Option<(i64, i64)> = None;
    let line = each(reader, chunk_bytes, |_, ns| {
        let (first, last) = ends.unwrap_or((ns, ns));
        ends = Some((first.min(ns), last.max(ns)));
    })?;
    let path = || reader.path().display().to_string();
    let Some((first, last)) = ends else { return Err(MomentError::NoTimes { path: path() }) };
    let time = |position| match position {
        LogPosition::Index(_) => Ok(None),
        LogPosition::TimeOfDay(ns) => Ok(Some(nearest(ns, first, last))),
        LogPosition::Timestamp(ns) => match line.midnight {
            Some(midnight) => Ok(Some(ns.saturating_sub(midnight))),
            None => Err(MomentError::NoDates { path: path() }),
        },
    };
    let (begin, end) = (time(from)?, to.map(time).transpose()?.flatten());
    let mut found: Option<Range<u64>> = None;
    each(reader, chunk_bytes, |index, ns| {
        if begin.is_none_or(|begin| ns >= begin) && end.is_none_or(|end| ns < end) {
            let after = index.saturating_add(1);
            found = Some(found.take().map_or(index..after, |range| range.start..after));
        }
    })?;
    let after_last = reader.position();
    let found = found.unwrap_or(after_last..after_last);
    Ok(match (from, to) {
        (LogPosition::Index(from), _) => from..found.end.max(from),
        (_, Some(LogPosition::Index(to))) => found.start.min(to)..to,
        (_, None) => found.start..u64::MAX,
        (_, Some(_)) => found,
    })
}

/// Passes index and time of each update that has a time, in nanoseconds from the midnight before the first one. Returns the line on which
/// the times lie.
fn each(reader: &mut LogReader, chunk_bytes: usize, mut take: impl FnMut(u64, i64)) -> Result<Line, LogError> {
    reader.seek(0)?;
    let mut line = Line::default();
    while let Next::Chunk(chunk) = reader.next_chunk(chunk_bytes, u64::MAX)? {
        for (index, record) in chunk.records() {
            if let Some(moment) = record.and_then(|record| moment_of(&record.columns)) {
                take(index, line.place(moment));
            }
        }
    }
    Ok(line)
}

/// Places times of day and timestamps on one line, which begins at the midnight before the first update.
#[derive(Clone, Copy, Debug, Default)]
struct Line {
    /// Midnight before the first timestamp.
    midnight: Option<i64>,
    /// First time of day, and the last one.
    of_day: Option<(i64, i64)>,
    /// Midnights passed, in nanoseconds.
    passed_ns: i64,
}

impl Line {
    fn place(&mut self, moment: Moment) -> i64 {
        const HALF_NS: i64 = DAY_NS / 2;
        let ns = match moment {
            Moment::Stamp(ns) => {
                let midnight = *self.midnight.get_or_insert(ns.div_euclid(DAY_NS).saturating_mul(DAY_NS));
                return ns.saturating_sub(midnight);
            }
            Moment::OfDay(ns) => ns,
        };
        let (first, last) = self.of_day.unwrap_or((ns, ns));
        let step = ns.saturating_sub(last);
        // A late update of the evening, after midnight.
        if self.passed_ns > 0 && step > HALF_NS && ns >= first {
            return ns.saturating_add(self.passed_ns.saturating_sub(DAY_NS));
        }
        if step < -HALF_NS {
            self.passed_ns = self.passed_ns.saturating_add(DAY_NS);
        }
        self.of_day = Some((first, ns));
        ns.saturating_add(self.passed_ns)
    }
}

/// Returns the place of a time of day on the line of a log from `first` to `last`: in a log that passes midnight, on the day on which the
/// log has it, or is closest to it.
fn nearest(of_day: i64, first: i64, last: i64) -> i64 {
    let distance = |ns: i64| first.saturating_sub(ns).max(ns.saturating_sub(last)).max(0);
    let days = last.div_euclid(DAY_NS).clamp(0, 366);
    let places = (0..=days).map(|day| of_day.saturating_add(day.saturating_mul(DAY_NS)));
    places.min_by_key(|ns| distance(*ns)).unwrap_or(of_day)
}
