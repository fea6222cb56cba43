//! Handlers for the tickerplant's messages to a node.

use super::replay::After;
use super::requests::Changed;
use super::{Fault, Ingest};
use crate::bug;
use crate::log::Proof;
use crate::net::client::ClientError;
use crate::protocol::{FromNode, Live, Rebuild, ToNode};
use crate::queue::Date;
use crate::rdb::capacity::{Demand, FleetRequest};
use crate::rdb::day_end::Kept;
use crate::rdb::policy::{Phase, PolicyEvent};
use crate::rdb::shared::{ShownWindow, State};
use proto::View;
use std::sync::Arc;

impl Ingest {
    /// Handles one message. Returns false if other work is due before the next message.
    pub(super) fn react(&mut self, message: ToNode) -> bool {
        let result = match message {
            ToNode::Live(live) => self.become_live(live),
            ToNode::Rebuild(rebuild) => self.rebuild(rebuild),
            ToNode::Streamed { first, last } => self.streamed(first, last),
            ToNode::Drop => {
                tracing::warn!("dropping all rows on request of the tickerplant");
                self.replays.stop();
                self.step(PolicyEvent::Dropped);
                Ok(())
            }
            ToNode::Recheck { first, last } => {
                tracing::warn!(window = %format_args!("[{first},{last})"), "the proof differs from the log: dropping the window to rebuild it");
                let forgotten = self.intake.forget(first, last);
                self.emptied();
                self.show();
                match forgotten {
                    Ok(_) => Ok(()),
                    Err(error) => Err(Fault::Fatal(format!("cannot drop window [{first},{last}): {error}"))),
                }
            }
            ToNode::Handed { first, last } => self.handed(first, last),
            ToNode::Show { first, last } => {
                tracing::info!(window = %format_args!("[{first},{last})"), "took over the window");
                self.set_hidden(false)
            }
            ToNode::Left => {
                self.step(PolicyEvent::Left);
                Ok(())
            }
            ToNode::Sleep => {
                self.sleep();
                Ok(())
            }
            ToNode::Group { desired, joined } => {
                let watches = !joined.is_empty();
                self.requests.send(FleetRequest::Joined(joined));
                if watches {
                    match self.requests.set_desired(desired, self.policy.has_scaled()) {
                        Changed::Nothing => {}
                        Changed::Fewer(most) => self.requests.send(FleetRequest::AtMost(most)),
                        Changed::Again => self.step(PolicyEvent::NodesMissing),
                    }
                }
                Ok(())
            }
            ToNode::Need { desired, missing } => {
                self.requests.misses(Demand { instances: Some(desired), more: missing });
                self.step(PolicyEvent::NodesMissing);
                Ok(())
            }
            ToNode::Waiting { nodes } => {
                self.requests.set_standbys(nodes);
                Ok(())
            }
            ToNode::Unserved { updates } => {
                self.requests.set_unserved(updates);
                Ok(())
            }
            ToNode::Replay(replay) => self.begin(replay),
            ToNode::Schema { schema, index } => self.apply_schema(schema, index),
            ToNode::End { date } => {
                self.end_day(date);
                Ok(())
            }
            ToNode::Bye { reason } => Err(Fault::Connection(reason)),
        };
        match result {
            // A replay that has begun must advance before further messages.
            Ok(()) => !self.replays.is_on() && !self.day.is_unknown() && !self.link.has_fault(),
            Err(fault) => self.link.fail(fault),
        }
    }

    /// Gives back a window assigned to a node that is leaving or terminated.
    fn decline(&mut self, first: u64, date: i32) -> Result<(), Fault> {
        tracing::info!(first, "giving back the window: this node is about to terminate");
        self.link.post(FromNode::Rolling { next: first, proof: Proof::new(), date: Some(date) });
        Ok(())
    }

    fn become_live(&mut self, live: Live) -> Result<(), Fault> {
        if self.policy.is_going() {
            return self.decline(live.first, live.date);
        }
        let same = self.day.date() == Some(live.date)
            && self.intake.open_window().is_some_and(|open| open.last.is_none() && open.window.first == live.first);
        if self.define(live.tables)? {
            tracing::warn!("the schemas have changed: dropping the rows of the old ones");
        }
        if !same {
            self.abandon()?;
        }
        self.day.began(live.date, live.tip);
        self.progress.follows(live.tip, self.env.clock.now());
        self.requests.placed(live.position);
        if self.policy.phase() != Phase::Live {
            self.requests.became_live();
            self.progress.became_live(self.env.clock.now());
        }
        // The node may have been rebuilding a hidden window and given it back.
        self.set_hidden(false)?;
        let Some(next) = self.begin_window(live.first, None, PolicyEvent::BecameLive) else { return Ok(()) };
        tracing::info!(next, tip = live.tip, "live from update {}", live.first);
        self.begin_replay(live.log, live.samples, next, live.tip);
        Ok(())
    }

    fn rebuild(&mut self, rebuild: Rebuild) -> Result<(), Fault> {
        if self.policy.is_going() {
            return self.decline(rebuild.first, rebuild.date);
        }
        self.abandon()?;
        if rebuild.hidden && !self.intake.held().is_empty() {
            return Err(Fault::Surprise(
                "the tickerplant requested a hidden rebuild, but this node holds windows".to_string(),
            ));
        }
        self.set_hidden(rebuild.hidden)?;
        self.day.rebuilds(rebuild.date);
        let hidden = if rebuild.hidden { ", hidden from queries" } else { "" };
        tracing::info!(window = %format_args!("[{},{})", rebuild.first, rebuild.last), "rebuilding the window{hidden}");
        let last = Some(rebuild.last);
        let Some(next) = self.begin_window(rebuild.first, last, PolicyEvent::BecameRebuilding) else { return Ok(()) };
        self.begin_replay(rebuild.log, rebuild.samples, next, rebuild.last);
        Ok(())
    }

    /// Opens the window unless it is open, then notifies the policy. In this order a node at its roll level closes it
    /// again at once, and the roll reaches the tickerplant. Returns the next update, or `None` if the window was given
    /// back.
    pub(super) fn begin_window(&mut self, first: u64, last: Option<u64>, event: PolicyEvent) -> Option<u64> {
        if self.intake.open_window().is_none() {
            self.intake.open(first, last);
        }
        // Publish the window before queries see its first rows.
        self.show();
        self.step(event);
        // Window and phase are published together, even before the replay begins.
        self.show();
        self.intake.next()?;
        self.skip_unreadable();
        self.intake.next()
    }

    /// Checks the invariant between window and phase: a node that takes updates has an open window, and a rolled one
    /// holds a window.
    pub(super) fn agree(&mut self) {
        let (takes, open) = (self.policy.takes_updates(), self.intake.open_window().is_some());
        if takes != open {
            bug!("phase {:?} and window {:?} contradict each other", self.policy.phase(), self.intake.open_window());
            self.step(PolicyEvent::Dropped);
            self.link.fail(Fault::Surprise("this node's phase and its window contradicted each other".to_string()));
        }
        if self.policy.phase() == Phase::Rolled && !open && self.intake.held().is_empty() {
            self.emptied();
        }
    }

    /// Returns a rolled node that holds nothing to standby. Not under the paper's tickerplant, which gives a node one
    /// window a day.
    pub(super) fn emptied(&mut self) {
        let holds = !self.intake.held().is_empty() || self.intake.open_window().is_some();
        if !holds && self.link.is_native() {
            self.step(PolicyEvent::Emptied);
        }
    }

    fn abandon(&mut self) -> Result<(), Fault> {
        self.replays.stop();
        let abandoned = self.intake.abandon();
        self.show();
        abandoned.map_err(|error| Fault::Fatal(format!("cannot drop a window: {error}")))
    }

    /// Another node has rebuilt this window and answers for it.
    fn handed(&mut self, first: u64, last: u64) -> Result<(), Fault> {
        let forgotten = self.intake.forget(first, last);
        forgotten.map_err(|error| Fault::Fatal(format!("cannot drop window [{first},{last}): {error}")))?;
        self.show();
        tracing::info!(window = %format_args!("[{first},{last})"), "another node has taken the window over");
        self.step(PolicyEvent::RowsLeft(self.intake.rows()));
        Ok(())
    }

    /// The tickerplant has streamed the whole window being rebuilt, or the part that was unreadable in the log.
    fn streamed(&mut self, first: u64, last: u64) -> Result<(), Fault> {
        let Some(open) = self.intake.open_window() else { return Ok(()) };
        if open.last != Some(last) || !(open.window.first..=open.window.next).contains(&first) {
            return Ok(());
        }
        let next = open.window.next;
        if self.options.subscription.is_everything() && next < last {
            return Err(Fault::Surprise(format!("the stream of window [{first},{last}) ended at {next}")));
        }
        self.intake.reach(last);
        self.rebuilt();
        Ok(())
    }

    /// Closes the completely rebuilt window and sends its proof.
    pub(super) fn rebuilt(&mut self) {
        let Some(window) = self.intake.close() else { return };
        tracing::info!(window = %format_args!("[{},{})", window.first, window.next), "the window is rebuilt");
        let (proof, date) = (self.intake.proof(&window), self.day.date_or_null());
        self.link.post(FromNode::Proved { first: window.first, last: window.next, proof, date: Some(date) });
        self.step(PolicyEvent::RebuildDone);
    }

    /// Ends the day: proves the open window and drops the rows. A live node goes on with the new day, any other one ends.
    fn end_day(&mut self, date: i32) {
        if self.link.is_native() && self.day.has_left(date) {
            tracing::info!(%date, "ignoring the end of a day that this node has already left");
            return;
        }
        let was_replaying = self.replays.stop();
        let is_live = self.policy.phase() == Phase::Live;
        if is_live
            && self.link.is_native()
            && let Some(window) = self.intake.open_window().map(|open| open.window.clone())
        {
            let proof = self.intake.proof(&window);
            self.link.post(FromNode::Proved { first: window.first, last: window.next, proof, date: Some(date) });
        }
        tracing::info!(rows = self.intake.rows(), "end of day: dropping all rows");
        self.count_queries();
        self.requests.send(FleetRequest::DayEnd);
        self.keep_day(date, is_live);
        self.step(PolicyEvent::DayEnd);
        if !is_live {
            self.day.ended();
            return;
        }
        let is_native = self.link.is_native();
        self.day.ended_live(date, is_native);
        self.requests.day_ended(is_native);
        self.intake.open(0, None);
        self.show();
        self.memory.day_ended();
        if was_replaying == Some(After::Feed) && is_native {
            self.link.post(FromNode::From { next: 0 });
        }
    }

    /// The cluster sleeps: drops the rows, which the log has, and ends.
    fn sleep(&mut self) {
        self.replays.stop();
        tracing::info!(rows = self.intake.rows(), "the cluster sleeps: dropping all rows");
        self.count_queries();
        self.requests.send(FleetRequest::DayEnd);
        self.step(PolicyEvent::Sleep);
        self.day.ended();
    }

    /// Keeps the day's rows for the owner's `.u.end`, which a pool thread calls, as they are dropped here at once.
    /// Hidden rows are skipped: the draining node answers for them and saves them.
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
                shared.wake_loop();
            }
            None => tracing::error!(
                "skipping .u.end[{}]: calls for earlier days are still running. This node drops its rows of that \
                 day unsaved; the tickerplant's log has them",
                Date(date)
            ),
        }
    }

    /// Takes the new date from the tickerplant, since weekends and holidays lie between days. If that day has ended too
    /// before the reply arrived, its queued updates are taken first and its end requests the date again.
    pub(super) fn date_answered(&mut self, answer: Result<View<'_>, ClientError>) -> Result<(), Fault> {
        match answer {
            Ok(_) if self.day_ends_earlier() => {}
            Ok(view) if view.type_code() == -proto::types::DATE => self.day.is_on(view.atom::<i32>()),
            Ok(_) | Err(ClientError::Server(_)) => {}
            Err(error) => return Err(error.into()),
        }
        Ok(())
    }
}
