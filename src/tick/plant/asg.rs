//! The functions of `.u.asg`: what subscribers of a queue call.

use super::Plant;
use super::arguments::{index_argument, proof_argument, symbols, wanted};
use super::queue::{Member, compresses, handle};
use super::subscribe::over_limit;
use crate::defect::{Defect, is_planted};
use crate::log::{LogId, Remembered, WriterId};
use crate::net::{ConnId, Links, Request};
use crate::points::{self, Point};
use crate::q::QError;
use crate::queue::{
    Date, Event, Join, Leaving, NodeName, OpenWindow, QueueName, State, Status, Subscribe, Subscriber, Subscription,
    UpdateIndex, Window,
};
use crate::tick::core::schema::Form;
use crate::tick::filter::Symbols;
use crate::tick::lane::LaneSpec;
use crate::tick::messages;
use crate::tick::verify::Question;
use proto::View;
use proto::view::DictView;
use std::sync::Arc;
use std::time::Duration;

/// A node whose host has been silent for so long is away, and its grace begins.
const SILENCE_MOST: Duration = Duration::from_secs(20);

impl Plant {
    /// The paper's `.u.asg.sub[t;s;q]`.
    ///
    /// # Errors
    /// The paper's, in its words.
    pub fn asg_sub(&mut self, args: &[View<'_>], conn: ConnId, ctl: &mut dyn Links) -> Result<(), QError> {
        let [tabs, syms, queue] = args else { return Err(QError::named("rank")) };
        let subscription = Arc::new(self.subscription(tabs, syms)?);
        let queue = QueueName(queue.text().ok_or(QError::with("type", "a queue's name is a symbol"))?.to_vec());
        let ip = ctl.peer(conn).map_or(std::net::Ipv4Addr::UNSPECIFIED.into(), |peer| peer.ip);
        let member = Member {
            form: Form::Table,
            subscription: Arc::clone(&subscription),
            counted_from: 0,
            carried: 0,
            from_start: false,
            is_foreign: false,
        };
        self.members.entry(conn).or_insert(member);
        let event = Event::Subscribe(Subscribe { handle: handle(conn), queue, subscription, ip });
        self.step_queue(event, None, ctl).map_or(Ok(()), Err)
    }

    /// Tables and symbols of `.u.asg.sub`, checked as the paper checks them.
    fn subscription(&self, tabs: &View<'_>, syms: &View<'_>) -> Result<Subscription, QError> {
        let kind = || QError::with("type", "tables and symbols are symbols or lists of symbols");
        let tabs_list: Vec<Vec<u8>> = symbols(tabs).ok_or_else(kind)?;
        let syms_list: Vec<Vec<Vec<u8>>> = if tabs.symbol().is_some() {
            vec![wanted(syms)?]
        } else if let Some(list) = syms.list() {
            list.iter().map(|item| wanted(&item)).collect::<Result<_, QError>>()?
        } else {
            wanted(syms)?.into_iter().map(|symbol| vec![symbol]).collect()
        };
        if tabs_list.len() != syms_list.len() {
            return Err(QError::signal("Count of table and symbol lists must match"));
        }
        let unknown: Vec<&[u8]> = tabs_list
            .iter()
            .filter(|name| !name.is_empty() && self.tables.find(name).is_none())
            .map(Vec::as_slice)
            .collect();
        if !unknown.is_empty() {
            let comma: &[u8] = if unknown.len() == 1 { b",`" } else { b"`" };
            return Err(QError::signal([comma, &unknown.join(&b'`'), b" not available"].concat()));
        }
        Ok(Subscription { tabs: tabs_list, syms: syms_list })
    }

    /// The paper's `.u.asg.roll[h;i]`: `i` counts what the subscriber took in.
    ///
    /// # Errors
    /// `domain` for a handle that is in no queue, and the queue's own.
    pub fn asg_roll(&mut self, of: i32, count: i64, ctl: &mut dyn Links) -> Result<(), QError> {
        self.settle(ctl);
        let conn = ctl.by_handle(of).filter(|conn| self.members.contains_key(conn));
        let conn = conn.ok_or_else(|| QError::with("domain", format!("handle {of} is in no queue")))?;
        let Some(member) = self.members.get(&conn) else { return Ok(()) };
        let tip = self.feed.tip().index;
        let (from, date) = (member.counted_from, self.queue.date());
        let count = u64::try_from(count).ok().and_then(|count| match count.checked_sub(member.carried) {
            Some(today) if count > tip && today <= tip => Some(today),
            _ => (count <= tip).then_some(count),
        });
        let count = count.ok_or_else(|| QError::with("domain", format!("there are {tip} updates so far")))?;
        let key = self.key_of_member(member, false);
        let everything = key.tables.iter().all(|wanted| *wanted == Some(Symbols::All));
        if everything || count <= from {
            let event = Event::Roll { handle: handle(conn), next: UpdateIndex(count), date };
            return self.step_queue(event, None, ctl).map_or(Ok(()), Err);
        }
        // It counts messages, and got one only for updates with rows that it wants: the log says which update that was.
        let question = Question::Position { from, until: tip, messages: count.saturating_sub(from) };
        self.ask_log(handle(conn), date, LaneSpec::new(key), question, ctl);
        Ok(())
    }

    /// `.u.asg.join`: answered as soon as the queue has decided, before anything that follows from it is sent.
    ///
    /// # Errors
    /// What is missing in the node's dictionary; the queue's own.
    pub fn asg_join(
        &mut self,
        args: &[View<'_>],
        conn: ConnId,
        request: Option<Request>,
        ctl: &mut dyn Links,
    ) -> Result<(), QError> {
        let dict = args.first().and_then(View::dict).ok_or(QError::with("type", "join takes a dictionary"))?;
        let mut join = self.joining(&dict, conn, ctl)?;
        let is_foreign = self.is_foreign(&dict, &join, ctl)?;
        if is_foreign {
            (join.held, join.open) = (Vec::new(), None);
        }
        let subscription = Arc::clone(&join.subscription);
        let member =
            Member { form: Form::Indexed, subscription, counted_from: 0, carried: 0, from_start: false, is_foreign };
        let before = self.members.insert(conn, member);
        ctl.end_after_silence(conn, SILENCE_MOST);
        let Some(refused) = self.step_queue(Event::Join(join), request, ctl) else { return Ok(()) };
        // What it is in the queue already it stays.
        match before {
            Some(before) => self.members.insert(conn, before),
            None => self.members.remove(&conn),
        };
        Err(refused)
    }

    /// Whether what a node holds is not in this log, by what it remembers of the writer that it had it from.
    ///
    /// # Errors
    /// `io` if another writes this log by now.
    fn is_foreign(&mut self, dict: &DictView<'_>, join: &Join, ctl: &mut dyn Links) -> Result<bool, QError> {
        let (Some(log), Some(seen)) = (&mut self.log, remembered(dict)) else { return Ok(false) };
        let (own, node) = (log.writer_id(), join.node.0.escape_ascii());
        let last = join.held.iter().map(|window| window.last().0).chain(join.open.map(|open| open.next.0)).max();
        let holds = last.is_some();
        match own.look_at(&seen) {
            Remembered::Other => {
                if holds {
                    ::log::warn!(
                        "{node} holds rows of another log ({}, this is {}): it forgets them",
                        seen.log,
                        own.log
                    );
                }
                Ok(true)
            }
            Remembered::Later => {
                let (own, seen) = (own.epoch, seen.epoch);
                if let Err(error) = log.begin_anew(seen) {
                    let refused = QError::with("io", error.to_string());
                    self.fail(&error, ctl);
                    return Err(refused);
                }
                ::log::error!(
                    "{node} has seen epoch {seen} of {}, of which this is epoch {own}: the directory is in an earlier state \
                     than it was, as after a restore. Updates logged after that state are lost; nodes forget what they hold and \
                     replay what there is. Going on as a log of its own, epoch {}",
                    log.path().display(),
                    log.epoch()
                );
                Ok(true)
            }
            // What the writers before this one logged, and the log has lost since.
            Remembered::Same => {
                let is_ahead = seen.epoch < own.epoch && last.is_some_and(|last| last > log.began_at());
                let is_checked = !is_planted(Defect::ProofNotChecked);
                if is_ahead && is_checked && join.date == Some(self.queue.date()) {
                    ::log::warn!(
                        "{node} holds updates that the log lost before epoch {} began at {}: it forgets all it holds",
                        own.epoch,
                        log.began_at()
                    );
                    return Ok(true);
                }
                Ok(false)
            }
        }
    }

    fn joining(&self, dict: &DictView<'_>, conn: ConnId, ctl: &dyn Links) -> Result<Join, QError> {
        let missing = |name: &str| QError::with("type", format!("join: {name} is missing or of the wrong type"));
        let get = |name: &str| dict.get(name.as_bytes()).ok_or_else(|| missing(name));
        let index = |name: &str| -> Option<UpdateIndex> {
            let value = dict.get(name.as_bytes())?.atom::<i64>()?;
            u64::try_from(value).ok().map(UpdateIndex)
        };
        if get("proto")?.atom::<i64>() != Some(1) {
            return Err(QError::with("nyi", "join: only protocol 1 is spoken here"));
        }
        let node = get("node")?.text().ok_or_else(|| missing("node"))?.to_vec();
        let queue = get("queue")?.text().ok_or_else(|| missing("queue"))?.to_vec();
        let held = get("held")?.vector().and_then(|held| held.to_vec::<i64>()).ok_or_else(|| missing("held"))?;
        let (pairs, rest) = held.as_chunks::<2>();
        let window = |[first, last]: &[i64; 2]| {
            let index = |i: i64| u64::try_from(i).ok().map(UpdateIndex);
            Window::new(index(*first)?, index(*last)?)
        };
        let forgets = is_planted(Defect::StateLostAtRestart);
        let pairs = if forgets { &[] } else { pairs };
        let held: Option<Vec<Window>> = if rest.is_empty() { pairs.iter().map(window).collect() } else { None };
        let live = dict.get(b"live").and_then(|live| live.atom::<bool>()).unwrap_or(false) && !forgets;
        let open = match (live, index("first"), index("next")) {
            (true, Some(first), Some(next)) => Some(OpenWindow { first, next }),
            _ => None,
        };
        let date = dict.get(b"date").and_then(|date| date.atom::<i32>());
        let name = |key: &[u8]| dict.get(key).and_then(|v| Some(v.text()?.to_vec())).filter(|name| !name.is_empty());
        let port = dict.get(b"port").and_then(|port| port.atom::<i32>()).and_then(|port| u16::try_from(port).ok());
        Ok(Join {
            handle: handle(conn),
            node: NodeName(node),
            queue: QueueName(queue),
            subscription: Arc::new(self.subscription(&get("tabs")?, &get("syms")?)?),
            ip: ctl.peer(conn).map_or(std::net::Ipv4Addr::UNSPECIFIED.into(), |peer| peer.ip),
            port: port.filter(|port| *port != 0),
            date: date.filter(|date| *date != i32::MIN).map(Date),
            held: held.ok_or_else(|| missing("held"))?,
            open,
            group: name(b"group"),
            instance: name(b"instance"),
            process: name(b"process"),
            leaving: leaving(dict),
        })
    }

    /// `.u.asg.rolling[next;proof;date]`.
    ///
    /// # Errors
    /// The queue's, for one that is not live.
    pub fn asg_rolling(&mut self, args: &[View<'_>], conn: ConnId, ctl: &mut dyn Links) -> Result<(), QError> {
        points::reach(Point::RollCame);
        let mut next = index_argument(args, 0)?;
        if is_planted(Defect::WindowOffByOne) {
            next.0 = next.0.saturating_sub(1);
        }
        let date = self.date_argument(args, 2)?;
        let own = handle(conn);
        let first = self.queue.by_handle(own).and_then(|of| match of.state {
            State::Live => self.queue.live(&of.queue).map(|(_, open)| open),
            State::Rebuilding { window, .. } | State::TakingOver { window, .. } => Some(window.first()),
            _ => None,
        });
        if let Some(window) = first.and_then(|first| Window::new(first, next)) {
            self.proofs.came((own, date, window), proof_argument(args, 1)?);
        }
        self.step_queue(Event::Roll { handle: own, next, date }, None, ctl).map_or(Ok(()), Err)
    }

    /// `.u.asg.leaving[d]`.
    ///
    /// # Errors
    /// `type` without a time, and the queue's own.
    pub fn asg_leaving(&mut self, args: &[View<'_>], conn: ConnId, ctl: &mut dyn Links) -> Result<(), QError> {
        let dict = args.first().and_then(View::dict).ok_or(QError::with("type", "leaving takes a dictionary"))?;
        let leaving = leaving(&dict).ok_or(QError::with("type", "leaving: by is missing or no timestamp"))?;
        if let Some(reason) = dict.get(b"reason").and_then(|reason| reason.text().map(<[u8]>::to_vec)) {
            let label = self.queue.by_handle(handle(conn)).map_or_else(|| conn.handle().to_string(), |of| of.label());
            ::log::warn!("{label} is going to end: {}", reason.escape_ascii());
        }
        self.step_queue(Event::Leaving { handle: handle(conn), leaving }, None, ctl).map_or(Ok(()), Err)
    }

    /// `.u.asg.proved[first;last;proof;date]`.
    ///
    /// # Errors
    /// `type` for arguments that are none.
    pub fn asg_proved(&mut self, args: &[View<'_>], conn: ConnId, ctl: &mut dyn Links) -> Result<(), QError> {
        let window = Window::new(index_argument(args, 0)?, index_argument(args, 1)?);
        let date = self.date_argument(args, 3)?;
        let Some(window) = window else { return Ok(()) };
        let key = (handle(conn), date, window);
        self.proofs.came(key, proof_argument(args, 2)?);
        // At the end of a day a live node proves the window that the day's end has closed.
        if date < self.queue.date() {
            self.proofs.wanted.insert(key);
        }
        if self.proofs.wanted.contains(&key) {
            self.check_proof(&key, ctl);
            return Ok(());
        }
        let refused = self.step_queue(Event::Rebuilt { handle: handle(conn), window, date }, None, ctl);
        // Said again by one that has joined again, and known already.
        self.proofs.forget_unwanted(&key);
        refused.map_or(Ok(()), Err)
    }

    fn date_argument(&self, args: &[View<'_>], at: usize) -> Result<Date, QError> {
        match args.get(at) {
            None => Ok(self.queue.date()),
            Some(date) => date.atom::<i32>().map(Date).ok_or(QError::with("type", "a date is missing")),
        }
    }

    /// `.u.asg.status[d]`.
    pub fn asg_status(&mut self, args: &[View<'_>], conn: ConnId, ctl: &mut dyn Links) {
        let Some(dict) = args.first().and_then(View::dict) else { return };
        let float = |name: &[u8]| dict.get(name).and_then(|v| v.atom::<f64>()).filter(|v| v.is_finite());
        let long = |name: &[u8]| dict.get(name).and_then(|v| v.atom::<i64>()).filter(|v| *v != i64::MIN);
        let count = |name: &[u8]| long(name).and_then(|v| u64::try_from(v).ok());
        let status = Status {
            memory_percent: float(b"memory"),
            scale_percent: float(b"scale"),
            roll_percent: float(b"roll"),
            rows: count(b"rows"),
            bytes: count(b"bytes"),
            next: count(b"next").map(UpdateIndex),
            scaled: dict.get(b"scaled").and_then(|v| v.atom::<bool>()).unwrap_or(false),
            lead_ns: long(b"lead"),
            refused: count(b"refused"),
        };
        self.step_queue(Event::Status { handle: handle(conn), status }, None, ctl);
        self.tell_waiting(conn, ctl);
    }

    /// Tells a live node how many wait behind it, if that has changed.
    fn tell_waiting(&mut self, conn: ConnId, ctl: &mut dyn Links) {
        let live = self.queue.by_handle(handle(conn)).filter(|of| of.state == State::Live);
        let Some(live) = live else {
            self.waiting_told.remove(&conn);
            return;
        };
        let waits = |of: &&Subscriber| {
            of.state == State::Waiting && of.handle.is_some() && of.leaving.is_none() && of.queue == live.queue
        };
        let waiting = self.queue.subscribers().iter().filter(waits).count();
        if self.waiting_told.insert(conn, waiting) != Some(waiting) {
            ctl.send(conn, messages::waiting(waiting));
        }
    }

    /// `.u.asg.from[next]`.
    ///
    /// # Errors
    /// `domain` for one that is not live.
    pub fn asg_from(&mut self, args: &[View<'_>], conn: ConnId, ctl: &mut dyn Links) -> Result<(), QError> {
        let asked = index_argument(args, 0)?;
        self.settle(ctl);
        let own = self.queue.by_handle(handle(conn));
        if !own.is_some_and(|of| of.state == State::Live) {
            return Err(QError::with("domain", "only a live node is fed"));
        }
        let ended = self.members.get_mut(&conn).is_some_and(|member| std::mem::take(&mut member.from_start));
        let next = if ended { UpdateIndex(0) } else { asked };
        if next.0 > self.feed.tip().index {
            return Err(QError::with("domain", format!("update {next} is beyond the tip {}", self.feed.tip().index)));
        }
        self.feed_from(conn, next.0, ctl);
        points::reach(Point::FedFrom);
        Ok(())
    }

    /// `.u.asg.stream[first;last]`, of a window that the node is to rebuild; of any other it would take the updates for those of
    /// that window.
    ///
    /// # Errors
    /// `domain` for one that is in no queue.
    pub fn asg_stream(&mut self, args: &[View<'_>], conn: ConnId, ctl: &mut dyn Links) -> Result<(), QError> {
        let (first, last) = (index_argument(args, 0)?, index_argument(args, 1)?);
        self.settle(ctl);
        let member = self.members.get(&conn).ok_or(QError::with("domain", "this connection is in no queue"))?;
        if !self.queue.by_handle(handle(conn)).is_some_and(|of| of.replays(first, last)) {
            ::log::info!("handle {} is not sent [{first},{last}): it is not to rebuild that any more", conn.handle());
            return Ok(());
        }
        let key = self.key_of_member(member, compresses(conn, ctl));
        let done = messages::streamed(first.0, last.0);
        self.feed.stream(conn, key, first.0, last.0, done).map_err(over_limit)?;
        self.writable(conn, ctl);
        Ok(())
    }
}

/// The writer that a node had its rows from, or that it has heard of last.
fn remembered(dict: &DictView<'_>) -> Option<WriterId> {
    let id = |name: &[u8]| -> Option<LogId> { std::str::from_utf8(dict.get(name)?.symbol()?).ok()?.parse().ok() };
    let epoch = u64::try_from(dict.get(b"epoch")?.atom::<i64>()?).ok()?;
    Some(WriterId { log: id(b"id")?, epoch, writer: id(b"writer")? })
}

/// When and how a node leaves, if it says so: `by` a timestamp, `replaced` a boolean.
fn leaving(dict: &DictView<'_>) -> Option<Leaving> {
    let by_ns = dict.get(b"by").and_then(|by| by.atom::<i64>()).filter(|by_ns| *by_ns != i64::MIN)?;
    let replaced = dict.get(b"replaced").and_then(|replaced| replaced.atom::<bool>()).unwrap_or(false);
    Some(Leaving { by_ns, replaced })
}
