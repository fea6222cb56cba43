//! Splits a byte stream into messages.

use crate::error::{DecodeError, DecodeErrorKind};
use crate::header::Header;
use crate::limits::Limits;

/// Initial size of a buffer, in bytes.
const INITIAL_BYTES: usize = 8 * 1024;
/// Largest buffer that is kept when it is empty, and maximum to which a busy stream lets it grow, in bytes.
const KEEP_BYTES: usize = 256 * 1024;
/// Minimum space for a read, in bytes.
const SPARE_BYTES: usize = 4 * 1024;

/// Buffer that collects the bytes of a socket and lends out whole messages, in place.
///
/// The buffer grows with the bytes that arrive: at most to twice their number, whatever length a header declares. It is
/// released after a large message. The caller reads into [`FrameReader::spare`], reports the count to
/// [`FrameReader::filled`], and calls [`FrameReader::next`] until it returns `None`.
#[derive(Debug)]
pub struct FrameReader {
    limits: Limits,
    buffer: Vec<u8>,
    /// The buffered bytes are `buffer[start..end]`.
    start: usize,
    end: usize,
    /// Whether the last read filled all of its space.
    busy: bool,
}

impl FrameReader {
    /// Makes an empty reader, which allocates in the first [`FrameReader::spare`].
    pub fn new(limits: Limits) -> FrameReader {
        FrameReader { limits, buffer: Vec::new(), start: 0, end: 0, busy: false }
    }

    /// Allocated memory in bytes.
    pub fn capacity_bytes(&self) -> usize {
        self.buffer.capacity()
    }

    /// Bytes received and not yet returned by [`FrameReader::next`].
    pub fn held_bytes(&self) -> usize {
        self.end.saturating_sub(self.start)
    }

    /// Returns the header of the next message, even if the message is too long: the caller can still reply to a sync request.
    pub fn pending_header(&self) -> Option<Header> {
        Header::parse(self.buffer.get(self.start..self.end)?).ok()
    }

    /// Returns space to read into, never empty.
    pub fn spare(&mut self) -> &mut [u8] {
        self.make_room(SPARE_BYTES);
        self.buffer.get_mut(self.end..).unwrap_or_default()
    }

    /// Records that the first `bytes` of [`FrameReader::spare`] were filled.
    pub fn filled(&mut self, bytes: usize) {
        let room = self.buffer.len().saturating_sub(self.end);
        self.busy = bytes >= room;
        self.end = self.end.saturating_add(bytes.min(room));
    }

    /// Appends bytes that were received elsewhere, for example together with a login.
    pub fn extend(&mut self, bytes: &[u8]) {
        self.make_room(bytes.len());
        let end = self.end.saturating_add(bytes.len());
        if let Some(room) = self.buffer.get_mut(self.end..end) {
            room.copy_from_slice(bytes);
            self.end = end;
        }
    }

    /// Returns the next whole message, header included, or `None` if more bytes are needed.
    ///
    /// # Errors
    /// An invalid header, or a length over [`Limits::max_message_bytes`]. No further message can be read: close the connection.
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

    /// Restarts at the front of the buffer if it is empty, and replaces a large buffer of which little is used.
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

    /// Makes space for at least `least` bytes after the buffered ones.
    fn make_room(&mut self, least: usize) {
        self.release();
        let held = self.held_bytes();
        let busy = core::mem::take(&mut self.busy) && self.buffer.len() < KEEP_BYTES;
        if !busy && self.buffer.len().saturating_sub(self.end) >= least {
            return;
        }
        let needed = held.saturating_add(least);
        if !busy && self.start >= held && self.buffer.len() >= needed {
            // This moves fewer bytes than were returned since the last move: constant cost per byte on average.
            self.buffer.copy_within(self.start..self.end, 0);
            self.start = 0;
            self.end = held;
        } else {
            self.move_to(vec![0; self.next_size(held, needed, busy)]);
        }
    }

    /// Moves the buffered bytes to the front of another buffer, which is large enough.
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
        // A message that is complete before the buffer has doubled needs no more than its own length.
        let bytes = self.buffer.get(self.start..self.end).unwrap_or_default();
        let declared = pending(bytes, &self.limits).ok().flatten();
        let declared = declared.and_then(|header| usize::try_from(header.total_bytes).ok());
        let grown = declared.filter(|total| *total > held).map_or(doubled, |total| total.min(doubled));
        let floor = if busy { self.buffer.len().saturating_mul(2).min(KEEP_BYTES) } else { INITIAL_BYTES };
        grown.max(needed).max(floor)
    }
}

/// Returns the header of the message at the start of `held`; `None` while the header is incomplete. The message itself may still be
/// incomplete.
///
/// # Errors
/// An invalid header, or a length over the limit.
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
