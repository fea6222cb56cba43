//! Logins that an identity service decides: OpenID Connect tokens and LDAP binds. All of it runs on threads of its own, because a server
//! may be slow or silent; what waits for it is bounded.

pub(super) mod dial;
mod fetch;
mod ldap;
mod tokens;

use crate::access::{ExternalError, ExternalLogin, Identity};
use crate::sys::stack;
use mio::Waker;
use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// LDAP logins at once; the others wait.
const BINDS: usize = 4;

/// Bounds of a request to an identity service.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bounds {
    /// Logins that may wait for each of the two services.
    pub waiting: usize,
    pub time: Duration,
    /// Length of an answer.
    pub bytes: usize,
}

impl Bounds {
    fn deadline(self) -> Instant {
        let now = Instant::now();
        now.checked_add(self.time).unwrap_or(now)
    }
}

/// What a service has decided.
pub(super) type Decision = Result<Identity, ExternalError>;

/// A login, with what the event loop knows it by.
struct Job<T, L> {
    ticket: T,
    login: L,
    reply: Reply<T>,
    _seat: Seat,
}

impl<T, L> Job<T, L> {
    /// Sends the decision; the loop may have ended meanwhile.
    fn decide(self, decision: Decision) {
        if self.reply.decisions.send((self.ticket, decision)).is_ok() {
            drop(self.reply.waker.wake());
        }
    }
}

struct Reply<T> {
    decisions: Sender<(T, Decision)>,
    waker: Arc<Waker>,
}

/// A place among the logins that wait, given back on drop.
struct Seat(Arc<AtomicUsize>);

impl Seat {
    fn take(taken: &Arc<AtomicUsize>, most: usize) -> Option<Seat> {
        let more = |count: usize| count.checked_add(1).filter(|count| *count <= most);
        taken.fetch_update(Ordering::SeqCst, Ordering::SeqCst, more).ok().map(|_| Seat(Arc::clone(taken)))
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Why a login was not taken.
pub(super) enum Rejected {
    /// Too many wait already.
    Full,
    /// The system has no thread left.
    NoThread,
}

/// Threads for logins that identity services decide. Each is started with the first login for it.
pub(super) struct Identities<T> {
    bounds: Bounds,
    waker: Arc<Waker>,
    tokens: Option<Sender<tokens::Event<T>>>,
    tokens_waiting: Arc<AtomicUsize>,
    binds: Option<Sender<ldap::Login<T>>>,
    binds_waiting: Arc<AtomicUsize>,
    decisions: Receiver<(T, Decision)>,
    decided: Sender<(T, Decision)>,
}

impl<T: Send + 'static> Identities<T> {
    pub(super) fn new(bounds: Bounds, waker: Arc<Waker>) -> Identities<T> {
        let (decided, decisions) = channel();
        Identities {
            bounds,
            waker,
            tokens: None,
            tokens_waiting: Arc::default(),
            binds: None,
            binds_waiting: Arc::default(),
            decisions,
            decided,
        }
    }

    /// Returns the next decision.
    pub(super) fn next(&self) -> Option<(T, Decision)> {
        self.decisions.try_recv().ok()
    }

    /// Hands a login to its service; [`Identities::next`] will return the decision.
    ///
    /// # Errors
    /// It was not taken.
    pub(super) fn submit(&mut self, ticket: T, login: ExternalLogin) -> Result<(), Rejected> {
        let reply = Reply { decisions: self.decided.clone(), waker: Arc::clone(&self.waker) };
        let most = self.bounds.waiting;
        match login {
            ExternalLogin::Token(login) => {
                let seat = Seat::take(&self.tokens_waiting, most).ok_or(Rejected::Full)?;
                let job = Job { ticket, login, reply, _seat: seat };
                let thread = self.tokens()?;
                thread.send(tokens::Event::Login(job, thread.clone())).map_err(|_| Rejected::NoThread)
            }
            ExternalLogin::Bind(login) => {
                let seat = Seat::take(&self.binds_waiting, most).ok_or(Rejected::Full)?;
                let job = Job { ticket, login, reply, _seat: seat };
                self.binds()?.send(job).map_err(|_| Rejected::NoThread)
            }
        }
    }

    fn tokens(&mut self) -> Result<&Sender<tokens::Event<T>>, Rejected> {
        let (slot, bounds) = (&mut self.tokens, self.bounds);
        started(slot, || tokens::start(bounds))
    }

    fn binds(&mut self) -> Result<&Sender<ldap::Login<T>>, Rejected> {
        let (slot, bounds) = (&mut self.binds, self.bounds);
        started(slot, || {
            let (jobs, todo) = channel();
            let todo = Arc::new(Mutex::new(todo));
            for number in 1..=BINDS {
                let todo = Arc::clone(&todo);
                stack::thread(format!("ldap-{number}")).spawn(move || work(&todo, bounds))?;
            }
            Ok(jobs)
        })
    }
}

fn started<S>(slot: &mut Option<S>, start: impl FnOnce() -> io::Result<S>) -> Result<&S, Rejected> {
    if slot.is_none() {
        let started = start().inspect_err(|error| tracing::error!(%error, "no thread for an identity service"));
        *slot = Some(started.map_err(|_| Rejected::NoThread)?);
    }
    slot.as_ref().ok_or(Rejected::NoThread)
}

/// Decides LDAP logins until there can be no more.
fn work<T>(todo: &Mutex<Receiver<ldap::Login<T>>>, bounds: Bounds) {
    loop {
        let next = todo.lock().unwrap_or_else(PoisonError::into_inner).recv();
        let Ok(job) = next else { return };
        let decision = ldap::decide(&job.login, bounds);
        job.decide(decision);
    }
}
