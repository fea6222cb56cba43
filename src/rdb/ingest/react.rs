//! What a node does when it is told something.

use super::replay::After;
use super::{Dialect, Fault, Ingest};
use crate::defect::{Defect, is_planted};
use crate::log::Proof;
use crate::net::client::ClientError;
use crate::points::{self, Point};
use crate::queue::Date;
use crate::rdb::capacity::Ask;
use crate::rdb::day_end::Kept;
use crate::rdb::messages::{self, Live, Rebuild, Told};
use crate::rdb::policy::{Event, Phase};
use crate::rdb::shared::{ShownWindow, State};
use crate::sys::clock;
use proto::View;
use std::sync::Arc;

impl Ingest {
    /// False if something is to be done before the next message.
    pub(super) fn react(&mut self, told: Told) -> bool {
        let result = match told {
            Told::Live(live) => self.become_live(live),
            Told::Rebuild(rebuild) => self.rebuild(rebuild),
            Told::Streamed { first, last } => self.streamed(first, last),
            Told::Drop => {
                log::warn!("told to forget all rows");
                points::reach(Point::NodeDrops);
                self.replay = None;
                self.step(Event::Dropped);
                Ok(())
            }
            Told::Recheck { first, last } => {
                log::warn!("the proof of window [{first},{last}) differs: it is dropped here and rebuilt");
                let forgotten = self.intake.forget(first, last);
                self.emptied();
                self.show();
                match forgotten {
                    Ok(_) => Ok(()),
                    Err(error) => Err(Fault::Fatal(format!("cannot drop window [{first},{last}): {error}"))),
                }
            }
            Told::Handed { first, last } => self.handed(first, last),
            Told::Show { first, last } => {
                log::info!("window [{first},{last}) is this node's now");
                points::reach(Point::NodeShows);
                self.set_hidden(false)
            }
            Told::Left => {
                self.step(Event::Left);
                Ok(())
            }
            Told::Group { desired, joined } => {
                let watches = !joined.is_empty();
                self.ask(Ask::Joined(joined));
                if watches {
                    self.wanted(desired);
                }
                Ok(())
            }
            Told::Need { desired } => {
                self.missing = Some(desired);
                self.step(Event::NodesMissing);
                Ok(())
            }
            Told::Waiting { nodes } => {
                self.waiting = Some(nodes);
                Ok(())
            }
            Told::Replay(replay) => self.begin(replay),
            Told::Schema { schema, index } => self.schema_told(schema, index),
            Told::End { date } => {
                self.end_day(date);
                Ok(())
            }
            Told::Bye { reason } => Err(Fault::Connection(reason)),
            Told::Unknown(name) => {
                log::debug!("the tickerplant calls {name:?}, which a node does not have");
                Ok(())
            }
        };
        match result {
            // A replay that was begun has to go on before further messages.
            Ok(()) => self.replay.is_none() && !self.ask_date && self.fault.is_none(),
            Err(fault) => self.fail(fault),
        }
    }

    /// How many instances to ask for. Where another queue's node took the instance that this one had asked for, it asks again. Where a
    /// node has left meanwhile, a request under way would be for one too many: leaving took it off the capacity.
    fn wanted(&mut self, desired: u32) {
        let before = self.desired.replace(desired);
        let has_scaled = self.policy.has_scaled();
        if before.is_some_and(|before| desired < before)
            && let Some(most) = self.to_ask_for()
        {
            self.ask(Ask::AtMost(most));
        } else if has_scaled && before.is_some_and(|before| desired > before) {
            self.step(Event::NodesMissing);
        }
    }

    /// How many instances the fleet is to have: for this node's successor, where it wants one, and for nodes that are missing.
    pub(super) fn to_ask_for(&self) -> Option<u32> {
        self.desired.filter(|_| self.policy.has_scaled() || self.missing.is_none()).max(self.missing)
    }

    /// What a node that leaves, or waits for its end, is given all the same, it gives back.
    fn decline(&mut self, first: u64, date: i32) -> Result<(), Fault> {
        log::info!("handing back the window from {first}: this node is going to end");
        self.write(|out| messages::rolling(out, first, &Proof::new(), date));
        Ok(())
    }

    fn become_live(&mut self, live: Live) -> Result<(), Fault> {
        if self.policy.is_going() {
            return self.decline(live.first, live.date);
        }
        let same = self.date == Some(live.date)
            && self.intake.open_window().is_some_and(|open| open.last.is_none() && open.window.first == live.first);
        if self.define(live.tables)? {
            log::warn!("the tables have changed: rows held of the old ones are forgotten");
        }
        if !same {
            self.abandon()?;
        }
        self.date = Some(live.date);
        self.tip = Some(live.tip);
        self.catching_up = Some((live.tip, clock::now()));
        self.desired = live.position.map(|position| position.saturating_add(1));
        if self.policy.phase() != Phase::Live {
            self.missing = None;
            self.live_since = Some(clock::now());
            self.waiting = None;
        }
        // It may have given back a window that it was to rebuild out of sight.
        self.set_hidden(false)?;
        let Some(next) = self.begin_window(live.first, None, Event::BecameLive) else { return Ok(()) };
        log::info!("live from update {}, at {next}, tip {}", live.first, live.tip);
        points::reach(Point::NodeLive);
        self.begin_replay(live.log, live.samples, next, live.tip);
        Ok(())
    }

    fn rebuild(&mut self, rebuild: Rebuild) -> Result<(), Fault> {
        if self.policy.is_going() {
            return self.decline(rebuild.first, rebuild.date);
        }
        self.abandon()?;
        if rebuild.hidden && !self.intake.held().is_empty() {
            return Err(Fault::Surprise("told to rebuild out of sight, but this node holds windows".to_string()));
        }
        self.set_hidden(rebuild.hidden)?;
        self.date = Some(rebuild.date);
        let hidden = if rebuild.hidden { ", out of sight" } else { "" };
        log::info!("rebuilding window [{},{}){hidden}", rebuild.first, rebuild.last);
        points::reach(Point::NodeRebuilds);
        let short = u64::from(is_planted(Defect::RebuildEndsEarly));
        let last = rebuild.last.saturating_sub(short);
        let Some(next) = self.begin_window(rebuild.first, Some(last), Event::BecameRebuilding) else { return Ok(()) };
        self.begin_replay(rebuild.log, rebuild.samples, next, rebuild.last);
        Ok(())
    }

    /// Opens a window unless it is open, and then tells the policy: a node at its roll level closes it again at once, so that its
    /// roll reaches the tickerplant. Returns the next update, or `None` where the window was given back.
    pub(super) fn begin_window(&mut self, first: u64, last: Option<u64>, event: Event) -> Option<u64> {
        let early = is_planted(Defect::PolicyBeforeWindow);
        if early {
            self.step(event);
        }
        if self.intake.open_window().is_none() {
            self.intake.open(first, last);
        }
        // Before its first rows are seen.
        self.show();
        if !early {
            self.step(event);
        }
        // Window and phase are shown as one, also while a replay has not begun.
        self.show();
        self.intake.next()?;
        self.skip_unreadable();
        self.intake.next()
    }

    /// Takes what the tickerplant gives and the phase of the policy as one: a node that takes updates has an open window, and one
    /// that has rolled holds something.
    pub(super) fn agree(&mut self) {
        let (takes, open) = (self.policy.takes_updates(), self.intake.open_window().is_some());
        let is_defect = [
            Defect::PolicyBeforeWindow,
            Defect::RollInReplayUndone,
            Defect::DropNotHeeded,
            Defect::DayEndForgetsNothing,
        ];
        if takes != open && !is_defect.into_iter().any(is_planted) {
            debug_assert!(false, "phase {:?}, window {:?}", self.policy.phase(), self.intake.open_window());
            log::error!("phase {:?} and an open window ({open}) contradict each other", self.policy.phase());
            self.step(Event::Dropped);
            self.fail(Fault::Surprise("this node's phase and its window contradicted each other".to_string()));
        }
        if self.policy.phase() == Phase::Rolled && !open && self.intake.held().is_empty() {
            self.emptied();
        }
    }

    /// It has rolled with nothing, or what it held is another's. The paper's tickerplant gives a node one window a day.
    pub(super) fn emptied(&mut self) {
        let holds = !self.intake.held().is_empty() || self.intake.open_window().is_some();
        if !holds && self.dialect == Some(Dialect::Elastick) {
            self.step(Event::Emptied);
        }
    }

    fn abandon(&mut self) -> Result<(), Fault> {
        self.replay = None;
        let abandoned = self.intake.abandon();
        self.show();
        abandoned.map_err(|error| Fault::Fatal(format!("cannot drop a window: {error}")))
    }

    /// A window of this node was rebuilt elsewhere, and is answered for there.
    fn handed(&mut self, first: u64, last: u64) -> Result<(), Fault> {
        points::reach(Point::NodeHands);
        let forgotten = self.intake.forget(first, last);
        forgotten.map_err(|error| Fault::Fatal(format!("cannot drop window [{first},{last}): {error}")))?;
        self.show();
        log::info!("window [{first},{last}) has been handed on");
        self.step(Event::RowsLeft(self.intake.rows()));
        Ok(())
    }

    /// All of a window that is rebuilt has been sent, or what the log did not show of it.
    fn streamed(&mut self, first: u64, last: u64) -> Result<(), Fault> {
        let Some(open) = self.intake.open_window() else { return Ok(()) };
        if open.last != Some(last) || !(open.window.first..=open.window.next).contains(&first) {
            return Ok(());
        }
        let next = open.window.next;
        if self.options.subscription.is_everything() && next < last {
            return Err(Fault::Surprise(format!("window [{first},{last}) was streamed, but only up to {next}")));
        }
        self.intake.reach(last);
        self.rebuilt();
        Ok(())
    }

    /// The window that was to be rebuilt is whole.
    pub(super) fn rebuilt(&mut self) {
        let Some(window) = self.intake.close() else { return };
        log::info!("window [{},{}) is rebuilt", window.first, window.next);
        points::reach(Point::NodeRebuilt);
        let (proof, date) = (self.intake.proof(&window), self.date.unwrap_or(proto::types::NULL_INT));
        self.write(|out| messages::proved(out, window.first, window.next, &proof, date));
        self.step(Event::RebuildDone);
    }

    /// The day has ended: prove what the open window holds, clear, and go on live or go.
    fn end_day(&mut self, date: i32) {
        let has_left = self.date.is_some_and(|own| date < own) && self.missed_date != Some(date);
        if self.dialect == Some(Dialect::Elastick) && has_left {
            log::info!("the end of day {date} is told after this node has left it");
            return;
        }
        let was_replaying = self.replay.take();
        let is_live = self.policy.phase() == Phase::Live;
        if is_live
            && self.dialect == Some(Dialect::Elastick)
            && let Some(window) = self.intake.open_window().map(|open| open.window.clone())
        {
            let proof = self.intake.proof(&window);
            self.write(|out| messages::proved(out, window.first, window.next, &proof, date));
        }
        log::info!("end of day: {} rows are cleared", self.intake.rows());
        points::reach(Point::NodeDayEnds);
        self.count_queries();
        self.ask(Ask::DayEnd);
        self.keep_day(date, is_live);
        self.step(Event::DayEnd);
        points::reach(Point::NodeDayEnded);
        if !is_live {
            self.date = None;
            return;
        }
        self.date = Some(date.saturating_add(1));
        self.tip = Some(0);
        // The nodes that have rolled leave; this one is the first of the new day.
        self.missing = None;
        self.desired = self.dialect.filter(|dialect| *dialect == Dialect::Elastick).map(|_| 2);
        self.intake.open(0, None);
        self.show();
        self.ask_date = self.dialect == Some(Dialect::Elastick);
        self.full_warned = false;
        if was_replaying.is_some_and(|replay| replay.after == After::Feed) && self.ask_date {
            self.write(|out| messages::from(out, 0));
        }
    }

    /// Keeps what this node holds of the day for the owner's `.u.end`, which another thread calls: the rows are dropped here at
    /// once. What is out of sight is answered for, and saved, by the node that leaves.
    fn keep_day(&mut self, date: i32, is_live: bool) {
        let days = &self.shared.day_ends;
        let holds = is_live || !self.intake.held().is_empty();
        if !days.is_wanted() || self.intake.is_hidden() || !holds {
            return;
        }
        self.show();
        let shared = Arc::clone(&self.shared);
        let mut moment = shared.view();
        let mut state = State::clone(&moment.state);
        state.windows = state.windows.iter().map(|shown| ShownWindow { open: false, ..shown.clone() }).collect();
        moment.state = Arc::new(state);
        let usage = self.intake.store().usage();
        let bytes = usage.column_bytes.saturating_add(usage.index_bytes) as u64;
        match shared.day_ends.keep(Kept { date, bytes, moment }) {
            Some(most) => {
                let most_ns = i64::try_from(most.as_nanos()).unwrap_or(i64::MAX);
                self.policy.keep_day(self.now_ns().saturating_add(most_ns));
                shared.nudge();
            }
            None => log::error!(
                ".u.end[{}] is not called: those of earlier days are still running. This node's rows of that day are dropped \
                 unsaved; the tickerplant's log has them",
                Date(date)
            ),
        }
    }

    /// Weekends and holidays lie between days: the tickerplant knows which one has begun. Where that one has ended as well before the
    /// answer came, what was sent of it is taken in first, and its end asks again.
    pub(super) fn date_answered(&mut self, answer: Result<View<'_>, ClientError>) -> Result<(), Fault> {
        match answer {
            Ok(_) if self.day_ends_earlier() => {}
            Ok(view) if view.type_code() == -proto::types::DATE => self.date = view.atom::<i32>(),
            Ok(_) | Err(ClientError::Server(_)) => {}
            Err(error) => return Err(error.into()),
        }
        Ok(())
    }
}
