//! Tickerplants that copy the log of this one: `.u.follow.open`, `.u.follow.checksums` and `.u.follow.copy`.

use super::calls::{Caller, malformed};
use super::copies::{Keeping, OwnLease};
use super::{Plant, chunk_bytes};
use crate::access::Names;
use crate::config::{Durability, Limit, ReplicaMissing};
use crate::lease::CopyName;
use crate::log::{LogWriter, Waker};
use crate::metrics;
use crate::net::{ConnId, Links, Peer, SyncRequest, message};
use crate::protocol::follow::{Ask, Greeted, Greeting, Sums};
use crate::protocol::names;
use crate::q::QError;
use crate::queue::Date;
use crate::tick::clock;
use crate::tick::follow::in_sync::Event as CopyEvent;
use crate::tick::follow::replicas::{Event, Position, Replicas};
use crate::tick::follow::serve::{self, Job, Place, Read, Server, What};
use proto::View;
use std::time::{Duration, Instant};

/// Time of silence after which a follower's host counts as gone.
const MAX_SILENCE: Duration = Duration::from_secs(20);
/// Longest time for which a follower's request waits for new updates.
const MAX_WAIT: Duration = Duration::from_secs(5);

/// A tickerplant that copies the log.
struct Follower {
    conn: ConnId,
    /// Where it is reached.
    name: Vec<u8>,
    /// Its copy in the record of the lease; `None` without one.
    copy: Option<CopyName>,
    /// Its call that waits for updates, and until when.
    asked: Option<(SyncRequest, Ask, Instant)>,
    /// It has called since the last hand-over began: it does not hang.
    is_heard: bool,
    /// Its call that the thread works on.
    reading: Option<SyncRequest>,
}

/// The tickerplants that copy the log of this one.
pub(super) struct Followers {
    waker: Waker,
    /// Where the logs are; `None` without logs.
    place: Option<Place>,
    /// Started for the first one.
    server: Option<Server<ConnId>>,
    all: Vec<Follower>,
    replicas: Replicas<ConnId>,
    missing: ReplicaMissing,
    /// Responses wait for followers.
    is_promised: bool,
    /// Where the record of a lease names the followers that count.
    pub keeping: Option<Keeping>,
}

impl Followers {
    /// For the logs in `place`. Responses wait for as many followers as the durability says, up to `timeout`, after which `missing` applies.
    pub fn new(
        waker: Waker,
        place: Option<Place>,
        (durability, timeout, missing): (Durability, Duration, ReplicaMissing),
        lease: Option<OwnLease>,
    ) -> Followers {
        let needed = match durability {
            // Nobody follows a tickerplant without a log.
            _ if place.is_none() => 0,
            Durability::Replica { followers, .. } => usize::try_from(followers).unwrap_or(usize::MAX),
            Durability::None | Durability::Os | Durability::Group(_) | Durability::Each => 0,
        };
        let timeout_ns = i64::try_from(timeout.as_nanos()).unwrap_or(i64::MAX);
        let keeping = lease.map(|lease| Keeping::new(lease, needed, timeout_ns));
        // One of both decides.
        let replicas = Replicas::new(if keeping.is_some() { 0 } else { needed }, timeout_ns);
        let (server, all, is_promised) = (None, Vec::new(), needed > 0);
        Followers { waker, place, server, all, replicas, missing, is_promised, keeping }
    }

    /// Whether there are followers, or responses that wait for some, or for the record of the lease.
    pub fn is_used(&self) -> bool {
        !self.all.is_empty() || self.is_promised || self.keeping.as_ref().is_some_and(|keeping| !keeping.is_settled())
    }

    /// Whether updates are rejected because too few followers confirm.
    pub fn refuses_updates(&self) -> bool {
        self.is_missing() && self.missing == ReplicaMissing::Refuse
    }

    /// Whether a follower has everything that was acknowledged, and may take over.
    pub fn may_go_on(&self) -> bool {
        self.is_promised && self.keeping.as_ref().is_some_and(|keeping| keeping.named() > 0)
    }

    fn is_missing(&self) -> bool {
        self.keeping.as_ref().map_or(self.replicas.is_missing(), Keeping::is_missing)
    }

    /// What is confirmed, if responses wait for that.
    pub fn replicated(&self) -> Option<Position> {
        if let Some(keeping) = &self.keeping {
            return keeping.replicated(self.is_promised, self.missing);
        }
        let waits =
            self.replicas.is_needed() && (!self.replicas.is_missing() || self.missing == ReplicaMissing::Refuse);
        waits.then(|| self.replicas.confirmed())
    }

    pub fn count(&self) -> usize {
        self.all.len()
    }

    /// Whether a connection is a follower's.
    pub fn has(&self, conn: ConnId) -> bool {
        self.all.iter().any(|of| of.conn == conn)
    }

    /// Each follower with what it has confirmed.
    pub fn durable(&self) -> impl Iterator<Item = (&[u8], Position)> {
        self.all.iter().map(|of| (of.name.as_slice(), self.replicas.durable(of.conn).unwrap_or_default()))
    }

    /// Each follower that has a copy in the record of the lease and does not hang, with its address.
    pub fn copies(&self) -> impl Iterator<Item = (&[u8], &str)> {
        let heard = self.all.iter().filter(|of| of.is_heard);
        heard.filter_map(|of| Some((of.name.as_slice(), of.copy.as_deref()?)))
    }

    /// Lets each follower call again at once.
    pub fn hasten(&mut self, now: Instant) {
        for of in &mut self.all {
            of.is_heard = false;
            of.asked.iter_mut().for_each(|(.., until)| *until = now);
        }
    }

    /// Why updates are not as safe as promised, in words.
    pub fn trouble(&self) -> Option<String> {
        let (needed, connected) = (self.replicas.needed(), self.replicas.connected());
        let then = match self.missing {
            ReplicaMissing::Continue => {
                "updates are acknowledged once they are synced here alone, and those lost with this host's disk are lost"
            }
            ReplicaMissing::Refuse => "updates are rejected",
        };
        if let Some(keeping) = self.keeping.as_ref().filter(|of| of.is_missing()) {
            let named = keeping.named();
            return Some(format!(
                "too few followers have all updates (--durability replica({}), {connected} connected, {named} may take over): {then}",
                keeping.needed()
            ));
        }
        self.is_missing().then(|| {
            format!("too few followers confirm in time (--durability replica({needed}), {connected} connected): {then}")
        })
    }

    /// Until when nothing is to be done without an event, on the clock of the loop and on the steady one.
    pub fn deadlines(&self) -> (Option<Instant>, Option<i64>) {
        let waits = self.all.iter().filter_map(|of| of.asked.as_ref().map(|(.., until)| *until));
        let due_ns = self.keeping.as_ref().and_then(Keeping::due_ns);
        (waits.min(), self.replicas.due_ns().or(due_ns))
    }

    fn of(&mut self, conn: ConnId) -> Result<&mut Follower, QError> {
        let follower = self.all.iter_mut().find(|of| of.conn == conn);
        follower.ok_or_else(|| QError::with("domain", format!("this connection has not called {}", names::FOLLOW_OPEN)))
    }
}

impl Plant {
    /// `.u.follow.open[d]`.
    ///
    /// # Errors
    /// `access` without the role for all queues, or without proof where the cluster has a secret; `domain` for another source; `limit` for too
    /// many followers; `nyi` without a log.
    pub(super) fn follow_open(&mut self, args: &[View<'_>], caller: Caller, ctl: &mut dyn Links) -> Result<(), QError> {
        let conn = caller.conn;
        let Greeting { src, name, copy } = Greeting::decode(args).map_err(malformed)?;
        self.may_follow(conn, &name, ctl)?;
        let (Some(place), Some(log)) = (self.followers.place.clone(), self.log.writer()) else {
            return Err(QError::with("nyi", "this tickerplant has no log to follow"));
        };
        let copy = Some(String::from_utf8_lossy(&copy).into_owned()).filter(|copy| !copy.is_empty());
        let of = copy.as_deref().and_then(|copy| copy.rsplit_once('/')).map(|(address, _)| address.as_bytes());
        if copy.is_some() && of != Some(&name) {
            // Only its name is proved.
            return Err(QError::with("domain", "the name of a copy begins with the address of its follower"));
        }
        if self.followers.keeping.as_ref().zip(copy.as_deref()).is_some_and(|(keeping, copy)| keeping.is_own(copy)) {
            let why = "its copy has the name of this tickerplant's own: each needs its own --advertise, and a directory without the other's SRC.copy";
            return Err(QError::with("domain", why));
        }
        if src != place.src.as_bytes() {
            let (theirs, own) = (src.escape_ascii(), &place.src);
            return Err(QError::with("domain", format!("this tickerplant's source is {own}, not {theirs}")));
        }
        let (id, tables) = (log.writer_id(), self.schemas.tables().iter().map(|table| table.schema.clone()).collect());
        // Epochs of a lease are given to one process each.
        let began = self.followers.keeping.as_ref().map(|_| log.began_at());
        let date = self.log.position().date;
        let greeted = Greeted { id: id.log, epoch: id.epoch, began, date, dates: Vec::new(), tables };
        // A follower that has lost its connection comes back before this side has noticed.
        let before = self.followers.all.iter().find(|of| of.name == name && of.conn != conn).map(|of| of.conn);
        if let Some(before) = before {
            self.follower_left(before, ctl);
            ctl.close(before, "the follower has connected again");
        }
        self.follower_left(conn, ctl);
        if self.followers.count() as u64 >= self.limits.followers {
            metrics::refused(Limit::followers);
            return Err(QError::with(
                "limit",
                format!("{} followers are connected (--limit-followers)", self.followers.count()),
            ));
        }
        if self.followers.server.is_none() {
            let reading = (self.codec, chunk_bytes(&self.limits));
            let server = serve::start(&self.env, place, reading, self.followers.waker.clone());
            self.followers.server = Some(server.map_err(|error| QError::with("os", error.to_string()))?);
        }
        ctl.set_keepalive(conn, MAX_SILENCE);
        tracing::info!(follower = %name.escape_ascii(), "a tickerplant follows this one");
        let joined = copy.clone().map(CopyEvent::Joined);
        self.followers.all.push(Follower { conn, name, copy, asked: None, is_heard: true, reading: None });
        self.replicas_step(Event::Joined(conn), ctl);
        joined.into_iter().for_each(|event| self.copies_step(event, ctl));
        self.read_for(caller, greeted.date, What::Greet(greeted))
    }

    fn may_follow(&self, conn: ConnId, name: &[u8], ctl: &dyn Links) -> Result<(), QError> {
        let peer = ctl.peer(conn).ok_or(QError::with("access", "the connection is closed"))?;
        if peer.grants.node != Some(Names::All) {
            return Err(QError::with("access", "a follower needs the role node for all queues"));
        }
        let certificate = Peer::certificate(peer);
        // Its name is where it is reached, with a port that no certificate has.
        let host = name.rsplitn(2, |byte| *byte == b':').last().unwrap_or_default();
        let is_certified = certificate.is_some_and(|of| of.names().any(|of| of.as_bytes() == host));
        if is_certified { Ok(()) } else { self.members.may_be(conn, name) }
    }

    /// `.u.follow.checksums[date;offsets]`.
    ///
    /// # Errors
    /// `type` and `limit` for arguments of another form; `domain` for a connection that is no follower, or a day without a log.
    pub(super) fn follow_sums(&mut self, args: &[View<'_>], caller: Caller, ctl: &mut dyn Links) -> Result<(), QError> {
        let Sums { date, offsets } = Sums::decode(args).map_err(malformed)?;
        self.settle(ctl);
        self.read_for(caller, date, What::Sums(offsets))
    }

    /// `.u.follow.copy[d]`.
    ///
    /// # Errors
    /// `type` for a value of another form; `domain` for a connection that is no follower, for a day without a log, or for updates that are not logged
    /// here.
    pub(super) fn follow_next(&mut self, args: &[View<'_>], caller: Caller, ctl: &mut dyn Links) -> Result<(), QError> {
        let ask = Ask::decode(args).map_err(malformed)?;
        let request = caller.request.ok_or(QError::with("type", "not a sync call"))?;
        let now = ctl.now();
        let until = now.checked_add(Duration::from_millis(ask.wait_ms).min(MAX_WAIT)).unwrap_or(now);
        let durable = Position { date: ask.date, index: ask.durable };
        let follower = self.followers.of(caller.conn)?;
        if follower.asked.is_some() || follower.reading.is_some() {
            return Err(QError::with("domain", "the call before this one has no response yet"));
        }
        self.settle(ctl);
        let tip = self.log.position();
        if durable > tip {
            // What is confirmed stays confirmed: it would be that of updates to come.
            let text = format!("it has {} updates, and this tickerplant {}", durable.index, tip.index);
            return Err(QError::with("domain", text));
        }
        let follower = self.followers.of(caller.conn)?;
        (follower.asked, follower.is_heard) = (Some((request, ask, until)), true);
        let confirmed = follower.copy.clone().map(|copy| CopyEvent::Confirmed(copy, durable));
        self.replicas_step(Event::Confirmed(caller.conn, durable), ctl);
        confirmed.into_iter().for_each(|event| self.copies_step(event, ctl));
        self.feed_followers(ctl);
        self.acknowledge(ctl);
        Ok(())
    }

    /// Submits a read, whose response the thread encodes.
    fn read_for(&mut self, caller: Caller, date: i32, what: What) -> Result<(), QError> {
        let request = caller.request.ok_or(QError::with("type", "not a sync call"))?;
        let log = self.log.source_of(Date(date)).ok_or(QError::with("domain", "there is no log"))?;
        let follower = self.followers.of(caller.conn)?;
        if follower.reading.replace(request).is_some() {
            return Err(QError::with("domain", "the call before this one has no response yet"));
        }
        if let Some(server) = &self.followers.server {
            server.submit(Job { follower: caller.conn, log, what });
        }
        Ok(())
    }

    /// Sends what was read for followers, takes note of what was logged, and reads for those that wait for it.
    pub(super) fn serve_followers(&mut self, ctl: &mut dyn Links) {
        if self.followers.is_used() {
            self.followers_read(ctl);
            self.feed_followers(ctl);
        }
    }

    fn feed_followers(&mut self, ctl: &mut dyn Links) {
        self.replicas_step(Event::Time, ctl);
        self.copies_step(CopyEvent::Time, ctl);
        let (now, today) = (ctl.now(), self.log.position().date);
        let is_due = |of: &Follower, written: u64| {
            of.asked.as_ref().is_some_and(|(_, ask, until)| ask.date != today || ask.next < written || *until <= now)
        };
        if !self.followers.all.iter().any(|of| is_due(of, self.log.tip())) {
            return;
        }
        // Under durability `none`, updates are in a buffer. Where nothing comes, the side file gets the blocks that prove the copy.
        let is_quiet = self.followers.all.iter().any(|of| of.asked.as_ref().is_some_and(|(.., until)| *until <= now));
        let flushed = if is_quiet { self.log.flush() } else { self.log.flush_until(self.log.tip()) };
        if let Err(error) = flushed {
            return self.fail(&error, ctl);
        }
        let (written, epoch) = (self.log.written_tip(), self.log.epoch().0);
        for at in 0..self.followers.all.len() {
            let due = self.followers.all.get_mut(at).filter(|of| is_due(of, written));
            let Some((follower, (request, ask, until))) = due.and_then(|of| Some((of.conn, of.asked.take()?))) else {
                continue;
            };
            let is_thorough = until <= now;
            let until = (ask.date == today).then_some(written);
            let caller = Caller { conn: follower, request: Some(request) };
            let read = What::Read(Read { epoch, until, is_thorough, ask: ask.clone() });
            if let Err(error) = self.read_for(caller, ask.date, read) {
                ctl.reply(request, message::error(error.to_string().as_bytes()));
            }
        }
    }

    /// Sends what the thread has read.
    fn followers_read(&mut self, ctl: &mut dyn Links) {
        while let Some(done) = self.followers.server.as_ref().and_then(Server::result) {
            let follower = self.followers.all.iter_mut().find(|of| of.conn == done.follower);
            if let Some(request) = follower.and_then(|of| of.reading.take()) {
                ctl.reply(request, done.message);
            }
        }
    }

    /// Forgets a follower whose connection has closed.
    pub(super) fn follower_left(&mut self, conn: ConnId, ctl: &mut dyn Links) {
        let Some(at) = self.followers.all.iter().position(|of| of.conn == conn) else { return };
        let left = self.followers.all.swap_remove(at);
        tracing::warn!(follower = %left.name.escape_ascii(), "a tickerplant that followed this one has disconnected");
        self.replicas_step(Event::Left(conn), ctl);
        left.copy.map(CopyEvent::Left).into_iter().for_each(|event| self.copies_step(event, ctl));
    }

    fn replicas_step(&mut self, event: Event<ConnId>, ctl: &mut dyn Links) {
        let (position, now_ns) = (self.log.position(), self.steady_ns());
        let change = self.followers.replicas.step(event, position, now_ns);
        self.promised(change, ctl);
    }

    /// Warns, and with `--replica-missing refuse` rejects what waits for followers.
    pub(super) fn too_few_followers(&mut self, ctl: &mut dyn Links) {
        let trouble = self.followers.trouble().unwrap_or_default();
        tracing::warn!("{trouble}");
        if self.followers.refuses_updates() {
            let text = format!("io: {trouble}; this update is logged here, and lost if this tickerplant is");
            let acks = self.log.take_acks();
            acks.into_iter().for_each(|ack| ctl.reply(ack.request, message::error(text.as_bytes())));
        }
    }

    /// Returns how many updates of today each follower lacks on its disk.
    pub(super) fn follower_lags(&self) -> Vec<(String, u64)> {
        let today = self.log.writer().map(LogWriter::date).map(|date| clock::day_number(date).0);
        let lag = |durable: Position| match today == Some(durable.date) {
            true => self.log.tip().saturating_sub(durable.index),
            false => self.log.tip(),
        };
        self.followers.durable().map(|(name, durable)| (name.escape_ascii().to_string(), lag(durable))).collect()
    }
}
