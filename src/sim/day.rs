//! A day of a world: faults, rest, faults over the day's end, rest. At rest everything must have come right.

use super::audit::holdings::tile;
use super::audit::record::COLUMNS;
use super::audit::{Broken, Promise};
use super::clients::LOOK_NS;
use super::cloud::{Asked, SharedCloud};
use super::node::NodeProcess;
use super::plan::Faults;
use super::world::{DAY, Event, MS, SECOND, Server, World};
use crate::log::LogWriter;
use crate::queue::{Queue, QueueName, State};
use crate::rdb::policy::Phase;
use std::fmt::Write;
use std::hash::{DefaultHasher, Hash, Hasher};

/// Virtual time in which everything must have come right once nothing goes wrong any more. It is counted anew whenever a queue has
/// gone on: small nodes behind a surge of the feed are many, and each is launched when the one before it is full.
const SETTLES_WITHIN_NS: u64 = 900 * SECOND;

/// However far the queues go on, no rest is longer.
const SETTLES_AT_LAST_NS: u64 = 3_600 * SECOND;

impl World {
    /// One day, from its morning to the next.
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
        // To the evening, with the day's end ahead.
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
        let hours = self.rng.from(2, 10);
        self.skip(hours * 3_600 * SECOND);
        self.clean_up();
        self.report.days = self.report.days.saturating_add(1);
        Ok(())
    }

    /// Nothing goes wrong any more, and nothing new comes: the world settles, and is looked at as a whole.
    fn rest(&mut self) -> Result<(), Broken> {
        self.heal();
        // Some updates still, so that the tip moves.
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

    /// How many updates are in closed windows of the queues. Without new ones it grows so far and no farther.
    fn given_out(&self) -> u64 {
        let Some(tick) = &self.tick else { return 0 };
        tick.service.plant.queue().lines().values().map(|line| line.open.0).fold(0, u64::saturating_add)
    }

    /// What durability `none` holds back is written, and what watchers were told of before it was in the file is looked up.
    fn flush_tick(&mut self) {
        if self.plan.promise() == Promise::Nothing {
            self.with_tick(|tick| tick.service.plant.flush_merged(&mut tick.links));
            self.after_tick();
        }
        for at in 0..self.watchers.len() {
            self.check_watcher(at, false);
        }
    }

    /// Why the world has not come to rest, if it has not.
    fn unsettled(&self) -> Option<String> {
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
            let name = crate::queue::QueueName(of.name.clone().into_bytes());
            let Some(line) = queue.lines().get(&name) else { return Some(format!("there is no queue {}", of.name)) };
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
            // One that is fed from the log hears of the day's end behind what it is fed.
            if let Some(what) = zombie(node, queue) {
                return Some(what);
            }
            if state.phase == Phase::Live && state.date != Some(queue.date().0) {
                return Some(format!("{:?} is live on day {:?} still", node.key, state.date));
            }
            // One that gets some tables or symbols knows of the tip only what those told it.
            let reached = state.next.is_some_and(|next| match of.filter.is_everything() {
                true => next == tip,
                false => self.auditor.next_told(queue.date().0, place(next), &of.filter).is_none(),
            });
            if state.phase == Phase::Live && !reached {
                return Some(format!("{:?} is live at {:?}, the tip is {tip}", node.key, state.next));
            }
        }
        // What follows is hours later: those who watch its launch would take an instance that comes up then for one that never does.
        let judges_launches = matches!(self.plan.faults, Faults::None | Faults::Fleet);
        if judges_launches && self.events.values().any(|event| matches!(event, Event::NodeStarts(_))) {
            return Some("an instance is being launched".to_string());
        }
        if let Some(publisher) = self.publishers.iter().find(|publisher| !publisher.is_answered()) {
            return Some(format!("publisher {} has no connection, or waits for an answer", publisher.number));
        }
        (0..self.watchers.len())
            .find(|at| !self.watcher_is_at_tip(*at))
            .map(|at| format!("watcher {at} has not been told everything: {}", self.watcher_state(at)))
    }

    /// What waits still for the end of a fault. The tickerplant counts nobody of the day before any more: a node that is paused over
    /// the day's end does not show in its table, and holds its rows until it comes round.
    pub fn held_up(&self) -> Option<String> {
        if self.tick_paused_until_ns > self.now_ns {
            return Some("the tickerplant is paused".to_string());
        }
        if let Some(node) = self.nodes.values().find(|node| node.paused_until_ns > self.now_ns) {
            return Some(format!("{:?} is paused", node.key));
        }
        // A file system that hung answers again, but the thread that waits for it comes round later.
        if self.tick.as_ref().and_then(|tick| tick.service.plant.log()).is_some_and(LogWriter::sync_is_due) {
            return Some("the log is not written to its end".to_string());
        }
        let line = self.lines.values().find(|line| line.is_held_up(self.now_ns))?;
        Some(format!("messages from or to {:?} are held up", line.client))
    }

    /// Everything against the log.
    fn audit(&mut self) -> Result<(), Broken> {
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
                    // What a crash took out of the log, and others have replaced, is found when its window is proved: not
                    // before it is closed.
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
        if matches!(self.plan.faults, Faults::None | Faults::Fleet) {
            self.nobody_launched_in_vain()?;
        }
        for (tiles, of) in tiles.into_iter().zip(&self.plan.queues) {
            tile(&of.name, tiles, tip)?;
        }
        Ok(())
    }

    /// Into the trace, so that two runs of one seed are compared by what they hold as well.
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

    /// Where no instance was lost, and none was launched by mistake, few wait.
    fn nobody_launched_in_vain(&self) -> Result<(), Broken> {
        let Some(tick) = &self.tick else { return Ok(()) };
        for of in &self.plan.queues {
            let here =
                || tick.service.plant.queue().subscribers().iter().filter(|own| own.queue.0 == of.name.as_bytes());
            let waiting = here().filter(|own| own.state == State::Waiting).count();
            let busy = here().filter(|own| !matches!(own.state, State::Waiting | State::Lost)).count();
            let min = self.plan.groups.get(of.group).map_or(0, |group| group.rules.min);
            // The live one's successor, those who stayed over the night, or what the group's minimum keeps.
            let most = self.plan.standbys_kept.max(1).max((min as usize).saturating_sub(busy));
            let most = most.saturating_add(self.left_unanswered.len());
            if waiting > most {
                return Err(Broken(format!("queue {}: {waiting} wait, where {most} are enough", of.name)));
            }
        }
        Ok(())
    }

    /// How many instances each group has use for, in the auditor's reckoning: one for each node that waits no longer, and those who wait,
    /// one at least.
    pub fn note_wanted(&mut self) {
        let Some(tick) = &self.tick else { return };
        for of in &self.plan.queues {
            let here =
                || tick.service.plant.queue().subscribers().iter().filter(|own| own.queue.0 == of.name.as_bytes());
            let waiting = here().filter(|own| own.state == State::Waiting).count();
            let open = tick.service.plant.queue().lines().get(&QueueName(of.name.clone().into_bytes()));
            let lost = open.map_or(0, |line| line.lost.len());
            let handed_on: usize = here().filter(|own| own.leaving.is_some()).map(|own| own.held.len()).sum();
            let is_live = here().any(|own| own.state == State::Live);
            let waiting = waiting.max(lost + handed_on + usize::from(!is_live)).max(1);
            let busy = here().filter(|own| own.state != State::Waiting).count();
            let min = self.plan.groups.get(of.group).map_or(0, |group| group.rules.min);
            let wanted = u32::try_from(busy.saturating_add(waiting)).unwrap_or(u32::MAX).max(min);
            self.wanted.note(of.group, wanted, self.now_ns);
            let unaware = here().filter(|own| own.leaving.is_some_and(|leaving| !leaving.replaced));
            for instance in unaware.filter_map(|own| own.instance.as_ref()) {
                let cloud = self.clouds.get(of.group).map(SharedCloud::lock);
                let unanswered = cloud.is_some_and(|cloud| !cloud.has_said_that_it_replaces(instance));
                if unanswered && self.left_unanswered.insert(instance.clone()) {
                    self.report.met("node that left without an answer of its fleet");
                }
            }
        }
    }

    /// What nodes have asked their fleet for, where no instance is lost.
    pub fn judge_asked(&mut self, group: usize) {
        let asked = self.clouds.get(group).map(|cloud| cloud.lock().take_asked()).unwrap_or_default();
        if !matches!(self.plan.faults, Faults::None | Faults::Fleet) || asked.is_empty() {
            return;
        }
        self.note_wanted();
        for asked in asked {
            let judged = match asked {
                Asked::AtLeast(instances) => self.wanted.check(group, instances),
                Asked::Replace(instance) => {
                    let server = Server { group, instance };
                    let works =
                        self.nodes.values().any(|node| node.key.server == server && node.shared.state().connected);
                    let what = || format!("instance {instance} of group {group} is to be replaced, and does its work");
                    if works { Err(Broken(what())) } else { Ok(()) }
                }
            };
            self.judge(judged);
        }
    }

    /// Yesterday's books and files are closed.
    fn clean_up(&mut self) {
        let Some(date) = self.tick.as_ref().map(|tick| tick.service.plant.queue().date().0) else { return };
        self.auditor.forget_before(date.saturating_sub(1));
        self.left_unanswered.clear();
        let keep = [date, date.saturating_sub(1)].map(|date| {
            let date = crate::tick::clock::civil_date(crate::queue::Date(date));
            format!("sym{:04}.{:02}.{:02}", date.year(), date.month(), date.day())
        });
        for path in self.storage.paths() {
            let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
            if name != "sym.lock" && !keep.iter().any(|keep| name.starts_with(keep.as_str())) {
                self.storage.remove(&path);
            }
        }
    }
}

/// What a node does that the table knows otherwise, if anything: one that the table calls live takes updates, and no other does.
fn zombie(node: &NodeProcess, queue: &Queue) -> Option<String> {
    let state = node.shared.state();
    let name = node.name.as_bytes();
    let row = queue.subscribers().iter().find(|row| row.node.as_ref().is_some_and(|node| node.0 == name));
    let live = row.is_some_and(|row| row.state == State::Live);
    let takes = state.phase == Phase::Live && state.windows.iter().any(|window| window.open);
    (live != takes).then(|| {
        let said = row.map_or("nothing", |row| row.state.name());
        format!("{:?} is {said} in the table, and {} by its own account", node.key, state.phase.name())
    })
}

/// An update's place in the auditor's books.
fn place(index: u64) -> usize {
    usize::try_from(index).unwrap_or(usize::MAX)
}
