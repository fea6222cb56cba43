//! Counters of events that occur in many places, and limits as metrics. Each costs one relaxed addition; none is on a path per row or
//! update.

use super::snapshot::Snapshot;
use super::table::Id;
use crate::config::{Limit, Limits, Program, Unit};
use crate::q::refused;
use crate::table::symbol::{self, Bound};
use proto::{DecodeError, DecodeErrorKind};
use std::sync::atomic::{AtomicU64, Ordering};

static COUNTS: [AtomicU64; Id::ALL.len()] = [const { AtomicU64::new(0) }; Id::ALL.len()];
static REFUSALS: [AtomicU64; Limit::ALL.len()] = [const { AtomicU64::new(0) }; Limit::ALL.len()];

/// Metrics counted here.
const COUNTED: [Id; 18] = [
    Id::Bugs,
    Id::QueriesAbandoned,
    Id::ConnectionsAccepted,
    Id::LoginsRefused,
    Id::LoginsLockedOut,
    Id::UsersReloadFailures,
    Id::IdentityFailures,
    Id::SessionsExpired,
    Id::HttpRequests,
    Id::AuditRecords,
    Id::AuditMissing,
    Id::AuditWriteErrors,
    Id::RejectedUnsaved,
    Id::TlsHandshakes,
    Id::TlsHandshakesFailed,
    Id::CloudWatchSent,
    Id::CloudWatchFailed,
    Id::CloudWatchDropped,
];

/// Limits that never reject anything: they are sizes.
const SIZES: [Limit; 2] = [Limit::log_read_chunk_bytes, Limit::log_buffer_bytes];

/// Increments a counter.
pub fn count(id: Id) {
    count_times(id, 1);
}

/// Adds to a counter.
pub fn count_times(id: Id, times: u64) {
    if let Some(counter) = COUNTS.get(id as usize) {
        counter.fetch_add(times, Ordering::Relaxed);
    }
}

/// Counts a rejection or truncation by a limit.
pub fn refused(limit: Limit) {
    refused_times(limit, 1);
}

/// As [`refused()`], for several at once.
pub fn refused_times(limit: Limit, times: u64) {
    if let Some(counter) = REFUSALS.get(limit as usize) {
        counter.fetch_add(times, Ordering::Relaxed);
    }
}

/// As [`refused()`], if the error is a limit of an object or message; `length` is the limit of the message's length.
pub fn refused_by(error: &DecodeError, length: Limit) {
    match error.kind {
        DecodeErrorKind::TooDeep { .. } => refused(Limit::depth),
        DecodeErrorKind::MessageTooLong { .. } => refused(length),
        DecodeErrorKind::ExpandsTooFar { .. } => refused(Limit::decompressed_bytes),
        _ => {}
    }
}

/// Returns the number of rejections by a limit in this process.
pub fn refusals(limit: Limit) -> u64 {
    let counted = REFUSALS.get(limit as usize).map_or(0, |counter| counter.load(Ordering::Relaxed));
    // The library crates do not know the metrics and have counters of their own.
    counted
        + match limit {
            Limit::symbols => symbol::refusals(Bound::Number),
            Limit::symbol_bytes => symbol::refusals(Bound::Bytes),
            Limit::client_symbols => symbol::refusals(Bound::Clients),
            Limit::user_symbol_bytes => symbol::refusals(Bound::User),
            Limit::query_symbols => symbol::refusals(Bound::Evaluation),
            Limit::depth => refused::too_deep(),
            _ => 0,
        }
}

/// Writes these counters to a snapshot.
pub fn put(snapshot: &mut Snapshot) {
    for id in COUNTED {
        snapshot.set(id, COUNTS.get(id as usize).map(|counter| counter.load(Ordering::Relaxed)));
    }
}

/// Writes a program's limits: value, utilisation if known, and number of rejections of each.
pub fn put_limits(snapshot: &mut Snapshot, program: Program, limits: &Limits, used: &[(Limit, u64)]) {
    for id in [Id::LimitBytes, Id::LimitItems, Id::LimitSeconds, Id::LimitUsedBytes, Id::LimitUsedItems] {
        snapshot.none(id);
    }
    for limit in Limit::ALL.iter().copied().filter(|limit| limit.spec().belongs_to(program)) {
        let label = limit.spec().name;
        let value = limits.get(limit);
        let used = used.iter().find(|(of, _)| *of == limit).map(|(_, used)| *used);
        match limit.unit() {
            Unit::nanoseconds => snapshot.add(Id::LimitSeconds, &[label], value as f64 / 1e9),
            Unit::bytes => {
                snapshot.add(Id::LimitBytes, &[label], value);
                snapshot.add(Id::LimitUsedBytes, &[label], used);
            }
            Unit::count => {
                snapshot.add(Id::LimitItems, &[label], value);
                snapshot.add(Id::LimitUsedItems, &[label], used);
            }
        }
        if !SIZES.contains(&limit) {
            snapshot.add(Id::LimitRefusals, &[label], refusals(limit));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::table::{Kind, Process};

    #[test]
    fn every_limit_of_a_program_is_exported() {
        for (program, process) in [(Program::Tick, Process::Tick), (Program::Rdb, Process::Node)] {
            let mut snapshot = Snapshot::new(process);
            put_limits(&mut snapshot, program, &Limits::default(), &[(Limit::connections, 3)]);
            for limit in Limit::ALL.iter().filter(|limit| limit.spec().belongs_to(program)) {
                let is_set = [Id::LimitBytes, Id::LimitItems, Id::LimitSeconds].into_iter().any(|id| {
                    snapshot.samples(id).iter().any(|sample| sample.labels == [limit.spec().name.to_string()])
                });
                assert!(is_set, "{limit:?}");
            }
            assert_eq!(snapshot.samples(Id::LimitUsedItems).len(), 1);
        }
    }

    #[test]
    fn rejections_are_counted_by_limit() {
        let before = refusals(Limit::depth);
        let deep = DecodeError { offset: 0, kind: DecodeErrorKind::TooDeep { max_depth: 1 } };
        refused_by(&deep, Limit::message_bytes);
        assert!(refusals(Limit::depth) > before);
    }

    #[test]
    fn only_counters_are_counted_here() {
        assert!(COUNTED.iter().all(|id| id.metric().kind == Kind::Counter && id.metric().labels.is_empty()));
    }
}
