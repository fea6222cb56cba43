//! Faults: which ones occur, when, and how they end.

use super::audit::Promise;
use super::audit::surplus::Reason;
use super::cloud::CloudFaults;
use super::disk::DiskFaults;
use super::plan::Faults;
use super::world::{MS, NodeKey, SECOND, World, WorldEvent};
use elastick::config::Durability;
use elastick::fleet::group::{GroupEvent, Instance};
use elastick::rdb::policy::Phase;
use std::sync::atomic::Ordering;

/// A fault that ends by itself at a scheduled time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Passing {
    DiskFull,
    FleetCalls(usize),
    SlowLine(u64),
    StalledLine(u64),
    SetClock(i64),
    Memory(NodeKey),
}

impl World {
    /// Injects one fault and schedules the next.
    pub fn chaos(&mut self) {
        let Some(every_ns) = self.plan.faults.every_ns() else { return };
        let pause_ns = self.between(every_ns / 10, every_ns * 2);
        self.after(pause_ns, WorldEvent::Chaos);
        if !self.chaotic {
            return;
        }
        if self.plan.faults == Faults::Fleet {
            return self.change_group();
        }
        match self.rng.below(100) {
            0..=11 => self.cut_some_line(),
            12..=14 => self.stall_some_line(),
            15 => self.start_beside(),
            16 => self.take_over(),
            17..=19 => self.half_open_line(),
            20..=25 => self.kill_some_node(),
            26..=27 => self.end_some_node(),
            28..=31 => self.restart_some_node(),
            32..=39 => self.pause_some_node(),
            40..=44 => self.kill_tick(),
            45..=47 => self.kill_tick_in_turn(),
            48..=51 => self.pause_tick(),
            52..=55 => self.cut_power(),
            56..=58 => self.fill_disk(),
            59..=61 => self.fail_sync(),
            62..=66 => self.interrupt_some_node(),
            67..=68 => self.replace_some_node(),
            69..=73 => self.trouble_fleet_calls(),
            74..=76 => self.launch_one_too_many(),
            77..=79 => self.jump_clock(),
            80..=87 => {
                self.report.fault("surge of the feed");
                self.surge_until_ns = self.now_ns.saturating_add(self.rng.from(SECOND, 8 * SECOND));
            }
            88..=91 => {
                self.report.fault("slow network");
                self.slow_net_until_ns = self.now_ns.saturating_add(self.rng.from(500 * MS, 5 * SECOND));
            }
            92..=94 => self.slow_some_client(),
            95..=96 => self.hang_some_disk(),
            _ => self.stop_tick_in_order(),
        }
    }

    fn some_line(&mut self) -> Option<u64> {
        let open: Vec<u64> = self.lines.iter().filter(|(_, line)| !line.cut).map(|(number, _)| *number).collect();
        self.rng.pick(&open).copied()
    }

    fn some_node(&mut self) -> Option<NodeKey> {
        let up: Vec<NodeKey> = self.nodes.keys().copied().collect();
        self.rng.pick(&up).copied()
    }

    fn cut_some_line(&mut self) {
        let Some(line) = self.some_line() else { return };
        self.report.fault("connection cut");
        let (server_ns, client_ns) = (self.between(MS, 300 * MS), self.between(MS, 300 * MS));
        self.cut(line, Some(server_ns), Some(client_ns));
    }

    /// Drops a connection half-open: one end notices at once, the other after production's heartbeat timeout.
    fn half_open_line(&mut self) {
        let Some(line) = self.some_line() else { return };
        self.report.fault("connection half open");
        let (soon_ns, late_ns) = (self.between(MS, 100 * MS), self.between(5 * SECOND, 20 * SECOND));
        let server_first = self.rng.percent(50);
        let (server_ns, client_ns) = if server_first { (soon_ns, late_ns) } else { (late_ns, soon_ns) };
        self.cut(line, Some(server_ns), Some(client_ns));
    }

    fn stall_some_line(&mut self) {
        let Some(number) = self.some_line() else { return };
        self.report.fault("nothing passes one way");
        let for_ns = self.between(200 * MS, 8 * SECOND);
        let up = self.rng.percent(50);
        let until_ns = self.now_ns.saturating_add(for_ns);
        if let Some(line) = self.lines.get_mut(&number) {
            let slot = if up { &mut line.up_stalled_until_ns } else { &mut line.down_stalled_until_ns };
            *slot = until_ns;
        }
        if self.rng.percent(30) {
            self.after(for_ns.saturating_sub(MS), WorldEvent::Over(Passing::StalledLine(number)));
        }
    }

    fn slow_some_client(&mut self) {
        let Some(number) = self.some_line() else { return };
        self.report.fault("slow reader");
        let slow_bytes = self.rng.from(1, 40);
        if let Some(line) = self.lines.get_mut(&number) {
            line.slow_bytes = Some(slow_bytes);
        }
        let ns = self.between(2 * SECOND, 10 * SECOND);
        self.after(ns, WorldEvent::Over(Passing::SlowLine(number)));
    }

    fn kill_some_node(&mut self) {
        if let Some(key) = self.some_node() {
            self.report.fault("node killed");
            self.server_goes(key.server, "node killed");
        }
    }

    /// Faults of `Faults::Fleet`: they change the number of instances, and every launch must still have its reason.
    fn change_group(&mut self) {
        match self.rng.below(10) {
            0..=5 => self.trouble_fleet_calls(),
            // In the evening a killed instance would be replaced although its node ends with the day and takes its capacity with it.
            _ if self.evening => {}
            6 => self.kill_some_node(),
            7..=8 => self.end_some_node(),
            // Only an orderly stop: a kill may lose updates that nodes hold, and rebuilding those windows takes nodes too.
            _ => self.stop_tick_in_order(),
        }
    }

    /// Asks all processes of one server to end gracefully.
    fn end_some_node(&mut self) {
        if let Some(NodeKey { server, .. }) = self.some_node() {
            self.report.fault("node asked to end");
            for node in self.nodes.values().filter(|node| node.key.server == server) {
                node.shared.request_leave();
            }
        }
    }

    fn restart_some_node(&mut self) {
        if let Some(key) = self.some_node() {
            self.report.fault("node restarted in its place");
            self.node_restarts(key);
        }
    }

    fn pause_some_node(&mut self) {
        let Some(key) = self.some_node() else { return };
        self.report.fault("node paused");
        let until_ns = self.now_ns.saturating_add(self.rng.from(200 * MS, 8 * SECOND));
        if let Some(node) = self.nodes.get_mut(&key) {
            node.paused_until_ns = node.paused_until_ns.max(until_ns);
        }
    }

    fn interrupt_some_node(&mut self) {
        let Some(NodeKey { server, .. }) = self.some_node() else { return };
        self.report.fault("spot interruption");
        self.explain(server.group, Reason::TakenBack, &server.instance.to_le_bytes());
        let ns = self.between(2 * SECOND, 30 * SECOND);
        if let Some(cloud) = self.clouds.get(server.group) {
            cloud.lock().interrupt(Instance(server.instance), self.now_ns.saturating_add(ns));
        }
        self.after(ns, WorldEvent::ServerGoes(server));
    }

    fn replace_some_node(&mut self) {
        let Some(NodeKey { server, .. }) = self.some_node() else { return };
        self.report.fault("node found unhealthy by the fleet");
        if let Some(cloud) = self.clouds.get(server.group) {
            cloud.lock().tell(GroupEvent::Replace(Instance(server.instance)));
        }
        self.obey(server.group);
    }

    fn trouble_fleet_calls(&mut self) {
        let group = usize::try_from(self.rng.below(self.clouds.len() as u64)).unwrap_or(0);
        self.report.fault("fleet calls throttled or unanswered");
        let (busy_percent, unsure_percent) = (self.rng.below(60), self.rng.below(60));
        let faults = CloudFaults { busy_percent, unsure_percent, at_maximum: self.rng.one_in(5) };
        if let Some(cloud) = self.clouds.get(group) {
            cloud.lock().faults = faults;
        }
        let ns = self.between(SECOND, 15 * SECOND);
        self.after(ns, WorldEvent::Over(Passing::FleetCalls(group)));
    }

    fn launch_one_too_many(&mut self) {
        let group = usize::try_from(self.rng.below(self.clouds.len() as u64)).unwrap_or(0);
        self.report.fault("two launched instead of one");
        if let Some(cloud) = self.clouds.get(group) {
            let mut cloud = cloud.lock();
            let desired = cloud.group.desired().saturating_add(1);
            cloud.tell(GroupEvent::AtLeast(desired));
            drop(cloud);
            self.explain(group, Reason::Raised, &self.now_ns.to_le_bytes());
        }
        self.obey(group);
    }

    fn kill_tick(&mut self) {
        if self.tick.is_none() {
            return;
        }
        self.report.fault("tickerplant killed");
        self.tick_dies(false, Promise::Process);
        let ns = self.between(200 * MS, 5 * SECOND);
        self.after(ns, WorldEvent::TickStarts);
    }

    fn kill_tick_in_turn(&mut self) {
        if self.tick.is_none() {
            return;
        }
        let back_in_ns = self.between(200 * MS, 5 * SECOND);
        if let Some(tick) = self.tick.as_mut() {
            tick.dies_in_turn = Some(back_in_ns);
        }
    }

    pub fn stop_tick_in_order(&mut self) {
        if self.tick.is_none() {
            return;
        }
        self.report.fault("tickerplant ended in order");
        self.with_tick(|tick| tick.service.plant.stop("shutting down on request", &mut tick.links));
        self.after_tick();
        if self.tick.is_some() {
            self.tick_dies(false, Promise::Process);
        }
        let ns = self.between(200 * MS, 3 * SECOND);
        self.after(ns, WorldEvent::TickStarts);
    }

    fn pause_tick(&mut self) {
        if self.tick.is_none() {
            return;
        }
        self.report.fault("tickerplant paused");
        self.tick_paused_until_ns = self.now_ns.saturating_add(self.rng.from(200 * MS, 6 * SECOND));
    }

    /// Cuts the power of the tickerplant's host, and so of the nodes on it.
    fn cut_power(&mut self) {
        self.report.fault("power cut");
        self.tick_dies(true, Promise::Power);
        let beside: Vec<NodeKey> =
            self.nodes.values().filter(|node| node.host == self.tick_host).map(|node| node.key).collect();
        for key in beside {
            self.node_restarts(key);
        }
        self.storage.power_cut();
        self.crash = Some(Promise::Power);
        let ns = self.between(SECOND, 8 * SECOND);
        self.after(ns, WorldEvent::TickStarts);
    }

    fn fill_disk(&mut self) {
        self.report.fault("disk full");
        let ns = self.between(300 * MS, 5 * SECOND);
        // One full disk in three also runs out of file descriptors, so that no log can be opened for reading.
        let no_more_files = ns.is_multiple_of(3);
        self.storage.set_faults(DiskFaults { full: true, no_more_files, ..self.storage.faults() });
        self.after(ns, WorldEvent::Over(Passing::DiskFull));
    }

    /// Hangs a host's file system: the threads that use it wait. A tickerplant without a sync thread stops altogether.
    fn hang_some_disk(&mut self) {
        let until_ns = self.now_ns.saturating_add(self.rng.from(SECOND, 25 * SECOND));
        let host = self.some_node().and_then(|key| self.nodes.get(&key)).map_or(self.tick_host, |node| node.host);
        if host != self.tick_host && self.plan.shared_disk && self.rng.percent(70) {
            self.report.fault("file system that hangs on a node's host");
            return self.storage.hang(host, until_ns);
        }
        if self.tick.is_none() {
            return;
        }
        if let Durability::Group(_) = self.plan.durability {
            self.report.fault("file system that hangs under the thread that syncs");
            self.storage.hang(self.tick_host, until_ns);
        } else {
            self.report.fault("file system that hangs under the tickerplant");
            self.tick_paused_until_ns = self.now_ns.saturating_add(self.rng.from(SECOND, 8 * SECOND));
        }
    }

    fn fail_sync(&mut self) {
        self.report.fault("sync that fails");
        self.storage.set_faults(DiskFaults { fail_sync: true, ..self.storage.faults() });
    }

    fn jump_clock(&mut self) {
        let (far, back) = (self.rng.percent(50), self.rng.percent(50));
        let (name, most_ns) = match (far, back) {
            (false, _) => ("clock that jumps", 30 * SECOND),
            (true, false) => ("clock that jumps hours ahead", 3 * 3_600 * SECOND),
            (true, true) => ("clock that jumps hours back", 3 * 3_600 * SECOND),
        };
        self.report.fault(name);
        let by_ns = self.between(0, most_ns);
        let for_ns = self.between(SECOND, 10 * SECOND);
        self.set_clock_off(by_ns, back, for_ns);
    }

    /// Sets the clock of the tickerplant's host off by `by_ns`, and back after `for_ns`.
    pub fn set_clock_off(&mut self, by_ns: u64, back: bool, for_ns: u64) {
        let by_ns = if back { by_ns.cast_signed().saturating_neg() } else { by_ns.cast_signed() };
        self.wall_ns = self.wall_ns.saturating_add(i128::from(by_ns));
        self.after(for_ns, WorldEvent::Over(Passing::SetClock(by_ns)));
        self.after_tick();
    }

    /// Ends a fault.
    pub fn passes(&mut self, passing: Passing) {
        match passing {
            Passing::Memory(key) => self.set_other_memory(key, 0),
            Passing::DiskFull => {
                self.storage.set_faults(DiskFaults { full: false, no_more_files: false, ..self.storage.faults() });
                // Every other one continues by itself.
                let continues = self.tick.as_ref().is_some_and(|tick| tick.service.plant.can_resume());
                match continues && self.now_ns.is_multiple_of(2) {
                    true => self.report.met("tickerplant that continues after a full disk"),
                    false => self.restart_failed_tick(),
                }
            }
            Passing::FleetCalls(group) => {
                if let Some(cloud) = self.clouds.get(group) {
                    cloud.lock().faults = CloudFaults::default();
                }
            }
            Passing::SlowLine(number) => {
                if let Some(line) = self.lines.get_mut(&number) {
                    line.slow_bytes = None;
                }
            }
            Passing::StalledLine(number) => {
                let (server_ns, client_ns) = (self.between(MS, 100 * MS), self.between(MS, 100 * MS));
                self.cut(number, Some(server_ns), Some(client_ns));
            }
            Passing::SetClock(by_ns) => {
                self.wall_ns = self.wall_ns.saturating_sub(i128::from(by_ns));
                self.after_tick();
            }
        }
    }

    /// Fills part of a node's memory, as a query, a client's variable or another program would, and frees it later. Standbys are picked
    /// more often: a full standby is noticed only when it should take a window.
    pub fn fill_some_node(&mut self) {
        let pause_ns = self.fills.from(SECOND, 6 * SECOND);
        self.after(pause_ns, WorldEvent::Fill);
        if !self.chaotic {
            return;
        }
        let waits = |node: &super::node::NodeProcess| node.shared.state().phase == Phase::Waiting;
        let only_standbys = self.fills.percent(60);
        let keys: Vec<NodeKey> =
            self.nodes.values().filter(|node| !only_standbys || waits(node)).map(|node| node.key).collect();
        let Some(key) = self.fills.pick(&keys).copied() else { return };
        self.report.fault("memory of a node filled by others");
        let bytes = self.plan.budget_bytes / 100 * self.fills.from(50, 130);
        let for_ns = self.fills.from(500 * MS, 20 * SECOND);
        self.set_other_memory(key, bytes);
        self.after(for_ns, WorldEvent::Over(Passing::Memory(key)));
    }

    fn set_other_memory(&mut self, key: NodeKey, bytes: u64) {
        if let Some(node) = self.nodes.get(&key) {
            node.shared.global_bytes.store(bytes.cast_signed(), Ordering::Relaxed);
        }
    }

    /// Restarts a tickerplant whose log has failed, as an operator would.
    pub fn restart_failed_tick(&mut self) {
        if self.tick.as_ref().is_some_and(|tick| tick.service.plant.failure().is_some()) {
            self.report.met("failed tickerplant restarted");
            self.tick_dies(false, Promise::Process);
            self.after(200 * MS, WorldEvent::TickStarts);
        }
    }

    /// Ends all faults and undoes their effects; none occur from here on.
    pub fn heal(&mut self) {
        self.chaotic = false;
        self.storage.set_faults(DiskFaults::default());
        self.storage.wake();
        self.contest.iter_mut().for_each(super::contest::Contest::heal);
        for cloud in &self.clouds {
            cloud.lock().faults = CloudFaults::default();
        }
        for line in self.lines.values_mut() {
            line.slow_bytes = None;
        }
        for key in self.nodes.keys().copied().collect::<Vec<_>>() {
            self.set_other_memory(key, 0);
        }
        if let Some(tick) = self.tick.as_mut() {
            tick.dies_in_turn = None;
        }
        self.surge_until_ns = 0;
        self.slow_net_until_ns = 0;
        self.restart_failed_tick();
    }
}
