//! Makes the calls of a store on a thread of its own, because a call may hang longer than its deadline.

use super::input::{Answer, Input, Job};
use super::store::Store;
use crate::env::task::{Due, Task};
use crate::sys::clock::Clock;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender};
use std::time::Duration;

/// The thread's task.
pub(super) struct Caller {
    store: Box<dyn Store>,
    clock: Arc<dyn Clock>,
    jobs: Receiver<Job>,
    job: Option<Job>,
    answers: Sender<Input>,
}

impl Caller {
    pub fn new(store: Box<dyn Store>, clock: Arc<dyn Clock>, jobs: Receiver<Job>, answers: Sender<Input>) -> Caller {
        Caller { store, clock, jobs, job: None, answers }
    }
}

impl Task for Caller {
    fn wait(&mut self) -> bool {
        self.job = self.jobs.recv().ok();
        self.job.is_some()
    }

    fn due(&mut self) -> Due {
        if self.job.is_some() { Due::Now } else { Due::Later }
    }

    fn work(&mut self) {
        let Some(Job { number, write, until_ns }) = self.job.take() else { return };
        let now_ns = u64::try_from(self.clock.since_boot().as_nanos()).unwrap_or(u64::MAX);
        // The call before it hung: the core has counted this one as unanswered.
        let Some(left_ns) = until_ns.checked_sub(now_ns).filter(|left| *left > 0) else { return };
        let within = Duration::from_nanos(left_ns);
        let answer = match &write {
            None => Answer::Read(self.store.read(within)),
            Some(write) => Answer::Wrote(self.store.write(write, within)),
        };
        // The driver may have ended.
        let _ = self.answers.send(Input::Answer(number, answer));
    }
}
