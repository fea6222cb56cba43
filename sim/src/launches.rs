//! Compares what nodes request from their fleet, and how many instances wait at rest, with the auditor's count of what each group needs.

use super::audit::Broken;
use super::audit::surplus::Reason;
use super::cloud::{Asked, SharedCloud};
use super::plan::{Faults, QueuePlan};
use super::transitions::{GivenUp, Place};
use super::world::{SECOND, Server, World};
use elastick::fleet::Stage;
use elastick::queue::{Queue, QueueName, State, Subscriber};
use std::collections::{BTreeMap, BTreeSet};

/// Age up to which a running instance may be mistaken for one that never came up, where messages and the fleet's responses are delayed.
const KNOWN_WITHIN_NS: u64 = 60 * SECOND;

/// Parses the number from an instance's name, `group-number`.
fn number_of(instance: &[u8]) -> Option<u64> {
    std::str::from_utf8(instance).ok()?.rsplit('-').next()?.parse().ok()
}

fn of_queue<'a>(queue: &'a Queue, of: &'a QueuePlan) -> impl Iterator<Item = &'a Subscriber> {
    queue.subscribers().iter().filter(|own| own.queue.0 == of.name.as_bytes())
}

impl World {
    /// Number of windows for which a queue needs a node now: lost windows, windows being handed off, and the open one.
    fn work(&self, queue: &Queue, of: &QueuePlan) -> usize {
        let line = queue.lines().get(&QueueName(of.name.clone().into_bytes()));
        let lost = line.map_or(0, |line| line.lost.len());
        let here = || of_queue(queue, of);
        let handed_on: usize = here().filter(|own| own.leaving.is_some()).map(|own| own.held.len()).sum();
        let is_live = here().any(|own| own.state == State::Live);
        lost.saturating_add(handed_on).saturating_add(usize::from(!is_live))
    }

    /// Records how many instances each group needs for each of its queues: those without a standby of the queue; standbys (as many as wait,
    /// or as the queue has windows to assign, at least one); and replacements of standbys that cannot take a window, up to the queue's limit.
    /// It is never below the group's minimum.
    pub fn note_needed(&mut self) {
        let Some(tick) = &self.tick else { return };
        let queue = tick.service.plant.queue();
        let mut unanswered = Vec::new();
        for of in &self.plan.queues {
            let here = || of_queue(queue, of);
            let waiting = here().filter(|own| own.state == State::Waiting).count();
            let unable = queue.unable(&QueueName(of.name.clone().into_bytes()));
            let needed = waiting.max(self.work(queue, of)).max(1);
            let unable = unable.min(elastick::queue::Params::default().unable_replaced_max);
            let beside = self.plan.queues.iter().filter(|other| other.group == of.group);
            let mut instances: BTreeSet<&[u8]> = BTreeSet::new();
            for own in beside.flat_map(|other| of_queue(queue, other)).filter(|own| own.state != State::Lost) {
                instances.extend(own.instance.as_deref());
            }
            for own in here().filter(|own| own.state == State::Waiting) {
                own.instance.as_deref().map(|instance| instances.remove(instance));
            }
            let min = self.plan.groups.get(of.group).map_or(0, |group| group.rules.min);
            let most = instances.len().saturating_add(needed).saturating_add(unable);
            self.needed.note(of.group, u32::try_from(most).unwrap_or(u32::MAX).max(min), self.now_ns);
            let unaware = here().filter(|own| own.leaving.is_some_and(|leaving| !leaving.replaced));
            unanswered.extend(unaware.filter_map(|own| Some((of.group, own.instance.clone()?))));
            for number in 0..unable {
                unanswered.push((of.group, format!("unable {} {number}", of.name).into_bytes()));
            }
        }
        for (group, instance) in unanswered {
            if instance.starts_with(b"unable ") {
                self.explain(group, Reason::Unable, &instance);
                continue;
            }
            let cloud = self.clouds.get(group).map(SharedCloud::lock);
            if cloud.is_some_and(|cloud| !cloud.confirmed_replacement(&instance)) {
                self.explain(group, Reason::Unanswered, &instance);
            }
        }
    }

    /// Returns whether faults are so few that each launch must have its own reason: no node is away longer than the grace period, and nodes
    /// are killed or asked to end by day only.
    fn launches_are_exact(&self) -> bool {
        // A node that sleeps, or whose windows are written down, ends while others may be on their way.
        matches!(self.plan.faults, Faults::None | Faults::Fleet) && self.sleeps.is_none()
    }

    /// Allows one surplus instance until the end of the day.
    pub fn explain(&mut self, group: usize, reason: Reason, what: &[u8]) {
        if self.launches_are_exact() && reason != Reason::Unanswered {
            return;
        }
        if self.surplus.explain(group, reason, what) {
            self.report.met(reason.name());
        }
    }

    /// The table removed subscribers whose instances may still exist.
    pub fn gave_up(&mut self, given_up: &[GivenUp]) {
        for GivenUp { id, place, is_lost } in given_up {
            let of = self.plan.queues.iter().find(|of| of.name.as_bytes() == place.queue);
            let Some(group) = of.map(|of| of.group) else { continue };
            let Some(instance) = number_of(&place.instance) else { continue };
            // The group replaces an instance that is gone, and nobody needs the new one if its windows are written down.
            let may_be_written = *is_lost && self.said_written(self.table_date) > 0;
            if !self.stands(Server { group, instance }) && !may_be_written {
                continue;
            }
            if self.launches_are_exact() && *is_lost {
                let name = String::from_utf8_lossy(&place.instance);
                let broken = format!("a node on {name} is given up, which was away for less than its grace");
                self.judge(Err(Broken(broken)));
            }
            self.explain(group, Reason::GivenUp, format!("{} {id}", self.tick_runs).as_bytes());
        }
    }

    /// A tickerplant has started after a power cut or a takeover, which may have taken the end of the table's journal. An instance is
    /// explained if the restored table has no row of its node, or one with another number of closed windows than the node has.
    pub fn table_is_restored(&mut self) {
        let Some(tick) = &self.tick else { return };
        let queue = tick.service.plant.queue();
        let mut forgotten = Vec::new();
        for node in self.nodes.values() {
            let Some(of) = self.plan.queues.get(node.key.queue) else { continue };
            let Some(group) = self.plan.groups.get(of.group) else { continue };
            let instance = format!("{}-{}", group.name, node.key.server.instance).into_bytes();
            let row = of_queue(queue, of).find(|own| own.instance.as_deref() == Some(instance.as_slice()));
            let held = node.shared.state().windows.iter().filter(|shown| !shown.open).count();
            if self.stands(node.key.server) && row.is_none_or(|row| row.held.len() != held) {
                forgotten.push((of.group, instance));
            }
        }
        for (group, instance) in forgotten {
            self.explain(group, Reason::Forgotten, &[b"forgotten ", instance.as_slice()].concat());
        }
    }

    /// A day has ended. Nodes connected then were notified; the others may still wait on the next day.
    pub fn day_ended_without(&mut self, sent_home: &BTreeSet<Place>) {
        self.day_ended_ns = Some(self.now_ns);
        let mut unseated = Vec::new();
        for of in &self.plan.queues {
            let Some(cloud) = self.clouds.get(of.group) else { continue };
            let cloud = cloud.lock();
            for slot in cloud.group.slots().iter().filter(|slot| slot.stage() != Stage::Terminating) {
                let (group, number) = (self.plan.groups.get(of.group).map_or("", |group| &group.name), slot.instance.0);
                let instance = format!("{group}-{number}").into_bytes();
                if !sent_home.contains(&Place { queue: of.name.clone().into_bytes(), instance: instance.clone() }) {
                    unseated.push((of.group, instance));
                }
            }
        }
        for (group, instance) in unseated {
            self.explain(group, Reason::Unseated, &instance);
        }
    }

    /// Checks what nodes have requested from their fleet.
    pub fn judge_requests(&mut self, group: usize) {
        let requests = self.clouds.get(group).map(|cloud| cloud.lock().take_requests()).unwrap_or_default();
        if requests.is_empty() {
            return;
        }
        self.note_needed();
        // A node that learned late that it is live requests with the number sent to it then.
        let has_ended = self.day_ended_ns.is_some_and(|at| self.now_ns.saturating_sub(at) <= KNOWN_WITHIN_NS);
        for request in requests {
            let judged = match request {
                Asked::AtLeast(instances) => {
                    if has_ended && instances > self.needed.latest(group) {
                        self.explain(group, Reason::AskedLate, &instances.to_le_bytes());
                    }
                    self.needed.check(group, instances)
                }
                Asked::Replace(instance) => {
                    let server = Server { group, instance };
                    let came_ns = self.came_ns.get(&server).copied().unwrap_or(self.now_ns);
                    // The launch watcher's messages and the fleet's responses may be delayed.
                    let known = self.now_ns.saturating_sub(came_ns) > KNOWN_WITHIN_NS || self.launches_are_exact();
                    let works =
                        self.nodes.values().any(|node| node.key.server == server && node.shared.state().connected);
                    let what = || format!("instance {instance} of group {group} is to be replaced, and does its work");
                    if works && !known {
                        self.report.met("instance replaced that had just come up");
                    }
                    if works && known { Err(Broken(what())) } else { Ok(()) }
                }
            };
            self.judge(judged);
        }
    }

    /// Counts instances of a group that only wait, beyond those needed: one successor (or the standbys kept overnight) for each queue, or
    /// as many as the group's minimum requires.
    fn surplus_of(&self, queue: &Queue, group: usize) -> usize {
        let queues = || self.plan.queues.iter().filter(|of| of.group == group);
        let mut instances: BTreeMap<&[u8], bool> = BTreeMap::new();
        for own in queues().flat_map(|of| of_queue(queue, of)).filter(|own| own.state != State::Lost) {
            if let Some(instance) = &own.instance {
                *instances.entry(instance.as_slice()).or_insert(true) &= own.state == State::Waiting;
            }
        }
        let idle = instances.values().filter(|idle| **idle).count();
        let busy = instances.len().saturating_sub(idle);
        let min = self.plan.groups.get(group).map_or(0, |group| group.rules.min);
        let successors = self.plan.standbys_kept.max(1).saturating_mul(queues().count());
        idle.saturating_sub(successors.max((min as usize).saturating_sub(busy)))
    }

    /// Checks that at rest no more instances wait than are needed or explained by a fault.
    ///
    /// # Errors
    /// The group with more waiting instances.
    pub fn nobody_launched_in_vain(&self) -> Result<(), Broken> {
        let Some(tick) = &self.tick else { return Ok(()) };
        for (group, of) in self.plan.groups.iter().enumerate() {
            let (surplus, most) = (self.surplus_of(tick.service.plant.queue(), group), self.surplus.most(group));
            if surplus > most {
                return Err(Broken(format!(
                    "group {}: {surplus} instances wait beyond those that are needed, where {most} are explained",
                    of.name
                )));
            }
        }
        Ok(())
    }

    /// Carries today's surplus over to the next day.
    pub fn surplus_is_kept(&mut self) {
        let Some(tick) = &self.tick else { return };
        let queue = tick.service.plant.queue();
        let kept: Vec<usize> = (0..self.plan.groups.len()).map(|group| self.surplus_of(queue, group)).collect();
        self.surplus.forget();
        let mut came_ns = std::mem::take(&mut self.came_ns);
        came_ns.retain(|server, _| self.stands(*server));
        self.came_ns = came_ns;
        for (group, surplus) in kept.into_iter().enumerate() {
            for number in 0..surplus {
                self.explain(group, Reason::Kept, &number.to_le_bytes());
            }
        }
    }
}
