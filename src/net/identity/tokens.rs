//! The thread that verifies tokens. It never waits for the issuer: another thread fetches keys, and only the logins that need them wait.

use super::{Bounds, Decision, Job, fetch};
use crate::access::oidc::{KeySource, Keys, Oidc, SignatureError, Token};
use crate::access::{ExternalError, Identity, TokenLogin};
use crate::config::Limit;
use crate::metrics::{self, Id};
use crate::sys::stack;
use std::io;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

const NO_KEYS: &str = "the issuer's keys cannot be read; see the log";

pub(super) enum Event<T> {
    /// With the way back for the keys that it may need: a sender that the thread kept would keep the thread.
    Login(Job<T, TokenLogin>, Sender<Event<T>>),
    /// What a request for keys has brought.
    Keys(KeySource, Result<Keys, String>, Sender<Event<T>>),
}

/// Starts the thread, and the one that fetches keys. Both end when nobody sends logins.
///
/// # Errors
/// The system's, if it has no thread left.
pub(super) fn start<T: Send + 'static>(bounds: Bounds) -> io::Result<Sender<Event<T>>> {
    let (events, happened) = channel();
    let (requests, wanted) = channel::<(KeySource, Sender<Event<T>>)>();
    stack::thread("oidc-keys".to_string()).spawn(move || {
        for (source, reply) in wanted {
            let keys = fetch::keys(&source, bounds);
            // The other thread may have ended.
            let back = reply.clone();
            drop(reply.send(Event::Keys(source, keys, back)));
        }
    })?;
    stack::thread("oidc".to_string()).spawn(move || {
        let strangers_most = (bounds.waiting / 2).max(1);
        let verifier =
            Verifier { cached: None, waiting: Vec::new(), strangers_most, fetching: None, tried: None, requests };
        verifier.run(&happened);
    })?;
    Ok(events)
}

/// An issuer's keys, as last read.
struct Cached {
    source: KeySource,
    keys: Keys,
    read: Instant,
}

struct Verifier<T> {
    cached: Option<Cached>,
    /// Logins that wait for the keys being fetched.
    waiting: Vec<Job<T, TokenLogin>>,
    /// Logins that may wait although there are keys. Anybody can send tokens that name another one, and they must leave room for those whose
    /// key is there.
    strangers_most: usize,
    fetching: Option<KeySource>,
    /// The last request for keys, and when it ended.
    tried: Option<(KeySource, Instant)>,
    requests: Sender<(KeySource, Sender<Event<T>>)>,
}

/// Outcome of a look at a token.
enum Looked {
    Decided(Decision),
    /// Without newer keys it is rejected for this reason.
    NeedsKeys(ExternalError),
}

impl<T: Send + 'static> Verifier<T> {
    fn run(mut self, happened: &Receiver<Event<T>>) {
        while let Ok(event) = happened.recv() {
            match event {
                Event::Login(job, events) => self.login(job, Some(&events)),
                Event::Keys(source, keys, events) => self.fetched(source, keys, &events),
            }
        }
    }

    /// Decides a login, or lets it wait for keys; without a way back for those it is decided with what there is.
    fn login(&mut self, job: Job<T, TokenLogin>, events: Option<&Sender<Event<T>>>) {
        let oidc = &job.login.oidc;
        let looked = look(&job.login, self.keys(oidc));
        let is_old = self.age(&oidc.source).is_none_or(|age| age >= oidc.keys_lifetime / 2);
        let needs = is_old || matches!(looked, Looked::NeedsKeys(_));
        let comes = events.is_some_and(|events| needs && self.request(oidc, events));
        match looked {
            Looked::Decided(decision) => job.decide(decision),
            Looked::NeedsKeys(ExternalError::Wrong(_)) if comes && self.waiting.len() >= self.strangers_most => {
                metrics::refused(Limit::identity_logins);
                job.decide(Err(ExternalError::Unavailable(
                    "too many tokens with unknown keys wait for new ones (--limit-identity-logins)",
                )));
            }
            Looked::NeedsKeys(_) if comes => self.waiting.push(job),
            Looked::NeedsKeys(error) => job.decide(Err(error)),
        }
    }

    fn age(&self, source: &KeySource) -> Option<Duration> {
        self.cached.as_ref().filter(|cached| cached.source == *source).map(|cached| cached.read.elapsed())
    }

    fn keys(&self, oidc: &Oidc) -> Option<&Keys> {
        let is_current = |cached: &&Cached| cached.source == oidc.source && cached.read.elapsed() < oidc.keys_lifetime;
        self.cached.as_ref().filter(is_current).map(|cached| &cached.keys)
    }

    /// Requests keys, unless that was done a moment ago. Returns whether keys of this source will come.
    fn request(&mut self, oidc: &Oidc, events: &Sender<Event<T>>) -> bool {
        let source = &oidc.source;
        if let Some(fetching) = &self.fetching {
            return fetching == source;
        }
        if self.tried.as_ref().is_some_and(|(tried, at)| tried == source && at.elapsed() < oidc.keys_refetch) {
            return false;
        }
        let is_sent = self.requests.send((source.clone(), events.clone())).is_ok();
        self.fetching = is_sent.then(|| source.clone());
        is_sent
    }

    fn fetched(&mut self, source: KeySource, keys: Result<Keys, String>, events: &Sender<Event<T>>) {
        self.fetching = None;
        self.tried = Some((source.clone(), Instant::now()));
        match keys {
            Ok(keys) => self.cached = Some(Cached { source, keys, read: Instant::now() }),
            Err(error) => {
                metrics::count(Id::IdentityFailures);
                tracing::error!(?source, error, "the public keys of the OpenID Connect issuer cannot be read");
            }
        }
        for job in std::mem::take(&mut self.waiting) {
            // After a change of the users file it may need another issuer's keys.
            let is_answered = self.tried.as_ref().is_some_and(|(tried, _)| *tried == job.login.oidc.source);
            self.login(job, (!is_answered).then_some(events));
        }
    }
}

fn look(login: &TokenLogin, keys: Option<&Keys>) -> Looked {
    let wrong = |reason| Looked::Decided(Err(ExternalError::Wrong(reason)));
    let token = match Token::parse(&login.token).and_then(|token| login.oidc.accepts(&token).map(|()| token)) {
        Ok(token) => token,
        Err(reason) => return wrong(reason),
    };
    let Some(keys) = keys else { return Looked::NeedsKeys(ExternalError::Unavailable(NO_KEYS)) };
    match keys.verify(&token) {
        Ok(()) => Looked::Decided(claimed(login, &token)),
        Err(SignatureError::Wrong(reason)) => wrong(reason),
        Err(SignatureError::UnknownKey) => {
            Looked::NeedsKeys(ExternalError::Wrong("the token's key (kid) is none of the issuer's"))
        }
    }
}

fn claimed(login: &TokenLogin, token: &Token<'_>) -> Decision {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let claimed = login.oidc.claimed(token, &login.user, now).map_err(ExternalError::Wrong)?;
    let until = claimed.left.and_then(|left| Instant::now().checked_add(left));
    Ok(Identity { by: Arc::clone(&login.oidc.issuer), user: claimed.user, values: claimed.values, until })
}
