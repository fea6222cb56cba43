//! What a cluster that sleeps costs, and how long the first query of a day waits.

use super::arguments::{Case, Inputs};
use super::cases::CaseRow;
use super::parallel;
use super::section::{Section, Table};
use super::sleep_arguments::{DAYS_A_YEAR, SleepInputs};
use crate::feed::curve::DAY_NS;
use crate::monitor::text;
use crate::plan::day::{DayRun, Setup, play};
use crate::plan::noise::{Surge, draw};
use serde::Serialize;
use std::ops::Range;

const HOUR_NS: f64 = 3.6e12;

/// Returns the setup of a case whose cluster sleeps.
fn setup(case: &Case, of: &SleepInputs) -> Setup {
    Setup { min: 0, sample_ns: None, sleep: Some(of.sleep.clone()), ..case.setup.clone() }
}

/// One row of the answer.
#[derive(Debug, Serialize)]
pub struct SleepRow {
    pub instance_type: String,
    pub scale: String,
    pub roll_percent: f64,
    pub node_hours: f64,
    pub cost_usd: f64,
    /// Cost of the same cluster if it stays awake.
    pub awake_usd: f64,
    pub saving_percent: f64,
    /// Hours of a day without any instance.
    pub zero_hours: f64,
    /// Times a day at which it is woken.
    pub wakings: f64,
    /// Most nodes requested at one of them.
    pub woken_nodes: u32,
    /// Most bytes that the log had then.
    pub woken_bytes: u64,
    /// Longest time from such a request until all rows answer; `None` if they never did.
    pub first_answer_s: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub year_usd: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub year_awake_usd: Option<f64>,
}

/// What one day comes to.
struct Night {
    node_hours: f64,
    run: DayRun,
}

/// Plays the days of every case asleep.
///
/// # Errors
/// A day does not end.
pub fn rows(inputs: &Inputs, of: &SleepInputs, awake: &[CaseRow]) -> Result<Vec<SleepRow>, String> {
    let days = if inputs.days > 1 { inputs.days } else { 1 };
    let seeds = || (0..u64::from(days)).map(|day| inputs.seed.wrapping_add(day));
    let calm = Surge { factor: 1.0, length_ns: 0 };
    let pairs: Vec<_> = inputs.cases.iter().flat_map(|case| seeds().map(move |seed| (case, seed))).collect();
    let nights = parallel::each("days of a cluster that sleeps", &pairs, |(case, seed)| {
        let drawn = (days > 1).then(|| draw(&inputs.shape, inputs.noise, calm, *seed));
        let shape = drawn.as_ref().unwrap_or(&inputs.shape).from(of.begin_ns);
        let run = play(&setup(case, of), &shape)?;
        Ok(Night { node_hours: run.paid_ns() as f64 / HOUR_NS, run })
    })?;
    let days = usize::try_from(days).unwrap_or(1);
    let cases = inputs.cases.iter().zip(awake).zip(nights.chunks(days));
    Ok(cases.map(|((case, awake), nights)| row(case, awake, of, nights)).collect())
}

fn row(case: &Case, awake: &CaseRow, of: &SleepInputs, nights: &[Night]) -> SleepRow {
    let count = nights.len() as f64;
    let mean = |of: fn(&Night) -> f64| nights.iter().map(of).sum::<f64>() / count;
    let wakings = || nights.iter().flat_map(|night| &night.run.wakings);
    let node_hours = mean(|night| night.node_hours);
    let cost_usd = node_hours * case.of.usd_per_hour;
    let waits = wakings().map(|waking| Some(waking.wait_ns()? as f64 / 1e9)).collect::<Option<Vec<f64>>>();
    let idle_day_usd = 24.0 * f64::from(case.setup.min) * case.of.usd_per_hour;
    let year = |trading: usize, day_usd: f64, other_usd: f64| {
        trading as f64 * day_usd + DAYS_A_YEAR.saturating_sub(trading) as f64 * other_usd
    };
    SleepRow {
        instance_type: case.of.name.clone(),
        scale: case.scale_text(),
        roll_percent: case.roll_percent,
        node_hours,
        cost_usd,
        awake_usd: awake.cost_usd,
        saving_percent: 100.0 * (1.0 - cost_usd / awake.cost_usd),
        zero_hours: mean(|night| night.run.zero_ns as f64 / HOUR_NS),
        wakings: mean(|night| night.run.wakings.len() as f64),
        woken_nodes: wakings().map(|waking| waking.nodes).max().unwrap_or(0),
        woken_bytes: wakings().map(|waking| waking.bytes).max().unwrap_or(0),
        first_answer_s: waits.map(|waits| waits.into_iter().fold(0.0, f64::max)),
        year_usd: of.trading_days.map(|trading| year(trading, cost_usd, 0.0)),
        year_awake_usd: of.trading_days.map(|trading| year(trading, awake.cost_usd, idle_day_usd)),
    }
}

/// Shows the rows.
pub fn section(inputs: &Inputs, of: &SleepInputs, rows: &[SleepRow]) -> Section {
    let mut names = vec![
        "type",
        "scale",
        "roll",
        "node-hours",
        "USD",
        "USD awake",
        "saving %",
        "hours at zero",
        "wake-ups",
        "nodes",
        "log",
        "first answer",
    ];
    names.extend(of.trading_days.iter().flat_map(|_| ["USD a year", "awake a year"]));
    let cells = |row: &SleepRow| {
        let answer = row.first_answer_s.map_or_else(|| "never".to_string(), |s| text::span((s * 1e9) as u64));
        let is_woken = row.wakings > 0.0;
        let mut cells = vec![
            row.instance_type.clone(),
            row.scale.clone(),
            format!("{}%", row.roll_percent),
            format!("{:.1}", row.node_hours),
            format!("{:.2}", row.cost_usd),
            format!("{:.2}", row.awake_usd),
            format!("{:.1}", row.saving_percent),
            format!("{:.1}", row.zero_hours),
            format!("{:.1}", row.wakings),
            row.woken_nodes.to_string(),
            text::bytes(row.woken_bytes),
            if is_woken { answer } else { String::new() },
        ];
        cells.extend([row.year_usd, row.year_awake_usd].into_iter().flatten().map(|usd| format!("{usd:.0}")));
        cells
    };
    let clock = |ns: u64| text::clock((ns + of.begin_ns) % DAY_NS);
    let Range { start, end } = of.sleep.queries;
    let mut notes = vec![format!(
        "The day begins at {}; clients query from {} to {}. Awake: the same cluster with at least {} instances all day",
        text::clock(of.begin_ns),
        clock(start),
        clock(end),
        inputs.cases.first().map_or(1, |case| case.setup.min)
    )];
    notes.push(
        "First answer: the longest time from a request for the first nodes until nodes have all rows of the log; nodes and log: the most of such requests. \
         Each node reads the log at --replay"
            .to_string(),
    );
    notes.extend(of.trading_days.map(|days| {
        format!("A year has {days} trading days. On the others a cluster that sleeps has no instance, one that is awake its least number")
    }));
    Section {
        title: "Asleep".to_string(),
        tables: vec![Table::new(&names, rows.iter().map(cells).collect())],
        notes,
        plots: Vec::new(),
    }
}
