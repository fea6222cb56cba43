//! When memory is read, and how it has changed since. The policy decides what follows.

use super::showing::percent;
use crate::rdb::meter::Meter;
use crate::rdb::shared::MemoryState;
use crate::table::store::Usage;
use std::io;
use std::time::Instant;

/// Memory is read each time updates of one part in this many of the budget have arrived, within the bounds below.
const WATCH_PARTS: u64 = 256;
const MIN_WATCH_BYTES: u64 = 16 << 10;
const MAX_WATCH_BYTES: u64 = 4 << 20;

/// Memory used besides the store, in bytes.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Besides {
    /// Send buffer, and pieces of the log being replayed.
    pub buffers: u64,
    /// Clients' variables.
    pub globals: u64,
    /// Running queries, which will give it back.
    pub queries: u64,
    /// Ended days that are still being saved.
    pub ended: u64,
}

/// Memory of the node as last read, and the updates taken since.
#[derive(Debug)]
pub(super) struct MemoryWatch {
    meter: Meter,
    budget_bytes: u64,
    /// A reading is due after this many bytes of updates.
    every_bytes: u64,
    /// Bytes of updates since the last reading.
    taken_bytes: u64,
    /// The store's use at the last reading.
    store: Usage,
    shown: MemoryState,
    /// A full node without a queue was reported today.
    is_told: bool,
}

impl MemoryWatch {
    /// # Errors
    /// The system's memory figures cannot be read.
    pub fn new(meter: Meter) -> io::Result<MemoryWatch> {
        let budget_bytes = meter.budget_bytes()?;
        Ok(MemoryWatch {
            meter,
            budget_bytes,
            every_bytes: (budget_bytes / WATCH_PARTS).clamp(MIN_WATCH_BYTES, MAX_WATCH_BYTES),
            taken_bytes: 0,
            store: Usage::default(),
            shown: MemoryState::default(),
            is_told: false,
        })
    }

    pub fn budget_bytes(&self) -> u64 {
        self.budget_bytes
    }

    /// Bytes of the store at the last reading.
    pub fn store_bytes(&self) -> u64 {
        self.store.total_bytes() as u64
    }

    /// The state that queries and metrics see.
    pub fn shown(&self) -> MemoryState {
        self.shown
    }

    /// Counts the bytes of an update.
    pub fn took(&mut self, bytes: usize) {
        self.taken_bytes = self.taken_bytes.saturating_add(bytes as u64);
    }

    /// Returns whether memory must be read before the next update.
    pub fn is_due(&self) -> bool {
        self.taken_bytes >= self.every_bytes
    }

    /// Reads memory. Returns the reading and by how many bytes the store has grown.
    pub fn read(&mut self, store: Usage, besides: Besides, now: Instant) -> (MemoryState, u64) {
        let grown_bytes = (store.total_bytes() as u64).saturating_sub(self.store_bytes());
        self.store = store;
        self.taken_bytes = 0;
        let Besides { buffers, globals, queries, ended } = besides;
        let lasting = buffers.saturating_add(globals).saturating_add(ended);
        let mut memory = self.meter.read(store, lasting, queries, now);
        (memory.buffers, memory.queries, memory.ended) = (buffers, queries.saturating_add(globals), ended);
        (memory, grown_bytes)
    }

    /// Shows a reading once the decisions that follow from it are made.
    pub fn show(&mut self, memory: MemoryState) {
        self.shown = memory;
    }

    /// The store was cleared, which is no negative growth.
    pub fn cleared(&mut self, store: Usage) {
        self.store = store;
    }

    /// Returns whether to warn of a reading above this threshold: once a day.
    pub fn warns_above(&mut self, memory: &MemoryState, roll_percent: f64) -> bool {
        let is_above = percent(memory.lasting, memory.budget).is_some_and(|used| used >= roll_percent);
        is_above && !std::mem::replace(&mut self.is_told, true)
    }

    pub fn day_ended(&mut self) {
        self.is_told = false;
    }

    /// Returns the bytes until the next reading as text, for the state fingerprint.
    pub fn shape(&self) -> String {
        format!("unwatched {}", self.taken_bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BUDGET_BYTES: u64 = 16 << 20;

    fn watch() -> MemoryWatch {
        MemoryWatch::new(Meter::of_budget(BUDGET_BYTES)).expect("a budget needs no figures of the system")
    }

    fn store(column_bytes: usize) -> Usage {
        Usage { column_bytes, ..Usage::default() }
    }

    #[test]
    fn memory_is_due_after_a_part_of_the_budget_and_not_again_at_once() {
        let mut watch = watch();
        let part = usize::try_from(BUDGET_BYTES / WATCH_PARTS).expect("small");
        watch.took(part - 1);
        assert!(!watch.is_due());
        watch.took(1);
        assert!(watch.is_due());
        watch.read(store(part), Besides::default(), Instant::now());
        assert!(!watch.is_due());
    }

    #[test]
    fn growth_is_counted_from_the_last_reading_or_clear() {
        let mut watch = watch();
        let grown = |watch: &mut MemoryWatch, bytes| watch.read(store(bytes), Besides::default(), Instant::now()).1;
        assert_eq!([grown(&mut watch, 300), grown(&mut watch, 500), grown(&mut watch, 400)], [300, 200, 0]);
        watch.cleared(store(0));
        assert_eq!(grown(&mut watch, 450), 450);
    }

    #[test]
    fn what_is_used_besides_the_store_counts() {
        let besides = Besides { buffers: 10, globals: 5, queries: 20, ended: 30 };
        let (memory, _) = watch().read(store(100), besides, Instant::now());
        assert_eq!((memory.used, memory.lasting), (165, 145));
        assert_eq!((memory.buffers, memory.queries, memory.ended), (10, 25, 30));
    }

    #[test]
    fn a_full_node_is_warned_of_once_a_day() {
        let mut watch = watch();
        let (memory, _) = watch.read(store(15 << 20), Besides::default(), Instant::now());
        assert!(!watch.warns_above(&memory, 99.0));
        assert!(watch.warns_above(&memory, 70.0) && !watch.warns_above(&memory, 70.0));
        watch.day_ended();
        assert!(watch.warns_above(&memory, 70.0));
    }
}
