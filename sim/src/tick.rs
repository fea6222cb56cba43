//! The tickerplant's process: production's service over simulated connections and disk, one event-loop iteration at a time.

use super::audit::Promise;
use super::hosts;
use super::line::Packet;
use super::links::{LinkAction, TickLinks};
use super::mutants;
use super::process::Process;
use super::transitions;
use super::world::{MS, SECOND, World, WorldEvent};
use elastick::config::{Damage, RequiredMount};
use elastick::log::{Contender, Locked, LogError, Waker};
use elastick::net::ConnId;
use elastick::queue::Params;
use elastick::sys::clock::Clock as _;
use elastick::tick::plant::{Plant, PlantOptions, StartError};
use elastick::tick::service::TickService;
use proto::{Compression, FrameReader, Header, MessageKind, compress};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Directory of the log.
pub const LOG_DIR: &str = "/logs";

/// A running tickerplant.
pub struct TickProcess {
    pub service: TickService,
    pub links: TickLinks,
    pub process: Process,
    /// Its number among the processes of a run.
    pub number: u32,
    woken: Arc<AtomicBool>,
    turn_open: bool,
    work_due: bool,
    sync_due: bool,
    pub timer_at_ns: Option<u64>,
    /// Set to kill it after an iteration's log write, before any output leaves; the value is the delay until it restarts.
    pub dies_in_turn: Option<u64>,
    seen: transitions::Seen,
    pub proofs: super::proofs::Seen,
}

impl World {
    /// An operator or a supervisor starts the tickerplant.
    pub fn tick_starts(&mut self) {
        // Under a lease the process that has it opens the log.
        if self.tick.is_some() || self.contest.is_some() {
            return;
        }
        if self.tick_opens(None).is_err() {
            self.after(SECOND, WorldEvent::TickStarts);
        }
    }

    /// Opens the log and serves, under the epoch of a lease if there is one.
    ///
    /// # Errors
    /// The tickerplant does not start; the log's epoch if that is why.
    pub fn tick_opens(&mut self, epoch: Option<u64>) -> Result<(), Option<u64>> {
        self.tick_runs = self.tick_runs.saturating_add(1);
        self.tick_paused_until_ns = 0;
        let number = self.next_process;
        self.next_process = number.saturating_add(1);
        let process = self.process(self.tick_host, number);
        self.enter();
        let woken = Arc::new(AtomicBool::new(false));
        let of_waker = Arc::clone(&woken);
        let waker: Waker = Arc::new(move || of_waker.store(true, Ordering::Relaxed));
        let codec = self.codec();
        let plant = match self.try_to_start(&process, &waker, epoch) {
            Ok(plant) => plant,
            Err(error) => {
                self.trace.say(|| format!("the tickerplant does not start: {error}"));
                return Err(match error {
                    StartError::Log(LogError::StaleEpoch { stored, .. }) => Some(stored),
                    _ => None,
                });
            }
        };
        let (_, watched) = std::sync::mpsc::channel();
        let options = hosts::service_options(codec);
        let service = match TickService::new(&process.env, plant, options, waker, Arc::default(), watched) {
            Ok(service) => service,
            Err(_) => return Err(None),
        };
        let proofs = super::proofs::Seen::of(&service.plant);
        let outbox_most_bytes = usize::try_from(self.plan.tick_limits().outbox_bytes).unwrap_or(usize::MAX);
        self.tick = Some(TickProcess {
            links: TickLinks::new(Arc::clone(&process.env.clock), codec, outbox_most_bytes),
            service,
            process,
            number,
            woken,
            turn_open: false,
            work_due: false,
            sync_due: false,
            timer_at_ns: None,
            dies_in_turn: None,
            seen: transitions::Seen::since(self.table_date),
            proofs,
        });
        self.report.met("tickerplant started");
        self.written_after_restart();
        if let Some(crash) = self.crash.take() {
            let taken_over = std::mem::take(&mut self.taken_over);
            // This tickerplant did not end the day of the last log, so `audit_log` must not follow that log to its end.
            self.last_log = None;
            let today = self.tick.as_ref().map(|tick| tick.service.plant.queue().date().0);
            if crash == Promise::Power {
                self.table_is_restored();
            }
            let judged = self.auditor.restarted(&self.storage, crash, taken_over, today);
            self.judge(judged);
        }
        self.after_tick();
        Ok(())
    }

    fn codec(&self) -> proto::Limits {
        let limits = self.plan.tick_limits();
        proto::Limits {
            max_message_bytes: limits.message_bytes,
            max_decompressed_bytes: limits.decompressed_bytes,
            max_depth: 64,
        }
    }

    /// Starts a tickerplant in a process; repairs a damaged log as an operator would.
    pub fn try_to_start(&mut self, process: &Process, waker: &Waker, epoch: Option<u64>) -> Result<Plant, StartError> {
        let options = |damage| PlantOptions {
            src: "sym".to_string(),
            dir: Some(PathBuf::from(LOG_DIR)),
            address: None,
            lease: self.contest.is_some().then(|| "sim".to_string()),
            tenure: None,
            copy: None,
            durability: self.plan.durability,
            replica_timeout: std::time::Duration::ZERO,
            replica_missing: elastick::config::ReplicaMissing::Continue,
            damage,
            keep_days: None,
            mount: RequiredMount::Any,
            batch: self.plan.batch,
            roll: self.plan.roll.clone(),
            today: None,
            block_writes: false,
            coerce: false,
            nodes: super::sleep::node_fleet(&self.plan, &self.clouds, process),
            calendar: None,
            secret: None,
            limits: self.plan.tick_limits(),
            queue: mutants::tick::params(
                self.plan.sleep_params(Params { standbys_kept: self.plan.standbys_kept, ..Params::default() }),
            ),
        };
        let tables = super::schemas::tables(self.schemas.file);
        for path in mutants::tick::lost_files(self.storage.paths()) {
            self.storage.remove(&path);
        }
        let env = || process.env.clone();
        let start = |damage, epoch: Option<u64>| {
            let (options, dir) = (options(damage), Path::new(LOG_DIR));
            let locked = match epoch {
                Some(_) => Contender::make(options.log(&process.env, dir, waker)?)?.attempt(epoch)?,
                None => Locked::take(&options.log(&process.env, dir, waker)?)?,
            };
            Plant::start_locked(Some(locked), env(), options, Arc::clone(&tables), Arc::clone(waker))
        };
        let started = start(Damage::Stop, epoch);
        let Err(error) = started else { return started };
        self.trace.say(|| format!("the tickerplant does not start: {error}"));
        self.report.fault("start rejected");
        if error.to_string().contains("damage") || error.to_string().contains("bytes") {
            // The operator keeps what precedes the damage.
            let repaired = start(Damage::KeepBefore, None);
            // The rejected start has used up the epoch of the lease: the repaired log is opened under the next one.
            return if epoch.is_some() { Err(error) } else { repaired };
        }
        Err(error)
    }

    /// The tickerplant receives bytes of a connection.
    pub fn tick_receives(&mut self, conn: ConnId, bytes: &[u8]) {
        if let Some(end) = self.tick.as_mut().and_then(|tick| tick.links.end_mut(conn)) {
            end.frames.extend(bytes);
        }
        self.tick_reads(conn);
        self.open_turn();
    }

    /// Handles the complete messages of a connection, unless it waits for a response.
    fn tick_reads(&mut self, conn: ConnId) {
        self.enter();
        let limits = proto::Limits::default();
        loop {
            let Some(tick) = self.tick.as_mut() else { return };
            let Some(end) = tick.links.end_mut(conn).filter(|end| !end.paused) else { return };
            let mut frames = std::mem::replace(&mut end.frames, FrameReader::new(limits));
            let message = frames.next().ok().flatten().map(|(header, message)| (header, plain(&header, message)));
            if let Some(end) = tick.links.end_mut(conn) {
                end.frames = frames;
            }
            let Some((header, body)) = message else { return };
            tick.links.request = if header.kind == MessageKind::Sync { tick.links.ask(conn) } else { None };
            mutants::tick::handle(&mut tick.service, conn, &header, &body, &mut tick.links);
            tick.links.request = None;
            // What is needed between two messages of a turn may be requested then, and not be needed at the end of the turn.
            self.note_needed();
        }
    }

    fn open_turn(&mut self) {
        let run = self.tick_runs;
        let Some(tick) = self.tick.as_mut() else { return };
        if !std::mem::replace(&mut tick.turn_open, true) {
            let ns = self.rng.below(200_000);
            self.after(ns, WorldEvent::TurnEnds(run));
        }
    }

    /// Returns whether an event is for this run and the tickerplant is not paused; a paused one gets the event later.
    pub fn is_up(&mut self, run: u32, event: WorldEvent) -> bool {
        if self.tick.is_none() || run != self.tick_runs {
            return false;
        }
        if self.tick_paused_until_ns > self.now_ns {
            self.at(self.tick_paused_until_ns, event);
            return false;
        }
        true
    }

    pub fn turn_ends(&mut self, run: u32) {
        if !self.is_up(run, WorldEvent::TurnEnds(run)) {
            return;
        }
        self.with_tick(|tick| {
            tick.turn_open = false;
            tick.service.plant.end_iteration(&mut tick.links);
        });
        self.after_tick();
    }

    pub fn tick_timer(&mut self, run: u32) {
        if !self.is_up(run, WorldEvent::TickTimer(run)) {
            return;
        }
        let now_ns = self.now_ns;
        let due = self.tick.as_ref().and_then(|tick| tick.timer_at_ns).is_some_and(|at| at <= now_ns);
        if !due {
            return;
        }
        self.with_tick(|tick| {
            tick.timer_at_ns = None;
            tick.service.plant.timer(&mut tick.links);
            tick.service.plant.end_iteration(&mut tick.links);
        });
        self.after_tick();
    }

    /// Runs one iteration of the threads beside the event loop.
    pub fn tick_works(&mut self, run: u32) {
        if !self.is_up(run, WorldEvent::TickWork(run)) {
            return;
        }
        let hangs_until_ns = self.storage.hangs_until_ns(self.tick_host);
        if hangs_until_ns > self.now_ns {
            return self.at(hangs_until_ns, WorldEvent::TickWork(run));
        }
        self.with_tick(|tick| {
            tick.work_due = false;
            // The work may wait for results of the sync thread.
            tick.process.sync();
            tick.process.work();
        });
        self.come_round();
    }

    pub fn tick_syncs(&mut self, run: u32) {
        if !self.is_up(run, WorldEvent::TickSync(run)) {
            return;
        }
        let hangs_until_ns = self.storage.hangs_until_ns(self.tick_host);
        if hangs_until_ns > self.now_ns {
            return self.at(hangs_until_ns, WorldEvent::TickSync(run));
        }
        self.with_tick(|tick| {
            tick.sync_due = false;
            tick.process.sync();
        });
        self.come_round();
    }

    fn come_round(&mut self) {
        self.with_tick(|tick| {
            tick.woken.store(false, Ordering::Relaxed);
            tick.links.from_log = true;
            tick.service.come_round(&mut tick.links);
            tick.links.from_log = false;
            tick.service.plant.end_iteration(&mut tick.links);
        });
        self.after_tick();
    }

    pub fn with_tick(&mut self, act: impl FnOnce(&mut TickProcess)) {
        if self.tick.is_none() {
            return;
        }
        self.enter();
        if let Some(tick) = self.tick.as_mut() {
            act(tick);
        }
    }

    /// A connection is lost.
    pub fn tick_loses(&mut self, conn: ConnId) {
        self.with_tick(|tick| {
            if tick.links.remove(conn).is_some() {
                mutants::tick::closed(&mut tick.service.plant, conn, &mut tick.links);
                tick.service.plant.end_iteration(&mut tick.links);
            }
        });
        self.after_tick();
    }

    /// A peer has drained bytes.
    pub fn drained(&mut self, conn: ConnId, bytes: usize) {
        let Some(tick) = self.tick.as_mut() else { return };
        if let Some(end) = tick.links.end_mut(conn) {
            end.outbox_bytes = end.outbox_bytes.saturating_sub(bytes);
            if end.notify_below.is_some_and(|below| end.outbox_bytes <= below) {
                self.after_tick();
            }
        }
    }

    /// After the tickerplant's code has run: audits its log writes, sends its output and schedules its timers.
    pub fn after_tick(&mut self) {
        self.enter();
        self.audit_log();
        if let Some(tick) = self.tick.as_ref().filter(|_| !self.is_old) {
            self.auditor.log_has_failed(tick.service.plant.failure().is_some());
        }
        let dies = self.tick.as_ref().filter(|tick| !tick.links.actions.is_empty()).and_then(|tick| tick.dies_in_turn);
        if let Some(back_in_ns) = dies {
            self.report.fault("tickerplant killed between log and publish");
            self.tick_dies(false, Promise::Process);
            return self.after(back_in_ns, WorldEvent::TickStarts);
        }
        loop {
            let Some(tick) = self.tick.as_mut() else { return };
            let actions = std::mem::take(&mut tick.links.actions);
            let notices = if actions.is_empty() { tick.links.take_notices() } else { Vec::new() };
            let resumed = std::mem::take(&mut tick.links.resumed);
            if actions.is_empty() && notices.is_empty() && resumed.is_empty() {
                break;
            }
            for wish in actions {
                self.grant(wish);
            }
            for conn in notices {
                self.with_tick(|tick| tick.service.plant.writable(conn, &mut tick.links));
            }
            for conn in resumed {
                self.tick_reads(conn);
                self.open_turn();
            }
        }
        self.note_transitions();
        if self.tick.as_ref().is_some_and(|tick| tick.links.stopping) {
            self.report.met("tickerplant ended by itself");
            self.tick_dies(false, Promise::Process);
            return self.after(SECOND, WorldEvent::TickStarts);
        }
        self.note_deadlines();
        self.note_fleet();
    }

    fn grant(&mut self, wish: LinkAction) {
        match wish {
            LinkAction::Send(conn, bytes) => {
                let line = self.tick.as_ref().and_then(|tick| tick.links.end(conn)).map(|end| end.line);
                if let Some(line) = line {
                    self.send_down(line, Packet::Data(bytes));
                }
            }
            LinkAction::Close(conn, reason) => {
                let Some(end) = self.tick.as_mut().and_then(|tick| tick.links.remove(conn)) else { return };
                self.trace.say(|| format!("the tickerplant closes {}: {reason}", conn.handle()));
                self.report.met("connection closed by the tickerplant");
                if let Some(line) = self.lines.get_mut(&end.line) {
                    line.server_knows = true;
                }
                self.send_down(end.line, Packet::End);
                self.with_tick(|tick| mutants::tick::closed(&mut tick.service.plant, conn, &mut tick.links));
            }
        }
    }

    fn note_deadlines(&mut self) {
        let run = self.tick_runs;
        let Some(tick) = self.tick.as_mut() else { return };
        let mut events = Vec::new();
        let has_work = tick.woken.swap(false, Ordering::Relaxed) || tick.process.work_is_due();
        if has_work && !std::mem::replace(&mut tick.work_due, true) {
            events.push((self.rng.from(50_000, 3 * MS), WorldEvent::TickWork(run)));
        }
        if tick.process.sync_is_due() && !std::mem::replace(&mut tick.sync_due, true) {
            events.push((self.rng.from(MS, 30 * MS), WorldEvent::TickSync(run)));
        }
        let wait = tick.service.plant.deadline().map(|at| at.saturating_duration_since(self.clock.now()));
        if let Some(wait) = wait {
            let ns = u64::try_from(wait.as_nanos()).unwrap_or(SECOND);
            let at_ns = self.now_ns.saturating_add(ns.min(3_600 * SECOND)).saturating_add(1);
            if tick.timer_at_ns.is_none_or(|old| at_ns < old || old <= self.now_ns) {
                tick.timer_at_ns = Some(at_ns);
                events.push((at_ns.saturating_sub(self.now_ns), WorldEvent::TickTimer(run)));
            }
        }
        events.into_iter().for_each(|(ns, event)| self.after(ns, event));
    }

    /// The auditor follows the log.
    pub fn audit_log(&mut self) {
        // Writes of a tickerplant that has lost its log no longer count.
        let Some(tick) = self.tick.as_ref().filter(|_| !self.is_old) else { return };
        let Some(log) = tick.service.plant.log() else { return };
        let (path, date) = (log.path().to_path_buf(), tick.service.plant.queue().date().0);
        let log_date = elastick::tick::clock::day_number(log.date()).0;
        // During the end of a day, log and queue are of different dates.
        if log_date >= date {
            let before = self.last_log.replace((path.clone(), log_date));
            if let Some((before, of)) = before.filter(|(before, _)| *before != path) {
                // Yesterday's last updates were written in the iteration that ended the day.
                let judged = self.auditor.follow(&self.storage, &before, of, self.tick_runs);
                self.judge(judged);
            }
            let judged = self.auditor.follow(&self.storage, &path, log_date, self.tick_runs);
            self.judge(judged);
        }
    }

    fn note_transitions(&mut self) {
        self.note_needed();
        if let Some(tick) = self.tick.as_mut() {
            let queue = tick.service.plant.queue();
            let changes = tick.seen.look(queue, &mut self.report);
            let plant = &tick.service.plant;
            self.table_date = queue.date().0;
            let judged = super::audit::queues::check(queue).and_then(|()| {
                super::audit::queues::check_health(queue, plant.tip(), mutants::tick::is_healthy(plant))
            });
            self.judge(judged);
            self.gave_up(&changes.given_up);
            if let Some(sent_home) = changes.sent_home {
                self.day_ended_without(&sent_home);
            }
        }
        self.judge_proofs();
        self.judge_sleep();
    }

    /// The process dies. `silent`: so does its host, and peers notice only by timeout.
    pub fn tick_dies(&mut self, silent: bool, crash: Promise) {
        if self.tick.is_none() {
            return;
        }
        self.enter();
        // It may have ended the day in a turn that is cut short; nobody follows yesterday's log later.
        self.audit_log();
        if let Some(tick) = self.tick.take() {
            self.report.add(&tick.service.plant.stats);
        }
        let worse = |before: Promise| if before == Promise::Power { before } else { crash };
        self.crash = Some(self.crash.map_or(crash, worse));
        self.tick_paused_until_ns = 0;
        self.cut_all(silent);
    }
}

/// Returns a message's object, decompressed.
pub fn plain(header: &Header, message: &[u8]) -> Vec<u8> {
    let body = |message: &[u8]| message.get(proto::HEADER_BYTES..).unwrap_or_default().to_vec();
    match header.compression {
        Compression::None => body(message),
        _ => compress::decompress(message, &proto::Limits::default()).map(|plain| body(&plain)).unwrap_or_default(),
    }
}
