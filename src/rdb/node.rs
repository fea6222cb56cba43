//! Builds a node from its parts: listeners, connection loop, ingest thread, query pool and fleet thread.

use super::announce;
use super::capacity::{self, Link};
use super::ingest::{Identity, Ingest};
use super::meter::Meter;
use super::options::NodeOptions;
use super::outlet::{LoopMessage, Outlet};
use super::pool::{Bounds, Pool};
use super::report::Constants;
use super::scope::NodeScope;
use super::service::{Queries, Stop, Watched};
use super::shared::{Ending, Shared};
use crate::access::{self, Access, listen_on, log_who_may_connect};
use crate::audit::Audit;
use crate::election::owner::{StallDetector, Watch};
use crate::env::Env;
use crate::env::task::Running;
use crate::fleet::{self, Fleet};
use crate::metrics::Tap;
use crate::net::outgoing::SendLimits;
use crate::net::tls::Door;
use crate::net::web_remote::Web;
use crate::net::{Listeners, NetLimits, Notifier, Parts, Reactor, Watchdog, http, remote, signals};
use crate::q::handlers::Handler;
use crate::q::handles::Handles;
use crate::q::startup::{self, Startup, StartupError};
use crate::q::{self, Rules};
use crate::sys::memory::Sources;
use crate::table::store::Store;
use crate::table::symbol;
use std::collections::BTreeSet;
use std::io;
use std::path::Path;
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Lower bound of a query's memory limit, which is otherwise the node's memory divided by the number of query threads.
const MIN_QUERY_MEMORY_BYTES: u64 = 64 << 20;
/// The node's memory divided by this is kept for small queries. With 8, 1 GiB and 4 query threads, each thread may use 32 MiB whatever others use.
const EACH_PARTS: u64 = 8;

/// Handles opened by the node are numbered from the maximum number of connections plus this; client handles start at 5.
const FIRST_OPENED: i32 = 100;

/// Callbacks of a subscriber written in q. A node takes updates natively and never calls them, so defining one is an error.
const NEVER_CALLED: [&[u8]; 3] = [b"upd", b".u.upd", b".u.rep"];

/// A node that listens and has not started running.
pub struct Node {
    reactor: Reactor<Queries>,
    ingest: Ingest,
    shared: Arc<Shared>,
    identity: Identity,
    tap: Option<Tap>,
    audit: Audit,
    /// The thread that calls the fleet.
    fleet_calls: Box<dyn Running>,
}

/// Returns a unique node name: host, process id and start time in milliseconds.
fn own_name() -> String {
    let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |now| now.as_millis());
    format!("{host}-{}-{now}", std::process::id())
}

/// Result of evaluating the start-up files.
pub struct Evaluated {
    pub startup: Startup,
    pub handles: Arc<Handles>,
    outlet: Outlet,
    messages: mpsc::Receiver<LoopMessage>,
}

impl Evaluated {
    /// Evaluates the start-up files.
    ///
    /// # Errors
    /// The first file that cannot be evaluated, a definition of `upd` and its like, or a `.u.end` that does not take
    /// one argument.
    pub fn load(options: &NodeOptions, print: impl FnMut(&[u8])) -> Result<Evaluated, StartupError> {
        symbol::set_limits(options.limits.of_symbols());
        // Handle numbers below this belong to client connections.
        let first = i32::try_from(options.limits.connections).unwrap_or(i32::MAX).saturating_add(FIRST_OPENED);
        let (outlet, messages) = Outlet::new();
        let to_loop = outlet.clone();
        let tell = Arc::new(move |inbox| to_loop.send(LoopMessage::Received(inbox)));
        let send_limits = SendLimits::new(options.limits.outbox_bytes, options.limits.outboxes_bytes);
        let connector = remote::connector(tell, Web::of(&options.limits, None), send_limits);
        let handles = Arc::new(Handles::numbered_once(Some(connector), first));
        let startup =
            startup::load(&options.commands, &options.load, Arc::clone(&handles), options.helper_threads, print)?;
        if let Some((name, _)) = startup.globals.iter().find(|(name, _)| NEVER_CALLED.contains(&symbol::text(*name))) {
            return Err(StartupError::NeverCalled(format!(
                "the start-up files define {}, which a node never calls: it stores updates itself. To process each \
                 update, subscribe to the tickerplant from a separate process (.u.sub, in elastick q or any q); \
                 for periodic work set .z.ts and \\t, and for the end of the day .u.end",
                symbol::text(*name).escape_ascii()
            )));
        }
        let end_of_day = startup.globals.iter().find(|(name, _)| symbol::text(*name) == b".u.end");
        if let Some((_, f)) = end_of_day
            && !q::takes(f, 1)
        {
            return Err(StartupError::NeverCalled(
                ".u.end in the start-up files is not a function of one argument: a node calls .u.end[date] at the \
                 end of the day, to save its rows"
                    .to_owned(),
            ));
        }
        Ok(Evaluated { startup, handles, outlet, messages })
    }
}

/// Returns how logins are checked: by the users file, by `.z.pw`, or not at all.
fn access(options: &NodeOptions, program: &Evaluated) -> io::Result<Box<dyn Access>> {
    let has_handler = program.startup.globals.iter().any(|(name, _)| symbol::text(*name) == Handler::Login.name());
    access::open(options.users.as_deref(), BTreeSet::new(), has_handler).map_err(io::Error::other)
}

/// Returns the access rules of clients, which protect the files that the node reads at its start.
fn rules(options: &NodeOptions, startup: &Startup) -> io::Result<Rules> {
    let allowed = match &options.allow {
        Some(path) => Some(q::allow_list(path).map_err(|error| named("--allow", path, &error))?),
        None => None,
    };
    let lists = options.allow.iter().chain(&options.users).filter_map(|path| path.canonicalize().ok());
    let guarded = lists.chain(startup.files.iter().cloned()).collect();
    let rules = Rules::new(&options.remote_may, options.kept_inside, options.block_writes, allowed);
    Ok(Rules { guarded, ..rules })
}

/// Opens the audit log, if there is to be one.
fn audit(options: &NodeOptions, identity: &Identity) -> io::Result<Audit> {
    match &options.audit {
        Some(of_file) => Audit::start(of_file, format!("rdb {}", identity.node), &options.limits),
        None => Ok(Audit::default()),
    }
}

/// Returns the memory limit of a query, where `share_bytes` are the node's memory by query thread.
fn query_memory(shared: &Shared, share_bytes: u64, limit_bytes: u64) -> u64 {
    shared.query_memory.set_each(MIN_QUERY_MEMORY_BYTES.min(share_bytes / EACH_PARTS));
    limit_bytes.min(share_bytes.max(MIN_QUERY_MEMORY_BYTES))
}

/// Binds the port and acquires everything that can fail at the start.
///
/// # Errors
/// The port, the password file, the allow list or the system's memory figures are unavailable; a name cannot be interned, or
/// a thread cannot start.
pub fn prepare(
    env: Env,
    options: NodeOptions,
    fleet: Box<dyn Fleet>,
    program: Evaluated,
    notifier: &Notifier,
) -> io::Result<Node> {
    let options = Arc::new(options);
    let access = access(&options, &program)?;
    let listen = listen_on(options.listen.clone(), access.is_checked(), options.open).map_err(io::Error::other)?;
    let mut listeners = Listeners::tcp(&listen)?;
    log_who_may_connect(options.users.as_deref(), access.is_checked(), options.open);
    if let Some(directory) = &options.unix_sockets {
        listeners.unix(directory);
    }
    let queue = options.queue.clone().unwrap_or_else(|| fleet.identity().group.clone());
    let node = options.node.clone().unwrap_or_else(own_name);
    // Random, so that no other process can take over the name while this one is connected.
    let process = format!("{:016x}", env.disk.draw());
    let fleet::Identity { group, instance } = fleet.identity().clone();
    let identity = Identity { node, queue, port: listeners.port(), group, instance, process };

    let meter = Meter::new(Sources::default(), options.memory_bytes);
    let budget_bytes = meter.budget_bytes()?;
    announce::log_memory(&options, budget_bytes, &identity.queue, fleet.exists());
    let store = Store::new(usize::try_from(budget_bytes).unwrap_or(usize::MAX));
    let shared = Arc::new(Shared::new(Arc::clone(&env.clock), store.shared()));
    let parts = Parts::new()?;
    let waker = parts.waker();
    let termination = signals::on_departure(Arc::clone(&waker))?;
    let (on_end, on_request) = (Arc::clone(&waker), Arc::clone(&waker));
    let to_manager = notifier.clone();
    shared.set_wake(Box::new(move || {
        to_manager.stopping();
        // The loop may already be gone.
        let _ = on_end.wake();
    }));

    let name = |text: &str| symbol::intern(text.as_bytes()).map_err(|error| io::Error::other(error.to_string()));
    let constants = Constants {
        node: name(&identity.node)?,
        queue: name(&identity.queue)?,
        port: identity.port,
        policy: options.policy.clone(),
        instance: identity.instance.clone(),
        group: identity.group.clone(),
    };
    let shown = constants.clone();
    let threads = options.query_threads.max(1);
    let memory_bytes = query_memory(&shared, budget_bytes / threads as u64, options.limits.query_memory_bytes);
    let bounds = Bounds {
        time: options.query_time,
        handler_time: Duration::from_nanos(options.limits.handler_time_ns),
        day_end_time: Duration::from_nanos(options.limits.day_end_time_ns),
        day_end_memory_bytes: budget_bytes.max(memory_bytes),
        memory_bytes,
        result_bytes: memory_bytes,
        symbols: options.limits.query_symbols,
        message_depth: options.limits.codec().max_depth,
    };
    let rules = rules(&options, &program.startup)?;
    let Evaluated { startup, handles, outlet, messages } = program;
    let wake_loop = Arc::clone(&waker);
    shared.set_wake_loop(Box::new(move || drop(wake_loop.wake())));
    outlet.wakes(move || drop(waker.wake()));
    if startup.globals.iter().any(|(name, _)| symbol::text(*name) == Handler::DayEnd.name()) {
        shared.day_ends.start_keeping(bounds.day_end_time);
    }
    let sizes = (memory_bytes, threads, &options.limits);
    let scope = NodeScope::new(Arc::clone(&shared), constants, rules, sizes, startup, handles, outlet);
    let scope = Arc::new(scope.map_err(|error| io::Error::other(error.to_string()))?);
    let pool = Pool::start(Arc::clone(&scope), bounds)?;
    let (tap, requests) = Tap::new(move || drop(on_request.wake()));
    let watched = Watched { constants: shown, limits: options.limits.clone(), requests };
    let stop = Stop::new(termination, options.leave_within.is_some_and(|within| !within.is_zero()));
    let audit = audit(&options, &identity)?;
    let queries = Queries::new(scope, pool, messages, stop, watched, audit.clone());
    let mut reactor = Reactor::new(parts, listeners, access, NetLimits::of(&options.limits), queries)?;
    reactor.set_sites(options.sites.clone());
    reactor.set_audit(audit.clone());
    if options.metrics_open {
        reactor.open_pages(http::OPEN);
    }
    reactor.set_watchdog(Watchdog::new(notifier.clone(), Instant::now()));
    let Link { requests, answers, counters, running } = capacity::start(&env, fleet, options.launch_timeout)?;
    shared.set_fleet(counters);
    let ingest = Ingest::new(env, options, identity.clone(), Arc::clone(&shared), store, meter, (requests, answers))?;
    Ok(Node { reactor, ingest, shared, identity, tap: Some(tap), audit, fleet_calls: running })
}

fn named(option: &str, path: &Path, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{option}, {}: {error}", path.display()))
}

impl Node {
    pub fn identity(&self) -> &Identity {
        &self.identity
    }

    /// Returns the source of metrics snapshots for the publisher; once.
    pub fn tap(&mut self) -> Option<Tap> {
        self.tap.take()
    }

    /// Lets queries be rejected after a pause of the process, until the node has joined again.
    pub fn set_stall_detector(&self, detector: Arc<StallDetector>) {
        self.shared.set_stall_detector(detector);
    }

    /// Shows what is wrong with the owner's lease.
    pub fn set_lease(&self, lease: Watch) {
        self.shared.set_lease(lease);
    }

    /// Takes clients with TLS.
    ///
    /// # Errors
    /// The system has no thread left.
    pub fn set_tls(&mut self, door: Arc<Door>) -> io::Result<()> {
        self.reactor.set_tls(door)
    }

    /// Runs until the node ends, and returns why. `ready` is passed to [`Ingest::run`]; clients may connect before it
    /// is called.
    ///
    /// # Errors
    /// The system has no thread or no readiness queue left.
    pub fn run(self, ready: impl FnOnce() + Send + 'static) -> io::Result<Ending> {
        let Node { mut reactor, mut ingest, shared, audit, fleet_calls: _fleet_calls, .. } = self;
        let guard = EndsWithThread(Arc::clone(&shared));
        let thread = crate::sys::stack::thread("ingest".into()).spawn(move || {
            let _guard = guard;
            let _span = ingest.span().entered();
            crate::q::intern_words();
            symbol::claim();
            ingest.run(ready);
        })?;
        let ended = reactor.run();
        audit.close();
        ended?;
        shared.end(Ending::Requested);
        // A panic was printed already, and the guard has recorded it.
        let _ = thread.join();
        let ending = shared.ending().unwrap_or(Ending::Requested);
        if ending == Ending::Requested {
            announce::log_end(&shared.state());
        }
        Ok(ending)
    }
}

/// Ends the node with its ingest thread: without one, queries would return ever staler rows.
struct EndsWithThread(Arc<Shared>);

impl Drop for EndsWithThread {
    fn drop(&mut self) {
        self.0.end(match std::thread::panicking() {
            true => Ending::Failed("internal error in the ingest thread".to_string()),
            false => Ending::Requested,
        });
    }
}
