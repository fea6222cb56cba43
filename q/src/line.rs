//! A line of text as it is written: it grows on the account of the evaluation, and no longer than somebody looks at it.

use super::error::QError;
use super::limits;

/// Below this many bytes nobody is asked.
const SMALL_BYTES: usize = 4096;

#[derive(Debug)]
pub(super) struct Line {
    bytes: Vec<u8>,
    most: usize,
}

impl Line {
    /// All of it.
    pub fn whole() -> Line {
        Line::clipped(usize::MAX)
    }

    /// Of what comes behind the first `most` bytes, at least one and perhaps no more.
    pub fn clipped(most: usize) -> Line {
        Line { bytes: Vec::new(), most }
    }

    /// Whether what comes is not looked at any more.
    pub fn is_full(&self) -> bool {
        self.bytes.len() > self.most
    }

    /// The part of a long text that can be seen.
    pub fn seen<'a, T>(&self, items: &'a [T]) -> &'a [T] {
        let left = self.most.saturating_sub(self.bytes.len()).saturating_add(1);
        items.get(..left).unwrap_or(items)
    }

    /// # Errors
    /// `wsfull` where it grows beyond the account.
    pub fn put(&mut self, text: &[u8]) -> Result<(), QError> {
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

    /// What was written from byte `start` on.
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
