//! Orders responses: they leave in the order of the requests, however long each takes.

use bytes::Bytes;
use std::collections::VecDeque;

/// When a response is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReplyOrder {
    /// After those to earlier requests of the connection.
    InOrder,
    /// Before them: they wait for it.
    AtOnce,
}

/// What is known of the response to a request.
#[derive(Debug)]
enum Slot {
    Open,
    /// It waits for earlier ones.
    Ready(Bytes),
    /// It was sent before earlier ones.
    Sent,
}

/// Requests of one connection whose response is missing, or waits for an earlier one.
#[derive(Debug, Default)]
pub struct Replies {
    /// Number of the oldest request.
    first: u64,
    waiting: VecDeque<Slot>,
}

impl Replies {
    /// Registers a request; returns its number.
    pub fn ask(&mut self) -> u64 {
        let number = self.first.saturating_add(self.waiting.len() as u64);
        self.waiting.push_back(Slot::Open);
        number
    }

    /// Stores the response to request `number`, ignoring a second one, and passes every response that is next in order to `send`.
    pub fn answer(&mut self, number: u64, answer: Bytes, send: impl FnMut(Bytes)) {
        self.fill(number, Slot::Ready(answer), send);
    }

    /// As [`Replies::answer`], in its turn or before it.
    pub fn answer_in(&mut self, turn: ReplyOrder, number: u64, answer: Bytes, send: impl FnMut(Bytes)) {
        match turn {
            ReplyOrder::InOrder => self.answer(number, answer, send),
            ReplyOrder::AtOnce => self.answer_at_once(number, answer, send),
        }
    }

    /// Passes the response to request `number` to `send` before those to earlier requests, which wait for it: the process that answers asks its
    /// peer something meanwhile, and the peer sent this request before its response.
    fn answer_at_once(&mut self, number: u64, answer: Bytes, mut send: impl FnMut(Bytes)) {
        if self.open_slot(number).is_some() {
            send(answer);
            self.fill(number, Slot::Sent, send);
        }
    }

    fn fill(&mut self, number: u64, filled: Slot, mut send: impl FnMut(Bytes)) {
        if let Some(slot) = self.open_slot(number) {
            *slot = filled;
        }
        while let Some(slot) = self.waiting.pop_front_if(|slot| !matches!(slot, Slot::Open)) {
            if let Slot::Ready(answer) = slot {
                send(answer);
            }
            self.first = self.first.saturating_add(1);
        }
    }

    fn open_slot(&mut self, number: u64) -> Option<&mut Slot> {
        let place = usize::try_from(number.checked_sub(self.first)?).ok()?;
        self.waiting.get_mut(place).filter(|slot| matches!(slot, Slot::Open))
    }

    /// Requests whose response has not been sent.
    pub fn open(&self) -> usize {
        self.waiting.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reply_at_once_is_sent_before_earlier_ones_and_only_once() {
        let mut replies = Replies::default();
        let numbers: Vec<u64> = (0..3).map(|_| replies.ask()).collect();
        let mut sent = Vec::new();
        let mut send = |bytes: Bytes| sent.push(bytes);
        replies.answer(numbers[2], Bytes::from("2"), &mut send);
        replies.answer_at_once(numbers[1], Bytes::from("1"), &mut send);
        replies.answer_at_once(numbers[1], Bytes::from("again"), &mut send);
        replies.answer(numbers[0], Bytes::from("0"), &mut send);
        assert_eq!(sent, [Bytes::from("1"), Bytes::from("0"), Bytes::from("2")]);
        assert_eq!(replies.open(), 0);
    }

    #[test]
    fn replies_keep_the_order_of_requests() {
        let mut replies = Replies::default();
        let numbers: Vec<u64> = (0..3).map(|_| replies.ask()).collect();
        let mut sent = Vec::new();
        for number in [numbers[2], numbers[0], numbers[1]] {
            replies.answer(number, Bytes::from(number.to_string()), |b| sent.push(b));
        }
        assert_eq!(sent, [Bytes::from("0"), Bytes::from("1"), Bytes::from("2")]);
        assert_eq!((replies.open(), replies.ask()), (0, 3));
    }

    #[test]
    fn a_second_reply_is_dropped() {
        let mut replies = Replies::default();
        let (a, b) = (replies.ask(), replies.ask());
        let mut sent = Vec::new();
        replies.answer(b, Bytes::from("b"), |x| sent.push(x));
        replies.answer(b, Bytes::from("again"), |x| sent.push(x));
        replies.answer(a, Bytes::from("a"), |x| sent.push(x));
        replies.answer(a, Bytes::from("late"), |x| sent.push(x));
        assert_eq!(sent, [Bytes::from("a"), Bytes::from("b")]);
    }
}
