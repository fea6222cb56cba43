//! Several tickerplants with one log directory and one lease: each runs the production core of the lease, and opens the log when the core
//! says that it is active. Nothing is decided here: calls are carried out, with faults.

use super::audit::{Broken, Promise};
use super::lease::{Defect, read, write};
use super::mutants::lease::planted_lease;
use super::plan::Plan;
use super::rng::Rng;
use super::world::{MS, SECOND, World, WorldEvent};
use elastick::lease::{Epoch, Lease, LeaseAction, LeaseEvent, LeaseRecord, LeaseWrite, Standing, Terms, Unanswered};
use std::collections::BTreeMap;

const TERMS: Terms = Terms {
    lease_ns: 3 * SECOND,
    heartbeat_ns: SECOND / 2,
    poll_ns: SECOND / 4,
    retry_ns: SECOND / 8,
    holds_without_store: false,
};

/// The terms that a tickerplant goes by.
fn terms(holds_without_store: bool) -> Terms {
    // What a mutant without a margin counts on is as long as what others wait.
    let without_margin = planted_lease() == Some(Defect::NoMargin);
    let lease_ns = if without_margin { TERMS.lease_ns * 6 / 5 } else { TERMS.lease_ns };
    Terms { lease_ns, holds_without_store, ..TERMS }
}

/// Time after which a call has no answer.
const CALL_NS: u64 = SECOND / 2;
/// First host of tickerplants on a network file system; above those of nodes.
const FIRST_HOST: u32 = 1 << 29;
/// Process number for revoking the locks of a process that has ended. Processes are numbered upwards from 0, feeds downwards from the maximum.
const GONE: u32 = u32::MAX - (1 << 16);

/// What happens to a tickerplant or the store. A tickerplant is a place and the number of its process there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Contention {
    /// A deadline of the lease.
    Deadline(usize, u32),
    /// The store executes a call.
    Executes(u64),
    /// The answer to a call arrives.
    Answered(u64),
    /// A call counts as unanswered.
    Unanswered(u64),
    /// The active one tries to open the log.
    Opens(usize, u32),
    /// The one that has stepped down has closed the log.
    Closed(usize, u32),
    /// Dead processes are started again; while faults occur, one of the store or of a tickerplant begins.
    Second,
}

struct Call {
    at: usize,
    process: u32,
    write: Option<LeaseWrite>,
    answer: Option<LeaseEvent>,
    is_lost: bool,
}

struct Member {
    host: u32,
    /// Rate of its clock, in thousandths of virtual time.
    rate: u64,
    process: u32,
    /// `None` while the process is dead.
    lease: Option<Lease>,
    /// Run under which it has opened the log.
    run: Option<u32>,
    call: Option<u64>,
    paused_until_ns: u64,
    cut_until_ns: u64,
}

/// The tickerplants, the store and its faults.
pub struct Contest {
    rng: Rng,
    /// Whether the active tickerplant keeps its role while the store of the lease is unreachable (`--lease-failsafe`): only the log's lock and
    /// epoch then keep others from writing.
    holds: bool,
    members: Vec<Member>,
    record: Option<LeaseRecord>,
    calls: BTreeMap<u64, Call>,
    drawn: u64,
    led: Epoch,
    /// Nights, which no clock counts.
    skipped_ns: u64,
    slow_until_ns: u64,
    away_until_ns: u64,
    throttled_until_ns: u64,
}

impl Contest {
    /// `None` for a single tickerplant, which has no lease.
    pub fn of(seed: u64, plan: &Plan) -> Option<Contest> {
        if plan.tickerplants < 2 {
            return None;
        }
        let mut rng = Rng::new(seed ^ 0x6c65_6173_6573);
        let hosts = (0..u32::try_from(plan.tickerplants).unwrap_or(u32::MAX)).map(|at| match plan.shared_disk {
            true => FIRST_HOST.saturating_add(at),
            false => super::disk::TICK_HOST,
        });
        let members = hosts.map(|host| Member {
            host,
            // The fastest clock runs a fifth faster than the slowest.
            rate: rng.from(910, 1090),
            process: 0,
            lease: None,
            run: None,
            call: None,
            paused_until_ns: 0,
            cut_until_ns: 0,
        });
        let members = members.collect();
        Some(Contest {
            members,
            holds: rng.percent(50),
            rng,
            record: None,
            calls: BTreeMap::new(),
            drawn: 0,
            led: Epoch(0),
            skipped_ns: 0,
            slow_until_ns: 0,
            away_until_ns: 0,
            throttled_until_ns: 0,
        })
    }

    pub fn skip(&mut self, ns: u64) {
        self.skipped_ns = self.skipped_ns.saturating_add(ns);
    }

    /// Ends all faults.
    pub fn heal(&mut self) {
        (self.slow_until_ns, self.away_until_ns, self.throttled_until_ns) = (0, 0, 0);
        self.members.iter_mut().for_each(|member| member.cut_until_ns = 0);
    }

    /// A process's own time.
    fn local_ns(&self, at: usize, now_ns: u64) -> u64 {
        let rate = self.members.get(at).map_or(1000, |member| member.rate);
        now_ns.saturating_sub(self.skipped_ns) / 1000 * rate
    }

    /// The process at a place, if it is this one and lives.
    fn living(&mut self, at: usize, process: u32) -> Option<&mut Member> {
        self.members.get_mut(at).filter(|member| member.process == process && member.lease.is_some())
    }
}

impl World {
    pub fn contends(&mut self, event: Contention) {
        self.bury_dead();
        match event {
            Contention::Second => return self.contest_second(),
            Contention::Executes(number) => return self.store_executes(number),
            _ => {}
        }
        let Some(contest) = &self.contest else { return };
        let of_call = |number| contest.calls.get(&number).map(|call| (call.at, call.process));
        let of = match event {
            Contention::Deadline(at, process) | Contention::Opens(at, process) | Contention::Closed(at, process) => {
                Some((at, process))
            }
            Contention::Answered(number) | Contention::Unanswered(number) => of_call(number),
            Contention::Second | Contention::Executes(_) => None,
        };
        let Some((at, process)) = of else { return };
        let paused_until_ns = self.contender_paused_until_ns(at);
        if paused_until_ns > self.now_ns {
            return self.at(paused_until_ns, WorldEvent::Contention(event));
        }
        let now_ns = self.now_ns;
        let Some(contest) = &mut self.contest else { return };
        let local_ns = contest.local_ns(at, now_ns);
        let Some(member) = contest.living(at, process) else { return };
        match event {
            Contention::Deadline(..) => {
                let due_ns = member.lease.as_ref().and_then(Lease::next_deadline_ns);
                if due_ns.is_some_and(|due_ns| due_ns <= local_ns) {
                    self.lease_steps(at, LeaseEvent::Tick);
                }
            }
            Contention::Closed(..) => self.lease_steps(at, LeaseEvent::Closed),
            Contention::Opens(..) => self.opens_log(at),
            Contention::Answered(number) | Contention::Unanswered(number) => {
                let is_present = member.call.take_if(|call| *call == number).is_some();
                let Some(call) = contest.calls.get_mut(&number).filter(|_| is_present) else { return };
                let none = match call.write {
                    Some(_) => LeaseEvent::Wrote(Err(Unanswered)),
                    None => LeaseEvent::Read(Err(Unanswered)),
                };
                let answer = call.answer.take().filter(|_| matches!(event, Contention::Answered(_)));
                self.lease_steps(at, answer.unwrap_or(none));
            }
            Contention::Second | Contention::Executes(_) => {}
        }
    }

    /// A process whose tickerplant has died is dead.
    fn bury_dead(&mut self) {
        let (run, old) = (self.tick.as_ref().map(|_| self.tick_runs), self.old_run());
        let Some(contest) = &mut self.contest else { return };
        for member in &mut contest.members {
            if member.run.is_some() && member.run != run && member.run != old {
                (member.lease, member.run, member.call) = (None, None, None);
            }
        }
    }

    fn contender_paused_until_ns(&self, at: usize) -> u64 {
        let Some(member) = self.contest.as_ref().and_then(|contest| contest.members.get(at)) else { return 0 };
        match member.run {
            Some(run) if run == self.tick_runs => self.tick_paused_until_ns,
            Some(_) => self.old.as_ref().map_or(0, super::takeover::OldTick::paused_until_ns),
            None => member.paused_until_ns,
        }
    }

    /// Performs a step of a lease and carries out its actions.
    fn lease_steps(&mut self, at: usize, event: LeaseEvent) {
        let now_ns = self.now_ns;
        let Some(contest) = &mut self.contest else { return };
        let local_ns = contest.local_ns(at, now_ns);
        let Some(member) = contest.members.get_mut(at) else { return };
        let (process, rate) = (member.process, member.rate);
        let Some(lease) = member.lease.as_mut() else { return };
        let actions = lease.step(event, local_ns);
        for action in actions {
            match action {
                LeaseAction::Read => self.calls_store(at, None),
                LeaseAction::Write(write) => self.calls_store(at, Some(write)),
                LeaseAction::Lead(epoch) => {
                    self.leads(at, epoch);
                    let ns = self.contest_draw(MS, 200 * MS);
                    self.after(ns, WorldEvent::Contention(Contention::Opens(at, process)));
                }
                LeaseAction::StepDown(_) => {
                    self.report.met("tickerplant stepped down");
                    self.steps_down(at);
                    let ns = self.contest_draw(MS, 300 * MS);
                    self.after(ns, WorldEvent::Contention(Contention::Closed(at, process)));
                }
                LeaseAction::Danger { .. } => self.report.met("lease renewed late"),
                LeaseAction::Hold => self.report.met("active tickerplant holds on without the lease's store"),
                LeaseAction::Safe | LeaseAction::Copies { .. } => {}
            }
        }
        let lease = self.contest.as_ref().and_then(|contest| contest.members.get(at)).and_then(|of| of.lease.as_ref());
        if let Some(due_ns) = lease.and_then(Lease::next_deadline_ns) {
            let ns = due_ns.saturating_sub(local_ns).saturating_mul(1000) / rate.max(1);
            self.after(ns.saturating_add(2000), WorldEvent::Contention(Contention::Deadline(at, process)));
        }
    }

    fn contest_draw(&mut self, first_ns: u64, last_ns: u64) -> u64 {
        self.contest.as_mut().map_or(first_ns, |contest| contest.rng.from(first_ns, last_ns))
    }

    /// Audits a process that becomes active: its epoch is above all before, and no other one that runs counts on its lease.
    fn leads(&mut self, at: usize, epoch: Epoch) {
        self.report.met("tickerplant has the lease");
        let Some(contest) = &self.contest else { return };
        let has_lease = |(of, member): (usize, &Member)| {
            let lease = member.lease.as_ref().filter(|lease| matches!(lease.standing(), Standing::Active(_)));
            let end_ns =
                lease.and_then(Lease::renewed_ns).map_or(0, |ns| ns.saturating_add(terms(contest.holds).usable_ns()));
            end_ns > contest.local_ns(of, self.now_ns) && self.contender_paused_until_ns(of) <= self.now_ns
        };
        let has_own = contest.members.get(at).is_some_and(|member| has_lease((at, member)));
        if contest.holds && !has_own {
            // Its lease is over: it goes on by the lock of the log alone, which decides.
            return self.report.met("active tickerplant has a higher epoch, and its lease is over");
        }
        let others = contest.members.iter().enumerate().filter(|of| of.0 != at && has_lease(*of)).count();
        let grows = epoch > contest.led;
        if let Some(contest) = &mut self.contest {
            contest.led = contest.led.max(epoch);
        }
        if others > 0 {
            self.judge(Err(Broken(format!("two tickerplants have the lease, one of them under epoch {epoch}"))));
        }
        if !grows {
            self.judge(Err(Broken(format!("a tickerplant has the lease under epoch {epoch} again"))));
        }
    }

    fn calls_store(&mut self, at: usize, write: Option<LeaseWrite>) {
        let (now_ns, chaotic) = (self.now_ns, self.chaotic);
        let Some(contest) = &mut self.contest else { return };
        contest.drawn = contest.drawn.saturating_add(1);
        let number = contest.drawn;
        let is_slow = contest.slow_until_ns > now_ns;
        let latency_ns = contest.rng.from(MS, if is_slow { SECOND } else { 20 * MS });
        let fate = contest.rng.below(40);
        let is_away = contest.away_until_ns > now_ns;
        let is_throttled = contest.throttled_until_ns > now_ns && contest.rng.percent(60);
        let Some(member) = contest.members.get_mut(at) else { return };
        member.call = Some(number);
        let is_cut = member.cut_until_ns > now_ns;
        let is_write = write.is_some();
        let is_lost = chaotic && fate == 0;
        let is_late = chaotic && is_write && fate == 1;
        contest.calls.insert(number, Call { at, process: member.process, write, answer: None, is_lost });
        self.after(CALL_NS, WorldEvent::Contention(Contention::Unanswered(number)));
        let fault = match (is_away, is_cut, is_throttled) {
            (true, ..) => Some("call of the lease's store that is away"),
            (_, true, _) => Some("call of the lease's store that is cut off"),
            (_, _, true) => Some("call of the lease's store throttled"),
            _ => None,
        };
        if let Some(fault) = fault {
            self.report.fault(fault);
            if is_throttled {
                self.after(latency_ns, WorldEvent::Contention(Contention::Answered(number)));
            }
            return;
        }
        if is_slow {
            self.report.fault("call of a slow store of leases");
        }
        let late_ns = if is_late { self.contest_draw(CALL_NS, 8 * SECOND) } else { 0 };
        if is_late {
            self.report.fault("write applied late by the lease's store");
        }
        self.after(latency_ns.saturating_add(late_ns), WorldEvent::Contention(Contention::Executes(number)));
    }

    fn store_executes(&mut self, number: u64) {
        let Some(contest) = &mut self.contest else { return };
        let Some(call) = contest.calls.get_mut(&number) else { return };
        let me = owner(call.at, call.process);
        let answer = match &call.write {
            None => LeaseEvent::Read(Ok(read(contest.record.as_ref(), &me, planted_lease()))),
            Some(by) => LeaseEvent::Wrote(Ok(write(&mut contest.record, &me, TERMS.lease_ns, by, planted_lease()))),
        };
        if call.is_lost {
            return self.report.fault("answer of the lease's store lost");
        }
        call.answer = Some(answer);
        let ns = contest.rng.from(MS, 20 * MS);
        self.after(ns, WorldEvent::Contention(Contention::Answered(number)));
    }

    /// The active one opens the log, once it has its lock: the former writer has ended, or the file server has taken the lock from it.
    fn opens_log(&mut self, at: usize) {
        let Some(member) = self.contest.as_ref().and_then(|contest| contest.members.get(at)) else { return };
        let (host, process, opened) = (member.host, member.process, member.run);
        let standing = member.lease.as_ref().map(Lease::standing);
        let Some(Standing::Active(epoch)) = standing.filter(|_| opened.is_none()) else { return };
        // One that comes too late may have the lock revoked as well, and the writer would learn of it at its next write: at rest there is none.
        let is_latest = self.contest.as_ref().is_some_and(|contest| epoch >= contest.led);
        if self.tick.is_some() && self.plan.shared_disk && self.old.is_none() && is_latest {
            self.report.fault("lock of a tickerplant without a lease revoked");
            self.loses_log(host);
        }
        if self.tick.is_none() {
            if host != self.tick_host {
                self.storage.give_up(GONE, host);
                self.tick_host = host;
                self.crash = Some(Promise::Power);
                self.taken_over = true;
            }
            match self.tick_opens(Some(epoch.0)) {
                Ok(()) => {
                    let run = self.tick_runs;
                    let member = self.contest.as_mut().and_then(|contest| contest.members.get_mut(at));
                    member.into_iter().for_each(|member| member.run = Some(run));
                    return self.report.met("log opened under a lease");
                }
                Err(Some(stored)) => {
                    self.report.met("log with a later epoch than the lease");
                    return self.lease_steps(at, LeaseEvent::LogEpoch(Epoch(stored)));
                }
                Err(None) => {}
            }
        }
        self.after(100 * MS, WorldEvent::Contention(Contention::Opens(at, process)));
    }

    /// A process closes its log: its lease is lost, or given back.
    fn steps_down(&mut self, at: usize) {
        let member = self.contest.as_mut().and_then(|contest| contest.members.get_mut(at));
        let Some(run) = member.and_then(|member| member.run.take()) else { return };
        if self.old_run() == Some(run) {
            self.report.met("replaced tickerplant stepped down after the take-over");
        }
        self.at_run(run, |world| {
            // Once it is closed, it does not show its log any more.
            world.audit_log();
            world.with_tick(|tick| tick.service.plant.stop("stepping down", &mut tick.links));
            world.after_tick();
            world.tick_dies(false, Promise::Process);
        });
    }

    fn contest_second(&mut self) {
        self.after(SECOND, WorldEvent::Contention(Contention::Second));
        let now_ns = self.now_ns;
        let Some(contest) = &mut self.contest else { return };
        contest.calls.retain(|number, _| number.saturating_add(1000) > contest.drawn);
        let mut started = Vec::new();
        for at in 0..contest.members.len() {
            let local_ns = contest.local_ns(at, now_ns);
            let starts = contest.rng.percent(50);
            let Some(member) = contest.members.get_mut(at).filter(|of| of.lease.is_none() && starts) else { continue };
            member.process = member.process.saturating_add(1);
            member.lease = Some(Lease::new(owner(at, member.process), terms(contest.holds), local_ns));
            started.push(at);
        }
        started.into_iter().for_each(|at| self.lease_steps(at, LeaseEvent::Tick));
        self.leave_logs();
        if self.chaotic && self.plan.faults.every_ns().is_some() {
            self.contest_fault();
        }
    }

    /// Those that cannot write the log any more step down, as the event loop of the service lets them.
    fn leave_logs(&mut self) {
        let count = self.contest.as_ref().map_or(0, |contest| contest.members.len());
        for at in 0..count {
            let member = self.contest.as_ref().and_then(|contest| contest.members.get(at));
            let Some(run) = member.and_then(|member| member.run) else { continue };
            if self.contender_paused_until_ns(at) > self.now_ns {
                continue;
            }
            let mut leaves = false;
            self.at_run(run, |world| {
                leaves = world.tick.as_ref().is_some_and(|tick| tick.service.plant.leaves_log().is_some());
            });
            if leaves {
                self.report.met("tickerplant left a log that it could not write");
                self.lease_steps(at, LeaseEvent::StepDown { successor: None });
            }
        }
    }

    fn contest_fault(&mut self) {
        let now_ns = self.now_ns;
        let Some(contest) = &mut self.contest else { return };
        let until_ns = now_ns.saturating_add(contest.rng.from(SECOND, 6 * SECOND));
        let kind = contest.rng.below(40);
        let at = usize::try_from(contest.rng.below(contest.members.len() as u64)).unwrap_or(0);
        let active = contest.members.iter().position(|member| member.run == Some(self.tick_runs));
        match kind {
            0 => contest.slow_until_ns = until_ns,
            1 => contest.away_until_ns = until_ns,
            2 => contest.throttled_until_ns = until_ns,
            3..=4 => contest.members.get_mut(at).into_iter().for_each(|member| member.cut_until_ns = until_ns),
            5..=6 => {
                self.report.fault("tickerplant with the lease paused for longer than it");
                self.tick_paused_until_ns =
                    now_ns.saturating_add(until_ns.saturating_sub(now_ns)).saturating_add(3 * SECOND);
            }
            7..=8 => {
                let Some(active) = active.filter(|active| *active != at) else { return };
                let successor =
                    contest.members.get(at).and_then(|of| of.lease.as_ref()).map(|of| of.name().to_string());
                self.report.fault("planned hand-over");
                self.lease_steps(active, LeaseEvent::StepDown { successor });
            }
            9 if active != Some(at) => {
                self.report.fault("passive tickerplant killed");
                let Some(member) = contest.members.get_mut(at).filter(|member| member.run.is_none()) else { return };
                (member.lease, member.call) = (None, None);
            }
            10 if active != Some(at) => {
                self.report.fault("passive tickerplant paused");
                contest.members.get_mut(at).into_iter().for_each(|member| member.paused_until_ns = until_ns);
            }
            _ => {}
        }
    }
}

/// Name of a process in the record.
fn owner(at: usize, process: u32) -> String {
    format!("tick{at}:5010/{process}")
}
