//! A byte stream cut into messages.

use crate::error::{DecodeError, DecodeErrorKind};
use crate::header::Header;
use crate::limits::Limits;

/// Size of a fresh buffer, in bytes.
const INITIAL_BYTES: usize = 8 * 1024;
/// Largest buffer that is kept when it is empty, and up to which a busy stream lets it grow, in bytes.
const KEEP_BYTES: usize = 256 * 1024;
/// Least room that a read is given, in bytes.
const SPARE_BYTES: usize = 4 * 1024;

/// Collects what a socket delivers and hands out whole messages, in place.
///
/// The buffer grows as bytes arrive: at most to twice what has arrived, whatever length a header declares, and is let
/// go when a large message is done. The caller reads into [`FrameReader::spare`], tells
/// [`FrameReader::filled`], and calls [`FrameReader::next`] until it answers `None`.
#[derive(Debug)]
pub struct FrameReader {
    limits: Limits,
    buffer: Vec<u8>,
    /// The bytes held are `buffer[start..end]`.
    start: usize,
    end: usize,
    /// The last read took all the room it was given.
    busy: bool,
}

impl FrameReader {
    /// An empty reader; it allocates with the first [`FrameReader::spare`].
    pub fn new(limits: Limits) -> FrameReader {
        FrameReader { limits, buffer: Vec::new(), start: 0, end: 0, busy: false }
    }

    /// Memory the reader holds, in bytes.
    pub fn capacity_bytes(&self) -> usize {
        self.buffer.capacity()
    }

    /// Bytes received and not handed out yet.
    pub fn held_bytes(&self) -> usize {
        self.end.saturating_sub(self.start)
    }

    /// The header of the message that comes next, whatever its length: who asked a question that is too long can be told so.
    pub fn pending_header(&self) -> Option<Header> {
        Header::parse(self.buffer.get(self.start..self.end)?).ok()
    }

    /// Room to read into, never empty.
    pub fn spare(&mut self) -> &mut [u8] {
        self.make_room(SPARE_BYTES);
        self.buffer.get_mut(self.end..).unwrap_or_default()
    }

    /// Tells that the first `bytes` of [`FrameReader::spare`] were filled.
    pub fn filled(&mut self, bytes: usize) {
        let room = self.buffer.len().saturating_sub(self.end);
        self.busy = bytes >= room;
        self.end = self.end.saturating_add(bytes.min(room));
    }

    /// Takes bytes that were received otherwise, such as those that came with a login.
    pub fn extend(&mut self, bytes: &[u8]) {
        self.make_room(bytes.len());
        let end = self.end.saturating_add(bytes.len());
        if let Some(room) = self.buffer.get_mut(self.end..end) {
            room.copy_from_slice(bytes);
            self.end = end;
        }
    }

    /// The next whole message, header included, or `None` until more bytes come.
    ///
    /// # Errors
    /// A header that cannot be, or a length over [`Limits::max_message_bytes`]. The stream has no further message then:
    /// close the connection.
    #[expect(clippy::should_implement_trait, reason = "it lends from the reader, which an iterator cannot")]
    pub fn next(&mut self) -> Result<Option<(Header, &[u8])>, DecodeError> {
        self.release();
        let held = self.buffer.get(self.start..self.end).unwrap_or_default();
        let Some(header) = pending(held, &self.limits)? else { return Ok(None) };
        let Some(total) = usize::try_from(header.total_bytes).ok().filter(|total| *total <= held.len()) else {
            return Ok(None);
        };
        let start = self.start;
        self.start = start.saturating_add(total);
        Ok(self.buffer.get(start..self.start).map(|message| (header, message)))
    }

    /// Starts over at the front of the buffer when all is handed out, and lets a large one go when little of it is
    /// needed.
    fn release(&mut self) {
        let held = self.held_bytes();
        if held == 0 {
            self.start = 0;
            self.end = 0;
        }
        if self.buffer.len() > KEEP_BYTES && held <= self.buffer.len() / 4 {
            self.move_to(vec![0; held]);
        }
    }

    /// Sees to `least` bytes of room after the bytes held.
    fn make_room(&mut self, least: usize) {
        self.release();
        let held = self.held_bytes();
        let busy = core::mem::take(&mut self.busy) && self.buffer.len() < KEEP_BYTES;
        if !busy && self.buffer.len().saturating_sub(self.end) >= least {
            return;
        }
        let needed = held.saturating_add(least);
        if !busy && self.start >= held && self.buffer.len() >= needed {
            // Moving fewer bytes than were handed out since the last move: cheap on average.
            self.buffer.copy_within(self.start..self.end, 0);
            self.start = 0;
            self.end = held;
        } else {
            self.move_to(vec![0; self.next_size(held, needed, busy)]);
        }
    }

    /// Moves the bytes held to the front of another buffer, which has room for them.
    fn move_to(&mut self, mut buffer: Vec<u8>) {
        let held = self.held_bytes();
        if let (Some(to), Some(from)) = (buffer.get_mut(..held), self.buffer.get(self.start..self.end)) {
            to.copy_from_slice(from);
        }
        self.buffer = buffer;
        self.start = 0;
        self.end = held;
    }

    fn next_size(&self, held: usize, needed: usize, busy: bool) -> usize {
        let doubled = held.saturating_mul(2);
        // A message that will be whole before the buffer has doubled needs no more than its own length.
        let bytes = self.buffer.get(self.start..self.end).unwrap_or_default();
        let declared = pending(bytes, &self.limits).ok().flatten();
        let declared = declared.and_then(|header| usize::try_from(header.total_bytes).ok());
        let grown = declared.filter(|total| *total > held).map_or(doubled, |total| total.min(doubled));
        let floor = if busy { self.buffer.len().saturating_mul(2).min(KEEP_BYTES) } else { INITIAL_BYTES };
        grown.max(needed).max(floor)
    }
}

/// The header of the message that `held` starts with, once it is whole and within limits.
fn pending(held: &[u8], limits: &Limits) -> Result<Option<Header>, DecodeError> {
    match Header::parse(held) {
        Ok(header) if header.total_bytes > limits.max_message_bytes => {
            let (total_bytes, max_bytes) = (header.total_bytes, limits.max_message_bytes);
            Err(DecodeError::new(DecodeErrorKind::MessageTooLong { total_bytes, max_bytes }, 4))
        }
        Ok(header) => Ok(Some(header)),
        Err(error) if error.is_incomplete() => Ok(None),
        Err(error) => Err(error),
    }
}
