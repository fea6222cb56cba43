//! Counters for `.u.stats` and the metrics.

/// Counters of a tickerplant since its start.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Updates and rows accepted.
    pub updates: u64,
    pub rows: u64,
    /// Rejected updates, and accepted ones that could not be logged.
    pub refused: u64,
    pub unlogged: u64,
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
    pub fn entries(&self) -> [(&'static str, u64); 10] {
        [
            ("updates", self.updates),
            ("rows", self.rows),
            ("refused", self.refused),
            ("unlogged", self.unlogged),
            ("turns", self.turns),
            ("queries", self.queries),
            ("queryErrors", self.query_errors),
            ("malformed", self.malformed),
            ("verified", self.verified),
            ("differing", self.differing),
        ]
    }
}
