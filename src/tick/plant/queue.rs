//! The shell of the queue: calls of `.u.asg` to events, actions to messages, journal and feed.

use super::Plant;
use crate::log::{self, Proof, TableProof};
use crate::net::{ConnId, Control, Request, message};
use crate::q::error::QError;
use crate::queue::journal::Record;
use crate::queue::{
    Action, Date, Event, Handle, Join, Kind, NodeName, OpenWindow, Params, QueueName, Status, Subscribe, Subscription,
    UpdateIndex, Window,
};
use crate::tick::core::schema::Form;
use crate::tick::journal::JournalFile;
use crate::tick::lane::{LaneKey, LaneSpec};
use crate::tick::subscriptions::{Subscriptions, Wanted};
use crate::tick::verify::{Answer, Done, Job, Question};
use crate::tick::{clock, messages};
use proto::view::DictView;
use proto::{MessageKind, View};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// A connection that is in a queue.
#[derive(Clone, Debug)]
pub struct Member {
    pub form: Form,
    pub subscription: Arc<Subscription>,
    /// A paper subscriber counts messages from this update on; before it, updates.
    pub counted_from: u64,
    /// Its count at the last end of a day: the paper's `asg/r.q` as printed does not start anew.
    pub carried: u64,
    /// The day has ended before this node has said where to feed it from: whatever it says, the new day is fed from its start.
    pub from_start: bool,
}

type ProofKey = (Handle, Date, Window);

/// Proofs that came and windows that are to be proved; whichever comes first waits for the other.
#[derive(Debug, Default)]
pub struct Proofs {
    held: BTreeMap<ProofKey, Proof>,
    wanted: BTreeSet<ProofKey>,
}

/// Proofs kept for windows that are not closed yet: enough for every node to send one too early.
const PROOFS_KEPT: usize = 4096;

impl Proofs {
    fn came(&mut self, key: ProofKey, proof: Proof) {
        if self.held.len() < PROOFS_KEPT {
            self.held.insert(key, proof);
        }
    }

    fn forget(&mut self, handle: Handle) {
        self.held.retain(|(of, ..), _| *of != handle);
        self.wanted.retain(|(of, ..)| *of != handle);
    }

    /// The proof of a wanted window, if it is here.
    fn take(&mut self, key: &ProofKey) -> Option<Proof> {
        if !self.wanted.contains(key) {
            return None;
        }
        let proof = self.held.remove(key)?;
        self.wanted.remove(key);
        Some(proof)
    }
}

fn handle(conn: ConnId) -> Handle {
    Handle(conn.handle())
}

impl Plant {
    /// After a restart: nodes get time to come back.
    pub(super) fn restored(&mut self, tip: u64) {
        let actions = self.queue.step(Event::Restored, UpdateIndex(tip), clock::utc_now_ns());
        // Nobody is connected, so that only the journal and the log line have anything to do.
        for action in actions {
            match action {
                Action::Journal(record) => self.write_journal(&record),
                Action::Note(text) => ::log::info!("{text}"),
                Action::Alarm(text) => ::log::error!("{text}"),
                _ => {}
            }
        }
    }

    pub fn queue_tick(&mut self, ctl: &mut Control) {
        self.step_queue(Event::Tick, None, ctl);
    }

    /// The paper's `.u.asg.sub[t;s;q]`.
    ///
    /// # Errors
    /// The paper's, in its words.
    pub fn asg_sub(&mut self, args: &[View<'_>], conn: ConnId, ctl: &mut Control) -> Result<(), QError> {
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
            vec![symbols(syms).ok_or_else(kind)?]
        } else if let Some(list) = syms.list() {
            list.iter().map(|item| symbols(&item)).collect::<Option<_>>().ok_or_else(kind)?
        } else {
            symbols(syms).ok_or_else(kind)?.into_iter().map(|symbol| vec![symbol]).collect()
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
    pub fn asg_roll(&mut self, of: i32, count: i64, ctl: &mut Control) -> Result<(), QError> {
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
        let everything = key.tables.iter().all(|wanted| *wanted == Some(crate::tick::filter::Symbols::All));
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
        ctl: &mut Control,
    ) -> Result<(), QError> {
        let dict = args.first().and_then(View::dict).ok_or(QError::with("type", "join takes a dictionary"))?;
        let join = self.joining(&dict, conn, ctl)?;
        let subscription = Arc::clone(&join.subscription);
        self.members
            .insert(conn, Member { form: Form::Indexed, subscription, counted_from: 0, carried: 0, from_start: false });
        let refused = self.step_queue(Event::Join(join), request, ctl);
        if refused.is_some() {
            self.members.remove(&conn);
        }
        refused.map_or(Ok(()), Err)
    }

    fn joining(&self, dict: &DictView<'_>, conn: ConnId, ctl: &Control) -> Result<Join, QError> {
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
        let held: Option<Vec<Window>> = if rest.is_empty() { pairs.iter().map(window).collect() } else { None };
        let live = dict.get(b"live").and_then(|live| live.atom::<bool>()).unwrap_or(false);
        let open = match (live, index("first"), index("next")) {
            (true, Some(first), Some(next)) => Some(OpenWindow { first, next }),
            _ => None,
        };
        let date = dict.get(b"date").and_then(|date| date.atom::<i32>());
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
        })
    }

    /// `.u.asg.rolling[next;proof;date]`.
    ///
    /// # Errors
    /// The queue's, for one that is not live.
    pub fn asg_rolling(&mut self, args: &[View<'_>], conn: ConnId, ctl: &mut Control) -> Result<(), QError> {
        let next = index_argument(args, 0)?;
        let date = self.date_argument(args, 2)?;
        let own = handle(conn);
        let open = self
            .queue
            .by_handle(own)
            .and_then(|of| self.queue.live(&of.queue))
            .filter(|(live, _)| live.handle == Some(own));
        if let Some(window) = open.and_then(|(_, open)| Window::new(open, next)) {
            self.proofs.came((own, date, window), proof_argument(args, 1)?);
        }
        self.step_queue(Event::Roll { handle: own, next, date }, None, ctl).map_or(Ok(()), Err)
    }

    /// `.u.asg.proved[first;last;proof;date]`.
    ///
    /// # Errors
    /// `type` for arguments that are none.
    pub fn asg_proved(&mut self, args: &[View<'_>], conn: ConnId, ctl: &mut Control) -> Result<(), QError> {
        let window = Window::new(index_argument(args, 0)?, index_argument(args, 1)?);
        let date = self.date_argument(args, 3)?;
        let Some(window) = window else { return Ok(()) };
        let key = (handle(conn), date, window);
        self.proofs.came(key, proof_argument(args, 2)?);
        if self.proofs.wanted.contains(&key) {
            self.check_proof(&key, ctl);
            return Ok(());
        }
        self.step_queue(Event::Rebuilt { handle: handle(conn), window, date }, None, ctl).map_or(Ok(()), Err)
    }

    fn date_argument(&self, args: &[View<'_>], at: usize) -> Result<Date, QError> {
        match args.get(at) {
            None => Ok(self.queue.date()),
            Some(date) => date.atom::<i32>().map(Date).ok_or(QError::with("type", "a date is missing")),
        }
    }

    /// `.u.asg.status[d]`.
    pub fn asg_status(&mut self, args: &[View<'_>], conn: ConnId, ctl: &mut Control) {
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
        };
        self.step_queue(Event::Status { handle: handle(conn), status }, None, ctl);
    }

    /// `.u.asg.from[next]`.
    ///
    /// # Errors
    /// `domain` for one that is not live.
    pub fn asg_from(&mut self, args: &[View<'_>], conn: ConnId, ctl: &mut Control) -> Result<(), QError> {
        let asked = index_argument(args, 0)?;
        self.settle(ctl);
        let own = self.queue.by_handle(handle(conn));
        if !own.is_some_and(|of| of.state == crate::queue::State::Live) {
            return Err(QError::with("domain", "only a live node is fed"));
        }
        let ended = self.members.get_mut(&conn).is_some_and(|member| std::mem::take(&mut member.from_start));
        let next = if ended { UpdateIndex(0) } else { asked };
        if next.0 > self.feed.tip().index {
            return Err(QError::with("domain", format!("update {next} is beyond the tip {}", self.feed.tip().index)));
        }
        self.feed_from(conn, next.0, ctl);
        Ok(())
    }

    /// `.u.asg.stream[first;last]`.
    ///
    /// # Errors
    /// `domain` for one that is in no queue.
    pub fn asg_stream(&mut self, args: &[View<'_>], conn: ConnId, ctl: &mut Control) -> Result<(), QError> {
        let (first, last) = (index_argument(args, 0)?, index_argument(args, 1)?);
        self.settle(ctl);
        let member = self.members.get(&conn).ok_or(QError::with("domain", "this connection is in no queue"))?;
        let key = self.key_of_member(member, compresses(conn, ctl));
        let done = messages::streamed(first.0, last.0);
        self.feed.stream(conn, key, first.0, last.0, done).map_err(|e| QError::with("limit", e.to_string()))?;
        self.writable(conn, ctl);
        Ok(())
    }

    /// Feeds a member of a queue from an update of this day on.
    pub(super) fn feed_from(&mut self, conn: ConnId, first: u64, ctl: &mut Control) {
        let Some(member) = self.members.get(&conn) else { return };
        let key = self.key_of_member(member, compresses(conn, ctl));
        match self.feed.start_from(conn, key, first) {
            Ok(()) => self.writable(conn, ctl),
            Err(error) => ctl.close(conn, error.to_string()),
        }
    }

    fn key_of_member(&self, member: &Member, compress: bool) -> LaneKey {
        let mut own = Subscriptions::new(self.tables.len());
        for (table, wanted) in self.wanted(&member.subscription) {
            own.add(table, (), wanted);
        }
        own.key((), member.form, false, compress)
    }

    /// The tables of a subscription with the symbols wanted of each.
    fn wanted(&self, subscription: &Subscription) -> Vec<(usize, Wanted)> {
        let of = |syms: &[Vec<u8>]| match syms {
            [] => Wanted::All,
            syms if syms.iter().any(Vec::is_empty) => Wanted::All,
            syms => Wanted::List(syms.to_vec()),
        };
        let pairs = subscription.tabs.iter().zip(&subscription.syms);
        pairs
            .flat_map(|(tab, syms)| {
                let tables: Vec<usize> = match tab.is_empty() {
                    true => self.sorted.clone(),
                    false => self.tables.find(tab).map(|(table, _)| table).into_iter().collect(),
                };
                tables.into_iter().map(move |table| (table, of(syms)))
            })
            .collect()
    }

    /// The tables of a subscription, in the order of `.u.t`.
    fn tables_of(&self, subscription: &Subscription) -> Vec<usize> {
        let wanted: BTreeSet<usize> = self.wanted(subscription).into_iter().map(|(table, _)| table).collect();
        self.sorted.iter().copied().filter(|table| wanted.contains(table)).collect()
    }

    pub(super) fn leave_queue(&mut self, conn: ConnId, ctl: &mut Control) {
        if self.members.remove(&conn).is_some() {
            self.proofs.forget(handle(conn));
            self.step_queue(Event::Disconnect { handle: handle(conn) }, None, ctl);
        }
    }

    /// Steps the queue and does what it says. Answers why it refused, if it did.
    fn step_queue(&mut self, event: Event, request: Option<Request>, ctl: &mut Control) -> Option<QError> {
        self.settle(ctl);
        self.step_queue_at(event, UpdateIndex(self.feed.tip().index), request, ctl)
    }

    pub(super) fn step_queue_at(
        &mut self,
        event: Event,
        tip: UpdateIndex,
        request: Option<Request>,
        ctl: &mut Control,
    ) -> Option<QError> {
        let actions = self.queue.step(event, tip, clock::utc_now_ns());
        let mut refused = None;
        for action in actions {
            if let Some(error) = self.act(action, request, ctl) {
                refused = Some(error);
            }
        }
        refused
    }

    fn act(&mut self, action: Action, request: Option<Request>, ctl: &mut Control) -> Option<QError> {
        let to = |handle: Handle, ctl: &Control| ctl.by_handle(handle.0);
        match action {
            Action::Journal(record) => self.write_journal(&record),
            Action::Refused { reason, .. } => return Some(QError::with("domain", reason.to_string())),
            Action::Joined { handle, drop } => self.joined(to(handle, ctl)?, drop, request, ctl),
            Action::MakeLive { handle, first, .. } => self.make_live(to(handle, ctl)?, first, ctl),
            Action::Resume { handle, next } => {
                let conn = to(handle, ctl)?;
                self.show_subscribed(conn);
                self.feed_from(conn, next.0, ctl);
            }
            Action::StopFeed { handle } => {
                let conn = to(handle, ctl)?;
                self.subscriptions.remove_everywhere(conn);
                self.feed.remove(conn);
            }
            Action::Rebuild { handle, window } => {
                let conn = to(handle, ctl)?;
                self.make_readable(conn, ctl);
                let log = self.log_handle();
                let message = match self.queue.by_handle(handle).map(|of| of.kind()) {
                    Some(Kind::Paper) => {
                        let chosen =
                            self.members.get(&conn).map(|of| self.tables_of(&of.subscription)).unwrap_or_default();
                        messages::paper_replay(&self.tables, &chosen, &log, window.first().0, window.last().0)
                    }
                    _ => messages::rebuild(self.place(&log), window),
                };
                ctl.send(conn, message);
            }
            Action::Verify { handle, window, date } => {
                let key = (handle, date, window);
                self.proofs.wanted.insert(key);
                self.check_proof(&key, ctl);
            }
            Action::Recheck { handle, window } => ctl.send(to(handle, ctl)?, messages::recheck(window)),
            Action::EndOfDay { handle, date } => ctl.send(to(handle, ctl)?, messages::end(date.0)),
            Action::Close { handle } => ctl.close(to(handle, ctl)?, "the node has come back over another connection"),
            Action::NeedNode { queue, missing, desired, via } => {
                ::log::info!("queue {queue}: {missing} more nodes are needed, {desired} in all");
                if let Some(conn) = via.and_then(|handle| to(handle, ctl)) {
                    ctl.send(conn, messages::need(desired));
                }
            }
            Action::Note(text) => ::log::info!("{text}"),
            Action::Alarm(text) => ::log::error!("{text}"),
        }
        None
    }

    fn joined(&mut self, conn: ConnId, drop: bool, request: Option<Request>, ctl: &mut Control) {
        let chosen = self.members.get(&conn).map(|member| self.tables_of(&member.subscription)).unwrap_or_default();
        let log = self.log_handle();
        let answer = message::message(MessageKind::Response, |writer| {
            messages::put_joined(writer, &self.tables, &chosen, self.place(&log), drop);
        });
        match (request, answer) {
            (Some(request), Ok(answer)) => ctl.reply(request, answer),
            // Joined without asking for an answer: then only what has to be done is told.
            (None, _) if drop => ctl.send(conn, messages::drop_all()),
            (None, _) => {}
            (Some(_), Err(error)) => ::log::error!("the answer to a join cannot be sent: {error}"),
        }
    }

    fn make_live(&mut self, conn: ConnId, first: UpdateIndex, ctl: &mut Control) {
        let Some(member) = self.members.get(&conn).cloned() else { return };
        self.show_subscribed(conn);
        self.make_readable(conn, ctl);
        let chosen = self.tables_of(&member.subscription);
        let log = self.log_handle();
        let tip = self.feed.tip().index;
        match member.form {
            Form::Indexed => {
                let position = self.queue.by_handle(handle(conn)).map_or(1, |of| self.queue.position(&of.queue));
                ctl.send(conn, messages::live(&self.tables, &chosen, self.place(&log), first.0, position));
            }
            Form::Table => {
                ctl.send(conn, messages::paper_replay(&self.tables, &chosen, &log, first.0, tip));
                if let Some(member) = self.members.get_mut(&conn) {
                    member.counted_from = tip;
                }
                self.feed_from(conn, tip, ctl);
            }
        }
    }

    /// A live member stands in `.u.w`.
    fn show_subscribed(&mut self, conn: ConnId) {
        let Some(member) = self.members.get(&conn) else { return };
        for (table, wanted) in self.wanted(&Arc::clone(&member.subscription)) {
            self.subscriptions.add(table, conn, wanted);
        }
    }

    /// What was logged can be seen where this peer reads it.
    fn make_readable(&mut self, conn: ConnId, ctl: &mut Control) {
        let local = ctl.peer(conn).is_some_and(|peer| peer.local);
        let Some(log) = &mut self.log else { return };
        if let Err(error) = if local { log.flush() } else { log.sync() } {
            self.fail(&error, ctl);
        }
    }

    fn write_journal(&mut self, record: &Record) {
        let written = if record.is_snapshot() { self.new_journal(record) } else { Ok(()) };
        let written = written.and_then(|()| match &mut self.journal {
            Some(journal) => journal.append(record),
            None => Ok(()),
        });
        if let Err(error) = written {
            ::log::error!("the queue's journal cannot be written, a restart will not know of this: {error}");
        }
    }

    /// A new day has a new journal.
    fn new_journal(&mut self, record: &Record) -> std::io::Result<()> {
        let (Some(log), Some(crate::queue::journal::Change::Reset { date, .. })) = (&self.log, record.changes.first())
        else {
            return Ok(());
        };
        let path = log::queue_path(log.path());
        let (file, ..) = JournalFile::open(&path, Params::default(), *date)?;
        self.journal = Some(file);
        Ok(())
    }

    fn check_proof(&mut self, key: &ProofKey, ctl: &mut Control) {
        let Some(held) = self.proofs.take(key) else { return };
        let (of, date, window) = *key;
        let Some(subscriber) = self.queue.by_handle(of) else { return };
        let member = Member {
            form: Form::Indexed,
            subscription: Arc::clone(&subscriber.subscription),
            counted_from: 0,
            carried: 0,
            from_start: false,
        };
        let spec = LaneSpec::new(self.key_of_member(&member, false));
        self.ask_log(of, date, spec, Question::Proof { window, held }, ctl);
    }

    fn ask_log(&mut self, of: Handle, date: Date, spec: Arc<LaneSpec>, question: Question, ctl: &mut Control) {
        if let Some(Err(error)) = self.log.as_mut().map(crate::log::LogWriter::flush) {
            return self.fail(&error, ctl);
        }
        if let Some(log) = self.log_of(date) {
            self.verify.submit(Job { handle: of, date, log, spec, question });
        }
    }

    pub(super) fn verified(&mut self, done: Done, ctl: &mut Control) {
        let Done { handle, date, answer } = done;
        match answer {
            Ok(Answer::Proof { window, difference }) => {
                let ok = difference.is_none();
                match difference {
                    None => self.stats.verified = self.stats.verified.wrapping_add(1),
                    Some(difference) => {
                        self.stats.differing = self.stats.differing.wrapping_add(1);
                        let label = self.queue.by_handle(handle).map_or_else(|| handle.to_string(), |of| of.label());
                        ::log::error!("{label} does not hold {window} of {date} as it was logged: {difference}");
                    }
                }
                self.step_queue(Event::Proved { handle, window, date, ok }, None, ctl);
            }
            Ok(Answer::Position(None)) => {
                ::log::warn!("handle {handle} counts more messages than it was sent; it is not rolled");
            }
            Ok(Answer::Position(Some(next))) => {
                self.step_queue(Event::Roll { handle, next, date }, None, ctl);
            }
            Err(error) => ::log::error!("handle {handle}: cannot look into the log of {date}: {error}"),
        }
    }
}

/// A name as clients write it: a symbol, or a string, which some begin with the backtick of a symbol.
pub(super) fn name<'a>(view: &View<'a>) -> Option<&'a [u8]> {
    view.symbol().or_else(|| view.chars().map(|text| text.strip_prefix(b"`").unwrap_or(text)))
}

/// Symbols of an atom, a vector, or a string.
pub(super) fn symbols(view: &View<'_>) -> Option<Vec<Vec<u8>>> {
    if let Some(name) = name(view) {
        return Some(vec![name.to_vec()]);
    }
    if let Some(vector) = view.vector() {
        return (vector.ty == proto::types::SYMBOL).then(|| vector.symbols().map(<[u8]>::to_vec).collect());
    }
    view.list()?.iter().map(|item| name(&item).map(<[u8]>::to_vec)).collect()
}

fn index_argument(args: &[View<'_>], at: usize) -> Result<UpdateIndex, QError> {
    let index = args.get(at).and_then(|index| index.atom::<i64>()).and_then(|index| u64::try_from(index).ok());
    index.map(UpdateIndex).ok_or(QError::with("type", "an update index is a long, 0 or more"))
}

/// A proof is a table `tab updates rows hash`.
fn proof_argument(args: &[View<'_>], at: usize) -> Result<Proof, QError> {
    let wrong = || QError::with("type", "a proof is a table tab updates rows hash");
    let table = args.get(at).and_then(View::table).ok_or_else(wrong)?;
    let longs = |name: &[u8]| -> Option<Vec<i64>> { table.column(name)?.vector()?.to_vec() };
    let tabs = symbols(&table.column(b"tab").ok_or_else(wrong)?).ok_or_else(wrong)?;
    let (updates, rows, hash) =
        longs(b"updates").zip(longs(b"rows")).zip(longs(b"hash")).map(|((u, r), h)| (u, r, h)).ok_or_else(wrong)?;
    let mut proof = Proof::new();
    for (((tab, updates), rows), hash) in tabs.iter().zip(updates).zip(rows).zip(hash) {
        let own =
            TableProof { updates: updates.cast_unsigned(), rows: rows.cast_unsigned(), hash: hash.cast_unsigned() };
        proof.table_mut(tab).merge(own);
    }
    Ok(proof)
}

/// Whether kdb+ would compress what it sends there.
pub(super) fn compresses(conn: ConnId, ctl: &Control) -> bool {
    ctl.peer(conn).is_some_and(|peer| !peer.local && peer.capability > 0)
}
