//! SVG picture of the day: capacity and use, and a row for each node with its window.

use super::text;
use super::view::{DAY_HOURS, Lane, NodeState, Sample};
use std::fmt::Write;

const WIDTH: f64 = 960.0;
const LEFT: f64 = 90.0;
const RIGHT: f64 = 24.0;
const CHART_TOP: f64 = 56.0;
const CHART_HEIGHT: f64 = 220.0;
const LANE_HEIGHT: f64 = 22.0;
const LANES_TOP: f64 = CHART_TOP + CHART_HEIGHT + 56.0;

/// Content of the picture.
#[derive(Clone, Debug)]
pub struct Picture<'a> {
    pub title: &'a str,
    pub subtitle: &'a str,
    pub samples: &'a [Sample],
    pub lanes: &'a [Lane],
}

impl Picture<'_> {
    /// Returns the SVG document.
    pub fn svg(&self) -> String {
        let height = LANES_TOP + self.lanes.len() as f64 * LANE_HEIGHT + 56.0;
        let mut out = String::new();
        // Writing to a string cannot fail.
        let _ = self.write(&mut out, height);
        out
    }

    fn write(&self, out: &mut String, height: f64) -> std::fmt::Result {
        writeln!(
            out,
            r##"<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" font-family="ui-sans-serif, system-ui, sans-serif" font-size="12">
<rect width="{WIDTH}" height="{height}" rx="8" fill="#ffffff"/>
<text x="{LEFT}" y="26" font-size="16" font-weight="600" fill="#1f2328">{}</text>
<text x="{LEFT}" y="44" fill="#59636e">{}</text>"##,
            escape(self.title),
            escape(self.subtitle)
        )?;
        self.chart(out)?;
        self.lanes(out)?;
        self.legend(out, height - 22.0)?;
        writeln!(out, "</svg>")
    }

    fn chart(&self, out: &mut String) -> std::fmt::Result {
        let top = self.samples.iter().map(|s| s.capacity_bytes.max(s.used_bytes)).max().unwrap_or(0).max(1);
        let base = CHART_TOP + CHART_HEIGHT;
        let y = |bytes: u64| base - bytes as f64 / top as f64 * CHART_HEIGHT;
        // One grid line for each node, or for every second, third, ... if there are many.
        let peak = self.samples.iter().max_by_key(|sample| sample.nodes);
        let node_bytes = peak.map_or(top, |peak| peak.capacity_bytes / u64::from(peak.nodes.max(1))).max(1);
        let step = (node_bytes * (top / node_bytes).div_ceil(8).max(1)).max(1);
        for bytes in (0..=top).step_by(usize::try_from(step).unwrap_or(usize::MAX)) {
            let at = y(bytes);
            writeln!(
                out,
                r##"<line x1="{LEFT}" x2="{:.1}" y1="{at:.1}" y2="{at:.1}" stroke="#d1d9e0"/><text x="{:.1}" y="{:.1}" text-anchor="end" fill="#59636e">{}</text>"##,
                WIDTH - RIGHT,
                LEFT - 8.0,
                at + 4.0,
                text::bytes(bytes)
            )?;
        }
        let mut capacity = format!("M{LEFT:.1} {base:.1}");
        let mut used = capacity.clone();
        let mut last = base;
        let mut end = LEFT;
        for sample in self.samples {
            end = x(sample.day_share);
            let now = y(sample.capacity_bytes);
            // Capacity changes in steps.
            write!(capacity, "L{end:.1} {last:.1}L{end:.1} {now:.1}")?;
            write!(used, "L{end:.1} {:.1}", y(sample.used_bytes))?;
            last = now;
        }
        writeln!(
            out,
            r##"<path d="{capacity}L{end:.1} {base:.1}Z" fill="#ddf4ff" stroke="#0969da" stroke-width="1.5"/>
<path d="{used}L{end:.1} {base:.1}Z" fill="#0969da" fill-opacity="0.55" stroke="none"/>
<text x="{:.1}" y="{:.1}" text-anchor="end" fill="#0969da">capacity of all nodes, and what is used of it</text>"##,
            WIDTH - RIGHT - 4.0,
            CHART_TOP - 6.0
        )?;
        for hour in (0..=DAY_HOURS).step_by(3) {
            let at = x(hour as f64 / DAY_HOURS as f64);
            let label = base + 18.0;
            writeln!(
                out,
                r##"<text x="{at:.1}" y="{label:.1}" text-anchor="middle" fill="#59636e">{hour:02}:00</text>"##
            )?;
        }
        Ok(())
    }

    fn lanes(&self, out: &mut String) -> std::fmt::Result {
        writeln!(
            out,
            r##"<text x="{LEFT}" y="{:.1}" fill="#59636e">nodes and their windows of updates</text>"##,
            LANES_TOP - 10.0
        )?;
        for (i, lane) in self.lanes.iter().enumerate() {
            let y = LANES_TOP + i as f64 * LANE_HEIGHT;
            let middle = y + LANE_HEIGHT / 2.0 + 4.0;
            let label = LEFT - 8.0;
            writeln!(
                out,
                r##"<text x="{label:.1}" y="{middle:.1}" text-anchor="end" fill="#1f2328">{}</text>"##,
                escape(&lane.name)
            )?;
            for span in &lane.spans {
                let from = x(span.from);
                let width = (x(span.to) - from).max(0.8);
                let (top, height) = (y + 3.0, LANE_HEIGHT - 6.0);
                let colour = colour(span.state);
                writeln!(
                    out,
                    r##"<rect x="{from:.1}" y="{top:.1}" width="{width:.1}" height="{height:.1}" fill="{colour}"/>"##
                )?;
            }
            let (Some((first, last)), Some(live)) =
                (lane.window, lane.spans.iter().find(|s| s.state == NodeState::Live))
            else {
                continue;
            };
            // The label is right of the live span, or left of it late in the day, where there is room.
            let (at, anchor) = match live.to < 0.75 {
                true => (x(live.to) + 5.0, "start"),
                false => (x(live.from) - 5.0, "end"),
            };
            let label = text::window(first, last);
            writeln!(
                out,
                r##"<text x="{at:.1}" y="{middle:.1}" text-anchor="{anchor}" font-size="11" fill="#1f2328">{label}</text>"##
            )?;
        }
        Ok(())
    }

    fn legend(&self, out: &mut String, y: f64) -> std::fmt::Result {
        let seen = |state: &NodeState| self.lanes.iter().any(|lane| lane.spans.iter().any(|span| span.state == *state));
        for (i, state) in NodeState::ALL.into_iter().filter(seen).enumerate() {
            let at = LEFT + i as f64 * 110.0;
            writeln!(
                out,
                r##"<rect x="{at}" y="{:.1}" width="12" height="12" fill="{}"/><text x="{}" y="{:.1}" fill="#59636e">{}</text>"##,
                y - 10.0,
                colour(state),
                at + 18.0,
                y,
                state.name()
            )?;
        }
        Ok(())
    }
}

fn x(day_share: f64) -> f64 {
    LEFT + day_share.clamp(0.0, 1.0) * (WIDTH - LEFT - RIGHT)
}

fn colour(state: NodeState) -> &'static str {
    match state {
        NodeState::Starting => "#d1d9e0",
        NodeState::Waiting => "#a5d6ff",
        NodeState::Live => "#1a7f37",
        NodeState::Rebuilding => "#4ac26b",
        NodeState::Rolled => "#d4a72c",
        NodeState::Away => "#ff8182",
        NodeState::Terminating => "#cf222e",
    }
}

pub fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::monitor::view::Span;

    #[test]
    fn a_picture_has_a_lane_and_a_window_for_each_node() {
        let lanes = vec![Lane {
            name: "rdb-<1>".to_string(),
            spans: vec![Span { state: NodeState::Live, from: 0.1, to: 0.4 }],
            window: Some((0, Some(1234))),
        }];
        let samples = vec![Sample { day_share: 0.2, capacity_bytes: 10, used_bytes: 4, nodes: 1 }];
        let svg = Picture { title: "a & b", subtitle: "", samples: &samples, lanes: &lanes }.svg();
        for expected in ["rdb-&lt;1&gt;", "[0, 1,234)", "a &amp; b", "</svg>"] {
            assert!(svg.contains(expected), "{expected}");
        }
    }
}
