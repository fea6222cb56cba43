//! What the thread that ingests lets the others see, and what they tell it.

use super::capacity::CapacityCounters;
use super::day_end::DayEnds;
use super::policy::Phase;
use super::windows::Window;
use crate::sys::clock;
use crate::table::store::{SharedTables, Tables, Usage};
use crate::table::{Sym, Value};
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, RwLock};
use std::time::{Duration, Instant};

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
    /// Rows of ended days that the owner's `.u.end` still reads.
    pub ended: u64,
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
    /// Why nothing is taken from the tickerplant that answers, where one does.
    pub refused: Option<String>,
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
    /// Of the windows held.
    pub updates_missing: u64,
    /// Times that the connection was made anew because an update did not follow the one before.
    pub resyncs: u64,
    /// See `elastick_windows_declined_total` and its neighbours.
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
            updates_missing: 0,
            resyncs: 0,
            windows_declined: 0,
            windows_given_up: 0,
            updates_left_out: 0,
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
/// both. Of one that the state calls open there may be more rows than it says, and it may have been closed.
#[derive(Clone, Debug)]
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

/// How long a query waits for tables and state of one moment: longer than it takes to change both.
const VIEW_WITHIN: Duration = Duration::from_secs(1);
/// Looks at them one right after the other; where the counts only have to stand still between two loads, few are needed.
const LOOKS_AT_ONCE: u32 = 100;
/// Between any two later ones.
const LOOK_PAUSE: Duration = Duration::from_micros(50);

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
    /// Ended days that the owner's `.u.end` is called for.
    pub day_ends: DayEnds,
    /// Set by the ingest thread whenever it comes round.
    ingest_came_round: AtomicBool,
    stopping: AtomicBool,
    /// Someone wants the process to end, in good order.
    leave: AtomicBool,
    ending: Mutex<Option<Ending>>,
    wake: OnceLock<Wake>,
    nudge: OnceLock<Wake>,
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
            day_ends: DayEnds::default(),
            ingest_came_round: AtomicBool::new(false),
            stopping: AtomicBool::new(false),
            leave: AtomicBool::new(false),
            ending: Mutex::new(None),
            wake: OnceLock::new(),
            nudge: OnceLock::new(),
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

    /// What a query sees. The rows of a table only become more: where two counts of all tables find the same, all were so at the
    /// moment between them. The thread that ingests shows its state after each change that adds, gives away or hides rows, and
    /// before rows of a new window; should it be gone before it has, what is there has to do after a second.
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
            if looks < LOOKS_AT_ONCE {
                std::thread::yield_now();
                continue;
            }
            if clock::since(*since.get_or_insert_with(clock::now)) >= VIEW_WITHIN {
                return Moment { tables, rows, state };
            }
            clock::sleep(LOOK_PAUSE);
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

    /// How to wake that thread without ending the node.
    pub fn set_nudge(&self, nudge: Wake) {
        let _ = self.nudge.set(nudge);
    }

    /// Has the thread that serves connections look at what others have left for it.
    pub fn nudge(&self) {
        if let Some(nudge) = self.nudge.get() {
            nudge();
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys::clock::Virtual;
    use crate::table::Schema;
    use crate::table::schema::ColumnSchema;
    use crate::table::store::Store;
    use crate::table::symbol::intern;
    use crate::table::vector::Attr;
    use proto::types::LONG;

    /// Tables with one column of longs each.
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
        let shared = Shared::new(store.shared());
        shared.show(State { changes: store.changes(), ..State::default() });
        // One long.
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
        let shared = Shared::new(store.shared());
        clock::set_virtual(Some(Virtual { elapsed: Duration::ZERO, wall: Duration::ZERO }));
        let began = clock::now();
        let view = shared.view();
        let waited = clock::since(began);
        clock::set_virtual(None);
        assert!((VIEW_WITHIN..VIEW_WITHIN * 2).contains(&waited), "{waited:?}");
        assert_ne!(view.tables.changes(), view.state.changes);
    }
}
