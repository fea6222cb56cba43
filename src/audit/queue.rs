//! Records on their way to the file.

use super::AuditOptions;
use super::record::Entry;
use super::show::Showing;
use crate::config::{Limit, Limits};
use crate::less;
use crate::metrics::{self, Id};
use crate::q::QError;
use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Time for the last records to be written when the process ends.
const LAST_WRITES: Duration = Duration::from_secs(5);

/// The queue between the threads that execute calls and the one that writes.
pub(super) struct Queue {
    state: Mutex<State>,
    changed: Condvar,
    /// Signalled when the writer has ended.
    ended: Condvar,
    pub(super) showing: Showing,
    most: usize,
    is_required: bool,
}

#[derive(Default)]
struct State {
    entries: VecDeque<Entry>,
    /// Calls in execution, whose records will follow.
    open: usize,
    /// Records dropped since the last one was queued.
    missing: u64,
    /// Why the last write failed.
    trouble: Option<String>,
    is_closing: bool,
    has_ended: bool,
}

/// What the writer is to do.
pub(super) enum Next {
    /// Write these records, which stay in the queue until [`Queue::written`].
    Write(Vec<Entry>),
    /// Look at the file.
    Idle,
    /// The process ends.
    End,
}

impl Queue {
    pub(super) fn new(options: &AuditOptions, limits: &Limits) -> Queue {
        Queue {
            state: Mutex::default(),
            changed: Condvar::new(),
            ended: Condvar::new(),
            showing: Showing::new(options.queries, limits),
            most: usize::try_from(limits.audit_queue).unwrap_or(usize::MAX).max(1),
            is_required: options.is_required,
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Keeps room for the record of a call.
    pub(super) fn reserve(&self) -> Result<(), QError> {
        let mut state = self.state();
        self.admitted(&state)?;
        state.open = state.open.saturating_add(1);
        Ok(())
    }

    pub(super) fn admits(&self) -> Result<(), QError> {
        self.admitted(&self.state())
    }

    fn admitted(&self, state: &State) -> Result<(), QError> {
        if !self.is_required {
            return Ok(());
        }
        if let Some(trouble) = &state.trouble {
            return Err(QError::with("access", format!("{trouble} (--audit-required)")));
        }
        if self.is_full(state, self.most) {
            metrics::refused(Limit::audit_queue);
            let most = self.most;
            let why = format!("{most} records wait for the audit log (--limit-audit-queue, --audit-required)");
            return Err(QError::with("limit", why));
        }
        Ok(())
    }

    fn is_full(&self, state: &State, most: usize) -> bool {
        state.entries.len().saturating_add(if self.is_required { state.open } else { 0 }) >= most
    }

    /// Queues a record, or drops and counts it.
    pub(super) fn push(&self, entry: Entry) {
        let mut state = self.state();
        // Rejected logins, which anybody can cause, leave room for calls that must be recorded.
        let most = if self.is_required { self.most.div_ceil(2) } else { self.most };
        if self.is_full(&state, most) {
            state.missing = state.missing.saturating_add(1);
            metrics::refused(Limit::audit_queue);
            metrics::count(Id::AuditMissing);
            return;
        }
        self.add(state, entry);
    }

    /// As [`Queue::push`], where records are required also over the limit.
    pub(super) fn push_admitted(&self, entry: Entry) {
        match self.is_required {
            true => self.push_anyway(entry),
            false => self.push(entry),
        }
    }

    pub(super) fn is_congested(&self) -> bool {
        let state = self.state();
        state.trouble.is_some() || self.is_full(&state, self.most)
    }

    pub(super) fn push_anyway(&self, entry: Entry) {
        self.add(self.state(), entry);
    }

    fn add(&self, mut state: MutexGuard<'_, State>, mut entry: Entry) {
        // A client chooses the text of its error.
        self.showing.cut_error(&mut entry.error);
        entry.missing = Some(std::mem::take(&mut state.missing)).filter(|missing| *missing > 0);
        state.entries.push_back(entry);
        drop(state);
        self.changed.notify_one();
    }

    /// Queues the record of a call that has ended.
    fn end(&self, entry: Entry) {
        let mut state = self.state();
        state.open = less!(state.open, 1);
        drop(state);
        self.push_admitted(entry);
    }

    pub(super) fn waiting(&self) -> u64 {
        self.state().entries.len() as u64
    }

    pub(super) fn trouble(&self) -> Option<String> {
        self.state().trouble.clone()
    }

    /// Waits for records, at most `idle`. Returns up to `most` of them.
    pub(super) fn next(&self, most: usize, idle: Duration) -> Next {
        let mut state = self.state();
        if state.entries.is_empty() && !state.is_closing {
            (state, _) = self.changed.wait_timeout(state, idle).unwrap_or_else(PoisonError::into_inner);
        }
        match (state.entries.is_empty(), state.is_closing) {
            (false, _) => Next::Write(state.entries.iter().take(most).cloned().collect()),
            (true, true) => Next::End,
            (true, false) => Next::Idle,
        }
    }

    /// Removes records that are in the file.
    pub(super) fn written(&self, count: usize) {
        let mut state = self.state();
        let count = count.min(state.entries.len());
        state.entries.drain(..count);
        state.trouble = None;
    }

    /// The file was looked at and is there.
    pub(super) fn is_well(&self) {
        self.state().trouble = None;
    }

    /// Records that the file cannot be written. Returns whether it could before.
    pub(super) fn failed(&self, trouble: String) -> bool {
        let mut state = self.state();
        let is_first = state.trouble.is_none();
        state.trouble = Some(trouble);
        is_first
    }

    /// Waits before the next attempt to write. Returns false if the process ends.
    pub(super) fn pause(&self, time: Duration) -> bool {
        let by = Instant::now().checked_add(time);
        let mut state = self.state();
        while !state.is_closing {
            let left = by.map_or(Duration::ZERO, |by| by.saturating_duration_since(Instant::now()));
            if left.is_zero() {
                return true;
            }
            // New records wake it as well.
            (state, _) = self.changed.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner);
        }
        false
    }

    /// The writer has ended.
    pub(super) fn end_of_writer(&self) {
        self.state().has_ended = true;
        self.ended.notify_all();
    }

    pub(super) fn close(&self) {
        let by = Instant::now().checked_add(LAST_WRITES);
        let mut state = self.state();
        state.is_closing = true;
        self.changed.notify_all();
        while !state.has_ended {
            let left = by.map_or(Duration::ZERO, |by| by.saturating_duration_since(Instant::now()));
            if left.is_zero() {
                break;
            }
            (state, _) = self.ended.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner);
        }
        let lost = state.entries.len() as u64;
        if lost > 0 {
            tracing::error!(records = lost, "the audit log lacks its last records: they could not be written");
        }
    }
}

/// A call in execution. Its record is written when the ticket ends, also if it is dropped because the client is gone.
pub struct Ticket {
    queue: Arc<Queue>,
    /// Taken by the end.
    entry: Option<Entry>,
    begun: Instant,
}

impl Ticket {
    pub(super) fn new(queue: Arc<Queue>, entry: Entry) -> Ticket {
        Ticket { queue, entry: Some(entry), begun: Instant::now() }
    }

    /// How queries are recorded.
    pub fn showing(&self) -> Showing {
        self.queue.showing
    }

    /// Changes the record.
    pub fn edit(&mut self, edit: impl FnOnce(&mut Entry)) {
        if let Some(entry) = &mut self.entry {
            edit(entry);
        }
    }

    /// Records the result: the error if the call failed, and the bytes of the response.
    pub fn end(mut self, error: Option<String>, bytes_out: usize) {
        self.finish(error.unwrap_or_default(), Some(bytes_out as u64));
    }

    fn finish(&mut self, error: String, bytes_out: Option<u64>) {
        if let Some(mut entry) = self.entry.take() {
            let duration = self.begun.elapsed().as_nanos();
            entry.duration_ns = Some(u64::try_from(duration).unwrap_or(u64::MAX));
            (entry.error, entry.bytes_out) = (error, bytes_out);
            self.queue.end(entry);
        }
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        self.finish("given up: the client or the process is gone".to_string(), None);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::audit::{Call, Who};
    use crate::config::AuditQueries;

    fn queue(most: u64, is_required: bool) -> Arc<Queue> {
        let options =
            AuditOptions { path: "unused".into(), queries: AuditQueries::Text, max_bytes: 0, keep: 0, is_required };
        Arc::new(Queue::new(&options, &Limits { audit_queue: most, ..Limits::default() }))
    }

    fn entry(name: &'static str) -> Entry {
        Entry::new(Who::default(), Call::named(name))
    }

    fn taken(queue: &Queue) -> Vec<(String, Option<u64>)> {
        match queue.next(100, Duration::ZERO) {
            Next::Write(entries) => {
                queue.written(entries.len());
                entries.into_iter().map(|entry| (entry.call.name.into_owned(), entry.missing)).collect()
            }
            _ => Vec::new(),
        }
    }

    #[test]
    fn a_full_queue_drops_and_says_how_many() {
        let queue = queue(2, false);
        ["a", "b", "c", "d"].into_iter().for_each(|name| queue.push(entry(name)));
        queue.reserve().expect("never refused");
        Ticket::new(Arc::clone(&queue), entry("e")).end(None, 0);
        assert_eq!(taken(&queue), [("a".to_string(), None), ("b".to_string(), None)]);
        queue.push(entry("f"));
        assert_eq!(taken(&queue), [("f".to_string(), Some(3))]);
    }

    #[test]
    fn what_is_required_is_refused_before_it_is_executed() {
        let queue = queue(2, true);
        let begin = || queue.reserve().map(|()| Ticket::new(Arc::clone(&queue), entry("call")));
        let (first, second) = (begin().expect("room"), begin().expect("room"));
        assert!(begin().is_err_and(|error| error.to_string().contains("--limit-audit-queue")));
        first.end(None, 1);
        assert!(begin().is_err(), "the record waits");
        drop(second);
        assert_eq!(taken(&queue).len(), 2);
        assert!(begin().is_ok());
    }

    #[test]
    fn rejected_logins_displace_no_accepted_one_where_records_are_required() {
        let queue = queue(4, true);
        (0..9).for_each(|_| queue.push(entry("rejected")));
        queue.admits().expect("room");
        queue.push_admitted(entry("login"));
        let kept: Vec<String> = taken(&queue).into_iter().map(|(name, _)| name).collect();
        assert_eq!(kept, ["rejected", "rejected", "login"]);
    }

    #[test]
    fn the_queue_has_its_limit_for_sums_too() {
        let queue = queue(4, false);
        (0..9).for_each(|_| queue.push_admitted(entry(".u.upd")));
        assert!(queue.is_congested());
        assert_eq!(taken(&queue).len(), 4);
        assert!(!queue.is_congested());
        queue.failed("no space".to_string());
        assert!(queue.is_congested(), "sums wait where they are");
    }

    #[test]
    fn a_failed_write_refuses_what_is_required_until_it_succeeds() {
        for (is_required, refused) in [(true, true), (false, false)] {
            let queue = queue(10, is_required);
            queue.push(entry("kept"));
            assert!(queue.failed("no space".to_string()) && !queue.failed("no space".to_string()));
            assert_eq!(queue.admits().is_err(), refused);
            assert_eq!(taken(&queue).len(), 1);
            assert!(queue.admits().is_ok() && queue.trouble().is_none());
        }
    }
}
