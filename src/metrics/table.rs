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
    CpuSeconds = counter(Both, "elastick_process_cpu_seconds_total", "CPU time of the process, user and system");
    ResidentBytes = gauge(Both, "elastick_process_resident_memory_bytes", "Resident memory of the process, shared pages included");
    OpenFds = gauge(Both, "elastick_process_open_fds", "Open file descriptors");
    MaxFds = gauge(Both, "elastick_process_max_fds", "Limit of open file descriptors");

    Health = gauge(Both, "elastick_health", "Health of the process, as its /health says in words: 0 ok, 1 degraded, 2 failed")
        .alarmed("Health", Unit::None, Both);

    Bugs = counter(Both, "elastick_bugs_total", "Impossible states detected: bugs of elastick, each with a log line");

    // Connections.
    Connections = gauge(Both, "elastick_connections", "Open kdb+ connections that have completed their handshake")
        .cloudwatch("Connections", Unit::Count);
    ConnectionsAccepted = counter(Both, "elastick_connections_accepted_total", "Connections accepted, including those rejected later");
    LoginsRefused = counter(Both, "elastick_logins_refused_total", "Logins rejected for a wrong user or password, over kdb+ IPC and HTTP");
    LoginsLockedOut = counter(Both, "elastick_logins_locked_out_total", "Logins rejected because of many wrong passwords before, of the same address or user");
    UsersReloadFailures = counter(Both, "elastick_users_reload_failures_total", "Changed users files that could not be used; the users as last read stay in force");
    IdentityFailures = counter(Both, "elastick_identity_failures_total", "Requests to an OpenID Connect issuer or LDAP server that failed, each with a log line; wrong tokens and passwords do not count");
    SessionsExpired = counter(Both, "elastick_sessions_expired_total", "Connections closed because the token of their login had expired");
    ConnectionsTls = gauge(Both, "elastick_connections_tls", "Those of the open kdb+ connections that use TLS");
    TlsHandshakes = counter(Both, "elastick_tls_handshakes_total", "TLS handshakes completed");
    TlsHandshakesFailed = counter(Both, "elastick_tls_handshakes_failed_total", "TLS handshakes that failed, each with a log line");
    TlsCertificateSeconds = gauge(Both, "elastick_tls_certificate_remaining_seconds", "Time until the certificate of the port expires, negative after that; absent without TLS");
    InboxBytes = gauge(Both, "elastick_inbox_bytes", "Bytes of incomplete messages in the receive buffers of all connections");
    OutboxBytes = gauge(Both, "elastick_outbox_bytes", "Bytes in the send buffers of all connections");
    HttpRequests = counter(Both, "elastick_http_requests_total", "HTTP requests answered, malformed ones included");

    // Limits: configured value, utilisation, rejections.
    LimitBytes = gauge(Both, "elastick_limit_bytes", "Configured limit, in bytes").labels(&["limit"]);
    LimitItems = gauge(Both, "elastick_limit_items", "Configured limit, in items").labels(&["limit"]);
    LimitSeconds = gauge(Both, "elastick_limit_seconds", "Configured limit, in seconds").labels(&["limit"]);
    LimitUsedBytes = gauge(Both, "elastick_limit_used_bytes", "Bytes in use of a limit; for a limit per connection, those of the fullest one")
        .labels(&["limit"]);
    LimitUsedItems = gauge(Both, "elastick_limit_used_items", "Items in use of a limit").labels(&["limit"]);
    LimitRefusals = counter(Both, "elastick_limit_refusals_total", "Number of times a limit rejected, truncated or evicted something")
        .labels(&["limit"]);

    // Updates and queries.
    Updates = counter(Both, "elastick_updates_total", "Updates that the tickerplant has logged, or the node stored")
        .cloudwatch("UpdateCount", Unit::Count);
    UpdatesRefused = counter(Both, "elastick_updates_refused_total", "Updates rejected; the tickerplant puts them in quarantine")
        .alarmed("Quarantined", Unit::Count, Tick);
    UpdatesMissing = gauge(Node, "elastick_updates_missing", "Updates of the node's windows that it rejected: queries do not see them");
    UpdatesUnserved = gauge(Node, "elastick_queue_updates_unserved", "Updates of the node's queue that no connected node serves, as last reported by the tickerplant; none while disconnected");
    Queries = counter(Both, "elastick_queries_total", "Messages of clients other than updates");
    QueryErrors = counter(Both, "elastick_query_errors_total", "Queries that failed");
    QueriesAbandoned = counter(Both, "elastick_queries_abandoned_total", "Queries stopped, or removed before they began, because their client had disconnected");

    // Tickerplant.
    TickUp = gauge(Tick, "elastick_tick_up", "1 while updates can be logged and the port listens")
        .alarmed("TickerplantUp", Unit::Count, Tick);
    TickActive = gauge(Tick, "elastick_tick_active", "1 while the tickerplant may log updates, 0 while it is passive");
    TickForwarded = gauge(Tick, "elastick_tick_forwarded_connections", "Connections that a passive tickerplant hands through (--forward)");
    LeaseOwned = gauge(Tick, "elastick_lease_owned", "1 while this tickerplant owns the lease (--lease with a store)");
    LeaseRenewed = gauge(Tick, "elastick_lease_renewed_seconds", "Time since the last renewal: the own one while active, else the owner's as this process has seen it")
        .alarmed("LeaseRenewed", Unit::Seconds, Tick);
    LeaseDanger = gauge(Tick, "elastick_lease_danger", "1 while the lease is renewed late, or is over and held without the store")
        .alarmed("LeaseDanger", Unit::Count, Tick);
    LeaseHeld = gauge(Tick, "elastick_lease_held", "1 while the lease is over and the tickerplant stays active by the lock of the log alone (--lease-failsafe)");
    LeaseFailures = counter(Tick, "elastick_lease_store_failures_total", "Calls of the lease's store that failed or were not answered in time")
        .alarmed("LeaseStoreFailures", Unit::Count, Tick);
    Rows = counter(Tick, "elastick_rows_total", "Rows of the updates logged");
    UpdatesCoerced = counter(Tick, "elastick_updates_coerced_total", "Updates accepted after values were converted to the types of the table (--coerce)");
    UpdatesUnlogged = counter(Tick, "elastick_updates_unlogged_total", "Updates accepted but not logged, because a write failed");
    UpdatesDuplicate = counter(Tick, "elastick_updates_duplicate_total", "Updates that were not logged again, by their publishers' sequence numbers");
    Turns = counter(Tick, "elastick_turns_total", "Event-loop iterations that logged at least one update");
    Malformed = counter(Tick, "elastick_messages_malformed_total", "Messages that were not valid kdb+ IPC");
    LogUpdates = gauge(Tick, "elastick_log_updates", "Records in the day's log, updates and the numbers of publishers: the index of the next one");
    LogDurable = gauge(Tick, "elastick_log_durable_updates", "Records in the day's log that survive a power cut");
    LogBytes = gauge(Tick, "elastick_log_bytes", "Size of the day's log")
        .alarmed("LogBytes", Unit::Bytes, Tick);
    LogFreeBytes = gauge(Tick, "elastick_log_free_bytes", "Free space on the log's file system")
        .alarmed("LogFreeBytes", Unit::Bytes, Tick);
    LogFileSystemBytes = gauge(Tick, "elastick_log_filesystem_bytes", "Size of the log's file system");
    LogDaysDeleted = counter(Tick, "elastick_log_days_deleted_total", "Past days deleted by --keep-days");
    LogDaysHeld = gauge(Tick, "elastick_log_days_held", "Past days that --keep-days would delete, kept because their logs are not known to be whole");
    LogFailed = gauge(Tick, "elastick_log_failed", "1 after a failed write or sync: no more updates are logged, until a full disk has room again or the process restarts");
    LogFileHarmed = gauge(Tick, "elastick_log_file_harmed", "1 while the log's path is not the file being written, or after another program truncated it")
        .alarmed("LogFileHarmed", Unit::Count, Tick);
    ClockJump = gauge(Tick, "elastick_clock_jump_seconds", "Jump of the wall clock, or its distance from the newest log at the start, while days do not end by it; 0 while they do");
    DayAhead = gauge(Tick, "elastick_day_ahead_days", "Days by which the current day of the log is ahead of the calendar");
    Quarantined = gauge(Tick, "elastick_quarantined_updates", "Rejected updates in the quarantine");
    RejectedUnsaved = counter(Tick, "elastick_rejected_unsaved_total", "Changes of the rejected updates that are missing from the file beside the log: they came faster than it is written");
    FollowConnected = gauge(Tick, "elastick_follow_connected", "1 while this tickerplant copies the log of the active one (--follow)");
    FollowLag = gauge(Tick, "elastick_follow_lag_updates", "Records of the active tickerplant's log that this copy lacks, as far as is known");
    FollowLate = gauge(Tick, "elastick_follow_late_seconds", "Time for which this copy has lacked any record, or has not heard of the active tickerplant");
    Followers = gauge(Tick, "elastick_followers", "Tickerplants that copy the log of this one");
    FollowerLag = gauge(Tick, "elastick_follower_lag_updates", "Records of the day's log that a follower has not confirmed to be on its disk").labels(&["follower"]);
    ReplicasMissing = gauge(Tick, "elastick_replicas_missing", "1 while too few followers confirm in time for --durability replica");
    Lanes = gauge(Tick, "elastick_lanes", "Fan-out groups: distinct subscriptions, each encoded once");
    Subscribers = gauge(Tick, "elastick_subscribers", "Connections with a subscription");
    SubscribersBehind = gauge(Tick, "elastick_subscribers_behind", "Subscribers in catch-up: fed from the log");
    SlowConsumers = counter(Tick, "elastick_subscribers_demoted_total", "Times a slow consumer was switched to catch-up from the log");
    ConnectionWaiting = gauge(Tick, "elastick_connection_waiting_bytes", "Bytes in the send buffer of a connection, for up to 10 connections: slow consumers, then those with most bytes").labels(&["handle", "user", "address", "node"]);
    ConnectionLag = gauge(Tick, "elastick_connection_lag_updates", "Records of the log between those put into the send buffer of a subscriber and the tip, for the same connections").labels(&["handle", "user", "address", "node"]);
    ConnectionSlow = gauge(Tick, "elastick_connection_slow_seconds", "Time for which a subscriber has been a slow consumer, for the same connections").labels(&["handle", "user", "address", "node"]);
    WindowsVerified = counter(Tick, "elastick_windows_verified_total", "Windows of nodes whose proof agreed with the log");
    WindowsDiffering = counter(Tick, "elastick_windows_differing_total", "Windows of nodes whose proof differed from the log");

    // Queues as the tickerplant sees them.
    Queues = gauge(Tick, "elastick_queues", "Queues of the current day");
    QueuesWithoutLive = gauge(Tick, "elastick_queues_without_live", "Queues in which no connected node is live")
        .alarmed("QueuesWithoutLive", Unit::Count, Tick);
    WindowsLost = gauge(Tick, "elastick_windows_lost", "Windows that no node holds, waiting to be rebuilt")
        .alarmed("WindowsLost", Unit::Count, Tick);
    QueuesAsleep = gauge(Tick, "elastick_queues_asleep", "Queues without nodes on purpose (--wake, --idle-off): the log keeps their updates");
    NodesRequested = counter(Tick, "elastick_first_nodes_requested_total", "Requests for the first nodes of a queue that the fleet has granted (--node-fleet)");
    NodeRequestsFailed = counter(Tick, "elastick_first_nodes_failed_total", "Requests for the first nodes of a queue that failed or were rejected; they are repeated");
    QueueNodes = gauge(Tick, "elastick_queue_nodes", "Subscribers of a queue by state; away: disconnected, within its grace period")
        .labels(&["queue", "state"]);
    QueueLive = gauge(Tick, "elastick_queue_live", "1 while a connected node of the queue is live").labels(&["queue"]);
    QueueStandbysUnable = gauge(Tick, "elastick_queue_standbys_unable", "Standbys of the queue that cannot take a window now: memory at the roll threshold, or a window just given back").labels(&["queue"]);
    QueueNodesSilent = gauge(Tick, "elastick_queue_nodes_silent", "Connected nodes of the queue that have sent nothing for 5 s; a node reports every second").labels(&["queue"]);
    QueueNotQueryable = gauge(Tick, "elastick_queue_updates_not_queryable", "Updates logged today that no connected node of the queue holds: they cannot be queried").labels(&["queue"]);
    QueueWindowsLost = gauge(Tick, "elastick_queue_windows_lost", "Windows of the queue that no node holds").labels(&["queue"]);

    // Node.
    NodeInfo = gauge(Node, "elastick_node_info", "Always 1; name, queue and protocol of the node are labels")
        .labels(&["node", "queue", "protocol"]);
    NodeConnected = gauge(Node, "elastick_node_connected", "1 while connected to the tickerplant");
    NodeState = gauge(Node, "elastick_node_state", "1 for the current state of the node").labels(&["state"]);
    MemoryRatio = gauge(Node, "elastick_memory_used_ratio", "Memory use of the node as a share of its limit; the thresholds apply to this")
        .alarmed("MemoryUsage", Unit::Percent, Node);
    MemoryUsed = gauge(Node, "elastick_memory_used_bytes", "Memory in use by the node")
        .cloudwatch("MemoryUsed", Unit::Bytes);
    MemoryBudget = gauge(Node, "elastick_memory_budget_bytes", "Memory limit of the node")
        .cloudwatch("Capacity", Unit::Bytes);
    MemoryPart = gauge(Node, "elastick_memory_part_bytes", "Memory in use by the node, by part: columns, index, symbols, buffers, queries, ended days that .u.end reads")
        .labels(&["part"]);
    SystemMemoryUsed = gauge(Node, "elastick_system_memory_used_bytes", "Memory in use on the server, or in the container");
    SystemMemory = gauge(Node, "elastick_system_memory_bytes", "Memory of the server, or of the container");
    ScaleThreshold = gauge(Node, "elastick_scale_threshold_ratio", "Memory use at which the successor is requested; none with auto");
    RollThreshold = gauge(Node, "elastick_roll_threshold_ratio", "Memory use at which the node rolls");
    FillRate = gauge(Node, "elastick_fill_bytes_per_second", "Rate at which the feed fills the node's memory");
    RowsHeld = gauge(Node, "elastick_rows", "Rows that the node holds");
    WindowsHeld = gauge(Node, "elastick_windows", "Windows that the node holds, the open one included");
    LiveAge = gauge(Node, "elastick_live_age_seconds", "Time since the node became live; none while it is not")
        .cloudwatch("LiveAge", Unit::Seconds);
    Lag = gauge(Node, "elastick_lag_updates", "Updates between the node's last one and the last known tip of the log")
        .alarmed("LagToTip", Unit::Count, Node);
    QueueWaiting = gauge(Node, "elastick_queue_waiting_nodes", "Standbys in the node's queue, as last reported by the tickerplant")
        .cloudwatch("QueueLength", Unit::Count);
    LeadTime = gauge(Node, "elastick_lead_time_seconds", "Last lead time: from the request for a node until it is a standby")
        .cloudwatch("LeadTime", Unit::Seconds);
    CatchUp = gauge(Node, "elastick_catch_up_seconds", "Last catch-up: from becoming live until all updates logged by then were replayed");
    Cushion = gauge(Node, "elastick_cushion_ratio", "Time from the request for the successor to the roll, in lead times; below 1 the successor was late")
        .alarmed("Cushion", Unit::None, Node);
    Resyncs = counter(Node, "elastick_resyncs_total", "Reconnects because of a gap in the update indices");
    DayEndsReturned = counter(Node, "elastick_day_ends_returned_total", "Calls of the owner's .u.end that returned");
    DayEndsFailed = counter(Node, "elastick_day_ends_failed_total", "Calls of the owner's .u.end that failed, or were skipped because an earlier one still ran");
    DayEndRunning = gauge(Node, "elastick_day_end_running", "1 while the owner's .u.end runs and keeps the ended day's rows");
    WindowsDeclined = counter(Node, "elastick_windows_declined_total", "Windows given back before their first update, because memory was at the roll threshold");
    WindowsGivenUp = counter(Node, "elastick_windows_given_up_total", "Windows handed to the next node because several connections in a row failed at the same update");
    UpdatesLeftOut = counter(Node, "elastick_updates_left_out_total", "Updates skipped because no node of this size or with these limits can store them");
    QueriesOpen = gauge(Node, "elastick_queries_open", "Queries of clients in progress");

    // Fleet, by this process's requests.
    ScaleOutsAsked = counter(Node, "elastick_fleet_scale_outs_asked_total", "Requests for a node");
    ScaleOutsGranted = counter(Node, "elastick_fleet_scale_outs_granted_total", "Requests for a node that the fleet granted");
    ScaleOutsRefused = counter(Node, "elastick_fleet_scale_outs_refused_total", "Requests for a node that the fleet rejected or did not answer")
        .alarmed("ScaleOutsRefused", Unit::Count, Node);
    LaunchesLate = counter(Node, "elastick_fleet_launches_late_total", "Requested nodes that did not join in time")
        .alarmed("LaunchesLate", Unit::Count, Node);
    LaunchesReplaced = counter(Node, "elastick_fleet_launches_replaced_total", "Instances replaced because they never joined");
    FleetThrottled = counter(Node, "elastick_fleet_calls_throttled_total", "Calls that the fleet's API throttled");
    FleetErrors = counter(Node, "elastick_fleet_call_errors_total", "Calls that the fleet's API answered with an error, or not at all");
    DesiredNodes = gauge(Node, "elastick_fleet_desired_nodes", "Desired capacity of the group")
        .cloudwatch("DesiredCapacity", Unit::Count);
    MaxNodes = gauge(Node, "elastick_fleet_max_nodes", "Maximum number of nodes of the group")
        .cloudwatch("MaxCapacity", Unit::Count);
    DesiredAtMax = gauge(Node, "elastick_fleet_desired_at_max", "1 while the group's desired capacity is its maximum")
        .alarmed("DesiredAtMax", Unit::Count, Node);

    // Audit log.
    AuditFailing = gauge(Both, "elastick_audit_failing", "1 while the audit log cannot be written");
    AuditRecords = counter(Both, "elastick_audit_records_total", "Records written to the audit log");
    AuditMissing = counter(Both, "elastick_audit_missing_total", "Records dropped because too many waited for the audit log");
    AuditWriteErrors = counter(Both, "elastick_audit_write_errors_total", "Attempts to write the audit log that failed");

    // Publisher of the metrics themselves.
    CloudWatchSent = counter(Both, "elastick_cloudwatch_periods_sent_total", "Periods whose values CloudWatch accepted");
    CloudWatchFailed = counter(Both, "elastick_cloudwatch_failures_total", "Attempts to publish that CloudWatch rejected or did not answer");
    CloudWatchDropped = counter(Both, "elastick_cloudwatch_periods_dropped_total", "Periods dropped because CloudWatch was unreachable for too long");
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
            "Health",
            "TickerplantUp",
            "QueuesWithoutLive",
            "WindowsLost",
            "LogBytes",
            "LogFreeBytes",
            "LogFileHarmed",
            "LeaseRenewed",
            "LeaseDanger",
            "LeaseStoreFailures",
            "UpdateCount",
            "Connections",
            "Quarantined",
        ] {
            assert!(tick.contains(&name), "{name}");
        }
        for name in [
            "Health",
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
