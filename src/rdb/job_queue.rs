//! Queue of one kind of jobs, with a number of slots for those that run.

use crate::less;
use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// Jobs and slots. A thread takes a job if a slot is free; a job that waits for a client leaves its slot to others meanwhile.
pub struct JobQueue<J> {
    state: Mutex<State<J>>,
    changed: Condvar,
    slots: usize,
    waits_most: usize,
}

struct State<J> {
    jobs: VecDeque<J>,
    /// Slots in use.
    running: usize,
    /// Jobs that have left their slot to wait.
    waiting: usize,
    closed: bool,
}

/// A job that waits without a slot, until it is dropped.
pub struct Away<'a, J>(&'a JobQueue<J>);

impl<J> JobQueue<J> {
    /// Up to `slots` jobs run, and `waits_most` more wait for a client.
    pub fn new(slots: usize, waits_most: usize) -> JobQueue<J> {
        let state = State { jobs: VecDeque::new(), running: 0, waiting: 0, closed: false };
        JobQueue { state: Mutex::new(state), changed: Condvar::new(), slots: slots.max(1), waits_most }
    }

    /// Threads that the jobs need.
    pub fn threads(&self) -> usize {
        self.slots.saturating_add(self.waits_most)
    }

    fn state(&self) -> MutexGuard<'_, State<J>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn push(&self, job: J) {
        self.state().jobs.push_back(job);
        self.changed.notify_one();
    }

    /// Waits for a job and a slot; `None` once the queue is closed. [`JobQueue::done`] frees the slot.
    pub fn next(&self) -> Option<J> {
        let mut state = self.state();
        loop {
            if state.closed {
                return None;
            }
            if state.running < self.slots
                && let Some(job) = state.jobs.pop_front()
            {
                state.running = state.running.saturating_add(1);
                return Some(job);
            }
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Frees the slot of a job.
    pub fn done(&self) {
        let mut state = self.state();
        state.running = less!(state.running, 1);
        drop(state);
        self.changed.notify_one();
    }

    /// Leaves a job's slot to others while it waits for a client; `None` if too many wait.
    pub fn away(&self) -> Option<Away<'_, J>> {
        let mut state = self.state();
        if state.waiting >= self.waits_most {
            return None;
        }
        state.waiting = state.waiting.saturating_add(1);
        state.running = less!(state.running, 1);
        drop(state);
        self.changed.notify_one();
        Some(Away(self))
    }

    /// Ends the threads after their current jobs.
    pub fn close(&self) {
        self.state().closed = true;
        self.changed.notify_all();
    }
}

impl<J> Drop for Away<'_, J> {
    fn drop(&mut self) {
        let mut state = self.0.state();
        state.waiting = less!(state.waiting, 1);
        // It goes on at once, even above the number of slots: it has waited already.
        state.running = state.running.saturating_add(1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_job_that_waits_for_a_client_leaves_its_slot_to_the_next() {
        let queue = JobQueue::new(1, 1);
        (0..3).for_each(|job| queue.push(job));
        assert_eq!(queue.next(), Some(0));
        let away = queue.away();
        assert!(away.is_some() && queue.away().is_none());
        assert_eq!(queue.next(), Some(1), "another thread takes it");
        drop(away);
        // Both run now, and the next one waits for both.
        queue.done();
        queue.done();
        assert_eq!(queue.next(), Some(2));
        queue.close();
        assert_eq!(queue.next(), None);
    }
}
