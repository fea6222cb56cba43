//! Orders responses: they leave in the order of the requests, however long each takes.

use bytes::Bytes;
use std::collections::VecDeque;

/// Requests of one connection whose response is missing, or waits for an earlier one.
#[derive(Debug, Default)]
pub struct Replies {
    /// Number of the oldest request.
    first: u64,
    waiting: VecDeque<Option<Bytes>>,
}

impl Replies {
    /// Registers a request; returns its number.
    pub fn ask(&mut self) -> u64 {
        let number = self.first.saturating_add(self.waiting.len() as u64);
        self.waiting.push_back(None);
        number
    }

    /// Stores the response to request `number`, ignoring a second one, and passes every response that is next in order to `send`.
    pub fn answer(&mut self, number: u64, answer: Bytes, mut send: impl FnMut(Bytes)) {
        let place = number.checked_sub(self.first).and_then(|place| usize::try_from(place).ok());
        if let Some(slot) = place.and_then(|place| self.waiting.get_mut(place)).filter(|slot| slot.is_none()) {
            *slot = Some(answer);
        }
        while let Some(Some(_)) = self.waiting.front() {
            if let Some(Some(answer)) = self.waiting.pop_front() {
                send(answer);
            }
            self.first = self.first.saturating_add(1);
        }
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
