//! Servers that a fleet launches and terminates. Each runs a node for every queue of its group.

use super::audit::surplus::Reason;
use super::cloud::Order;
use super::world::{MS, NodeKey, SECOND, Server, World, WorldEvent};
use elastick::fleet::Stage;
use elastick::fleet::group::{GroupEvent, Instance};

impl World {
    /// Carries out a group's orders.
    pub fn obey(&mut self, group: usize) {
        let Some(cloud) = self.clouds.get(group).cloned() else { return };
        let orders = cloud.lock().take_orders();
        for order in orders {
            match order {
                Order::Launch(Instance(instance)) => self.launch(Server { group, instance }),
                Order::Stop(Instance(instance)) => self.server_is_stopped(Server { group, instance }),
                Order::Kill(Instance(instance)) => self.server_goes(Server { group, instance }, "killed by the fleet"),
            }
        }
    }

    fn launch(&mut self, server: Server) {
        let Some(lead_ns) = self.lead_ns() else {
            self.report.fault("launch that never comes");
            // If no live node notices the failed launch, the provider reports it in the end.
            return self.after(200 * SECOND, WorldEvent::NeverCame(server));
        };
        let of_group = |(_, queue): &(usize, &super::plan::QueuePlan)| queue.group == server.group;
        let queues: Vec<usize> = self.plan.queues.iter().enumerate().filter(of_group).map(|(queue, _)| queue).collect();
        let mut in_ns = lead_ns;
        for queue in queues {
            self.after(in_ns, WorldEvent::NodeStarts(NodeKey { server, queue }));
            in_ns = in_ns.saturating_add(self.between(0, 3 * SECOND));
        }
    }

    fn lead_ns(&mut self) -> Option<u64> {
        let usual_ns = self.between(SECOND, 6 * SECOND);
        if !self.chaotic {
            return Some(usual_ns);
        }
        match self.rng.below(self.plan.faults.rare()) {
            0 => {
                self.report.fault("launch that is late");
                Some(usual_ns.saturating_add(self.between(10 * SECOND, 40 * SECOND)))
            }
            1 => None,
            _ => Some(usual_ns),
        }
    }

    pub fn cloud_ticks(&mut self, group: usize) {
        if let Some(cloud) = self.clouds.get(group) {
            let mut cloud = cloud.lock();
            cloud.set_now(self.now_ns);
            cloud.tell(elastick::fleet::group::GroupEvent::Tick);
        }
        self.note_needed();
        self.obey(group);
        self.after(500 * MS, WorldEvent::Cloud(group));
    }

    fn nodes_on(&self, server: Server) -> Vec<NodeKey> {
        self.nodes.keys().filter(|key| key.server == server).copied().collect()
    }

    /// Terminates a server and all processes on it.
    pub fn server_goes(&mut self, server: Server, why: &'static str) {
        let silent = self.rng.one_in(3);
        for key in self.nodes_on(server) {
            self.trace.say(|| format!("{key:?} dies: {why}"));
            self.report.met(why);
            self.node_is_gone(key, silent);
        }
        self.server_is_gone(server);
    }

    fn server_is_gone(&mut self, server: Server) {
        self.ends_at_night(server);
        if let Some(cloud) = self.clouds.get(server.group) {
            let mut cloud = cloud.lock();
            cloud.set_now(self.now_ns);
            cloud.tell(GroupEvent::Exited(Instance(server.instance)));
        }
        self.obey(server.group);
    }

    /// After its day's end a node ends and lowers the capacity. If it dies before it has requested that, the group replaces it.
    pub fn ends_at_night(&mut self, server: Server) {
        if self.evening && self.stands(server) {
            self.explain(server.group, Reason::EndedAtNight, &server.instance.to_le_bytes());
        }
    }

    /// Returns whether the group counts on an instance.
    pub fn stands(&self, server: Server) -> bool {
        self.clouds.get(server.group).is_some_and(|cloud| {
            let cloud = cloud.lock();
            let own = cloud.group.slots().iter().find(|slot| slot.instance.0 == server.instance);
            own.is_some_and(|slot| slot.stage() != Stage::Terminating)
        })
    }

    /// Terminates a server whose last node has ended.
    pub fn ends_if_empty(&mut self, server: Server) {
        if self.nodes_on(server).is_empty() {
            self.server_is_gone(server);
        }
    }

    /// The fleet asks the nodes on a server to end.
    fn server_is_stopped(&mut self, server: Server) {
        let up = self.nodes_on(server);
        if up.is_empty() {
            // It has not come up: there is no process to notify.
            return self.server_is_gone(server);
        }
        for node in up.iter().filter_map(|key| self.nodes.get(key)) {
            node.shared.request_leave();
        }
    }
}
