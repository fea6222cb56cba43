//! State shared by all evaluations of a node.

use super::effects::Out;
use super::globals::{Globals, SharedGlobals};
use super::outlet::{LoopMessage, Outlet};
use super::pool::{Job, Line};
use super::report::Constants;
use super::shared::Shared;
use super::spaces::Spaces;
use crate::config::Limits;
use crate::env::job_queue::JobQueue;
use crate::net::client::Incoming;
use crate::net::{ConnId, Deferred, SyncRequest};
use crate::q::guard::Asking;
use crate::q::handlers::Handler;
use crate::q::handles::Handles;
use crate::q::startup::Startup;
use crate::q::{Console, QError, Rules, Settings};
use crate::table::{Sym, Value, symbol};
use bytes::Bytes;
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::atomic::AtomicU64;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// The node's own variables, with what each holds: `\help NAME`.
pub const NAMES: [(&str, &str); 4] = [
    (".rdb.windows", "windows that the node holds, with rows and hash of each table"),
    (".rdb.stats", "statistics of the node"),
    (".rdb.windowsV1", "as .rdb.windows, with the names of the first version"),
    (".rdb.statsV1", "as .rdb.stats, with the names of the first version"),
];

/// Wire protocol of an open connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WireProtocol {
    Ipc,
    Web,
}

/// An open connection of a client.
#[derive(Clone, Copy, Debug)]
pub struct Link {
    pub conn: ConnId,
    pub protocol: WireProtocol,
    /// What its client has set by `\c` and `\P`.
    pub console: Option<Console>,
    /// Where its `\d` has led.
    pub namespace: Sym,
}

/// Shared state of a node's evaluations.
pub struct NodeScope {
    pub shared: Arc<Shared>,
    pub globals: SharedGlobals,
    pub constants: Constants,
    pub rules: Rules,
    /// Maximum bytes of client-defined globals.
    pub global_bytes_most: u64,
    /// Globals of users whose roles restrict their rows.
    pub spaces: Spaces,
    /// Connections opened by start-up files and queries.
    pub handles: Arc<Handles>,
    pub timer_ms: AtomicU64,
    pub console: Console,
    pub settings: Settings,
    /// Threads that one evaluation may use.
    pub threads: usize,
    pub(super) windows: Sym,
    pub(super) stats: Sym,
    pub(super) windows_v1: Sym,
    pub(super) stats_v1: Sym,
    pub(super) day_end: Sym,
    /// Messages to evaluate.
    pub queries: JobQueue<Job>,
    /// Longest wait for a client's response.
    pub client_wait: Duration,
    pub outlet: Outlet,
    connections: Mutex<BTreeMap<i32, Link>>,
    /// Evaluations that wait for a client's response, in the order of their requests.
    awaited: Mutex<HashMap<ConnId, VecDeque<Sender<Incoming>>>>,
    /// Deferred requests, by handle of their connection.
    deferred: Mutex<Deferred>,
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl NodeScope {
    /// Creates the scope with the definitions of the start-up files.
    ///
    /// # Errors
    /// Too many names.
    pub fn new(
        shared: Arc<Shared>,
        constants: Constants,
        rules: Rules,
        (global_bytes_most, threads, limits): (u64, usize, &Limits),
        startup: Startup,
        handles: Arc<Handles>,
        outlet: Outlet,
    ) -> Result<NodeScope, QError> {
        let mut globals = Globals::default();
        for (name, value) in startup.globals {
            globals.authors.note(name, &value, &Asking::default());
            globals.set(name, value)?;
        }
        globals.authors.start();
        let name = |text: &[u8]| symbol::intern(text).unwrap_or(Sym::NULL);
        let own = |at: usize| name(NAMES.get(at).map_or(&[][..], |(text, _)| text.as_bytes()));
        let spaces = Spaces::new(limits.user_globals_bytes, Arc::clone(&shared.space_bytes));
        Ok(NodeScope {
            spaces,
            shared,
            globals: globals.into(),
            constants,
            rules,
            global_bytes_most,
            handles,
            timer_ms: AtomicU64::new(startup.timer_ms),
            console: startup.console,
            settings: startup.settings,
            threads: startup.threads,
            windows: own(0),
            stats: own(1),
            windows_v1: own(2),
            stats_v1: own(3),
            day_end: name(Handler::DayEnd.name()),
            queries: JobQueue::new(threads, usize::try_from(limits.client_waits).unwrap_or(usize::MAX)),
            client_wait: Duration::from_nanos(limits.client_wait_ns),
            outlet,
            connections: Mutex::default(),
            awaited: Mutex::default(),
            deferred: Mutex::default(),
        })
    }

    /// Returns the value of a handler; `None` if it is not set.
    pub fn handler(&self, handler: Handler) -> Option<Value> {
        self.globals.current().get(symbol::find(handler.name())?).cloned()
    }

    /// Client connections by handle.
    pub fn connections(&self) -> MutexGuard<'_, BTreeMap<i32, Link>> {
        locked(&self.connections)
    }

    /// Sends a sync request to a client. The receiver gets the response; it disconnects if the connection is gone.
    pub fn send_request(&self, conn: ConnId, before: Vec<Out>, message: Bytes) -> Receiver<Incoming> {
        let (answer, answered) = channel();
        locked(&self.awaited).entry(conn).or_default().push_back(answer);
        self.outlet.send(LoopMessage::Request { conn, before, message });
        answered
    }

    /// Passes a client's response to the waiting evaluation. Returns whether further responses of this client are awaited.
    pub fn answered(&self, conn: ConnId, answer: Incoming) -> bool {
        let mut awaited = locked(&self.awaited);
        let Some(waiting) = awaited.get_mut(&conn) else { return false };
        if let Some(one) = waiting.pop_front() {
            // The evaluation may have timed out.
            let _ = one.send(answer);
        }
        let more = !waiting.is_empty();
        if !more {
            awaited.remove(&conn);
        }
        more
    }

    /// Returns whether a response of this client is awaited.
    pub fn is_awaited(&self, conn: ConnId) -> bool {
        locked(&self.awaited).contains_key(&conn)
    }

    /// Drops the waiters for a closed connection.
    pub fn drop_waiters(&self, conn: ConnId) {
        locked(&self.awaited).remove(&conn);
    }

    pub fn defer(&self, request: SyncRequest) {
        locked(&self.deferred).insert(request);
    }

    /// Takes back a deferred request. Returns false if another evaluation has answered it.
    pub fn undefer(&self, request: SyncRequest) -> bool {
        locked(&self.deferred).remove(request)
    }

    /// Restores deferred requests that an evaluation took but did not answer, if their connection is still open.
    pub fn defer_again(&self, waiting: Vec<(i32, SyncRequest)>) {
        for (handle, request) in waiting {
            if self.connections().contains_key(&handle) {
                self.defer(request);
            }
        }
    }

    pub fn take_deferred(&self, handle: i32) -> Option<SyncRequest> {
        locked(&self.deferred).take(handle)
    }

    /// Console of the client of a connection: its own settings, or the node's.
    pub fn console_of(&self, handle: i32) -> Console {
        locked(&self.connections).get(&handle).and_then(|link| link.console).unwrap_or(self.console)
    }

    /// Keeps the `\c` and `\P` of a client until its connection closes.
    pub fn set_console_of(&self, handle: i32, console: Console) {
        if let Some(link) = locked(&self.connections).get_mut(&handle) {
            link.console = Some(console);
        }
    }

    /// Namespace in which messages of a connection are evaluated.
    pub fn namespace_of(&self, handle: i32) -> Sym {
        locked(&self.connections).get(&handle).map_or(Sym::NULL, |link| link.namespace)
    }

    /// Keeps the namespace in which a message has ended for the next one of the connection.
    pub fn set_namespace_of(&self, handle: i32, namespace: Sym) {
        if let Some(link) = locked(&self.connections).get_mut(&handle) {
            link.namespace = namespace;
        }
    }

    /// Releases the resources of a closed connection: handles opened by its evaluations, and its deferred requests.
    pub fn forget(&self, line: Line) {
        self.handles.close_those_of(line.owner());
        if let Line::Client(conn) = line {
            locked(&self.deferred).forget(conn);
        }
    }
}
