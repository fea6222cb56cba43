//! The tables of "RDB Autoscaling" beside what this study finds.

use super::arguments::Inputs;
use super::parallel;
use super::section::{Section, Table};
use crate::plan::paper::{Compared, FIXED, Found, Row, SIZES, STATED_BYTES, THRESHOLDS, compare, fitting_all, found};
use serde::Serialize;

/// A row of the paper beside what this study finds.
#[derive(Debug, Serialize)]
pub struct PaperRow {
    pub table: &'static str,
    pub instance_type: &'static str,
    pub scale_percent: f64,
    pub roll_percent: f64,
    pub paper_cost_usd: f64,
    pub paper_saving_percent: f64,
    /// By the paper's own cost.
    pub own_saving_percent: f64,
    /// Ours with the volume that the paper states.
    pub stated_cost_usd: f64,
    pub stated_saving_percent: f64,
    /// Volume that gives the paper's cost.
    pub fitting_bytes: Option<u64>,
    /// Ours with the volume that fits best.
    pub fitted_cost_usd: f64,
    pub fitted_saving_percent: f64,
    pub points: f64,
    pub mistakes: Vec<String>,
}

/// What the paper's tables come to.
#[derive(Debug, Serialize)]
pub struct Paper {
    pub fitted_bytes: u64,
    pub rows: Vec<PaperRow>,
}

/// Compares all rows.
///
/// # Errors
/// The list of prices lacks a type of the paper, or a day does not end.
pub fn paper(inputs: &Inputs) -> Result<Paper, String> {
    let rows: Vec<Row> = SIZES.into_iter().chain(THRESHOLDS).collect();
    let compared = parallel::each("the paper's tables", &rows, |row| compare(&inputs.prices, row))?;
    // The thresholds were all tried on one type, with one volume.
    let fitted_bytes = fitting_all(&inputs.prices, compared.get(SIZES.len()..).unwrap_or_default())?;
    let fitted = parallel::each("the paper's tables", &rows, |row| found(&inputs.prices, row, fitted_bytes))?;
    let tables = SIZES.iter().map(|_| "size").chain(THRESHOLDS.iter().map(|_| "threshold"));
    let rows = compared.into_iter().zip(fitted).zip(tables).map(|((of, fitted), table)| row(table, of, fitted));
    Ok(Paper { fitted_bytes, rows: rows.collect() })
}

fn row(table: &'static str, of: Compared, fitted: Found) -> PaperRow {
    PaperRow {
        table,
        instance_type: of.row.instance_type,
        scale_percent: of.row.scale_percent,
        roll_percent: of.row.roll_percent,
        paper_cost_usd: of.row.cost_usd,
        paper_saving_percent: of.row.saving_percent,
        own_saving_percent: of.own_saving_percent,
        stated_cost_usd: of.at_stated.cost_usd,
        stated_saving_percent: of.at_stated.saving_percent,
        fitting_bytes: of.fitting_bytes,
        fitted_cost_usd: fitted.cost_usd,
        fitted_saving_percent: fitted.saving_percent,
        points: fitted.saving_percent - of.own_saving_percent,
        mistakes: of.mistakes,
    }
}

fn gigabytes(bytes: u64) -> String {
    format!("{:.1}", bytes as f64 / 1e9)
}

/// Shows the comparison.
pub fn section(paper: &Paper) -> Section {
    let fitted = gigabytes(paper.fitted_bytes);
    let (stated_usd, stated_saving) = ("ours at 16 GB", "saving at 16 GB");
    let (fitted_usd, fitted_saving) = (format!("ours at {fitted} GB"), format!("saving at {fitted} GB"));
    let names = [
        "type",
        "scale",
        "roll",
        "paper USD",
        "printed saving",
        "saving by its cost",
        stated_usd,
        stated_saving,
        "GB for its cost",
        &fitted_usd,
        &fitted_saving,
        "points",
    ];
    let cells = |row: &PaperRow| {
        vec![
            row.instance_type.to_string(),
            format!("{}%", row.scale_percent),
            format!("{}%", row.roll_percent),
            format!("{:.2}", row.paper_cost_usd),
            format!("{:.0}", row.paper_saving_percent),
            format!("{:.1}", row.own_saving_percent),
            format!("{:.2}", row.stated_cost_usd),
            format!("{:.1}", row.stated_saving_percent),
            row.fitting_bytes.map(gigabytes).unwrap_or_default(),
            format!("{:.2}", row.fitted_cost_usd),
            format!("{:.1}", row.fitted_saving_percent),
            format!("{:+.1}", row.points),
        ]
    };
    let of_table = |name: &str| paper.rows.iter().filter(|row| row.table == name).map(cells).collect();
    let far: Vec<String> = paper
        .rows
        .iter()
        .filter(|row| row.points.abs() > 3.0)
        .map(|row| format!("{} {:+.1}", row.instance_type, row.points))
        .collect();
    let volumes: Vec<String> = paper
        .rows
        .iter()
        .filter(|row| row.table == "size")
        .map(|row| format!("{} {}", row.instance_type, row.fitting_bytes.map(gigabytes).unwrap_or("none".to_string())))
        .collect();
    let mut notes = vec![
        format!(
            "The paper sent \"around {:.0}GB\"; with that much in memory our clusters are cheaper than its own. One volume gives all four costs of its \
             threshold table, to {} points at most: {fitted} GB. In a q process updates take more memory than on their way there, because \
             its vectors grow in powers of two.",
            STATED_BYTES as f64 / 1e9,
            worst(paper, "threshold"),
        ),
        format!(
            "No single volume gives the costs of its size table. Each needs another (GB: {}): a process's vectors double at other moments on a \
             server of another size, and every further server has 150 MB without data.",
            volumes.join(", ")
        ),
    ];
    if !far.is_empty() {
        notes.push(format!("More than 3 points away: {}.", far.join(", ")));
    }
    let mut mistakes: Vec<String> = Vec::new();
    for row in &paper.rows {
        let of = match row.table {
            "size" => row.instance_type.to_string(),
            _ => format!("{}%", row.scale_percent),
        };
        mistakes.extend(row.mistakes.iter().map(|mistake| format!("{of}: {mistake}")));
    }
    if !mistakes.is_empty() {
        notes.push(format!("What is wrong in the paper's tables: {}.", mistakes.join("; ")));
    }
    notes.push(format!("Savings are against one {FIXED} for the whole day."));
    Section {
        title: "The paper's tables, by server size and by scale threshold".to_string(),
        tables: vec![Table::new(&names, of_table("size")), Table::new(&names, of_table("threshold"))],
        notes,
        plots: Vec::new(),
    }
}

/// Greatest distance in a table, in points.
fn worst(paper: &Paper, table: &str) -> String {
    let points = paper.rows.iter().filter(|row| row.table == table).map(|row| row.points.abs());
    format!("{:.1}", points.fold(0.0, f64::max))
}
