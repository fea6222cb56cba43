//! The two tables of "RDB Autoscaling", by server size and by scale threshold, and what this study finds in their place.

use super::day::{Setup, play};
use super::figures::{figures, fixed_usd};
use super::prices::{InstanceType, Prices};
use super::shape::Shape;
use crate::config::units::Scale;
use crate::rdb::policy::Params;

/// Volume of the paper's day as it states it: "around 16GB".
pub const STATED_BYTES: u64 = 16_000_000_000;
/// Memory of an instance without data, as its `free` shows it.
const LATENT_BYTES: u64 = 150_000_000;
const LEAD_NS: u64 = 60_000_000_000;
/// Volumes between which one is looked for that gives a cost of the paper.
const VOLUMES: (u64, u64) = (1_000_000_000, 64_000_000_000);
/// Halvings of that range: to under 1 MB.
const HALVINGS: usize = 16;

/// Step between the volumes that [`fitting_all`] tries.
const STEP_BYTES: usize = 50_000_000;

/// A row of the paper's tables.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Row {
    pub instance_type: &'static str,
    pub scale_percent: f64,
    pub roll_percent: f64,
    /// Columns as printed: capacity in GB, cost in USD, saving in per cent.
    pub capacity_gb: f64,
    pub cost_usd: f64,
    pub saving_percent: f64,
}

const fn size(instance_type: &'static str, capacity_gb: f64, cost_usd: f64, saving_percent: f64) -> Row {
    Row { instance_type, scale_percent: 60.0, roll_percent: 80.0, capacity_gb, cost_usd, saving_percent }
}

const fn threshold(scale_percent: f64, cost_usd: f64, saving_percent: f64) -> Row {
    Row { instance_type: "t3a.medium", scale_percent, roll_percent: 85.0, capacity_gb: 4.0, cost_usd, saving_percent }
}

/// "Server Size Comparison". Its thresholds are those of the paper's first simulation.
pub const SIZES: [Row; 4] = [
    size("t3a.small", 1.0, 3.7895, 48.0),
    size("t3a.medium", 2.0, 3.5413, 51.0),
    size("t3a.large", 4.0, 4.4493, 38.0),
    size("t3a.xlarge", 16.0, 4.7175, 35.0),
];

/// "Threshold Window Comparison".
#[expect(clippy::approx_constant, reason = "a cost in dollars")]
pub const THRESHOLDS: [Row; 4] = [
    threshold(80.0, 3.14, 43.0),
    threshold(60.0, 3.19, 44.0),
    threshold(40.0, 3.56, 49.0),
    threshold(20.0, 3.61, 50.0),
];

/// The one server that both tables compare with.
pub const FIXED: &str = "t3a.2xlarge";

/// What this study finds for a row.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Found {
    pub cost_usd: f64,
    pub saving_percent: f64,
    pub most_nodes: u32,
}

/// A row beside what this study finds.
#[derive(Clone, Debug, PartialEq)]
pub struct Compared {
    pub row: Row,
    /// Saving by the paper's own cost.
    pub own_saving_percent: f64,
    /// Memory of the type, in GiB.
    pub memory_gib: f64,
    /// Result of this study for the volume that the paper states, 16 GB.
    pub at_stated: Found,
    /// Volume of updates for which this study computes the cost that the paper prints; `None` if there is none.
    pub fitting_bytes: Option<u64>,
    /// What is wrong in the paper's row.
    pub mistakes: Vec<String>,
}

fn setup(of: &InstanceType, row: &Row) -> Result<Setup, String> {
    let policy = Params::new(Scale::At(row.scale_percent), row.roll_percent).map_err(|error| error.to_string())?;
    Ok(Setup {
        memory_bytes: of.memory_bytes(),
        latent_bytes: LATENT_BYTES,
        policy,
        lead_ns: LEAD_NS,
        min: 1,
        max: 64,
        replay_bytes_per_s: 200_000_000,
        sample_ns: Some(super::day::SAMPLE_NS),
        sleep: None,
    })
}

/// Plays a row's day with so many bytes.
///
/// # Errors
/// The price list lacks an instance type, or the simulated day does not end.
pub fn found(prices: &Prices, row: &Row, volume_bytes: u64) -> Result<Found, String> {
    let (of, fixed) = (prices.find(row.instance_type)?, prices.find(FIXED)?);
    let shape = Shape::market_day(volume_bytes);
    let figures = figures(&play(&setup(of, row)?, &shape)?, of, fixed, &shape);
    Ok(Found { cost_usd: figures.cost_usd, saving_percent: figures.saving_percent, most_nodes: figures.most_nodes })
}

/// Compares a row with what this study finds.
///
/// # Errors
/// The price list lacks an instance type, or the simulated day does not end.
pub fn compare(prices: &Prices, row: &Row) -> Result<Compared, String> {
    let (of, fixed) = (prices.find(row.instance_type)?, prices.find(FIXED)?);
    let own_saving_percent = 100.0 * (1.0 - row.cost_usd / fixed_usd(fixed));
    let mut mistakes = Vec::new();
    if row.capacity_gb != of.memory_gib {
        let (printed, has) = (row.capacity_gb, of.memory_gib);
        mistakes.push(format!("its capacity is printed as {printed} GB: a {} has {has} GiB", row.instance_type));
    }
    if (own_saving_percent - row.saving_percent).abs() > 1.0 {
        let printed = row.saving_percent;
        let is_cost = (100.0 - own_saving_percent - printed).abs() < 1.0;
        let why = if is_cost { ", which is its cost as a part of the fixed server's" } else { "" };
        mistakes
            .push(format!("its saving is printed as {printed} %{why}: by its cost it is {own_saving_percent:.0} %"));
    }
    Ok(Compared {
        row: *row,
        own_saving_percent,
        memory_gib: of.memory_gib,
        at_stated: found(prices, row, STATED_BYTES)?,
        fitting_bytes: fitting_bytes(prices, row)?,
        mistakes,
    })
}

/// Looks for the volume that has a row's cost: the more data, the dearer.
fn fitting_bytes(prices: &Prices, row: &Row) -> Result<Option<u64>, String> {
    let (mut low, mut high) = VOLUMES;
    if found(prices, row, low)?.cost_usd > row.cost_usd || found(prices, row, high)?.cost_usd < row.cost_usd {
        return Ok(None);
    }
    for _ in 0..HALVINGS {
        let middle = low.midpoint(high);
        if found(prices, row, middle)?.cost_usd < row.cost_usd {
            low = middle;
        } else {
            high = middle;
        }
    }
    Ok(Some(high))
}

/// Returns the volume with which the greatest distance of these rows' savings from the paper's is least.
///
/// # Errors
/// As [`found`].
pub fn fitting_all(prices: &Prices, rows: &[Compared]) -> Result<u64, String> {
    let volumes = || rows.iter().filter_map(|row| row.fitting_bytes);
    let (Some(least), Some(most)) = (volumes().min(), volumes().max()) else { return Ok(STATED_BYTES) };
    let mut best = (f64::INFINITY, STATED_BYTES);
    for volume in (least..=most).step_by(STEP_BYTES) {
        let mut worst = 0.0f64;
        for row in rows {
            let found = found(prices, &row.row, volume)?;
            worst = worst.max((found.saving_percent - row.own_saving_percent).abs());
        }
        if worst < best.0 {
            best = (worst, volume);
        }
    }
    Ok(best.1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn compared(rows: &[Row]) -> Vec<Compared> {
        let prices = Prices::shipped().unwrap();
        rows.iter().map(|row| compare(&prices, row).unwrap()).collect()
    }

    #[test]
    fn the_papers_contradictions_are_named() {
        let sizes = compared(&SIZES);
        let said = |row: &Compared| row.mistakes.join("; ");
        assert!(said(sizes.first().unwrap()).contains("printed as 1 GB: a t3a.small has 2 GiB"));
        assert!(said(sizes.last().unwrap()).is_empty());
        for row in compared(&THRESHOLDS) {
            // At 50 % cost and saving are the same.
            assert!(row.row.scale_percent == 20.0 || said(&row).contains("which is its cost as a part"), "{row:?}");
            assert!((row.own_saving_percent + row.row.saving_percent - 100.0).abs() < 1.0);
        }
    }

    #[test]
    fn one_volume_has_the_papers_thresholds_within_three_points() {
        let rows = compared(&THRESHOLDS);
        let prices = Prices::shipped().unwrap();
        let volume = fitting_all(&prices, &rows).unwrap();
        assert!((19_000_000_000..23_000_000_000).contains(&volume), "{volume}");
        for row in rows {
            let found = found(&prices, &row.row, volume).unwrap();
            let points = found.saving_percent - row.own_saving_percent;
            assert!(points.abs() < 3.0, "{points} points: {found:?} {row:?}");
        }
    }
}
