//! Publishers with a ledger of unconfirmed updates, as `elastick feed` has: updates in doubt after a broken connection are looked up in the
//! log, and sent again if they are not there.

use super::audit::record::COLUMNS;
use super::audit::{Broken, PUBLISHER_BITS};
use super::clients::Publisher;
use super::tick::plain;
use super::world::World;
use bytes::Bytes;
use elastick::feed::ledger::{FeedAudit, Place, WHERE};
use elastick::feed::update::{Columns, Update};
use elastick::net::message;
use proto::{Limits, MessageKind, Writer, decode};
use std::collections::BTreeMap;

/// Progress of a feed on its connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Stage {
    /// Has requested the log's place (tip and path), the first time on this connection.
    #[default]
    First,
    /// Has requested it a second time: by then the tickerplant has handled whatever it had read from the last connection.
    Second,
    Ready,
    /// Waits for a response that confirms all updates before it.
    Confirming,
}

/// State of a feed: its connection and its ledger.
#[derive(Default)]
pub struct Feed {
    stage: Stage,
    ledger: Option<FeedAudit>,
    /// Ids of unconfirmed updates, by hash.
    ids: BTreeMap<u64, u64>,
}

impl Feed {
    pub fn is_ready(&self) -> bool {
        self.stage == Stage::Ready
    }
}

/// Encodes the columns of an update, one after the other, with `extras` columns beyond the first ones.
pub fn columns(time_ns: i64, syms: &[u8], id: u64, extras: usize) -> Option<Columns> {
    let mut bytes = Vec::new();
    let mut writer = Writer::new(&mut bytes);
    writer.vector(proto::types::TIMESPAN, 0, &vec![time_ns; syms.len()]);
    writer.symbols(syms.iter().map(|sym| format!("s{sym}")).collect::<Vec<_>>());
    writer.vector(proto::types::LONG, 0, &vec![id.cast_signed(); syms.len()]);
    writer.vector(proto::types::LONG, 0, &(0..).take(syms.len()).collect::<Vec<i64>>());
    for _ in 0..extras {
        writer.vector(proto::types::LONG, 0, &vec![id.cast_signed(); syms.len()]);
    }
    writer.finish().ok()?;
    Some(Columns { count: COLUMNS.len().saturating_add(extras), rows: syms.len() as u64, bytes })
}

impl World {
    fn feed_of(&mut self, at: usize) -> Option<&mut Feed> {
        self.publishers.get_mut(at)?.feed.as_mut()
    }

    /// A feed's connection is open: it requests the log's place.
    pub fn feed_connected(&mut self, at: usize) {
        if let Some(feed) = self.feed_of(at) {
            feed.stage = Stage::First;
            self.ask_where(at);
        }
    }

    fn ask_where(&mut self, at: usize) {
        let encoded = message::message(MessageKind::Sync, |writer| writer.chars(WHERE));
        let line = self.publishers.get(at).and_then(|publisher| publisher.line);
        if let (Ok(bytes), Some(line)) = (encoded, line) {
            self.send_up(line, bytes);
        }
    }

    pub fn feed_publishes(&mut self, at: usize, table: usize, name: &str, syms: Vec<u8>) {
        let time_ns = i64::try_from(self.now_ns % super::world::DAY).unwrap_or(0);
        let extras = self.extras().get(table).copied().unwrap_or(0);
        let Some(publisher) = self.publishers.get_mut(at) else { return };
        let id = publisher.next_id();
        let (Some(line), Some(feed)) = (publisher.line, &mut publisher.feed) else { return };
        let update = columns(time_ns, &syms, id, extras)
            .and_then(|columns| Update::new(name.as_bytes(), &columns, MessageKind::Async).ok());
        let (Some(update), Some(ledger)) = (update, &mut feed.ledger) else { return };
        feed.ids.insert(update.hash, id);
        let message = Bytes::from(update.message.clone());
        ledger.sends(update);
        self.auditor.sends(id, table, syms, extras);
        self.send_up(line, message);
    }

    pub fn feed_confirms(&mut self, at: usize) {
        let Some(feed) = self.feed_of(at) else { return };
        if feed.ledger.as_ref().is_some_and(|ledger| !ledger.unconfirmed().is_empty()) {
            feed.stage = Stage::Confirming;
            self.ask_where(at);
        }
    }

    /// Handles responses to that request, the only one a feed sends.
    pub fn feed_receives(&mut self, at: usize, bytes: &Bytes) {
        let Some(publisher) = self.publishers.get_mut(at) else { return };
        let mut answers = Vec::new();
        publisher.receive(bytes, |header, message| answers.push(plain(header, message)));
        for answer in answers {
            let place = decode::object(&answer, proto::Endian::Little, &Limits::default())
                .ok()
                .and_then(|(value, _)| Place::of(&value));
            match place {
                Some(place) => self.feed_placed(at, place),
                None => self.judge(Err(Broken("a feed was not told where the log is".to_string()))),
            }
        }
    }

    fn feed_placed(&mut self, at: usize, place: Place) {
        let line = self.publishers.get(at).and_then(|publisher| publisher.line);
        let run = line.map_or(self.tick_runs, |line| self.line_run(line));
        let Some(feed) = self.feed_of(at) else { return };
        let in_doubt = feed.ledger.as_ref().is_some_and(|ledger| !ledger.unconfirmed().is_empty());
        match (feed.stage, &mut feed.ledger) {
            (Stage::First, Some(_)) if in_doubt => {
                feed.stage = Stage::Second;
                self.ask_where(at);
            }
            (Stage::First | Stage::Second, Some(_)) => self.feed_settles(at, place),
            (Stage::First | Stage::Second, None) => {
                feed.ledger = Some(FeedAudit::new(place));
                feed.stage = Stage::Ready;
            }
            (Stage::Confirming, Some(ledger)) => {
                ledger.confirmed(place);
                let confirmed: Vec<u64> = std::mem::take(&mut feed.ids).into_values().collect();
                feed.stage = Stage::Ready;
                self.report.met_times("async update confirmed to a feed", confirmed.len() as u64);
                self.auditor.handled(&confirmed, run);
            }
            (Stage::Confirming, None) | (Stage::Ready, _) => {}
        }
    }

    /// Looks up updates in doubt and sends again those that are not in the log.
    fn feed_settles(&mut self, at: usize, place: Place) {
        let process = u32::MAX.saturating_sub(u32::try_from(at).unwrap_or(0));
        // Half of the feeds run on the tickerplant's host, half on hosts where the log is visible late.
        let host = if at.is_multiple_of(2) { self.tick_host } else { process };
        let process = self.process(host, process);
        self.enter();
        let Some(publisher) = self.publishers.get_mut(at) else { return };
        let (Some(line), Some(feed)) = (publisher.line, &mut publisher.feed) else { return };
        let Some(ledger) = &mut feed.ledger else { return };
        let settled = ledger.settle(&process.env, place, Limits::default(), 32 << 10);
        feed.stage = Stage::Ready;
        if let Err(reason) = settled {
            // The operator starts another feed, which knows nothing of these updates.
            *feed = Feed::default();
            self.trace.say(|| format!("feed {at} ends with updates in doubt: {reason}"));
            self.report.met("feed that ended with updates in doubt");
            return self.hang_up_publisher(at);
        }
        let again: Vec<(u64, Bytes)> =
            ledger.unconfirmed().iter().map(|update| (update.hash, Bytes::from(update.message.clone()))).collect();
        let mut found = std::mem::take(&mut feed.ids);
        feed.ids = again.iter().filter_map(|(hash, _)| found.remove_entry(hash)).collect();
        let again_ids: Vec<u64> = feed.ids.values().copied().collect();
        self.report.met_times("update in doubt found in the log", found.len() as u64);
        self.report.met_times("update in doubt sent again", again.len() as u64);
        for id in found.into_values() {
            if self.auditor.place_of(id).is_none() {
                let publisher = id >> PUBLISHER_BITS;
                self.judge(Err(Broken(format!("feed {publisher} takes update {id} for accepted, which is in no log"))));
            }
        }
        self.auditor.sends_again(again_ids.into_iter());
        for (_, message) in again {
            self.send_up(line, message);
        }
    }
}

impl Publisher {
    pub(super) fn next_id(&mut self) -> u64 {
        self.next = self.next.saturating_add(1);
        (self.number << PUBLISHER_BITS) | self.next
    }
}
