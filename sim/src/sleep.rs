//! Clusters that sleep (`--sleep`): groups with a minimum of 0, whose first nodes the tickerplant requests, clients that wake them, and a process that
//! writes the day down. All of it draws from a random stream of its own.

use super::audit::{Broken, Promise};
use super::clients::LOOK_NS;
use super::cloud::SharedCloud;
use super::mutants::sleep::OUTSIDE;
use super::plan::Plan;
use super::process::Process;
use super::rng::Rng;
use super::world::{MS, SECOND, World, WorldEvent};
use elastick::config::Wake;
use elastick::env::task::Due;
use elastick::fleet::group::Rules;
use elastick::net::message;
use elastick::queue::{Line, Params, Queue, QueueName, State, Subscriber};
use elastick::sys::clock::Clock as _;
use elastick::tick::node_fleet::NodeFleet;
use proto::{MessageKind, Writer};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::time::Duration;

/// Virtual time within which a cluster at rest falls asleep after it was idle for long enough, or has all updates after it was woken.
const WITHIN_NS: u64 = 900 * SECOND;
/// Looks in a row at which nothing must be left to do: nodes report their status every second.
const QUIET_LOOKS: u32 = 3;
/// Pause after which a client that wants to query calls again: its call may not have arrived.
const CALL_AGAIN_NS: u64 = 5 * SECOND;

/// How a cluster sleeps.
#[derive(Clone, Copy, Debug)]
pub struct SleepPlan {
    pub wake: Wake,
    pub idle_ns: u64,
}

impl Plan {
    /// Returns the plan with clusters that sleep.
    pub fn sleeping(mut self, seed: u64) -> Plan {
        let mut rng = Rng::new(seed ^ 0x0073_6c65_6570);
        let wake = if rng.percent(65) { Wake::FirstUpdate } else { Wake::FirstQuery };
        self.sleep = Some(SleepPlan { wake, idle_ns: rng.from(120, 300) * SECOND });
        for group in &mut self.groups {
            group.rules = Rules { min: 0, ..group.rules };
        }
        self
    }

    /// Returns the queue's parameters with those of sleep.
    pub fn sleep_params(&self, params: Params) -> Params {
        let Some(SleepPlan { wake, idle_ns }) = self.sleep else { return params };
        let groups = self.groups.iter().map(|group| group.name.clone().into_bytes()).collect();
        Params { groups, wake, idle_ns: i64::try_from(idle_ns).unwrap_or(i64::MAX), ..params }
    }
}

/// Returns the fleet of a tickerplant whose cluster sleeps.
pub fn node_fleet(plan: &Plan, clouds: &[SharedCloud], process: &Process) -> Option<NodeFleet> {
    plan.sleep?;
    let groups = plan.groups.iter().zip(clouds).map(|(group, cloud)| (group.name.clone(), cloud.of(OUTSIDE)));
    NodeFleet::start(&process.env, groups.collect(), Duration::from_secs(5)).ok()
}

/// Returns the windows that nodes rebuild or take over, by subscriber. What is written down of a window that is needed may be taken over, and
/// goes on as a rebuild.
fn in_hand(queue: &Queue) -> BTreeMap<u64, Range<u64>> {
    let window = |own: &Subscriber| match own.state {
        State::Rebuilding { window, .. } | State::TakingOver { window, .. } => Some(window.first().0..window.last().0),
        _ => None,
    };
    queue.subscribers().iter().filter_map(|own| Some((own.id.0, window(own)?))).collect()
}

/// State of a run whose cluster sleeps.
pub struct Sleeps {
    rng: Rng,
    /// Day of the write-down process, and the index before which it has all updates.
    said: (i32, u64),
    /// Windows that are being rebuilt or taken over, by subscriber.
    rebuilding: BTreeMap<u64, Range<u64>>,
    /// Queues that sleep, each with the subscribers that it had when it fell asleep.
    asleep: BTreeMap<QueueName, BTreeSet<u64>>,
    /// Run of the tickerplant, and time of its next call of the fleet.
    fleet_at: Option<(u32, u64)>,
}

impl Sleeps {
    pub fn of(seed: u64, plan: &Plan) -> Option<Sleeps> {
        plan.sleep.map(|_| Sleeps {
            rng: Rng::new(seed ^ 0x7772_6974_7465_6e00),
            said: (0, 0),
            rebuilding: BTreeMap::new(),
            asleep: BTreeMap::new(),
            fleet_at: None,
        })
    }
}

/// Time from one event of [`WorldEvent::Sleep`] to the next.
const PAUSES_NS: [u64; 2] = [2 * SECOND, 12 * SECOND];

impl World {
    /// Starts what a sleeping cluster has besides.
    pub fn starts_sleeping(&mut self) {
        if self.sleeps.is_some() {
            self.after(3 * SECOND, WorldEvent::Sleep);
        }
    }

    /// A client wants to query, or the write-down process says how far it is.
    pub fn sleep_event(&mut self) {
        let Some(sleeps) = self.sleeps.as_mut() else { return };
        let [first_ns, last_ns] = PAUSES_NS;
        let (pause_ns, wakes, part) =
            (sleeps.rng.from(first_ns, last_ns), sleeps.rng.percent(50), sleeps.rng.below(101));
        self.after(pause_ns, WorldEvent::Sleep);
        match wakes {
            _ if !self.publishing => {}
            true => self.call_wake(),
            false => self.say_written(part),
        }
    }

    fn call_wake(&mut self) {
        self.call_as_operator("queries are announced", |writer| {
            writer.list_head(2);
            writer.symbol(b".u.asg.wake");
            writer.null();
        });
    }

    /// The write-down process has this share of the day, in percent, unless it had more before.
    fn say_written(&mut self, part: u64) {
        let Some(tick) = &self.tick else { return };
        let (date, tip) = (tick.service.plant.queue().date().0, tick.service.plant.tip());
        let next = tip.saturating_mul(part) / 100;
        if let Some(sleeps) = &mut self.sleeps {
            let before = if sleeps.said.0 == date { sleeps.said.1 } else { 0 };
            sleeps.said = (date, before.max(next));
        }
        self.call_as_operator("part of the day is written down", |writer| {
            writer.list_head(3);
            writer.symbol(b".u.asg.written");
            writer.atom_date(date);
            writer.atom_long(i64::try_from(next).unwrap_or(i64::MAX));
        });
    }

    fn call_as_operator(&mut self, what: &'static str, write: impl FnOnce(&mut Writer<'_>)) {
        let Some(line) = self.watchers.first().and_then(|watcher| watcher.line) else { return };
        let Ok(call) = message::message(MessageKind::Async, write) else { return };
        self.report.met(what);
        self.send_up(line, call);
    }

    /// A tickerplant has started. What a crash took from the log was written down by nobody: other updates come in its place.
    pub fn written_after_restart(&mut self) {
        let Some(tick) = &self.tick else { return };
        let (date, tip) = (tick.service.plant.queue().date().0, tick.service.plant.tip());
        if let Some(sleeps) = &mut self.sleeps {
            if sleeps.said.0 == date {
                sleeps.said.1 = sleeps.said.1.min(tip);
            }
            sleeps.rebuilding = in_hand(tick.service.plant.queue());
        }
    }

    /// Returns the index before which the write-down process has all updates of a day.
    pub fn said_written(&self, date: i32) -> u64 {
        self.sleeps.as_ref().filter(|sleeps| sleeps.said.0 == date).map_or(0, |sleeps| sleeps.said.1)
    }

    /// Checks the table after a step: nodes let go of no more than was written down, and what is written down is not rebuilt.
    pub fn judge_sleep(&mut self) {
        let (Some(sleeps), Some(tick)) = (self.sleeps.as_mut(), self.tick.as_ref()) else { return };
        let queue = tick.service.plant.queue();
        let (date, written) = (queue.date().0, queue.written().0);
        let mut judged = Ok(());
        let said = if sleeps.said.0 == date { sleeps.said.1 } else { 0 };
        if written > said {
            judged = Err(Broken(format!("the updates before {written} count as written down, where {said} are")));
        }
        let rebuilding = in_hand(queue);
        for own in queue.subscribers().iter().filter(|own| matches!(own.state, State::Rebuilding { .. })) {
            let Some(window) = rebuilding.get(&own.id.0) else { continue };
            if window.end <= written && sleeps.rebuilding.get(&own.id.0) != Some(window) {
                judged = Err(Broken(format!("{} rebuilds {window:?}, where {written} are written down", own.label())));
            }
        }
        sleeps.rebuilding = rebuilding;
        let before = std::mem::take(&mut sleeps.asleep);
        let here = |name: &QueueName| -> BTreeSet<u64> {
            queue.subscribers().iter().filter(|own| own.queue == *name).map(|own| own.id.0).collect()
        };
        for (name, _) in queue.lines().iter().filter(|(_, line)| queue.is_asleep(line)) {
            let own = before.get(name).cloned().unwrap_or_else(|| here(name));
            sleeps.asleep.insert(name.clone(), own);
        }
        let fell = sleeps.asleep.keys().filter(|name| !before.contains_key(*name)).count();
        let woke = before.keys().filter(|name| !sleeps.asleep.contains_key(*name)).count();
        self.report.met_times("queue asleep", fell as u64);
        self.report.met_times("queue woken", woke as u64);
        self.judge(judged);
    }

    /// Schedules the next call of the tickerplant's fleet thread.
    pub fn note_fleet(&mut self) {
        let (run, now_ns) = (self.tick_runs, self.now_ns);
        let (Some(sleeps), Some(tick)) = (self.sleeps.as_mut(), self.tick.as_ref()) else { return };
        let wait = match tick.process.fleet_due() {
            Due::Now => Duration::ZERO,
            Due::At(at) => at.saturating_duration_since(self.clock.now()),
            Due::Later => return,
        };
        let at_ns = now_ns.saturating_add(u64::try_from(wait.as_nanos()).unwrap_or(SECOND).max(20 * MS));
        let is_sooner = |(of, old)| of != run || at_ns < old || old <= now_ns;
        if sleeps.fleet_at.is_none_or(is_sooner) {
            sleeps.fleet_at = Some((run, at_ns));
            self.at(at_ns, WorldEvent::TickFleet(run));
        }
    }

    /// Makes the tickerplant's calls of its fleet that are due.
    pub fn tick_calls_fleet(&mut self, run: u32) {
        if !self.is_up(run, WorldEvent::TickFleet(run)) {
            return;
        }
        self.clouds.iter().for_each(|cloud| cloud.lock().set_now(self.now_ns));
        self.with_tick(|tick| {
            tick.process.call_fleet();
        });
        for group in 0..self.clouds.len() {
            self.judge_requests(group);
            self.obey(group);
        }
        self.note_fleet();
    }

    /// Returns why a queue that has no row in the table, or that sleeps, should not; `None` if it may.
    pub fn sleeps_wrongly(&self, queue: &Queue, name: &QueueName, line: Option<&Line>) -> Option<String> {
        let due = || queue.wakes_beyond().is_some_and(|beyond| beyond < elastick::queue::UpdateIndex(self.tip()));
        match line {
            _ if self.sleeps.is_none() => Some(format!("there is no queue {name}")),
            _ if due() => Some(format!("queue {name} has no node, and an update should have woken it")),
            None => (queue.first_requested() > 0).then(|| format!("queue {name} waits for its first node")),
            // A launch under way may be unknown, as one that was requested within the last second, after the node's report: its node stays.
            Some(_) => {
                let ids = self.sleeps.as_ref()?.asleep.get(name)?;
                let stays =
                    |own: &&Subscriber| own.queue == *name && own.state != State::Lost && ids.contains(&own.id.0);
                let own = queue.subscribers().iter().find(stays)?;
                Some(format!("queue {name} sleeps, and {} is {} in it", own.label(), own.state.name()))
            }
        }
    }

    fn tip(&self) -> u64 {
        self.tick.as_ref().map_or(0, |tick| tick.service.plant.tip())
    }

    /// Returns the first queue that is not asleep; or, if `awake`, the first that is.
    fn otherwise(&self, awake: bool) -> Option<String> {
        let Some(tick) = &self.tick else { return Some("there is no tickerplant".to_string()) };
        let queue = tick.service.plant.queue();
        let is_awake = |name: &str| {
            let line = queue.lines().get(&QueueName(name.as_bytes().to_vec()));
            line.is_some_and(|line| !queue.is_asleep(line))
        };
        let of = self.plan.queues.iter().find(|of| is_awake(&of.name) != awake)?;
        Some(format!("queue {} is {}", of.name, if awake { "asleep" } else { "awake" }))
    }

    /// Runs until the cluster has settled with all queues awake, or all asleep. `calls`: a client calls for nodes meanwhile.
    fn until(&mut self, awake: bool, calls: bool, within_ns: u64) -> Result<(), Broken> {
        let by_ns = self.now_ns.saturating_add(within_ns);
        let (mut call_ns, mut quiet) = (0, 0);
        while quiet < QUIET_LOOKS {
            if calls && call_ns <= self.now_ns {
                call_ns = self.now_ns.saturating_add(CALL_AGAIN_NS);
                self.call_wake();
            }
            self.run_until(self.now_ns.saturating_add(LOOK_NS))?;
            self.heal();
            self.flush_tick();
            let Some(why) = self.otherwise(awake).or_else(|| self.unsettled()) else {
                quiet += 1;
                continue;
            };
            quiet = 0;
            if self.now_ns >= by_ns {
                let what = if awake { "it was called or updates came" } else { "it was idle" };
                return Err(Broken(format!("{} s after {what}: {why}", within_ns / SECOND)));
            }
        }
        Ok(())
    }

    /// At rest: the cluster falls asleep, the tickerplant may end meanwhile, and nodes have everything again once it is woken.
    ///
    /// # Errors
    /// The rule that was broken.
    pub fn sleep_and_wake(&mut self) -> Result<(), Broken> {
        let (Some(plan), Some(sleeps)) = (self.plan.sleep, self.sleeps.as_mut()) else { return Ok(()) };
        let (dies, power, by_update) = (sleeps.rng.percent(50), sleeps.rng.percent(50), sleeps.rng.percent(50));
        self.until(false, false, plan.idle_ns.saturating_add(WITHIN_NS))?;
        self.audit()?;
        self.report.met("cluster asleep at rest");
        if dies && self.contest.is_none() {
            self.report.fault("tickerplant ended while the cluster sleeps");
            if power {
                self.stop_tick_in_order();
            } else {
                self.tick_dies(false, Promise::Process);
                self.after(SECOND, WorldEvent::TickStarts);
            }
            self.run_until(self.now_ns.saturating_add(5 * SECOND))?;
        }
        let by_update = by_update && plan.wake == Wake::FirstUpdate;
        if by_update {
            self.publishing = true;
            self.run_until(self.now_ns.saturating_add(2 * SECOND))?;
            self.publishing = false;
        }
        // Queues of groups that were never seen are woken by calls only.
        self.until(true, !by_update, WITHIN_NS)?;
        self.audit()?;
        self.report.met("cluster woken at rest");
        Ok(())
    }
}
