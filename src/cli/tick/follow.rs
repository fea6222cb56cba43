//! A tickerplant that follows another one (`--follow`): from the options to the end of the process.

use super::passive::Passive;
use crate::access::member::CLUSTER_USER;
use crate::cli::CliError;
use crate::config::{Addresses, Durability, Settings, login, options};
use crate::log::LogOptions;
use crate::net::sites::Sites;
use crate::net::{Listeners, Parts, Reactor, Watchdog, http, signals};
use crate::tick::core::Tables;
use crate::tick::follow::copier::{Copier, FollowOptions};
use crate::tick::follow::service::FollowService;
use crate::tick::globals::SharedGlobals;
use crate::tick::plant::PlantOptions;
use crate::tick::program::Logins;
use std::io::Write;
use std::sync::Arc;
use std::time::Instant;

/// Returns the addresses of the tickerplant to follow, with their logins, if there is one.
///
/// # Errors
/// Those of the options.
pub(super) fn leaders(settings: &Settings, plant: &PlantOptions) -> Result<Option<Addresses>, CliError> {
    let Some(leaders) = settings.find(&options::FOLLOW)? else { return Ok(None) };
    if plant.dir.is_none() {
        return Err(CliError::Usage("--follow: needs a directory for the copy of the log".into()));
    }
    if plant.lease.is_some() {
        return Err(CliError::Usage(
            "--follow and --lease: a copy has a directory of its own, which no lease decides on; leave one out".into(),
        ));
    }
    let has_secret = plant.secret.is_some();
    let leaders = login::complete(leaders, settings)?.map(|mut leader| {
        if has_secret && leader.user.is_empty() {
            leader.user = CLUSTER_USER.to_string();
        }
        Ok::<_, CliError>(leader)
    })?;
    Ok(Some(leaders))
}

/// Follows until the process is asked to stop, or cannot go on.
///
/// # Errors
/// The log's and the system's.
pub(super) fn run(
    leaders: Addresses,
    (plant, log): (PlantOptions, LogOptions),
    tables: Arc<Tables>,
    (parts, listeners): (Parts, Listeners),
    passive: Passive<'_>,
) -> Result<(), CliError> {
    let Passive {
        settings, env, listen, net_limits, access, door, audit, notifier, globals, handler, has_secret, ..
    } = passive;
    let (dir, codec, waker) = (log.dir.clone(), net_limits.codec(), log.waker.clone());
    // Each response of the leader is synced before it is confirmed.
    let log = LogOptions { durability: Durability::Os, address: None, ..log };
    let PlantOptions { address, secret, keep_days, .. } = plant;
    let name = address.unwrap_or_default();
    let options = FollowOptions { leaders, name, secret, tables, keep_days, log };
    let copier = Copier::start(options).map_err(CliError::failed)?;
    listeners.listen(listen).map_err(CliError::failed)?;
    let port = listeners.port();
    let end = signals::on_termination(parts.waker()).map_err(CliError::failed)?;
    let wake = waker.unwrap_or_else(|| Arc::new(|| {}));
    let logins = Logins::start(&*env.spawner, &globals, handler, wake).map_err(CliError::failed)?;
    let logins = logins.map(|logins| (logins, Arc::new(SharedGlobals::from(globals))));
    let service = FollowService::new(copier, dir.clone(), codec, (logins, has_secret), end);
    let mut reactor = Reactor::new(parts, listeners, access, net_limits, service).map_err(CliError::failed)?;
    reactor.set_sites(Sites::resolve(settings)?);
    if settings.is_on(&options::METRICS_OPEN)? {
        reactor.open_pages(http::OPEN);
    }
    if let Some(door) = door {
        reactor.set_tls(door).map_err(CliError::failed)?;
    }
    reactor.set_watchdog(Watchdog::new(notifier.clone(), Instant::now()));
    reactor.set_audit(audit.clone());
    notifier.ready(&format!("following, listening on {port}"));
    if !settings.is_on(&options::QUIET)? {
        let mut out = std::io::stdout();
        writeln!(out, "elastick tick is passive on {port}, its copy of the log is in {}", dir.display())?;
        out.flush()?;
    }
    let ended = reactor.run();
    notifier.stopping();
    reactor.service.copier.finish();
    audit.close();
    ended.map_err(CliError::failed)?;
    match reactor.service.copier.status.get().failure {
        Some(failure) => Err(CliError::Failed(failure)),
        None => Ok(()),
    }
}
