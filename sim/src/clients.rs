//! Publishers, which record every response, and watchers: plain subscribers that check that updates arrive in the log's order without gap
//! or duplicate.

use super::audit::holdings::Filter;
use super::audit::record::TABLES;
use super::audit::{Broken, PUBLISHER_BITS, Promise};
use super::feeds::Feed;
use super::numbered::Numbered;
use super::plan::Ledger;
use super::tick::plain;
use super::world::{Client, MS, SECOND, World, WorldEvent};
use bytes::Bytes;
use elastick::net::message;
use proto::{Endian, FrameReader, Header, Limits, MessageKind, View};
use std::collections::VecDeque;

/// A simulated publisher.
pub struct Publisher {
    pub(super) number: u64,
    pub(super) next: u64,
    pub line: Option<u64>,
    pub open: bool,
    frames: FrameReader,
    /// Responses due, in order: of a sync update, or of a query that confirms all updates before it.
    waiting: VecDeque<Awaited>,
    /// Async updates sent since the last confirmation.
    unconfirmed: Vec<u64>,
    /// State of a publisher that keeps `feed::ledger` as `elastick feed` does; such a publisher does not use the fields above.
    pub feed: Option<Feed>,
    /// State of a publisher that numbers its updates; it has no ledger, and does not use the other fields either.
    pub numbered: Option<Numbered>,
}

/// A response that a publisher waits for, with the ids of the updates it settles.
enum Awaited {
    Update(u64),
    Confirmation(Vec<u64>),
}

impl Publisher {
    pub fn new(number: usize, ledger: Ledger) -> Publisher {
        Publisher {
            number: number as u64 + 1,
            next: 0,
            line: None,
            open: false,
            frames: FrameReader::new(Limits::default()),
            waiting: VecDeque::new(),
            unconfirmed: Vec::new(),
            feed: (ledger == Ledger::Feed).then(Feed::default),
            numbered: (ledger == Ledger::Numbers).then(Numbered::default),
        }
    }

    /// Returns whether the publisher is connected and no response is due.
    pub fn is_answered(&self) -> bool {
        let numbered = self.numbered.as_ref().is_none_or(Numbered::is_confirmed);
        self.open && self.waiting.is_empty() && self.feed.as_ref().is_none_or(Feed::is_ready) && numbered
    }

    /// Receives bytes and passes whole messages to `take`.
    pub(super) fn receive(&mut self, bytes: &Bytes, mut take: impl FnMut(&Header, &[u8])) {
        self.frames.extend(bytes);
        while let Ok(Some((header, message))) = self.frames.next() {
            take(&header, message);
        }
    }
}

/// A plain subscriber.
pub struct Watcher {
    pub filter: Filter,
    pub line: Option<u64>,
    open: bool,
    frames: FrameReader,
    /// Day, and place in its log from which the next update of each table is looked up; `None` before the first. Batch mode preserves order
    /// per table only; without it all entries are equal.
    places: Places,
    /// Messages received whose update is not in the log yet.
    delivered: VecDeque<Delivered>,
    pub updates: u64,
}

/// For each table, a day and a place in its log.
type Places = [Option<(i32, usize)>; TABLES.len()];

/// A message that a watcher received.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Delivered {
    Update { id: u64, rows: Vec<u8>, table: usize },
    DayEnd(i32),
}

impl Watcher {
    pub fn new(filter: Filter) -> Watcher {
        Watcher {
            filter,
            line: None,
            open: false,
            frames: FrameReader::new(Limits::default()),
            places: Places::default(),
            delivered: VecDeque::new(),
            updates: 0,
        }
    }
}

impl World {
    /// Returns whether a client exists and has no connection.
    pub fn wants_line(&self, client: Client) -> bool {
        match client {
            Client::Node(key) => self.nodes.get(&key).is_some_and(|node| node.line.is_none()),
            Client::Publisher(at) => self.publishers.get(at).is_some_and(|publisher| publisher.line.is_none()),
            Client::Watcher(at) => self.watchers.get(at).is_some_and(|watcher| watcher.line.is_none()),
        }
    }

    pub fn has_line(&mut self, client: Client, number: u64) {
        let slot = match client {
            Client::Node(key) => self.nodes.get_mut(&key).map(|node| &mut node.line),
            Client::Publisher(at) => self.publishers.get_mut(at).map(|publisher| &mut publisher.line),
            Client::Watcher(at) => self.watchers.get_mut(at).map(|watcher| &mut watcher.line),
        };
        if let Some(slot) = slot {
            *slot = Some(number);
        }
    }

    pub fn is_connected(&mut self, client: Client, number: u64) {
        match client {
            Client::Node(key) => {
                if self.nodes.get(&key).is_some_and(|node| node.line == Some(number)) {
                    self.node_connected(key);
                }
            }
            Client::Publisher(at) => {
                if let Some(publisher) = self.publishers.get_mut(at).filter(|own| own.line == Some(number)) {
                    publisher.open = true;
                    publisher.frames = FrameReader::new(Limits::default());
                    self.feed_connected(at);
                    self.asks_number(at);
                }
            }
            Client::Watcher(at) => self.watcher_connected(at, number),
        }
    }

    pub fn paused_until_ns(&self, client: Client) -> u64 {
        match client {
            Client::Node(key) => self.nodes.get(&key).map_or(0, |node| node.paused_until_ns),
            _ => 0,
        }
    }

    pub fn client_receives(&mut self, client: Client, bytes: &Bytes) {
        match client {
            Client::Node(key) => self.node_receives(key, bytes),
            Client::Publisher(at) => self.publisher_receives(at, bytes),
            Client::Watcher(at) => self.watcher_receives(at, bytes),
        }
    }

    /// A client's connection is lost or was rejected.
    pub fn lost_line(&mut self, client: Client, number: u64) {
        match client {
            Client::Node(key) => return self.node_lost_line(key, number),
            Client::Publisher(at) => {
                let Some(own) = self.publishers.get_mut(at).filter(|own| own.line == Some(number)) else { return };
                (own.line, own.open) = (None, false);
                // Updates without a response may or may not be in the log; a publisher without a ledger does not send them again.
                own.waiting.clear();
                own.unconfirmed.clear();
            }
            Client::Watcher(at) => {
                let Some(own) = self.watchers.get_mut(at).filter(|own| own.line == Some(number)) else { return };
                (own.line, own.open, own.places) = (None, false, Places::default());
                own.delivered.clear();
            }
        }
        let ns = self.between(50 * MS, 500 * MS);
        self.after(ns, WorldEvent::Connect(client));
    }

    /// Timer: sends a publisher's next updates.
    pub fn publishes(&mut self, at: usize) {
        let surge = self.now_ns < self.surge_until_ns;
        let pause_ns = if surge { self.between(2 * MS, 20 * MS) } else { self.between(20 * MS, 150 * MS) };
        self.after(pause_ns, WorldEvent::Publish(at));
        let can = |publisher: &Publisher| {
            let numbered = publisher.numbered.as_ref().is_none_or(Numbered::is_ready);
            publisher.open && numbered && publisher.feed.as_ref().is_none_or(Feed::is_ready)
        };
        let ready = self.publishers.get(at).is_some_and(can);
        if !self.publishing && ready {
            self.numbered_confirms(at);
        }
        if !self.publishing || !ready {
            return;
        }
        let many = if surge { self.rng.from(1, 8) } else { self.rng.from(1, 3) };
        for _ in 0..many {
            self.publish_one(at);
        }
        if self.rng.one_in(4) {
            self.confirm(at);
        }
    }

    fn publish_one(&mut self, at: usize) {
        let table = usize::try_from(self.rng.below(TABLES.len() as u64)).unwrap_or(0);
        let rows = if self.rng.one_in(20) { self.rng.from(100, 400) } else { self.rng.from(1, 40) };
        let syms: Vec<u8> = (0..rows).map(|_| u8::try_from(self.rng.below(10)).unwrap_or(0)).collect();
        let sync = self.rng.one_in(3);
        let Some(publisher) = self.publishers.get_mut(at) else { return };
        let name = TABLES.get(table).copied().unwrap_or_default();
        if publisher.numbered.is_some() {
            return self.numbered_publishes(at, table, name, syms);
        }
        if publisher.feed.is_some() {
            return self.feed_publishes(at, table, name, syms);
        }
        self.publish_rows(at, table, syms, sync);
    }

    /// Publishes one update of a publisher without a ledger. Returns its id.
    pub fn publish_rows(&mut self, at: usize, table: usize, syms: Vec<u8>, sync: bool) -> Option<u64> {
        let extras = self.extras().get(table).copied().unwrap_or(0);
        let publisher = self.publishers.get_mut(at)?;
        publisher.next = publisher.next.saturating_add(1);
        let id = (publisher.number << PUBLISHER_BITS) | publisher.next;
        let kind = if sync { MessageKind::Sync } else { MessageKind::Async };
        let own = [id.cast_signed()].repeat(syms.len());
        let places: Vec<i64> = (0..).take(syms.len()).collect();
        let encoded = message::message(kind, |writer| {
            writer.list_head(3);
            writer.symbol(".u.upd");
            writer.symbol(TABLES.get(table).copied().unwrap_or_default());
            writer.list_head(extras.saturating_add(3));
            writer.symbols(syms.iter().map(|sym| format!("s{sym}")).collect::<Vec<_>>());
            writer.vector(proto::types::LONG, 0, &own);
            writer.vector(proto::types::LONG, 0, &places);
            (0..extras).for_each(|_| writer.vector(proto::types::LONG, 0, &own));
        });
        let (Ok(bytes), Some(line)) = (encoded, publisher.line) else { return None };
        if sync {
            publisher.waiting.push_back(Awaited::Update(id));
        } else {
            publisher.unconfirmed.push(id);
        }
        self.auditor.sends(id, table, syms, extras);
        self.send_up(line, bytes);
        Some(id)
    }

    /// Sends a query: its response confirms that all updates sent before it have been handled.
    fn confirm(&mut self, at: usize) {
        if self.publishers.get(at).is_some_and(|publisher| publisher.feed.is_some()) {
            return self.feed_confirms(at);
        }
        self.numbered_confirms(at);
        let Some(publisher) = self.publishers.get_mut(at).filter(|own| !own.unconfirmed.is_empty()) else { return };
        let before = std::mem::take(&mut publisher.unconfirmed);
        let encoded = message::message(MessageKind::Sync, |writer| writer.chars(".u.i"));
        let (Ok(bytes), Some(line)) = (encoded, publisher.line) else { return };
        publisher.waiting.push_back(Awaited::Confirmation(before));
        self.send_up(line, bytes);
    }

    fn publisher_receives(&mut self, at: usize, bytes: &Bytes) {
        let line = self.publishers.get(at).and_then(|publisher| publisher.line);
        let run = line.map_or(self.tick_runs, |line| self.line_run(line));
        let is_old = run != self.tick_runs;
        let Some(publisher) = self.publishers.get_mut(at) else { return };
        if publisher.numbered.is_some() {
            return self.numbered_receives(at, bytes);
        }
        if publisher.feed.is_some() {
            return self.feed_receives(at, bytes);
        }
        publisher.frames.extend(bytes);
        while let Ok(Some((header, message))) = publisher.frames.next() {
            let body = plain(&header, message);
            // An error response: the update is not in the log.
            let refused = body.first() == Some(&128);
            match publisher.waiting.pop_front() {
                Some(Awaited::Update(id)) if refused => {
                    self.report.met("update refused");
                    self.auditor.refuses(id);
                }
                Some(Awaited::Update(id)) => {
                    self.report.acknowledged = self.report.acknowledged.saturating_add(1);
                    if is_old && self.plan.promise() != Promise::Power {
                        self.auditor.acknowledged_by_old();
                        continue;
                    }
                    let judged = self.auditor.acknowledges(id, &self.storage);
                    if let Err(broken) = judged {
                        self.broken.get_or_insert(broken);
                    }
                }
                // The response confirms that the updates were handled, not that each was accepted, nor how durable it is.
                Some(Awaited::Confirmation(ids)) => {
                    self.report.met_times("async update confirmed", ids.len() as u64);
                    self.auditor.handled(&ids, run);
                }
                None => {}
            }
        }
    }

    fn watcher_connected(&mut self, at: usize, number: u64) {
        let Some(watcher) = self.watchers.get_mut(at).filter(|own| own.line == Some(number)) else { return };
        watcher.open = true;
        watcher.frames = FrameReader::new(Limits::default());
        let filter = watcher.filter.clone();
        let subscribe = |table: &str, syms: &[u8]| {
            message::message(MessageKind::Sync, |writer| {
                writer.list_head(3);
                writer.symbol(".u.sub");
                writer.symbol(table);
                match syms {
                    [] => writer.symbol(""),
                    syms => writer.symbols(syms.iter().map(|sym| format!("s{sym}")).collect::<Vec<_>>()),
                }
            })
        };
        let tables: Vec<&str> = match filter.tables.as_slice() {
            [] => vec![""],
            tables => tables.iter().filter_map(|table| TABLES.get(*table).copied()).collect(),
        };
        let whole: Vec<u8> =
            tables.iter().filter_map(|table| subscribe(table, &filter.syms).ok()).flat_map(Vec::from).collect();
        // As one message, so that no other connection's message comes between.
        self.send_up(number, whole.into());
    }

    fn watcher_receives(&mut self, at: usize, bytes: &Bytes) {
        let Some(watcher) = self.watchers.get_mut(at) else { return };
        watcher.frames.extend(bytes);
        while let Ok(Some((header, message))) = watcher.frames.next() {
            if header.kind == MessageKind::Response {
                continue;
            }
            let body = plain(&header, message);
            match delivered(&body) {
                Some(delivered) => watcher.delivered.extend(delivered),
                None => {
                    self.broken.get_or_insert(Broken("a watcher received an unexpected message".to_string()));
                }
            }
        }
        self.check_watcher(at, false);
    }

    /// Checks messages of a watcher against the log. With `all`, every logged update must have arrived.
    pub fn check_watcher(&mut self, at: usize, all: bool) {
        let date = self.tick.as_ref().map(|tick| tick.service.plant.queue().date().0);
        let line = self.watchers.get(at).and_then(|watcher| watcher.line);
        let run = line.map_or(self.tick_runs, |line| self.line_run(line));
        let is_old = run != self.tick_runs;
        let Some(watcher) = self.watchers.get_mut(at) else { return };
        while let Some(delivered) = watcher.delivered.front().cloned() {
            match delivered {
                Delivered::DayEnd(date) => watcher.places = [Some((date.saturating_add(1), 0)); TABLES.len()],
                Delivered::Update { id, rows, table } => {
                    let Some((day, place)) = self.auditor.place_of(id) else {
                        // Not in the file yet, which is right only while writing is deferred.
                        if all || !(is_old || self.plan.publishes_ahead()) {
                            let what = format!("watcher {at} received update {id}, which is in no log");
                            self.broken.get_or_insert(Broken(what));
                        }
                        break;
                    };
                    // Received before it was in the file, from a tickerplant that is gone or has lost its log, so its place there is
                    // unknown. The publisher sent it again, and another tickerplant has logged it, perhaps on the next day.
                    if is_old && (self.auditor.is_behind_loss(day, place) || self.auditor.is_begun_after(day, run)) {
                        break;
                    }
                    let batch = self.plan.batch.is_some();
                    let order = if batch { watcher.filter.of_table(table) } else { watcher.filter.clone() };
                    let expected = match watcher.places.get(table).copied().flatten() {
                        Some((date, from)) if date == day => self.auditor.next_received(day, from, &order),
                        // The first update, or the first after days without any.
                        _ => Some((id, place.saturating_add(1))),
                    };
                    let record = self.auditor.day(day).and_then(|day| day.records.get(place));
                    let wanted: Vec<u8> = record
                        .map(|record| {
                            let wants = |sym: &&u8| watcher.filter.wants(record.table, **sym);
                            record.syms.iter().filter(wants).copied().collect()
                        })
                        .unwrap_or_default();
                    if expected.map(|(id, _)| id) != Some(id)
                        || wanted != rows
                        || record.map(|record| record.table) != Some(table)
                    {
                        let what = format!(
                            "watcher {at} received update {id} (place {place} of {day}), where {expected:?} was next"
                        );
                        self.broken.get_or_insert(Broken(what));
                        return;
                    }
                    let reached = Some((day, place.saturating_add(1)));
                    match watcher.places.get_mut(table) {
                        Some(own) if batch => *own = reached,
                        _ => watcher.places = [reached; TABLES.len()],
                    }
                    watcher.updates = watcher.updates.saturating_add(1);
                }
            }
            watcher.delivered.pop_front();
        }
        let not_received =
            date.filter(|_| all).and_then(|date| Some((self.not_received(self.watchers.get(at)?, date)?, date)));
        if let Some((id, date)) = not_received {
            self.broken.get_or_insert(Broken(format!("watcher {at} never received update {id} of {date}")));
        }
    }

    /// Returns an update of a day that a watcher has not received.
    fn not_received(&self, watcher: &Watcher, date: i32) -> Option<u64> {
        watcher.places.iter().enumerate().find_map(|(table, place)| {
            let (_, from) = place.filter(|(day, _)| *day == date)?;
            let order = watcher.filter.of_table(table);
            self.auditor.next_received(date, from, &order).map(|(id, _)| id)
        })
    }

    /// A watcher's position, for messages.
    pub fn watcher_state(&self, at: usize) -> String {
        let Some(watcher) = self.watchers.get(at) else { return String::new() };
        let Watcher { filter, line, open, places, delivered, updates, .. } = watcher;
        format!(
            "{filter:?}, line {line:?}, open {open}, at {places:?}, {updates} updates, {:?} to look up",
            delivered.front()
        )
    }

    /// Returns whether a watcher has received everything in the log.
    pub fn watcher_is_at_tip(&self, at: usize) -> bool {
        let Some(watcher) = self.watchers.get(at) else { return true };
        let date = self.tick.as_ref().map(|tick| tick.service.plant.queue().date().0);
        let behind = date.is_some_and(|date| self.not_received(watcher, date).is_some());
        watcher.open && watcher.delivered.is_empty() && !behind
    }
}

/// Decodes a message to a plain subscriber: one update, or in batch mode several of one table.
fn delivered(body: &[u8]) -> Option<Vec<Delivered>> {
    let (view, _) = View::parse(body, Endian::Little, &Limits::default()).ok()?;
    let list = view.list()?;
    let items: Vec<View<'_>> = list.iter().collect();
    match items.as_slice() {
        [name, date] if name.text() == Some(b".u.end") => Some(vec![Delivered::DayEnd(date.atom::<i32>()?)]),
        [name, table, data] if name.text() == Some(b"upd") => {
            let table = TABLES.iter().position(|known| Some(known.as_bytes()) == table.text())?;
            let columns: Vec<View<'_>> = data.table()?.columns.iter().collect();
            let syms: Vec<u8> = columns
                .get(1)?
                .vector()?
                .symbols()
                .map(|sym| std::str::from_utf8(sym).ok()?.strip_prefix('s')?.parse().ok())
                .collect::<Option<_>>()?;
            let ids = columns.get(2)?.vector()?.to_vec::<i64>()?;
            let mut syms = syms.into_iter();
            let updates = ids.chunk_by(|one, other| one == other).map(|own| {
                let id = own.first().map(|id| id.cast_unsigned())?;
                Some(Delivered::Update { id, rows: syms.by_ref().take(own.len()).collect(), table })
            });
            updates.collect()
        }
        _ => None,
    }
}

/// Interval at which a settled simulation is checked again.
pub const LOOK_NS: u64 = SECOND;
