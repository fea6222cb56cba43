//! The records of a turn, one after the other, as they go into the log, and where each is.

/// One update inside a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Update {
    /// Place of its table in [`super::Tables`].
    pub table: usize,
    pub rows: usize,
    /// Where its column objects begin, behind the head of their list.
    pub columns: usize,
    /// Where its record ends.
    pub end: usize,
}

/// Accepted updates that are neither logged nor published yet.
#[derive(Clone, Debug, Default)]
pub struct Batch {
    bytes: Vec<u8>,
    updates: Vec<Update>,
    /// Update index of the first one.
    first_index: u64,
}

impl Batch {
    pub fn new(first_index: u64) -> Batch {
        Batch { first_index, ..Batch::default() }
    }

    pub fn is_empty(&self) -> bool {
        self.updates.is_empty()
    }

    /// The log records.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    pub fn updates(&self) -> &[Update] {
        &self.updates
    }

    /// Column objects of an update.
    pub fn columns(&self, update: &Update) -> &[u8] {
        self.bytes.get(update.columns..update.end).unwrap_or_default()
    }

    pub fn first_index(&self) -> u64 {
        self.first_index
    }

    /// Index of the update after the last one.
    pub fn tip(&self) -> u64 {
        self.first_index.saturating_add(self.updates.len() as u64)
    }

    /// Forgets its updates and goes on behind them, keeping its memory unless a burst has made it large.
    pub fn start_over(&mut self) {
        const KEEP_BYTES: usize = 8 << 20;
        self.first_index = self.tip();
        self.bytes.clear();
        self.bytes.shrink_to(KEEP_BYTES);
        self.updates.clear();
    }

    pub(super) fn bytes_mut(&mut self) -> &mut Vec<u8> {
        &mut self.bytes
    }

    /// Begins a record and answers where.
    pub(super) fn begin(&mut self, head: &[u8]) -> usize {
        let start = self.bytes.len();
        self.bytes.extend_from_slice(head);
        start
    }

    pub(super) fn restart(&mut self, start: usize, head: &[u8]) {
        self.bytes.truncate(start.saturating_add(head.len()));
    }

    pub(super) fn take_back(&mut self, start: usize) {
        self.bytes.truncate(start);
    }

    pub(super) fn finish(&mut self, table: usize, start: usize, head_bytes: usize, rows: usize) -> Update {
        let update = Update { table, rows, columns: start.saturating_add(head_bytes), end: self.bytes.len() };
        self.updates.push(update);
        update
    }

    /// Adds an update whose columns are in the common form already: from a log, or merged from several.
    pub fn push(&mut self, table: usize, head: &[u8], columns: &[u8], rows: usize) -> Update {
        let start = self.begin(head);
        self.bytes.extend_from_slice(columns);
        self.finish(table, start, head.len(), rows)
    }
}
