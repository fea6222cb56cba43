//! Send buffer of one connection: shared chunks in order, with their total length.

use crate::config::{Limit, Limits};
use crate::less;
use crate::points::{self, Point};
use bytes::{Buf, Bytes};
use std::collections::VecDeque;
use std::io::{self, IoSlice, Write};

/// Chunks per vectored write.
const SLICES: usize = 64;

/// Limit of one send buffer while all together are over their limit.
pub const CROWDED_BYTES: usize = 1 << 20;

/// Returns the limit that forbids queuing `more_bytes` of unsolicited data for a client whose send buffer holds `waiting_bytes`, with
/// `all_bytes` in all send buffers; `None` if it is allowed.
pub fn refuses(limits: &Limits, waiting_bytes: usize, all_bytes: usize, more_bytes: usize) -> Option<Limit> {
    let bytes = waiting_bytes.saturating_add(more_bytes);
    if bytes as u64 > limits.outbox_bytes.saturating_mul(2) {
        return Some(Limit::outbox_bytes);
    }
    let is_crowded = all_bytes as u64 > limits.outboxes_bytes;
    (is_crowded && bytes > CROWDED_BYTES).then_some(Limit::outboxes_bytes)
}

/// As [`refuses`], for the limit of a user whose send buffers are full.
pub fn crowds(is_user_full: bool, waiting_bytes: usize, more_bytes: usize) -> Option<Limit> {
    (is_user_full && waiting_bytes.saturating_add(more_bytes) > CROWDED_BYTES).then_some(Limit::user_outbox_bytes)
}

/// Send buffer of one connection.
#[derive(Debug, Default)]
pub(super) struct SendBuffer {
    chunks: VecDeque<Bytes>,
    bytes: usize,
}

impl SendBuffer {
    pub(super) fn push(&mut self, chunk: Bytes) {
        if !chunk.is_empty() {
            self.bytes = self.bytes.saturating_add(chunk.len());
            self.chunks.push_back(chunk);
        }
    }

    /// Appends the chunks of another buffer.
    pub(super) fn append(&mut self, mut other: SendBuffer) {
        self.bytes = self.bytes.saturating_add(other.bytes);
        self.chunks.append(&mut other.chunks);
    }

    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Writes until the buffer is empty or the socket is full, at most `most` bytes at a time. Also after an error, [`SendBuffer::bytes`] counts exactly the unwritten bytes.
    ///
    /// # Errors
    /// The socket's, except `WouldBlock`.
    pub(super) fn write_to(&mut self, stream: &mut impl Write, most: usize) -> io::Result<()> {
        self.write_half(stream);
        while !self.chunks.is_empty() {
            let mut slices = [IoSlice::new(&[]); SLICES];
            let mut offered = 0usize;
            let mut used = 0usize;
            for (slice, chunk) in slices.iter_mut().zip(&self.chunks) {
                let room = most.saturating_sub(offered);
                if room == 0 {
                    break;
                }
                let chunk = chunk.get(..room).unwrap_or(chunk);
                *slice = IoSlice::new(chunk);
                offered = offered.saturating_add(chunk.len());
                used = used.saturating_add(1);
            }
            let taken = match stream.write_vectored(slices.get(..used).unwrap_or_default()) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(taken) => taken,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(error),
            };
            self.advance(taken);
            // A short write means that the socket is full; it reports when it has room.
            if taken < offered {
                break;
            }
        }
        Ok(())
    }

    /// Failpoint: writes part of the first chunk, so that a test can end the process in the middle of a message.
    fn write_half(&mut self, stream: &mut impl Write) {
        let Some(first) = self.chunks.front() else { return };
        let half = first.slice(..points::half(Point::SocketHalfWritten, first.len()));
        // If the socket is full nothing is written here; an error recurs in the next write.
        let taken = if half.is_empty() { 0 } else { stream.write(&half).unwrap_or(0) };
        self.advance(taken);
        points::reach(Point::SocketHalfWritten);
    }

    fn advance(&mut self, mut taken: usize) {
        self.bytes = less!(self.bytes, taken);
        while let Some(front) = self.chunks.front_mut() {
            if taken < front.len() {
                front.advance(taken);
                return;
            }
            taken = less!(taken, front.len());
            self.chunks.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Accepts as many bytes per write as listed, then would block.
    struct Slow {
        got: Vec<u8>,
        room: VecDeque<usize>,
    }

    impl Write for Slow {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.write_vectored(&[IoSlice::new(bytes)])
        }

        fn write_vectored(&mut self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
            let Some(room) = self.room.pop_front() else { return Err(io::ErrorKind::WouldBlock.into()) };
            let all: Vec<u8> = slices.iter().flat_map(|s| s.iter().copied()).collect();
            let taken = room.max(1).min(all.len());
            self.got.extend(&all[..taken]);
            Ok(taken)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    /// Accepts one write, then fails.
    struct Breaks(bool);

    impl Write for Breaks {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.write_vectored(&[IoSlice::new(bytes)])
        }

        fn write_vectored(&mut self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
            match std::mem::replace(&mut self.0, true) {
                false => Ok(slices.iter().map(|slice| slice.len()).sum()),
                true => Err(io::ErrorKind::BrokenPipe.into()),
            }
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn bytes_written_before_a_socket_error_leave_the_buffer() {
        let mut send_buffer = SendBuffer::default();
        (0..SLICES + 3).for_each(|_| send_buffer.push(Bytes::from_static(b"ab")));
        send_buffer.write_to(&mut Breaks(false), usize::MAX).expect_err("broken");
        assert_eq!(send_buffer.bytes(), 6);
    }

    proptest! {
        #[test]
        fn bytes_leave_in_order_and_are_counted(
            chunks in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..40), 0..100),
            rooms in prop::collection::vec(0usize..200, 1..60),
            most in prop_oneof![1usize..100, Just(usize::MAX)],
        ) {
            let mut send_buffer = SendBuffer::default();
            let mut slow = Slow { got: Vec::new(), room: VecDeque::new() };
            let expected: Vec<u8> = chunks.concat();
            chunks.iter().for_each(|chunk| send_buffer.push(Bytes::copy_from_slice(chunk)));
            for room in rooms.iter().copied().chain(std::iter::repeat_n(1000, expected.len())) {
                slow.room.push_back(room);
                send_buffer.write_to(&mut slow, most).unwrap();
                prop_assert_eq!(send_buffer.bytes() + slow.got.len(), expected.len());
            }
            prop_assert_eq!(send_buffer.bytes(), 0);
            prop_assert_eq!(slow.got, expected);
        }
    }
}
