//! History of the demo's day: samples for the chart, one row (`lane`) for each node, cost, and handovers. Pure.

use super::queue_table::Row;
use crate::fleet::{Member, Stage};
use crate::monitor::view::{Lane, NodeState, Sample, Span};
use serde::Serialize;
use std::collections::BTreeMap;

/// Maximum number of samples: more than a chart has columns.
const MAX_SAMPLES: usize = 2000;

/// State of the cluster at one poll.
pub struct Poll<'a> {
    /// Elapsed share of the day, 0 to 1.
    pub day_share: f64,
    /// Time of the poll in nanoseconds since 2000.01.01, as in the queue's table.
    pub now_ns: i64,
    pub rows: &'a [Row],
    pub members: &'a [Member],
}

/// Time at which a node was requested, and its lead time.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Launch {
    requested_ns: i64,
    lead_ns: Option<i64>,
}

/// One change of the live node.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Handover {
    pub from: String,
    pub to: String,
    /// Nanoseconds from one node's roll until its successor had received everything logged before it became live.
    pub took_ns: i64,
    /// Time from the request for the successor until the roll, divided by the successor's lead time.
    pub cushion: Option<f64>,
}

/// History of a day, built from polls by [`History::record`].
#[derive(Debug, Default)]
pub struct History {
    node_memory_bytes: u64,
    samples: Vec<Sample>,
    lanes: Vec<Lane>,
    launches: BTreeMap<String, Launch>,
    live_ns: BTreeMap<String, i64>,
    rolled_ns: BTreeMap<String, i64>,
    catch_up_ns: BTreeMap<String, i64>,
    node_days: f64,
    last_share: f64,
    peak_nodes: u32,
    peak_used_bytes: u64,
    over: bool,
    /// Handovers until the cluster went to sleep.
    before_sleep: Option<Vec<Handover>>,
}

impl History {
    pub fn new(node_memory_bytes: u64) -> History {
        History { node_memory_bytes, ..History::default() }
    }

    /// Ends the day with the windows that nodes hold. Later polls are ignored.
    pub fn end<'a>(&mut self, windows: impl Iterator<Item = (&'a str, u64, u64)>) {
        self.over = true;
        for (node, first, last) in windows {
            if let Some(lane) = self.lanes.iter_mut().find(|lane| lane.name == node) {
                lane.window = Some((first, Some(last)));
            }
        }
    }

    /// Records a poll; polls are in order of time.
    pub fn record(&mut self, poll: &Poll<'_>) {
        if self.over {
            return;
        }
        let nodes = u32::try_from(poll.members.len()).unwrap_or(u32::MAX);
        let passed = (poll.day_share - self.last_share).max(0.0);
        self.last_share = self.last_share.max(poll.day_share);
        self.node_days += passed * f64::from(nodes);
        self.peak_nodes = self.peak_nodes.max(nodes);
        let used_bytes = poll.rows.iter().map(|row| self.used_bytes(row)).sum();
        self.peak_used_bytes = self.peak_used_bytes.max(used_bytes);
        let capacity_bytes = self.node_memory_bytes.saturating_mul(u64::from(nodes));
        self.sample(Sample { day_share: poll.day_share, capacity_bytes, used_bytes, nodes });
        for member in poll.members {
            let age_ns = i64::try_from(member.age.as_nanos()).unwrap_or(i64::MAX);
            let launch = self
                .launches
                .entry(member.instance.clone())
                .or_insert(Launch { requested_ns: poll.now_ns.saturating_sub(age_ns), lead_ns: None });
            launch.lead_ns = member.lead_time.and_then(|lead| i64::try_from(lead.as_nanos()).ok());
            let row = poll.rows.iter().find(|row| row.node == member.instance);
            self.lane(&member.instance, node_state(member, row), row, poll.day_share);
        }
        for row in poll.rows {
            if let Some(live_ns) = row.live_ns {
                self.live_ns.insert(row.node.clone(), live_ns);
            }
            if let Some(catch_up_ns) = row.catch_up_ns {
                self.catch_up_ns.insert(row.node.clone(), catch_up_ns);
            }
            if let Some(rolled_ns) = row.rolled_ns {
                self.rolled_ns.insert(row.node.clone(), rolled_ns);
            }
        }
    }

    /// Memory use of a node: from its percentage if it reports one, else the bytes it reports.
    fn used_bytes(&self, row: &Row) -> u64 {
        match row.memory_percent {
            Some(percent) => (percent / 100.0 * self.node_memory_bytes as f64) as u64,
            None => row.bytes,
        }
    }

    fn sample(&mut self, sample: Sample) {
        if self.samples.len() >= MAX_SAMPLES {
            // Drop every second sample: the chart has a lower resolution.
            let mut keep = false;
            self.samples.retain(|_| {
                keep = !keep;
                keep
            });
        }
        self.samples.push(sample);
    }

    fn lane(&mut self, name: &str, state: NodeState, row: Option<&Row>, now: f64) {
        let lane = match self.lanes.iter().position(|lane| lane.name == name) {
            Some(at) => self.lanes.get_mut(at),
            None => {
                self.lanes.push(Lane { name: name.to_string(), spans: Vec::new(), window: None });
                self.lanes.last_mut()
            }
        };
        let Some(lane) = lane else { return };
        match lane.spans.last_mut() {
            Some(span) if span.state == state => span.to = now,
            last => {
                if let Some(span) = last {
                    span.to = now;
                }
                lane.spans.push(Span { state, from: now, to: now });
            }
        }
        if let Some((first, last)) = row.and_then(|row| Some((row.first?, row.last))) {
            lane.window = Some((first, last));
        }
    }

    pub fn samples(&self) -> &[Sample] {
        &self.samples
    }

    pub fn lanes(&self) -> &[Lane] {
        &self.lanes
    }

    pub fn peak_nodes(&self) -> u32 {
        self.peak_nodes
    }

    /// Node hours of the simulated day used so far.
    pub fn node_hours(&self) -> f64 {
        self.node_days * 24.0
    }

    /// Cost of one server for the whole day, in node hours: memory for the peak of all nodes together, filled up to `fill_percent`,
    /// priced by size. Servers come in sizes that double; the comparison ignores this in the server's favour.
    pub fn big_server_hours(&self, fill_percent: f64) -> f64 {
        let memory_bytes = self.peak_used_bytes as f64 / (fill_percent / 100.0).max(0.01);
        memory_bytes / (self.node_memory_bytes.max(1) as f64) * 24.0
    }

    /// The cluster sleeps: nodes of the wake-up have the same windows, and took over from nobody.
    pub fn sleeps(&mut self) {
        self.before_sleep = Some(self.handovers());
    }

    /// Returns the changes of the live node in order. In a handover, one window ends where the next begins, and the next node became live
    /// after that; the second condition excludes rebuilt windows, which have neighbours too.
    pub fn handovers(&self) -> Vec<Handover> {
        if let Some(handovers) = &self.before_sleep {
            return handovers.clone();
        }
        let ends = self.lanes.iter().filter_map(|lane| Some((lane.window?.1?, lane.name.as_str())));
        let mut handovers: Vec<(u64, Handover)> = ends
            .flat_map(|(end, from)| {
                let next = self.lanes.iter().filter(move |lane| lane.window.is_some_and(|(first, _)| first == end));
                next.filter_map(move |to| Some((end, self.handover(from, &to.name)?)))
            })
            .collect();
        handovers.sort_by_key(|(end, _)| *end);
        handovers.into_iter().map(|(_, handover)| handover).collect()
    }

    fn handover(&self, from: &str, to: &str) -> Option<Handover> {
        let (rolled_ns, live_ns) = (*self.rolled_ns.get(from)?, *self.live_ns.get(to)?);
        if from == to || live_ns < rolled_ns {
            return None;
        }
        let cushion = self.launches.get(to).and_then(|launch| {
            let lead_ns = launch.lead_ns.filter(|lead_ns| *lead_ns > 0)?;
            Some(rolled_ns.saturating_sub(launch.requested_ns).max(0) as f64 / lead_ns as f64)
        });
        let catch_up_ns = self.catch_up_ns.get(to).copied().unwrap_or(0);
        let took_ns = live_ns.saturating_sub(rolled_ns).saturating_add(catch_up_ns);
        Some(Handover { from: from.to_string(), to: to.to_string(), took_ns, cushion })
    }
}

/// Returns the state of a fleet member from the fleet and the queue together.
pub fn node_state(member: &Member, row: Option<&Row>) -> NodeState {
    match (member.stage, row) {
        (Stage::Terminating, _) => NodeState::Terminating,
        (_, Some(row)) => row.state,
        // The node was in the queue and left: the day is over, and the node is about to end.
        (Stage::InService, None) => NodeState::Terminating,
        (_, None) => NodeState::Starting,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    const SECOND: i64 = 1_000_000_000;

    fn row(node: &str, state: NodeState, percent: f64, live: Option<i64>, rolled: Option<i64>) -> Row {
        Row {
            node: node.to_string(),
            state,
            first: Some(0),
            last: None,
            rolled_ns: rolled,
            live_ns: live,
            memory_percent: Some(percent),
            rows: 0,
            bytes: 0,
            next: None,
            catch_up_ns: None,
            verified: None,
            port: None,
        }
    }

    fn member(instance: &str, age: u64, lead: Option<u64>) -> Member {
        Member {
            instance: instance.to_string(),
            stage: Stage::InService,
            process: None,
            age: Duration::from_secs(age),
            lead_time: lead.map(Duration::from_secs),
            protected: false,
        }
    }

    fn poll<'a>(day_share: f64, seconds: i64, rows: &'a [Row], members: &'a [Member]) -> Poll<'a> {
        Poll { day_share, now_ns: seconds * SECOND, rows, members }
    }

    #[test]
    fn nodes_cost_for_as_long_as_they_are_there() {
        let mut history = History::new(100);
        let one = [member("a", 1, None)];
        let two = [member("a", 1, None), member("b", 1, None)];
        history.record(&poll(0.0, 0, &[], &one));
        history.record(&poll(0.5, 1, &[], &one));
        history.record(&poll(1.0, 2, &[], &two));
        assert!((history.node_hours() - 36.0).abs() < 1e-9, "{}", history.node_hours());
        assert_eq!(history.peak_nodes(), 2);
    }

    #[test]
    fn one_server_must_hold_the_peak_at_the_same_fill() {
        let mut history = History::new(100);
        let rows = [row("a", NodeState::Rolled, 80.0, None, None), row("b", NodeState::Live, 80.0, None, None)];
        history.record(&poll(0.5, 1, &rows, &[]));
        assert!((history.big_server_hours(80.0) - 48.0).abs() < 0.5, "{}", history.big_server_hours(80.0));
    }

    #[test]
    fn a_handover_has_its_time_and_its_cushion() {
        let mut history = History::new(100);
        let members = [member("a", 100, Some(2)), member("b", 10, Some(2))];
        let mut successor = row("b", NodeState::Live, 1.0, Some(107 * SECOND), None);
        (successor.catch_up_ns, successor.first) = (Some(5), Some(40));
        let mut rolled = row("a", NodeState::Rolled, 80.0, Some(0), Some(106 * SECOND));
        rolled.last = Some(40);
        let rows = [rolled, successor];
        history.record(&poll(0.5, 110, &rows, &members));
        let handovers = history.handovers();
        assert_eq!(handovers.len(), 1);
        assert_eq!((handovers[0].took_ns, handovers[0].cushion), (SECOND + 5, Some(3.0)));
    }

    #[test]
    fn a_window_that_was_read_again_is_no_handover() {
        let mut history = History::new(100);
        let members = [member("a", 10, None), member("b", 100, None)];
        let mut again = row("a", NodeState::Rolled, 80.0, Some(200 * SECOND), Some(201 * SECOND));
        again.last = Some(40);
        let mut after = row("b", NodeState::Live, 80.0, Some(100 * SECOND), None);
        after.first = Some(40);
        history.record(&poll(0.5, 210, &[again, after], &members));
        assert_eq!(history.handovers(), []);
    }

    #[test]
    fn a_lane_has_a_span_for_each_state() {
        let mut history = History::new(100);
        let starting = [Member { stage: Stage::Starting, ..member("a", 1, None) }];
        history.record(&poll(0.0, 0, &[], &starting));
        let members = [member("a", 1, None)];
        let live = [row("a", NodeState::Live, 1.0, None, None)];
        history.record(&poll(0.25, 1, &live, &members));
        history.record(&poll(0.75, 2, &live, &members));
        let spans: Vec<_> = history.lanes()[0].spans.iter().map(|s| (s.state, s.from, s.to)).collect();
        assert_eq!(spans, [(NodeState::Starting, 0.0, 0.25), (NodeState::Live, 0.25, 0.75)]);
    }

    #[test]
    fn a_node_that_left_the_queue_is_ending() {
        assert_eq!(node_state(&member("a", 1, None), None), NodeState::Terminating);
    }

    #[test]
    fn samples_stay_bounded() {
        let mut history = History::new(100);
        (0..10_000).for_each(|i| history.record(&poll(f64::from(i) / 10_000.0, 0, &[], &[])));
        assert!(history.samples().len() <= MAX_SAMPLES);
        assert!(history.samples().windows(2).all(|pair| pair[0].day_share < pair[1].day_share));
    }
}
