//! A client's connection and the one to the other process. What one sends goes to the other; bytes that it does not take yet are kept, and until it has
//! taken them no more are read.

use super::Counted;
use crate::net::stream::Stream;
use std::io::{self, Read, Write};

/// Reads of one direction before other connections have their turn.
const READS: usize = 16;

/// One socket with what is known of its readiness, which the system reports once.
struct End<S> {
    stream: S,
    is_readable: bool,
    is_writable: bool,
}

impl<S> End<S> {
    /// A new socket is tried before anything is reported.
    fn new(stream: S) -> End<S> {
        End { stream, is_readable: true, is_writable: true }
    }
}

/// One direction.
#[derive(Debug, Default)]
struct Way {
    /// Read and not yet taken by the other side.
    held: Vec<u8>,
    /// Anything was received.
    has_begun: bool,
    /// The sender has ended its stream.
    has_ended: bool,
    /// Its end was passed on.
    is_shut: bool,
}

/// What remains to be done in a direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Left {
    /// Nothing until a socket reports.
    Waits,
    /// More can be read at once.
    More,
    /// Everything was passed on, up to the end of the stream.
    Ended,
}

impl Way {
    /// Passes bytes on, reading pieces of the size of `piece`.
    fn step(&mut self, from: &mut End<impl Read>, to: &mut End<impl Write>, piece: &mut [u8]) -> io::Result<Left> {
        for _ in 0..READS {
            if !self.held.is_empty() {
                let taken = write(to, &self.held)?;
                self.held.drain(..taken);
                if !self.held.is_empty() {
                    return Ok(Left::Waits);
                }
                // A connection that waits for nothing holds no memory.
                self.held = Vec::new();
            }
            if self.has_ended {
                return Ok(Left::Ended);
            }
            if !from.is_readable {
                return Ok(Left::Waits);
            }
            match from.stream.read(piece) {
                Ok(0) => self.has_ended = true,
                Ok(read) => {
                    self.has_begun = true;
                    let bytes = piece.get(..read).unwrap_or_default();
                    let taken = write(to, bytes)?;
                    self.held.extend_from_slice(bytes.get(taken..).unwrap_or_default());
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => from.is_readable = false,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(Left::More)
    }
}

/// Writes as much as the socket takes. Returns the number of bytes.
fn write(to: &mut End<impl Write>, bytes: &[u8]) -> io::Result<usize> {
    let mut taken = 0usize;
    while to.is_writable
        && let Some(rest) = bytes.get(taken..).filter(|rest| !rest.is_empty())
    {
        match to.stream.write(rest) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(count) => taken = taken.saturating_add(count),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => to.is_writable = false,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(taken)
}

/// The two sockets of a forwarded connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Side {
    Client,
    Active,
}

/// What is left to do for a forwarded connection after [`Pair::step`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Progress {
    Waits,
    More,
    /// The active tickerplant has closed; the client has still to receive what it sent before.
    Lingers,
    Over,
}

pub(super) struct Pair {
    client: End<Stream>,
    active: Option<End<Stream>>,
    to_active: Way,
    to_client: Way,
    _counted: Counted,
}

impl Pair {
    /// `held`: the first bytes for the other process, which are the mark and what the client has sent so far.
    pub fn new(client: Stream, held: Vec<u8>, counted: Counted) -> Pair {
        let to_active = Way { held, ..Way::default() };
        Pair { client: End::new(client), active: None, to_active, to_client: Way::default(), _counted: counted }
    }

    pub fn client(&mut self) -> &mut Stream {
        &mut self.client.stream
    }

    /// Adds the connection to the other process.
    pub fn join(&mut self, active: Stream) {
        self.active = Some(End::new(active));
    }

    /// A socket has reported.
    pub fn reported(&mut self, side: Side, is_readable: bool, is_writable: bool) {
        let note = |is_readable_too: &mut bool, is_writable_too: &mut bool| {
            *is_readable_too |= is_readable;
            *is_writable_too |= is_writable;
        };
        match (side, &mut self.active) {
            (Side::Client, _) => note(&mut self.client.is_readable, &mut self.client.is_writable),
            (Side::Active, Some(active)) => note(&mut active.is_readable, &mut active.is_writable),
            (Side::Active, None) => {}
        }
    }

    /// Whether the other process has sent anything.
    pub fn has_answered(&self) -> bool {
        self.to_client.has_begun
    }

    /// Bytes that wait in both directions.
    pub fn held_bytes(&self) -> usize {
        self.to_active.held.len().saturating_add(self.to_client.held.len())
    }

    /// Passes on what there is.
    ///
    /// # Errors
    /// A socket's: the connection is over.
    pub fn step(&mut self, piece: &mut [u8]) -> io::Result<Progress> {
        let Some(active) = &mut self.active else { return Ok(Progress::Waits) };
        let onward = self.to_active.step(&mut self.client, active, piece)?;
        if onward == Left::Ended && !std::mem::replace(&mut self.to_active.is_shut, true) {
            active.stream.shutdown_write()?;
        }
        // What the other process has sent before it closed belongs to the client.
        let back = self.to_client.step(active, &mut self.client, piece)?;
        Ok(match (onward, back) {
            (_, Left::Ended) => Progress::Over,
            (Left::More, _) | (_, Left::More) => Progress::More,
            _ if self.to_client.has_ended => Progress::Lingers,
            _ => Progress::Waits,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::VecDeque;

    /// Gives and takes as many bytes per call as listed; `None` would block.
    #[derive(Default)]
    struct Socket {
        reads: VecDeque<Option<Vec<u8>>>,
        room: VecDeque<Option<usize>>,
        written: Vec<u8>,
    }

    impl Read for Socket {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            match self.reads.pop_front() {
                Some(Some(bytes)) => {
                    buffer[..bytes.len()].copy_from_slice(&bytes);
                    Ok(bytes.len())
                }
                Some(None) => Err(io::ErrorKind::WouldBlock.into()),
                None => Ok(0),
            }
        }
    }

    impl Write for Socket {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let Some(room) = self.room.pop_front().flatten() else { return Err(io::ErrorKind::WouldBlock.into()) };
            let taken = room.min(bytes.len());
            self.written.extend(&bytes[..taken]);
            Ok(taken)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn step(way: &mut Way, from: &mut End<Socket>, to: &mut End<Socket>) -> Left {
        way.step(from, to, &mut [0; 64]).expect("no error")
    }

    #[test]
    fn nothing_is_read_while_the_other_side_takes_nothing() {
        let mut way = Way::default();
        let reads = VecDeque::from([Some(b"abcdef".to_vec()), Some(b"gh".to_vec()), None]);
        let mut from = End::new(Socket { reads, ..Socket::default() });
        let mut to = End::new(Socket { room: VecDeque::from([Some(2), None]), ..Socket::default() });
        assert_eq!(step(&mut way, &mut from, &mut to), Left::Waits);
        assert_eq!((to.stream.written.as_slice(), way.held.as_slice()), (&b"ab"[..], &b"cdef"[..]));
        for _ in 0..3 {
            assert_eq!(step(&mut way, &mut from, &mut to), Left::Waits);
        }
        assert_eq!(from.stream.reads.len(), 2, "nothing more was read");
        (to.is_writable, to.stream.room) = (true, VecDeque::from([Some(100); 4]));
        assert_eq!(step(&mut way, &mut from, &mut to), Left::Waits);
        assert_eq!((to.stream.written.as_slice(), way.held.capacity()), (&b"abcdefgh"[..], 0));
    }

    #[test]
    fn the_end_of_a_stream_comes_after_its_bytes() {
        let mut way = Way::default();
        let mut from = End::new(Socket { reads: VecDeque::from([Some(b"abc".to_vec())]), ..Socket::default() });
        let mut to = End::new(Socket { room: VecDeque::from([Some(1), None]), ..Socket::default() });
        assert_eq!(step(&mut way, &mut from, &mut to), Left::Waits);
        (to.is_writable, to.stream.room) = (true, VecDeque::from([Some(100)]));
        assert_eq!(step(&mut way, &mut from, &mut to), Left::Ended);
        assert_eq!(to.stream.written, b"abc");
    }

    #[test]
    fn a_sender_that_never_pauses_leaves_others_their_turn() {
        let mut way = Way::default();
        let mut from = End::new(Socket { reads: vec![Some(b"x".to_vec()); 100].into(), ..Socket::default() });
        let mut to = End::new(Socket { room: VecDeque::from([Some(1); 100]), ..Socket::default() });
        assert_eq!(step(&mut way, &mut from, &mut to), Left::More);
        assert_eq!(to.stream.written.len(), READS);
    }
}
