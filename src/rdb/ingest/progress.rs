//! How a node gets on with its updates: counters, catch-up after it became live, and connections without progress.

use crate::queue::RECENT_NS;
use std::time::{Duration, Instant};

/// Maximum number of consecutive resumes without a taken update; then the node drops everything and joins empty.
pub(super) const MAX_RESYNCS: u32 = 3;
/// Maximum number of consecutive connections that end at an update that cannot be received, before the window goes to
/// the next node.
const MAX_UNREADABLE: u32 = 3;
/// The same for connections that end for another reason, which may be transient, while updates are due.
const MAX_RESUMES: u32 = 8;

/// Counters since the process started.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Counters {
    pub updates_taken: u64,
    pub updates_refused: u64,
    pub resyncs: u64,
    /// Windows given back before their first update because memory was at the roll level.
    pub windows_declined: u64,
    /// Windows passed to the next node because this one made no progress.
    pub windows_given_up: u64,
    /// Updates left out because no node of this size can hold or receive them.
    pub updates_left_out: u64,
}

/// Consecutive connections that ended at the same update.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Stuck {
    at: u64,
    times: u32,
    /// Latest error of receiving the update; `None` if all connections ended for other reasons.
    unreadable: Option<String>,
}

impl Stuck {
    fn is_over(&self) -> bool {
        self.times >= if self.unreadable.is_some() { MAX_UNREADABLE } else { MAX_RESUMES }
    }
}

/// Progress of a node.
#[derive(Debug, Default)]
pub(super) struct Progress {
    counters: Counters,
    /// Consecutive resumes without a taken update.
    resyncs_in_a_row: u32,
    stuck: Option<Stuck>,
    /// The tip when this node became live, and that time; `None` once the node has reached it.
    catching_up: Option<(u64, Instant)>,
    /// Duration of the last catch-up.
    catch_up: Option<Duration>,
    /// When the node last became live.
    live_since: Option<Instant>,
    queried: Queried,
}

/// Queries of clients as last seen.
#[derive(Clone, Copy, Debug, Default)]
struct Queried {
    count: u64,
    /// When a query was last seen, or the process started.
    at: Option<Instant>,
}

impl Progress {
    /// Returns the time since the last query of a client. Before the first one, the time since the first call and [`RECENT_NS`]: a node that has
    /// just started would otherwise wake a queue that sleeps. `count`: all messages of clients so far; `open`: those without an
    /// answer.
    pub fn quiet(&mut self, count: u64, open: u64, now: Instant) -> Duration {
        let Queried { count: before, at } = self.queried;
        let is_queried = count != before || open > 0;
        let at = if is_queried {
            now
        } else {
            at.or_else(|| now.checked_sub(Duration::from_nanos(RECENT_NS))).unwrap_or(now)
        };
        self.queried = Queried { count, at: Some(at) };
        now.saturating_duration_since(at)
    }

    pub fn counters(&self) -> Counters {
        self.counters
    }

    pub fn catch_up(&self) -> Option<Duration> {
        self.catch_up
    }

    pub fn live_since(&self) -> Option<Instant> {
        self.live_since
    }

    /// An update was taken.
    pub fn took(&mut self) {
        self.counters.updates_taken = self.counters.updates_taken.saturating_add(1);
        self.resyncs_in_a_row = 0;
    }

    /// Counts a rejected update and returns their number.
    pub fn refused(&mut self) -> u64 {
        self.counters.updates_refused = self.counters.updates_refused.saturating_add(1);
        self.counters.updates_refused
    }

    /// Counts a window given back untouched.
    pub fn declined(&mut self) {
        self.counters.windows_declined = self.counters.windows_declined.saturating_add(1);
    }

    /// Counts an update that no node can take.
    pub fn left_out(&mut self) {
        self.counters.updates_left_out = self.counters.updates_left_out.saturating_add(1);
    }

    /// Counts a resume after contradicting messages. Returns whether resuming is hopeless, so that all rows must be dropped.
    pub fn resyncs(&mut self) -> bool {
        self.counters.resyncs = self.counters.resyncs.saturating_add(1);
        self.resyncs_in_a_row = self.resyncs_in_a_row.saturating_add(1);
        let is_hopeless = self.resyncs_in_a_row >= MAX_RESYNCS;
        if is_hopeless {
            self.resyncs_in_a_row = 0;
        }
        is_hopeless
    }

    /// Starts measuring the catch-up to this tip.
    pub fn follows(&mut self, tip: u64, now: Instant) {
        self.catching_up = Some((tip, now));
    }

    pub fn became_live(&mut self, now: Instant) {
        self.live_since = Some(now);
    }

    /// Ends the catch-up once the next update is at the tip.
    pub fn reached(&mut self, next: Option<u64>, now: Instant) {
        if let Some((tip, since)) = self.catching_up
            && next.is_some_and(|next| next >= tip)
        {
            self.catching_up = None;
            self.catch_up = Some(now.saturating_duration_since(since));
        }
    }

    /// Counts a connection that ended before update `at`; `is_first`: of its window; `unreadable`: why it cannot be received. Returns the
    /// number of such connections if the window must go to the next node. The first update of a window is left out instead: the node
    /// before could not receive it either.
    pub fn ended_at(&mut self, at: u64, is_first: bool, unreadable: Option<String>) -> Option<u32> {
        let stuck = match self.stuck.take().filter(|stuck| stuck.at == at) {
            Some(before) => {
                Stuck { times: before.times.saturating_add(1), unreadable: unreadable.or(before.unreadable), ..before }
            }
            None => Stuck { at, times: 1, unreadable },
        };
        let gives_up = stuck.is_over() && !(stuck.unreadable.is_some() && is_first);
        let times = stuck.times;
        self.stuck = Some(stuck).filter(|_| !(gives_up && is_first));
        if gives_up {
            self.counters.windows_given_up = self.counters.windows_given_up.saturating_add(1);
        }
        gives_up.then_some(times)
    }

    /// Returns why update `at` must be left out, and forgets it: several connections ended there.
    pub fn leaves_out(&mut self, at: u64) -> Option<String> {
        let is_it = |stuck: &mut Stuck| stuck.at == at && stuck.is_over() && stuck.unreadable.is_some();
        self.stuck.take_if(is_it)?.unreadable
    }

    /// Returns what decides on further behaviour as text, for the state fingerprint.
    pub fn shape(&self) -> String {
        format!("resyncs {} stuck {:?}", self.resyncs_in_a_row, self.stuck)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn over_a_limit() -> Option<String> {
        Some("limit".to_string())
    }

    #[test]
    fn a_window_goes_on_after_several_connections_that_ended_at_one_update() {
        let mut progress = Progress::default();
        let ends = (0..MAX_UNREADABLE).map(|_| progress.ended_at(7, false, over_a_limit()));
        assert_eq!(ends.collect::<Vec<_>>(), [None, None, Some(3)]);
        assert_eq!(progress.counters().windows_given_up, 1);
    }

    #[test]
    fn a_start_is_no_query_and_a_query_is_one_until_it_has_its_answer() {
        let (mut progress, start) = (Progress::default(), Instant::now());
        let recent = Duration::from_nanos(RECENT_NS);
        let mut quiet = |count, open, s| progress.quiet(count, open, start + Duration::from_secs(s)).as_secs();
        assert_eq!((quiet(0, 0, 0), quiet(0, 0, 5)), (recent.as_secs(), recent.as_secs() + 5));
        assert_eq!((quiet(1, 1, 6), quiet(1, 1, 9), quiet(1, 0, 11), quiet(2, 0, 12)), (0, 0, 2, 0));
    }

    #[test]
    fn connections_that_end_at_other_updates_are_progress() {
        let mut progress = Progress::default();
        assert!((0..100).all(|at| progress.ended_at(at, false, over_a_limit()).is_none()));
    }

    #[test]
    fn a_windows_first_update_is_left_out_only_if_it_cannot_be_received() {
        let mut progress = Progress::default();
        assert!((0..MAX_RESUMES - 1).all(|_| progress.ended_at(7, true, None).is_none()));
        assert_eq!(progress.ended_at(7, true, None), Some(MAX_RESUMES), "it may be receivable elsewhere");
        assert!((0..MAX_UNREADABLE).all(|_| progress.ended_at(7, true, over_a_limit()).is_none()));
        assert_eq!(progress.leaves_out(8), None);
        assert_eq!((progress.leaves_out(7), progress.leaves_out(7)), (over_a_limit(), None));
    }

    #[test]
    fn resumes_without_an_update_between_them_are_hopeless_after_a_few() {
        let mut progress = Progress::default();
        let resumes = [progress.resyncs(), progress.resyncs()];
        progress.took();
        let after = [progress.resyncs(), progress.resyncs(), progress.resyncs(), progress.resyncs()];
        assert_eq!((resumes, after), ([false; 2], [false, false, true, false]));
    }

    #[test]
    fn a_catch_up_is_measured_once_its_tip_is_reached() {
        let mut progress = Progress::default();
        progress.follows(9, Instant::now());
        progress.reached(Some(8), Instant::now());
        assert_eq!(progress.catch_up(), None);
        progress.reached(Some(9), Instant::now());
        assert!(progress.catch_up().is_some());
    }
}
