//! What each type of instances costs under each threshold.

use super::arguments::{Case, Inputs};
use super::parallel;
use super::section::{Section, Table};
use crate::monitor::text;
use crate::plan::day::{DayRun, play};
use crate::plan::figures::{Figures, STAGES, figures, fixed_usd, over};
use crate::plan::losses::Losses;
use crate::plan::noise::{Surge, draw};
use crate::plan::shape::Shape;
use serde::Serialize;

/// One row of the answer.
#[derive(Debug, Serialize)]
pub struct CaseRow {
    pub instance_type: String,
    pub memory_gib: f64,
    pub scale: String,
    pub roll_percent: f64,
    pub days: u32,
    pub most_nodes: u32,
    pub node_hours: f64,
    pub cost_usd: f64,
    pub losses_usd: f64,
    pub saving_percent: f64,
    pub idle_percent: f64,
    pub idle_percent_by_stage: [f64; 3],
    pub cushion_median: Option<f64>,
    pub cushion_worst: Option<f64>,
    pub behind_days: u32,
    pub behind_bytes: u64,
    pub behind_s: f64,
}

/// The cases with their planned day, for plots.
pub struct Played {
    pub rows: Vec<CaseRow>,
    /// The planned day of each case.
    pub runs: Vec<DayRun>,
}

/// Plays every case: its planned day, and as many others as are requested.
///
/// # Errors
/// A day does not end.
pub fn play_all(inputs: &Inputs) -> Result<Played, String> {
    let runs = parallel::each("planned days", &inputs.cases, |case| play(&case.setup, &inputs.shape))?;
    let planned = |(case, run): (&Case, &DayRun)| day_figures(inputs, case, run, &inputs.shape);
    let of_cases: Vec<Figures> =
        if inputs.days == 1 { inputs.cases.iter().zip(&runs).map(planned).collect() } else { several(inputs)? };
    let rows = inputs.cases.iter().zip(of_cases).map(|(case, of)| row(case, of)).collect();
    Ok(Played { rows, runs })
}

/// The same days for each case.
fn several(inputs: &Inputs) -> Result<Vec<Figures>, String> {
    let seeds = || (0..u64::from(inputs.days)).map(|day| inputs.seed.wrapping_add(day));
    let calm = Surge { factor: 1.0, length_ns: 0 };
    let pairs: Vec<_> = inputs.cases.iter().flat_map(|case| seeds().map(move |seed| (case, seed))).collect();
    // A day is drawn where it is played: all of them at once would take a gigabyte.
    let all = parallel::each("days", &pairs, |(case, seed)| {
        let day = draw(&inputs.shape, inputs.noise, calm, *seed);
        Ok(day_figures(inputs, case, &play(&case.setup, &day)?, &day))
    })?;
    let days = usize::try_from(inputs.days).unwrap_or(usize::MAX);
    Ok(all.chunks(days.max(1)).map(over).collect())
}

/// Figures of a day, with what it costs beside its instances.
pub fn day_figures(inputs: &Inputs, case: &Case, run: &DayRun, day: &Shape) -> Figures {
    let of = figures(run, &case.of, &inputs.fixed, day);
    Figures { losses_usd: inputs.losses.usd(&case.setup, run, of.node_hours), ..of }
}

fn row(case: &Case, of: Figures) -> CaseRow {
    CaseRow {
        instance_type: case.of.name.clone(),
        memory_gib: case.of.memory_gib,
        scale: case.scale_text(),
        roll_percent: case.roll_percent,
        days: of.days,
        most_nodes: of.most_nodes,
        node_hours: of.node_hours,
        cost_usd: of.cost_usd,
        losses_usd: of.losses_usd,
        saving_percent: of.saving_percent,
        idle_percent: of.idle_percent,
        idle_percent_by_stage: of.idle_by_stage,
        cushion_median: of.cushion_median,
        cushion_worst: of.cushion_worst,
        behind_days: of.behind_days,
        behind_bytes: of.most_behind_bytes,
        behind_s: of.behind_s,
    }
}

/// Lead times, or nothing where no node rolled.
pub fn lead_times(of: Option<f64>) -> String {
    of.map(|of| format!("{of:.1}")).unwrap_or_default()
}

/// Shows the cases.
pub fn section(inputs: &Inputs, rows: &[CaseRow]) -> Section {
    let has_losses = inputs.losses != Losses::default();
    let behind = |row: &CaseRow| match (row.behind_bytes, row.days) {
        (0, _) => String::new(),
        (bytes, 1) => format!("{}, {}", text::bytes(bytes), span(row.behind_s)),
        (bytes, days) => format!("{} of {days} days, {}, {}", row.behind_days, text::bytes(bytes), span(row.behind_s)),
    };
    let cells = |row: &CaseRow| {
        let idle = row.idle_percent_by_stage.map(|percent| format!("{percent:.0}"));
        let losses = has_losses.then(|| format!("{:.2}", row.losses_usd));
        let mut cells = vec![
            row.instance_type.clone(),
            row.memory_gib.to_string(),
            row.scale.clone(),
            format!("{}%", row.roll_percent),
            row.most_nodes.to_string(),
            format!("{:.1}", row.node_hours),
            format!("{:.2}", row.cost_usd),
            format!("{:.1}", row.saving_percent),
            format!("{:.0}", row.idle_percent),
            idle.join(" "),
            lead_times(row.cushion_median),
            lead_times(row.cushion_worst),
            behind(row),
        ];
        cells.extend(losses);
        cells
    };
    let by_stage = STAGES.join(" ");
    let mut names = vec![
        "type",
        "GiB",
        "scale",
        "roll",
        "nodes",
        "node-hours",
        "USD",
        "saving %",
        "idle %",
        &by_stage,
        "cushion",
        "worst",
        "behind",
    ];
    names.extend(has_losses.then_some("losses"));
    let (volume, fixed, prices) = (text::bytes(inputs.shape.total_bytes()), &inputs.fixed, &inputs.prices);
    let mut notes = vec![format!(
        "{volume} of updates; {} for the whole day: {:.2} USD; prices of {}: {}",
        fixed.name,
        fixed_usd(fixed),
        prices.date,
        prices.source
    )];
    if inputs.days > 1 {
        notes.push(format!(
            "Means of {} days, whose volume varies by {}; nodes, worst cushion and behind are the worst of all days",
            inputs.days, inputs.noise.volume
        ));
    }
    Section {
        title: String::new(),
        tables: vec![Table::new(&names, rows.iter().map(cells).collect())],
        notes,
        plots: Vec::new(),
    }
}

fn span(seconds: f64) -> String {
    text::span((seconds * 1e9) as u64)
}
