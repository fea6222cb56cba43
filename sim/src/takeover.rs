//! Two tickerplants on one network file system: the server revokes the first one's locks, a second one continues the log on another host,
//! and the first one learns of it when it syncs or reads the lock file.
//!
//! From then on the first is the *old* one. Its events run with it swapped into the place of the present writer.

use super::audit::{Broken, Promise};
use super::tick::{LOG_DIR, TickProcess};
use super::world::{MS, SECOND, World, WorldEvent};
use elastick::log::Waker;
use std::sync::Arc;

/// Interval at which a tickerplant reads the writer in the lock file.
const LOOKS_EVERY_NS: u64 = SECOND;
/// First host number for replacement tickerplants; above those of nodes.
const FIRST_OTHER_HOST: u32 = 1 << 30;
/// Host without other processes.
const ANOTHER_HOST: u32 = u32::MAX;

/// A tickerplant that has lost its log, perhaps without noticing.
pub struct OldTick {
    tick: TickProcess,
    run: u32,
    paused_until_ns: u64,
    pub host: u32,
}

impl OldTick {
    pub fn paused_until_ns(&self) -> u64 {
        self.paused_until_ns
    }
}

impl World {
    /// The server revokes the locks, and another tickerplant starts.
    pub fn take_over(&mut self) {
        // Under a lease another one takes over by the lease only.
        if !self.plan.shared_disk || self.old.is_some() || self.tick.is_none() || self.contest.is_some() {
            return;
        }
        self.report.fault("log taken over by a second tickerplant");
        self.loses_log(FIRST_OTHER_HOST.saturating_add(self.next_process));
        let ns = self.between(20 * MS, 3 * SECOND);
        self.after(ns, WorldEvent::TickStarts);
    }

    /// The server revokes the writer's locks, for a process on the host `next`.
    pub fn loses_log(&mut self, next: u32) {
        let Some(tick) = self.tick.take() else { return };
        let host = std::mem::replace(&mut self.tick_host, next);
        self.storage.give_up(tick.number, next);
        // The old one itself may run on: only its path to the server need be down.
        let paused_until_ns = match self.rng.percent(50) {
            true => self.now_ns.saturating_add(self.rng.from(100 * MS, 4 * SECOND)),
            false => self.tick_paused_until_ns,
        };
        let run = self.tick_runs;
        self.old = Some(OldTick { tick, run, paused_until_ns, host });
        self.tick_paused_until_ns = 0;
        self.tick_runs = run.saturating_add(1);
        self.crash = Some(Promise::Power);
        self.taken_over = true;
        self.after(LOOKS_EVERY_NS, WorldEvent::Fence(run));
    }

    /// Starts a second tickerplant while the first one writes; it must be rejected.
    pub fn start_beside(&mut self) {
        if self.tick.is_none() || self.old.is_some() {
            return;
        }
        self.report.fault("second tickerplant started beside the first");
        let process = self.next_process;
        self.next_process = process.saturating_add(1);
        let host = if self.plan.shared_disk && self.rng.percent(50) { ANOTHER_HOST } else { self.tick_host };
        let process = self.process(host, process);
        self.enter();
        let waker: Waker = Arc::new(|| {});
        if self.try_to_start(&process, &waker, None).is_ok() {
            self.judge(Err(Broken(format!("a second tickerplant was let into {LOG_DIR}"))));
        }
    }

    /// Runs `act` at the tickerplant of a run: the old one or the present writer.
    pub fn at_run(&mut self, run: u32, act: impl FnOnce(&mut World)) {
        if run == self.tick_runs {
            return act(self);
        }
        let Some(old) = self.old.take_if(|old| old.run == run) else { return };
        let host = old.host;
        let tick = self.tick.replace(old.tick);
        let runs = std::mem::replace(&mut self.tick_runs, old.run);
        let paused_until_ns = std::mem::replace(&mut self.tick_paused_until_ns, old.paused_until_ns);
        let crash = self.crash;
        self.is_old = true;
        act(self);
        self.is_old = false;
        self.crash = crash;
        let (run, paused) = (self.tick_runs, self.tick_paused_until_ns);
        self.old =
            std::mem::replace(&mut self.tick, tick).map(|tick| OldTick { tick, run, paused_until_ns: paused, host });
        (self.tick_runs, self.tick_paused_until_ns) = (runs, paused_until_ns);
        if self.old.is_none() {
            self.report.met("tickerplant that had lost its log ended");
        }
    }

    /// One iteration of the old one's fence thread.
    pub fn check_writer(&mut self, run: u32) {
        if self.tick_paused_until_ns > self.now_ns {
            return self.at(self.tick_paused_until_ns, WorldEvent::Fence(run));
        }
        self.tick_syncs(run);
        self.after(LOOKS_EVERY_NS, WorldEvent::Fence(run));
    }

    /// Returns the run that new connections reach; for some time that may still be the old one.
    pub fn run_reached(&mut self) -> u32 {
        match self.old_run() {
            Some(run) if self.rng.percent(20) => run,
            _ => self.tick_runs,
        }
    }

    pub fn old_run(&self) -> Option<u32> {
        self.old.as_ref().map(|old| old.run)
    }

    pub fn line_run(&self, line: u64) -> u32 {
        self.lines.get(&line).map_or(self.tick_runs, |line| line.run)
    }
}
