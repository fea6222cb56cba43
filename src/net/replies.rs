//! Answers leave in the order in which the questions came, however long each takes.

use bytes::Bytes;
use std::collections::VecDeque;

/// Questions of one connection that have not been answered, or whose answer waits for an earlier one.
#[derive(Debug, Default)]
pub struct Replies {
    /// Number of the question at the front.
    first: u64,
    waiting: VecDeque<Option<Bytes>>,
}

impl Replies {
    /// A question has come: its number.
    pub fn ask(&mut self) -> u64 {
        let number = self.first.saturating_add(self.waiting.len() as u64);
        self.waiting.push_back(None);
        number
    }

    /// The answer to question `number`; a second one is dropped. Hands over every answer whose turn it is.
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

    /// Questions without an answer sent.
    pub fn open(&self) -> usize {
        self.waiting.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_keep_the_order_of_the_questions() {
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
    fn a_second_answer_is_dropped() {
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
