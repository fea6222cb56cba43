//! A subscriber that is fed from the log.

use super::super::lane::LaneSpec;
use super::{FeedError, Position};
use bytes::Bytes;
use std::collections::VecDeque;
use std::sync::Arc;

/// What is to happen when a subscriber has been given everything before a point.
#[derive(Clone, Debug)]
pub(super) enum Mark {
    Message(Bytes),
    /// From here on it is subscribed to this.
    Spec(Arc<LaneSpec>),
    /// The day's log ends here.
    NextDay,
    /// It wants no more.
    Stop,
}

pub(super) struct Behind {
    /// The first update that it has not been given.
    pub next: Position,
    /// Serial of the read that is under way for it.
    pub reading: Option<u64>,
    /// In order.
    marks: VecDeque<(Position, Mark)>,
}

impl Behind {
    pub fn new(next: Position) -> Behind {
        Behind { next, reading: None, marks: VecDeque::new() }
    }

    /// Adds a mark behind the others. A subscription that is changed again at the same point was none.
    pub fn mark(&mut self, at: Position, mark: Mark, most: usize) -> Result<(), FeedError> {
        if let (Some((last, Mark::Spec(old))), Mark::Spec(new)) = (self.marks.back_mut(), &mark)
            && *last == at
        {
            *old = Arc::clone(new);
            return Ok(());
        }
        if self.marks.len() >= most {
            return Err(FeedError::TooManyMarks(most));
        }
        self.marks.push_back((at.max(self.next), mark));
        Ok(())
    }

    /// The end of a day is always told, unless it has ended its subscription: there are no more of them than days. `spec` is
    /// what it is subscribed to before the marks.
    pub fn end_day(&mut self, end: Position, spec: &Arc<LaneSpec>, message: &Bytes) {
        let latest = self.marks.iter().rev().find_map(|(_, mark)| match mark {
            Mark::Spec(spec) => Some(spec),
            _ => None,
        });
        if !latest.unwrap_or(spec).key.is_empty() {
            self.marks.push_back((end, Mark::Message(message.clone())));
        }
        self.marks.push_back((end, Mark::NextDay));
    }

    /// The mark at the point that is reached, if there is one.
    pub fn take_due_mark(&mut self) -> Option<Mark> {
        let due = self.marks.front().is_some_and(|(at, _)| *at <= self.next);
        if due { self.marks.pop_front().map(|(_, mark)| mark) } else { None }
    }

    /// Whether it is given a part of the log and nothing behind it.
    pub fn stops(&self) -> bool {
        self.marks.iter().any(|(_, mark)| matches!(mark, Mark::Stop))
    }

    pub fn next_mark(&self) -> Option<Position> {
        self.marks.front().map(|(at, _)| *at)
    }
}
