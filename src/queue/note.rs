//! Log events of the queue: what happened, and the queue, node and window concerned.

use super::{Date, QueueName, Window};
use std::fmt;

/// One log event. Queue, node, window and date are fields, so that logs can be filtered by them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Note {
    pub text: String,
    pub queue: Option<QueueName>,
    /// The node's name, or its handle if it has none.
    pub node: Option<String>,
    pub window: Option<Window>,
    /// The day of the window.
    pub date: Option<Date>,
}

impl Note {
    /// Returns an event without objects; the methods below add them.
    pub fn new(text: impl Into<String>) -> Note {
        Note { text: text.into(), ..Note::default() }
    }

    pub fn queue(self, queue: &QueueName) -> Note {
        Note { queue: Some(queue.clone()), ..self }
    }

    pub fn node(self, node: impl fmt::Display) -> Note {
        Note { node: Some(node.to_string()), ..self }
    }

    pub fn window(self, window: Window) -> Note {
        Note { window: Some(window), ..self }
    }

    pub fn date(self, date: Date) -> Note {
        Note { date: Some(date), ..self }
    }
}
