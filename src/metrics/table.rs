//! Definition of every metric: its names in Prometheus and CloudWatch, its meaning, and the processes that have it.
//!
//! Prometheus names use base units (bytes, seconds, ratios from 0 to 1); CloudWatch names are the paper's and those of the templates'
//! alarms. CloudWatch gets a counter's increase in each period.

/// Whether a value only grows while the process lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Counter,
    Gauge,
}

impl Kind {
    /// Name in the text format.
    pub const fn name(self) -> &'static str {
        match self {
            Kind::Counter => "counter",
            Kind::Gauge => "gauge",
        }
    }
}

/// Kind of process that has metrics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Process {
    Tick,
    Node,
}

/// Processes that have a metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Of {
    Tick,
    Node,
    Both,
}

impl Of {
    pub const fn includes(self, process: Process) -> bool {
        matches!((self, process), (Of::Both, _) | (Of::Tick, Process::Tick) | (Of::Node, Process::Node))
    }

    pub const fn name(self) -> &'static str {
        match self {
            Of::Tick => "tick",
            Of::Node => "rdb",
            Of::Both => "tick, rdb",
        }
    }
}

/// The units of CloudWatch's `StandardUnit` in use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    Count,
    Bytes,
    Seconds,
    /// For a ratio, which is published times 100.
    Percent,
    None,
}

impl Unit {
    pub const ALL: [Unit; 5] = [Unit::Count, Unit::Bytes, Unit::Seconds, Unit::Percent, Unit::None];

    /// Name in the API.
    pub const fn name(self) -> &'static str {
        match self {
            Unit::Count => "Count",
            Unit::Bytes => "Bytes",
            Unit::Seconds => "Seconds",
            Unit::Percent => "Percent",
            Unit::None => "None",
        }
    }
}

/// Publication of a metric in CloudWatch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CloudWatch {
    pub name: &'static str,
    pub unit: Unit,
    /// Processes that publish it.
    pub of: Of,
    /// Also published with the group's name alone, for alarms.
    pub per_group: bool,
}

impl CloudWatch {
    /// Returns the value in the published unit.
    pub fn scaled(&self, value: f64) -> f64 {
        if self.unit == Unit::Percent { value * 100.0 } else { value }
    }
}

/// Definition of a metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Metric {
    /// Name in Prometheus.
    pub name: &'static str,
    pub help: &'static str,
    pub kind: Kind,
    pub of: Of,
    /// Names of its labels; a metric without labels has one value.
    pub labels: &'static [&'static str],
    pub cloudwatch: Option<CloudWatch>,
}

impl Metric {
    const fn labels(self, labels: &'static [&'static str]) -> Metric {
        Metric { labels, ..self }
    }

    const fn cloudwatch(self, name: &'static str, unit: Unit) -> Metric {
        Metric { cloudwatch: Some(CloudWatch { name, unit, of: self.of, per_group: false }), ..self }
    }

    /// As [`Metric::cloudwatch`], also per group, and only from the processes in `of`.
    const fn alarmed(self, name: &'static str, unit: Unit, of: Of) -> Metric {
        Metric { cloudwatch: Some(CloudWatch { name, unit, of, per_group: true }), ..self }
    }
}

const fn metric(kind: Kind, of: Of, name: &'static str, help: &'static str) -> Metric {
    Metric { name, help, kind, of, labels: &[], cloudwatch: None }
}

const fn counter(of: Of, name: &'static str, help: &'static str) -> Metric {
    metric(Kind::Counter, of, name, help)
}

const fn gauge(of: Of, name: &'static str, help: &'static str) -> Metric {
    metric(Kind::Gauge, of, name, help)
}

macro_rules! metrics {
    ($($id:ident = $metric:expr;)*) => {
        /// Index of a metric in the table.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Id { $($id,)* }

        impl Id {
            /// All metrics, in the order of the table.
            pub const ALL: &[Id] = &[$(Id::$id),*];

            pub const fn metric(self) -> &'static Metric {
                match self { $(Id::$id => const { &$metric },)* }
            }
        }
    };
}

use Of::{Both, Node, Tick};

metrics! {
    // Process.
    BuildInfo = gauge(Both, "elastick_build_info", "Always 1; version and cargo features are labels")
        .labels(&["version", "features"]);
    StartTime = gauge(Both, "elastick_process_start_time_seconds", "When the process started, seconds from 1970");
    CpuSeconds = counter(Both, "elastick_process_cpu_seconds_total", "Time that the process has run on a CPU, user and system");
    ResidentBytes = gauge(Both, "elastick_process_resident_memory_bytes", "Resident memory of the process, shared pages included");
    OpenFds = gauge(Both, "elastick_process_open_fds", "Open file descriptors");
    MaxFds = gauge(Both, "elastick_process_max_fds", "Most file descriptors that the process may have open");

    Bugs = counter(Both, "elastick_bugs_total", "States met that cannot occur: defects of elastick, each with a log line");

    // Connections.
    Connections = gauge(Both, "elastick_connections", "Connections of kdb+ clients that have finished their handshake")
        .cloudwatch("Connections", Unit::Count);
    ConnectionsAccepted = counter(Both, "elastick_connections_accepted_total", "Connections accepted, whatever became of them");
    LoginsRefused = counter(Both, "elastick_logins_refused_total", "Logins refused for a wrong user or password, HTTP's included");
    InboxBytes = gauge(Both, "elastick_inbox_bytes", "Bytes of unfinished messages, over all connections");
    OutboxBytes = gauge(Both, "elastick_outbox_bytes", "Bytes that wait to be written, over all connections");
    HttpRequests = counter(Both, "elastick_http_requests_total", "HTTP requests answered, malformed ones included");

    // Limits: configured value, utilisation, rejections.
    LimitBytes = gauge(Both, "elastick_limit_bytes", "A limit of bytes, as configured").labels(&["limit"]);
    LimitItems = gauge(Both, "elastick_limit_items", "A limit of a number of things, as configured").labels(&["limit"]);
    LimitSeconds = gauge(Both, "elastick_limit_seconds", "A limit of time, as configured").labels(&["limit"]);
    LimitUsedBytes = gauge(Both, "elastick_limit_used_bytes", "Bytes in use against a limit; of limits for one connection, the fullest")
        .labels(&["limit"]);
    LimitUsedItems = gauge(Both, "elastick_limit_used_items", "Things in use against a limit of their number").labels(&["limit"]);
    LimitRefusals = counter(Both, "elastick_limit_refusals_total", "How often a limit has refused, cut off or pushed out something")
        .labels(&["limit"]);

    // Updates and queries.
    Updates = counter(Both, "elastick_updates_total", "Updates accepted by the tickerplant, or taken in by the node")
        .cloudwatch("UpdateCount", Unit::Count);
    UpdatesRefused = counter(Both, "elastick_updates_refused_total", "Updates refused; the tickerplant puts them in quarantine")
        .alarmed("Quarantined", Unit::Count, Tick);
    UpdatesMissing = gauge(Node, "elastick_updates_missing", "Updates of the windows held that the node refused: no query sees them");
    Queries = counter(Both, "elastick_queries_total", "Messages of clients that were no updates");
    QueryErrors = counter(Both, "elastick_query_errors_total", "Those that ended with an error");

    // Tickerplant.
    TickUp = gauge(Tick, "elastick_tick_up", "1 while updates can be logged and the port listens")
        .alarmed("TickerplantUp", Unit::Count, Tick);
    Rows = counter(Tick, "elastick_rows_total", "Rows of the updates accepted");
    UpdatesUnlogged = counter(Tick, "elastick_updates_unlogged_total", "Updates accepted that could not be logged");
    Turns = counter(Tick, "elastick_turns_total", "Turns of the loop that logged something");
    Malformed = counter(Tick, "elastick_messages_malformed_total", "Messages that were no object");
    LogUpdates = gauge(Tick, "elastick_log_updates", "Updates in the day's log: the index of the next one");
    LogDurable = gauge(Tick, "elastick_log_durable_updates", "Updates of them that survive a power cut");
    LogBytes = gauge(Tick, "elastick_log_bytes", "Bytes of the day's log")
        .alarmed("LogBytes", Unit::Bytes, Tick);
    LogFreeBytes = gauge(Tick, "elastick_log_free_bytes", "Bytes free for the log on its file system")
        .alarmed("LogFreeBytes", Unit::Bytes, Tick);
    LogFileSystemBytes = gauge(Tick, "elastick_log_filesystem_bytes", "Bytes of the log's file system, used and free");
    LogFailed = gauge(Tick, "elastick_log_failed", "1 once nothing can be logged any more");
    LogFileHarmed = gauge(Tick, "elastick_log_file_harmed", "1 while the log's path does not lead to the file that is written, or once another program has cut it")
        .alarmed("LogFileHarmed", Unit::Count, Tick);
    ClockJump = gauge(Tick, "elastick_clock_jump_seconds", "Seconds by which the wall clock jumped, or was ahead of the newest log at the start, while it is not followed; 0 while it is");
    DayAhead = gauge(Tick, "elastick_day_ahead_days", "Days by which the day that updates are logged in is ahead of the calendar");
    Quarantined = gauge(Tick, "elastick_quarantined_updates", "Refused updates that are kept to be looked at");
    Lanes = gauge(Tick, "elastick_lanes", "Distinct subscriptions, each encoded once");
    Subscribers = gauge(Tick, "elastick_subscribers", "Connections that are subscribed to anything");
    SubscribersBehind = gauge(Tick, "elastick_subscribers_behind", "Subscribers that are fed from the log");
    Demotions = counter(Tick, "elastick_subscribers_demoted_total", "How often a subscriber was too slow and was fed from the log");
    WindowsVerified = counter(Tick, "elastick_windows_verified_total", "Windows of nodes that were compared with the log and agreed");
    WindowsDiffering = counter(Tick, "elastick_windows_differing_total", "Windows of nodes that differed from the log");

    // Queues as the tickerplant sees them.
    Queues = gauge(Tick, "elastick_queues", "Queues of the day");
    QueuesWithoutLive = gauge(Tick, "elastick_queues_without_live", "Queues in which no connected node is live")
        .alarmed("QueuesWithoutLive", Unit::Count, Tick);
    WindowsLost = gauge(Tick, "elastick_windows_lost", "Windows that no node holds, waiting to be rebuilt")
        .alarmed("WindowsLost", Unit::Count, Tick);
    QueueNodes = gauge(Tick, "elastick_queue_nodes", "Subscribers of a queue by what they do; away: may still come back")
        .labels(&["queue", "state"]);
    QueueLive = gauge(Tick, "elastick_queue_live", "1 while a connected node of the queue is live").labels(&["queue"]);
    QueueStandbysUnable = gauge(Tick, "elastick_queue_standbys_unable", "Standbys of the queue that can take no window now: memory at the roll level, or a window just given back").labels(&["queue"]);
    QueueWindowsLost = gauge(Tick, "elastick_queue_windows_lost", "Windows of the queue that no node holds").labels(&["queue"]);

    // Node.
    NodeInfo = gauge(Node, "elastick_node_info", "Always 1; who the node is and what its tickerplant speaks are labels")
        .labels(&["node", "queue", "protocol"]);
    NodeConnected = gauge(Node, "elastick_node_connected", "1 while connected to the tickerplant");
    NodeState = gauge(Node, "elastick_node_state", "1 for the state that the node is in").labels(&["state"]);
    MemoryRatio = gauge(Node, "elastick_memory_used_ratio", "Share of its memory that the node uses; its policy decides by this")
        .alarmed("MemoryUsage", Unit::Percent, Node);
    MemoryUsed = gauge(Node, "elastick_memory_used_bytes", "Memory that the node accounts for")
        .cloudwatch("MemoryUsed", Unit::Bytes);
    MemoryBudget = gauge(Node, "elastick_memory_budget_bytes", "Memory that the node may use")
        .cloudwatch("Capacity", Unit::Bytes);
    MemoryPart = gauge(Node, "elastick_memory_part_bytes", "What the account consists of: columns, index, symbols, buffers, queries, ended days that .u.end reads")
        .labels(&["part"]);
    SystemMemoryUsed = gauge(Node, "elastick_system_memory_used_bytes", "Memory in use on the server, or in the container");
    SystemMemory = gauge(Node, "elastick_system_memory_bytes", "Memory of the server, or of the container");
    ScaleThreshold = gauge(Node, "elastick_scale_threshold_ratio", "Share of memory at which the successor is asked for; none with auto");
    RollThreshold = gauge(Node, "elastick_roll_threshold_ratio", "Share of memory at which the node stops receiving");
    FillRate = gauge(Node, "elastick_fill_bytes_per_second", "How fast the feed fills the node's memory");
    RowsHeld = gauge(Node, "elastick_rows", "Rows that the node holds");
    WindowsHeld = gauge(Node, "elastick_windows", "Windows that the node holds, the open one included");
    LiveAge = gauge(Node, "elastick_live_age_seconds", "Time since the node became live; none while it is not")
        .cloudwatch("LiveAge", Unit::Seconds);
    Lag = gauge(Node, "elastick_lag_updates", "Updates between what the node has and the log's tip as last told")
        .alarmed("LagToTip", Unit::Count, Node);
    QueueWaiting = gauge(Node, "elastick_queue_waiting_nodes", "Nodes that wait in the queue behind the live one, as told to it")
        .cloudwatch("QueueLength", Unit::Count);
    LeadTime = gauge(Node, "elastick_lead_time_seconds", "From asking for a node until it waits, as last measured")
        .cloudwatch("LeadTime", Unit::Seconds);
    CatchUp = gauge(Node, "elastick_catch_up_seconds", "From being made live until all that was logged by then was taken in");
    Cushion = gauge(Node, "elastick_cushion_ratio", "Time from asking for the successor to rolling, in lead times; under 1 it came too late")
        .alarmed("Cushion", Unit::None, Node);
    Resyncs = counter(Node, "elastick_resyncs_total", "Connections made anew because an update did not follow the one before");
    DayEndsReturned = counter(Node, "elastick_day_ends_returned_total", "Calls of the owner's .u.end that returned");
    DayEndsFailed = counter(Node, "elastick_day_ends_failed_total", "Calls of the owner's .u.end that failed, or were left out because earlier ones still ran");
    DayEndRunning = gauge(Node, "elastick_day_end_running", "1 while the owner's .u.end runs and keeps the ended day's rows");
    WindowsDeclined = counter(Node, "elastick_windows_declined_total", "Windows given back before an update was taken, as memory was at the roll level");
    WindowsGivenUp = counter(Node, "elastick_windows_given_up_total", "Windows that went to the next node as connection after connection ended at the same update");
    UpdatesLeftOut = counter(Node, "elastick_updates_left_out_total", "Updates left out as no node of this size or with these limits can take them");
    QueriesOpen = gauge(Node, "elastick_queries_open", "Messages of clients that have not been answered yet");

    // Fleet, by this process's requests.
    ScaleOutsAsked = counter(Node, "elastick_fleet_scale_outs_asked_total", "Requests for a node");
    ScaleOutsGranted = counter(Node, "elastick_fleet_scale_outs_granted_total", "Requests for a node that the fleet granted");
    ScaleOutsRefused = counter(Node, "elastick_fleet_scale_outs_refused_total", "Requests for a node that the fleet refused or did not answer")
        .alarmed("ScaleOutsRefused", Unit::Count, Node);
    LaunchesLate = counter(Node, "elastick_fleet_launches_late_total", "Nodes asked for that did not join in time")
        .alarmed("LaunchesLate", Unit::Count, Node);
    LaunchesReplaced = counter(Node, "elastick_fleet_launches_replaced_total", "Instances ended because they never came up");
    FleetThrottled = counter(Node, "elastick_fleet_calls_throttled_total", "Calls that the fleet's API throttled");
    FleetErrors = counter(Node, "elastick_fleet_call_errors_total", "Calls that the fleet's API answered with an error, or not at all");
    DesiredNodes = gauge(Node, "elastick_fleet_desired_nodes", "Desired capacity of the group")
        .cloudwatch("DesiredCapacity", Unit::Count);
    MaxNodes = gauge(Node, "elastick_fleet_max_nodes", "Most nodes that the group may have")
        .cloudwatch("MaxCapacity", Unit::Count);
    DesiredAtMax = gauge(Node, "elastick_fleet_desired_at_max", "1 while the group's desired capacity is its maximum")
        .alarmed("DesiredAtMax", Unit::Count, Node);

    // Publisher of the metrics themselves.
    CloudWatchSent = counter(Both, "elastick_cloudwatch_periods_sent_total", "Periods whose values CloudWatch has taken");
    CloudWatchFailed = counter(Both, "elastick_cloudwatch_failures_total", "Attempts to publish that CloudWatch refused or did not answer");
    CloudWatchDropped = counter(Both, "elastick_cloudwatch_periods_dropped_total", "Periods given up: CloudWatch was out of reach for too long");
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn names_are_unique_and_say_what_they_are() {
        let mut names = HashSet::new();
        for metric in Id::ALL.iter().map(|id| id.metric()) {
            assert!(names.insert(metric.name), "{} twice", metric.name);
            assert!(metric.name.starts_with("elastick_"), "{}", metric.name);
            assert!(metric.name.bytes().all(|b| b.is_ascii_lowercase() || b == b'_'), "{}", metric.name);
            assert_eq!(metric.name.ends_with("_total"), metric.kind == Kind::Counter, "{}", metric.name);
            assert!(!metric.help.is_empty() && !metric.help.ends_with('.'), "{}", metric.name);
        }
    }

    #[test]
    fn a_name_in_cloudwatch_means_one_metric_of_a_process() {
        let mut names = HashSet::new();
        for (metric, published) in Id::ALL.iter().map(|id| id.metric()).filter_map(|m| Some((m, m.cloudwatch?))) {
            assert!(names.insert(published.name), "{} twice", published.name);
            assert!(metric.labels.is_empty(), "{} has labels", metric.name);
            assert!(published.of == metric.of || metric.of == Of::Both, "{}", metric.name);
            assert_eq!(published.unit == Unit::Percent, metric.name.contains("memory_used_ratio"), "{}", metric.name);
        }
    }

    #[test]
    fn the_names_that_alarms_and_dashboards_look_at_are_published() {
        let of = |process| -> Vec<&str> {
            let published = Id::ALL.iter().filter_map(|id| id.metric().cloudwatch);
            published.filter(|published| published.of.includes(process)).map(|published| published.name).collect()
        };
        let (tick, node) = (of(Process::Tick), of(Process::Node));
        for name in [
            "TickerplantUp",
            "QueuesWithoutLive",
            "WindowsLost",
            "LogBytes",
            "LogFreeBytes",
            "LogFileHarmed",
            "UpdateCount",
            "Connections",
            "Quarantined",
        ] {
            assert!(tick.contains(&name), "{name}");
        }
        for name in [
            "MemoryUsage",
            "MemoryUsed",
            "Capacity",
            "UpdateCount",
            "QueueLength",
            "LiveAge",
            "LagToTip",
            "LeadTime",
            "Cushion",
            "ScaleOutsRefused",
            "LaunchesLate",
            "DesiredCapacity",
            "MaxCapacity",
            "DesiredAtMax",
        ] {
            assert!(node.contains(&name), "{name}");
        }
    }
}
