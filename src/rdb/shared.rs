//! State shared between the ingest thread, the query threads and the connection loop of one node.

use super::capacity::CapacityCounters;
use super::day_end::DayEnds;
use super::policy::Phase;
use super::windows::Window;
use crate::election::owner::{StallDetector, Watch};
use crate::q::SharedMemory;
use crate::sys::clock::Clock;
use crate::sys::shared::Shared as Slice;
use crate::table::store::{SharedTables, Tables, Usage};
use crate::table::{Sym, Value};
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, RwLock};
use std::time::{Duration, Instant};

/// A window as last published by the ingest thread.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShownWindow {
    pub window: Window,
    /// The open window: rows are still being appended.
    pub open: bool,
}

/// Memory use of a node, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct MemoryState {
    /// Bytes that the node may use.
    pub budget: u64,
    /// Bytes that count against the budget: rows, indexes, symbols, buffers, running queries. Without a configured
    /// budget, also the memory of other processes on the server.
    pub used: u64,
    /// `used` without running queries, which will give their memory back. The policy decides on it: a roll cannot be taken back.
    pub lasting: u64,
    pub store: Usage,
    pub buffers: u64,
    pub queries: u64,
    /// Rows of ended days that the owner's `.u.end` is still reading.
    pub ended: u64,
    /// The operating system's figures: resident memory of this process; memory used in the whole server (or container);
    /// its total.
    pub resident: u64,
    pub system_used: u64,
    pub system_total: u64,
}

/// State of a node as published to queries, metrics and health checks.
#[derive(Clone, Debug)]
pub struct State {
    /// Names of the tables, in the order of each window's counts.
    pub tables: Vec<Sym>,
    /// Windows visible to queries.
    pub windows: Arc<[ShownWindow]>,
    /// The store's change counter when this state was published.
    pub changes: u64,
    pub phase: Phase,
    pub connected: bool,
    /// Why the node takes no updates from a tickerplant that it can reach; `None` if it does.
    pub refused: Option<String>,
    /// When the ingest thread published this state.
    pub shown_at: Instant,
    /// When the node became live; `None` while it is not live.
    pub live_since: Option<Instant>,
    /// Standbys waiting behind this node, as last reported by the tickerplant.
    pub waiting: Option<u64>,
    /// Updates of the queue that no connected node serves, as last reported by the tickerplant.
    pub updates_unserved: u64,
    /// Number of instances of the fleet, if that is its maximum: it does not launch the successor that this live node has requested.
    pub fleet_max: Option<u32>,
    /// Protocol of the tickerplant (`elastick`, `paper`, `stock`); empty while unknown.
    pub protocol: &'static str,
    /// Days from 2000.01.01.
    pub date: Option<i32>,
    /// Index of the next expected update.
    pub next: Option<u64>,
    /// The log's tip as last reported.
    pub tip: Option<u64>,
    pub memory: MemoryState,
    pub memory_percent: Option<f64>,
    pub scaled: bool,
    pub lead_ns: Option<i64>,
    /// Time from becoming live until the node reached the tip of that moment.
    pub catch_up_ns: Option<i64>,
    pub cushion: Option<f64>,
    pub bytes_per_second: Option<f64>,
    pub rows: u64,
    /// Updates taken since the process started.
    pub updates_taken: u64,
    /// Updates that could not be taken: those that do not fit the schema, and those left out (`updates_left_out`).
    pub updates_refused: u64,
    /// Updates missing from the windows held, because they were rejected.
    pub updates_missing: u64,
    /// Reconnects caused by an update out of sequence.
    pub resyncs: u64,
    /// Exported as `elastick_windows_declined_total`, `elastick_windows_given_up_total` and `elastick_updates_left_out_total`.
    pub windows_declined: u64,
    pub windows_given_up: u64,
    pub updates_left_out: u64,
}

impl Default for State {
    fn default() -> State {
        State {
            tables: Vec::new(),
            windows: Arc::default(),
            changes: 0,
            phase: Phase::Waiting,
            connected: false,
            refused: None,
            shown_at: Instant::now(),
            live_since: None,
            waiting: None,
            updates_unserved: 0,
            fleet_max: None,
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
            updates_missing: 0,
            resyncs: 0,
            windows_declined: 0,
            windows_given_up: 0,
            updates_left_out: 0,
        }
    }
}

/// Why a node ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ending {
    /// A signal or the fleet requested it.
    Requested,
    /// The node's day is over and the fleet has taken it off its desired capacity.
    Terminated,
    /// The node has left: other nodes hold its windows, or its time to leave was over.
    Left,
    /// A fatal error.
    Failed(String),
}

/// A consistent view: tables, row counts and state of one moment. A window that opens, closes or is handed over appears
/// in both tables and state, or in neither. Only the open window may have more rows than the state counts, and it may
/// have closed since.
#[derive(Clone, Debug)]
pub struct Moment {
    pub tables: Arc<Tables>,
    /// Row count of each table, in order of definition.
    rows: Vec<usize>,
    pub state: Arc<State>,
}

impl Moment {
    /// Returns the rows, ascending, in which a grouped column of a table holds `symbol`, if an index knows them.
    pub fn rows_of(&self, column: &Slice<Sym>, symbol: Sym) -> Option<Vec<u32>> {
        self.tables.iter().find_map(|table| Some(table.index_of(column)?.rows(column, symbol)))
    }

    /// Returns a snapshot of the table at this moment.
    pub fn table(&self, name: Sym) -> Option<Value> {
        let (table, rows) = self.tables.iter().zip(&self.rows).find(|(table, _)| table.schema().name == name)?;
        Some(table.snapshot(*rows))
    }
}

/// How long a query retries for a consistent view; far longer than the ingest thread needs between changing tables and
/// publishing state.
const VIEW_WITHIN: Duration = Duration::from_secs(1);
/// Retries without a pause; a few suffice if only an append came between two loads.
const RETRIES_AT_ONCE: u32 = 100;
/// Pause between later retries.
const RETRY_PAUSE: Duration = Duration::from_micros(50);

type Wake = Box<dyn Fn() + Send + Sync>;

/// Shared state of one node.
pub struct Shared {
    clock: Arc<dyn Clock>,
    pub tables: SharedTables,
    state: RwLock<Arc<State>>,
    /// Queries that have no answer yet.
    pub queries_open: AtomicU64,
    /// Client messages since the process started, and those that ended with an error.
    pub queries: AtomicU64,
    pub query_errors: AtomicU64,
    /// Bytes held by running queries. `'static` because threads keep counting in it.
    pub query_bytes: &'static AtomicI64,
    /// What they may hold together: the memory that the rows leave.
    pub query_memory: Arc<SharedMemory>,
    /// Estimated bytes of client-defined globals.
    pub global_bytes: AtomicI64,
    /// Bytes of the globals of users whose roles restrict their rows.
    pub space_bytes: Arc<AtomicI64>,
    /// Ended days for the owner's `.u.end`.
    pub day_ends: DayEnds,
    /// Liveness flag: set by every iteration of the ingest thread, cleared by the watchdog.
    ingest_came_round: AtomicBool,
    stopping: AtomicBool,
    /// An orderly end was requested (SIGTERM): the node drains first.
    leave: AtomicBool,
    ending: Mutex<Option<Ending>>,
    wake: OnceLock<Wake>,
    wake_loop: OnceLock<Wake>,
    /// Counters of fleet requests; unset before the fleet thread starts.
    fleet: OnceLock<Arc<CapacityCounters>>,
    /// Set if the process keeps an owner's lease.
    detector: OnceLock<Arc<StallDetector>>,
    lease: OnceLock<Watch>,
}

impl Shared {
    pub fn new(clock: Arc<dyn Clock>, tables: SharedTables) -> Shared {
        let state = State { shown_at: clock.now(), ..State::default() };
        let query_bytes: &'static AtomicI64 = Box::leak(Box::default());
        Shared {
            clock,
            tables,
            state: RwLock::new(Arc::new(state)),
            queries_open: AtomicU64::new(0),
            queries: AtomicU64::new(0),
            query_errors: AtomicU64::new(0),
            query_bytes,
            query_memory: Arc::new(SharedMemory::new(query_bytes)),
            global_bytes: AtomicI64::new(0),
            space_bytes: Arc::default(),
            day_ends: DayEnds::default(),
            ingest_came_round: AtomicBool::new(false),
            stopping: AtomicBool::new(false),
            leave: AtomicBool::new(false),
            ending: Mutex::new(None),
            wake: OnceLock::new(),
            wake_loop: OnceLock::new(),
            fleet: OnceLock::new(),
            detector: OnceLock::new(),
            lease: OnceLock::new(),
        }
    }

    /// Sets the callback that wakes the connection loop when the node ends.
    pub fn set_wake(&self, wake: Wake) {
        let _ = self.wake.set(wake);
    }

    /// Sets the counters of fleet requests.
    pub fn set_fleet(&self, counters: Arc<CapacityCounters>) {
        let _ = self.fleet.set(counters);
    }

    pub fn fleet(&self) -> Option<&CapacityCounters> {
        self.fleet.get().map(Arc::as_ref)
    }

    pub fn set_stall_detector(&self, detector: Arc<StallDetector>) {
        let _ = self.detector.set(detector);
    }

    pub fn set_lease(&self, lease: Watch) {
        let _ = self.lease.set(lease);
    }

    /// Returns what is wrong with the owner's lease, if the process keeps one.
    pub fn lease_trouble(&self) -> Option<String> {
        self.lease.get().and_then(Watch::trouble)
    }

    /// Whether the process stood still for longer than its lease lasts and has not joined since: others may hold its windows by now.
    pub fn has_stalled(&self) -> bool {
        self.detector.get().is_some_and(|detector| detector.has_stalled())
    }

    /// The node has joined, or takes part in no queue.
    pub fn settle_doubt(&self) {
        if let Some(detector) = self.detector.get() {
            detector.joined();
        }
    }

    /// Returns the latest published state.
    pub fn state(&self) -> Arc<State> {
        Arc::clone(&self.state.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Returns a consistent view of tables and state for one query. Tables only grow, so equal row counts before and
    /// after the load prove that all counts held at one moment. The ingest thread publishes its state after each change
    /// that adds, hands over or hides rows, and before the rows of a new window; the change counters then agree. If it
    /// dies in between, the query gets the latest available view after one second.
    pub fn view(&self) -> Moment {
        let (mut looks, mut since) = (0u32, None);
        loop {
            let (state, tables) = (self.state(), self.tables.current());
            let rows: Vec<usize> = tables.iter().map(|table| table.rows()).collect();
            let same = tables.iter().zip(&rows).all(|(table, rows)| table.rows() == *rows)
                && tables.changes() == state.changes
                && Arc::ptr_eq(&state, &self.state());
            if same {
                return Moment { tables, rows, state };
            }
            looks = looks.saturating_add(1);
            if looks < RETRIES_AT_ONCE {
                std::thread::yield_now();
                continue;
            }
            if self.clock.since(*since.get_or_insert_with(|| self.clock.now())) >= VIEW_WITHIN {
                return Moment { tables, rows, state };
            }
            self.clock.sleep(RETRY_PAUSE);
        }
    }

    /// Publishes a state.
    pub fn show(&self, state: State) {
        let state = Arc::new(state);
        *self.state.write().unwrap_or_else(PoisonError::into_inner) = state;
    }

    /// Ends the node; the first reason given is kept.
    pub fn end(&self, ending: Ending) {
        self.ending.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(ending);
        self.stopping.store(true, Ordering::SeqCst);
        if let Some(wake) = self.wake.get() {
            wake();
        }
    }

    /// Sets the callback that wakes the connection loop while the node goes on.
    pub fn set_wake_loop(&self, wake_loop: Wake) {
        let _ = self.wake_loop.set(wake_loop);
    }

    /// Wakes the connection loop to pick up queued work.
    pub fn wake_loop(&self) {
        if let Some(wake_loop) = self.wake_loop.get() {
            wake_loop();
        }
    }

    /// Records one iteration of the ingest thread for the watchdog.
    pub fn ingest_comes_round(&self) {
        self.ingest_came_round.store(true, Ordering::Relaxed);
    }

    /// Returns whether the ingest thread has iterated since the last call.
    pub fn has_ingest_come_round(&self) -> bool {
        self.ingest_came_round.swap(false, Ordering::Relaxed)
    }

    /// Requests an orderly leave.
    pub fn request_leave(&self) {
        self.leave.store(true, Ordering::SeqCst);
    }

    /// Returns whether a leave was requested, and clears the request.
    pub fn take_leave(&self) -> bool {
        self.leave.swap(false, Ordering::SeqCst)
    }

    pub fn is_ending(&self) -> bool {
        self.stopping.load(Ordering::SeqCst)
    }

    /// Returns why the node ends; `None` while it runs.
    pub fn ending(&self) -> Option<Ending> {
        self.ending.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys::clock::SystemClock;
    use crate::table::Schema;
    use crate::table::schema::ColumnSchema;
    use crate::table::store::Store;
    use crate::table::symbol::intern;
    use crate::table::vector::Attr;
    use proto::types::LONG;

    /// A clock that moves only while a thread sleeps.
    struct Sleeper {
        began: Instant,
        slept: Mutex<Duration>,
    }

    impl Clock for Sleeper {
        fn now(&self) -> Instant {
            self.began + self.wall()
        }

        fn wall(&self) -> Duration {
            *self.slept.lock().unwrap()
        }

        fn since_boot(&self) -> Duration {
            self.wall()
        }

        fn sleep(&self, time: Duration) {
            *self.slept.lock().unwrap() += time;
        }
    }

    /// A store of tables that have one long column each.
    fn store(tables: &[&str]) -> Store {
        let symbol = |name: &str| intern(name.as_bytes()).expect("there is room");
        let column = ColumnSchema { name: symbol("n"), ty: LONG, attr: Attr::None };
        let schema = |name: &&str| Schema { name: symbol(name), columns: vec![column], keys: 0 };
        let mut store = Store::new(1 << 20);
        store.define(tables.iter().map(schema)).expect("there is address space");
        store
    }

    #[test]
    fn no_query_sees_a_trade_without_the_quote_before_it() {
        const ROUNDS: usize = 100_000;
        let mut store = store(&["quote", "trade"]);
        let shared = Shared::new(Arc::new(SystemClock), store.shared());
        shared.show(State { changes: store.changes(), ..State::default() });
        // A vector of one long.
        let row = [&[LONG as u8, 0, 1, 0, 0, 0][..], &[0; 8]].concat();
        std::thread::scope(|scope| {
            let feed = scope.spawn(|| {
                for _ in 0..ROUNDS {
                    (0..2).for_each(|table| _ = store.append(table, 1, &row).expect("there is room"));
                }
            });
            while !feed.is_finished() {
                let view = shared.view();
                let [quotes, trades] = view.rows[..] else { panic!("{:?}", view.rows) };
                assert!((trades..=trades + 1).contains(&quotes), "{quotes} quotes, {trades} trades");
            }
        });
        assert_eq!(shared.view().rows, [ROUNDS, ROUNDS]);
    }

    #[test]
    fn a_query_does_not_wait_for_ever_for_a_state_that_is_not_shown() {
        let store = store(&["trade"]);
        let clock = Arc::new(Sleeper { began: Instant::now(), slept: Mutex::default() });
        let shared = Shared::new(Arc::clone(&clock) as _, store.shared());
        let view = shared.view();
        let waited = clock.since(clock.began);
        assert!((VIEW_WITHIN..VIEW_WITHIN * 2).contains(&waited), "{waited:?}");
        assert_ne!(view.tables.changes(), view.state.changes);
    }
}
