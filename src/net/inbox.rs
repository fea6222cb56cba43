//! Receive buffer of a q handle: responses awaited by a query, and messages, which are evaluated in order or, by `h[]`, returned
//! unevaluated.

use super::client::Incoming;
use crate::less;
use crate::sys::interrupt::{self, Cancel};
use proto::{Endian, MessageKind};
use std::collections::VecDeque;
use std::sync::atomic::{AtomicI32, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

pub use super::replies::ReplyOrder;

/// Ctrl-C poll interval of a blocking receive.
const LOOK: Duration = Duration::from_millis(50);
/// Limits of the buffered messages; at either one the connection is not read until some are taken.
const MAX_MESSAGES: usize = 4096;
const MAX_BYTES: usize = 64 << 20;

/// A received message that is not a response.
pub struct Message {
    pub kind: MessageKind,
    pub body: Vec<u8>,
    pub endian: Endian,
    /// Called once: with a whole response message, or with no bytes for an async message.
    pub answer: Respond,
}

pub type Respond = Box<dyn FnOnce(Vec<u8>, ReplyOrder) + Send>;

/// Why nothing more can be received.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// The peer closed the connection.
    Closed,
    /// The peer sent bytes that are not a message; with kdb+'s name of the error.
    Malformed(&'static str),
    /// Timeout, or Ctrl-C.
    Stopped,
}

/// What arrives while a request waits.
pub enum Next {
    Answer(Incoming),
    Message(Message),
}

#[derive(Default)]
struct State {
    /// Responses, each with the number of messages that arrived before it.
    answers: VecDeque<(u64, Incoming)>,
    /// Responses still to arrive whose requests were abandoned (timeout or Ctrl-C).
    given_up: usize,
    /// Messages, each with the number of those that arrived before it.
    messages: VecDeque<(u64, Message)>,
    /// Messages that have arrived on the connection.
    arrived: u64,
    bytes: usize,
    /// Evaluations that have sent an async message; incoming async messages are reserved for them until they end.
    holds: usize,
    ended: Option<End>,
}

impl State {
    fn is_full(&self) -> bool {
        self.messages.len() >= MAX_MESSAGES || self.bytes >= MAX_BYTES
    }

    fn take(&mut self, wanted: impl Fn(u64, &Message) -> bool) -> Option<Message> {
        let at = self.messages.iter().position(|(arrived, message)| wanted(*arrived, message))?;
        let (_, message) = self.messages.remove(at)?;
        self.bytes = less!(self.bytes, message.body.len());
        Some(message)
    }

    /// Takes the first message to evaluate that arrived before this number of messages had.
    fn take_before(&mut self, end: u64) -> Option<Message> {
        let held = self.holds > 0;
        self.take(|arrived, message| arrived < end && (!held || message.kind == MessageKind::Sync))
    }

    /// Takes a response, or a message to evaluate that arrived before it.
    fn take_next(&mut self) -> Option<Next> {
        let end = self.answers.front().map_or(u64::MAX, |(after, _)| *after);
        let message = self.take_before(end).map(Next::Message);
        message.or_else(|| self.take_answer().map(Next::Answer))
    }

    fn take_answer(&mut self) -> Option<Incoming> {
        self.answers.pop_front().map(|(_, answer)| answer)
    }
}

/// Callback, on any thread: a connection has something for [`Inbox::take`], or has ended.
pub type Tell = Arc<dyn Fn(Arc<Inbox>) + Send + Sync>;

/// Receive buffer of one connection.
#[derive(Default)]
pub struct Inbox {
    /// The connection's handle in this process; 0 before it is assigned, and after this process closed it.
    number: AtomicI32,
    state: Mutex<State>,
    changed: Condvar,
    gone: Cancel,
}

impl Inbox {
    pub fn number(&self) -> i32 {
        self.number.load(Ordering::SeqCst)
    }

    pub fn set_number(&self, number: i32) -> i32 {
        self.number.swap(number, Ordering::SeqCst)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Stores a response, or drops it if its request was abandoned.
    pub fn put_answer(&self, answer: Incoming) {
        let mut state = self.state();
        match state.given_up.checked_sub(1) {
            Some(left) => state.given_up = left,
            None => {
                let after = state.arrived;
                state.answers.push_back((after, answer));
            }
        }
        drop(state);
        self.changed.notify_all();
    }

    /// Stores a message. Returns true if no more should be read before one is taken.
    pub fn put(&self, message: Message) -> bool {
        let mut state = self.state();
        state.bytes = state.bytes.saturating_add(message.body.len());
        let arrived = state.arrived;
        state.arrived = arrived.saturating_add(1);
        state.messages.push_back((arrived, message));
        let full = state.is_full();
        drop(state);
        self.changed.notify_all();
        full
    }

    /// Blocks until there is room for messages, or the connection is no longer in use.
    pub fn wait_for_room(&self) {
        let mut state = self.state();
        while state.is_full() && self.number() != 0 && state.ended.is_none() {
            state = self.changed.wait_timeout(state, LOOK).unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Flag of the connection's sync messages: set when nobody reads their responses any more.
    pub fn gone(&self) -> &Cancel {
        &self.gone
    }

    /// Records that nothing more will arrive.
    pub fn end(&self, end: End) {
        self.gone.set();
        self.state().ended.get_or_insert(end);
        self.changed.notify_all();
    }

    /// Whether the connection has ended and no message is left.
    pub fn is_over(&self) -> bool {
        let state = self.state();
        state.ended.is_some() && state.messages.is_empty()
    }

    /// Takes the next message to evaluate.
    pub fn take(&self) -> Option<Message> {
        let taken = self.state().take_before(u64::MAX);
        self.changed.notify_all();
        taken
    }

    /// Waits for the response to the last sync request.
    ///
    /// # Errors
    /// Why there is none.
    pub fn answer(&self, by: Option<Instant>) -> Result<Incoming, End> {
        let found = self.wait(by, State::take_answer);
        if matches!(found, Err(End::Stopped)) {
            let mut state = self.state();
            state.given_up = state.given_up.saturating_add(1);
        }
        found
    }

    /// Waits for the response to the last sync request, or for a message to evaluate before it. As in kdb+, the order is that of
    /// arrival: the peer may have asked something before it responded, and wait for that.
    ///
    /// # Errors
    /// Why there is none.
    pub fn reply(&self, by: Option<Instant>) -> Result<Next, End> {
        let found = self.wait(by, State::take_next);
        if matches!(found, Err(End::Stopped)) {
            let mut state = self.state();
            state.given_up = state.given_up.saturating_add(1);
        }
        found
    }

    /// Takes the response to the last request, or a message that arrived before it. Does not wait: `None` if there is neither.
    ///
    /// # Errors
    /// How the connection ended, if it has and nothing is left.
    pub fn poll(&self) -> Result<Option<Next>, End> {
        let mut state = self.state();
        let (next, ended) = (state.take_next(), state.ended);
        drop(state);
        self.changed.notify_all();
        match (next, ended) {
            (None, Some(end)) => Err(end),
            (next, _) => Ok(next),
        }
    }

    /// Waits for the next async message and returns it unevaluated: `h[]`.
    ///
    /// # Errors
    /// Why there is none.
    pub fn next(&self, by: Option<Instant>) -> Result<Incoming, End> {
        let found = self.wait(by, |state| state.take(|_, message| message.kind == MessageKind::Async))?;
        let header = proto::Header {
            endian: found.endian,
            kind: found.kind,
            compression: proto::Compression::None,
            total_bytes: 0,
        };
        (found.answer)(Vec::new(), ReplyOrder::InOrder);
        Ok(Incoming { header, body: found.body })
    }

    fn wait<T>(&self, by: Option<Instant>, found: impl Fn(&mut State) -> Option<T>) -> Result<T, End> {
        let mut state = self.state();
        loop {
            if let Some(found) = found(&mut state) {
                return Ok(found);
            }
            if let Some(end) = state.ended {
                return Err(end);
            }
            if interrupt::is_asked() || by.is_some_and(|by| by <= Instant::now()) {
                return Err(End::Stopped);
            }
            let left = by.map_or(LOOK, |by| by.saturating_duration_since(Instant::now()).min(LOOK));
            state = self.changed.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

/// Reserves incoming async messages for an evaluation until dropped.
pub struct Hold(Arc<Inbox>, Tell);

impl Hold {
    /// `tell` is called when the last hold is dropped, if messages are left or the connection has ended.
    pub fn new(inbox: &Arc<Inbox>, tell: Tell) -> Hold {
        let mut state = inbox.state();
        state.holds = state.holds.saturating_add(1);
        drop(state);
        Hold(Arc::clone(inbox), tell)
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        let mut state = self.0.state();
        state.holds = less!(state.holds, 1);
        let waiting = state.holds == 0 && (!state.messages.is_empty() || state.ended.is_some());
        drop(state);
        if waiting {
            (self.1)(Arc::clone(&self.0));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(kind: MessageKind, body: &[u8]) -> Message {
        Message { kind, body: body.to_vec(), endian: Endian::Little, answer: Box::new(|_, _| ()) }
    }

    fn taken(inbox: &Inbox) -> Option<Vec<u8>> {
        inbox.take().map(|message| message.body)
    }

    #[test]
    fn reserved_messages_are_evaluated_after_their_release() {
        let inbox = Arc::new(Inbox::default());
        let told = Arc::new(AtomicI32::new(0));
        let count = Arc::clone(&told);
        let hold = Hold::new(
            &inbox,
            Arc::new(move |_| {
                count.fetch_add(1, Ordering::SeqCst);
            }),
        );
        for (kind, body) in [(MessageKind::Async, b"one"), (MessageKind::Sync, b"two"), (MessageKind::Async, b"six")] {
            inbox.put(message(kind, body));
        }
        assert_eq!(taken(&inbox).as_deref(), Some(&b"two"[..]));
        assert_eq!(taken(&inbox), None);
        assert_eq!(inbox.next(None).map(|incoming| incoming.body), Ok(b"one".to_vec()));
        drop(hold);
        assert_eq!(told.load(Ordering::SeqCst), 1);
        assert_eq!(taken(&inbox).as_deref(), Some(&b"six"[..]));
    }

    fn response(body: &[u8]) -> Incoming {
        let (endian, kind, compression) = (Endian::Little, MessageKind::Response, proto::Compression::None);
        Incoming { header: proto::Header { endian, kind, compression, total_bytes: 0 }, body: body.to_vec() }
    }

    #[test]
    fn what_arrived_before_a_response_is_evaluated_before_it() {
        let inbox = Inbox::default();
        inbox.put(message(MessageKind::Async, b"one"));
        inbox.put(message(MessageKind::Sync, b"two"));
        inbox.put_answer(response(b"three"));
        inbox.put(message(MessageKind::Sync, b"four"));
        let next = || match inbox.reply(None) {
            Ok(Next::Message(message)) => (false, message.body),
            Ok(Next::Answer(answer)) => (true, answer.body),
            Err(end) => panic!("{end:?}"),
        };
        assert_eq!(
            [next(), next(), next()],
            [(false, b"one".to_vec()), (false, b"two".to_vec()), (true, b"three".to_vec())]
        );
        assert_eq!(taken(&inbox).as_deref(), Some(&b"four"[..]));
    }

    #[test]
    fn an_answer_that_was_given_up_is_not_the_next_ones() {
        let inbox = Inbox::default();
        assert_eq!(inbox.answer(Some(Instant::now())).err(), Some(End::Stopped));
        inbox.put_answer(response(b"late"));
        inbox.put_answer(response(b"mine"));
        assert_eq!(inbox.answer(None).map(|answer| answer.body), Ok(b"mine".to_vec()));
        inbox.end(End::Malformed("badmsg"));
        assert_eq!(inbox.answer(None).err(), Some(End::Malformed("badmsg")));
    }

    #[test]
    fn waiting_bytes_have_a_limit() {
        let inbox = Inbox::default();
        inbox.set_number(3);
        assert!(!(0..MAX_MESSAGES - 1).any(|_| inbox.put(message(MessageKind::Async, b""))));
        assert!(inbox.put(message(MessageKind::Async, b"")));
        inbox.take();
        inbox.wait_for_room();
        assert!(!inbox.state().is_full());
    }
}
