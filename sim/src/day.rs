//! One simulated day: faults, rest, faults around the day's end, rest. At rest every promise must be fulfilled.

use super::audit::holdings::tile;
use super::audit::record::COLUMNS;
use super::audit::{Broken, Promise};
use super::clients::LOOK_NS;
use super::node::NodeProcess;
use super::plan::{Faults, QueuePlan};
use super::world::{DAY, MS, SECOND, World, WorldEvent};
use elastick::queue::{Queue, State};
use elastick::rdb::policy::Phase;
use jiff::civil::Date;
use std::fmt::Write;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::Path;

/// Virtual time within which the cluster must settle after the last fault. Restarted whenever a queue has rolled: after a surge, many small
/// nodes fill one after the other, and each is launched when the one before it is full.
const SETTLES_WITHIN_NS: u64 = 900 * SECOND;

/// Upper bound of a rest, however often a queue rolls.
const SETTLES_AT_LAST_NS: u64 = 3_600 * SECOND;

impl World {
    /// Runs one day, from its morning to the next.
    ///
    /// # Errors
    /// The rule that was broken.
    pub fn day(&mut self) -> Result<(), Broken> {
        self.chaotic = self.plan.faults.every_ns().is_some();
        self.publishing = true;
        self.evening = false;
        let active_ns = self.between(20 * SECOND, 60 * SECOND);
        self.run_until(self.now_ns.saturating_add(active_ns))?;
        self.rest()?;
        self.sleep_and_wake()?;
        // Skip to the evening, shortly before the day's end.
        let before_ns = self.between(4 * SECOND, 20 * SECOND);
        let to_midnight_ns = DAY - self.wall() % DAY;
        if to_midnight_ns > before_ns {
            self.skip(to_midnight_ns - before_ns);
        }
        self.chaotic = self.plan.faults.every_ns().is_some();
        self.publishing = true;
        self.evening = true;
        let behind_ns = self.between(3 * SECOND, 15 * SECOND);
        self.run_until(self.now_ns.saturating_add(before_ns).saturating_sub(MS))?;
        self.log_is_put_back();
        self.run_until(self.now_ns.saturating_add(MS).saturating_add(behind_ns))?;
        self.rest()?;
        self.sleep_and_wake()?;
        let hours = self.rng.from(2, 10);
        self.skip(hours * 3_600 * SECOND);
        self.clean_up();
        self.report.days = self.report.days.saturating_add(1);
        Ok(())
    }

    /// Ends all faults and publishing, waits until the cluster settles, and audits it.
    fn rest(&mut self) -> Result<(), Broken> {
        self.heal();
        // A few more updates move the tip, so that a node that receives nothing is found.
        self.run_until(self.now_ns.saturating_add(2 * SECOND))?;
        self.publishing = false;
        let last_ns = self.now_ns.saturating_add(SETTLES_AT_LAST_NS);
        let mut by_ns = self.now_ns.saturating_add(SETTLES_WITHIN_NS);
        let mut farthest = self.given_out();
        let mut quiet = 0;
        while quiet < 3 {
            self.run_until(self.now_ns.saturating_add(LOOK_NS))?;
            self.heal();
            self.flush_tick();
            let given_out = self.given_out();
            if given_out > farthest {
                farthest = given_out;
                by_ns = self.now_ns.saturating_add(SETTLES_WITHIN_NS).min(last_ns);
            }
            match self.unsettled() {
                None => quiet += 1,
                Some(why) => {
                    quiet = 0;
                    if self.now_ns >= by_ns {
                        let within = SETTLES_WITHIN_NS / SECOND;
                        return Err(Broken(format!("{within} s after the last fault and the last roll: {why}")));
                    }
                }
            }
        }
        self.audit()
    }

    /// Number of updates in closed windows, over all queues. It is bounded once publishing has stopped.
    fn given_out(&self) -> u64 {
        let Some(tick) = &self.tick else { return 0 };
        tick.service.plant.queue().lines().values().map(|line| line.open.0).fold(0, u64::saturating_add)
    }

    /// Writes updates that durability `none` buffers, then checks watchers' messages that arrived before their update was in the file.
    pub fn flush_tick(&mut self) {
        if self.plan.promise() == Promise::Nothing {
            self.with_tick(|tick| tick.service.plant.flush_merged(&mut tick.links));
            self.after_tick();
        }
        for at in 0..self.watchers.len() {
            self.check_watcher(at, false);
        }
    }

    /// Returns why the cluster has not settled; `None` if it has.
    pub fn unsettled(&self) -> Option<String> {
        let Some(tick) = &self.tick else { return Some("there is no tickerplant".to_string()) };
        if self.old.is_some() {
            return Some("a tickerplant that has lost its log goes on".to_string());
        }
        if let Some(failure) = tick.service.plant.failure() {
            return Some(format!("the tickerplant refuses updates: {failure}"));
        }
        if self.lines.values().any(|line| line.cut) {
            return Some("one end of a broken connection has not learned of it".to_string());
        }
        if let Some(what) = self.held_up() {
            return Some(what);
        }
        let plant = &tick.service.plant;
        let (queue, tip) = (plant.queue(), plant.tip());
        for of in &self.plan.queues {
            let name = elastick::queue::QueueName(of.name.clone().into_bytes());
            let Some(line) = queue.lines().get(&name).filter(|line| !queue.is_asleep(line)) else {
                match self.sleeps_wrongly(queue, &name, queue.lines().get(&name)) {
                    Some(why) => return Some(why),
                    None => continue,
                }
            };
            if !line.lost.is_empty() {
                return Some(format!("queue {} has lost windows: {:?}", of.name, line.lost));
            }
            let mut live = 0;
            for subscriber in queue.subscribers().iter().filter(|own| own.queue == name) {
                if subscriber.resume_by_ns.is_some() {
                    return Some(format!("{} is away", subscriber.label()));
                }
                if subscriber.leaving.is_some() && subscriber.state != State::Lost {
                    return Some(format!("{} leaves", subscriber.label()));
                }
                match subscriber.state {
                    State::Live => live += 1,
                    State::Rebuilding { .. } | State::TakingOver { .. } => {
                        return Some(format!("{} is {}", subscriber.label(), subscriber.state.name()));
                    }
                    _ => {}
                }
                let held = subscriber.held.iter().find(|held| held.verified.is_none());
                if let (Some(held), State::Rolled) = (held, subscriber.state) {
                    return Some(format!("window {} of {} is not proved", held.window, subscriber.label()));
                }
            }
            if live != 1 {
                let open = line.open;
                return Some(format!("queue {} has {live} live nodes from {open} on, the tip is {tip}", of.name));
            }
        }
        for node in self.nodes.values() {
            let state = node.shared.state();
            let line = node.line.and_then(|line| self.lines.get(&line)).filter(|line| !line.cut);
            if line.is_none() || !state.connected {
                return Some(format!("{:?} is not connected", node.key));
            }
            let Some(of) = self.plan.queues.get(node.key.queue) else { continue };
            // A node that is fed from the log receives the end of the day only after the updates before it.
            if let Some(what) = zombie(node, queue) {
                return Some(what);
            }
            if state.phase == Phase::Live && state.date != Some(queue.date().0) {
                return Some(format!("{:?} is live on day {:?} still", node.key, state.date));
            }
            // A node with a filter knows the tip only as of its last update.
            let reached = state.next.is_some_and(|next| match of.filter.is_everything() {
                true => next == tip,
                false => self.auditor.next_received(queue.date().0, place(next), &of.filter).is_none(),
            });
            if state.phase == Phase::Live && !reached {
                return Some(format!("{:?} is live at {:?}, the tip is {tip}", node.key, state.next));
            }
        }
        // The next step skips hours: a live node would take an instance that is still launching for one that never comes up.
        let judges_launches = matches!(self.plan.faults, Faults::None | Faults::Fleet);
        if judges_launches && self.events.values().any(|event| matches!(event, WorldEvent::NodeStarts(_))) {
            return Some("an instance is being launched".to_string());
        }
        if let Some(publisher) = self.publishers.iter().find(|publisher| !publisher.is_answered()) {
            return Some(format!("publisher {} has no connection, or waits for an answer", publisher.number));
        }
        (0..self.watchers.len())
            .find(|at| !self.watcher_is_at_tip(*at))
            .map(|at| format!("watcher {at} has not been told everything: {}", self.watcher_state(at)))
    }

    /// Returns a process or connection that a fault still delays. The table alone cannot show it: it drops rows of the day before, so a node
    /// paused over the day's end is not in it, and holds its rows until it runs again.
    pub fn held_up(&self) -> Option<String> {
        if self.tick_paused_until_ns > self.now_ns {
            return Some("the tickerplant is paused".to_string());
        }
        if let Some(node) = self.nodes.values().find(|node| node.paused_until_ns > self.now_ns) {
            return Some(format!("{:?} is paused", node.key));
        }
        // A hung file system responds again, but the thread that waits for it runs only at its next event.
        if self.tick.as_ref().is_some_and(|tick| tick.process.sync_is_due()) {
            return Some("the log is not written to its end".to_string());
        }
        let line = self.lines.values().find(|line| line.is_held_up(self.now_ns))?;
        Some(format!("messages from or to {:?} are held up", line.client))
    }

    /// Compares everything with the log.
    pub fn audit(&mut self) -> Result<(), Broken> {
        self.report.audits = self.report.audits.saturating_add(1);
        self.run_until(self.now_ns.saturating_add(100 * MS))?;
        self.auditor.at_rest(self.tick_runs, self.extras())?;
        for at in 0..self.watchers.len() {
            self.check_watcher(at, true);
        }
        if let Some(broken) = self.broken.take() {
            return Err(broken);
        }
        self.say_sums();
        let Some(tick) = &self.tick else { return Ok(()) };
        let plant = &tick.service.plant;
        let (date, tip) = (plant.queue().date().0, place(plant.tip()));
        let logged = self.auditor.day(date).map_or(0, |day| day.records.len());
        if logged != tip {
            return Err(Broken(format!("the tickerplant's tip is {tip}, the log has {logged} updates")));
        }
        let (queue, extras) = (plant.queue(), self.extras());
        // Nobody needs to hold what is written down.
        let held_from = place(queue.written().0).min(tip);
        let leaves_out = |of: &QueuePlan| self.auditor.leaves_out(date, held_from..tip, &of.filter);
        let is_without_nodes = |of: &QueuePlan| {
            let line = queue.lines().get(&elastick::queue::QueueName(of.name.clone().into_bytes()));
            self.sleeps.is_some() && line.is_none_or(|line| queue.is_asleep(line))
        };
        if let Some(of) = self.plan.queues.iter().find(|of| leaves_out(of) && !is_without_nodes(of)) {
            self.report.met("update that nodes left out");
            if plant.health(&[]).is_ok() {
                let name = &of.name;
                return Err(Broken(format!("health is ok, and nodes of queue {name} have left out an update")));
            }
        }
        let mut tiles: Vec<Vec<_>> = vec![Vec::new(); self.plan.queues.len()];
        for node in self.nodes.values() {
            let (state, holdings) = node.shown();
            let filter = self.plan.queues.get(node.key.queue).map(|of| of.filter.clone()).unwrap_or_default();
            if let Some((table, columns)) = node.columns().into_iter().find(|(table, columns)| {
                extras.get(*table).map(|extras| extras.saturating_add(COLUMNS.len())) != Some(*columns)
            }) {
                let key = node.key;
                return Err(Broken(format!(
                    "{key:?} has {columns} columns of table {table}, the tickerplant's added {extras:?}"
                )));
            }
            if holdings.is_empty() {
                continue;
            }
            let who = format!("node {} of queue {}", node.key.server.instance, node.key.queue);
            if state.date != Some(date) {
                return Err(Broken(format!("{who} holds rows of day {:?}, it is {date}", state.date)));
            }
            for mut holding in holdings {
                if holding.open && !filter.is_everything() {
                    holding.window.end = tip;
                }
                let checked = self.auditor.check_holding(&who, date, &holding, &filter);
                if let Err(broken) = checked {
                    // A live node may hold updates that a crash took from the log and others replaced. They are found when the window is
                    // proved, so not before it is closed.
                    let doubted = queue.subscribers().iter().flat_map(|subscriber| &subscriber.held).any(|held| {
                        held.verified == Some(false)
                            && (place(held.window.first().0)..place(held.window.last().0)) == holding.window
                    });
                    if !(holding.open || doubted) {
                        return Err(broken);
                    }
                    let stale = self.auditor.check_stale(date, &holding, &filter);
                    stale.map_err(|Broken(why)| Broken(format!("{}; {why}", broken.0)))?;
                    self.report.met("live node with updates that a crash took from the log");
                }
                if let Some(tiles) = tiles.get_mut(node.key.queue) {
                    tiles.push((who.clone(), holding.window.clone(), holding.open));
                }
            }
        }
        self.nobody_launched_in_vain()?;
        let written = place(self.said_written(date));
        for (tiles, of) in tiles.into_iter().zip(&self.plan.queues) {
            if !is_without_nodes(of) {
                tile(&of.name, tiles, written, tip)?;
            }
        }
        Ok(())
    }

    /// Writes checksums of the log and of each node's rows into the trace, so that two runs of one seed are compared by content too.
    fn say_sums(&mut self) {
        let sum = |of: &dyn Fn(&mut DefaultHasher)| {
            let mut hasher = DefaultHasher::new();
            of(&mut hasher);
            hasher.finish()
        };
        let (storage, log, nodes) = (&self.storage, &self.last_log, &self.nodes);
        self.trace.say(|| {
            let logged = log.as_ref().and_then(|(path, _)| storage.read(path, 0));
            let mut line = format!("sum of the log {:016x}", sum(&|hasher| logged.hash(hasher)));
            for node in nodes.values() {
                let (_, holdings) = node.shown();
                let _ = write!(line, ", of {:?} {:016x}", node.key, sum(&|hasher| holdings.hash(hasher)));
            }
            line
        });
    }

    /// Drops audit records and files of days before yesterday.
    fn clean_up(&mut self) {
        let Some(date) = self.tick.as_ref().map(|tick| tick.service.plant.queue().date().0) else { return };
        self.auditor.forget_before(date.saturating_sub(1));
        self.surplus_is_kept();
        let yesterday = elastick::tick::clock::civil_date(elastick::queue::Date(date.saturating_sub(1)));
        for path in self.storage.paths() {
            if is_of_day_before(&path, yesterday) {
                self.storage.remove(&path);
            }
        }
    }
}

/// Returns whether a file is the log of a day before this date, or stands beside one. What has no date is for all days: the lock, the
/// publishers' sequence numbers, the rejected updates.
fn is_of_day_before(path: &Path, date: Date) -> bool {
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let log = name.get(.."symyyyy.mm.dd".len()).map(Path::new);
    log.and_then(elastick::log::date_of).is_some_and(|of| of < date)
}

/// Compares the table with a node's own state: a node takes updates exactly if the table calls it live. Returns the difference.
fn zombie(node: &NodeProcess, queue: &Queue) -> Option<String> {
    let state = node.shared.state();
    let name = node.name.as_bytes();
    let row = queue.subscribers().iter().find(|row| row.node.as_ref().is_some_and(|node| node.0 == name));
    let live = row.is_some_and(|row| row.state == State::Live);
    let takes = state.phase == Phase::Live && state.windows.iter().any(|window| window.open);
    (live != takes).then(|| {
        let shown = row.map_or("nothing", |row| row.state.name());
        format!("{:?} is {shown} in the table, and {} by its own account", node.key, state.phase.name())
    })
}

/// An update's index as the auditor counts it.
fn place(index: u64) -> usize {
    usize::try_from(index).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_files_of_days_before_yesterday_are_dropped() {
        let yesterday = Date::constant(2030, 1, 2);
        let is_dropped = |name: &str| is_of_day_before(&Path::new("/logs").join(name), yesterday);
        for name in ["sym2030.01.01", "sym2030.01.01.index", "sym2030.01.01.cut-512", "sym2029.12.31.queue"] {
            assert!(is_dropped(name), "{name}");
        }
        for name in
            ["sym2030.01.02", "sym2030.01.03.queue", "sym2030.01.04", "sym.lock", "sym.publishers", "sym.rejected"]
        {
            assert!(!is_dropped(name), "{name}");
        }
    }
}
