//! Counters: plain numbers that a monitor may read.

/// What a tickerplant has done since it started.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Updates and rows accepted.
    pub updates: u64,
    pub rows: u64,
    /// Updates refused, and accepted ones that could not be logged.
    pub refused: u64,
    pub unlogged: u64,
    /// Turns that logged something.
    pub turns: u64,
    /// Queries, and those that ended with an error.
    pub queries: u64,
    pub query_errors: u64,
    /// Messages that were no object.
    pub malformed: u64,
    /// Windows whose proof agreed with the log, and ones that differed.
    pub verified: u64,
    pub differing: u64,
}

impl Stats {
    /// Names and values, for `.u.stats`.
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
