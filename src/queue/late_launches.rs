//! Launches that were under way when a queue fell asleep. Nobody can cancel them for every fleet, so their nodes end as soon as they join; without
//! that they would stay until the day ends.

use super::event::{Action, Join};
use super::ids::{QueueName, Symbol};
use super::note::Note;
use super::table::{LateLaunches, Line, Queue, State};

impl Queue {
    /// Notes, before the queues of a group fall asleep, how many instances are still to come that somebody has requested for them.
    pub(super) fn expect_late_launches(&mut self, group: &Symbol) {
        let is_of_group = |line: &Line| line.group.as_ref() == Some(group);
        let queues: Vec<QueueName> =
            self.lines.iter().filter(|(_, line)| is_of_group(line)).map(|(queue, _)| queue.clone()).collect();
        // An instance brings a node for each queue of its group, and ends with the first one.
        let nodes = queues.iter().map(|queue| self.under_way(queue)).max().unwrap_or(0);
        let here =
            self.subscribers.iter().filter(|s| s.group.as_ref() == Some(group) && s.state != State::Lost).count();
        let first = self.first_requests.get(group).map_or(0, |request| request.desired.saturating_sub(here));
        let nodes = nodes.max(first);
        let until_ns = self.now_ns.saturating_add(self.params.launch_ns);
        if nodes > 0 {
            let late = LateLaunches { nodes, until_ns, let_go: Vec::new() };
            self.late_launches.extend(queues.into_iter().map(|queue| (queue, late.clone())));
        }
    }

    /// Returns the number of requested instances of a queue that have not come.
    fn under_way(&self, queue: &QueueName) -> usize {
        let mut here = self.subscribers.iter().filter(|s| s.queue == *queue);
        let is_awaited = here.clone().any(|s| {
            let status = self.status.get(&s.id).filter(|_| s.state == State::Live && s.handle.is_some());
            status.is_some_and(|status| status.scaled && status.fleet_max.is_none())
        });
        let has_standby = here.any(|s| s.state == State::Waiting);
        let missing = self.last_requests.get(queue).filter(|last| last.via.is_some()).map_or(0, |last| last.missing);
        missing.saturating_add(usize::from(is_awaited && !has_standby))
    }

    /// Forgets the launches of queues that are awake again.
    pub(super) fn keep_late_launches(&mut self) {
        let lines = &self.lines;
        self.late_launches.retain(|queue, _| lines.get(queue).is_some_and(|line| line.asleep.is_some()));
    }

    /// Sends a joining node `.u.asg.sleep` if its instance was requested before the queue fell asleep. Returns whether it does.
    pub(super) fn lets_go(&mut self, join: &Join, out: &mut Vec<Action>) -> bool {
        let (Some(group), Some(instance)) = (&join.group, &join.instance) else { return false };
        let sleeps = self.lines.get(&join.queue).is_some_and(|line| self.is_asleep(line));
        let holds = !join.held.is_empty() || join.open.is_some();
        // An instance starts its nodes one after another: the first one may have been let go.
        let has_let_go =
            |(queue, late): (&QueueName, &LateLaunches)| *queue != join.queue && late.let_go.contains(instance);
        let is_new = !self.came_up(group).contains(instance) || self.late_launches.iter().any(has_let_go);
        let now_ns = self.now_ns;
        let is_expected = |late: &&mut LateLaunches| {
            late.let_go.len() < late.nodes && now_ns < late.until_ns && !late.let_go.contains(instance)
        };
        let late = self.late_launches.get_mut(&join.queue).filter(is_expected);
        let Some(late) = late.filter(|_| sleeps && is_new && !holds) else { return false };
        late.let_go.push(instance.clone());
        self.remember_departed(Some(group), Some(instance));
        let text = "the node ends: its instance was requested before the queue fell asleep";
        out.push(Action::Note(Note::new(text).queue(&join.queue).node(&join.node)));
        out.push(Action::Sleep { handle: join.handle });
        true
    }
}
