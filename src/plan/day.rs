//! One day of a cluster, event by event: nodes fill with what arrives, request their successors and roll, by the same code as in production.

mod sleep;
#[cfg(test)]
mod sleep_tests;

pub use sleep::{Sleep, Waking};

use super::shape::Shape;
use crate::config::units::Scale;
use crate::feed::curve::DAY_NS;
use crate::fleet::Capacity;
use crate::fleet::group::{self, Group, GroupEvent, Instance, Rules};
use crate::queue::{Action as QueueAction, Params as QueueParams};
use crate::queue::{
    Date, Handle, Join, NodeName, Now, Queue, QueueEvent, QueueName, Subscription, UpdateIndex, Window,
};
use crate::rdb::policy::{Action, Params, Policy, PolicyEvent, ScaleAnswer};
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;

const SECOND_NS: u64 = 1_000_000_000;
/// No more events in a day than this: production's cores would be at fault.
const MAX_EVENTS: usize = 10_000_000;
/// Between two samples of a cluster for figures.
pub const SAMPLE_NS: u64 = 60 * SECOND_NS;

/// A cluster.
#[derive(Clone, Debug)]
pub struct Setup {
    /// Memory of an instance, and what is in use there before the first update.
    pub memory_bytes: u64,
    pub latent_bytes: u64,
    /// Thresholds of the nodes.
    pub policy: Params,
    /// Time from the request for an instance until its node waits in the queue.
    pub lead_ns: u64,
    pub min: u32,
    pub max: u32,
    /// Bytes that a node replays from the log in a second.
    pub replay_bytes_per_s: u64,
    /// Between two samples of the whole cluster; `None` for none.
    pub sample_ns: Option<u64>,
    /// How the cluster sleeps, which needs a minimum of 0; `None` if it does not.
    pub sleep: Option<Sleep>,
}

/// What became of one node.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct NodeRun {
    pub requested_ns: u64,
    /// When it waited in the queue.
    pub joined_ns: u64,
    pub live_ns: Option<u64>,
    pub rolled_ns: Option<u64>,
    /// Lead times between its request for a successor and its roll.
    pub cushion: Option<f64>,
    /// Bytes of updates that it holds at the end.
    pub held_bytes: u64,
    /// Bytes that it held at each sample while it was live.
    pub filled: Vec<(u64, u64)>,
    /// When its instance ended; `None` if it was there at the end of the day.
    pub ended_ns: Option<u64>,
}

impl NodeRun {
    /// Returns the run with the times of a day that began at this one.
    fn since(self, base_ns: u64) -> NodeRun {
        let of_day = |at_ns: u64| at_ns.saturating_sub(base_ns);
        NodeRun {
            requested_ns: of_day(self.requested_ns),
            joined_ns: of_day(self.joined_ns),
            live_ns: self.live_ns.map(of_day),
            rolled_ns: self.rolled_ns.map(of_day),
            ended_ns: self.ended_ns.map(of_day),
            filled: self.filled.into_iter().map(|(at_ns, bytes)| (of_day(at_ns), bytes)).collect(),
            ..self
        }
    }
}

/// The cluster at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Sample {
    pub at_ns: u64,
    /// Instances that are paid for.
    pub nodes: u32,
    pub capacity_bytes: u64,
    pub used_bytes: u64,
    /// Bytes of updates on nodes.
    pub held_bytes: u64,
}

/// What became of a day.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DayRun {
    pub nodes: Vec<NodeRun>,
    pub samples: Vec<Sample>,
    /// Most bytes that had arrived and were on no node.
    pub most_behind_bytes: u64,
    /// Time during which there were any.
    pub behind_ns: u64,
    /// Times at which a cluster that sleeps was woken.
    pub wakings: Vec<Waking>,
    /// Time without any instance.
    pub zero_ns: u64,
}

impl DayRun {
    /// Returns the time for which instances are paid: each from its request to its end, or that of the day.
    pub fn paid_ns(&self) -> u64 {
        self.nodes.iter().map(|node| node.ended_ns.unwrap_or(DAY_NS).saturating_sub(node.requested_ns)).sum()
    }
}

/// A node in service.
struct Node {
    instance: Instance,
    handle: Handle,
    policy: Policy,
    /// What it holds of the day.
    first: u64,
    next: u64,
    is_live: bool,
    /// The window that it rebuilds.
    rebuilds: Option<Window>,
    /// Instances to request with its successor, as the tickerplant says.
    desired: u32,
    run: NodeRun,
}

struct Day<'a> {
    setup: &'a Setup,
    shape: &'a Shape,
    queue: Queue,
    group: Group,
    nodes: Vec<Node>,
    now_ns: u64,
    /// The day of the log, and when it began.
    date: Date,
    base_ns: u64,
    asleep: sleep::Asleep,
    name: QueueName,
    most_behind_bytes: u64,
    behind_ns: u64,
    samples: Vec<Sample>,
}

/// Plays a day that begins with the group at its minimum and its nodes in the queue; or, of a cluster that sleeps, one that follows the same day.
///
/// # Errors
/// The day does not end: a fault of the cores.
pub fn play(setup: &Setup, shape: &Shape) -> Result<DayRun, String> {
    let (min, max, launch_delay_ns) = (setup.min, setup.max, setup.lead_ns);
    let rules = Rules { min, max, launch_delay_ns, grace_ns: SECOND_NS, notice_ns: SECOND_NS };
    let mut day = Day {
        setup,
        shape,
        queue: Queue::new(setup.sleep.as_ref().map_or_else(QueueParams::default, Sleep::params), Date(0)),
        group: Group::new(rules),
        nodes: Vec::new(),
        now_ns: 0,
        date: Date(0),
        base_ns: 0,
        asleep: sleep::Asleep::default(),
        name: QueueName(b"rdb".to_vec()),
        most_behind_bytes: 0,
        behind_ns: 0,
        samples: Vec::new(),
    };
    // The day begins with the group's minimum of instances already in service.
    drop(day.group.step(GroupEvent::Tick, 0));
    day.group_step(GroupEvent::Tick);
    for _ in 0..MAX_EVENTS {
        day.sample();
        if day.now_ns >= day.base_ns.saturating_add(DAY_NS) {
            match setup.sleep.is_some() && day.base_ns == 0 {
                true => day.next_day(),
                false => return Ok(day.over()),
            }
        }
        let next_ns = day.next_ns();
        day.advance(next_ns);
    }
    Err(format!("a day has more than {MAX_EVENTS} events"))
}

impl Day<'_> {
    fn over(self) -> DayRun {
        let (base_ns, asleep) = (self.base_ns, self.asleep);
        let there = self.nodes.into_iter().map(|node| NodeRun { held_bytes: node.next - node.first, ..node.run });
        let nodes = asleep.ended.into_iter().chain(there).map(|run| run.since(base_ns)).collect();
        let of_day = |at_ns: u64| at_ns.saturating_sub(base_ns);
        let wakings = asleep.wakings.into_iter().map(|of| Waking {
            at_ns: of_day(of.at_ns),
            answered_ns: of.answered_ns.map(of_day),
            ..of
        });
        DayRun {
            nodes,
            samples: self.samples.into_iter().map(|of| Sample { at_ns: of_day(of.at_ns), ..of }).collect(),
            most_behind_bytes: self.most_behind_bytes,
            behind_ns: self.behind_ns,
            wakings: wakings.collect(),
            zero_ns: asleep.zero_ns,
        }
    }

    fn steady_ns(&self) -> i64 {
        i64::try_from(self.now_ns).unwrap_or(i64::MAX)
    }

    fn tip(&self) -> u64 {
        self.shape.by(self.now_ns.saturating_sub(self.base_ns))
    }

    /// Updates from here on are on no node.
    fn served(&self) -> u64 {
        let live = self.nodes.iter().find(|node| node.is_live).map(|node| node.next);
        live.or_else(|| self.queue.lines().get(&self.name).map(|line| line.open.0)).unwrap_or(0)
    }

    /// When the next sample is due.
    fn sample_ns(&self) -> Option<u64> {
        let every_ns = self.setup.sample_ns?;
        Some(self.samples.last().map_or(self.base_ns, |last| last.at_ns.saturating_add(every_ns.max(1))))
    }

    fn sample(&mut self) {
        if self.sample_ns().is_none_or(|due_ns| self.now_ns < due_ns) {
            return;
        }
        let now_ns = self.now_ns;
        for node in self.nodes.iter_mut().filter(|node| node.is_live) {
            node.run.filled.push((now_ns, node.next.saturating_sub(node.first)));
        }
        let (memory, latent) = (self.setup.memory_bytes, self.setup.latent_bytes);
        let nodes = u32::try_from(self.group.slots().len()).unwrap_or(u32::MAX);
        let held: u64 = self.nodes.iter().map(|node| node.next.saturating_sub(node.first)).sum();
        let in_service = u64::try_from(self.nodes.len()).unwrap_or(u64::MAX);
        self.samples.push(Sample {
            at_ns: self.now_ns,
            nodes,
            capacity_bytes: memory.saturating_mul(nodes.into()),
            used_bytes: held.saturating_add(latent.saturating_mul(in_service)),
            held_bytes: held,
        });
    }

    /// When something happens next.
    fn next_ns(&self) -> u64 {
        let (base_ns, day_end_ns) = (self.base_ns, self.base_ns.saturating_add(DAY_NS));
        let (end_ns, arriving) = self.shape.rate(self.now_ns.saturating_sub(base_ns));
        let due = |at_ns: i64| u64::try_from(at_ns).unwrap_or(0);
        let after_now = |at_ns: &u64| *at_ns > self.now_ns;
        let of_nodes = self.nodes.iter().map(|node| due(node.policy.next_deadline_ns()));
        let of_group = self.group.deadline_ns().map(|at_ns| at_ns.saturating_sub(self.setup.lead_ns));
        let of_cores = of_group.into_iter().chain(self.queue.next_deadline_ns().map(due));
        let live = self.nodes.iter().find(|node| node.is_live).map(|node| self.crossing_ns(node, arriving));
        let all = of_nodes.chain(of_cores).chain(self.sample_ns()).chain(live.into_iter().flatten());
        let ends = [base_ns.saturating_add(end_ns), day_end_ns];
        all.chain(self.sleep_due_ns()).chain(ends).filter(after_now).min().unwrap_or(day_end_ns)
    }

    /// When the live node reaches a threshold, or has caught up.
    fn crossing_ns(&self, node: &Node, arriving: f64) -> Vec<u64> {
        let (budget, used) = (self.setup.memory_bytes as f64, self.used(node) as f64);
        let missing = self.tip().saturating_sub(node.next) as f64;
        let replay = self.setup.replay_bytes_per_s as f64;
        let taking = if missing > 0.0 { replay } else { arriving.min(replay) };
        let after = |bytes: f64| {
            let seconds = bytes.max(1.0) / taking;
            (seconds.is_finite() && seconds < 86_400.0).then(|| self.now_ns.saturating_add((seconds * 1e9) as u64 + 1))
        };
        let until = |percent: f64| after(budget * percent / 100.0 - used);
        let roll = until(self.setup.policy.roll_percent());
        let scale = match self.setup.policy.scale() {
            _ if node.policy.has_scaled() => None,
            Scale::At(percent) => until(percent),
            // Its rate is an average over seconds.
            Scale::Auto => (taking > 0.0).then(|| self.now_ns.saturating_add(SECOND_NS)),
        };
        let level = if missing > 0.0 { after(missing * taking / (replay - arriving).max(1.0)) } else { None };
        [roll, scale, level].into_iter().flatten().collect()
    }

    fn used(&self, node: &Node) -> u64 {
        self.setup.latent_bytes.saturating_add(node.next.saturating_sub(node.first))
    }

    fn advance(&mut self, to_ns: u64) {
        let (before_tip, was_behind) = (self.tip(), self.tip() > self.served());
        let from_ns = self.now_ns;
        let passed_ns = to_ns.saturating_sub(from_ns);
        self.now_ns = to_ns;
        let most = u128::from(self.setup.replay_bytes_per_s) * u128::from(passed_ns) / u128::from(SECOND_NS);
        let most = u64::try_from(most).unwrap_or(u64::MAX).max(1);
        let tip = self.tip();
        for at in 0..self.nodes.len() {
            let Some(node) = self.nodes.get_mut(at).filter(|node| node.is_live) else { continue };
            let bytes = tip.saturating_sub(node.next).min(most);
            let replayed = before_tip.saturating_sub(node.next).min(bytes);
            node.next = node.next.saturating_add(bytes);
            if replayed > 0 {
                self.policy_step(at, PolicyEvent::Replayed { bytes: replayed });
            }
            if bytes > replayed {
                self.policy_step(at, PolicyEvent::Taken { bytes: bytes - replayed });
            }
        }
        self.rebuild(most);
        if !self.is_away() {
            if was_behind {
                self.behind_ns = self.behind_ns.saturating_add(passed_ns);
            }
            self.most_behind_bytes = self.most_behind_bytes.max(tip.saturating_sub(self.served()));
        }
        for at in 0..self.nodes.len() {
            let is_due = |node: &Node| node.policy.next_deadline_ns() <= i64::try_from(to_ns).unwrap_or(i64::MAX);
            if self.nodes.get(at).is_some_and(is_due) {
                self.policy_step(at, PolicyEvent::Tick);
            }
        }
        self.group_step(GroupEvent::Tick);
        if self.queue.next_deadline_ns().is_some_and(|due_ns| due_ns <= self.steady_ns()) {
            self.queue_step(QueueEvent::Tick);
        }
        self.sleep_step(from_ns, tip > before_tip);
    }

    fn policy_step(&mut self, at: usize, event: PolicyEvent) {
        let now_ns = self.steady_ns();
        let Some(node) = self.nodes.get_mut(at) else { return };
        let actions = node.policy.step(event, now_ns);
        for action in actions {
            self.act(at, action);
        }
    }

    fn act(&mut self, at: usize, action: Action) {
        let Some(node) = self.nodes.get(at) else { return };
        let (instance, handle, next) = (node.instance, node.handle, node.next);
        match action {
            Action::ScaleOut => {
                let answer = self.request(node.desired);
                self.policy_step(at, PolicyEvent::ScaleAnswer(answer));
            }
            Action::Roll => {
                let now_ns = self.now_ns;
                if let Some(node) = self.nodes.get_mut(at) {
                    (node.run.rolled_ns, node.is_live, node.rebuilds) = (Some(now_ns), false, None);
                    node.run.cushion = node.policy.cushion(i64::try_from(now_ns).unwrap_or(i64::MAX));
                }
                self.queue_step(QueueEvent::Roll { handle, next: UpdateIndex(next), date: self.date });
            }
            Action::Protect(on) => drop(self.group_step(GroupEvent::Protect(instance, on))),
            Action::Clear => self.policy_step(at, PolicyEvent::RowsLeft(0)),
            Action::Terminate => drop(self.group_step(GroupEvent::Terminate(instance))),
            // Nobody tells a node to go while others need what it holds.
            Action::Rejoin | Action::Announce | Action::Abandon | Action::Release | Action::End | Action::Report => {}
        }
    }

    /// Requests at least so many instances.
    fn request(&mut self, desired: u32) -> ScaleAnswer {
        match self.group_step(GroupEvent::AtLeast(desired)) {
            Some(Capacity::Granted { .. }) => ScaleAnswer::Granted,
            Some(Capacity::Refused { desired, .. }) => ScaleAnswer::AtMaximum { instances: desired },
            None => ScaleAnswer::Refused,
        }
    }

    /// Steps the group; returns its answer to a request for capacity.
    fn group_step(&mut self, event: GroupEvent) -> Option<Capacity> {
        let mut answer = None;
        // Its clock begins one lead time before the day.
        for action in self.group.step(event, self.now_ns.saturating_add(self.setup.lead_ns)) {
            match action {
                group::Action::Launch(instance) => self.launch(instance),
                group::Action::Capacity(capacity) => answer = Some(capacity),
                group::Action::Stop(instance) => self.stopped(instance),
                group::Action::Kill(_) | group::Action::Answer(_) => {}
            }
        }
        answer
    }

    /// The node of an instance is up, and joins the queue.
    fn launch(&mut self, instance: Instance) {
        self.group_step(GroupEvent::Ready(instance));
        let slot = self.group.slots().iter().find(|slot| slot.instance == instance);
        let requested_ns = slot.map(|slot| slot.requested_ns.saturating_sub(self.setup.lead_ns));
        let handle = Handle(i32::try_from(instance.0).unwrap_or(i32::MAX));
        let joined_ns = self.now_ns;
        let run = NodeRun { requested_ns: requested_ns.unwrap_or(joined_ns), joined_ns, ..NodeRun::default() };
        // Reports are for people.
        let mut params = self.setup.policy.clone();
        params.report_every_ns = i64::MAX;
        self.nodes.push(Node {
            instance,
            handle,
            policy: Policy::new(params),
            first: 0,
            next: 0,
            is_live: false,
            rebuilds: None,
            desired: 0,
            run,
        });
        let at = self.nodes.len().saturating_sub(1);
        let (used_bytes, budget_bytes) = (self.setup.latent_bytes, self.setup.memory_bytes);
        self.policy_step(at, PolicyEvent::LeadTime { lead_ns: i64::try_from(self.setup.lead_ns).unwrap_or(i64::MAX) });
        self.policy_step(at, PolicyEvent::Memory { used_bytes, budget_bytes });
        let name = format!("{}", instance.0).into_bytes();
        self.queue_step(QueueEvent::Join(Join {
            handle,
            node: NodeName(name.clone()),
            queue: self.name.clone(),
            subscription: Arc::new(Subscription::default()),
            ip: IpAddr::V4(Ipv4Addr::LOCALHOST),
            port: None,
            date: None,
            held: Vec::new(),
            open: None,
            group: Some(b"rdb".to_vec()),
            instance: Some(name),
            process: None,
            leaving: None,
        }));
    }

    fn queue_step(&mut self, event: QueueEvent) {
        let (tip, steady_ns) = (UpdateIndex(self.tip()), self.steady_ns());
        for action in self.queue.step(event, tip, Now { wall_ns: steady_ns, steady_ns }) {
            self.of_queue(action);
        }
    }

    fn of_queue(&mut self, action: QueueAction) {
        let now_ns = self.now_ns;
        let at = |day: &Day<'_>, handle: Handle| day.nodes.iter().position(|node| node.handle == handle);
        match action {
            QueueAction::MakeLive { handle, first, .. } => {
                let Some(at) = at(self, handle) else { return };
                if let Some(node) = self.nodes.get_mut(at) {
                    (node.first, node.next, node.is_live) = (first.0, first.0, true);
                    node.run.live_ns = node.run.live_ns.or(Some(now_ns));
                }
                self.policy_step(at, PolicyEvent::BecameLive);
            }
            QueueAction::Group { handle, desired, .. } => {
                let node = at(self, handle).and_then(|at| self.nodes.get_mut(at));
                node.into_iter().for_each(|node| node.desired = u32::try_from(desired).unwrap_or(u32::MAX));
            }
            QueueAction::NeedNode { desired, via, .. } => {
                let Some(at) = via.and_then(|via| at(self, via)) else { return };
                if let Some(node) = self.nodes.get_mut(at) {
                    node.desired = node.desired.max(u32::try_from(desired).unwrap_or(u32::MAX));
                }
                self.policy_step(at, PolicyEvent::NodesMissing);
            }
            QueueAction::Verify { handle, window, date } => self.prove(handle, window, date),
            QueueAction::Rebuild { handle, window, .. } => self.rebuilds(handle, window),
            QueueAction::Request { desired, .. } => self.requests_first(desired),
            QueueAction::Sleep { handle } => self.ends(handle, PolicyEvent::Sleep),
            QueueAction::EndOfDay { handle, .. } => self.ends(handle, PolicyEvent::DayEnd),
            // No node is evicted or drained.
            _ => {}
        }
    }

    /// Each node has the rows of the log.
    fn prove(&mut self, handle: Handle, window: Window, date: Date) {
        self.queue_step(QueueEvent::Proved { handle, window, date, ok: true });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    pub(super) const GIB: u64 = 1 << 30;
    pub(super) const HOUR_NS: u64 = 3600 * SECOND_NS;

    /// Nodes of 1 GiB of which nothing is in use.
    pub(super) fn setup(scale: Scale, roll: f64, lead_s: u64) -> Setup {
        let policy = Params::new(scale, roll).unwrap();
        let (lead_ns, replay_bytes_per_s) = (lead_s * SECOND_NS, 100 << 20);
        Setup {
            memory_bytes: GIB,
            latent_bytes: 0,
            policy,
            lead_ns,
            min: 1,
            max: 64,
            replay_bytes_per_s,
            sample_ns: Some(SAMPLE_NS),
            sleep: None,
        }
    }

    /// The same volume in each hour.
    pub(super) fn flat(bytes_per_hour: u64) -> Shape {
        Shape::new(&[bytes_per_hour; 24]).unwrap()
    }

    #[test]
    fn a_flat_day_is_as_calculated_by_hand() {
        // An eighth of a node an hour: a successor is requested after 4 hours (50 %), comes a minute later, and goes live after 6 (75 %).
        let run = play(&setup(Scale::At(50.0), 75.0, 60), &flat(GIB / 8)).unwrap();
        assert_eq!(run.nodes.len(), 5, "{:#?}", run.nodes);
        for (n, node) in (0u64..).zip(&run.nodes) {
            let near = |is: u64, wanted: u64| assert!(is.abs_diff(wanted) <= SECOND_NS, "node {n}: {is} {wanted}");
            if n > 0 {
                near(node.requested_ns, (6 * n - 2) * HOUR_NS);
                near(node.joined_ns, (6 * n - 2) * HOUR_NS + 60 * SECOND_NS);
            }
            if n < 4 {
                near(node.live_ns.unwrap(), 6 * n * HOUR_NS);
            }
            if n < 3 {
                near(node.rolled_ns.unwrap(), 6 * (n + 1) * HOUR_NS);
                assert!((node.cushion.unwrap() - 120.0).abs() < 0.1, "2 hours are 120 lead times of a minute");
                assert!(node.held_bytes.abs_diff(GIB * 3 / 4) < 1 << 20);
            }
        }
        assert_eq!(run.behind_ns, 0);
        let held: u64 = run.nodes.iter().map(|node| node.held_bytes).sum();
        assert_eq!(held, 3 * GIB, "every byte of the day is on one node");
    }

    #[test]
    fn a_cluster_whose_instances_come_late_falls_behind_and_catches_up() {
        // 5 % of a node are 24 minutes at this rate, and an instance takes an hour.
        let run = play(&setup(Scale::At(70.0), 75.0, 3600), &flat(GIB / 8)).unwrap();
        assert!(run.behind_ns > 3 * 30 * 60 * SECOND_NS && run.most_behind_bytes > GIB / 32, "{run:?}");
        let cushion = run.nodes.first().unwrap().cushion.unwrap();
        assert!((cushion - 0.4).abs() < 0.01, "{cushion}");
        let held: u64 = run.nodes.iter().map(|node| node.held_bytes).sum();
        assert_eq!(held, 3 * GIB);
    }

    #[test]
    fn at_its_maximum_the_group_launches_nothing_and_the_rest_of_the_day_is_behind() {
        let run = play(&Setup { max: 2, ..setup(Scale::At(50.0), 75.0, 60) }, &flat(GIB / 8)).unwrap();
        assert_eq!(run.nodes.len(), 2);
        assert!(run.most_behind_bytes > GIB, "{}", run.most_behind_bytes);
    }

    #[test]
    fn automatic_thresholds_keep_three_lead_times() {
        let run = play(&setup(Scale::Auto, 75.0, 600), &Shape::market_day(4 * GIB)).unwrap();
        let cushions: Vec<f64> = run.nodes.iter().filter_map(|node| node.cushion).collect();
        assert!(cushions.len() >= 4 && cushions.iter().all(|cushion| *cushion > 1.0), "{cushions:?}");
        assert_eq!(run.behind_ns, 0);
    }
}
