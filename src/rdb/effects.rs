//! External effects of an evaluation: each happens once, although the evaluation may run twice.
//!
//! A query that turns out to assign starts again, alone and with the right to do so. Its output and its messages to clients are
//! held back until it ends, so those of the first attempt are simply dropped. Operations on handles to other processes
//! happen at once; their results are recorded, and the second attempt gets the recorded results.

use crate::net::{ConnId, SyncRequest};
use crate::q::QError;
use crate::q::handles::Held;
use crate::table::Value;
use bytes::Bytes;
use std::collections::BTreeMap;

/// An action for the connection loop.
#[derive(Debug)]
pub enum Out {
    Send {
        conn: ConnId,
        message: Bytes,
    },
    /// The response to a deferred message.
    Respond {
        request: SyncRequest,
        answer: Bytes,
    },
    Close(ConnId),
}

/// An operation on a handle.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HandleCall {
    Open(Vec<u8>),
    Close(i32),
    Send(i64),
}

/// Effects of one evaluation.
#[derive(Debug, Default)]
pub struct Effects {
    out: Vec<Out>,
    /// Number of actions of this attempt, including those already sent.
    queued: usize,
    /// Number of actions sent before the end of an attempt.
    left: usize,
    pub printed: Vec<u8>,
    /// The response was deferred (`-30!(::)`).
    pub deferred: bool,
    /// The deferred request is in the node's list already, because the evaluation waits for a client: others may answer it meanwhile.
    pub is_registered: bool,
    /// The evaluation has sent the deferred response itself.
    pub answered: bool,
    /// Deferred requests that this attempt has answered, by handle.
    taken: Vec<(i32, SyncRequest)>,
    /// Those that the first attempt has answered and the second has not yet.
    carried: Vec<(i32, SyncRequest)>,
    done: Vec<(HandleCall, Result<Value, QError>)>,
    /// Number of operations of the first attempt that this one has repeated.
    repeated: usize,
    /// Guards that keep the messages arriving on a handle for this evaluation, by handle.
    held: BTreeMap<i64, Held>,
}

impl Effects {
    /// Returns the effects with which the second attempt starts.
    pub fn again(self) -> Effects {
        Effects {
            done: self.done,
            left: self.left,
            held: self.held,
            carried: self.taken,
            is_registered: self.is_registered,
            ..Effects::default()
        }
    }

    /// Returns the deferred request to answer on a handle; `waiting` takes it from the scope unless the first attempt has.
    pub fn answer(&mut self, handle: i32, waiting: impl FnOnce() -> Option<SyncRequest>) -> Option<SyncRequest> {
        let before = self.carried.iter().position(|(carried, _)| *carried == handle);
        let request = before.map(|at| self.carried.remove(at).1).or_else(waiting)?;
        self.taken.push((handle, request));
        Some(request)
    }

    /// Returns the requests that only the first attempt has answered: they stay deferred. Empty if messages of the
    /// first attempt were already sent early, and the answers with them.
    pub fn unanswered(&mut self) -> Vec<(i32, SyncRequest)> {
        let waiting = std::mem::take(&mut self.carried);
        if self.left == 0 { waiting } else { Vec::new() }
    }

    /// Queues an action until the end, unless the first attempt has sent it already.
    pub fn send(&mut self, out: Out) {
        self.queued = self.queued.saturating_add(1);
        if self.queued > self.left {
            self.out.push(out);
        }
    }

    /// Returns the actions to send now, before an operation that waits for a client.
    pub fn leave(&mut self) -> Vec<Out> {
        self.left = self.left.max(self.queued);
        self.out()
    }

    /// Returns the actions not sent yet.
    pub fn out(&mut self) -> Vec<Out> {
        std::mem::take(&mut self.out)
    }

    /// Keeps the messages that arrive on a handle until the evaluation ends.
    pub fn hold(&mut self, handle: i64, hold: impl FnOnce() -> Option<Held>) {
        if !self.held.contains_key(&handle)
            && let Some(held) = hold()
        {
            self.held.insert(handle, held);
        }
    }

    /// Returns whether the first attempt has performed the operation.
    pub fn repeats(&self, call: &HandleCall) -> bool {
        self.done.get(self.repeated).is_some_and(|(before, _)| before == call)
    }

    /// Returns whether this evaluation has opened the handle; it may have been closed since.
    pub fn has_opened(&self, handle: i64) -> bool {
        let opened =
            |result: &Result<Value, QError>| result.as_ref().is_ok_and(|value| value.as_long() == Some(handle));
        self.done.iter().any(|(call, result)| matches!(call, HandleCall::Open(_)) && opened(result))
    }

    /// Performs the operation, or returns the recorded result of the first attempt.
    ///
    /// # Errors
    /// Those of `act`.
    pub fn once(&mut self, call: HandleCall, act: impl FnOnce() -> Result<Value, QError>) -> Result<Value, QError> {
        if let Some((before, result)) = self.done.get(self.repeated)
            && *before == call
        {
            self.repeated = self.repeated.saturating_add(1);
            return result.clone();
        }
        // The second attempt takes another path: discard the remaining records of the first.
        self.done.truncate(self.repeated);
        let result = act();
        self.done.push((call, result.clone()));
        self.repeated = self.done.len();
        result
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn once(effects: &mut Effects, call: HandleCall, count: &mut i64) -> Option<i64> {
        let done = effects.once(call, || {
            *count += 1;
            Ok(Value::Long(*count))
        });
        done.ok()?.as_long()
    }

    #[test]
    fn a_second_attempt_gets_the_results_of_the_first() {
        let (mut effects, mut count) = (Effects::default(), 0);
        assert_eq!(once(&mut effects, HandleCall::Open(b"x".to_vec()), &mut count), Some(1));
        assert_eq!(once(&mut effects, HandleCall::Send(100), &mut count), Some(2));
        effects.printed.push(b'x');
        let mut again = effects.again();
        assert!(again.printed.is_empty());
        assert_eq!(once(&mut again, HandleCall::Open(b"x".to_vec()), &mut count), Some(1));
        assert_eq!(once(&mut again, HandleCall::Send(100), &mut count), Some(2));
        assert_eq!(once(&mut again, HandleCall::Send(100), &mut count), Some(3));
    }

    #[test]
    fn a_waiting_caller_gets_the_result_of_the_last_attempt() {
        let request = SyncRequest::new(ConnId::new(0, 1), 1);
        let mut first = Effects::default();
        assert!(first.answer(7, || Some(request)).is_some());
        assert!(first.answer(7, || None).is_none(), "an answer is given once");
        let mut again = first.again();
        assert!(again.answer(7, || None).is_some());
        assert!(again.answer(7, || None).is_none());
        assert!(again.unanswered().is_empty());
        let mut first = Effects::default();
        first.answer(7, || Some(request));
        assert_eq!(first.again().unanswered().len(), 1, "the second attempt has gone another way");
    }

    #[test]
    fn a_node_that_left_early_does_not_leave_again() {
        let close = || Out::Close(ConnId::new(0, 1));
        let mut effects = Effects::default();
        effects.send(close());
        assert_eq!(effects.leave().len(), 1);
        let mut again = effects.again();
        again.send(close());
        again.send(close());
        assert_eq!(again.out().len(), 1);
    }

    #[test]
    fn where_the_second_attempt_goes_another_way_it_acts_itself() {
        let (mut effects, mut count) = (Effects::default(), 0);
        once(&mut effects, HandleCall::Send(100), &mut count);
        once(&mut effects, HandleCall::Send(101), &mut count);
        let mut again = effects.again();
        assert_eq!(once(&mut again, HandleCall::Send(102), &mut count), Some(3));
        assert_eq!(once(&mut again, HandleCall::Send(101), &mut count), Some(4));
    }
}
