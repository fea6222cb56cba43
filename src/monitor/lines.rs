//! Renders a cluster's view as lines of text, for a terminal or a log.

use super::bar;
use super::chart;
use super::text;
use super::view::{ClusterView, NodeState, NodeView};

/// Whether lines have terminal colours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Style {
    Plain,
    Colour,
}

impl Style {
    fn paint(self, code: &str, text: &str) -> String {
        match self {
            Style::Plain => text.to_string(),
            Style::Colour => format!("\x1b[{code}m{text}\x1b[0m"),
        }
    }

    fn dim(self, text: &str) -> String {
        self.paint("2", text)
    }

    fn bold(self, text: &str) -> String {
        self.paint("1", text)
    }

    fn state(self, state: NodeState, text: &str) -> String {
        let code = match state {
            NodeState::Starting => "2",
            NodeState::Waiting => "36",
            NodeState::Live => "1;32",
            NodeState::Rebuilding => "32",
            NodeState::Rolled => "33",
            NodeState::Away | NodeState::Terminating => "31",
        };
        self.paint(code, text)
    }
}

/// Returns the whole screen, at most `columns` wide.
pub fn screen(view: &ClusterView, columns: usize, style: Style) -> Vec<String> {
    let mut lines = Vec::new();
    let day = view.day_ns as f64 / proto::time::DAY_NS as f64;
    lines.push(format!(
        "{}  {}  {}  {}",
        style.bold(&view.title),
        style.bold(&text::clock(view.day_ns)),
        bar::progress(day, columns.saturating_sub(60).clamp(10, 40)),
        style.dim(&format!("after {}", text::span(view.elapsed_ns)))
    ));
    lines.push(rates(view));
    lines.push(String::new());
    lines.push(style.dim(".u.asg.tab"));
    let (names, rows) = &view.queue;
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    lines.extend(text::table(&names, rows));
    lines.push(String::new());
    let thresholds = match view.scale_percent {
        Some(scale) => format!("scale at {scale} %, roll at {} %", view.roll_percent),
        None => format!("scale by rate and lead time, roll at {} %", view.roll_percent),
    };
    lines.push(style.dim(&format!("nodes of {} each; {thresholds}", text::bytes(view.node_memory_bytes))));
    let marks: Vec<f64> = view.scale_percent.into_iter().chain([view.roll_percent]).collect();
    lines.extend(view.nodes.iter().map(|node| self::node(node, &marks, columns, style)));
    lines.push(String::new());
    lines.push(style.dim("capacity ░ and use █ over the day"));
    lines.extend(chart::capacity(&view.samples, columns.min(110), 8));
    lines.push(String::new());
    lines.push(cost(view));
    if !view.note.is_empty() {
        lines.push(view.note.clone());
    }
    lines.iter().map(|line| text::cut(line, columns)).collect()
}

/// Returns a one-line summary, for output that is not a terminal.
pub fn summary(view: &ClusterView) -> String {
    let nodes: Vec<String> = view
        .nodes
        .iter()
        .map(|node| match node.memory_percent {
            Some(percent) => format!("{} {} {percent:.0}%", node.name, node.state.name()),
            None => format!("{} {}", node.name, node.state.name()),
        })
        .collect();
    format!("{} {} | {}", text::clock(view.day_ns), rates(view), nodes.join(", "))
}

fn rates(view: &ClusterView) -> String {
    let durable = view.durable.map_or(String::new(), |durable| format!("  durable {}", text::thousands(durable)));
    let behind = view.nodes.iter().map(|node| node.behind).max().unwrap_or(0);
    format!(
        "tip {}{durable}  {} updates/s  {} rows/s  lag {}",
        text::thousands(view.tip),
        text::thousands(view.updates_per_second as u64),
        text::thousands(view.rows_per_second as u64),
        text::thousands(behind)
    )
}

fn node(node: &NodeView, marks: &[f64], columns: usize, style: Style) -> String {
    let bar_columns = columns.saturating_sub(66).clamp(20, 50);
    let (bar, percent) = match node.memory_percent {
        Some(percent) => (bar::bar(percent, marks, bar_columns), format!("{percent:.1} %")),
        None => (" ".repeat(bar_columns), String::new()),
    };
    let window = node.window.map_or(String::new(), |(first, last)| text::window(first, last));
    let proof = match node.verified {
        Some(true) => " ✓",
        Some(false) => " ✗",
        None => "",
    };
    format!(
        "{} {} {} {}  {}{proof}",
        text::left(&node.name, 10),
        style.state(node.state, &text::left(node.state.name(), 11)),
        style.state(node.state, &bar),
        text::right(&percent, 7),
        window
    )
}

fn cost(view: &ClusterView) -> String {
    let against = match view.big_server_hours {
        hours if hours > 0.0 => {
            let saved = (1.0 - view.node_hours / hours) * 100.0;
            format!("; one server with room for the day: {hours:.1}, saved {saved:.0} %")
        }
        _ => String::new(),
    };
    format!("cost so far: {:.1} node-hours{against}", view.node_hours)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::monitor::view::Sample;

    fn view() -> ClusterView {
        let node = |name: &str, state, percent, window| NodeView {
            name: name.to_string(),
            state,
            memory_percent: percent,
            window,
            rows: 10,
            behind: 0,
            verified: None,
        };
        ClusterView {
            title: "elastick".to_string(),
            day_ns: 9 * 3_600_000_000_000,
            tip: 12_345,
            queue: (vec!["queue".to_string()], vec![vec!["rdb".to_string()]]),
            nodes: vec![
                node("rdb-1", NodeState::Rolled, Some(80.5), Some((0, Some(9000)))),
                node("rdb-2", NodeState::Live, Some(12.0), Some((9000, None))),
                node("rdb-3", NodeState::Starting, None, None),
            ],
            node_memory_bytes: 32 << 20,
            scale_percent: Some(60.0),
            roll_percent: 80.0,
            samples: vec![Sample { day_share: 0.3, capacity_bytes: 100, used_bytes: 50, nodes: 1 }],
            node_hours: 9.0,
            big_server_hours: 18.0,
            ..ClusterView::default()
        }
    }

    #[test]
    fn the_screen_shows_windows_states_and_what_is_saved() {
        let text = screen(&view(), 100, Style::Plain).join("\n");
        for expected in
            ["[0, 9,000)", "[9,000, …)", "starting", "80.5 %", "tip 12,345", "saved 50 %", "09:00:00", "rdb"]
        {
            assert!(text.contains(expected), "{expected} is missing from\n{text}");
        }
    }

    #[test]
    fn no_line_is_wider_than_the_terminal() {
        for style in [Style::Plain, Style::Colour] {
            let lines = screen(&view(), 40, style);
            assert!(lines.iter().all(|line| text::width(line) <= 40), "{lines:#?}");
        }
    }

    #[test]
    fn plain_text_has_no_colour_codes() {
        assert!(!screen(&view(), 100, Style::Plain).concat().contains('\x1b'));
    }
}
