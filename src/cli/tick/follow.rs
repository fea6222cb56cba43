//! A tickerplant that follows another one (`--follow`): from the options to the end of the process, or until it takes over by the lease.

use super::passive::{Passive, Taken, opening, prepared};
use crate::access::member::CLUSTER_USER;
use crate::cli::CliError;
use crate::config::{Address, Addresses, Durability, LeaseUrl, Settings, login, options};
use crate::election::Election;
use crate::lease::{Epoch, OwnCopy};
use crate::log::{Contender, Locked, LogError, LogId, LogOptions, Waker};
use crate::net::{Listeners, Parts, Reactor, signals};
use crate::tick::core::Tables;
use crate::tick::follow::copier::{Copier, FollowOptions};
use crate::tick::follow::own_copy::own_copy;
use crate::tick::follow::service::Follower;
use crate::tick::forward::Forward;
use crate::tick::globals::SharedGlobals;
use crate::tick::plant::PlantOptions;
use crate::tick::program::Logins;
use crate::tick::standby::Standby;
use crate::tick::standby::service::StandbyService;
use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

/// Interval between attempts to open the log under the lease.
const EVERY: Duration = Duration::from_millis(20);

/// The directory of a copy, locked, and whom it follows.
pub(super) struct Following {
    leaders: Addresses,
    locked: (Locked, Option<LogId>),
    /// The own copy, if a lease decides who takes over.
    pub copy: Option<OwnCopy>,
}

/// How a process has ended to follow.
pub(super) enum Followed {
    /// It was asked to stop.
    Over,
    /// It has the lease and its log.
    TakesOver(Box<Taken>),
    /// It had the lease, and lost it before it had its log.
    LeaseLost(Arc<AtomicBool>),
}

impl Following {
    /// Locks the directory of a copy, if `--follow` names a tickerplant. `address`: where this process is reached.
    ///
    /// # Errors
    /// Those of the options, and the log's.
    pub fn begin(
        settings: &Settings,
        plant: &PlantOptions,
        log: Option<&LogOptions>,
        address: &str,
    ) -> Result<Option<Following>, CliError> {
        let Some(leaders) = leaders(settings, plant, address)? else { return Ok(None) };
        let Some(log) = log else {
            return Err(CliError::Usage("--follow: needs a directory for the copy of the log".into()));
        };
        let locked = Locked::take_to_follow(log).map_err(CliError::failed)?;
        let copy = plant.lease.as_ref().map(|_| own_copy(log, address)).transpose().map_err(CliError::failed)?;
        Ok(Some(Following { leaders, locked, copy }))
    }
}

/// Returns the addresses of the tickerplants to follow, with their logins, if there are any. The own address is not among them.
///
/// # Errors
/// Those of the options.
fn leaders(settings: &Settings, plant: &PlantOptions, own: &str) -> Result<Option<Addresses>, CliError> {
    let Some(leaders) = settings.find(&options::FOLLOW)? else { return Ok(None) };
    if let Some(LeaseUrl::File) = settings.find(&options::LEASE)? {
        return Err(CliError::Usage(
            "--follow with --lease file: each copy has a log of its own, so a lock of one decides nothing: use a lease in a store".into(),
        ));
    }
    if plant.lease.is_some() && settings.is_on(&options::LEASE_FAILSAFE)? {
        return Err(CliError::Usage(
            "--lease-failsafe with --follow: each copy has a lock of its own, which keeps nobody else from being active: leave it out".into(),
        ));
    }
    let is_other = |leader: &Address| format!("{}:{}", leader.host, leader.port) != own;
    let Some(leaders) = leaders.retain(is_other) else {
        return Err(CliError::Usage(format!("--follow: names only {own}, which is this process")));
    };
    let has_secret = plant.secret.is_some();
    let leaders = login::complete(leaders, settings)?.map(|mut leader| {
        if has_secret && leader.user.is_empty() {
            leader.user = CLUSTER_USER.to_string();
        }
        Ok::<_, CliError>(leader)
    })?;
    Ok(Some(leaders))
}

/// Follows until the process is asked to stop, takes over by the lease, or cannot go on.
///
/// # Errors
/// The log's and the system's.
pub(super) fn run(
    following: Following,
    (plant, log): (&PlantOptions, LogOptions),
    tables: Arc<Tables>,
    (parts, listeners): (Parts, Listeners),
    passive: Passive<'_>,
) -> Result<Followed, CliError> {
    let Passive { settings, env, listen, net_limits, access, door, audit, notifier, globals, handler, .. } = passive;
    let (has_secret, election) = (passive.has_secret, passive.election);
    let (dir, codec, of_loop) = (log.dir.clone(), net_limits.codec(), parts.waker());
    let wake: Waker = Arc::new(move || drop(of_loop.wake()));
    if let Some(election) = &election {
        // Its lease must have a higher epoch.
        election.log_epoch(Epoch(following.locked.0.epoch()));
        election.tenure().on_change(Arc::clone(&wake));
    }
    // Each response of the leader is synced before it is confirmed.
    let of_copy =
        LogOptions { durability: Durability::Os, address: None, waker: Some(Arc::clone(&wake)), ..log.clone() };
    let options = FollowOptions {
        leaders: following.leaders,
        name: plant.address.clone().unwrap_or_default(),
        copy: following.copy.map(|copy| copy.name).unwrap_or_default(),
        secret: plant.secret.clone(),
        tables,
        keep_days: plant.keep_days,
        log: of_copy,
    };
    let copier = Copier::start(options, following.locked).map_err(CliError::failed)?;
    listeners.listen(listen).map_err(CliError::failed)?;
    let port = listeners.port();
    let end = signals::on_termination(parts.waker()).map_err(CliError::failed)?;
    let logins = Logins::start(&*env.spawner, &globals, handler, Arc::clone(&wake)).map_err(CliError::failed)?;
    let logins = logins.map(|logins| (logins, Arc::new(SharedGlobals::from(globals))));
    let forward = match settings.is_on(&options::FORWARD)? {
        true => {
            let forward = Forward::start(env, copier.leader_address(), net_limits.outboxes_bytes, wake);
            Some(forward.map_err(CliError::failed)?)
        }
        false => None,
    };
    let tenure = election.as_ref().map(|election| Arc::clone(election.tenure()));
    let lease = plant.lease.clone().zip(tenure);
    let clients = Standby::new(codec, (logins, has_secret), forward);
    let follower = Follower::new(copier, dir.clone(), lease, Arc::clone(&end));
    let service = StandbyService::new(follower, clients);
    let reactor = Reactor::new(parts, listeners, access, net_limits, service).map_err(CliError::failed)?;
    let reactor = prepared(reactor, settings, door, audit, &notifier)?;
    notifier.ready(&format!("following, listening on {port}"));
    if !settings.is_on(&options::QUIET)? {
        let mut out = std::io::stdout();
        writeln!(out, "elastick tick is passive on {port}, its copy of the log is in {}", dir.display())?;
        out.flush()?;
    }
    let (mut service, listeners) = reactor.run_before_another().map_err(CliError::failed)?;
    service.inactive.copier.finish();
    let status = service.inactive.copier.status.get();
    if let Some(failure) = status.failure {
        return Err(CliError::Failed(failure));
    }
    let Some(election) = election.filter(|_| !signals::is_asked(&end)) else {
        notifier.stopping();
        return Ok(Followed::Over);
    };
    let opening = opening(notifier, env)?;
    // What was confirmed is what is opened.
    if let Some(closed) = status.closed {
        closed.check(&*log.env.disk).map_err(CliError::failed)?;
    }
    Ok(match open(&election, log)? {
        Some(locked) => {
            tracing::info!("taking over with this copy of the log, epoch {}", locked.epoch());
            Followed::TakesOver(Box::new(Taken { locked, listeners, end: Some(end), opening: Some(opening) }))
        }
        None => Followed::LeaseLost(end),
    })
}

/// Takes the right to write the own log, under the epoch of the lease. Returns `None` if the lease is lost.
fn open(election: &Election, log: LogOptions) -> Result<Option<Locked>, CliError> {
    let contender = Contender::make(log).map_err(CliError::failed)?;
    while let Some(epoch) = election.tenure().lead() {
        match contender.attempt(Some(epoch.0)) {
            Ok(locked) => return Ok(Some(locked)),
            // The next lease has a higher one.
            Err(LogError::StaleEpoch { stored, .. }) => election.log_epoch(Epoch(stored)),
            Err(error) => return Err(CliError::failed(error)),
        }
        std::thread::sleep(EVERY);
    }
    Ok(None)
}
