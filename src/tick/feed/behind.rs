//! Catch-up state of a subscriber that is fed from the log.

use super::super::lane::LaneSpec;
use super::{FeedError, Position};
use bytes::Bytes;
use std::collections::VecDeque;
use std::sync::Arc;

/// Action due once a subscriber has received everything before a position.
#[derive(Clone, Debug)]
pub(super) enum Mark {
    Message(Bytes),
    /// The subscription changes to this one.
    Spec(Arc<LaneSpec>),
    /// The log of the day ends here.
    NextDay,
    /// The requested range ends here.
    Stop,
}

/// Catch-up state of one subscriber.
pub(super) struct CatchUpState {
    /// First update not yet sent.
    pub next: Position,
    /// Serial number of the read in progress.
    pub reading: Option<u64>,
    /// In order of position.
    marks: VecDeque<(Position, Mark)>,
}

impl CatchUpState {
    pub fn new(next: Position) -> CatchUpState {
        CatchUpState { next, reading: None, marks: VecDeque::new() }
    }

    /// Appends a mark. A second subscription change at the same position replaces the first.
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

    /// Appends the end of a day, unless the subscription has ended. Exempt from the limit of marks: there is only one for each day.
    /// `spec` is the subscription before the marks.
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

    /// Takes the mark at the position reached, if there is one.
    pub fn take_due_mark(&mut self) -> Option<Mark> {
        let due = self.marks.front().is_some_and(|(at, _)| *at <= self.next);
        if due { self.marks.pop_front().map(|(_, mark)| mark) } else { None }
    }

    /// Whether the subscriber gets a closed range of the log and nothing after it.
    pub fn stops(&self) -> bool {
        self.marks.iter().any(|(_, mark)| matches!(mark, Mark::Stop))
    }

    /// Returns the position of the first mark.
    pub fn next_mark(&self) -> Option<Position> {
        self.marks.front().map(|(at, _)| *at)
    }
}
