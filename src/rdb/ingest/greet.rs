//! Detects which of three kinds of tickerplant a node is connected to, and joins it.

use super::link::RequestKind;
use super::{Dialect, Fault, Ingest};
use crate::net::client::ClientError;
use crate::points::{self, Boundary};
use crate::protocol::{FromNode, Join, Joined, foreign};
use crate::queue::{EVICTED, OpenWindow, UpdateIndex, Window};
use crate::rdb::capacity::FleetRequest;
use crate::rdb::policy::PolicyEvent;
use proto::View;

/// q's error for an undefined function.
const NO_JOIN: &[u8] = b".u.asg.join";

impl Ingest {
    /// Starts to join the queue or subscribe, in the tickerplant's protocol.
    pub(super) fn greet(&mut self) -> Result<(), Fault> {
        match Dialect::forced(self.options.protocol) {
            None | Some(Dialect::Elastick) => self.join(),
            Some(Dialect::Paper) => self.greet_paper(),
            Some(Dialect::Stock) => self.subscribe(),
        }
    }

    fn set_dialect(&mut self, dialect: Dialect) {
        if self.link.set_dialect(dialect) {
            tracing::info!(protocol = dialect.name(), "detected the tickerplant's protocol");
        }
        self.intake.set_fills(dialect == Dialect::Elastick);
    }

    fn greeted(&mut self) {
        self.link.joined();
        self.shared.settle_doubt();
        self.notify_ready();
        self.requests.send(FleetRequest::Ready);
    }

    pub(super) fn has_queue_answered(&mut self, answer: Result<View<'_>, ClientError>) -> Result<(), Fault> {
        match answer?.atom::<bool>() {
            Some(true) => self.greet_paper(),
            _ => self.subscribe(),
        }
    }

    /// The paper's tickerplant sends table schemas only to the live node. A standby requests them, so that queries find
    /// the tables; if that fails, they arrive when the node becomes live.
    fn greet_paper(&mut self) -> Result<(), Fault> {
        self.set_dialect(Dialect::Paper);
        self.link.request(RequestKind::Schemas, self.env.clock.now(), |writer| writer.chars(foreign::SCHEMAS))
    }

    pub(super) fn schemas_answered(&mut self, answer: Result<View<'_>, ClientError>) -> Result<(), Fault> {
        let tables = match &answer {
            Ok(view) => foreign::named_schemas(view).map_err(|error| error.to_string()),
            Err(error) => Err(error.to_string()),
        };
        match tables {
            Ok(mut tables) => {
                let requested = &self.options.subscription.tables;
                let is_requested = |table: &crate::table::Schema| {
                    let name = crate::table::symbol::text(table.name);
                    requested.is_empty() || requested.iter().any(|requested| requested.as_bytes() == name)
                };
                tables.retain(is_requested);
                self.define(tables)?;
            }
            Err(reason) => tracing::info!(%reason, "the tickerplant sends the schemas when this node becomes live"),
        }
        let (subscription, queue) = (&self.options.subscription, &self.identity.queue);
        self.link.write(|out| foreign::append_paper_subscribe(out, subscription, queue));
        self.greeted();
        Ok(())
    }

    /// Joins elastick's queue.
    fn join(&mut self) -> Result<(), Fault> {
        // The claim in the join must be past an update to be left out, as the feed starts at the claim.
        self.skip_unreadable();
        let window = |first: u64, next: u64| (UpdateIndex(first), UpdateIndex(next));
        let held = self.intake.held().iter().map(|held| window(held.first, held.next));
        let held: Vec<Window> = held.filter_map(|(first, next)| Window::new(first, next)).collect();
        let live = self.intake.open_window().filter(|open| open.last.is_none());
        let open = live.map(|open| window(open.window.first, open.window.next));
        let open = open.map(|(first, next)| OpenWindow { first, next });
        let name = |name: &str| Some(name.as_bytes().to_vec()).filter(|name| !name.is_empty());
        let group = name(&self.identity.group);
        let join = Join {
            node: self.identity.node.clone().into_bytes(),
            queue: self.identity.queue.clone().into_bytes(),
            subscription: self.options.subscription.clone(),
            port: Some(self.identity.port),
            date: self.day.date().filter(|_| !held.is_empty() || open.is_some()),
            held,
            open,
            instance: name(&self.identity.instance).filter(|_| group.is_some()),
            group,
            process: name(&self.identity.process),
            owner: name(&self.identity.process).filter(|_| self.options.has_owner_lease),
            writer: self.log.writer(),
            leaving: self.leaving().map(|leaving| leaving.when),
        };
        self.link.send_join(&join, self.env.clock.now())
    }

    pub(super) fn join_answered(&mut self, answer: Result<View<'_>, ClientError>) -> Result<(), Fault> {
        let view = match answer {
            Ok(view) => view,
            Err(ClientError::Server(name)) if name == NO_JOIN => {
                return match Dialect::forced(self.options.protocol) {
                    None => self.link.request(RequestKind::HasQueue, self.env.clock.now(), |writer| {
                        writer.chars(foreign::HAS_QUEUE)
                    }),
                    Some(_) => Err(Fault::Connection("the tickerplant has no .u.asg.join".to_string())),
                };
            }
            Err(ClientError::Server(text)) if text.starts_with(EVICTED.as_bytes()) => {
                // Another try would be rejected as well: only a new process can join.
                let text = String::from_utf8_lossy(&text).into_owned();
                return Err(Fault::Fatal(format!("the tickerplant rejects this node: {text}")));
            }
            Err(error) => return Err(self.refused(format!("the tickerplant rejects this node: {error}"))),
        };
        let joined = Joined::decode(&view).map_err(|error| Fault::Connection(error.to_string()))?;
        points::message(Boundary::NodeTakes, joined.name());
        let passed = self.log.pass(joined.log.as_deref(), joined.epoch, joined.writer);
        let is_other = passed.map_err(|reason| self.refused(reason))?;
        if is_other && !joined.drop && (!self.intake.held().is_empty() || self.intake.open_window().is_some()) {
            // The tickerplant takes the windows claimed from the other log for its own.
            self.step(PolicyEvent::Dropped);
            return Err(Fault::JoinsAgain("the tickerplant has another log: dropping all rows".to_string()));
        }
        if joined.drop {
            tracing::warn!("dropping all rows: other nodes hold this node's windows");
            self.step(PolicyEvent::Dropped);
        } else {
            // Windows rebuilt while hidden, and kept, now belong to this node.
            self.set_hidden(false)?;
        }
        let is_live = self.intake.open_window().is_some_and(|open| open.last.is_none());
        if self.define(joined.tables)? && is_live {
            self.step(PolicyEvent::Dropped);
            return Err(Fault::Surprise("the schemas differ from those of the rows held".to_string()));
        }
        self.day.joined(joined.date, joined.tip);
        self.requests.set_unserved(0);
        self.set_dialect(Dialect::Elastick);
        self.prove_held(joined.date);
        self.greeted();
        Ok(())
    }

    /// Sends the proofs of all windows again. Some may have been lost with the last connection, or with a tickerplant
    /// that died before comparing them; it checks those that it lacks.
    fn prove_held(&mut self, date: i32) {
        for window in self.intake.held().to_vec() {
            let proof = self.intake.proof(&window);
            self.link.post(FromNode::Proved { first: window.first, last: window.next, proof, date: Some(date) });
        }
    }

    pub(super) fn refused(&mut self, reason: String) -> Fault {
        self.log.refuse(reason.clone());
        self.show();
        Fault::Connection(reason)
    }

    /// Subscribes to stock kdb+tick with one string, whose result includes the log's position.
    fn subscribe(&mut self) -> Result<(), Fault> {
        self.set_dialect(Dialect::Stock);
        if !self.options.subscription.symbols.is_empty() {
            let reason = "--symbols requires elastick's tickerplant: a log cannot be replayed by symbol";
            return Err(Fault::Fatal(reason.to_string()));
        }
        let question = foreign::stock_subscribe(&self.options.subscription);
        self.link.request(RequestKind::Subscribe, self.env.clock.now(), |writer| writer.chars(&question))
    }

    pub(super) fn subscribe_answered(&mut self, answer: Result<View<'_>, ClientError>) -> Result<(), Fault> {
        let replay = foreign::stock_answer(&answer?).map_err(|error| Fault::Connection(error.to_string()))?;
        self.begin(replay)?;
        self.greeted();
        Ok(())
    }

    /// Starts a window assigned by a tickerplant in q. A node that is going to end gives it back if there is a queue.
    pub(super) fn begin(&mut self, replay: foreign::Replay) -> Result<(), Fault> {
        if self.policy.is_going() {
            if self.link.dialect() == Some(Dialect::Paper) {
                tracing::info!(first = replay.first, "giving back the window: this node is about to terminate");
                self.link.write(|out| foreign::append_paper_roll(out, replay.first));
            }
            return Ok(());
        }
        self.define(replay.tables)?;
        self.intake.close();
        self.day.began_undated(replay.tip);
        if self.begin_window(replay.first, None, PolicyEvent::BecameLive).is_none() {
            return Ok(());
        }
        self.begin_replay(replay.log, Vec::new(), replay.first, replay.tip);
        Ok(())
    }

    /// Defines the tables. Returns true if a change of the tables dropped rows.
    pub(super) fn define(&mut self, tables: Vec<crate::table::Schema>) -> Result<bool, Fault> {
        let had_rows = self.intake.rows() > 0;
        let changed = self.intake.define(tables);
        self.show();
        let changed = changed.map_err(|error| Fault::Fatal(format!("cannot create the tables: {error}")))?;
        Ok(changed && had_rows)
    }
}
