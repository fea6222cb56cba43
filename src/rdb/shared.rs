//! What the thread that ingests lets the others see, and what they tell it.

use super::capacity::CapacityCounters;
use super::policy::Phase;
use super::windows::Window;
use crate::sys::clock;
use crate::table::store::{SharedTables, Tables, Usage};
use crate::table::{Sym, Value};
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, RwLock};
use std::time::Instant;

/// A window as it was when the state was shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShownWindow {
    pub window: Window,
    /// Still being filled.
    pub open: bool,
}

/// Memory of a node, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct MemoryState {
    /// What the node may use.
    pub budget: u64,
    /// What it accounts for: rows, indexes, symbols, buffers, running queries; without a budget of its own, with what
    /// others on the server use.
    pub used: u64,
    pub store: Usage,
    pub buffers: u64,
    pub queries: u64,
    /// The operating system's figures: resident and of this process alone; used by everything on the server (or in the
    /// container), and what there is.
    pub resident: u64,
    pub system_used: u64,
    pub system_total: u64,
}

/// The state of a node.
#[derive(Clone, Debug)]
pub struct State {
    /// Names of the tables that windows count by.
    pub tables: Vec<Sym>,
    /// Those that queries see.
    pub windows: Arc<[ShownWindow]>,
    /// The store's changes when this was shown.
    pub changes: u64,
    pub phase: Phase,
    pub connected: bool,
    /// When the ingest thread showed this.
    pub shown_at: Instant,
    /// Since when it is live; none while it is not.
    pub live_since: Option<Instant>,
    /// Nodes that wait behind this one, as the tickerplant last told.
    pub waiting: Option<u64>,
    /// What the tickerplant speaks, once known.
    pub protocol: &'static str,
    /// Days from 2000.01.01.
    pub date: Option<i32>,
    /// The update expected next.
    pub next: Option<u64>,
    /// The log's tip as last told.
    pub tip: Option<u64>,
    pub memory: MemoryState,
    pub memory_percent: Option<f64>,
    pub scaled: bool,
    pub lead_ns: Option<i64>,
    /// From being made live until all that had been logged by then was taken in.
    pub catch_up_ns: Option<i64>,
    pub cushion: Option<f64>,
    pub bytes_per_second: Option<f64>,
    pub rows: u64,
    /// Updates taken in since the process started.
    pub updates_taken: u64,
    /// Updates refused because of their form.
    pub updates_refused: u64,
    /// Times that the connection was made anew because an update did not follow the one before.
    pub resyncs: u64,
}

impl Default for State {
    fn default() -> State {
        State {
            tables: Vec::new(),
            windows: Arc::default(),
            changes: 0,
            phase: Phase::Waiting,
            connected: false,
            shown_at: clock::now(),
            live_since: None,
            waiting: None,
            protocol: "",
            date: None,
            next: None,
            tip: None,
            memory: MemoryState::default(),
            memory_percent: None,
            scaled: false,
            lead_ns: None,
            catch_up_ns: None,
            cushion: None,
            bytes_per_second: None,
            rows: 0,
            updates_taken: 0,
            updates_refused: 0,
            resyncs: 0,
        }
    }
}

/// How a node ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ending {
    /// Asked to, by a signal or by the fleet.
    Asked,
    /// Its day is over and the fleet has taken it off its capacity.
    Terminated,
    /// It has left: what it held is held by others, or its time was over.
    Left,
    /// It cannot go on.
    Failed(String),
}

/// Tables, how many rows of each there were, and the state, all of one moment: a window that is begun, given away or shown is so in
/// both. Of an open one there may be more rows than the state says.
#[derive(Debug)]
pub struct Moment {
    pub tables: Arc<Tables>,
    /// Rows of each table, in order of definition.
    rows: Vec<usize>,
    pub state: Arc<State>,
}

impl Moment {
    /// A table as it was then.
    pub fn table(&self, name: Sym) -> Option<Value> {
        let (table, rows) = self.tables.iter().zip(&self.rows).find(|(table, _)| table.schema().name == name)?;
        Some(table.snapshot(*rows))
    }
}

/// Looks at tables and state until they are taken as they are: some milliseconds.
const LOOKS_MOST: u32 = 10_000;

type Wake = Box<dyn Fn() + Send + Sync>;

/// One for each node.
pub struct Shared {
    pub tables: SharedTables,
    state: RwLock<Arc<State>>,
    /// Queries that have not been answered.
    pub queries_open: AtomicU64,
    /// Messages of clients since the process started, and those that ended with an error.
    pub queries: AtomicU64,
    pub query_errors: AtomicU64,
    /// Bytes that running queries hold. Lives as long as the process: threads count in it.
    pub query_bytes: &'static AtomicI64,
    /// Bytes of what clients have assigned, an estimate.
    pub global_bytes: AtomicI64,
    /// Set by the ingest thread whenever it comes round.
    ingest_came_round: AtomicBool,
    stopping: AtomicBool,
    /// Someone wants the process to end, in good order.
    leave: AtomicBool,
    ending: Mutex<Option<Ending>>,
    wake: OnceLock<Wake>,
    /// What the fleet was asked, once there is one.
    fleet: OnceLock<Arc<CapacityCounters>>,
}

impl Shared {
    pub fn new(tables: SharedTables) -> Shared {
        Shared {
            tables,
            state: RwLock::default(),
            queries_open: AtomicU64::new(0),
            queries: AtomicU64::new(0),
            query_errors: AtomicU64::new(0),
            query_bytes: Box::leak(Box::default()),
            global_bytes: AtomicI64::new(0),
            ingest_came_round: AtomicBool::new(false),
            stopping: AtomicBool::new(false),
            leave: AtomicBool::new(false),
            ending: Mutex::new(None),
            wake: OnceLock::new(),
            fleet: OnceLock::new(),
        }
    }

    /// How to wake the thread that serves connections.
    pub fn set_wake(&self, wake: Wake) {
        let _ = self.wake.set(wake);
    }

    /// Where requests to the fleet are counted.
    pub fn set_fleet(&self, counters: Arc<CapacityCounters>) {
        let _ = self.fleet.set(counters);
    }

    pub fn fleet(&self) -> Option<&CapacityCounters> {
        self.fleet.get().map(Arc::as_ref)
    }

    pub fn state(&self) -> Arc<State> {
        Arc::clone(&self.state.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// What a query sees. The thread that ingests shows its state right after each change of windows, and before rows of a new one;
    /// should it be gone, what is there has to do.
    pub fn view(&self) -> Moment {
        let mut looks = 0u32;
        loop {
            let (state, tables) = (self.state(), self.tables.current());
            let rows = tables.iter().map(|table| table.rows()).collect();
            let same = tables.changes() == state.changes && Arc::ptr_eq(&state, &self.state());
            looks = looks.saturating_add(1);
            if same || looks > LOOKS_MOST {
                return Moment { tables, rows, state };
            }
            std::thread::yield_now();
        }
    }

    pub fn show(&self, state: State) {
        let state = Arc::new(state);
        *self.state.write().unwrap_or_else(PoisonError::into_inner) = state;
    }

    /// Ends the node; the first reason stays.
    pub fn end(&self, ending: Ending) {
        self.ending.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(ending);
        self.stopping.store(true, Ordering::SeqCst);
        if let Some(wake) = self.wake.get() {
            wake();
        }
    }

    /// The ingest thread lives.
    pub fn ingest_comes_round(&self) {
        self.ingest_came_round.store(true, Ordering::Relaxed);
    }

    /// Whether the ingest thread has come round since this was last asked.
    pub fn has_ingest_come_round(&self) -> bool {
        self.ingest_came_round.swap(false, Ordering::Relaxed)
    }

    /// Has the node leave.
    pub fn ask_to_leave(&self) {
        self.leave.store(true, Ordering::SeqCst);
    }

    /// Whether the node was asked to leave; true once.
    pub fn take_leave(&self) -> bool {
        self.leave.swap(false, Ordering::SeqCst)
    }

    pub fn is_ending(&self) -> bool {
        self.stopping.load(Ordering::SeqCst)
    }

    /// Why the node ends.
    pub fn ending(&self) -> Option<Ending> {
        self.ending.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}
