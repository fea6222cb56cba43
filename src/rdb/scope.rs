//! What all evaluations of a node share.

use super::globals::{Globals, SharedGlobals};
use super::report::Constants;
use super::shared::Shared;
use crate::net::{ConnId, Request};
use crate::q::handles::Handles;
use crate::q::startup::Startup;
use crate::q::{Console, QError, Rules, Settings};
use crate::table::{Sym, Value, symbol};
use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The handlers that a start-up file may set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Handler {
    /// `.z.pg`: a sync message.
    Get,
    /// `.z.ps`: an async message.
    Set,
    /// `.z.pw`: user and password.
    Login,
    /// `.z.po` and `.z.pc`: a connection has come, is gone.
    Opened,
    Closed,
    /// `.z.wo` and `.z.wc`: the same of WebSocket connections.
    WebOpened,
    WebClosed,
    /// `.z.ws`: a WebSocket message.
    Web,
    /// `.z.ph` and `.z.pp`: HTTP's GET and POST.
    Page,
    Post,
    /// `.z.ts`: the timer.
    Timer,
    /// `.z.exit`: the process ends.
    Exit,
}

impl Handler {
    fn name(self) -> &'static [u8] {
        match self {
            Handler::Get => b".z.pg",
            Handler::Set => b".z.ps",
            Handler::Login => b".z.pw",
            Handler::Opened => b".z.po",
            Handler::Closed => b".z.pc",
            Handler::WebOpened => b".z.wo",
            Handler::WebClosed => b".z.wc",
            Handler::Web => b".z.ws",
            Handler::Page => b".z.ph",
            Handler::Post => b".z.pp",
            Handler::Timer => b".z.ts",
            Handler::Exit => b".z.exit",
        }
    }
}

/// How an open connection is spoken to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Spoken {
    Ipc,
    Web,
}

/// One for each node.
pub struct NodeScope {
    pub shared: Arc<Shared>,
    pub globals: SharedGlobals,
    pub constants: Constants,
    pub rules: Rules,
    /// Most bytes that clients may hold in what they assign.
    pub global_bytes_most: u64,
    /// Those that start-up files and queries have opened.
    pub handles: Arc<Handles>,
    pub timer_ms: AtomicU64,
    pub console: Console,
    pub settings: Settings,
    /// Threads that one evaluation may use.
    pub threads: usize,
    pub(super) windows: Sym,
    pub(super) stats: Sym,
    connections: Mutex<BTreeMap<i32, Spoken>>,
    /// Messages whose answer was put off, by their connection's handle.
    deferred: Mutex<HashMap<i32, Request>>,
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl NodeScope {
    /// With what the start-up files have defined.
    ///
    /// # Errors
    /// More names than a node takes.
    pub fn new(
        shared: Arc<Shared>,
        constants: Constants,
        rules: Rules,
        global_bytes_most: u64,
        startup: Startup,
        handles: Arc<Handles>,
    ) -> Result<NodeScope, QError> {
        let mut globals = Globals::default();
        for (name, value) in startup.globals {
            globals.set(name, value)?;
        }
        let name = |text: &[u8]| symbol::intern(text).unwrap_or(Sym::NULL);
        Ok(NodeScope {
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
            windows: name(b".rdb.windows"),
            stats: name(b".rdb.stats"),
            connections: Mutex::default(),
            deferred: Mutex::default(),
        })
    }

    /// What is to be called, if it is set.
    pub fn handler(&self, handler: Handler) -> Option<Value> {
        self.globals.current().get(symbol::find(handler.name())?).cloned()
    }

    /// Clients' connections by handle.
    pub fn connections(&self) -> MutexGuard<'_, BTreeMap<i32, Spoken>> {
        locked(&self.connections)
    }

    pub fn defer(&self, handle: i32, request: Request) {
        locked(&self.deferred).insert(handle, request);
    }

    pub fn take_deferred(&self, handle: i32) -> Option<Request> {
        locked(&self.deferred).remove(&handle)
    }

    /// Forgets what hangs on a connection that is gone: handles that it opened, answers that it waits for.
    pub fn forget(&self, conn: ConnId) {
        self.handles.close_those_of(conn.number());
        locked(&self.deferred).retain(|_, request| request.conn != conn);
    }
}
