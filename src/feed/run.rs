//! The feed's loop: sends due updates, confirms them, reports progress.

use super::ledger::FeedTotals;
use super::market::Market;
use super::pace::Pace;
use super::publisher::{FeedError, Publisher};
use super::replay::{Replay, ReplayClock};
use super::update::Columns;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Updates sent between two flushes and reads of the clock.
const BATCH: u64 = 256;
/// Longest time between two confirmations.
const CONFIRM_INTERVAL: Duration = Duration::from_millis(500);
/// Sleep while no update is due.
const PAUSE: Duration = Duration::from_millis(1);

/// Source of updates.
pub enum Source {
    Market { market: Market, pace: Pace },
    Replay { replay: Box<Replay>, clock: ReplayClock },
}

/// Progress of the feed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Progress {
    pub elapsed: Duration,
    /// Updates sent so far.
    pub updates: u64,
    /// Total number of updates, if known.
    pub total: Option<u64>,
    /// Time of the simulated day, in nanoseconds.
    pub day_ns: Option<u64>,
}

/// Runs until the source ends, `limit` updates are sent, or `stop` is set; then confirms everything sent.
///
/// # Errors
/// Those of publishing, or a log that cannot be read further.
pub fn run(
    source: &mut Source,
    publisher: &mut Publisher,
    limit: u64,
    stop: &AtomicBool,
    mut tell: impl FnMut(Progress, &FeedTotals),
) -> Result<(), FeedError> {
    let began = Instant::now();
    let mut confirmed = began;
    let mut sent = 0;
    let mut next = Pending { columns: Columns::default(), logged: None };
    while sent < limit && !stop.load(Ordering::Relaxed) {
        let elapsed = began.elapsed();
        let elapsed_ns = u64::try_from(elapsed.as_nanos()).unwrap_or(u64::MAX);
        let batch_end = sent.saturating_add(BATCH).min(limit);
        let before = sent;
        let more = match source {
            Source::Market { market, pace } => {
                let due = pace.due(elapsed_ns).min(batch_end);
                while sent < due {
                    next.columns.bytes.clear();
                    let made = market.update(pace.time_of(sent), &mut next.columns.bytes)?;
                    let Some(shape) = market.shapes().get(made.shape) else { break };
                    next.columns.count = shape.columns.len();
                    next.columns.rows = made.rows as u64;
                    publisher.publish(shape.table.as_bytes(), &next.columns)?;
                    sent += 1;
                }
                pace.total().is_none_or(|total| sent < total)
            }
            Source::Replay { replay, clock } => loop {
                if next.logged.is_none() {
                    next.logged = replay.next_update().map_err(|error| FeedError::Other(error.to_string()))?;
                }
                let Some(logged) = &next.logged else { break false };
                if sent >= batch_end || clock.due(logged.time_ns) > elapsed_ns {
                    break true;
                }
                publisher.publish(&logged.table, &logged.columns)?;
                next.logged = None;
                sent += 1;
            },
        };
        publisher.flush()?;
        if publisher.unconfirmed() > 0 && confirmed.elapsed() >= CONFIRM_INTERVAL {
            publisher.confirm()?;
            confirmed = Instant::now();
        }
        let (total, day_ns) = match source {
            Source::Market { pace, .. } => (pace.total(), Some(pace.clock(elapsed_ns))),
            Source::Replay { .. } => (None, None),
        };
        tell(Progress { elapsed, updates: sent, total, day_ns }, publisher.account());
        if !more {
            break;
        }
        if sent == before {
            std::thread::sleep(PAUSE);
        }
    }
    publisher.confirm()
}

/// The update under construction, or waiting for its due time.
struct Pending {
    columns: Columns,
    logged: Option<super::replay::Logged>,
}
