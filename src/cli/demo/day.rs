//! The demo's day: start, watch, prove, end.

use super::DemoOptions;
use super::arguments::{self, min_nodes};
use super::cluster::{Cluster, ClusterState, NodeAnswer};
use super::history::{History, Poll, node_state};
use super::processes::{Directory, Process, number_after};
use super::proof::{self, Held};
use super::queue_table;
use super::report::Report;
use super::sleep::{Call, Slept, free_port};
use super::standby::{Standby, TakeOver};
use super::users::{DemoUsers, GUEST};
use crate::cli::CliError;
use crate::cli::feed::Summary;
use crate::cli::json;
use crate::config::units::Scale;
use crate::env::Env;
use crate::feed::curve::DAY_NS;
use crate::fleet::Stage;
use crate::log::{Keep, LogReader, Proof, window_proof};
use crate::monitor::screen::Screen;
use crate::monitor::svg::Picture;
use crate::monitor::text;
use crate::monitor::view::{ClusterView, NodeState, NodeView};
use crate::tick::schema_file;
use proto::Limits;
use proto::time::EPOCH_UNIX_S;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Poll interval.
const POLL_INTERVAL: Duration = Duration::from_millis(100);
/// Time for the nodes to receive the last updates, and for the group to shrink after the end of day.
const SETTLE: Duration = Duration::from_secs(60);
/// `--kill-tick` kills the active tickerplant when the group has so many nodes, or so much of the day is over.
const KILL_NODES: u32 = 4;
const KILL_SHARE: f64 = 0.6;
/// Number of polls over which rates are averaged.
const RATE_POLLS: usize = 20;

/// Runs the day. Returns an error if it could not run or was not proved; either way no process is left running.
pub fn run(options: &DemoOptions, stop: &AtomicBool) -> Result<(), CliError> {
    let dir = Directory::open(options.dir.clone())?;
    let mut day = Day::start(options, dir.path())?;
    let outcome = day.whole(options, dir.path(), stop);
    day.end();
    drop(dir);
    outcome
}

/// Processes and view of a running demo.
struct Day {
    tickerplant: Process,
    fleet: Process,
    feed: Option<Process>,
    cluster: Cluster,
    screen: Option<Screen>,
    history: History,
    view: ClusterView,
    rates: Vec<(Instant, u64, u64)>,
    began: Instant,
    /// Ports of the tickerplants.
    ports: Vec<u16>,
    feed_login: PathBuf,
    /// The passive tickerplant of `--kill-tick`, until it takes over.
    standby: Option<Standby>,
    take_over: Option<TakeOver>,
}

impl Day {
    fn start(options: &DemoOptions, dir: &Path) -> Result<Day, CliError> {
        let schemas = dir.join("schemas");
        std::fs::create_dir_all(&schemas).map_err(CliError::failed)?;
        std::fs::write(schemas.join("sym.q"), schema_file::BUILT_IN).map_err(CliError::failed)?;
        let logs = dir.join("log");
        if logs.exists() {
            return Err(CliError::Usage(format!(
                "{} already exists; the demo's day must begin without a log",
                logs.display()
            )));
        }
        let users = DemoUsers::create(dir)?;
        let known_port = if options.sleep { Some(free_port()?) } else { None };
        let tick = arguments::tick(options, &logs, &schemas, &users, known_port);
        let output = dir.join("tickerplant.out");
        let mut tickerplant = Process::start("tickerplant", dir, Some(&output), &tick)?;
        let port = number_after(&mut tickerplant, &output, "listening on")?;
        let standby = if options.kill_tick { Some(Standby::start(dir, &tick)?) } else { None };
        let ports = [Some(port), standby.as_ref().map(Standby::port)].into_iter().flatten().collect::<Vec<u16>>();
        let fleet_output = dir.join("fleet.out");
        let fleet = arguments::fleet(options, dir, &ports, &users, known_port)?;
        let mut fleet = Process::start("fleet", dir, Some(&fleet_output), &fleet)?;
        let fleet_port = number_after(&mut fleet, &fleet_output, "answers at port")?;
        let feed_login = users.feed.clone();
        let cluster = Cluster::connect(users, port, fleet_port, || tickerplant.must_run())?;
        let view = ClusterView {
            title: title(port),
            node_memory_bytes: options.node_memory_bytes,
            scale_percent: match options.scale {
                Scale::At(percent) => Some(percent),
                Scale::Auto => None,
            },
            roll_percent: options.roll_percent,
            ..ClusterView::default()
        };
        let screen = if options.json { None } else { Some(Screen::open()?) };
        let history = History::new(options.node_memory_bytes);
        let began = Instant::now();
        Ok(Day {
            tickerplant,
            fleet,
            feed: None,
            cluster,
            screen,
            history,
            view,
            rates: Vec::new(),
            began,
            ports,
            feed_login,
            standby,
            take_over: None,
        })
    }

    fn whole(&mut self, options: &DemoOptions, dir: &Path, stop: &AtomicBool) -> Result<(), CliError> {
        if !options.sleep {
            self.note("waiting for the first node");
            self.until(stop, SETTLE, "the first node to be live", |answer| {
                answer.rows.iter().any(|row| row.state == NodeState::Live)
            })?;
        }
        let sent = self.publish(options, dir, stop)?;
        self.note("the feed has ended; waiting for the nodes to catch up, and for those that are starting");
        self.until(stop, SETTLE, "all nodes of the group to be in the queue", |answer| {
            answer.fleet.members.iter().all(|member| answer.rows.iter().any(|row| row.node == member.instance))
        })?;
        let tables = self.cluster.tables()?;
        let call = if options.sleep { Some(self.sleep_and_wake(stop)?) } else { None };
        let (tip, held, counted_rows) = self.collect(stop, &tables)?;
        let slept: Option<Slept> = call.map(Call::answered);
        let log = self.cluster.log()?;
        let verdict = proof::check(held, tip, &sent, |first, last| logged(&log, first, last))?;
        self.history.end(verdict.windows.iter().map(|(held, _)| (held.node.as_str(), held.first, held.last)));
        self.note("end of day");
        self.cluster.end_of_day()?;
        let min_nodes = min_nodes(options);
        // A group that does not shrink is a miss in the report.
        let shrunk = self.until(stop, SETTLE, "the group to be back at its minimum", |answer| {
            answer.fleet.desired == min_nodes && answer.fleet.members.len() == min_nodes as usize
        });
        stopped(stop)?;
        if let Err(error) = shrunk {
            tracing::warn!("{error}");
        }
        let nodes_left = u32::try_from(self.cluster.poll()?.fleet.members.len()).ok();
        self.screen = None;
        let report = Report {
            verdict: &verdict,
            history: &self.history,
            tip,
            counted_rows,
            node_memory_bytes: options.node_memory_bytes,
            roll_percent: options.roll_percent,
            nodes_left,
            min_nodes,
            seed: options.seed,
            take_over: self.take_over,
            slept,
        };
        let mut out = std::io::stdout().lock();
        match options.json {
            true => json::print(&mut out, &report.document())?,
            false => report.text().iter().try_for_each(|line| writeln!(out, "{line}"))?,
        }
        if let Some(path) = &options.svg {
            self.picture(&report, path)?;
        }
        match report.is_good() {
            true => Ok(()),
            false => Err(CliError::Failed(format!("not proved: {}", report.misses().join("; ")))),
        }
    }

    /// Runs the feed to its end while polling the cluster. Returns the proof of the updates that the tickerplant accepted.
    fn publish(&mut self, options: &DemoOptions, dir: &Path, stop: &AtomicBool) -> Result<Proof, CliError> {
        self.note("");
        let output = dir.join("feed.json");
        let feed = arguments::feed(options, &self.ports, &self.feed_login);
        self.feed = Some(Process::start("feed", dir, Some(&output), &feed)?);
        let began = Instant::now();
        let length = Duration::try_from_secs_f64(options.minutes * 60.0).unwrap_or(Duration::MAX);
        loop {
            stopped(stop)?;
            let share = (began.elapsed().as_secs_f64() / length.as_secs_f64()).min(1.0);
            self.poll(share)?;
            if share >= KILL_SHARE || self.history.peak_nodes() >= KILL_NODES {
                self.kill_tickerplant(share)?;
            }
            if let Some(feed) = &mut self.feed
                && let Some(status) = feed.ended()?
            {
                if !status.success() {
                    return Err(feed.failure(status));
                }
                self.feed = None;
                return account(&output);
            }
            std::thread::sleep(POLL_INTERVAL);
        }
    }

    /// Leaves the nodes alone until none is there, and calls for them.
    fn sleep_and_wake(&mut self, stop: &AtomicBool) -> Result<Call, CliError> {
        let asleep = Instant::now();
        self.history.sleeps();
        self.note("no update and no query comes any more: the cluster goes to zero");
        self.cluster.query_nodes(false);
        self.until(stop, SETTLE, "the idle cluster to be at zero", |answer| {
            answer.fleet.desired == 0 && answer.fleet.members.is_empty()
        })?;
        self.cluster.query_nodes(true);
        let call = Call::make(&mut self.cluster, asleep)?;
        self.note(&format!(".u.asg.wake[]: {}", call.said));
        Ok(call)
    }

    /// Kills the active tickerplant, if there is one that takes over, and waits until that one has accepted updates.
    fn kill_tickerplant(&mut self, share: f64) -> Result<(), CliError> {
        let Some(standby) = self.standby.take() else { return Ok(()) };
        let day_ns = (share * DAY_NS as f64) as u64;
        self.tickerplant.kill();
        let (process, port, took) = standby.takes_over(self.cluster.users(), SETTLE)?;
        self.tickerplant = process;
        self.cluster.change_over(port)?;
        let taken = TakeOver { day_ns, took_ns: u64::try_from(took.as_nanos()).unwrap_or(u64::MAX) };
        self.view.title = title(port);
        self.note(&format!("the active tickerplant was killed; the other one accepted updates after {}", taken.took()));
        self.take_over = Some(taken);
        Ok(())
    }

    /// Polls the cluster until `wanted` holds.
    fn until(
        &mut self,
        stop: &AtomicBool,
        within: Duration,
        what: &str,
        mut reached: impl FnMut(&ClusterState) -> bool,
    ) -> Result<(), CliError> {
        let by = Instant::now().checked_add(within);
        loop {
            stopped(stop)?;
            let share = self.view.day_ns as f64 / DAY_NS as f64;
            let answer = self.poll(share)?;
            if reached(&answer) {
                return Ok(());
            }
            if by.is_none_or(|by| Instant::now() >= by) {
                return Err(CliError::Failed(format!("timed out waiting for {what}")));
            }
            std::thread::sleep(POLL_INTERVAL);
        }
    }

    /// Queries every node for its windows until together they cover the log.
    fn collect(&mut self, stop: &AtomicBool, tables: &[String]) -> Result<(u64, Vec<Held>, u64), CliError> {
        let by = Instant::now().checked_add(SETTLE);
        loop {
            stopped(stop)?;
            let answer = self.poll(1.0)?;
            let nodes: Vec<NodeAnswer> = answer
                .rows
                .iter()
                .filter_map(|row| Some((row, row.port?)))
                .filter(|(row, _)| row.state != NodeState::Away)
                .filter_map(|(row, port)| match self.cluster.ask_node(&row.node, port, tables) {
                    Ok(answer) => Some(answer),
                    Err(error) => {
                        // The node may just have died; if no other node takes over its windows, the proof reports them as missing.
                        tracing::warn!("{error}");
                        None
                    }
                })
                .collect();
            let counted_rows = nodes.iter().map(|node| node.counted_rows).sum();
            let mut held: Vec<Held> = nodes.into_iter().flat_map(|node| node.windows).collect();
            let whole = proof::coverage(&mut held, answer.tip).is_empty();
            // The proof reports what is missing.
            if whole || nobody_will_come(&answer) || by.is_none_or(|by| Instant::now() >= by) {
                return Ok((answer.tip, held, counted_rows));
            }
            std::thread::sleep(POLL_INTERVAL);
        }
    }

    /// Polls the cluster once, records the result and draws it.
    fn poll(&mut self, share: f64) -> Result<ClusterState, CliError> {
        self.tickerplant.must_run()?;
        self.fleet.must_run()?;
        let answer = self.cluster.poll()?;
        let now = jiff::Timestamp::now().as_nanosecond().saturating_sub(i128::from(EPOCH_UNIX_S) * 1_000_000_000);
        self.history.record(&Poll {
            day_share: share,
            now_ns: i64::try_from(now).unwrap_or(i64::MAX),
            rows: &answer.rows,
            members: &answer.fleet.members,
        });
        let rows: u64 = answer.rows.iter().map(|row| row.rows).sum();
        self.rates.push((Instant::now(), answer.tip, rows));
        if self.rates.len() > RATE_POLLS {
            self.rates.remove(0);
        }
        if let Some(screen) = &mut self.screen {
            let view = &mut self.view;
            view.day_ns = (share * DAY_NS as f64) as u64;
            view.elapsed_ns = u64::try_from(self.began.elapsed().as_nanos()).unwrap_or(u64::MAX);
            view.tip = answer.tip;
            view.durable = answer.durable;
            (view.updates_per_second, view.rows_per_second) = rates(&self.rates);
            view.queue = queue_table::shown(&answer.table);
            view.nodes = nodes(&answer);
            view.samples = self.history.samples().to_vec();
            view.node_hours = self.history.node_hours();
            screen.draw(view)?;
        } else {
            self.view.day_ns = (share * DAY_NS as f64) as u64;
        }
        Ok(answer)
    }

    fn note(&mut self, note: &str) {
        self.view.note = note.to_string();
    }

    fn picture(&self, report: &Report<'_>, path: &Path) -> Result<(), CliError> {
        let subtitle = format!(
            "{} updates; {} nodes of {} at the peak; {}",
            text::thousands(report.tip),
            self.history.peak_nodes(),
            text::bytes(report.node_memory_bytes),
            if report.is_good() { "each update held exactly once" } else { "not proved" }
        );
        let picture = Picture {
            title: "elastick demo: the paper's simulated day",
            subtitle: &subtitle,
            samples: self.history.samples(),
            lanes: self.history.lanes(),
        };
        std::fs::write(path, picture.svg()).map_err(|error| CliError::Failed(format!("{}: {error}", path.display())))
    }

    /// Ends all processes, the feed first, so that it does not report the loss of the tickerplant.
    fn end(mut self) {
        self.screen = None;
        if let Some(feed) = &mut self.feed {
            feed.stop();
        }
        self.fleet.stop();
        // The passive one first, or it would take over.
        drop(self.standby);
        self.tickerplant.stop();
    }
}

fn title(port: u16) -> String {
    format!("elastick demo  :{port}:{GUEST}:{GUEST}")
}

/// Whether the group is full and all of its nodes have rolled, so that none will take over a missing window.
fn nobody_will_come(answer: &ClusterState) -> bool {
    let fleet = &answer.fleet;
    fleet.desired >= fleet.max
        && fleet.members.iter().all(|member| member.stage == Stage::InService)
        && answer.rows.iter().all(|row| row.state == NodeState::Rolled)
}

fn stopped(stop: &AtomicBool) -> Result<(), CliError> {
    match stop.load(Ordering::Relaxed) {
        true => Err(CliError::Failed("stopped by a signal before the end of the day".to_string())),
        false => Ok(()),
    }
}

/// Reads the feed's summary of the updates it sent.
fn account(path: &Path) -> Result<Proof, CliError> {
    let wrong = |what: String| CliError::Failed(format!("the feed's report: {what}"));
    let text = std::fs::read_to_string(path).map_err(|error| wrong(error.to_string()))?;
    let summary: Summary = serde_json::from_str(text.trim()).map_err(|error| wrong(error.to_string()))?;
    Ok(summary.tables)
}

/// Returns the log's proof of a window.
fn logged(path: &Path, first: u64, last: u64) -> Result<Proof, CliError> {
    let limits = Limits::default();
    let mut reader = LogReader::open(&Env::system(), path, limits, 1 << 20).map_err(CliError::failed)?;
    let deadline = Instant::now().checked_add(SETTLE).unwrap_or_else(Instant::now);
    window_proof(&mut reader, first..last, deadline, |_, _, _| Keep::Whole).map_err(CliError::failed)
}

/// Updates and rows per second between the first poll and the last.
fn rates(looks: &[(Instant, u64, u64)]) -> (f64, f64) {
    let (Some((then, tip_then, rows_then)), Some((now, tip, rows))) = (looks.first(), looks.last()) else {
        return (0.0, 0.0);
    };
    let seconds = now.saturating_duration_since(*then).as_secs_f64().max(1e-3);
    (tip.saturating_sub(*tip_then) as f64 / seconds, rows.saturating_sub(*rows_then) as f64 / seconds)
}

fn nodes(answer: &ClusterState) -> Vec<NodeView> {
    let members = answer.fleet.members.iter();
    members
        .map(|member| {
            let row = answer.rows.iter().find(|row| row.node == member.instance);
            NodeView {
                name: member.instance.clone(),
                state: node_state(member, row),
                memory_percent: row.and_then(|row| row.memory_percent),
                window: row.and_then(|row| Some((row.first?, row.last))),
                rows: row.map_or(0, |row| row.rows),
                behind: row.and_then(|row| row.next).map_or(0, |next| answer.tip.saturating_sub(next)),
                verified: row.and_then(|row| row.verified),
            }
        })
        .collect()
}
