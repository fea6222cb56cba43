//! The lease of `--lease` in a tickerplant's life: joining the election, leaving it, and starting again as a passive process.

use crate::cli::CliError;
use crate::cli::lease_store::Source;
use crate::config::{LeaseUrl, Settings, options};
use crate::election::{Election, ElectionOptions};
use crate::env::{Disk, Env};
use crate::lease::{OwnCopy, Terms};
use crate::log::Active;
use crate::net::signals;
use crate::tick::plant::HandOver;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// The own executable, whatever has happened to its path.
const SELF: &str = "/proc/self/exe";
/// Longest interval of a passive process's reads: a lease that is released is taken after half of it, on average.
const MAX_POLL_NS: u64 = 500_000_000;
/// Time for another process to take the log after a hand-over, and the interval between looks at it.
const TAKEN_WITHIN: Duration = Duration::from_secs(3);
const LOOK_EVERY: Duration = Duration::from_millis(20);
/// Time for giving back a lease that is lost, before the process starts again.
const LEAVE_MAX: Duration = Duration::from_millis(500);
/// As long as a process that ends waits for the store to take its lease back: a few calls. A store that is away is not waited for.
const END_WITHIN: Duration = Duration::from_secs(5);

/// Checks that a lease whose writes are not atomic has a fence, and that no other one has the option.
///
/// # Errors
/// Those of the options.
pub(super) fn check_fence(settings: &Settings) -> Result<(), CliError> {
    let (url, fence) = (settings.find(&options::LEASE)?, settings.find(&options::LEASE_FENCE)?);
    let follows = settings.find(&options::FOLLOW)?.is_some();
    let wrong = match (&url, fence) {
        (Some(LeaseUrl::Swift(_)), _) if follows => {
            "--follow with --lease swift: Swift has no create that only one of several clients wins, and each copy has a lock of its own, so two \
             tickerplants could write: use a lease in a DynamoDB table, also instead of --lease-fence"
        }
        (Some(LeaseUrl::Swift(_)), None) => {
            "--lease swift: Swift has no create that only one of several clients wins, so a lease there alone elects nobody. With one log \
             directory for all tickerplants add --lease-fence file: the lock and the epoch of the log then decide which one writes"
        }
        (Some(LeaseUrl::Swift(_)), Some(_)) | (_, None) => return Ok(()),
        (Some(_), Some(_)) => {
            "--lease-fence: only for --lease swift: writes under this lease are always fenced by the lock and the epoch of the log: leave it out"
        }
        (None, Some(_)) => "--lease-fence: only for --lease swift: there is no lease",
    };
    Err(CliError::Usage(wrong.into()))
}

/// A lease in a store; none for the lock of the log. The lease is given back when this is dropped, however the process ends.
pub(super) struct Membership {
    election: Option<Arc<Election>>,
    /// Each process has a log of its own.
    has_copy: bool,
}

impl Membership {
    /// Starts to compete for the lease that `--lease` names, if it is in a store. `address`: where clients reach this process; `copy`: its log, if each
    /// process has one.
    ///
    /// # Errors
    /// The store is not one for leases, the durations do not fit, or this binary lacks the store.
    pub fn join(settings: &Settings, env: &Env, address: &str, copy: Option<OwnCopy>) -> Result<Membership, CliError> {
        let holds_without_store = settings.is_on(&options::LEASE_FAILSAFE)?;
        let Some(url) = settings.find(&options::LEASE)? else {
            return Membership::without_store(holds_without_store);
        };
        let name = url.to_string();
        let Some(source) = Source::of(url)? else { return Membership::without_store(holds_without_store) };
        let terms = Terms::new(source.duration(), source.heartbeat())
            .map_err(|error| CliError::Usage(format!("--lease: {error} (duration=, heartbeat=)")))?;
        let poll_ns = terms.poll_ns.min(MAX_POLL_NS);
        let terms = Terms { holds_without_store, poll_ns, ..terms };
        // Names are never used twice: a record under this process's name is its own.
        let me = format!("{address}/{:016x}{:016x}", env.disk.draw(), env.disk.draw());
        let store = source.open(&me, address)?;
        let has_copy = copy.is_some();
        let options = ElectionOptions { me, terms, copy, url: name };
        let election = Election::start(env, store, options).map_err(CliError::failed)?;
        Ok(Membership { election: Some(Arc::new(election)), has_copy })
    }

    fn without_store(holds_without_store: bool) -> Result<Membership, CliError> {
        match holds_without_store {
            true => Err(CliError::Usage(
                "--lease-failsafe: only for a lease in a store (--lease dynamodb:, admiral: or swift:)".into(),
            )),
            false => Ok(Membership { election: None, has_copy: false }),
        }
    }

    /// Whether each process of the lease has a log of its own.
    pub fn has_copy(&self) -> bool {
        self.has_copy
    }

    pub fn election(&self) -> Option<&Arc<Election>> {
        self.election.as_ref()
    }

    /// After the log was closed: if that was because the lease is lost, or for a hand-over, replaces this process by a passive one with the same
    /// arguments. Returns if the process has to end, also because it was `asked` to meanwhile.
    ///
    /// # Errors
    /// The process cannot be replaced.
    pub fn start_again(self, hand_over: Option<(HandOver, Place<'_>)>, asked: &AtomicBool) -> Result<(), CliError> {
        match (self.election(), hand_over) {
            (election, Some((HandOver { successor, epoch }, log))) => {
                if election.is_some_and(|election| !election.hand_over(successor)) {
                    tracing::warn!("the lease may not be released: another process waits until it is over");
                }
                match election.filter(|_| self.has_copy) {
                    Some(election) => await_owner(election, asked),
                    None => log.await_another(epoch, election, asked),
                }
            }
            (Some(election), None) if election.tenure().has_left() => {
                election.give_back(LEAVE_MAX);
            }
            (_, None) => return Ok(()),
        }
        // A signal before this line ends the process in order; one after it at once, since it is the second one. The new program has other handlers, and
        // would never learn of a signal that these have taken.
        if asked.swap(true, Ordering::SeqCst) {
            return Ok(());
        }
        tracing::info!("starting again as a passive tickerplant");
        let mut arguments = std::env::args_os();
        let name = arguments.next().unwrap_or_default();
        let error = Command::new(executable()).arg0(name).args(arguments).exec();
        Err(CliError::Failed(format!("cannot start again as a passive tickerplant: {error}")))
    }
}

/// Whose log it is that a process hands over.
pub(super) struct Place<'a> {
    pub disk: &'a dyn Disk,
    pub dir: &'a Path,
    pub src: &'a str,
}

impl Place<'_> {
    /// Waits until another process has the log, under a higher epoch than `before`, or has had the lease. Without a store, this one would have its lock
    /// again at once.
    fn await_another(&self, before: u64, election: Option<&Arc<Election>>, asked: &AtomicBool) {
        let began = Instant::now();
        while began.elapsed() < TAKEN_WITHIN {
            if signals::is_asked(asked) {
                return;
            }
            let active = Active::read(self.disk, self.dir, self.src);
            if let Ok(Some(active)) = active.map(|active| active.filter(|active| active.epoch > before)) {
                return tracing::info!(epoch = active.epoch, "handed over: {} has the log", active.process);
            }
            if election.is_some_and(|election| has_come_back(election)) {
                return;
            }
            std::thread::sleep(LOOK_EVERY);
        }
        tracing::error!("no other tickerplant has taken the log within {TAKEN_WITHIN:?}: competing for it again");
    }
}

/// Whether another process has had the lease since, and has given it back.
fn has_come_back(election: &Election) -> bool {
    let (tenure, view) = (election.tenure(), election.tenure().view());
    let is_back = view.is_released && !view.owner.is_empty() && view.owner != tenure.state().name;
    if is_back {
        tracing::error!("{} had the lease, and has given it back: competing for it again", view.owner);
    }
    is_back
}

/// As [`Place::await_another`], where each process has a log of its own: waits until the record has another owner.
fn await_owner(election: &Election, asked: &AtomicBool) {
    let (began, tenure) = (Instant::now(), election.tenure());
    while began.elapsed() < TAKEN_WITHIN {
        let view = tenure.view();
        if signals::is_asked(asked) {
            return;
        }
        if !view.is_released && view.owner != tenure.state().name {
            return tracing::info!("handed over: {} has the lease", view.owner);
        }
        if has_come_back(election) {
            return;
        }
        std::thread::sleep(LOOK_EVERY);
    }
    tracing::error!("no other tickerplant has taken the lease within {TAKEN_WITHIN:?}: competing for it again");
}

impl Drop for Membership {
    fn drop(&mut self) {
        if let Some(election) = &self.election
            && !election.leave(END_WITHIN)
        {
            tracing::warn!("the lease may not be released: others wait until it is over");
        }
    }
}

/// Path of the executable, by which its process is named, or a way to it if it was replaced or removed.
fn executable() -> PathBuf {
    std::env::current_exe().ok().filter(|path| path.exists()).unwrap_or_else(|| Path::new(SELF).to_path_buf())
}
