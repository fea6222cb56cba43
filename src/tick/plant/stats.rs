//! Counters for `.u.stats` and the metrics.

/// Counters of a tickerplant since its start.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Updates and rows in the log, counted once they are appended to it. Without a log: updates and rows published.
    pub updates: u64,
    pub rows: u64,
    /// Updates accepted after a conversion (`--coerce`).
    pub coerced: u64,
    /// Rejected updates, and accepted ones that could not be logged.
    pub refused: u64,
    /// Sync calls and queries rejected with `access`; for the log only.
    pub denied: u64,
    pub unlogged: u64,
    /// Updates that the log had already, by their publishers' sequence numbers.
    pub duplicates: u64,
    /// Event-loop iterations that logged an update.
    pub turns: u64,
    /// Queries, and those that failed.
    pub queries: u64,
    pub query_errors: u64,
    /// Messages that were not valid objects.
    pub malformed: u64,
    /// Windows whose proof agreed with the log, and windows whose proof differed.
    pub verified: u64,
    pub differing: u64,
}

impl Stats {
    /// Returns names and values for `.u.stats`.
    pub fn entries(&self) -> [(&'static str, u64); 12] {
        [
            ("updates", self.updates),
            ("rows", self.rows),
            ("coerced", self.coerced),
            ("refused", self.refused),
            ("unlogged", self.unlogged),
            ("duplicates", self.duplicates),
            ("turns", self.turns),
            ("queries", self.queries),
            ("queryErrors", self.query_errors),
            ("malformed", self.malformed),
            ("verified", self.verified),
            ("differing", self.differing),
        ]
    }
}
