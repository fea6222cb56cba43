//! The demo's final report, as text and as JSON.

use super::history::{Handover, History};
use super::proof::{Held, TableVerdict, Verdict};
use super::sleep::Slept;
use super::standby::TakeOver;
use crate::monitor::chart;
use crate::monitor::text;
use serde::Serialize;

/// Content of the final report.
pub struct Report<'a> {
    pub verdict: &'a Verdict,
    pub history: &'a History,
    pub tip: u64,
    /// Rows that q counts in the tables of all nodes.
    pub counted_rows: u64,
    pub node_memory_bytes: u64,
    pub roll_percent: f64,
    /// Nodes left after the end of the day; `None` if the day did not get that far.
    pub nodes_left: Option<u32>,
    pub min_nodes: u32,
    pub seed: u64,
    /// Of `--kill-tick`.
    pub take_over: Option<TakeOver>,
    /// Of `--sleep`.
    pub slept: Option<Slept>,
}

impl Report<'_> {
    /// Whether the demo succeeded.
    pub fn is_good(&self) -> bool {
        self.verdict.is_proved() && self.count_is_right() && self.nodes_left == Some(self.min_nodes)
    }

    /// Describes every miss.
    pub fn misses(&self) -> Vec<String> {
        let mut misses = self.verdict.misses.clone();
        if !self.count_is_right() {
            let logged = self.logged_rows();
            misses.push(format!("q counts {} rows in the nodes; the log has {logged}", self.counted_rows));
        }
        if let Some(left) = self.nodes_left
            && left != self.min_nodes
        {
            misses.push(format!("{left} nodes are left after the end of the day, expected {}", self.min_nodes));
        }
        misses
    }

    fn logged_rows(&self) -> u64 {
        self.verdict.tables.iter().map(|table| table.logged.rows).sum()
    }

    fn count_is_right(&self) -> bool {
        self.counted_rows == self.logged_rows()
    }

    /// Node hours saved against one large server, in percent.
    fn saved_percent(&self) -> f64 {
        saved_percent(self.history.node_hours(), self.history.big_server_hours(self.roll_percent))
    }

    /// Returns the report as lines of text.
    pub fn text(&self) -> Vec<String> {
        let mut lines = Vec::new();
        lines.push(format!("the paper's day on this machine, seed {}", self.seed));
        lines.push(String::new());
        lines.extend(chart::capacity(self.history.samples(), 100, 10));
        lines.push("capacity ░ and use █ of all nodes".to_string());
        lines.push(String::new());
        lines.extend(self.tables());
        lines.push(String::new());
        lines.extend(self.windows());
        lines.push(String::new());
        lines.extend(self.figures());
        lines.push(String::new());
        if self.is_good() {
            lines.push(format!(
                "proved: {} updates, {} rows: each held exactly once, as sent and as logged",
                text::thousands(self.tip),
                text::thousands(self.logged_rows())
            ));
            let sent: u64 = self.verdict.tables.iter().map(|table| table.sent.updates).sum();
            if self.tip > sent {
                let others = text::thousands(self.tip - sent);
                lines.push(format!("{others} of the updates came from other publishers: held as logged"));
            }
        } else {
            lines.push("NOT proved:".to_string());
            lines.extend(self.misses().iter().map(|miss| format!("  {miss}")));
        }
        lines
    }

    fn tables(&self) -> Vec<String> {
        let mut rows = Vec::new();
        for table in &self.verdict.tables {
            for (who, proof) in [("sent", table.sent), ("logged", table.logged), ("held", table.held)] {
                rows.push(vec![
                    table.table.clone(),
                    who.to_string(),
                    text::right(&text::thousands(proof.updates), 11),
                    text::right(&text::thousands(proof.rows), 13),
                    format!("{:016x}", proof.hash),
                ]);
            }
        }
        text::table(&["table", "", "    updates", "         rows", "hash"], &rows)
    }

    fn windows(&self) -> Vec<String> {
        let rows: Vec<Vec<String>> = self
            .verdict
            .windows
            .iter()
            .map(|(held, equal)| {
                let total = held.proof.total();
                vec![
                    held.node.clone(),
                    text::window(held.first, Some(held.last)),
                    text::right(&text::thousands(total.rows), 13),
                    if *equal { "✓" } else { "✗" }.to_string(),
                ]
            })
            .collect();
        text::table(&["node", "window", "         rows", "verified"], &rows)
    }

    fn figures(&self) -> Vec<String> {
        let handovers = self.history.handovers();
        let longest = handovers.iter().max_by_key(|handover| handover.took_ns);
        let cushion = handovers.iter().filter_map(|handover| handover.cushion).min_by(f64::total_cmp);
        let mut lines = vec![
            format!(
                "nodes        {} at the peak, each of {}; {} left after the end of the day",
                self.history.peak_nodes(),
                text::bytes(self.node_memory_bytes),
                self.nodes_left.map_or("not known how many".to_string(), |left| left.to_string())
            ),
            format!(
                "node-hours   {}",
                comparison(
                    self.history.node_hours(),
                    self.history.big_server_hours(self.roll_percent),
                    self.history.peak_nodes()
                )
            ),
        ];
        if let Some(handover) = longest {
            lines.push(format!(
                "handovers    {}; the longest took {}, from {} to {}",
                handovers.len(),
                text::span(u64::try_from(handover.took_ns).unwrap_or(0)),
                handover.from,
                handover.to
            ));
        }
        if let Some(take_over) = self.take_over {
            lines.push(format!(
                "fail-over    the active tickerplant was killed at {} of the day; the other one accepted updates after {}",
                text::clock(take_over.day_ns),
                take_over.took()
            ));
        }
        lines.extend(self.slept.iter().map(|slept| format!("asleep       {}", slept.text())));
        if let Some(cushion) = cushion {
            lines.push(format!(
                "cushion      {cushion:.1} at the lowest: a successor was requested {cushion:.1} lead times before \
                 it was needed"
            ));
        }
        lines
    }

    /// Returns the report as `--json` prints it.
    pub fn document(&self) -> Document<'_> {
        Document {
            proved: self.is_good(),
            misses: self.misses(),
            tip: self.tip,
            seed: self.seed,
            tables: &self.verdict.tables,
            windows: self.verdict.windows.iter().map(WindowDocument::from).collect(),
            counted_rows: self.counted_rows,
            peak_nodes: self.history.peak_nodes(),
            nodes_left: self.nodes_left,
            node_memory_bytes: self.node_memory_bytes,
            node_hours: self.history.node_hours(),
            big_server_hours: self.history.big_server_hours(self.roll_percent),
            saved_percent: self.saved_percent(),
            handovers: self.history.handovers(),
            take_over: self.take_over,
            slept: self.slept.as_ref(),
        }
    }
}

/// The report, as `--json` prints it.
#[derive(Serialize)]
pub struct Document<'a> {
    proved: bool,
    misses: Vec<String>,
    tip: u64,
    seed: u64,
    tables: &'a [TableVerdict],
    windows: Vec<WindowDocument<'a>>,
    counted_rows: u64,
    peak_nodes: u32,
    nodes_left: Option<u32>,
    node_memory_bytes: u64,
    node_hours: f64,
    big_server_hours: f64,
    saved_percent: f64,
    handovers: Vec<Handover>,
    #[serde(skip_serializing_if = "Option::is_none")]
    take_over: Option<TakeOver>,
    #[serde(skip_serializing_if = "Option::is_none")]
    slept: Option<&'a Slept>,
}

#[derive(Serialize)]
struct WindowDocument<'a> {
    node: &'a str,
    first: u64,
    last: u64,
    rows: u64,
    verified: bool,
}

impl<'a> From<&'a (Held, bool)> for WindowDocument<'a> {
    fn from((held, verified): &'a (Held, bool)) -> Self {
        let rows = held.proof.total().rows;
        WindowDocument { node: &held.node, first: held.first, last: held.last, rows, verified: *verified }
    }
}

/// Node hours saved against one large server, in percent; negative if the nodes cost more.
fn saved_percent(nodes: f64, big: f64) -> f64 {
    if big > 0.0 { (1.0 - nodes / big) * 100.0 } else { 0.0 }
}

/// Describes node hours against those of one large server.
fn comparison(nodes: f64, big: f64, peak_nodes: u32) -> String {
    if peak_nodes <= 1 {
        return format!(
            "{nodes:.1}; the day fitted into one node, so nothing was saved (use more --rows or less --node-memory)"
        );
    }
    let saved = saved_percent(nodes, big);
    let words = if saved < 0.0 { "more" } else { "saved" };
    format!("{nodes:.1}; one server for the whole day costs {big:.1}: {:.0} % {words}", saved.abs())
}

#[cfg(test)]
mod tests {
    use super::comparison;

    #[test]
    fn costs_are_compared_where_there_is_something_to_compare() {
        assert_eq!(comparison(40.0, 100.0, 4), "40.0; one server for the whole day costs 100.0: 60 % saved");
        assert_eq!(comparison(120.0, 100.0, 6), "120.0; one server for the whole day costs 100.0: 20 % more");
        let one = comparison(24.0, 11.4, 1);
        assert!(one.contains("fitted into one node") && !one.contains('%'), "{one}");
    }
}
