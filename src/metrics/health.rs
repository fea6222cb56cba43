//! Health of a process: its level, the reasons in words, and their repetition in the process's log.

use super::snapshot::Figure;
use crate::config::{Limit, Limits, Unit};
use std::fmt;
use std::time::{Duration, Instant};

/// Utilisation from which a limit is reported, in per cent.
const FULL_PERCENT: u64 = 90;

/// Limits that all clients share, and what happens to them at the limit.
const SHARED: [(Limit, &str); 11] = [
    (
        Limit::outboxes_bytes,
        "subscribers with more than 1 MiB to read are fed from the log, and long responses are rejected",
    ),
    (Limit::inboxes_bytes, "the connection with the longest unfinished message is closed"),
    (Limit::pending_bytes, "further messages are rejected"),
    (Limit::log_buffer_bytes, "publishing waits for the log's file system"),
    (Limit::connections, "further connections are rejected"),
    (Limit::symbols, "updates and queries with new symbols are rejected"),
    (Limit::symbol_bytes, "updates and queries with new symbols are rejected"),
    (Limit::client_symbols, "queries with new symbols are rejected"),
    (Limit::lanes, "further distinct subscriptions are rejected"),
    (Limit::queue_subscribers, "further nodes are rejected"),
    (Limit::globals_bytes, "clients cannot define more globals"),
];

/// How bad the health is; `elastick_health` has it as a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    Ok,
    /// It serves, but not everything. A restart would not help, so a probe must not cause one: `/health` returns 200.
    Degraded,
    /// It is of no use as it is: `/health` returns 503.
    Failed,
}

impl Figure for Level {
    fn figure(self) -> Option<f64> {
        Some(match self {
            Level::Ok => 0.0,
            Level::Degraded => 1.0,
            Level::Failed => 2.0,
        })
    }
}

/// One thing that is wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Trouble {
    level: Level,
    /// Recognises the trouble while its description changes.
    kind: &'static str,
    text: String,
}

/// Health of a process at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Health {
    /// In the order in which they were found, the worst first.
    troubles: Vec<Trouble>,
    /// What the process does, for a reader of the page.
    status: String,
}

impl Health {
    /// A healthy process.
    pub fn new(status: impl Into<String>) -> Health {
        Health { troubles: Vec::new(), status: status.into() }
    }

    /// Adds a reason for which the process serves less than it should.
    pub fn degrade(&mut self, kind: &'static str, text: impl Into<String>) {
        self.troubles.push(Trouble { level: Level::Degraded, kind, text: text.into() });
    }

    /// As [`Health::degrade`], if there is a reason.
    pub fn degrade_if(&mut self, kind: &'static str, text: Option<String>) {
        if let Some(text) = text {
            self.degrade(kind, text);
        }
    }

    /// Adds a reason for which the process is of no use.
    pub fn fail(&mut self, kind: &'static str, text: impl Into<String>) {
        self.troubles.insert(0, Trouble { level: Level::Failed, kind, text: text.into() });
    }

    /// Adds the shared limits that are nearly reached. `used`: utilisation of limits, in their units.
    pub fn add_limits(&mut self, limits: &Limits, used: &[(Limit, u64)]) {
        for (limit, what) in SHARED {
            let most = limits.get(limit);
            let Some((_, used)) = used.iter().find(|(of, _)| *of == limit) else { continue };
            if *used > 0 && used.saturating_mul(100) >= most.saturating_mul(FULL_PERCENT) {
                let name = limit.spec().name;
                let shown = match limit.unit() {
                    Unit::bytes => format!("{} of {}", mebibytes(*used), mebibytes(most)),
                    Unit::count | Unit::nanoseconds => format!("{} of {}", grouped(*used), grouped(most)),
                };
                self.degrade(name, format!("{shown} of --{name} are in use: at the limit {what}"));
            }
        }
    }

    /// Adds to what the process does.
    pub fn add_status(&mut self, text: impl fmt::Display) {
        self.status = format!("{}; {text}", self.status);
    }

    pub fn level(&self) -> Level {
        self.troubles.iter().map(|trouble| trouble.level).max().unwrap_or(Level::Ok)
    }

    pub fn is_ok(&self) -> bool {
        self.troubles.is_empty()
    }

    /// Returns the reasons, the worst first; empty if it is healthy.
    fn reasons(&self) -> String {
        self.troubles.iter().map(|trouble| trouble.text.as_str()).collect::<Vec<_>>().join("; ")
    }
}

impl fmt::Display for Health {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.level() {
            Level::Ok => write!(f, "ok: {}", self.status),
            Level::Degraded => write!(f, "degraded: {}; {}", self.reasons(), self.status),
            Level::Failed => f.write_str(&self.reasons()),
        }
    }
}

/// Describes a live node that has no standby because its fleet has as many nodes as it may have; tickerplant and node report it in the same
/// words. `memory_percent`: memory use of the node; `roll_percent`: its roll threshold.
pub fn no_standby(queue: &str, node: &str, fleet_max: u32, memory_percent: f64, roll_percent: f64) -> String {
    format!(
        "queue {queue} has no standby and its fleet is at its maximum of {fleet_max}: once the live node {node} (memory use \
         {memory_percent:.0} %) is at its roll threshold ({roll_percent:.0} %), later updates are logged but cannot be queried; raise the \
         fleet's maximum, or start another node"
    )
}

/// Returns a count with its digits in groups of three: `14,823`.
pub fn grouped(count: u64) -> String {
    let digits = count.to_string();
    let mut text = String::with_capacity(digits.len().saturating_add(digits.len() / 3));
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && digits.len().saturating_sub(at) % 3 == 0 {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Returns a size in MiB, or in KiB or GiB where that is shorter.
pub fn mebibytes(bytes: u64) -> String {
    const MIB: u64 = 1 << 20;
    match bytes {
        0..MIB => format!("{} KiB", bytes >> 10),
        MIB..0x2_8000_0000 => format!("{} MiB", grouped(bytes >> 20)),
        _ => format!("{:.1} GiB", bytes as f64 / f64::from(1 << 30)),
    }
}

/// How often the health is looked at, and how often the same trouble is logged.
const LOOK: Duration = Duration::from_secs(5);
const AGAIN: Duration = Duration::from_secs(60);

/// Repeats the health in the process's log, for operators who watch the log only.
#[derive(Debug, Default)]
pub struct HealthWatch {
    next: Option<Instant>,
    /// Kinds of trouble at the last look: what has gone by the next one is not logged.
    seen: Vec<&'static str>,
    /// Kinds of trouble logged, and when they last were.
    warned: Vec<&'static str>,
    warned_at: Option<Instant>,
}

impl HealthWatch {
    /// Returns when the next look is due.
    pub fn due(&self) -> Option<Instant> {
        self.next
    }

    /// Looks at the health if it is time. Logs trouble that lasts: at the second look, once a minute while it stays, and when it is over.
    pub fn look(&mut self, now: Instant, health: impl FnOnce() -> Health) {
        if self.next.is_some_and(|next| now < next) {
            return;
        }
        self.next = now.checked_add(LOOK);
        let health = health();
        if let Some(line) = self.note(now, &health) {
            match health.level() {
                Level::Ok => tracing::info!("{line}"),
                Level::Degraded => tracing::warn!("{line}"),
                Level::Failed => tracing::error!("{line}"),
            }
        }
    }

    /// Returns the line to log now.
    fn note(&mut self, now: Instant, health: &Health) -> Option<String> {
        let kinds: Vec<&'static str> = health.troubles.iter().map(|trouble| trouble.kind).collect();
        let lasting: Vec<&'static str> = kinds.iter().copied().filter(|kind| self.seen.contains(kind)).collect();
        let is_over = kinds.is_empty() && self.seen.is_empty();
        self.seen = kinds;
        if is_over && self.warned_at.take().is_some() {
            self.warned.clear();
            return Some(format!("healthy again: {}", health.status));
        }
        let is_new = lasting.iter().any(|kind| !self.warned.contains(kind));
        let is_old = self.warned_at.is_some_and(|at| now.saturating_duration_since(at) >= AGAIN);
        if !is_new && (lasting.is_empty() || !is_old) {
            return None;
        }
        self.warned = lasting;
        self.warned_at = Some(now);
        Some(format!("health: {}", health.reasons()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bad(kinds: &[&'static str]) -> Health {
        let mut health = Health::new("7 updates today");
        kinds.iter().for_each(|kind| health.degrade(kind, format!("{kind} it is")));
        health
    }

    /// Lines that a watch logs, with the seconds at which it does.
    fn logged(looks: &[(u64, &[&'static str])]) -> Vec<(u64, String)> {
        let (mut watch, start) = (HealthWatch::default(), Instant::now());
        let line = |(second, kinds): &(u64, &[&'static str])| {
            let now = start + Duration::from_secs(*second);
            watch.note(now, &bad(kinds)).map(|line| (*second, line))
        };
        looks.iter().filter_map(line).collect()
    }

    #[test]
    fn the_page_has_the_worst_first_and_the_level_is_the_worst() {
        assert_eq!((bad(&[]).to_string(), bad(&[]).level()), ("ok: 7 updates today".to_string(), Level::Ok));
        let mut health = bad(&["full", "slow"]);
        assert_eq!(health.to_string(), "degraded: full it is; slow it is; 7 updates today");
        assert_eq!(health.level().figure(), Some(1.0));
        health.fail("log", "rejecting updates");
        assert_eq!(health.to_string(), "rejecting updates; full it is; slow it is");
        assert_eq!(health.level().figure(), Some(2.0));
    }

    #[test]
    fn trouble_that_lasts_is_logged_once_a_minute_and_its_end_once() {
        let every_five: Vec<(u64, &[&'static str])> = (0..27).map(|look| (look * 5, &["a"][..])).collect();
        let seconds = |looks: &[(u64, &[&'static str])]| logged(looks).iter().map(|(at, _)| *at).collect::<Vec<_>>();
        assert_eq!(seconds(&every_five), [5, 65, 125]);
        let ended = [&every_five[..3], &[(15, &[]), (20, &[]), (25, &[])]].concat();
        assert_eq!(seconds(&ended), [5, 20]);
        assert_eq!(logged(&ended)[1].1, "healthy again: 7 updates today");
    }

    #[test]
    fn trouble_that_passes_is_not_logged_and_another_one_is_logged_at_once() {
        assert_eq!(logged(&[(0, &["a"]), (5, &[]), (10, &["a"]), (15, &[])]), []);
        let both = logged(&[(0, &["a"]), (5, &["a"]), (10, &["a", "b"]), (15, &["a", "b"]), (20, &["a", "b"])]);
        let expected = [(5, "health: a it is"), (15, "health: a it is; b it is")];
        assert_eq!(both, expected.map(|(at, line)| (at, line.to_string())));
    }

    #[test]
    fn a_look_is_due_every_five_seconds() {
        let (mut watch, start) = (HealthWatch::default(), Instant::now());
        let mut looks = Vec::new();
        for second in 0..12 {
            watch.look(start + Duration::from_secs(second), || {
                looks.push(second);
                bad(&[])
            });
        }
        assert_eq!(looks, [0, 5, 10]);
    }

    #[test]
    fn a_shared_limit_is_named_before_it_is_reached() {
        let limits = Limits::default();
        let health = |used: u64| {
            let mut health = bad(&[]);
            health.add_limits(&limits, &[(Limit::outboxes_bytes, used), (Limit::outbox_bytes, u64::MAX)]);
            health
        };
        assert!(health(900 << 20).is_ok(), "one buffer at its limit is that of a slow client");
        let text = health(1000 << 20).to_string();
        assert!(text.starts_with("degraded: 1,000 MiB of 1,024 MiB of --limit-outboxes are in use: at"), "{text}");
    }

    #[test]
    fn numbers_are_easy_to_read() {
        assert_eq!([0, 999, 1000, 14_823, 1_000_000].map(grouped), ["0", "999", "1,000", "14,823", "1,000,000"]);
        let sizes = [5 << 10, 3 << 20, 10 << 30, 5 << 40].map(mebibytes);
        assert_eq!(sizes, ["5 KiB", "3 MiB", "10.0 GiB", "5120.0 GiB"]);
    }
}
