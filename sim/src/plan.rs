//! The plan that a seed draws before its run: the tickerplant's configuration, the queues and the subscribers.

use super::audit::Promise;
use super::audit::holdings::Filter;
use super::audit::record::TABLES;
use super::rng::Rng;
use super::sleep::SleepPlan;
use super::world::SECOND;
use elastick::config::options::Protocol;
use elastick::config::units::{RollTime, Scale, roll_time};
use elastick::config::{Durability, Limits};
use elastick::fleet::group::Rules;
use elastick::protocol;
use elastick::rdb::options::NodeOptions;
use elastick::rdb::policy;
use std::time::Duration;

/// More instances than a simulated day ever needs. At its maximum a group cannot launch a node to rebuild a lost window, and the cluster
/// rightly does not settle. A group that rejects launches for a while is a fault (`cloud.rs`).
const MAX_INSTANCES: u32 = 2_000;

/// Level of faults.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Faults {
    None,
    /// Throttled or lost calls of the fleet, nodes killed or terminated, the tickerplant stopped in order: no surplus instance may be launched.
    Fleet,
    Some,
    Hell,
}

impl Faults {
    pub fn from_name(name: &str) -> Option<Faults> {
        match name {
            "none" => Some(Faults::None),
            "fleet" => Some(Faults::Fleet),
            "some" => Some(Faults::Some),
            "hell" => Some(Faults::Hell),
            _ => None,
        }
    }

    pub const fn name(self) -> &'static str {
        match self {
            Faults::None => "none",
            Faults::Fleet => "fleet",
            Faults::Some => "some",
            Faults::Hell => "hell",
        }
    }

    /// Returns the mean time between two faults, in nanoseconds; `None` without faults.
    pub fn every_ns(self) -> Option<u64> {
        match self {
            Faults::None => None,
            Faults::Fleet => Some(SECOND),
            Faults::Some => Some(8 * SECOND),
            Faults::Hell => Some(SECOND + SECOND / 2),
        }
    }

    /// Returns the odds of a rare fault, as one in so many.
    pub fn rare(self) -> u64 {
        match self {
            Faults::None | Faults::Fleet => u64::MAX,
            Faults::Some => 40,
            Faults::Hell => 10,
        }
    }
}

/// A group of the fleet.
#[derive(Clone, Debug)]
pub struct GroupPlan {
    pub name: String,
    pub rules: Rules,
}

/// A queue and the group that serves it.
#[derive(Clone, Debug)]
pub struct QueuePlan {
    pub name: String,
    /// Index in [`Plan::groups`].
    pub group: usize,
    pub filter: Filter,
    pub scale: Scale,
}

/// How a publisher finds out what became of its updates after its connection broke.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ledger {
    /// Not at all.
    Absent,
    /// It looks for them in the log, as `elastick feed` does.
    Feed,
    /// It numbers them, and requests the last accepted number.
    Numbers,
}

/// Configuration of one seed: tickerplant, queues, groups and clients.
#[derive(Clone, Debug)]
pub struct Plan {
    pub faults: Faults,
    pub durability: Durability,
    pub shared_disk: bool,
    /// Tickerplants that share the log directory, and a lease if there are several.
    pub tickerplants: usize,
    /// Interval of batch mode; `None` publishes each update at once.
    pub batch: Option<Duration>,
    pub groups: Vec<GroupPlan>,
    pub queues: Vec<QueuePlan>,
    pub publishers: usize,
    /// Indices of publishers with a ledger, as `elastick feed` has.
    pub feeds: Vec<usize>,
    /// Whether the first publisher numbers its updates.
    pub numbers: bool,
    pub watchers: Vec<Filter>,
    pub standbys_kept: usize,
    pub roll: RollTime,
    /// One node in so many runs on the tickerplant's host.
    pub hosts: u64,
    /// Memory budget of a node.
    pub budget_bytes: u64,
    /// Whether other programs, queries and clients' variables fill nodes' memory.
    pub fills: bool,
    /// How the cluster sleeps, if it does.
    pub sleep: Option<SleepPlan>,
}

impl Plan {
    pub fn of(seed: u64, faults: Faults) -> Result<Plan, String> {
        let mut rng = Rng::new(seed);
        let durability = match rng.below(10) {
            0 => Durability::None,
            1..=3 => Durability::Os,
            4..=7 => Durability::Group(Duration::from_millis(10)),
            _ => Durability::Each,
        };
        let filters = [
            Filter::default(),
            Filter { tables: vec![0], syms: Vec::new() },
            Filter { tables: Vec::new(), syms: vec![1, 3, 4] },
        ];
        let count = match rng.below(20) {
            0..=9 => 1,
            10..=16 => 2,
            _ => 3,
        };
        // Several queues either divide the tables among them, or the first takes everything.
        let divided = count > 1 && rng.percent(40);
        // Each server of a shared group runs a node for every queue. A group then counts its need otherwise than the auditor's exact check does.
        let shared_servers = count > 1 && matches!(faults, Faults::Some | Faults::Hell) && rng.percent(40);
        let group = |(number, rng): (usize, &mut Rng)| GroupPlan {
            name: format!("g{number}"),
            rules: Rules {
                min: u32::try_from(rng.from(1, 2)).unwrap_or(1),
                max: MAX_INSTANCES,
                launch_delay_ns: 0,
                grace_ns: 20 * SECOND,
                notice_ns: 15 * SECOND,
            },
        };
        let groups = (0..if shared_servers { 1 } else { count }).map(|number| group((number, &mut rng))).collect();
        let queue = |(number, rng): (usize, &mut Rng)| QueuePlan {
            name: format!("q{number}"),
            group: if shared_servers { 0 } else { number },
            filter: match number {
                0 | 1 if divided => Filter { tables: vec![number], syms: Vec::new() },
                0 => Filter::default(),
                _ => rng.pick(&filters).cloned().unwrap_or_default(),
            },
            scale: if rng.percent(30) { Scale::Auto } else { Scale::At(40.0) },
        };
        let queues = (0..count).map(|number| queue((number, &mut rng))).collect();
        let watchers = (0..rng.from(1, 2)).map(|_| rng.pick(&filters).cloned().unwrap_or_default()).collect();
        Ok(Plan {
            faults,
            durability,
            shared_disk: rng.percent(50),
            tickerplants: 1,
            batch: rng.one_in(6).then_some(Duration::from_millis(200)),
            groups,
            queues,
            publishers: usize::try_from(rng.from(1, 3)).unwrap_or(1),
            feeds: (0..2).filter(|_| rng.percent(40)).collect(),
            watchers,
            standbys_kept: usize::try_from(rng.below(3)).unwrap_or(0),
            roll: roll_time("00:00 UTC")?,
            hosts: rng.from(2, 4),
            budget_bytes: rng.from(500, 1500) << 10,
            // Drawn last, so that it changes nothing else in a seed.
            fills: matches!(faults, Faults::Some | Faults::Hell) && rng.percent(50),
            numbers: faults == Faults::Hell && rng.percent(25),
            sleep: None,
        })
    }

    /// Returns how a publisher keeps account of its updates.
    pub fn ledger(&self, publisher: usize) -> Ledger {
        match publisher {
            0 if self.numbers => Ledger::Numbers,
            _ if self.feeds.contains(&publisher) => Ledger::Feed,
            _ => Ledger::Absent,
        }
    }

    /// Returns what a response to a publisher promises.
    pub fn promise(&self) -> Promise {
        match self.durability {
            Durability::None => Promise::Nothing,
            Durability::Os => Promise::Process,
            Durability::Group(_) | Durability::Each | Durability::Replica { .. } => Promise::Power,
        }
    }

    /// Returns whether updates are published before they are in the log's file.
    pub fn publishes_ahead(&self) -> bool {
        match self.durability {
            Durability::None => true,
            Durability::Group(_) | Durability::Replica { .. } => self.shared_disk,
            Durability::Os | Durability::Each => false,
        }
    }

    pub fn tick_limits(&self) -> Limits {
        Limits {
            // The message limit, so that an update larger than a node can still be sent.
            message_bytes: 8 << 20,
            decompressed_bytes: 8 << 20,
            outbox_bytes: 64 << 10,
            outboxes_bytes: 1 << 20,
            log_read_chunk_bytes: 32 << 10,
            log_buffer_bytes: 64 << 10,
            ..Limits::default()
        }
    }

    /// Returns the options of a queue's nodes.
    ///
    /// # Errors
    /// Invalid thresholds.
    pub fn node_options(&self, queue: usize) -> Result<NodeOptions, policy::ThresholdError> {
        let of = self.queues.get(queue);
        let filter = of.map(|of| of.filter.clone()).unwrap_or_default();
        let scale = of.map_or(Scale::At(40.0), |of| of.scale);
        let mut policy = policy::Params::new(scale, 70.0)?;
        policy.drain_ns = 2_000_000_000;
        let subscription = protocol::Filter {
            tables: filter.tables.iter().filter_map(|table| TABLES.get(*table)).map(|t| (*t).to_string()).collect(),
            symbols: filter.syms.iter().map(|sym| format!("s{sym}")).collect(),
        };
        let leave_within = Some(Duration::from_secs(15));
        let options = NodeOptions::carried(Protocol::Auto, self.budget_bytes, policy);
        let limits = Limits { log_read_chunk_bytes: 16 << 10, ..Limits::default() };
        let read_log = super::reading::stepped;
        Ok(NodeOptions { subscription, leave_within, limits, read_log, ..options })
    }
}
