//! Log records of one event-loop iteration, contiguous as in the log, with the position of each.

/// Position of one update in a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Update {
    /// Index of its table in [`super::Tables`]; `usize::MAX` for a record that is not an update.
    pub table: usize,
    pub rows: usize,
    /// Offset of its column objects, after the list head.
    pub columns: usize,
    /// Offset of the end of its record.
    pub end: usize,
}

impl Update {
    /// Whether it is an update, and not another record.
    pub fn is_update(&self) -> bool {
        self.table != usize::MAX
    }
}

/// Accepted updates that are not yet logged and published.
#[derive(Clone, Debug, Default)]
pub struct Batch {
    bytes: Vec<u8>,
    updates: Vec<Update>,
    /// Update index of the first update.
    first_index: u64,
}

impl Batch {
    pub fn new(first_index: u64) -> Batch {
        Batch { first_index, ..Batch::default() }
    }

    pub fn is_empty(&self) -> bool {
        self.updates.is_empty()
    }

    /// Returns the log records.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Returns the records in order, each with an index.
    pub fn updates(&self) -> &[Update] {
        &self.updates
    }

    /// Number of updates, without other records, and of their rows.
    pub fn counts(&self) -> (u64, u64) {
        let updates = self.updates.iter().filter(|update| update.is_update());
        updates.fold((0, 0), |(count, rows), update| (count + 1, rows + update.rows as u64))
    }

    /// Returns the column objects of an update.
    pub fn columns(&self, update: &Update) -> &[u8] {
        self.bytes.get(update.columns..update.end).unwrap_or_default()
    }

    pub fn first_index(&self) -> u64 {
        self.first_index
    }

    /// Index after the last update.
    pub fn tip(&self) -> u64 {
        self.first_index.saturating_add(self.updates.len() as u64)
    }

    /// Clears the batch and sets its first index to the tip; keeps its memory unless a burst made it large.
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

    /// Begins a record and returns its offset.
    pub(super) fn begin(&mut self, head: &[u8]) -> usize {
        let start = self.bytes.len();
        self.bytes.extend_from_slice(head);
        start
    }

    /// Drops what was appended to the record at `start` after its head.
    pub(super) fn restart(&mut self, start: usize, head: &[u8]) {
        self.bytes.truncate(start.saturating_add(head.len()));
    }

    /// Drops the record at `start`.
    pub(super) fn take_back(&mut self, start: usize) {
        self.bytes.truncate(start);
    }

    /// Adds a record that is not an update. Returns its offset.
    pub(super) fn push_other(&mut self, record: &[u8]) -> usize {
        let start = self.begin(record);
        let end = self.bytes.len();
        self.updates.push(Update { table: usize::MAX, rows: 0, columns: end, end });
        start
    }

    /// Replaces a record that [`Batch::push_other`] has added by another of the same length.
    pub(super) fn set_other(&mut self, start: usize, record: &[u8]) {
        match self.bytes.get_mut(start..start.saturating_add(record.len())) {
            Some(old) => old.copy_from_slice(record),
            None => crate::bug!("no record of {} bytes at {start}", record.len()),
        }
    }

    /// Drops the last record, which [`Batch::push_other`] has added at `start`.
    pub(super) fn take_back_other(&mut self, start: usize) {
        self.bytes.truncate(start);
        self.updates.pop();
    }

    /// Ends the record at `start` and adds its update.
    pub(super) fn finish(&mut self, table: usize, start: usize, head_bytes: usize, rows: usize) -> Update {
        let update = Update { table, rows, columns: start.saturating_add(head_bytes), end: self.bytes.len() };
        self.updates.push(update);
        update
    }

    /// Adds an update whose columns already have the common form: from a log, or merged from several updates.
    pub fn push(&mut self, table: usize, head: &[u8], columns: &[u8], rows: usize) -> Update {
        let start = self.begin(head);
        self.bytes.extend_from_slice(columns);
        self.finish(table, start, head.len(), rows)
    }
}
