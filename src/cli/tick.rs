//! `elastick tick SRC [DIR]`: the tickerplant.

mod follow;
mod lease;
mod nodes;
mod passive;

use super::fleet::choose::{choose, watch_notices};
use super::fleet::publish::Publishing;
use super::{CliError, command_for, logging, settings_of, startup, tls};
use crate::access::{Access, WithCluster, listen_on, log_who_may_connect};
use crate::config::{Limits, Listen, Program, Settings, options};
use crate::env::Env;
use crate::lease::{Copies, OwnCopy, common_log};
use crate::log::MAX_ADDRESS_BYTES;
use crate::metrics::Tap;
use crate::net::sites::Sites;
use crate::net::{Listeners, NetLimits, Notifier, Parts, Reactor, Watchdog, call_stack, http, signals};
use crate::q::Rules;
use crate::queue::Params;
use crate::table::symbol;
use crate::tick::clock;
use crate::tick::core::Tables;
use crate::tick::evaluation::Bounds;
use crate::tick::follow::own_copy;
use crate::tick::globals::Globals;
use crate::tick::plant::{OwnLease, Plant, PlantOptions};
use crate::tick::program;
use crate::tick::schema_file;
use crate::tick::service::{ServiceOptions, TickService};
use clap::{ArgMatches, Command};
use follow::{Followed, Following};
use lease::{Membership, Place};
use passive::Passive;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

pub fn command() -> Command {
    command_for(Program::Tick)
        .about("Tickerplant: receives updates over kdb+ IPC, logs and publishes them")
        .arg(startup::argument(3))
        .after_help(
            "Examples:\n  elastick tick sym /data -p 5010\n  elastick tick sym /copy -p 5010 --follow tp1:5010    a copy of the log on \
             another host\n  elastick tick sym /data logins.q    with your own \
             functions and the handlers .z.pg .z.ps .z.pw\n\nTables come from SRC.q, the first of: the directory of \
             --schemas, the working directory, schemas/ and tick/ in it; for sym there are built-in ones. The log is \
             DIR/SRCyyyy.mm.dd, a kdb+ log. SIGTERM shuts down cleanly: everything is written and synced, and \
             subscribers are notified. A restart on the same day continues the log and the queue.",
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
    let audit = startup::audit(&settings, format!("tick {src}"), &limits)?;
    let schemas = settings.get(&options::SCHEMAS)?;
    let is_given = !settings.is_default(&options::SCHEMAS);
    if is_given && !schemas.is_dir() && schemas.extension().is_none_or(|ending| ending != "q") {
        let which = schemas.display();
        return Err(CliError::Failed(format!(
            "--schemas {which}: no such directory; the name of a schema file must end in .q"
        )));
    }
    let given = is_given.then_some(schemas.as_path());
    let source = schema_file::find(given, &src).map_err(CliError::failed)?;
    match schema_file::missing(given, &src, &source, Path::new(schema_file::INSTALLED)) {
        Some(missing) if missing.is_unexpected => tracing::warn!("{}", missing.text),
        Some(missing) => tracing::info!("{}", missing.text),
        None => {}
    }
    match &source {
        schema_file::Source::File(file)
            if is_given && schemas.is_dir() && *file != schemas && !schemas.join(format!("{src}.q")).is_file() =>
        {
            tracing::warn!("--schemas {}: there is no {src}.q; using {}", schemas.display(), file.display());
        }
        _ => {}
    }
    let schema = schema_file::load(&source).map_err(CliError::failed)?;
    let tables = Tables::new(schema.tables).map_err(|error| CliError::Failed(format!("{source}: {error}")))?;
    let tables = Arc::new(tables);
    let mut files: Vec<PathBuf> = settings.get(&options::LOAD)?.into_iter().map(PathBuf::from).collect();
    files.extend(startup::files(matches));
    call_stack::serve();
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
    let mut plant_options = PlantOptions {
        src,
        dir: settings.find(&options::DIR)?,
        address: None,
        lease: settings.find(&options::LEASE)?.map(|url| url.to_string()),
        tenure: None,
        copy: None,
        durability,
        replica_timeout: settings.get(&options::REPLICA_TIMEOUT)?,
        replica_missing: settings.get(&options::REPLICA_MISSING)?,
        damage: settings.get(&options::DAMAGE)?,
        keep_days: settings.find(&options::KEEP_DAYS)?,
        mount: settings.get(&options::REQUIRE_MOUNT)?,
        batch: (!every.is_zero()).then_some(every),
        roll: settings.get(&options::ROLL)?,
        today: settings.find(&options::TODAY)?.map(clock::day_number),
        block_writes: settings.is_on(&options::BLOCK_WRITES)?,
        coerce: settings.is_on(&options::COERCE)?,
        secret: startup::secret(&settings)?,
        nodes: None,
        calendar: nodes::calendar(&settings)?,
        queue: nodes::sleeping(
            &settings,
            Params {
                grace_ns: nanoseconds(settings.get(&options::NODE_GRACE)?),
                restart_grace_ns: nanoseconds(settings.get(&options::START_GRACE)?),
                prove_ns: nanoseconds(settings.get(&options::PROOF_TIMEOUT)?),
                subscribers_max: usize::try_from(limits.queue_subscribers).unwrap_or(usize::MAX),
                ..Params::default()
            },
        )?,
        limits: limits.clone(),
    };
    let net_limits = NetLimits::of(&limits);
    let codec = net_limits.codec();
    let has_handler = program.globals.iter().any(|(name, _)| symbol::text(*name) == b".z.pw");
    let with_cluster = plant_options.secret.is_some();
    let access = || -> Result<Box<dyn Access>, CliError> {
        let access = startup::access(&settings, has_handler)?;
        Ok(if with_cluster { Box::new(WithCluster(access)) } else { access })
    };
    let notifier = Notifier::from_environment();
    notifier.status("opening the log");
    let env = Env::system();
    let parts = Parts::new().map_err(CliError::failed)?;
    // A start that cannot have its port changes nothing in the log directory. The port opens once the log is open.
    let (checked, open) = (access()?.is_checked(), settings.is_on(&options::OPEN)?);
    let listen = listen_on(settings.get(&options::PORT)?, checked, open).map_err(CliError::Usage)?;
    let mut listeners = Listeners::reserve(&listen).map_err(CliError::failed)?;
    let of_loop = parts.waker();
    // An ended loop needs no wake-up.
    let wake: crate::log::Waker = Arc::new(move || drop(of_loop.wake()));
    let handler = Bounds {
        time: Duration::from_nanos(limits.handler_time_ns),
        memory_bytes: limits.query_memory_bytes,
        symbols: limits.query_symbols,
    };
    let globals_bytes = usize::try_from(limits.globals_bytes).unwrap_or(usize::MAX);
    let user_globals_bytes = usize::try_from(limits.user_globals_bytes).unwrap_or(usize::MAX);
    let mut globals = Globals::new([schema.globals, program.globals].concat(), globals_bytes, user_globals_bytes);
    let address = reached_at(&settings, &listen, listeners.port())?;
    if plant_options.lease.is_some() && listen.reuse {
        return Err(CliError::Usage(
            "--lease: two tickerplants cannot share a port (-p rp,…): clients would reach either".into(),
        ));
    }
    if plant_options.lease.is_none() && settings.is_on(&options::FORWARD)? {
        return Err(CliError::Usage(
            "--forward: needs --lease: only a passive tickerplant hands connections through to the active one".into(),
        ));
    }
    if plant_options.lease.is_some() && plant_options.dir.is_none() {
        return Err(CliError::Usage(
            "--lease: needs a directory, whose log is what one tickerplant takes over from the other".into(),
        ));
    }
    lease::check_fence(&settings)?;
    let groups = nodes::open(&settings)?;
    plant_options.address = Some(address.clone());
    let log = |dir: &PathBuf| plant_options.log(&env, dir, &wake);
    let log = plant_options.dir.as_ref().map(log).transpose().map_err(CliError::failed)?;
    let following = Following::begin(&settings, &plant_options, log.as_ref(), &address)?;
    let copy = following.as_ref().and_then(|following| following.copy.clone());
    let membership = Membership::join(&settings, &env, &address, copy.clone())?;
    plant_options.tenure = membership.election().map(|election| Arc::clone(election.tenure()));
    let own_lease = |(copy, election): (OwnCopy, &Arc<_>)| OwnLease { copy: copy.name, election: Arc::clone(election) };
    plant_options.copy = copy.zip(membership.election()).map(own_lease);
    let (mut locked, mut ended, mut opening) = (None, None, None);
    if let Some(log) = log {
        let passive = Passive {
            settings: &settings,
            env: &env,
            listen: &listen,
            net_limits: net_limits.clone(),
            access: access()?,
            door: door.clone(),
            audit: audit.clone(),
            notifier: notifier.clone(),
            tables: &tables,
            globals: globals.clone(),
            handler,
            has_secret: with_cluster,
            election: membership.election().cloned(),
        };
        let taken = match following {
            None => passive::lock(log, plant_options.lease.clone(), listeners, passive)?,
            Some(following) => {
                let of_copy = Parts::new().map_err(CliError::failed)?;
                let place = (of_copy, listeners);
                match follow::run(following, (&plant_options, log), Arc::clone(&tables), place, passive)? {
                    Followed::TakesOver(taken) => Some(*taken),
                    Followed::Over => None,
                    Followed::LeaseLost(end) => {
                        audit.close();
                        return membership.start_again(None, &end);
                    }
                }
            }
        };
        let Some(taken) = taken else {
            audit.close();
            return Ok(());
        };
        (locked, listeners, ended, opening) = (Some(taken.locked), taken.listeners, taken.end, taken.opening);
    }
    if let Some(dir) = &plant_options.dir {
        let log = plant_options.log(&env, dir, &wake).map_err(CliError::failed)?;
        own_copy::mark(&log, false).map_err(CliError::failed)?;
    }
    let place = plant_options.dir.clone().map(|dir| (dir, plant_options.src.clone()));
    plant_options.nodes = groups.map(|groups| nodes::start(&settings, &env, groups)).transpose()?;
    let plant = Plant::start_locked(locked, env.clone(), plant_options, tables, Arc::clone(&wake));
    let plant = plant.map_err(CliError::failed)?;
    let logs = match plant.log_path() {
        Some(path) => format!("log {}, durability {durability}", path.display()),
        None => "no log".to_string(),
    };
    plant.log_start(&source);
    log_who_may_connect(startup::users_file(&settings)?.as_deref(), checked, open);
    listeners.listen(&listen).map_err(CliError::failed)?;
    let directory = settings.get(&options::UNIX_SOCKETS)?;
    if !directory.is_empty() {
        listeners.unix(Path::new(&directory));
    }
    let port = listeners.port();
    let end = signals::on_termination(parts.waker()).map_err(CliError::failed)?;
    if let Some(election) = membership.election() {
        election.tenure().on_change(Arc::clone(&wake));
        if let (false, Some(log), Some((_, src))) = (membership.has_copy(), plant.log(), &place) {
            // Another directory's log must not be taken for this one.
            election.name_copies(1, Copies::of([common_log(src, log.writer_id().log)]));
        }
    }
    // A signal that came while the log was opened set the flag of the passive process only.
    if ended.is_some_and(|ended| signals::is_asked(&ended)) {
        end.store(true, Ordering::SeqCst);
        wake();
    }
    (globals.console, globals.port) = (program.console, port);
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
        handler,
        rules: Rules::new(&[], false, settings.is_on(&options::BLOCK_WRITES)?, allowed),
        timer: program.timer,
    };
    let waker = parts.waker();
    let (tap, watched) = Tap::new(move || drop(waker.wake()));
    let asked = Arc::clone(&end);
    let mut service = TickService::new(&env, plant, service_options, wake, end, watched).map_err(CliError::failed)?;
    service.set_audit(audit.clone());
    let mut reactor = Reactor::new(parts, listeners, access()?, net_limits, service).map_err(CliError::failed)?;
    reactor.set_sites(Sites::resolve(&settings)?);
    if settings.is_on(&options::METRICS_OPEN)? {
        reactor.open_pages(http::OPEN);
    }
    if let Some(door) = door {
        reactor.set_tls(door).map_err(CliError::failed)?;
    }
    reactor.set_watchdog(Watchdog::new(notifier.clone(), Instant::now()));
    drop(opening);
    notifier.ready(&format!("listening on {port}"));
    if let Some(fleet) = fleet {
        watch_notices(fleet).map_err(CliError::failed)?;
    }
    if !settings.is_on(&options::QUIET)? {
        let mut out = std::io::stdout();
        writeln!(out, "elastick tick is listening on {port}, {logs}")?;
        out.flush()?;
    }
    let _published = publishing.start(Some(tap))?;
    crate::q::intern_words();
    // Reserves symbol space for this thread, so that queries on other threads cannot use it up.
    symbol::claim();
    reactor.set_audit(audit.clone());
    let ended = reactor.run();
    audit.close();
    ended.map_err(CliError::failed)?;
    let plant = &reactor.service.plant;
    let failure = plant.failure().map(str::to_string);
    let hand_over = plant.requested_hand_over().cloned();
    let is_asked = signals::is_asked(&asked);
    drop(reactor);
    if !is_asked {
        let log = place.as_ref().map(|(dir, src)| Place { disk: &*env.disk, dir, src });
        membership.start_again(hand_over.zip(log), &asked)?;
    }
    match failure {
        Some(failure) => Err(CliError::Failed(failure)),
        None => Ok(()),
    }
}

/// Where clients of a passive tickerplant are told that this one is reached.
fn reached_at(settings: &Settings, listen: &Listen, port: u16) -> Result<String, CliError> {
    let name = || std::fs::read_to_string("/proc/sys/kernel/hostname").map(|name| name.trim().to_string());
    Ok(match (settings.find(&options::ADVERTISE)?, listen.host.as_str()) {
        (Some(address), _) if address.to_string().len() > MAX_ADDRESS_BYTES => {
            return Err(CliError::Usage(format!("--advertise: over {MAX_ADDRESS_BYTES} bytes")));
        }
        (Some(address), _) => address.to_string(),
        (None, "") => format!("{}:{port}", name()?),
        (None, host) => format!("{host}:{port}"),
    })
}

/// `-T`, capped by the limit of query time.
fn query_time(settings: &Settings, limits: &Limits) -> Result<Duration, CliError> {
    let requested = settings.get(&options::QUERY_TIME)?;
    let most = Duration::from_nanos(limits.query_time_ns);
    Ok(if requested.is_zero() { most } else { requested.min(most) })
}
