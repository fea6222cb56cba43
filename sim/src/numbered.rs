//! Publishers that number their updates (`docs/exactly-once.md`): after each connect they request the last number that was accepted, and send
//! again what follows it.

use super::audit::{Broken, PUBLISHER_BITS, Promise};
use super::feeds::columns;
use super::tick::plain;
use super::world::{Client, World};
use bytes::Bytes;
use elastick::net::message;
use proto::{MessageKind, types};
use std::collections::VecDeque;

/// Progress of such a publisher on its connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Stage {
    /// Has requested its last accepted number.
    #[default]
    Asking,
    Ready,
}

/// An update that no response has confirmed yet.
#[derive(Debug)]
struct Pending {
    id: u64,
    /// Index of its table, and number of columns added to it.
    table: usize,
    extras: usize,
    message: Bytes,
}

/// State of a publisher with numbers.
#[derive(Debug, Default)]
pub struct Numbered {
    stage: Stage,
    /// Updates after the last number that the publisher knows to be accepted, in order.
    pending: VecDeque<Pending>,
}

impl Numbered {
    pub fn is_ready(&self) -> bool {
        self.stage == Stage::Ready
    }

    /// Returns whether every update is known to be in the log, or to be rejected for good.
    pub fn is_confirmed(&self) -> bool {
        self.is_ready() && self.pending.is_empty()
    }
}

/// Returns the number of an update.
fn number(id: u64) -> i64 {
    (id & ((1 << PUBLISHER_BITS) - 1)).cast_signed()
}

fn name(publisher: u64) -> String {
    format!("feed{publisher}")
}

impl World {
    /// Requests the last accepted number, which also gives the publisher's id to this connection.
    pub fn asks_number(&mut self, at: usize) {
        let Some(publisher) = self.publishers.get_mut(at) else { return };
        let (Some(line), Some(numbered)) = (publisher.line, &mut publisher.numbered) else { return };
        numbered.stage = Stage::Asking;
        let name = name(publisher.number);
        let encoded = message::message(MessageKind::Sync, |writer| {
            writer.list_head(2);
            writer.symbol(".u.seq");
            writer.symbol(&name);
        });
        if let Ok(bytes) = encoded {
            self.send_up(line, bytes);
        }
    }

    /// As [`World::asks_number`], if any update is unconfirmed.
    pub fn numbered_confirms(&mut self, at: usize) {
        let numbered = self.publishers.get(at).and_then(|publisher| publisher.numbered.as_ref());
        if numbered.is_some_and(|numbered| numbered.is_ready() && !numbered.pending.is_empty()) {
            self.asks_number(at);
        }
    }

    pub fn numbered_publishes(&mut self, at: usize, table: usize, table_name: &str, syms: Vec<u8>) {
        let time_ns = i64::try_from(self.now_ns % super::world::DAY).unwrap_or(0);
        let extras = self.extras().get(table).copied().unwrap_or(0);
        let Some(publisher) = self.publishers.get_mut(at) else { return };
        let (id, name) = (publisher.next_id(), name(publisher.number));
        let (Some(line), Some(numbered)) = (publisher.line, &mut publisher.numbered) else { return };
        let Some(data) = columns(time_ns, &syms, id, extras) else { return };
        let encoded = message::message(MessageKind::Async, |writer| {
            writer.list_head(5);
            writer.symbol(".u.upd");
            writer.symbol(table_name);
            writer.list_head(data.count);
            writer.raw(&data.bytes);
            writer.symbol(&name);
            writer.atom_long(number(id));
        });
        let Ok(message) = encoded else { return };
        numbered.pending.push_back(Pending { id, table, extras, message: message.clone() });
        self.auditor.sends(id, table, syms, extras);
        self.send_up(line, message);
    }

    /// Handles responses to `.u.seq`, the only request of these publishers.
    pub fn numbered_receives(&mut self, at: usize, bytes: &Bytes) {
        let Some(publisher) = self.publishers.get_mut(at) else { return };
        let mut answers = Vec::new();
        publisher.receive(bytes, |header, message| answers.push(plain(header, message)));
        for answer in answers {
            match answer.split_first() {
                Some((&ty, long)) if ty.cast_signed() == -types::LONG => {
                    match long.try_into().map(i64::from_le_bytes) {
                        Ok(last) => self.is_numbered(at, last.max(0)),
                        Err(_) => self.judge(Err(Broken("a number of another size".to_string()))),
                    }
                }
                // The log cannot be written: the publisher connects again and asks again.
                Some((128, _)) => {
                    self.report.met("number not told");
                    return self.hang_up_publisher(at);
                }
                _ => self.judge(Err(Broken(format!("publisher {at} was not told its last number")))),
            }
        }
    }

    /// The tickerplant has accepted the updates up to this number, and none after it.
    fn is_numbered(&mut self, at: usize, last: i64) {
        let extras = self.extras();
        let Some(publisher) = self.publishers.get_mut(at) else { return };
        let owner = publisher.number;
        let (Some(line), Some(numbered)) = (publisher.line, &mut publisher.numbered) else { return };
        numbered.stage = Stage::Ready;
        let after = numbered.pending.partition_point(|own| number(own.id) <= last);
        let settled: Vec<Pending> = numbered.pending.drain(..after).collect();
        // What has other columns than its table by now is invalid for good.
        let is_valid = |own: &Pending| extras.get(own.table) == Some(&own.extras);
        let invalid: Vec<u64> = numbered.pending.iter().filter(|own| !is_valid(own)).map(|own| own.id).collect();
        numbered.pending.retain(is_valid);
        let again: Vec<(u64, Bytes)> = numbered.pending.iter().map(|own| (own.id, own.message.clone())).collect();
        let is_old = self.line_run(line) != self.tick_runs;
        if !is_old {
            let logged = self.auditor.last_logged_of(owner).map_or(0, number);
            if last < logged {
                let what = format!("publisher {at} received {last} as its last number, and {logged} is in the log");
                self.judge(Err(Broken(what)));
            }
        }
        self.report.met_times("numbered update confirmed", settled.len() as u64);
        self.report.met_times("numbered update sent again", again.len() as u64);
        for own in &settled {
            if self.auditor.place_of(own.id).is_none() && !is_valid(own) {
                self.auditor.refuses(own.id);
            } else if is_old && self.plan.promise() != Promise::Power {
                self.auditor.acknowledged_by_old();
            } else {
                self.report.acknowledged = self.report.acknowledged.saturating_add(1);
                let judged = self.auditor.acknowledges(own.id, &self.storage);
                self.judge(judged);
            }
        }
        invalid.into_iter().for_each(|id| self.auditor.refuses(id));
        self.auditor.sends_again(again.iter().map(|(id, _)| *id));
        for (_, message) in again {
            self.send_up(line, message);
        }
    }

    /// A publisher closes its connection and connects again later.
    pub fn hang_up_publisher(&mut self, at: usize) {
        let Some(line) = self.publishers.get(at).and_then(|publisher| publisher.line) else { return };
        self.hang_up(line, false);
        self.lost_line(Client::Publisher(at), line);
    }
}
