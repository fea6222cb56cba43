//! Threads for the steps of TLS handshakes: a signature costs a millisecond, which the event loop must not spend.

use crate::net::ConnId;
use crate::sys::stack;
use mio::Waker;
use rustix::process::setpriority_process;
use rustix::thread::gettid;
use rustls::ServerConnection;
use std::io;
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};

/// Threads: two, so that one costly handshake does not delay all others.
const THREADS: usize = 2;

/// Their `nice` value.
const NICE: i32 = 5;

/// State of a handshake and the bytes received for it.
#[derive(Debug)]
pub(in crate::net) struct Step {
    pub(super) tls: Box<ServerConnection>,
    pub(super) raw: Vec<u8>,
}

/// A step of one connection's handshake, and its outcome once it is done.
#[derive(Debug)]
pub(in crate::net) struct Job {
    pub(in crate::net) conn: ConnId,
    pub(super) step: Step,
    pub(super) outcome: Result<(), rustls::Error>,
}

/// The handshake threads, which end when this is dropped.
pub(in crate::net) struct Handshakes {
    jobs: SyncSender<Job>,
    done: Receiver<Job>,
}

impl Handshakes {
    /// Starts the threads. At most `most` steps wait for them; each one done wakes the loop.
    ///
    /// # Errors
    /// The operating system's, if no thread can be started.
    pub(in crate::net) fn start(waker: &Arc<Waker>, most: usize) -> io::Result<Handshakes> {
        let (jobs, waiting) = sync_channel::<Job>(most);
        let (finished, done) = channel();
        let waiting = Arc::new(Mutex::new(waiting));
        for number in 1..=THREADS {
            let (waiting, finished, waker) = (Arc::clone(&waiting), finished.clone(), Arc::clone(waker));
            stack::thread(format!("tls-{number}")).spawn(move || work(&waiting, &finished, &waker))?;
        }
        Ok(Handshakes { jobs, done })
    }

    /// Queues a step. Returns it if too many wait.
    pub(in crate::net) fn submit(&self, conn: ConnId, step: Step) -> Result<(), Step> {
        let job = Job { conn, step, outcome: Ok(()) };
        self.jobs.try_send(job).map_err(|error| match error {
            std::sync::mpsc::TrySendError::Full(job) | std::sync::mpsc::TrySendError::Disconnected(job) => job.step,
        })
    }

    /// Returns a step that is done.
    pub(in crate::net) fn done(&self) -> Option<Job> {
        self.done.try_recv().ok()
    }
}

fn work(waiting: &Mutex<Receiver<Job>>, finished: &Sender<Job>, waker: &Waker) {
    // A crowd of handshakes must not take the CPU from the event loop.
    if let Err(error) = setpriority_process(Some(gettid()), NICE) {
        tracing::debug!(%error, "cannot lower the priority of a handshake thread");
    }
    loop {
        // The lock is held while waiting: the other thread then waits for the lock instead of the channel.
        let next = waiting.lock().unwrap_or_else(PoisonError::into_inner).recv();
        let Ok(mut job) = next else { return };
        job.outcome = advance(&mut job.step);
        if finished.send(job).is_err() {
            return;
        }
        // An ended loop needs no wake-up.
        let _ = waker.wake();
    }
}

/// Processes the received bytes until they, or the handshake, end.
pub(super) fn advance(step: &mut Step) -> Result<(), rustls::Error> {
    let mut used = 0usize;
    let outcome = loop {
        let mut rest = step.raw.get(used..).unwrap_or_default();
        if rest.is_empty() || !step.tls.is_handshaking() {
            break Ok(());
        }
        match step.tls.read_tls(&mut rest) {
            // After an end of the stream it takes no more bytes.
            Ok(0) => break Err(rustls::Error::General("the other side ended the handshake".to_string())),
            Ok(read) => used = used.saturating_add(read),
            Err(error) => break Err(rustls::Error::General(error.to_string())),
        }
        if let Err(error) = step.tls.process_new_packets() {
            break Err(error);
        }
    };
    step.raw.drain(..used);
    outcome
}
