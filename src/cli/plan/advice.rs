//! `--recommend`: the cheapest instance type and thresholds with a required cushion, the Pareto frontier of cost and cushion, and how the
//! recommendation changes with volume and lead time.

use super::arguments::{Case, Inputs};
use super::cases::day_figures;
use super::parallel;
use super::section::{Section, Table};
use crate::config::units::Scale;
use crate::monitor::plot::{Mark, Plot, Series, Unit};
use crate::plan::advice::{Choice, cheapest, frontier};
use crate::plan::day::{Setup, play};
use crate::plan::risk::{least_cushion, rebuild_ns};
use crate::plan::shape::Shape;
use serde::Serialize;

/// Costs are drawn up to so many times the highest of the frontier.
const MAX_DRAWN_COST: f64 = 2.0;
/// Cushions beyond this are drawn at it.
const MAX_DRAWN_CUSHION: f64 = 60.0;

/// A type and thresholds, and what they come to.
#[derive(Clone, Debug, Serialize)]
pub struct Candidate {
    pub instance_type: String,
    pub scale: String,
    pub roll_percent: f64,
    pub cost_usd: f64,
    /// What lag and dead nodes cost; the cheapest is the one whose sum with `cost_usd` is least.
    pub losses_usd: f64,
    pub saving_percent: f64,
    /// Least cushion on the day with the surge; `None` if no node rolls.
    pub cushion: Option<f64>,
    pub is_behind: bool,
    pub most_nodes: u32,
    /// Time until the rows of the fullest node are back if it dies.
    pub rebuild_s: f64,
}

/// How the recommended cluster does when something is otherwise.
#[derive(Debug, Serialize)]
pub struct Otherwise {
    pub what: String,
    pub cost_usd: f64,
    pub cushion: Option<f64>,
    pub is_behind: bool,
}

/// The answer.
#[derive(Debug, Serialize)]
pub struct Advice {
    pub least_cushion: f64,
    pub surge: f64,
    pub tried: usize,
    /// `None` if no type and thresholds keep the cushion.
    pub recommended: Option<Candidate>,
    /// Values for the parameters of the CloudFormation template of nodes.
    pub parameters: Vec<(String, String)>,
    pub frontier: Vec<Candidate>,
    pub sensitivity: Vec<Otherwise>,
}

fn candidate(inputs: &Inputs, case: &Case, calm: &Shape, surge: &Shape) -> Result<(Candidate, Choice), String> {
    let run = play(&case.setup, calm)?;
    let of = day_figures(inputs, case, &run, calm);
    let stormy = play(&Setup { sample_ns: None, ..case.setup.clone() }, surge)?;
    let cushion = least_cushion(&stormy);
    let is_behind = stormy.behind_ns > 0;
    let nodes = u32::try_from(stormy.nodes.len()).unwrap_or(u32::MAX);
    let held = stormy.nodes.iter().map(|node| node.held_bytes).max().unwrap_or(0);
    let choice = Choice { cost_usd: of.cost_usd + of.losses_usd, cushion: cushion.unwrap_or(f64::INFINITY), is_behind };
    let candidate = Candidate {
        instance_type: case.of.name.clone(),
        scale: case.scale_text(),
        roll_percent: case.roll_percent,
        cost_usd: of.cost_usd,
        losses_usd: of.losses_usd,
        saving_percent: of.saving_percent,
        cushion,
        is_behind,
        most_nodes: nodes.max(of.most_nodes),
        rebuild_s: rebuild_ns(&case.setup, held) as f64 / 1e9,
    };
    Ok((candidate, choice))
}

/// Tries all candidates.
///
/// # Errors
/// A day does not end.
pub fn advise(inputs: &Inputs, least_cushion: f64) -> Result<(Advice, Vec<Choice>), String> {
    let all =
        parallel::each("candidates", &inputs.candidates, |case| candidate(inputs, case, &inputs.calm, &inputs.shape))?;
    let (candidates, choices): (Vec<Candidate>, Vec<Choice>) = all.into_iter().unzip();
    let best = cheapest(&choices, least_cushion);
    let of = |index: usize| inputs.candidates.get(index).zip(candidates.get(index));
    let (parameters, sensitivity) = match best.and_then(of) {
        None => (Vec::new(), Vec::new()),
        Some((case, candidate)) => (parameters(case, candidate), sensitivity(inputs, case)?),
    };
    let advice = Advice {
        least_cushion,
        surge: inputs.surge,
        tried: candidates.len(),
        recommended: best.and_then(of).map(|(_, candidate)| candidate.clone()),
        parameters,
        frontier: frontier(&choices).into_iter().filter_map(|index| candidates.get(index).cloned()).collect(),
        sensitivity,
    };
    Ok((advice, choices))
}

fn parameters(case: &Case, candidate: &Candidate) -> Vec<(String, String)> {
    let scale = match case.scale {
        Scale::At(percent) => percent.to_string(),
        Scale::Auto => "auto".to_string(),
    };
    // Half as many again as the day with the surge needs.
    let most = candidate.most_nodes.saturating_add(candidate.most_nodes.div_ceil(2));
    let values = [
        ("RDBINSTANCETYPE", case.of.name.clone()),
        ("SCALETHRESHOLD", scale),
        ("ROLLTHRESHOLD", case.roll_percent.to_string()),
        ("MINNODES", case.setup.min.to_string()),
        ("MAXNODES", most.to_string()),
    ];
    values.into_iter().map(|(name, value)| (name.to_string(), value)).collect()
}

/// The recommended cluster with more or less volume, slower launches, and a greater surge.
fn sensitivity(inputs: &Inputs, case: &Case) -> Result<Vec<Otherwise>, String> {
    let scaled = |shape: &Shape, factor: f64| shape.scaled_to((shape.total_bytes() as f64 * factor) as u64);
    let slower = |factor: u64| Case {
        setup: Setup { lead_ns: case.setup.lead_ns.saturating_mul(factor), ..case.setup.clone() },
        ..case.clone()
    };
    let volume = |factor: f64| {
        (
            format!("{factor} times the volume"),
            case.clone(),
            scaled(&inputs.calm, factor),
            scaled(&inputs.shape, factor),
        )
    };
    let lead = |factor: u64| {
        (format!("{factor} times the lead time"), slower(factor), inputs.calm.clone(), inputs.shape.clone())
    };
    let others = vec![volume(0.5), volume(1.5), volume(2.0), lead(2), lead(5), lead(10)];
    parallel::each("sensitivity", &others, |(what, case, calm, surge)| {
        let (of, _) = candidate(inputs, case, calm, surge)?;
        Ok(Otherwise { what: what.clone(), cost_usd: of.cost_usd, cushion: of.cushion, is_behind: of.is_behind })
    })
}

/// Shows the advice.
pub fn section(advice: &Advice, choices: &[Choice]) -> Section {
    let cushion = |of: Option<f64>, is_behind: bool| match (of, is_behind) {
        (_, true) => "falls behind".to_string(),
        (None, _) => "no roll".to_string(),
        (Some(of), _) => format!("{of:.1}"),
    };
    let surge = match advice.surge {
        1.0 => "the planned day".to_string(),
        surge => format!("a day with a {surge}-fold surge"),
    };
    let least = advice.least_cushion;
    let mut notes = match &advice.recommended {
        None => vec![format!("None of {} keeps a cushion of {least} lead times on {surge}.", advice.tried)],
        Some(of) => vec![format!(
            "Cheapest of {} that keeps a cushion of {least} lead times on {surge}: {} at {}, roll {}%: {:.2} USD a day, {:.1} % saved.",
            advice.tried, of.instance_type, of.scale, of.roll_percent, of.cost_usd, of.saving_percent
        )],
    };
    if !advice.parameters.is_empty() {
        let all: Vec<String> = advice.parameters.iter().map(|(name, value)| format!("{name}={value}")).collect();
        notes.push(format!("For the template of nodes: --parameter-overrides {}", all.join(" ")));
    }
    let has_losses = advice.frontier.iter().any(|of| of.losses_usd > 0.0);
    let of_candidate = |of: &Candidate| {
        let mut cells = vec![
            of.instance_type.clone(),
            of.scale.clone(),
            format!("{}%", of.roll_percent),
            format!("{:.2}", of.cost_usd),
            format!("{:.1}", of.saving_percent),
            cushion(of.cushion, of.is_behind),
            of.most_nodes.to_string(),
            format!("{:.0}", of.rebuild_s),
        ];
        cells.extend(has_losses.then(|| format!("{:.2}", of.losses_usd)));
        cells
    };
    let mut names = vec!["frontier", "scale", "roll", "USD", "saving %", "cushion", "nodes", "rebuild s"];
    if has_losses {
        names.push("losses");
        notes.push("Cheapest with what lag and dead nodes cost, which is not part of USD.".to_string());
    }
    let mut tables = vec![Table::new(&names, advice.frontier.iter().map(of_candidate).collect())];
    if !advice.sensitivity.is_empty() {
        let row =
            |of: &Otherwise| vec![of.what.clone(), format!("{:.2}", of.cost_usd), cushion(of.cushion, of.is_behind)];
        tables.push(Table::new(&["recommended, with", "USD", "cushion"], advice.sensitivity.iter().map(row).collect()));
    }
    Section { title: "Recommendation".to_string(), tables, notes, plots: vec![plot(advice, choices)] }
}

fn plot(advice: &Advice, choices: &[Choice]) -> Plot {
    let shown = |cushion: Option<f64>| cushion.unwrap_or(MAX_DRAWN_CUSHION).min(MAX_DRAWN_CUSHION);
    // What costs much more than any cluster that somebody would take hides the others at the left edge.
    let of_frontier = advice.frontier.iter().map(|candidate| candidate.cost_usd + candidate.losses_usd);
    let most_usd = of_frontier.fold(0.0, f64::max) * MAX_DRAWN_COST;
    let is_near = |choice: &&Choice| choice.cost_usd <= most_usd;
    let point = |choice: &Choice| (choice.cost_usd, shown(Some(choice.cushion)));
    let left_out = choices.iter().filter(|choice| !is_near(choice)).count();
    let of = |candidate: &Candidate| (candidate.cost_usd + candidate.losses_usd, shown(candidate.cushion));
    let mut series = vec![
        Series {
            name: "all".to_string(),
            points: choices.iter().filter(is_near).map(point).collect(),
            mark: Mark::Points,
            group: 7,
        },
        Series {
            name: "frontier".to_string(),
            points: advice.frontier.iter().map(of).collect(),
            mark: Mark::Steps,
            group: 0,
        },
    ];
    if let Some(best) = &advice.recommended {
        series.push(Series { name: "recommended".to_string(), points: vec![of(best)], mark: Mark::Points, group: 1 });
    }
    Plot {
        file: "frontier",
        title: "Cost against cushion".to_string(),
        note: format!(
            "cushions over {MAX_DRAWN_CUSHION} lead times, and days without a roll, are drawn at {MAX_DRAWN_CUSHION}; {left_out} of {} choices cost over \
             {most_usd:.2} USD",
            choices.len()
        ),
        x: (Unit::Usd, "cost of the planned day"),
        y: (Unit::LeadTimes, "lead times"),
        series,
        levels: vec![(format!("cushion {}", advice.least_cushion), advice.least_cushion)],
    }
}
