//! `elastick tick SRC [DIR]`: the tickerplant.

use super::fleet::choose::{attend, choose};
use super::fleet::publish::Publishing;
use super::{CliError, command_for, logging, settings_of, startup, tls};
use crate::access::{LOOPBACK_NOTE, WithCluster, listen_on};
use crate::config::{Limits, Program, Settings, options};
use crate::env::Env;
use crate::metrics::Tap;
use crate::net::{Listeners, NetLimits, Notifier, Parts, Reactor, Watchdog, http, signals};
use crate::q::Rules;
use crate::queue::Params;
use crate::table::symbol;
use crate::tick::clock;
use crate::tick::core::Tables;
use crate::tick::evaluation::Bounds;
use crate::tick::globals::Globals;
use crate::tick::plant::{Plant, PlantOptions};
use crate::tick::program;
use crate::tick::schema_file;
use crate::tick::service::{ServiceOptions, TickService};
use clap::{ArgMatches, Command};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

pub fn command() -> Command {
    command_for(Program::Tick)
        .about("Tickerplant: receives updates over kdb+ IPC, logs and publishes them")
        .arg(startup::argument(3))
        .after_help(
            "Examples:\n  elastick tick sym /data -p 5010\n  elastick tick sym /data logins.q    with your own \
             functions and the handlers .z.pg .z.ps .z.pw\n\nTables come from SRC.q in the directory of --schemas, \
             or tick/SRC.q; for sym there are built-in ones. The log is DIR/SRCyyyy.mm.dd, a kdb+ log. SIGTERM \
             shuts down cleanly: everything is written and synced, and subscribers are notified. A restart on the \
             same day continues the log and the queue.",
        )
}

pub fn run(matches: &ArgMatches) -> Result<(), CliError> {
    let settings = settings_of(Program::Tick, matches)?;
    logging::start(&settings)?;
    let door = tls::start(&settings, false)?;
    let chosen = choose(&settings)?;
    let publishing = Publishing::of(&settings, &chosen)?;
    let fleet = chosen.fleet();
    let limits = Limits::resolve(&settings)?;
    symbol::set_limits(limits.of_symbols());
    let src = settings.get(&options::SRC)?;
    let schemas = settings.get(&options::SCHEMAS)?;
    let is_given = !settings.is_default(&options::SCHEMAS);
    if is_given && !schemas.is_dir() && schemas.extension().is_none_or(|ending| ending != "q") {
        let which = schemas.display();
        return Err(CliError::Failed(format!(
            "--schemas {which}: no such directory; the name of a schema file must end in .q"
        )));
    }
    let source = schema_file::find(&schemas, &src);
    if is_given && source == schema_file::Source::BuiltIn {
        tracing::warn!(
            "--schemas {}: there is no {src}.q; using the built-in tables trade and quote",
            schemas.display()
        );
    }
    let schema = schema_file::load(&source).map_err(CliError::failed)?;
    let tables = Tables::new(schema.tables).map_err(|error| CliError::Failed(format!("{source}: {error}")))?;
    let tables = Arc::new(tables);
    let mut files: Vec<PathBuf> = settings.get(&options::LOAD)?.into_iter().map(PathBuf::from).collect();
    files.extend(startup::files(matches));
    let loaded = startup::loaded(crate::q::startup::load(
        &startup::commands(&settings)?,
        &files,
        Arc::default(),
        0,
        startup::print,
    ))?;
    let program = program::defined(loaded, &tables).map_err(CliError::Failed)?;
    let named =
        |path: &PathBuf, error: std::io::Error| CliError::Failed(format!("--allow, {}: {error}", path.display()));
    let allowed = match settings.find(&options::ALLOW)? {
        Some(path) => Some(crate::q::allow_list(&path).map_err(|error| named(&path, error))?),
        None => None,
    };
    let every = settings.get(&options::TIMER)?;
    let nanoseconds = |time: Duration| i64::try_from(time.as_nanos()).unwrap_or(i64::MAX);
    let durability = settings.get(&options::DURABILITY)?;
    let plant_options = PlantOptions {
        src,
        dir: settings.find(&options::DIR)?,
        durability,
        damage: settings.get(&options::DAMAGE)?,
        mount: settings.get(&options::REQUIRE_MOUNT)?,
        batch: (!every.is_zero()).then_some(every),
        roll: settings.get(&options::ROLL)?,
        today: settings.find(&options::TODAY)?.map(clock::day_number),
        block_writes: settings.is_on(&options::BLOCK_WRITES)?,
        secret: startup::secret(&settings)?,
        queue: Params {
            grace_ns: nanoseconds(settings.get(&options::NODE_GRACE)?),
            restart_grace_ns: nanoseconds(settings.get(&options::START_GRACE)?),
            subscribers_max: usize::try_from(limits.queue_subscribers).unwrap_or(usize::MAX),
            ..Params::default()
        },
        limits: limits.clone(),
    };
    let net_limits = NetLimits::of(&limits);
    let codec = net_limits.codec();
    let has_handler = program.globals.iter().any(|(name, _)| symbol::text(*name) == b".z.pw");
    let mut access = startup::access(&settings, has_handler)?;
    if plant_options.secret.is_some() {
        access = Box::new(WithCluster(access));
    }
    let notifier = Notifier::from_environment();
    notifier.status("opening the log");
    let env = Env::system();
    let parts = Parts::new().map_err(CliError::failed)?;
    // Open the log before the port: a second tickerplant on the same directory gets the error about the log, not about the port.
    let of_loop = parts.waker();
    // An ended loop needs no wake-up.
    let wake: crate::log::Waker = Arc::new(move || drop(of_loop.wake()));
    let plant = Plant::start(env.clone(), plant_options, tables, Arc::clone(&wake)).map_err(CliError::failed)?;
    let logs = match plant.log_path() {
        Some(path) => format!("log {}, durability {durability}", path.display()),
        None => "no log".to_string(),
    };
    let (checked, open) = (access.is_checked(), settings.is_on(&options::OPEN)?);
    let listen = listen_on(settings.get(&options::PORT)?, checked, open).map_err(CliError::Usage)?;
    let mut listeners = Listeners::tcp(&listen).map_err(CliError::failed)?;
    let directory = settings.get(&options::UNIX_SOCKETS)?;
    if !directory.is_empty() {
        listeners.unix(Path::new(&directory));
    }
    let port = listeners.port();
    let end = signals::on_termination(parts.waker()).map_err(CliError::failed)?;
    let globals_bytes = usize::try_from(limits.globals_bytes).unwrap_or(usize::MAX);
    let mut globals = Globals::new([schema.globals, program.globals].concat(), globals_bytes);
    globals.console = program.console;
    // The day's log may have columns that the schema file lacks.
    globals.show_tables(plant.tables());
    let service_options = ServiceOptions {
        codec,
        pending: Arc::clone(&net_limits.pending),
        globals,
        query: Bounds {
            time: query_time(&settings, &limits)?,
            memory_bytes: limits.query_memory_bytes,
            symbols: limits.query_symbols,
        },
        threads: 2,
        handler: Bounds {
            time: Duration::from_nanos(limits.handler_time_ns),
            memory_bytes: limits.query_memory_bytes,
            symbols: limits.query_symbols,
        },
        rules: Rules::new(&[], false, settings.is_on(&options::BLOCK_WRITES)?, allowed),
        timer: program.timer,
    };
    let waker = parts.waker();
    let (tap, watched) = Tap::new(move || drop(waker.wake()));
    let service = TickService::new(&env, plant, service_options, wake, end, watched).map_err(CliError::failed)?;
    let mut reactor = Reactor::new(parts, listeners, access, net_limits, service).map_err(CliError::failed)?;
    if settings.is_on(&options::METRICS_OPEN)? {
        reactor.open_pages(http::OPEN);
    }
    if let Some(door) = door {
        reactor.set_tls(door).map_err(CliError::failed)?;
    }
    reactor.set_watchdog(Watchdog::new(notifier.clone(), Instant::now()));
    notifier.ready(&format!("listening on {port}"));
    if let Some(fleet) = fleet {
        attend(fleet).map_err(CliError::failed)?;
    }
    if !settings.is_on(&options::QUIET)? {
        let mut out = std::io::stdout();
        writeln!(out, "elastick tick is listening on {port}, {logs}")?;
        out.flush()?;
    }
    if !checked && !open {
        tracing::info!("{LOOPBACK_NOTE}");
    }
    let _published = publishing.start(Some(tap))?;
    // Reserves symbol space for this thread, so that queries on other threads cannot use it up.
    symbol::claim();
    reactor.run().map_err(CliError::failed)?;
    match reactor.service.plant.failure() {
        Some(failure) => Err(CliError::Failed(failure.to_string())),
        None => Ok(()),
    }
}

/// `-T`, capped by the limit of query time.
fn query_time(settings: &Settings, limits: &Limits) -> Result<Duration, CliError> {
    let requested = settings.get(&options::QUERY_TIME)?;
    let most = Duration::from_nanos(limits.query_time_ns);
    Ok(if requested.is_zero() { most } else { requested.min(most) })
}
