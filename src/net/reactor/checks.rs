//! Checks of user and password: the brake on guessing, the users file, and what is decided elsewhere: slow password hashes on a thread of
//! their own, tokens and LDAP logins on those of `net::identity`.

use crate::access::member::CLUSTER_USER;
use crate::access::{Access, Brake, Check, ExternalError, ExternalLogin, Grants, Verify};
use crate::config::Limit;
use crate::metrics::{self, Id};
use crate::net::identity::{Identities, Rejected};
use crate::net::tls::Certificate;
use crate::net::{ConnId, NetLimits, Peer};
use crate::sys::stack;
use mio::Waker;
use std::io;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, SyncSender, TrySendError, channel, sync_channel};
use std::time::Instant;

/// Why a login is rejected while its address or user is locked out.
pub(super) const LOCKED_OUT: &str = "too many wrong passwords; try again in a minute";

/// A login to check.
#[derive(Clone)]
pub(super) struct Attempt {
    pub conn: ConnId,
    pub ip: IpAddr,
    pub user: Vec<u8>,
}

/// Outcome of a check.
pub(super) enum Checked {
    Admitted(Arc<Grants>),
    /// Why not, for the log.
    Refused(&'static str),
    /// [`Checks::next`] will say.
    Later,
}

/// Checks the logins of a process.
pub(super) struct Checks {
    access: Box<dyn Access>,
    brake: Brake,
    /// Started with the first slow hash.
    thread: Option<Thread>,
    /// Logins that identity services decide.
    identities: Identities<Attempt>,
    waker: Arc<Waker>,
    /// Logins that may wait for the thread.
    most_waiting: usize,
}

/// The thread that computes hashes. It ends when its jobs do.
struct Thread {
    jobs: SyncSender<(Attempt, Verify)>,
    results: Receiver<(Attempt, Option<Arc<Grants>>)>,
}

impl Thread {
    fn start(most_waiting: usize, waker: Arc<Waker>) -> io::Result<Thread> {
        let (jobs, todo) = sync_channel(most_waiting);
        let (done, results) = channel();
        stack::thread("passwords".to_string()).spawn(move || verify(&todo, &done, &waker))?;
        Ok(Thread { jobs, results })
    }
}

fn verify(todo: &Receiver<(Attempt, Verify)>, done: &Sender<(Attempt, Option<Arc<Grants>>)>, waker: &Waker) {
    while let Ok((attempt, verify)) = todo.recv() {
        // The loop may have ended meanwhile.
        if done.send((attempt, verify.run())).is_err() || waker.wake().is_err() {
            return;
        }
    }
}

impl Checks {
    /// Starts to watch the users file, if there is one.
    ///
    /// # Errors
    /// The operating system's, if no thread can be started.
    pub fn new(mut access: Box<dyn Access>, waker: Arc<Waker>, limits: &NetLimits) -> io::Result<Checks> {
        let of_loop = Arc::clone(&waker);
        // An ended loop needs no wake-up.
        access.watch(Box::new(move || drop(of_loop.wake())))?;
        let identities = Identities::new(limits.identity, Arc::clone(&waker));
        Ok(Checks { access, brake: Brake::default(), thread: None, identities, waker, most_waiting: limits.logins })
    }

    /// Adopts a changed users file. Returns whether there was one: what open connections may do must be looked up again.
    pub fn reload(&mut self) -> bool {
        self.access.reload()
    }

    /// Returns what a user may do whose name was verified in another way.
    pub fn grants(&self, user: &[u8]) -> Option<Arc<Grants>> {
        self.access.grants(user)
    }

    /// Returns what the user of an open connection may do now.
    pub fn current(&self, peer: &Peer) -> Option<Arc<Grants>> {
        match &peer.grants.identity {
            Some(identity) => self.access.identified(identity).ok(),
            None => self.access.grants(&peer.user),
        }
    }

    /// Whether a token may be the password.
    pub fn takes_tokens(&self) -> bool {
        self.access.takes_tokens()
    }

    /// Returns the user of a verified certificate, with what the user may do. A client that names a user must name this one.
    pub fn certified(&self, certificate: &Certificate, named: &[u8]) -> Option<(Vec<u8>, Arc<Grants>)> {
        let users = certificate.names().filter_map(|name| self.access.of_certificate(name));
        let user = users.into_iter().find(|user| named.is_empty() || user == named)?;
        self.access.grants(&user).map(|grants| (user, grants))
    }

    /// Whether users are checked at all.
    pub fn is_checked(&self) -> bool {
        self.access.is_checked()
    }

    /// Checks a login.
    pub fn check(&mut self, attempt: &Attempt, password: &[u8], now: Instant) -> Checked {
        let check = self.access.check_from(&attempt.user, password, attempt.ip);
        // A token cannot be guessed, and many may share the name beside it: wrong ones lock out the address, not the user.
        let nameless = matches!(check, Check::External(ExternalLogin::Token(_)));
        let user = if nameless { Vec::new() } else { attempt.user.clone() };
        let attempt = &Attempt { user, ..attempt.clone() };
        if self.brake.wait(attempt.ip, &attempt.user, now).is_some() {
            metrics::count(Id::LoginsLockedOut);
            return Checked::Refused(LOCKED_OUT);
        }
        match check {
            Check::Admitted(grants) => self.admitted(attempt, grants, now),
            Check::Refused => self.refused(attempt, now),
            Check::Slow(verify) => self.submit(attempt, verify),
            Check::External(login) => self.submit_external(attempt, login),
        }
    }

    /// Returns the next login that another thread has decided.
    pub fn next(&mut self, now: Instant) -> Option<(ConnId, Checked)> {
        self.next_external(now).or_else(|| self.next_slow(now))
    }

    fn next_external(&mut self, now: Instant) -> Option<(ConnId, Checked)> {
        let (attempt, decision) = self.identities.next()?;
        let identified = decision.and_then(|identity| {
            // The users file may have changed meanwhile.
            self.access.identified(&Arc::new(identity)).map_err(ExternalError::Unavailable)
        });
        let checked = match identified {
            Ok(grants) => self.admitted(&attempt, grants, now),
            Err(ExternalError::Wrong(reason)) => {
                self.failed(&attempt, now);
                Checked::Refused(reason)
            }
            Err(ExternalError::Unavailable(reason)) => Checked::Refused(reason),
        };
        Some((attempt.conn, checked))
    }

    fn next_slow(&mut self, now: Instant) -> Option<(ConnId, Checked)> {
        let (attempt, grants) = self.thread.as_ref()?.results.try_recv().ok()?;
        let checked = match grants {
            Some(grants) => self.admitted(&attempt, grants, now),
            None => self.refused(&attempt, now),
        };
        Some((attempt.conn, checked))
    }

    fn admitted(&mut self, attempt: &Attempt, grants: Arc<Grants>, now: Instant) -> Checked {
        // A login without a password says nothing about who guesses.
        if attempt.user == CLUSTER_USER.as_bytes() {
            return Checked::Admitted(grants);
        }
        self.brake.succeeded(attempt.ip, &attempt.user, now);
        Checked::Admitted(grants)
    }

    fn refused(&mut self, attempt: &Attempt, now: Instant) -> Checked {
        self.failed(attempt, now);
        Checked::Refused("wrong user or password")
    }

    fn failed(&mut self, attempt: &Attempt, now: Instant) {
        let is_named = self.access.is_named(&attempt.user);
        self.brake.failed(attempt.ip, &attempt.user, is_named, now);
    }

    fn submit(&mut self, attempt: &Attempt, verify: Verify) -> Checked {
        if self.thread.is_none() {
            match Thread::start(self.most_waiting, Arc::clone(&self.waker)) {
                Ok(thread) => self.thread = Some(thread),
                Err(error) => {
                    tracing::error!(%error, "no thread to check passwords");
                    return Checked::Refused("the password cannot be checked");
                }
            }
        }
        let Some(thread) = &self.thread else { return Checked::Refused("the password cannot be checked") };
        match thread.jobs.try_send((attempt.clone(), verify)) {
            Ok(()) => Checked::Later,
            Err(TrySendError::Full(_)) => {
                metrics::refused(Limit::logins);
                Checked::Refused("too many logins at once (--limit-logins)")
            }
            Err(TrySendError::Disconnected(_)) => Checked::Refused("the password cannot be checked"),
        }
    }

    fn submit_external(&mut self, attempt: &Attempt, login: ExternalLogin) -> Checked {
        match self.identities.submit(attempt.clone(), login) {
            Ok(()) => Checked::Later,
            Err(Rejected::Full) => {
                metrics::refused(Limit::identity_logins);
                Checked::Refused("too many logins wait for an identity service (--limit-identity-logins)")
            }
            Err(Rejected::NoThread) => Checked::Refused("the password cannot be checked"),
        }
    }
}
