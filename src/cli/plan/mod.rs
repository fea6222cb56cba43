//! `elastick plan`: what a day costs and risks on instances of several types, under several thresholds.

mod advice;
mod arguments;
mod cases;
mod history;
mod log;
mod paper;
mod parallel;
mod plots;
mod risk;
mod section;
mod sleep;
mod sleep_arguments;

use super::{CliError, json, logging, settings_of};
use crate::config::{Program, options};
use clap::ArgMatches;
use serde::Serialize;

pub use arguments::command;

/// The whole answer.
#[derive(Serialize)]
struct Answer {
    volume_bytes: u64,
    prices_date: String,
    prices_source: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    tables: Option<Vec<log::TableVolume>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cluster: Option<Vec<history::PastRow>>,
    cases: Vec<cases::CaseRow>,
    #[serde(skip_serializing_if = "Option::is_none")]
    sleep: Option<Vec<sleep::SleepRow>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    paper: Option<paper::Paper>,
    #[serde(skip_serializing_if = "Option::is_none")]
    risk: Option<Vec<risk::RiskRow>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    advice: Option<advice::Advice>,
}

pub fn run(matches: &ArgMatches) -> Result<(), CliError> {
    let settings = settings_of(Program::Plan, matches)?;
    logging::start(&settings)?;
    let inputs = arguments::inputs(matches)?;
    let failed = CliError::Failed;
    let played = cases::play_all(&inputs).map_err(failed)?;
    let mut first = cases::section(&inputs, &played.rows);
    first.plots = plots::plots(&inputs, &played);
    let mut sections: Vec<_> = inputs.log.iter().map(|(path, of)| log::section(path, of)).collect();
    let mut cluster = None;
    if let Some((path, of)) = &inputs.log
        && let Some(past) = history::read(path)?
    {
        let planned = played.runs.first().filter(|_| played.runs.len() == 1);
        let rows = history::rows(&past, &of.updates, planned);
        sections.push(history::section(&inputs, &rows, planned));
        cluster = Some(rows);
    }
    sections.push(first);
    let mut asleep = None;
    if let Some(of) = &inputs.sleep {
        let rows = sleep::rows(&inputs, of, &played.rows).map_err(failed)?;
        sections.push(sleep::section(&inputs, of, &rows));
        asleep = Some(rows);
    }
    let mut answer = Answer {
        volume_bytes: inputs.shape.total_bytes(),
        prices_date: inputs.prices.date.clone(),
        prices_source: inputs.prices.source.clone(),
        tables: inputs.log.as_ref().map(|(_, of)| of.tables.clone()),
        cluster,
        cases: played.rows,
        sleep: asleep,
        paper: None,
        risk: None,
        advice: None,
    };
    if inputs.paper {
        let of = paper::paper(&inputs).map_err(failed)?;
        sections.push(paper::section(&of));
        answer.paper = Some(of);
    }
    if let Some(of) = &inputs.risk {
        let rows = risk::rows(&inputs, of).map_err(failed)?;
        sections.push(risk::section(of, &rows));
        answer.risk = Some(rows);
    }
    if let Some(cushion) = inputs.cushion {
        let (of, choices) = advice::advise(&inputs, cushion).map_err(failed)?;
        sections.push(advice::section(&of, &choices));
        answer.advice = Some(of);
    }
    let mut written = Vec::new();
    if let Some(path) = &inputs.html {
        let page = section::page("elastick plan", &sections);
        std::fs::write(path, page).map_err(|error| failed(format!("{}: {error}", path.display())))?;
        written.push(path.display().to_string());
    }
    if let Some(directory) = &inputs.svg {
        let count = section::write_plots(directory, &sections)
            .map_err(|error| failed(format!("{}: {error}", directory.display())))?;
        written.push(format!("{} ({count} plots)", directory.display()));
    }
    if settings.is_on(&options::JSON)? {
        return Ok(json::print(&mut std::io::stdout(), &answer)?);
    }
    let mut out = std::io::stdout().lock();
    section::print(&mut out, &sections)?;
    if !written.is_empty() {
        use std::io::Write;
        writeln!(out, "\nwritten: {}", written.join(", "))?;
    }
    Ok(())
}
