//! Messages in flight, each known by a number, and their text for people.

use crate::tick::plain;
use bytes::Bytes;
use elastick::protocol::FromNode;
use elastick::queue::{Date, Status, UpdateIndex};
use proto::{Endian, FrameReader, Header, Limits, MessageKind, View};
use std::collections::HashMap;

/// Messages that the model does not carry: the first only reports status, the others are about the fleet, which a model does not have.
const NOT_CARRIED: [&[u8]; 4] = [b".u.asg.status", b".u.asg.group", b".u.asg.need", b".u.asg.waiting"];

/// Interned messages, so that equal messages have equal numbers.
#[derive(Default)]
pub struct Messages {
    all: Vec<Bytes>,
    numbers: HashMap<Bytes, u32>,
}

impl Messages {
    fn number(&mut self, message: Bytes) -> u32 {
        if let Some(number) = self.numbers.get(&message) {
            return *number;
        }
        let number = u32::try_from(self.all.len()).unwrap_or(u32::MAX);
        self.all.push(message.clone());
        self.numbers.insert(message, number);
        number
    }

    /// Returns the number of the status report of a node that expects this update of a day next and was queried long ago.
    ///
    /// # Errors
    /// It cannot be encoded.
    pub fn report(&mut self, next: Option<u64>, date: Option<i32>) -> Result<u32, String> {
        let (next, date) = (next.map(UpdateIndex), date.map(Date));
        let status = Status { next, date, quiet_ns: Some(i64::MAX - 1), ..Status::default() };
        let mut bytes = Vec::new();
        FromNode::Status(status).append(&mut bytes).map_err(|error| error.to_string())?;
        Ok(self.number(bytes.into()))
    }

    /// Returns a status report of a node that was queried long ago, as its receiver gets it.
    ///
    /// # Errors
    /// As [`Messages::report`].
    pub fn status(&mut self) -> Result<(Header, Vec<u8>), String> {
        let number = self.report(None, None)?;
        self.get(number).ok_or_else(|| "no such message".to_string())
    }

    /// Returns whether a message is a status report.
    pub fn is_report(&self, number: u32) -> bool {
        let bytes = usize::try_from(number).ok().and_then(|number| self.all.get(number));
        bytes.and_then(|bytes| name(bytes)).is_some_and(|name| name == b".u.asg.status")
    }

    /// Splits output of one end into whole messages and returns their numbers.
    pub fn cut(&mut self, bytes: &[u8]) -> Vec<u32> {
        let mut rest = bytes;
        let mut numbers = Vec::new();
        while let Some(length) = rest.get(4..8).and_then(|length| <[u8; 4]>::try_from(length).ok()) {
            let length = usize::try_from(u32::from_le_bytes(length)).unwrap_or(usize::MAX);
            let Some((message, behind)) = rest.split_at_checked(length) else { break };
            rest = behind;
            let message = Bytes::copy_from_slice(message);
            if !name(&message).is_some_and(|name| NOT_CARRIED.contains(&name.as_slice())) {
                numbers.push(self.number(message));
            }
        }
        numbers
    }

    /// Returns a message as its receiver gets it.
    pub fn get(&self, number: u32) -> Option<(Header, Vec<u8>)> {
        let bytes = usize::try_from(number).ok().and_then(|number| self.all.get(number))?;
        parse(bytes)
    }

    /// Returns the message as text.
    pub fn words(&self, number: u32) -> String {
        let Some((header, body)) = self.get(number) else { return "?".to_string() };
        let Ok((view, _)) = View::parse(&body, Endian::Little, &Limits::default()) else { return "?".to_string() };
        let words = match view.list() {
            Some(list) => list.iter().map(|item| short(&item)).collect::<Vec<_>>().join(" "),
            None => short(&view),
        };
        match header.kind {
            MessageKind::Response => format!("answer {words}"),
            _ => words,
        }
    }
}

fn parse(bytes: &[u8]) -> Option<(Header, Vec<u8>)> {
    let mut frames = FrameReader::new(Limits::default());
    frames.extend(bytes);
    let (header, message) = frames.next().ok()??;
    Some((header, plain(&header, message)))
}

fn name(message: &[u8]) -> Option<Vec<u8>> {
    let (_, body) = parse(message)?;
    let (view, _) = View::parse(&body, Endian::Little, &Limits::default()).ok()?;
    let first = view.list()?.iter().next()?;
    first.text().map(<[u8]>::to_vec)
}

fn short(view: &View<'_>) -> String {
    if let Some(text) = view.text() {
        return String::from_utf8_lossy(text).into_owned();
    }
    if let Some(dict) = view.dict() {
        let shown = ["first", "last", "tip", "next", "held", "live", "drop", "date"];
        let pairs = shown.iter().filter_map(|key| Some(format!("{key}: {}", short(&dict.get(key.as_bytes())?))));
        return format!("({})", pairs.collect::<Vec<_>>().join(", "));
    }
    if let Some(long) = view.atom::<i64>() {
        return if long == i64::MIN { "null".to_string() } else { long.to_string() };
    }
    if let Some(date) = view.atom::<i32>() {
        return elastick::queue::Date(date).to_string();
    }
    if let Some(is) = view.atom::<bool>() {
        return is.to_string();
    }
    match view.vector().filter(|longs| longs.ty == proto::types::LONG).and_then(|longs| longs.to_vec::<i64>()) {
        Some(longs) => format!("{longs:?}"),
        None => "…".to_string(),
    }
}
