//! What an evaluation does outside: it happens once, though the evaluation may run twice.
//!
//! A query that turns out to assign is begun anew on its own. What it prints and sends to clients is held back until it has
//! ended, so that the first attempt's is simply dropped; what has to be done at once, on handles to other processes, is noted
//! with its result, and the second attempt gets that.

use crate::net::Request;
use crate::q::QError;
use crate::table::Value;
use bytes::Bytes;

/// Something for the loop that serves connections.
#[derive(Debug)]
pub enum Out {
    /// To the connection that has this handle now.
    Send { handle: i32, message: Bytes },
    /// The answer to a message that was put off.
    Respond { request: Request, answer: Bytes },
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
    pub out: Vec<Out>,
    pub printed: Vec<u8>,
    /// The message is answered later.
    pub deferred: bool,
    done: Vec<(Deed, Result<Value, QError>)>,
    /// Deeds of the first attempt that this one has repeated.
    repeated: usize,
}

impl Effects {
    /// For the second attempt.
    pub fn again(self) -> Effects {
        Effects { done: self.done, ..Effects::default() }
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
    fn where_the_second_attempt_goes_another_way_it_acts_itself() {
        let (mut effects, mut count) = (Effects::default(), 0);
        once(&mut effects, Deed::Send(100), &mut count);
        once(&mut effects, Deed::Send(101), &mut count);
        let mut again = effects.again();
        assert_eq!(once(&mut again, Deed::Send(102), &mut count), Some(3));
        assert_eq!(once(&mut again, Deed::Send(101), &mut count), Some(4));
    }
}
