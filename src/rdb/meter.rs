//! Measures a node's memory by its own counters, with the operating system's figures as a safeguard.
//!
//! Resident memory stays high for seconds after a clear, so decisions use the sum of what the node knows it holds. With
//! a configured budget, memory use is that sum against the budget. Otherwise it is the server's use as `free` shows it,
//! with this process's resident part replaced by the sum. When the server (or container) itself runs out of memory, its
//! figure prevails.

use super::shared::MemoryState;
use crate::sys::memory::{Memory, Sources};
use crate::table::store::Usage;
use std::time::{Duration, Instant};

/// Memory use of the server at which its own figure prevails, in percent.
const GUARD_PERCENT: f64 = 95.0;
/// Interval of reading the operating system's figures.
const READ_EVERY: Duration = Duration::from_millis(250);

/// The system's figures as last read.
#[derive(Clone, Copy, Debug)]
struct System {
    memory: Memory,
    own_bytes: u64,
    read_at: Instant,
}

/// Memory meter of one node.
#[derive(Debug)]
pub struct Meter {
    /// `None` if only the budget counts.
    sources: Option<Sources>,
    budget_bytes: Option<u64>,
    system: Option<System>,
}

impl Meter {
    /// `budget_bytes`: the configured budget, if any.
    pub fn new(sources: Sources, budget_bytes: Option<u64>) -> Meter {
        Meter { sources: Some(sources), budget_bytes, system: None }
    }

    /// A meter that never reads the system's figures, for a simulated environment.
    pub fn of_budget(budget_bytes: u64) -> Meter {
        Meter { sources: None, budget_bytes: Some(budget_bytes), system: None }
    }

    /// Returns the node's memory budget in bytes.
    ///
    /// # Errors
    /// The system's figures cannot be read.
    pub fn budget_bytes(&self) -> std::io::Result<u64> {
        match (self.budget_bytes, &self.sources) {
            (Some(bytes), _) => Ok(bytes),
            (None, Some(sources)) => Ok(sources.memory()?.total_bytes),
            (None, None) => Ok(0),
        }
    }

    /// Returns the memory state for the given use by the node: the store and what else stays, and running queries. Reads the system's figures if they
    /// are old.
    pub fn read(&mut self, store: Usage, lasting: u64, queries: u64, now: Instant) -> MemoryState {
        if let Some(sources) = &self.sources
            && self.system.is_none_or(|system| now.duration_since(system.read_at) >= READ_EVERY)
        {
            match sources.memory().and_then(|memory| Ok((memory, sources.own_bytes()?))) {
                Ok((memory, own_bytes)) => self.system = Some(System { memory, own_bytes, read_at: now }),
                Err(error) => tracing::warn!(%error, "cannot read the system's memory figures"),
            }
        }
        reckon(self.budget_bytes, self.system.map(|system| (system.memory, system.own_bytes)), store, lasting, queries)
    }
}

fn reckon(
    budget_bytes: Option<u64>,
    system: Option<(Memory, u64)>,
    store: Usage,
    lasting: u64,
    queries: u64,
) -> MemoryState {
    let own = (store.total_bytes() as u64).saturating_add(lasting);
    let (memory, resident) = system.unwrap_or((Memory { total_bytes: 0, used_bytes: 0, is_limited: false }, 0));
    let (budget, accounted) = match budget_bytes {
        Some(budget) => (budget, own),
        None => (memory.total_bytes, memory.used_bytes.saturating_sub(resident).saturating_add(own)),
    };
    let guard =
        if memory.used_percent() >= GUARD_PERCENT { (budget as f64 * memory.used_percent() / 100.0) as u64 } else { 0 };
    MemoryState {
        budget,
        used: accounted.saturating_add(queries).max(guard),
        lasting: accounted.max(guard),
        store,
        resident,
        system_used: memory.used_bytes,
        system_total: memory.total_bytes,
        ..MemoryState::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STORE: Usage = Usage { column_bytes: 300, index_bytes: 50, symbol_bytes: 50 };

    fn server(used_bytes: u64) -> Memory {
        Memory { total_bytes: 10_000, used_bytes, is_limited: false }
    }

    #[test]
    fn with_a_budget_of_its_own_the_account_decides() {
        let state = reckon(Some(1000), Some((server(5000), 900)), STORE, 60, 40);
        assert_eq!((state.budget, state.used), (1000, 500));
    }

    #[test]
    fn without_one_the_servers_share_counts_with_the_own_part_by_account() {
        // 5000 in use, 900 of them resident here although the node holds only 500: it has just cleared.
        let state = reckon(None, Some((server(5000), 900)), STORE, 60, 40);
        assert_eq!((state.budget, state.used), (10_000, 4600));
    }

    #[test]
    fn a_server_that_runs_out_counts_whatever_the_account_says() {
        let state = reckon(Some(1000), Some((server(9_800), 10)), STORE, 0, 0);
        assert_eq!(state.used, 980);
    }

    #[test]
    fn what_queries_hold_for_a_moment_does_not_last() {
        let state = reckon(Some(1000), Some((server(9_400), 900)), STORE, 60, 540);
        assert_eq!((state.used, state.lasting), (1000, 460));
        // A server that runs out must not get more rows, also if queries use it.
        assert_eq!(reckon(Some(1000), Some((server(9_800), 900)), STORE, 60, 300).lasting, 980);
        let state = reckon(None, Some((server(5000), 900)), STORE, 60, 40);
        assert_eq!((state.used, state.lasting), (4600, 4560));
    }

    #[test]
    fn without_figures_the_account_is_all_there_is() {
        let state = reckon(Some(1000), None, STORE, 0, 0);
        assert_eq!((state.used, state.system_total), (400, 0));
    }
}
