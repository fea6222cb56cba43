//! What an evaluation does outside: it happens once, though the evaluation may run twice.
//!
//! A query that turns out to assign is begun anew on its own. What it prints and sends to clients is held back until it has
//! ended, so that the first attempt's is simply dropped; what has to be done at once, on handles to other processes, is noted
//! with its result, and the second attempt gets that.

use crate::net::{ConnId, Request};
use crate::q::QError;
use crate::q::handles::Held;
use crate::table::Value;
use bytes::Bytes;
use std::collections::BTreeMap;

/// Something for the loop that serves connections.
#[derive(Debug)]
pub enum Out {
    Send {
        conn: ConnId,
        message: Bytes,
    },
    /// The answer to a message that was put off.
    Respond {
        request: Request,
        answer: Bytes,
    },
    Close(ConnId),
}

/// Something done on a handle.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Deed {
    Open(Vec<u8>),
    Close(i32),
    Send(i64),
}

/// The effects of one evaluation.
#[derive(Debug, Default)]
pub struct Effects {
    out: Vec<Out>,
    /// Everything of this attempt, what has left already among it.
    said: usize,
    /// How much of that has left before the end of an attempt.
    left: usize,
    pub printed: Vec<u8>,
    /// The message is answered later.
    pub deferred: bool,
    /// It has been answered all the same, by this evaluation.
    pub answered: bool,
    /// Whom this attempt has answered, of those whose answer was put off.
    taken: Vec<(i32, Request)>,
    /// Whom the first attempt has, while the second has not.
    carried: Vec<(i32, Request)>,
    done: Vec<(Deed, Result<Value, QError>)>,
    /// Deeds of the first attempt that this one has repeated.
    repeated: usize,
    /// What keeps the messages that come on handles for this evaluation, by handle.
    held: BTreeMap<i64, Held>,
}

impl Effects {
    /// For the second attempt.
    pub fn again(self) -> Effects {
        Effects { done: self.done, left: self.left, held: self.held, carried: self.taken, ..Effects::default() }
    }

    /// Whoever waits at a handle for an answer that was put off, and gets it now: once, though the first attempt has answered too.
    pub fn answer(&mut self, handle: i32, waiting: impl FnOnce() -> Option<Request>) -> Option<Request> {
        let before = self.carried.iter().position(|(carried, _)| *carried == handle);
        let request = before.map(|at| self.carried.remove(at).1).or_else(waiting)?;
        self.taken.push((handle, request));
        Some(request)
    }

    /// Whom the first attempt would have answered and the second has not: they wait on. Those whose answer had to leave early do
    /// not.
    pub fn unanswered(&mut self) -> Vec<(i32, Request)> {
        let waiting = std::mem::take(&mut self.carried);
        if self.left == 0 { waiting } else { Vec::new() }
    }

    /// To be sent at the end.
    pub fn send(&mut self, out: Out) {
        self.said = self.said.saturating_add(1);
        if self.said > self.left {
            self.out.push(out);
        }
    }

    /// What is to be sent now, before something that cannot wait.
    pub fn leave(&mut self) -> Vec<Out> {
        self.left = self.left.max(self.said);
        self.out()
    }

    /// What is still to be sent.
    pub fn out(&mut self) -> Vec<Out> {
        std::mem::take(&mut self.out)
    }

    /// Keeps what comes on a handle until the evaluation ends.
    pub fn hold(&mut self, handle: i64, hold: impl FnOnce() -> Option<Held>) {
        if !self.held.contains_key(&handle)
            && let Some(held) = hold()
        {
            self.held.insert(handle, held);
        }
    }

    /// Whether the first attempt has done it.
    pub fn repeats(&self, deed: &Deed) -> bool {
        self.done.get(self.repeated).is_some_and(|(before, _)| before == deed)
    }

    /// Whether this evaluation has opened the handle, though it may be closed again since.
    pub fn has_opened(&self, handle: i64) -> bool {
        let opened =
            |result: &Result<Value, QError>| result.as_ref().is_ok_and(|value| value.as_long() == Some(handle));
        self.done.iter().any(|(deed, result)| matches!(deed, Deed::Open(_)) && opened(result))
    }

    /// Does it, unless the first attempt has.
    ///
    /// # Errors
    /// Those of `act`.
    pub fn once(&mut self, deed: Deed, act: impl FnOnce() -> Result<Value, QError>) -> Result<Value, QError> {
        if let Some((before, result)) = self.done.get(self.repeated)
            && *before == deed
        {
            self.repeated = self.repeated.saturating_add(1);
            return result.clone();
        }
        // It goes another way than the first attempt: what that did counts no more.
        self.done.truncate(self.repeated);
        let result = act();
        self.done.push((deed, result.clone()));
        self.repeated = self.done.len();
        result
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn once(effects: &mut Effects, deed: Deed, count: &mut i64) -> Option<i64> {
        let done = effects.once(deed, || {
            *count += 1;
            Ok(Value::Long(*count))
        });
        done.ok()?.as_long()
    }

    #[test]
    fn a_second_attempt_gets_the_results_of_the_first() {
        let (mut effects, mut count) = (Effects::default(), 0);
        assert_eq!(once(&mut effects, Deed::Open(b"x".to_vec()), &mut count), Some(1));
        assert_eq!(once(&mut effects, Deed::Send(100), &mut count), Some(2));
        effects.printed.push(b'x');
        let mut again = effects.again();
        assert!(again.printed.is_empty());
        assert_eq!(once(&mut again, Deed::Open(b"x".to_vec()), &mut count), Some(1));
        assert_eq!(once(&mut again, Deed::Send(100), &mut count), Some(2));
        assert_eq!(once(&mut again, Deed::Send(100), &mut count), Some(3));
    }

    #[test]
    fn who_waits_is_answered_by_the_attempt_that_counts_or_waits_on() {
        let request = Request::new(ConnId::new(0, 1), 1);
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
    fn what_has_left_early_does_not_leave_again() {
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
        once(&mut effects, Deed::Send(100), &mut count);
        once(&mut effects, Deed::Send(101), &mut count);
        let mut again = effects.again();
        assert_eq!(once(&mut again, Deed::Send(102), &mut count), Some(3));
        assert_eq!(once(&mut again, Deed::Send(101), &mut count), Some(4));
    }
}
