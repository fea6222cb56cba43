//! How often each cluster falls behind under surges and slow launches.

use super::arguments::{Case, Inputs, RiskInputs};
use super::cases::lead_times;
use super::parallel;
use super::section::{Section, Table};
use crate::monitor::text;
use crate::plan::noise::Surge;
use crate::plan::risk::{Risk, Weather, risk, risk_day};
use serde::Serialize;

/// Days of one case under one surge and one lead time.
#[derive(Debug, Serialize)]
pub struct RiskRow {
    pub instance_type: String,
    pub scale: String,
    pub roll_percent: f64,
    pub surge: f64,
    pub lead_s: f64,
    pub days: u32,
    pub behind_days: u32,
    /// Time to catch up on such a day.
    pub catch_up_median_s: f64,
    pub catch_up_longest_s: f64,
    /// Most bytes of updates that were on no node.
    pub at_risk_bytes: u64,
    pub cushion_median: Option<f64>,
    pub cushion_worst: Option<f64>,
    /// Time until the rows of a node that died are back.
    pub rebuild_s: f64,
}

/// Plays the days of every case under every surge and lead time; the same days for each.
///
/// # Errors
/// A day does not end.
pub fn rows(inputs: &Inputs, of: &RiskInputs) -> Result<Vec<RiskRow>, String> {
    let weather = |surge: f64, lead_ns: u64| Weather {
        noise: inputs.noise,
        surge: Surge { factor: surge, length_ns: of.length_ns },
        lead_ns,
    };
    let weathers: Vec<Weather> =
        of.leads_ns.iter().flat_map(|lead| of.surges.iter().map(|surge| weather(*surge, *lead))).collect();
    let pairs: Vec<(&Case, Weather)> =
        inputs.cases.iter().flat_map(|case| weathers.iter().map(move |weather| (case, *weather))).collect();
    let seeds = || (0..u64::from(of.days)).map(|day| inputs.seed.wrapping_add(day));
    let days: Vec<(&Case, Weather, u64)> =
        pairs.iter().flat_map(|(case, weather)| seeds().map(|seed| (*case, *weather, seed))).collect();
    let played = parallel::each("days of risk", &days, |(case, weather, seed)| {
        risk_day(&case.setup, &inputs.calm, weather, *seed)
    })?;
    let of_each = played.chunks(usize::try_from(of.days).unwrap_or(1).max(1));
    Ok(pairs
        .iter()
        .zip(of_each)
        .map(|((case, weather), days)| row(case, weather, risk(&case.setup, weather, days)))
        .collect())
}

fn row(case: &Case, weather: &Weather, of: Risk) -> RiskRow {
    let seconds = |ns: u64| ns as f64 / 1e9;
    RiskRow {
        instance_type: case.of.name.clone(),
        scale: case.scale_text(),
        roll_percent: case.roll_percent,
        surge: weather.surge.factor,
        lead_s: seconds(weather.lead_ns),
        days: of.days,
        behind_days: of.behind_days,
        catch_up_median_s: seconds(of.behind_median_ns),
        catch_up_longest_s: seconds(of.behind_longest_ns),
        at_risk_bytes: of.behind_bytes,
        cushion_median: of.cushion_median,
        cushion_worst: of.cushion_worst,
        rebuild_s: seconds(of.rebuild_ns),
    }
}

/// Shows the risks.
pub fn section(of: &RiskInputs, rows: &[RiskRow]) -> Section {
    let span = |seconds: f64| if seconds > 0.0 { text::span((seconds * 1e9) as u64) } else { String::new() };
    let cells = |row: &RiskRow| {
        let share = 100.0 * f64::from(row.behind_days) / f64::from(row.days.max(1));
        vec![
            row.instance_type.clone(),
            row.scale.clone(),
            format!("{}%", row.roll_percent),
            span(row.lead_s),
            format!("{}x", row.surge),
            format!("{share:.0} %"),
            span(row.catch_up_median_s),
            span(row.catch_up_longest_s),
            if row.at_risk_bytes > 0 { text::bytes(row.at_risk_bytes) } else { String::new() },
            lead_times(row.cushion_median),
            lead_times(row.cushion_worst),
            span(row.rebuild_s),
        ]
    };
    let names = [
        "type",
        "scale",
        "roll",
        "lead",
        "surge",
        "days behind",
        "catch-up",
        "longest",
        "at risk",
        "cushion",
        "worst",
        "rebuild",
    ];
    let length = text::span(of.length_ns);
    Section {
        title: "Risk".to_string(),
        tables: vec![Table::new(&names, rows.iter().map(cells).collect())],
        notes: vec![format!(
            "{} days of each kind, with a surge of {length} at a random time while the market is open. Days behind: those on which updates \
             were on no node; catch-up: how long; at risk: most of them, which are in the log alone until then. Rebuild: time until the rows of the \
             fullest node are back on another one if it dies.",
            of.days
        )],
        plots: Vec::new(),
    }
}
