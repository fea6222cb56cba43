//! What a cluster did on the day of a log, by the queue's journal beside it, and what the plan of the same day says.

use super::CliError;
use super::arguments::Inputs;
use super::section::{Section, Table};
use crate::log::queue_path;
use crate::monitor::text;
use crate::plan::day::{DayRun, NodeRun};
use crate::queue::journal::{self, Change};
use crate::queue::{State, Subscriber, SubscriberId};
use serde::Serialize;
use std::collections::BTreeMap;
use std::io::Read;
use std::path::Path;

/// Longest journal that is read.
const MAX_JOURNAL_BYTES: u64 = 256 << 20;
const MINUTE_NS: u64 = 60_000_000_000;

/// A node that was live, in the order in which they were.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PastNode {
    pub name: String,
    pub queue: String,
    /// Number of updates in the log when it joined the queue, when it became live, and when it rolled.
    pub joined: u64,
    pub live: u64,
    pub rolled: Option<u64>,
}

/// A live node and the planned one of the same number. Times are of the log's day.
#[derive(Clone, Debug, Serialize)]
pub struct PastRow {
    pub queue: String,
    pub node: String,
    pub first: u64,
    pub end: Option<u64>,
    pub joined_s: f64,
    pub live_s: f64,
    pub rolled_s: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub planned_joined_s: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub planned_live_s: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub planned_rolled_s: Option<f64>,
}

/// Reads the journal beside a log; `None` if there is none.
///
/// # Errors
/// It cannot be read, is longer than [`MAX_JOURNAL_BYTES`], or is damaged.
pub fn read(log: &Path) -> Result<Option<Vec<PastNode>>, CliError> {
    let path = queue_path(log);
    let failed = |why: String| CliError::Failed(format!("{}: {why}", path.display()));
    let file = match std::fs::File::open(&path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        file => file.map_err(|error| failed(error.to_string()))?,
    };
    let mut bytes = Vec::new();
    file.take(MAX_JOURNAL_BYTES + 1).read_to_end(&mut bytes).map_err(|error| failed(error.to_string()))?;
    if bytes.len() as u64 > MAX_JOURNAL_BYTES {
        return Err(failed(format!("longer than {MAX_JOURNAL_BYTES} bytes")));
    }
    let journal = journal::read(&bytes).map_err(|error| failed(error.to_string()))?;
    Ok(Some(nodes(&journal.records)))
}

/// The nodes that the records have as live.
fn nodes(records: &[journal::Record]) -> Vec<PastNode> {
    let mut joined: BTreeMap<SubscriberId, u64> = BTreeMap::new();
    let mut found: Vec<(SubscriberId, PastNode)> = Vec::new();
    for record in records {
        let tip = record.tip.0;
        for change in &record.changes {
            let Change::Subscriber(of) = change else { continue };
            let came = *joined.entry(of.id).or_insert(tip);
            let known = found.iter_mut().find(|(id, _)| *id == of.id);
            match (of.state, known) {
                (State::Live, None) => found.push((of.id, node(of, came, tip))),
                (State::Live | State::Waiting, _) | (_, None) => {}
                (_, Some((_, known))) => {
                    known.rolled.get_or_insert(tip);
                }
            }
        }
    }
    found.into_iter().map(|(_, node)| node).collect()
}

fn node(of: &Subscriber, joined: u64, live: u64) -> PastNode {
    PastNode { name: of.label(), queue: of.queue.to_string(), joined, live, rolled: None }
}

/// Sets the nodes beside those of the planned day, if there is one plan and one queue.
pub fn rows(past: &[PastNode], updates_by_minute: &[u64], planned: Option<&DayRun>) -> Vec<PastRow> {
    let is_one_queue = past.iter().all(|node| past.first().is_some_and(|first| first.queue == node.queue));
    let mut live: Vec<&NodeRun> =
        planned.iter().flat_map(|run| &run.nodes).filter(|run| run.live_ns.is_some()).collect();
    live.sort_by_key(|run| run.live_ns);
    let seconds = |ns: u64| ns as f64 / 1e9;
    let at = |tip: u64| seconds(time_ns(updates_by_minute, tip));
    let row = |(number, node): (usize, &PastNode)| {
        let plan = live.get(number).filter(|_| is_one_queue);
        PastRow {
            queue: node.queue.clone(),
            node: node.name.clone(),
            first: node.live,
            end: node.rolled,
            joined_s: at(node.joined),
            live_s: at(node.live),
            rolled_s: node.rolled.map(at),
            planned_joined_s: plan.map(|run| seconds(run.joined_ns)),
            planned_live_s: plan.and_then(|run| run.live_ns).map(seconds),
            planned_rolled_s: plan.and_then(|run| run.rolled_ns).map(seconds),
        }
    };
    past.iter().enumerate().map(row).collect()
}

/// Time of day at which the log had so many updates.
fn time_ns(updates_by_minute: &[u64], tip: u64) -> u64 {
    let mut before = 0u64;
    for (minute, updates) in (0u64..).zip(updates_by_minute) {
        let after = before.saturating_add(*updates);
        if tip <= after && *updates > 0 {
            let part = tip.saturating_sub(before) as f64 / *updates as f64;
            return minute.saturating_mul(MINUTE_NS).saturating_add((part * MINUTE_NS as f64) as u64);
        }
        before = after;
    }
    (updates_by_minute.len() as u64).saturating_mul(MINUTE_NS)
}

/// Shows what the cluster did.
pub fn section(inputs: &Inputs, rows: &[PastRow], planned: Option<&DayRun>) -> Section {
    let time = |seconds: f64| text::clock((seconds * 1e9) as u64);
    let some = |seconds: Option<f64>| seconds.map(time).unwrap_or_default();
    let later = |row: &PastRow| match (row.planned_rolled_s, row.rolled_s) {
        (Some(planned), Some(real)) => format!("{:+.1}", (planned - real) / 60.0),
        _ => String::new(),
    };
    let cells = |row: &PastRow| {
        let mut cells = vec![
            row.queue.clone(),
            row.node.clone(),
            text::window(row.first, row.end),
            time(row.joined_s),
            time(row.live_s),
            some(row.rolled_s),
        ];
        if planned.is_some() {
            cells.extend([some(row.planned_joined_s), some(row.planned_rolled_s), later(row)]);
        }
        cells
    };
    let mut names = vec!["queue", "node", "window", "joined", "live", "rolled"];
    let by = "By the queue's journal beside the log; times are those of the updates in the log.";
    let mut notes = vec![by.to_string()];
    if let (Some(run), Some(case)) = (planned, inputs.cases.first()) {
        names.extend(["planned joined", "planned rolled", "minutes later"]);
        let live = run.nodes.iter().filter(|node| node.live_ns.is_some()).count();
        notes.push(format!("{} nodes were live; {live} are planned with {}.", rows.len(), case.name()));
    }
    Section {
        title: "What the cluster did".to_string(),
        tables: vec![Table::new(&names, rows.iter().map(cells).collect())],
        notes,
        plots: Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_of_updates_has_the_time_at_which_the_log_had_it() {
        let minutes = [0, 10, 0, 20];
        let at = |tip| time_ns(&minutes, tip) / 1_000_000_000;
        assert_eq!((at(0), at(5), at(10), at(20), at(30), at(31)), (60, 90, 120, 210, 240, 240));
    }

    #[test]
    fn planned_nodes_are_set_beside_those_of_one_queue() {
        let past = |queue: &str| PastNode { queue: queue.into(), live: 1, rolled: Some(2), ..PastNode::default() };
        let run = NodeRun { live_ns: Some(0), rolled_ns: Some(7_000_000_000), ..NodeRun::default() };
        let plan = DayRun { nodes: vec![run], ..DayRun::default() };
        let of = |past: &[PastNode]| rows(past, &[2], Some(&plan)).first().and_then(|row| row.planned_rolled_s);
        assert_eq!(of(&[past("rdb")]), Some(7.0));
        assert_eq!(of(&[past("rdb"), past("quotes")]), None, "nobody knows which one is planned");
    }
}
