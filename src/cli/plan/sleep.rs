//! What a cluster that sleeps costs, and how long the first query of a day waits.

use super::arguments::{Case, Inputs};
use super::cases::CaseRow;
use super::parallel;
use super::section::{Section, Table};
use crate::cli::CliError;
use crate::config::{TradingCalendar, Wake, units, wake};
use crate::feed::curve::DAY_NS;
use crate::monitor::text;
use crate::plan::day::{DayRun, Setup, Sleep, play};
use crate::plan::noise::{Surge, draw};
use crate::plan::shape::Shape;
use clap::{Arg, ArgMatches};
use jiff::ToSpan;
use jiff::civil::{Date, Time};
use serde::Serialize;
use std::ops::Range;
use std::path::PathBuf;
use std::time::Duration;

const HOUR_NS: f64 = 3.6e12;
const DAYS_A_YEAR: usize = 365;
/// A day whose prices have no date in a calendar.
const SOME_DAY: Date = jiff::civil::date(2026, 1, 1);

/// How the planned clusters sleep.
pub struct SleepInputs {
    sleep: Sleep,
    /// When the log of a day begins.
    begin_ns: u64,
    /// Trading days in a year; `None` without a calendar.
    trading_days: Option<usize>,
}

/// Returns the options.
pub fn options() -> [Arg; 4] {
    let option = |name: &'static str, value: &'static str, help: &'static str| {
        Arg::new(name).long(name).value_name(value).allow_hyphen_values(true).help(help)
    };
    [
        option("wake", "WHEN", "Also: what it costs if all nodes end with the day, and the first one of the next day comes with its first-update, its \
             first-query, or by a calendar; schedule: the live node stays")
            .value_parser(wake),
        option("idle-off", "TIME", "Also: what it costs if all nodes end once no update and no query has come for so long").value_parser(units::duration),
        option("queries", "FROM-TO", "When clients query, for --wake and --idle-off: 09:00-18:00 (default: while the market is open)").value_parser(hours),
        option("calendar", "FILE", "Trading calendar of --wake calendar, as of elastick tick: when the day ends, and when the first node is requested")
            .value_parser(clap::value_parser!(PathBuf)),
    ]
}

/// Parses two times of a day.
fn hours(text: &str) -> Result<Range<u64>, String> {
    let wrong = || format!("{text:?}: expected two times of a day, as 09:00-18:00");
    let (from, to) = text.split_once('-').ok_or_else(wrong)?;
    let at = |time: &str| match time {
        "24:00" => Some(DAY_NS),
        time => Some(of_day(time.parse::<Time>().ok()?)),
    };
    let (from, to) = at(from).zip(at(to)).ok_or_else(wrong)?;
    if from >= to {
        return Err(format!("{text:?}: the first time must be before the second"));
    }
    Ok(from..to)
}

fn of_day(time: Time) -> u64 {
    let since = Time::midnight().duration_until(time);
    u64::try_from(since.as_nanos()).unwrap_or(0)
}

/// Reads the options; `None` if no cluster is to sleep. `shape`: the planned day. `priced`: the date of the prices.
///
/// # Errors
/// `Usage` if they contradict one another or the calendar is wrong.
pub fn inputs(matches: &ArgMatches, shape: &Shape, priced: &str) -> Result<Option<SleepInputs>, CliError> {
    let usage = |text: &str| Err(CliError::Usage(text.to_string()));
    let kind = matches.get_one::<Wake>("wake").copied();
    let idle = matches.get_one::<Duration>("idle-off").copied();
    let calendar = matches.get_one::<PathBuf>("calendar");
    let queries = matches.get_one::<Range<u64>>("queries").cloned();
    match (kind, calendar) {
        (Some(Wake::Calendar), None) => return usage("--wake calendar needs --calendar FILE"),
        (Some(Wake::Calendar), Some(_)) | (_, None) => {}
        (_, Some(_)) => return usage("--calendar is for --wake calendar"),
    }
    if kind.is_none() && idle.is_none() {
        return match queries {
            Some(_) => usage("--queries is for --wake and --idle-off"),
            None => Ok(None),
        };
    }
    if idle == Some(Duration::ZERO) {
        return usage("--idle-off 0s: a cluster would end at once; give a longer time, or leave it out");
    }
    let (open_ns, close_ns) = shape.open_hours();
    let is_given = queries.is_some();
    let queries = queries.unwrap_or(open_ns..close_ns);
    let idle_ns = idle.map(|idle| u64::try_from(idle.as_nanos()).unwrap_or(u64::MAX));
    let mut of = SleepInputs {
        sleep: Sleep { wake: kind.unwrap_or_default(), idle_ns, prepare_ns: None, queries },
        begin_ns: 0,
        trading_days: None,
    };
    if let Some(path) = calendar {
        let calendar = TradingCalendar::read(path).map_err(CliError::Usage)?;
        of.follow(&calendar, priced.parse().unwrap_or(SOME_DAY), is_given)?;
    }
    Ok(Some(of))
}

impl SleepInputs {
    /// Lets days begin and end as those of a market, from a date on. `is_given`: the operator has said when clients query.
    fn follow(&mut self, calendar: &TradingCalendar, from: Date, is_given: bool) -> Result<(), CliError> {
        let full = |date: &Date| !calendar.session(*date).is_half;
        let days = std::iter::successors(Some(calendar.trading_from(from)), |date| Some(calendar.next_after(*date)));
        let session = calendar.session(days.take(DAYS_A_YEAR).find(full).unwrap_or(from));
        let clock = |at: jiff::Timestamp| of_day(at.to_zoned(calendar.zone.clone()).time());
        let prepare_ns = u64::try_from(calendar.prepare.as_nanos()).unwrap_or(0).min(DAY_NS - 1);
        self.begin_ns = clock(session.end) % DAY_NS;
        let since = |at_ns: u64| (at_ns + DAY_NS - self.begin_ns) % DAY_NS;
        self.sleep.prepare_ns = Some(since((clock(session.open) + DAY_NS - prepare_ns) % DAY_NS));
        let Range { start, end } = self.sleep.queries;
        let mut queries = since(start)..since(end.saturating_sub(1)).saturating_add(1);
        if queries.start >= queries.end && !is_given {
            // They query until the day ends.
            queries.end = DAY_NS;
        }
        if queries.start >= queries.end {
            let end = text::clock(self.begin_ns);
            return Err(CliError::Usage(format!(
                "--queries: clients query at {end}, when the day of the calendar ends"
            )));
        }
        self.sleep.queries = queries;
        let year = from.checked_add(365.days()).unwrap_or(from);
        self.trading_days = Some(calendar.trading_between(from.yesterday().unwrap_or(from), year).min(DAYS_A_YEAR));
        Ok(())
    }

    fn setup(&self, case: &Case) -> Setup {
        Setup { min: 0, sample_ns: None, sleep: Some(self.sleep.clone()), ..case.setup.clone() }
    }
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
        let run = play(&of.setup(case), &shape)?;
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

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: u64 = 3_600_000_000_000;

    #[test]
    fn hours_are_two_times_of_a_day_in_order() {
        assert_eq!(hours("09:00-18:30"), Ok(9 * HOUR..18 * HOUR + HOUR / 2));
        assert_eq!(hours("00:00-24:00"), Ok(0..DAY_NS));
        for wrong in ["", "9", "18:00-09:00", "09:00-09:00", "25:00-26:00", "-1:00-02:00", "a-b"] {
            assert!(hours(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_calendar_turns_the_day_so_that_it_begins_where_the_one_before_ends() {
        let text = "zone = \"America/New_York\"\nopen = \"09:30\"\nclose = \"16:00\"\nend = \"17:00\"\nprepare = \"30m\"\n\
                    holidays = [\"2026-01-01\", \"2026-01-19\"]\n";
        let calendar = TradingCalendar::parse(text).unwrap();
        let sleep = Sleep { wake: Wake::Calendar, idle_ns: None, prepare_ns: None, queries: 8 * HOUR..16 * HOUR };
        let mut of = SleepInputs { sleep, begin_ns: 0, trading_days: None };
        of.follow(&calendar, SOME_DAY, true).unwrap();
        assert_eq!((of.begin_ns, of.sleep.prepare_ns), (17 * HOUR, Some(16 * HOUR)));
        assert_eq!((of.sleep.queries.clone(), of.trading_days), (15 * HOUR..23 * HOUR, Some(259)));
        of.sleep.queries = 16 * HOUR..18 * HOUR;
        of.begin_ns = 0;
        assert!(of.follow(&calendar, SOME_DAY, true).is_err(), "they query over the end of the day");
    }
}
