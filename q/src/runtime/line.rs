//! Text under construction: its growth counts towards the evaluation's memory limit, and it may be cut at a display width.

use crate::runtime::error::QError;
use crate::runtime::limits;
use columns::sys::budget::{self, BLOCK};

/// Lines up to this size are not checked against the memory limit.
const SMALL_BYTES: usize = 4096;

/// A growing line of text.
#[derive(Debug)]
pub(crate) struct Line {
    bytes: Vec<u8>,
    most: usize,
}

impl Line {
    /// A line without a maximum length.
    pub fn whole() -> Line {
        Line::clipped(usize::MAX)
    }

    /// A line cut at `most` bytes. If there is more text, at least one byte beyond `most` is kept, so that callers see the
    /// cut.
    pub fn clipped(most: usize) -> Line {
        Line { bytes: Vec::new(), most }
    }

    /// Whether further text would be cut off.
    pub fn is_full(&self) -> bool {
        self.bytes.len() > self.most
    }

    /// The leading items that can still be visible, for long texts.
    pub fn seen<'a, T>(&self, items: &'a [T]) -> &'a [T] {
        let left = self.most.saturating_sub(self.bytes.len()).saturating_add(1);
        items.get(..left).unwrap_or(items)
    }

    /// Appends text.
    ///
    /// # Errors
    /// `stop` and `wsfull` at the limits.
    pub fn put(&mut self, text: &[u8]) -> Result<(), QError> {
        for block in text.chunks(BLOCK) {
            if budget::spend(block.len()) {
                limits::settle()?;
            }
        }
        if self.bytes.capacity() - self.bytes.len() < text.len() {
            let wanted = self.bytes.len().saturating_add(text.len()).max(self.bytes.capacity().saturating_mul(2));
            if wanted > SMALL_BYTES {
                limits::room(wanted)?;
            }
            self.bytes.reserve_exact(wanted - self.bytes.len());
        }
        self.bytes.extend_from_slice(text);
        Ok(())
    }

    /// The text from byte `start` on.
    pub fn since(&self, start: usize) -> &[u8] {
        self.bytes.get(start..).unwrap_or_default()
    }

    pub fn len(&self) -> usize {
        self.bytes.len()
    }

    pub fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }
}
