//! A forward-moving read buffer over a file. Unread bytes stay; it grows only for a record longer than the buffer.

use crate::env::LogFile;
use std::io;

pub(crate) struct Buffer {
    bytes: Vec<u8>,
    /// Length to shrink to after an oversized record.
    usual_bytes: usize,
    start: usize,
    end: usize,
    /// File offset of `bytes[start]`.
    offset_bytes: u64,
}

impl Buffer {
    pub fn new(chunk_bytes: usize) -> Buffer {
        let usual_bytes = chunk_bytes.max(64);
        Buffer { bytes: vec![0; usual_bytes], usual_bytes, start: 0, end: 0, offset_bytes: 0 }
    }

    /// Discards the contents and moves to a file offset.
    pub fn go_to(&mut self, offset_bytes: u64) {
        (self.start, self.end, self.offset_bytes) = (0, 0, offset_bytes);
    }

    /// Bytes per read.
    pub fn chunk_bytes(&self) -> usize {
        self.usual_bytes
    }

    pub fn offset_bytes(&self) -> u64 {
        self.offset_bytes
    }

    pub fn available(&self) -> &[u8] {
        self.bytes.get(self.start..self.end).unwrap_or_default()
    }

    pub fn consume(&mut self, count_bytes: usize) {
        let count_bytes = count_bytes.min(self.end - self.start);
        self.start += count_bytes;
        self.offset_bytes = self.offset_bytes.saturating_add(count_bytes as u64);
    }

    /// Makes room and reads once after the available bytes; returns 0 at the end of the file.
    pub fn refill(&mut self, file: &dyn LogFile) -> io::Result<usize> {
        if self.start > 0 {
            self.bytes.copy_within(self.start..self.end, 0);
            (self.start, self.end) = (0, self.end - self.start);
        }
        if self.bytes.len() > self.usual_bytes && self.end <= self.usual_bytes / 2 {
            self.bytes.truncate(self.usual_bytes);
            self.bytes.shrink_to_fit();
        }
        if self.end == self.bytes.len() {
            // Doubling keeps the total cost of re-walking a long record proportional to its length.
            self.bytes.resize(self.bytes.len().saturating_mul(2), 0);
        }
        let position = self.offset_bytes.saturating_add(self.end as u64);
        let read = loop {
            match file.read_at(self.bytes.get_mut(self.end..).unwrap_or_default(), position) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                other => break other?,
            }
        };
        self.end = (self.end + read).min(self.bytes.len());
        Ok(read)
    }
}
