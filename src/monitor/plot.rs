//! Draws series of (x, y) points as an SVG plot with axes, legend and threshold lines.

use super::svg::escape;
use super::text;
use std::fmt::Write;

const WIDTH: f64 = 960.0;
const LEFT: f64 = 90.0;
const RIGHT: f64 = 24.0;
const TOP: f64 = 64.0;
const HEIGHT: f64 = 260.0;
const LEGEND_HEIGHT: f64 = 22.0;
/// Lines of the grid, about.
const GRID: f64 = 5.0;
/// Labels of one row of the legend.
const LEGEND_COLUMNS: usize = 4;
/// Colours that people with any sight tell apart (Okabe and Ito), then their darker sisters.
const COLOURS: [&str; 8] = ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#7f3c8d", "#59636e"];

/// What an axis counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Hours of a day, 0 to 24.
    Hours,
    Bytes,
    BytesPerSecond,
    Percent,
    Usd,
    LeadTimes,
}

impl Unit {
    fn label(self, value: f64) -> String {
        match self {
            Unit::Hours => format!("{:02}:{:02}", value as u64, (value.fract() * 60.0).round() as u64),
            Unit::Bytes => text::bytes(value as u64),
            Unit::BytesPerSecond => format!("{}/s", text::bytes(value as u64)),
            Unit::Percent => format!("{value:.0} %"),
            Unit::Usd => format!("{value:.2} USD"),
            Unit::LeadTimes => format!("{value:.0}"),
        }
    }

    /// Distance between two lines of the grid.
    fn step(self, most: f64) -> f64 {
        match self {
            Unit::Hours => 3.0,
            Unit::Bytes | Unit::BytesPerSecond => (most / GRID).max(1.0).log2().ceil().exp2(),
            _ => {
                let raw = (most / GRID).max(1e-9);
                let power = 10f64.powf(raw.log10().floor());
                let round = [1.0, 2.0, 5.0, 10.0].into_iter().find(|factor| raw <= factor * power).unwrap_or(10.0);
                round * power
            }
        }
    }
}

/// How a series is drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mark {
    Line,
    /// A value holds until the next.
    Steps,
    Points,
}

/// One series of points, by growing x.
#[derive(Clone, Debug, PartialEq)]
pub struct Series {
    pub name: String,
    pub points: Vec<(f64, f64)>,
    pub mark: Mark,
    /// Series of one group have one colour: those after the first are dashed.
    pub group: usize,
}

/// A plot.
#[derive(Clone, Debug, PartialEq)]
pub struct Plot {
    /// Name of its file, without an extension.
    pub file: &'static str,
    pub title: String,
    /// What to see in it.
    pub note: String,
    pub x: (Unit, &'static str),
    pub y: (Unit, &'static str),
    pub series: Vec<Series>,
    /// Horizontal lines with their names.
    pub levels: Vec<(String, f64)>,
}

impl Plot {
    /// Returns the SVG document.
    pub fn svg(&self) -> String {
        let mut out = String::new();
        // Writing to a string cannot fail.
        let _ = self.write(&mut out);
        out
    }

    fn most(&self, of: impl Fn(&(f64, f64)) -> f64) -> f64 {
        self.series.iter().flat_map(|series| series.points.iter().map(&of)).fold(0.0, f64::max)
    }

    fn write(&self, out: &mut String) -> std::fmt::Result {
        let legend_rows = self.series.len().div_ceil(LEGEND_COLUMNS) as f64;
        let height = TOP + HEIGHT + 62.0 + legend_rows * LEGEND_HEIGHT;
        writeln!(
            out,
            r##"<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" role="img" font-family="ui-sans-serif, system-ui, sans-serif" font-size="12">
<title>{title}</title>
<rect width="{WIDTH}" height="{height}" rx="8" fill="#ffffff"/>
<text x="{LEFT}" y="26" font-size="16" font-weight="600" fill="#1f2328">{title}</text>
<text x="{LEFT}" y="44" fill="#59636e">{note}</text>"##,
            title = escape(&self.title),
            note = escape(&self.note)
        )?;
        let levels = self.levels.iter().map(|(_, level)| *level).fold(0.0, f64::max);
        let (x_step, y_step) = (self.x.0.step(self.most(|at| at.0)), self.y.0.step(self.most(|at| at.1).max(levels)));
        let x_most = if self.x.0 == Unit::Hours { 24.0 } else { ceil(self.most(|at| at.0), x_step) };
        let y_most = ceil(self.most(|at| at.1).max(levels), y_step);
        let x = |value: f64| LEFT + (value / x_most).clamp(0.0, 1.0) * (WIDTH - LEFT - RIGHT);
        let y = |value: f64| TOP + HEIGHT - (value / y_most).clamp(0.0, 1.0) * HEIGHT;
        for line in 0..=((y_most / y_step).round() as u32) {
            let value = f64::from(line) * y_step;
            let (at, end) = (y(value), WIDTH - RIGHT);
            writeln!(
                out,
                r##"<line x1="{LEFT}" x2="{end}" y1="{at:.1}" y2="{at:.1}" stroke="#d1d9e0"/><text x="{:.1}" y="{:.1}" text-anchor="end" fill="#59636e">{}</text>"##,
                LEFT - 8.0,
                at + 4.0,
                self.y.0.label(value)
            )?;
        }
        let last = (x_most / x_step).round() as u32;
        for line in 0..=last {
            let value = f64::from(line) * x_step;
            // The last one would leave the picture.
            let anchor = if line == last { "end" } else { "middle" };
            writeln!(
                out,
                r##"<text x="{:.1}" y="{:.1}" text-anchor="{anchor}" fill="#59636e">{}</text>"##,
                x(value),
                TOP + HEIGHT + 18.0,
                self.x.0.label(value)
            )?;
        }
        writeln!(
            out,
            r##"<text x="{:.1}" y="{:.1}" text-anchor="middle" fill="#59636e">{}</text>
<text x="{LEFT}" y="{:.1}" text-anchor="end" dx="-8" fill="#59636e">{}</text>"##,
            (LEFT + WIDTH - RIGHT) / 2.0,
            TOP + HEIGHT + 36.0,
            escape(self.x.1),
            TOP - 10.0,
            escape(self.y.1)
        )?;
        for (name, level) in &self.levels {
            let (at, end) = (y(*level), WIDTH - RIGHT);
            writeln!(
                out,
                r##"<line x1="{LEFT}" x2="{end}" y1="{at:.1}" y2="{at:.1}" stroke="#cf222e" stroke-dasharray="6 4"/><text x="{end}" y="{:.1}" text-anchor="end" fill="#cf222e">{}</text>"##,
                at - 4.0,
                escape(name)
            )?;
        }
        for (index, series) in self.series.iter().enumerate() {
            let is_first = !self.series.iter().take(index).any(|before| before.group == series.group);
            draw(out, series, is_first, &x, &y)?;
            let (column, row) = (index % LEGEND_COLUMNS, index / LEGEND_COLUMNS);
            let at = LEFT + column as f64 * (WIDTH - LEFT - RIGHT) / LEGEND_COLUMNS as f64;
            let base = TOP + HEIGHT + 58.0 + row as f64 * LEGEND_HEIGHT;
            writeln!(
                out,
                r##"<line x1="{at:.1}" x2="{:.1}" y1="{:.1}" y2="{:.1}" stroke="{}" stroke-width="3"{}/><text x="{:.1}" y="{base:.1}" fill="#1f2328">{}</text>"##,
                at + 16.0,
                base - 4.0,
                base - 4.0,
                colour(series.group),
                dash(is_first),
                at + 22.0,
                escape(&series.name)
            )?;
        }
        writeln!(out, "</svg>")
    }
}

fn draw(
    out: &mut String,
    series: &Series,
    is_first: bool,
    x: &impl Fn(f64) -> f64,
    y: &impl Fn(f64) -> f64,
) -> std::fmt::Result {
    let colour = colour(series.group);
    if series.mark == Mark::Points {
        for point in &series.points {
            writeln!(
                out,
                r##"<circle cx="{:.1}" cy="{:.1}" r="4.5" fill="{colour}" fill-opacity="{}"/>"##,
                x(point.0),
                y(point.1),
                if is_first { "1" } else { "0.5" }
            )?;
        }
        return Ok(());
    }
    let mut path = String::new();
    let mut last = None;
    for point in &series.points {
        let (at, value) = (x(point.0), y(point.1));
        match (last, series.mark) {
            (None, _) => write!(path, "M{at:.1} {value:.1}")?,
            (Some(before), Mark::Steps) => write!(path, "L{at:.1} {before:.1}L{at:.1} {value:.1}")?,
            (Some(_), _) => write!(path, "L{at:.1} {value:.1}")?,
        }
        last = Some(value);
    }
    writeln!(out, r##"<path d="{path}" fill="none" stroke="{colour}" stroke-width="1.8"{}/>"##, dash(is_first))
}

fn ceil(value: f64, step: f64) -> f64 {
    ((value / step).ceil() * step).max(step)
}

fn colour(group: usize) -> &'static str {
    COLOURS.get(group % COLOURS.len()).copied().unwrap_or("#59636e")
}

fn dash(is_first: bool) -> &'static str {
    if is_first { "" } else { r#" stroke-dasharray="4 3""# }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plot_has_its_series_levels_and_labels() {
        let points = vec![(0.0, 0.0), (12.0, 3e9), (24.0, 4e9)];
        let series = |name: &str, mark| Series { name: name.to_string(), points: points.clone(), mark, group: 0 };
        let plot = Plot {
            file: "capacity",
            title: "a & b".to_string(),
            note: "<note>".to_string(),
            x: (Unit::Hours, "time of day"),
            y: (Unit::Bytes, "memory"),
            series: vec![series("one", Mark::Steps), series("other", Mark::Line)],
            levels: vec![("limit".to_string(), 4e9)],
        };
        let svg = plot.svg();
        for wanted in ["a &amp; b", "&lt;note&gt;", "12:00", "4.0 GiB", "limit", "stroke-dasharray=\"4 3\"", "</svg>"] {
            assert!(svg.contains(wanted), "{wanted}: {svg}");
        }
    }

    #[test]
    fn a_plot_without_points_is_empty_and_no_error() {
        let plot = Plot {
            file: "none",
            title: String::new(),
            note: String::new(),
            x: (Unit::Usd, ""),
            y: (Unit::Percent, ""),
            series: Vec::new(),
            levels: Vec::new(),
        };
        assert!(plot.svg().ends_with("</svg>\n") && !plot.svg().contains("NaN"));
    }

    #[test]
    fn grids_have_round_steps() {
        assert_eq!(Unit::Percent.step(83.0), 20.0);
        assert_eq!(Unit::Usd.step(7.2), 2.0);
        assert_eq!(Unit::Bytes.step(16e9), (1u64 << 32) as f64);
    }
}
