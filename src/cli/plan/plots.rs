//! The figures of the paper's study, of the cases that were played.

use super::arguments::{Case, Inputs};
use super::cases::Played;
use crate::config::units::Scale;
use crate::feed::curve::DAY_NS;
use crate::monitor::plot::{Mark, Plot, Series, Unit};
use crate::plan::day::{DayRun, NodeRun};

const HOUR_NS: f64 = 3.6e12;
/// Most series of one plot: beyond that nobody tells them apart.
const MAX_SERIES: usize = 24;
/// Minutes between two points of the volume.
const VOLUME_MINUTES: u64 = 5;

fn hours(at_ns: u64) -> f64 {
    at_ns as f64 / HOUR_NS
}

fn plot(file: &'static str, title: String, note: &str, y: (Unit, &'static str), series: Vec<Series>) -> Plot {
    Plot { file, title, note: note.to_string(), x: (Unit::Hours, "time of day"), y, series, levels: Vec::new() }
}

fn line(name: &str, points: Vec<(f64, f64)>, mark: Mark, group: usize) -> Series {
    Series { name: name.to_string(), points, mark, group }
}

/// Plots of the first case, and of all together.
pub fn plots(inputs: &Inputs, played: &Played) -> Vec<Plot> {
    let mut plots = vec![volume(inputs)];
    if let (Some(case), Some(run)) = (inputs.cases.first(), played.runs.first()) {
        plots.extend([capacity_by_server(case, run), use_by_server(case, run)]);
        plots.extend(wait_between_thresholds(case, run));
        plots.push(capacity_and_use(case, run));
        plots.push(throughput(inputs, case, run));
    }
    if played.runs.len() > 1 {
        let several = ("cases", "Capacity and use of each cluster", "solid: capacity, dashed: in use");
        plots.push(of_cases(several, inputs.cases.iter().zip(&played.runs)));
        let first = inputs.cases.first().map(|case| (case.of.name.clone(), case.roll_percent));
        let is_first = |(case, _): &(&Case, &DayRun)| Some((case.of.name.clone(), case.roll_percent)) == first;
        let by_threshold: Vec<_> = inputs.cases.iter().zip(&played.runs).filter(is_first).collect();
        if by_threshold.len() > 1 && by_threshold.len() < played.runs.len() {
            let of_thresholds =
                ("thresholds", "Capacity and use by scale threshold", "solid: capacity, dashed: in use");
            plots.push(of_cases(of_thresholds, by_threshold.into_iter()));
        }
        plots.push(cost_and_capacity(inputs, played));
    }
    plots
}

fn volume(inputs: &Inputs) -> Plot {
    let step_ns = VOLUME_MINUTES * 60_000_000_000;
    let point = |at: u64| {
        let bytes = inputs.shape.by((at + 1) * step_ns).saturating_sub(inputs.shape.by(at * step_ns));
        (hours(at * step_ns), bytes as f64 / (step_ns as f64 / 1e9))
    };
    let points = (0..DAY_NS / step_ns).map(point).collect();
    let series = vec![line("updates", points, Mark::Line, 0)];
    plot("volume", "Volume of the day".to_string(), "", (Unit::BytesPerSecond, "bytes"), series)
}

fn capacity_by_server(case: &Case, run: &DayRun) -> Plot {
    let memory = case.setup.memory_bytes as f64;
    let of_node = |(index, node): (usize, &NodeRun)| {
        // One above the other.
        let (below, above) = (index as f64 * memory, (index + 1) as f64 * memory);
        let begin = hours(node.requested_ns);
        line(&format!("rdb-{}", index + 1), vec![(begin, below), (begin, above), (24.0, above)], Mark::Line, index)
    };
    let series = run.nodes.iter().enumerate().take(MAX_SERIES).map(of_node).collect();
    let title = format!("Capacity by server: {}", case.name());
    plot("capacity-by-server", title, "from the request for each server", (Unit::Bytes, "memory"), series)
}

/// Memory of a node at each sample, and at the end of the day.
fn memory(case: &Case, node: &NodeRun) -> Vec<(f64, f64)> {
    let latent = case.setup.latent_bytes;
    let at = |(at_ns, held): (u64, u64)| (hours(at_ns), latent.saturating_add(held) as f64);
    let first = (node.joined_ns, 0);
    let last = (DAY_NS, node.held_bytes);
    [first]
        .into_iter()
        .chain(node.filled.iter().copied())
        .chain(node.rolled_ns.map(|ns| (ns, node.held_bytes)))
        .chain([last])
        .map(at)
        .collect()
}

fn use_by_server(case: &Case, run: &DayRun) -> Plot {
    let of_node =
        |(index, node): (usize, &NodeRun)| line(&format!("rdb-{}", index + 1), memory(case, node), Mark::Line, index);
    let series = run.nodes.iter().enumerate().take(MAX_SERIES).map(of_node).collect();
    let title = format!("Memory in use by server: {}", case.name());
    let mut plot = plot("use-by-server", title, "", (Unit::Bytes, "memory"), series);
    plot.levels = levels(case);
    plot
}

fn levels(case: &Case) -> Vec<(String, f64)> {
    let memory = case.setup.memory_bytes as f64;
    let scale = match case.scale {
        Scale::At(percent) => Some((format!("scale {percent} %"), memory * percent / 100.0)),
        Scale::Auto => None,
    };
    let roll = (format!("roll {} %", case.roll_percent), memory * case.roll_percent / 100.0);
    scale.into_iter().chain([roll]).collect()
}

/// The wait of the first successor between its server's two thresholds.
fn wait_between_thresholds(case: &Case, run: &DayRun) -> Option<Plot> {
    let (first, second) = (run.nodes.first()?, run.nodes.get(1)?);
    let rolled_ns = first.rolled_ns?;
    let series = [("rdb-1", first), ("rdb-2", second)].into_iter().enumerate();
    let series = series.map(|(group, (name, node))| line(name, memory(case, node), Mark::Line, group)).collect();
    let minutes = |ns: u64| ns as f64 / 6e10;
    let note = format!(
        "requested at {}, up after {:.1} min, live after {:.1} min more: a cushion of {} lead times",
        crate::monitor::text::clock(second.requested_ns),
        minutes(second.joined_ns.saturating_sub(second.requested_ns)),
        minutes(rolled_ns.saturating_sub(second.joined_ns)),
        super::cases::lead_times(first.cushion),
    );
    let title = format!("The two thresholds and the wait in between: {}", case.name());
    let mut plot = plot("thresholds-wait", title, &note, (Unit::Bytes, "memory"), series);
    plot.levels = levels(case);
    Some(plot)
}

fn total(run: &DayRun, of: impl Fn(&crate::plan::day::Sample) -> u64) -> Vec<(f64, f64)> {
    run.samples.iter().map(|sample| (hours(sample.at_ns), of(sample) as f64)).collect()
}

fn capacity_and_use(case: &Case, run: &DayRun) -> Plot {
    let series = vec![
        line("capacity", total(run, |sample| sample.capacity_bytes), Mark::Steps, 0),
        line("in use", total(run, |sample| sample.used_bytes), Mark::Line, 1),
    ];
    let title = format!("Capacity and use of the cluster: {}", case.name());
    plot(
        "capacity-and-use",
        title,
        "what is between the two lines is paid for and idle",
        (Unit::Bytes, "memory"),
        series,
    )
}

fn throughput(inputs: &Inputs, case: &Case, run: &DayRun) -> Plot {
    let taken: Vec<(f64, f64)> = run
        .samples
        .windows(2)
        .filter_map(|pair| {
            let [one, other] = pair else { return None };
            let seconds = other.at_ns.saturating_sub(one.at_ns) as f64 / 1e9;
            Some((hours(one.at_ns), other.held_bytes.saturating_sub(one.held_bytes) as f64 / seconds))
        })
        .collect();
    let arriving = run.samples.iter().map(|sample| (hours(sample.at_ns), inputs.shape.rate(sample.at_ns).1)).collect();
    let series = vec![line("taken by the nodes", taken, Mark::Line, 0), line("arriving", arriving, Mark::Line, 1)];
    let title = format!("Throughput of the live node: {}", case.name());
    plot("throughput", title, "one line, as long as the cluster keeps up", (Unit::BytesPerSecond, "bytes"), series)
}

fn of_cases<'a>(
    (file, title, note): (&'static str, &str, &str),
    cases: impl Iterator<Item = (&'a Case, &'a DayRun)>,
) -> Plot {
    let of_case = |(group, (case, run)): (usize, (&Case, &DayRun))| {
        [
            line(&case.name(), total(run, |sample| sample.capacity_bytes), Mark::Steps, group),
            line("in use", total(run, |sample| sample.used_bytes), Mark::Line, group),
        ]
    };
    let series = cases.enumerate().take(MAX_SERIES / 2).flat_map(of_case).collect();
    plot(file, title.to_string(), note, (Unit::Bytes, "memory"), series)
}

fn cost_and_capacity(inputs: &Inputs, played: &Played) -> Plot {
    let point = |(group, ((case, run), row)): (usize, ((&Case, &DayRun), &super::cases::CaseRow))| {
        let most = run.samples.iter().map(|sample| sample.capacity_bytes).max().unwrap_or(0);
        line(&case.name(), vec![(most as f64, row.cost_usd)], Mark::Points, group)
    };
    let cases = inputs.cases.iter().zip(&played.runs).zip(&played.rows).enumerate();
    let fixed = crate::plan::figures::fixed_usd(&inputs.fixed);
    Plot {
        file: "cost-and-capacity",
        title: "Cost of the day against the most capacity".to_string(),
        note: String::new(),
        x: (Unit::Bytes, "most capacity of the day"),
        y: (Unit::Usd, "cost"),
        series: cases.take(MAX_SERIES).map(point).collect(),
        levels: vec![(format!("{} all day", inputs.fixed.name), fixed)],
    }
}
