//! A passive tickerplant: it waits for the log of the active one, and refuses what the active one is for.
//!
//! A thread tries to lock the log and, while it cannot, reads who is active.

use super::lease;
use super::standby::service::Inactive;
use crate::election::{Election, Tenure};
use crate::env::Env;
use crate::env::task::Every;
use crate::lease::{Epoch, OwnerName, address_of, common_log};
use crate::log::{Active, Contender, Locked, LogError, Waker};
use crate::metrics::Snapshot;
use crate::net::signals;
use crate::protocol::{LeaseState, Standing, TickState};
use std::io;
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Interval between attempts to lock the log.
const EVERY: Duration = Duration::from_millis(100);
/// The same under a lease, without which no attempt touches the file system.
const EVERY_UNDER_LEASE: Duration = Duration::from_millis(20);
/// Interval between two reads of who is active.
const READ_EVERY: Duration = Duration::from_secs(1);
/// Interval between looks whether the owner of the lease still has the log.
const LOOK_EVERY: Duration = Duration::from_millis(400);
/// Attempts in a row that find the log locked before that is a trouble.
const HELD_BEFORE_TROUBLE: u32 = 4;
/// Time without an attempt after which the file system counts as hanging.
const HANGS: Duration = Duration::from_secs(10);
/// Longest reason that a log message or response repeats.
const MAX_REASON_BYTES: usize = 512;

/// What is known of the active tickerplant.
#[derive(Clone, Debug, Default)]
struct Known {
    active: Option<Active>,
    /// Why the lock or the directory cannot be looked at.
    trouble: Option<String>,
    /// When the last attempt ended; `None` before the first.
    attempted: Option<Instant>,
}

/// Says why this process could not go on with the log of the active one; `None` if it could.
pub type Fits = Box<dyn Fn(&Active) -> Option<String> + Send>;

/// Waits for the lock of a log on a thread of its own.
pub struct Waiting {
    known: Arc<Mutex<Known>>,
    locked: Receiver<Locked>,
    _every: Every,
}

impl Waiting {
    /// Starts the thread, which calls `waker` once it has the lock.
    ///
    /// # Errors
    /// The system has no thread left.
    pub fn start(
        env: &Env,
        contender: Contender,
        waker: Waker,
        election: Option<Arc<Election>>,
        fits: Fits,
    ) -> io::Result<Waiting> {
        let options = contender.options();
        let active = Active::read(&*env.disk, &options.dir, &options.src).unwrap_or_default();
        match (&election, &active) {
            (Some(election), _) => tracing::info!("passive: waiting for the lease {}", election.tenure().url()),
            (None, active) => {
                let process = active.as_ref().map_or("another tickerplant", |active| &active.process);
                tracing::info!("passive: {process} has the log in {}; waiting for it", options.dir.display());
            }
        }
        if let (Some(election), Some(active)) = (&election, &active) {
            // The store may have forgotten the number of the lease.
            election.log_epoch(Epoch(active.epoch));
            active.id.into_iter().for_each(|id| election.own_log(common_log(&options.src, id)));
        }
        let known = Arc::new(Mutex::new(Known { active, ..Known::default() }));
        let (sender, locked) = channel();
        let (shared, disk) = (Arc::clone(&known), Arc::clone(&env.disk));
        let (mut read, mut unread, mut looked, mut held) = (Instant::now(), None, Instant::now(), 0u32);
        let (mut checked, mut unfit) = (None, None);
        let every = if election.is_some() { EVERY_UNDER_LEASE } else { EVERY };
        let attempt = move || {
            let attempt = attempt(&contender, election.as_deref());
            let options = contender.options();
            let reads = read.elapsed() >= READ_EVERY;
            held = if matches!(attempt, Err(LogError::Held { .. })) { held.saturating_add(1) } else { 0 };
            let trouble = match attempt {
                Ok(Some(taken)) => {
                    // If the loop has ended, the lock is free again.
                    if sender.send(taken).is_ok() {
                        waker();
                    }
                    return ControlFlow::Break(());
                }
                Ok(None) => None,
                // Another passive one may have looked.
                Err(LogError::Held { .. }) if held < HELD_BEFORE_TROUBLE => None,
                Err(LogError::Held { holder, .. }) => Some(format!(
                    "this process has the lease, but the log is still locked ({holder}): if that one hangs, end it"
                )),
                Err(error) => Some(error.to_string()),
            };
            if let Some(election) = election.as_ref().filter(|_| looked.elapsed() >= LOOK_EVERY) {
                looked = Instant::now();
                look_for_owner(&contender, election);
            }
            let mut active = None;
            if reads {
                read = Instant::now();
                // While another process owns the lease, no lock is attempted, and only an attempt would notice that the lock file is gone.
                let found = contender.check_place().and_then(|()| Active::read(&*disk, &options.dir, &options.src));
                unread = found.as_ref().err().map(LogError::to_string);
                active = found.unwrap_or_default();
                let log = active.as_ref().and_then(|active| Some((active.epoch, active.log.clone()?)));
                if let Some(active) = active.as_ref().filter(|_| log.is_some() && log != checked) {
                    (checked, unfit) = (log, fits(active));
                    election.iter().for_each(|election| election.pause(unfit.is_some()));
                }
                if let (Some(election), Some(active)) = (&election, &active) {
                    election.log_epoch(Epoch(active.epoch));
                    active.id.into_iter().for_each(|id| election.own_log(common_log(&options.src, id)));
                }
            }
            let trouble =
                trouble.or_else(|| unread.clone()).or_else(|| unfit.clone()).map(|trouble| shortened(&trouble));
            let mut known = shared.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some(trouble) = trouble.as_ref().filter(|now| known.trouble.as_ref() != Some(now)) {
                tracing::warn!("cannot take over: {trouble}; trying again");
            }
            known.active = active.or_else(|| known.active.take());
            (known.trouble, known.attempted) = (trouble, Some(Instant::now()));
            ControlFlow::Continue(())
        };
        let every = Every::start(&*env.spawner, "passive", every, attempt)?;
        Ok(Waiting { known, locked, _every: every })
    }

    /// Returns a function that says where the active tickerplant is, if that is known.
    pub fn active_address(&self) -> impl Fn() -> Option<String> + Send + Sync + 'static {
        let known = Arc::clone(&self.known);
        move || {
            let known = known.lock().unwrap_or_else(PoisonError::into_inner);
            known.active.as_ref().filter(|active| !active.is_closed)?.address.clone()
        }
    }

    fn known(&self) -> Known {
        self.known.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// Tries to lock the log, if the lease is this process's own. Returns `None` while it is not.
///
/// # Errors
/// Those of [`Contender::attempt`]; `Held` without a lease means only that another process is active.
fn attempt(contender: &Contender, election: Option<&Election>) -> Result<Option<Locked>, LogError> {
    let Some(election) = election else {
        return match contender.attempt(None) {
            Err(LogError::Held { .. }) => Ok(None),
            taken => taken.map(Some),
        };
    };
    let Some(epoch) = election.tenure().lead() else {
        // An attempt under a lease that is lost may have left it locked.
        contender.release();
        if election.tenure().has_left() {
            election.closed();
        }
        return Ok(None);
    };
    match contender.attempt(Some(epoch.0)) {
        Err(LogError::StaleEpoch { stored, .. }) => {
            election.log_epoch(Epoch(stored));
            Ok(None)
        }
        taken => taken.map(Some),
    }
}

/// Whether the owner of the lease has left the log without a word, as after `kill -9`: its lease need not run out then.
fn look_for_owner(contender: &Contender, election: &Election) {
    let options = contender.options();
    let active = || Active::read(&*options.env.disk, &options.dir, &options.src).ok().flatten();
    // In a store without conditional writes another process may have the same number: the log says at which address its writer is.
    let owner = || {
        let active = active()?;
        let is_writer =
            |owner: &OwnerName| active.address.as_deref().is_none_or(|address| address_of(owner) == address);
        election.tenure().writer_of(Epoch(active.epoch)).filter(is_writer)
    };
    let Some(first) = owner().filter(|_| matches!(contender.is_abandoned(), Ok(true))) else { return };
    // The log is still that of the same owner.
    if owner().as_ref() == Some(&first) {
        tracing::warn!("{first} has the lease, and its process has ended or lost the log");
        election.cannot_write(first);
    }
}

fn shortened(text: &str) -> String {
    text.chars().take(MAX_REASON_BYTES).collect()
}

/// The passive tickerplant.
pub struct PassiveTick {
    waiting: Waiting,
    tenure: Option<Arc<Tenure>>,
    /// The lock, once it is taken: the loop stops.
    pub locked: Option<Locked>,
    lease: String,
    dir: PathBuf,
    /// Set when the process was asked to stop.
    end: Arc<AtomicBool>,
}

impl PassiveTick {
    pub fn new(
        (waiting, tenure): (Waiting, Option<Arc<Tenure>>),
        lease: String,
        dir: PathBuf,
        end: Arc<AtomicBool>,
    ) -> PassiveTick {
        PassiveTick { waiting, tenure, locked: None, lease, dir, end }
    }

    /// What an operator should know.
    fn note(&self) -> String {
        self.tenure.as_ref().map(|tenure| tenure.note()).unwrap_or_default()
    }

    /// Why it could not take over.
    fn trouble(&self) -> Option<String> {
        let known = self.waiting.known();
        let hangs = known.attempted.is_some_and(|at| at.elapsed() > HANGS);
        let lease = || self.tenure.as_ref()?.view().words();
        known
            .trouble
            .or_else(lease)
            .or_else(|| hangs.then(|| format!("the file system of {} does not answer", self.dir.display())))
    }
}

impl Inactive for PassiveTick {
    const NAME: &'static str = "passive";

    fn state(&self) -> TickState {
        let active = self.waiting.known().active.filter(|active| !active.is_closed);
        let of = |part: fn(&Active) -> Option<String>| active.as_ref().and_then(part).unwrap_or_default();
        TickState {
            role: Standing::Passive,
            note: self.note(),
            lease: self.lease.clone(),
            epoch: active.as_ref().map(|active| active.epoch),
            tip: active.as_ref().filter(|active| active.log.is_some()).map(|active| active.updates),
            active: of(|active| active.address.clone()),
            process: of(|active| Some(active.process.clone())),
            record: LeaseState {
                trouble: self.trouble().unwrap_or_default(),
                ..self.tenure.as_ref().map(|tenure| tenure.state()).unwrap_or_default()
            },
            ..TickState::default()
        }
    }

    fn refusal(&self, unreached: Option<&str>) -> String {
        let TickState { active, process, .. } = self.state();
        let unreached = unreached.map(|why| format!(", and cannot be reached from here: {why}")).unwrap_or_default();
        match (active.as_str(), process.as_str()) {
            ("", "") => {
                "passive: this tickerplant waits for the log, and no other one is known to be active".to_string()
            }
            ("", process) => format!("passive: this tickerplant waits for the log, which another one has ({process})"),
            (active, process) => format!("passive: {active} is active ({process}){unreached}"),
        }
    }

    fn words(&self, unreached: Option<&str>) -> String {
        let refusal = self.refusal(unreached);
        match self.trouble() {
            Some(trouble) => format!("{refusal}; cannot take over: {trouble}"),
            None if self.note().is_empty() => refusal,
            None => format!("{refusal}; {}", self.note()),
        }
    }

    fn purpose(&self) -> String {
        format!("waits for the log in {}", self.dir.display())
    }

    fn is_sound(&self) -> bool {
        self.trouble().is_none()
    }

    fn is_over(&mut self) -> bool {
        if self.locked.is_none() {
            self.locked = self.waiting.locked.try_recv().ok();
        }
        self.locked.is_some() || signals::is_asked(&self.end)
    }

    fn put_metrics(&self, snapshot: &mut Snapshot) {
        lease::put(self.tenure.as_deref(), snapshot);
    }
}
