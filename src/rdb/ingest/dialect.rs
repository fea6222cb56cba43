//! Three kinds of tickerplant: finding out which, and joining it.

use super::session::About;
use super::{Fault, Ingest, KnownLog};
use crate::lease::{Epoch, Fence};
use crate::log::WriterId;
use crate::net::client::ClientError;
use crate::points::{self, Point};
use crate::rdb::capacity::Ask;
use crate::rdb::messages::{self, Join};
use crate::rdb::policy::Event;
use proto::View;
use std::path::Path;

/// What a tickerplant speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Dialect {
    Elastick,
    Paper,
    Stock,
}

impl Dialect {
    pub fn name(self) -> &'static str {
        match self {
            Dialect::Elastick => "elastick",
            Dialect::Paper => "paper",
            Dialect::Stock => "stock",
        }
    }

    /// Whether a node may come back with what it holds.
    pub fn resumes(self) -> bool {
        self == Dialect::Elastick
    }
}

/// What q answers to a call of a function that it does not have.
const NO_JOIN: &[u8] = b".u.asg.join";

impl Ingest {
    /// Joins the queue, or subscribes, in the tickerplant's own way: begins with the first question.
    pub(super) fn greet(&mut self) -> Result<(), Fault> {
        self.rejoin = false;
        match self.forced() {
            None | Some(Dialect::Elastick) => self.join(),
            Some(Dialect::Paper) => self.greet_paper(),
            Some(Dialect::Stock) => self.subscribe(),
        }
    }

    fn speaks(&mut self, dialect: Dialect) {
        if self.dialect != Some(dialect) {
            log::info!("the tickerplant speaks {}", dialect.name());
        }
        self.dialect = Some(dialect);
        self.intake.set_fills(dialect == Dialect::Elastick);
    }

    fn greeted(&mut self) {
        self.greeted = true;
        self.tell_ready();
        self.ask(Ask::Ready);
    }

    pub(super) fn has_queue_answered(&mut self, answer: Result<View<'_>, ClientError>) -> Result<(), Fault> {
        match answer?.atom::<bool>() {
            Some(true) => self.greet_paper(),
            _ => self.subscribe(),
        }
    }

    /// The paper's tickerplant tells the tables to a live node only; one that waits asks, so that it can answer queries on
    /// them. Where that is refused, the tables come later.
    fn greet_paper(&mut self) -> Result<(), Fault> {
        self.speaks(Dialect::Paper);
        self.ask_tickerplant(About::Schemas, |writer| writer.chars(messages::SCHEMAS))
    }

    pub(super) fn schemas_answered(&mut self, answer: Result<View<'_>, ClientError>) -> Result<(), Fault> {
        let tables = match &answer {
            Ok(view) => messages::named_schemas(view),
            Err(error) => Err(error.to_string()),
        };
        match tables {
            Ok(mut tables) => {
                let wanted = &self.options.subscription.tables;
                let is_wanted = |table: &crate::table::Schema| {
                    let name = crate::table::symbol::text(table.name);
                    wanted.is_empty() || wanted.iter().any(|wanted| wanted.as_bytes() == name)
                };
                tables.retain(is_wanted);
                self.define(tables)?;
            }
            Err(reason) => log::info!("the tables are told when this node is live: {reason}"),
        }
        let (options, queue) = (self.options.clone(), self.identity.queue.clone());
        self.write(|out| messages::paper_subscribe(out, &options.subscription, &queue));
        self.greeted();
        Ok(())
    }

    /// elastick's own way.
    fn join(&mut self) -> Result<(), Fault> {
        let held: Vec<(u64, u64)> = self.intake.held().iter().map(|held| (held.first, held.next)).collect();
        let live = self.intake.open_window().filter(|open| open.last.is_none());
        let open = live.map(|open| (open.window.first, open.window.next));
        let options = self.options.clone();
        let join = Join {
            node: &self.identity.node,
            queue: &self.identity.queue,
            subscription: &options.subscription,
            port: self.identity.port,
            date: self.date.filter(|_| !held.is_empty() || open.is_some()),
            held: &held,
            open,
            group: &self.identity.group,
            instance: &self.identity.instance,
            process: &self.identity.process,
            writer: self.fence.as_ref().and_then(|known| known.writer),
            leaving: self.leaving(),
        };
        let mut request = Vec::new();
        messages::join(&mut request, &join).map_err(|error| Fault::Fatal(format!("cannot join: {error}")))?;
        self.out.extend_from_slice(&request);
        self.expect_answer(About::Join);
        Ok(())
    }

    pub(super) fn join_answered(&mut self, answer: Result<View<'_>, ClientError>) -> Result<(), Fault> {
        let view = match answer {
            Ok(view) => view,
            Err(ClientError::Server(name)) if name == NO_JOIN => {
                return match self.forced() {
                    None => self.ask_tickerplant(About::HasQueue, |writer| writer.chars(messages::HAS_QUEUE)),
                    Some(_) => Err(Fault::Connection("the tickerplant has no .u.asg.join".to_string())),
                };
            }
            Err(error) => return Err(self.refused(format!("the tickerplant refuses this node: {error}"))),
        };
        let joined = messages::joined(&view).map_err(Fault::Connection)?;
        let is_other = self.pass_fence(joined.log.as_deref(), joined.epoch, joined.writer)?;
        self.refused = None;
        if is_other && !joined.drop && (!self.intake.held().is_empty() || self.intake.open_window().is_some()) {
            // It takes the windows of the other log for its own.
            self.step(Event::Dropped);
            return Err(Fault::Connection(
                "joining anew with nothing: the tickerplant's log is another one".to_string(),
            ));
        }
        if joined.drop {
            log::warn!("told to forget all rows: others hold this node's windows");
            points::reach(Point::NodeDrops);
            self.step(Event::Dropped);
        } else {
            // What it took over out of sight, and may keep, is its own now.
            self.set_hidden(false)?;
        }
        let is_live = self.intake.open_window().is_some_and(|open| open.last.is_none());
        if self.define(joined.tables)? && is_live {
            self.step(Event::Dropped);
            return Err(Fault::Surprise("the tables are others than those of the rows held".to_string()));
        }
        self.missed_date = self.date.filter(|own| *own < joined.date);
        self.date = Some(joined.date);
        self.tip = Some(joined.tip);
        self.speaks(Dialect::Elastick);
        self.prove_held(joined.date);
        self.greeted();
        points::reach(Point::NodeJoined);
        Ok(())
    }

    /// Proofs that were under way when the last connection ended, or that a tickerplant which has died had not compared yet, are
    /// told again: it looks at those that it misses.
    fn prove_held(&mut self, date: i32) {
        for window in self.intake.held().to_vec() {
            let proof = self.intake.proof(&window);
            self.write(|out| messages::proved(out, window.first, window.next, &proof, date));
        }
    }

    fn refused(&mut self, reason: String) -> Fault {
        self.refused = Some(reason.clone());
        self.show();
        Fault::Connection(reason)
    }

    /// A tickerplant whose log another has taken over since says nothing that counts. Epochs of another log say nothing of this one,
    /// and a tickerplant without a log has none. True if the log is another than the one that this node had its rows from.
    fn pass_fence(&mut self, log: Option<&Path>, epoch: Epoch, writer: Option<WriterId>) -> Result<bool, Fault> {
        let Some(directory) = log.and_then(Path::parent) else { return Ok(false) };
        let before = self.fence.take();
        let was = before.as_ref().and_then(|known| known.writer).zip(writer);
        let is_other = was.is_some_and(|(before, now)| before.log != now.log);
        // By its directory where either does not say whose log it is.
        let is_same = |known: &KnownLog| if was.is_some() { !is_other } else { known.directory == directory };
        let (mut fence, writer) = match before.filter(is_same) {
            Some(known) => (known.fence, writer.or(known.writer)),
            None => (Fence::default(), writer),
        };
        let passed = fence.pass(epoch);
        let writer = if passed.is_ok() { writer } else { was.map(|(before, _)| before) };
        self.fence = Some(KnownLog { directory: directory.to_path_buf(), writer, fence });
        match passed {
            Ok(()) => {
                if let Some((before, now)) = was.filter(|_| is_other) {
                    log::warn!(
                        "the tickerplant's log in {} is another one ({}, was {}): rows of the former are forgotten",
                        directory.display(),
                        now.log,
                        before.log
                    );
                }
                Ok(is_other)
            }
            Err(fenced) => Err(self.refused(format!(
                "the tickerplant was replaced: {fenced}; this one is an old writer of the log in {}: end it",
                directory.display()
            ))),
        }
    }

    /// Stock kdb+tick: one string subscribes and tells where the log is.
    fn subscribe(&mut self) -> Result<(), Fault> {
        self.speaks(Dialect::Stock);
        if !self.options.subscription.symbols.is_empty() {
            let reason =
                "a subscription to some symbols needs elastick's tickerplant: a log cannot be replayed by symbol";
            return Err(Fault::Fatal(reason.to_string()));
        }
        let question = messages::stock_subscribe(&self.options.subscription);
        self.ask_tickerplant(About::Subscribe, |writer| writer.chars(&question))
    }

    pub(super) fn subscribe_answered(&mut self, answer: Result<View<'_>, ClientError>) -> Result<(), Fault> {
        let replay = messages::stock_answer(&answer?).map_err(Fault::Connection)?;
        self.begin(replay)?;
        self.greeted();
        Ok(())
    }

    /// A tickerplant in q has made this node the one that takes updates. One that is going to end hands them back, where there is
    /// a queue.
    pub(super) fn begin(&mut self, replay: messages::Replay) -> Result<(), Fault> {
        if self.policy.is_going() {
            if self.dialect == Some(Dialect::Paper) {
                log::info!("handing back the window from {}: this node is going to end", replay.first);
                self.write(|out| messages::paper_roll(out, replay.first));
            }
            return Ok(());
        }
        self.define(replay.tables)?;
        self.intake.close();
        self.tip = Some(replay.tip);
        if self.begin_window(replay.first, None, Event::BecameLive).is_none() {
            return Ok(());
        }
        self.begin_replay(replay.log, Vec::new(), replay.first, replay.tip);
        Ok(())
    }

    /// Defines the tables. True if rows were forgotten because the tables have changed.
    pub(super) fn define(&mut self, tables: Vec<crate::table::Schema>) -> Result<bool, Fault> {
        let had_rows = self.intake.rows() > 0;
        let changed = self.intake.define(tables);
        self.show();
        let changed = changed.map_err(|error| Fault::Fatal(format!("cannot make the tables: {error}")))?;
        Ok(changed && had_rows)
    }
}
