//! Queue of one kind of jobs, with a number of slots for those that run. Users take turns, and those with the fewest running jobs come first, so
//! that many jobs of one user do not make the others wait for all of them. The jobs of one user keep their order.

use crate::less;
use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

/// Jobs and slots. A thread takes a job if a slot is free; a job that waits for a client leaves its slot to others meanwhile.
///
/// Of the idle threads, the one that ran last is woken: the memory that it freed is mapped already, and its caches are warm.
pub struct JobQueue<J> {
    state: Mutex<State<J>>,
    slots: usize,
    waits_most: usize,
}

struct State<J> {
    /// Users with jobs that wait or run.
    users: HashMap<Vec<u8>, OfUser<J>>,
    /// Number of the next turn.
    next_turn: u64,
    /// Slots in use.
    running: usize,
    /// Jobs that have left their slot to wait.
    waiting: usize,
    /// Threads without a job, the one that ran last at the end.
    idle: Vec<Arc<Condvar>>,
    closed: bool,
}

/// Jobs of one user.
struct OfUser<J> {
    /// In the order in which they came.
    jobs: VecDeque<J>,
    /// Jobs that have begun and not ended.
    begun: usize,
    /// Place among the users with equally many begun jobs: drawn when the first job comes, and again when one is taken.
    turn: u64,
}

/// A job that waits without a slot, until it is dropped.
pub struct Away<'a, J>(&'a JobQueue<J>);

impl<J> JobQueue<J> {
    /// Up to `slots` jobs run, and `waits_most` more wait for a client.
    pub fn new(slots: usize, waits_most: usize) -> JobQueue<J> {
        let (users, idle) = (HashMap::new(), Vec::new());
        let state = State { users, next_turn: 0, running: 0, waiting: 0, idle, closed: false };
        JobQueue { state: Mutex::new(state), slots: slots.max(1), waits_most }
    }

    /// Threads that the jobs need.
    pub fn threads(&self) -> usize {
        self.slots.saturating_add(self.waits_most)
    }

    fn state(&self) -> MutexGuard<'_, State<J>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn push(&self, user: &[u8], job: J) {
        let mut state = self.state();
        state.push(user, job);
        state.wake(self.slots);
    }

    /// Removes the waiting jobs that `is_it` picks, in the order of each user.
    pub fn withdraw(&self, is_it: impl Fn(&J) -> bool) -> Vec<J> {
        let mut withdrawn = Vec::new();
        self.state().users.retain(|_, of_user| {
            for job in std::mem::take(&mut of_user.jobs) {
                if is_it(&job) { withdrawn.push(job) } else { of_user.jobs.push_back(job) }
            }
            of_user.begun > 0 || !of_user.jobs.is_empty()
        });
        withdrawn
    }

    /// Waits for a job and a slot; `None` once the queue is closed. [`JobQueue::done`] frees the slot. Returns the job with its user.
    pub fn next(&self) -> Option<(Vec<u8>, J)> {
        let mut state = self.state();
        let mut bell = None;
        loop {
            if state.closed {
                return None;
            }
            if let Some(taken) = state.take(self.slots) {
                return Some(taken);
            }
            let bell = bell.get_or_insert_with(Arc::default);
            state.idle.push(Arc::clone(bell));
            state = bell.wait(state).unwrap_or_else(PoisonError::into_inner);
            // A thread may wake without a call.
            state.idle.retain(|other| !Arc::ptr_eq(other, bell));
        }
    }

    /// As [`JobQueue::next`], without waiting.
    pub fn try_next(&self) -> Option<(Vec<u8>, J)> {
        self.state().take(self.slots)
    }

    /// Whether no job waits for a slot.
    pub fn is_empty(&self) -> bool {
        !self.state().has_jobs()
    }

    /// Frees the slot of a user's job.
    pub fn done(&self, user: &[u8]) {
        let mut state = self.state();
        state.running = less!(state.running, 1);
        if let Some(of_user) = state.users.get_mut(user) {
            of_user.begun = less!(of_user.begun, 1);
            if of_user.begun == 0 && of_user.jobs.is_empty() {
                state.users.remove(user);
            }
        }
        state.wake(self.slots);
    }

    /// Leaves a job's slot to others while it waits for a client; `None` if too many wait.
    pub fn away(&self) -> Option<Away<'_, J>> {
        let mut state = self.state();
        if state.waiting >= self.waits_most {
            return None;
        }
        state.waiting = state.waiting.saturating_add(1);
        state.running = less!(state.running, 1);
        state.wake(self.slots);
        drop(state);
        Some(Away(self))
    }

    /// Ends the threads after their current jobs.
    pub fn close(&self) {
        let mut state = self.state();
        state.closed = true;
        state.idle.drain(..).for_each(|bell| bell.notify_one());
    }
}

impl<J> State<J> {
    /// Whether a job waits for a slot.
    fn has_jobs(&self) -> bool {
        self.users.values().any(|user| !user.jobs.is_empty())
    }

    /// Wakes an idle thread if there is a job that it can take.
    fn wake(&mut self, slots: usize) {
        if self.running < slots
            && self.has_jobs()
            && let Some(bell) = self.idle.pop()
        {
            bell.notify_one();
        }
    }

    fn turn(&mut self) -> u64 {
        let turn = self.next_turn;
        self.next_turn = turn.saturating_add(1);
        turn
    }

    fn push(&mut self, user: &[u8], job: J) {
        let turn = self.turn();
        let new = || OfUser { jobs: VecDeque::new(), begun: 0, turn };
        let of_user = self.users.entry(user.to_vec()).or_insert_with(new);
        if of_user.jobs.is_empty() {
            of_user.turn = turn;
        }
        of_user.jobs.push_back(job);
    }

    /// Takes the first job of the user whose turn it is, if a slot is free.
    fn take(&mut self, slots: usize) -> Option<(Vec<u8>, J)> {
        if self.running >= slots {
            return None;
        }
        let turn = self.turn();
        let wanting = self.users.iter_mut().filter(|(_, of_user)| !of_user.jobs.is_empty());
        let (user, of_user) = wanting.min_by_key(|(_, of_user)| (of_user.begun, of_user.turn))?;
        let job = of_user.jobs.pop_front()?;
        (of_user.begun, of_user.turn) = (of_user.begun.saturating_add(1), turn);
        self.running = self.running.saturating_add(1);
        Some((user.clone(), job))
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
        (0..3).for_each(|job| queue.push(b"ann", job));
        let next = || queue.next().map(|(_, job)| job);
        assert_eq!(next(), Some(0));
        let away = queue.away();
        assert!(away.is_some() && queue.away().is_none());
        assert_eq!(next(), Some(1), "another thread takes it");
        drop(away);
        // Both run now, and the next one waits for both.
        queue.done(b"ann");
        queue.done(b"ann");
        assert_eq!(next(), Some(2));
        queue.close();
        assert_eq!(next(), None);
    }

    #[test]
    fn the_jobs_of_one_user_do_not_keep_the_others_waiting() {
        let queue = JobQueue::new(2, 0);
        (0..9).for_each(|job| queue.push(b"bob", job));
        let next = || queue.next().map(|(_, job)| job);
        assert_eq!((next(), next()), (Some(0), Some(1)), "bob has all slots while nobody else wants one");
        queue.push(b"ann", 100);
        queue.push(b"ann", 101);
        queue.done(b"bob");
        assert_eq!(next(), Some(100));
        queue.done(b"bob");
        assert_eq!(next(), Some(2), "each has one");
        queue.done(b"ann");
        assert_eq!(next(), Some(101));
        queue.done(b"ann");
        assert_eq!(next(), Some(3), "in the order in which they came");
        queue.done(b"bob");
        queue.done(b"bob");
        let rest: Vec<i32> = std::iter::from_fn(|| queue.try_next()).map(|(_, job)| job).collect();
        assert_eq!(rest, [4, 5], "both slots");
        (0..2).for_each(|_| queue.done(b"bob"));
        while let Some((user, _)) = queue.try_next() {
            queue.done(&user);
        }
        assert!(queue.is_empty() && queue.state().users.is_empty());
    }

    #[test]
    fn withdrawn_jobs_leave_the_others_in_order() {
        let queue = JobQueue::new(1, 0);
        (0..6).for_each(|job| queue.push(if job == 3 { b"ann" } else { b"bob" }, job));
        assert_eq!(queue.withdraw(|job| job % 2 == 1).len(), 3);
        assert!(!queue.state().users.contains_key(&b"ann"[..]), "a user without jobs leaves nothing behind");
        let rest: Vec<i32> =
            std::iter::from_fn(|| queue.try_next().inspect(|(user, _)| queue.done(user))).map(|(_, job)| job).collect();
        assert_eq!(rest, [0, 2, 4]);
        assert!(queue.is_empty());
    }

    #[test]
    fn jobs_one_after_the_other_run_on_one_thread() {
        let queue = JobQueue::new(1, 3);
        let (sender, ran) = std::sync::mpsc::channel();
        let idle = |count| {
            while queue.state().idle.len() < count {
                std::thread::yield_now();
            }
        };
        std::thread::scope(|scope| {
            for _ in 0..queue.threads() {
                scope.spawn(|| {
                    while let Some((user, ())) = queue.next() {
                        queue.done(&user);
                        sender.send(std::thread::current().id()).expect("the test receives");
                    }
                });
            }
            let threads: Vec<_> = (0..20)
                .map(|_| {
                    idle(queue.threads());
                    queue.push(b"ann", ());
                    ran.recv().expect("a thread ran it")
                })
                .collect();
            queue.close();
            assert!(threads.iter().all(|thread| *thread == threads[0]), "{threads:?}");
        });
    }

    #[test]
    fn one_slot_goes_from_user_to_user() {
        let queue = JobQueue::new(1, 0);
        (0..3).for_each(|job| queue.push(b"bob", job));
        let turn = || {
            let (user, job) = queue.try_next().expect("a job");
            assert!(queue.try_next().is_none(), "the slot is taken");
            queue.done(&user);
            job
        };
        assert_eq!(turn(), 0);
        queue.push(b"ann", 100);
        assert_eq!(turn(), 1, "bob's job came first");
        assert_eq!(turn(), 100);
        // Users that come again and again do not starve a user that waits.
        queue.push(b"ann", 101);
        queue.push(b"cy", 200);
        assert_eq!((turn(), turn(), turn()), (2, 101, 200));
    }
}
