//! The part of a tickerplant's start in which it is passive: from the options to the lock on the log.

use crate::access::Access;
use crate::audit::Audit;
use crate::cli::CliError;
use crate::config::{Listen, Settings, options};
use crate::election::Election;
use crate::env::Env;
use crate::env::task::Every;
use crate::log::{Active, Contender, Locked, LogError, LogOptions, Waker};
use crate::net::sites::Sites;
use crate::net::tls::Door;
use crate::net::{Listeners, NetLimits, Notifier, Parts, Reactor, Service, Watchdog, http, signals};
use crate::tick::core::Tables;
use crate::tick::evaluation::Bounds;
use crate::tick::forward::Forward;
use crate::tick::globals::{Globals, SharedGlobals};
use crate::tick::logged_schema;
use crate::tick::passive::{PassiveTick, Waiting};
use crate::tick::program::Logins;
use crate::tick::standby::Standby;
use crate::tick::standby::service::StandbyService;
use std::io::Write;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

/// What a passive tickerplant has in common with the active one that it becomes.
pub(super) struct Passive<'a> {
    pub settings: &'a Settings,
    pub env: &'a Env,
    pub listen: &'a Listen,
    pub net_limits: NetLimits,
    pub access: Box<dyn Access>,
    pub door: Option<Arc<Door>>,
    pub audit: Audit,
    pub notifier: Notifier,
    pub tables: &'a Arc<Tables>,
    /// For the owner's `.z.pw`.
    pub globals: Globals,
    pub handler: Bounds,
    /// Nodes prove that they know the cluster's secret.
    pub has_secret: bool,
    /// `None` if the lock of the log decides alone.
    pub election: Option<Arc<Election>>,
}

/// The lock, and what goes on to the active tickerplant.
pub(super) struct Taken {
    pub locked: Locked,
    pub listeners: Listeners,
    /// Set if the process was asked to stop while it was passive or since.
    pub end: Option<Arc<AtomicBool>>,
    /// Tells the service manager, to which a passive process is ready, that the process lives while it opens the log.
    pub opening: Option<Every>,
}

/// Interval of those notifications, and their time limit.
const ALIVE_EVERY: Duration = Duration::from_secs(10);
const OPENING_MAX: Duration = Duration::from_secs(1800);

/// Takes the lock of the log, and returns it with the listeners. While another tickerplant has it, or the lease, serves as its passive, unless
/// there is no lease: then that is an error. Returns `None` if the process was asked to stop meanwhile.
///
/// # Errors
/// The log's and the system's.
pub(super) fn lock(
    log: LogOptions,
    lease: Option<String>,
    listeners: Listeners,
    passive: Passive<'_>,
) -> Result<Option<Taken>, CliError> {
    if let (Some(_), Some(lease)) = (&passive.election, &lease) {
        let contender = Contender::make(log).map_err(CliError::failed)?;
        return wait(contender, lease.clone(), listeners, passive);
    }
    match (Locked::take(&log), lease) {
        (Ok(locked), _) => Ok(Some(Taken { locked, listeners, end: None, opening: None })),
        (Err(LogError::Held { .. }), Some(lease)) => {
            let contender = Contender::open(log).map_err(CliError::failed)?;
            wait(contender, lease, listeners, passive)
        }
        (Err(error), _) => Err(CliError::failed(error)),
    }
}

fn wait(
    contender: Contender,
    lease: String,
    listeners: Listeners,
    passive: Passive<'_>,
) -> Result<Option<Taken>, CliError> {
    let Passive { settings, env, listen, net_limits, access, door, audit, notifier, tables, globals, .. } = passive;
    let (handler, has_secret, election) = (passive.handler, passive.has_secret, passive.election);
    listeners.listen(listen).map_err(CliError::failed)?;
    let port = listeners.port();
    let parts = Parts::new().map_err(CliError::failed)?;
    let of_loop = parts.waker();
    let waker: Waker = Arc::new(move || drop(of_loop.wake()));
    let end = signals::on_termination(parts.waker()).map_err(CliError::failed)?;
    let logins = Logins::start(&*env.spawner, &globals, handler, Arc::clone(&waker)).map_err(CliError::failed)?;
    let logins = logins.map(|logins| (logins, Arc::new(SharedGlobals::from(globals))));
    let (dir, codec) = (contender.options().dir.clone(), net_limits.codec());
    let tenure = election.as_ref().map(|election| Arc::clone(election.tenure()));
    let until = if tenure.is_some() { "it has the lease and the log" } else { "the log is free" };
    let of_forward = Arc::clone(&waker);
    let (disk, own) = (Arc::clone(&env.disk), Arc::clone(tables));
    let fits = Box::new(move |active: &Active| {
        let difference = logged_schema::difference(&*disk, active.log.as_deref()?, &own, &codec)?;
        Some(format!("this process has other tables than the log ({difference}): start it with the same --schemas"))
    });
    let waiting = Waiting::start(env, contender, waker, election, fits).map_err(CliError::failed)?;
    let forward = match settings.is_on(&options::FORWARD)? {
        true => {
            let forward = Forward::start(env, waiting.active_address(), net_limits.outboxes_bytes, of_forward);
            Some(forward.map_err(CliError::failed)?)
        }
        false => None,
    };
    let clients = Standby::new(codec, (logins, has_secret), forward);
    let passive_tick = PassiveTick::new((waiting, tenure), lease, dir, Arc::clone(&end));
    let service = StandbyService::new(passive_tick, clients);
    let reactor = Reactor::new(parts, listeners, access, net_limits, service).map_err(CliError::failed)?;
    let reactor = prepared(reactor, settings, door, audit, &notifier)?;
    notifier.ready(&format!("passive, listening on {port}"));
    if !settings.is_on(&options::QUIET)? {
        let mut out = std::io::stdout();
        writeln!(out, "elastick tick is passive on {port} until {until}")?;
        out.flush()?;
    }
    let (service, listeners) = reactor.run_before_another().map_err(CliError::failed)?;
    match service.inactive.locked {
        Some(locked) if !signals::is_asked(&end) => {
            tracing::info!("taking over: the log is free, epoch {}", locked.epoch());
            let opening = Some(opening(notifier, env)?);
            Ok(Some(Taken { locked, listeners, end: Some(end), opening }))
        }
        _ => {
            notifier.stopping();
            Ok(None)
        }
    }
}

/// Gives the event loop of a tickerplant that is not active what the settings say.
pub(super) fn prepared<S: Service>(
    mut reactor: Reactor<S>,
    settings: &Settings,
    door: Option<Arc<Door>>,
    audit: Audit,
    notifier: &Notifier,
) -> Result<Reactor<S>, CliError> {
    reactor.set_sites(Sites::resolve(settings)?);
    if settings.is_on(&options::METRICS_OPEN)? {
        reactor.open_pages(http::OPEN);
    }
    if let Some(door) = door {
        reactor.set_tls(door).map_err(CliError::failed)?;
    }
    reactor.set_watchdog(Watchdog::new(notifier.clone(), Instant::now()));
    reactor.set_audit(audit);
    Ok(reactor)
}

/// Tells the service manager that the process lives while it opens the log.
pub(super) fn opening(notifier: Notifier, env: &Env) -> Result<Every, CliError> {
    let mut watchdog = Watchdog::new(notifier, Instant::now());
    let began = Instant::now();
    let alive = move || {
        watchdog.beat(Instant::now(), Some("taking over: opening the log".to_string()));
        if began.elapsed() < OPENING_MAX { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    };
    Every::start(&*env.spawner, "opening", ALIVE_EVERY, alive).map_err(CliError::failed)
}
