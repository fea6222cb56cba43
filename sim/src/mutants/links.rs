//! Mutants between a tickerplant and its connections.

use super::{Defect, is_planted};
use bytes::Bytes;
use proto::FrameReader;

/// How an object that is a call of `upd` begins: three or four items, the first a symbol.
fn is_update(object: &[u8]) -> bool {
    object.get(6..).is_some_and(|items| items.starts_with(b"\xf5upd\0"))
}

/// Returns the bytes that wait in a send buffer, as the tickerplant sees them.
pub fn seen_bytes(bytes: usize) -> usize {
    if is_planted(Defect::SlowSubscriberLosesUpdates) { 0 } else { bytes }
}

/// Returns what enters a send buffer of what is sent; the buffer takes `free_bytes` more. `from_log`: it was read from the log.
pub fn sent(messages: Bytes, free_bytes: usize, from_log: bool) -> Bytes {
    let is_feed = messages.get(proto::HEADER_BYTES..).is_some_and(is_update);
    if is_feed && is_planted(Defect::SlowSubscriberLosesUpdates) && messages.len() > free_bytes {
        return Bytes::new();
    }
    if is_feed && from_log && is_planted(Defect::RejoinsOneLate) {
        return without_last(messages);
    }
    messages
}

fn without_last(messages: Bytes) -> Bytes {
    let mut frames = FrameReader::new(proto::Limits::default());
    frames.extend(&messages);
    let mut last_bytes = 0;
    while let Ok(Some((_, message))) = frames.next() {
        last_bytes = message.len();
    }
    messages.slice(..messages.len().saturating_sub(last_bytes))
}
