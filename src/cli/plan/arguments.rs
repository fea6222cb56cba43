//! The command line of `elastick plan`.

use super::CliError;
use super::log::{LogVolume, volume};
use super::sleep_arguments::{self, SleepInputs};
use crate::cli::command_for;
use crate::config::Program;
use crate::config::units::{self, Scale};
use crate::monitor::text;
use crate::plan::day::{SAMPLE_NS, Setup};
use crate::plan::losses::Losses;
use crate::plan::noise::Noise;
use crate::plan::prices::{InstanceType, Prices};
use crate::plan::shape::Shape;
use crate::rdb::policy::Params;
use clap::parser::ValueSource;
use clap::{Arg, ArgAction, ArgMatches, Command};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Longest file of a day or of prices.
const MAX_FILE_BYTES: u64 = 16 << 20;
/// Most combinations of types and thresholds, and most days of a command.
const MAX_CASES: usize = 10_000;
const MAX_DAYS: usize = 1_000_000;
/// Thresholds that are tried for a recommendation if none is given.
const TRIED: [f64; 7] = [20.0, 30.0, 40.0, 50.0, 60.0, 70.0, 75.0];
const HOUR_NS: u64 = 3_600_000_000_000;

const EXAMPLES: &str = "Examples:
  elastick plan                                            the day of the paper on four types
  elastick plan --type t3a.medium --scale 20,40,60,80 --roll 85
  elastick plan --day volumes.csv --type r7g.large --scale 60,auto --lead 4m --surge 10
  elastick plan --log log/sym2026.11.23 --type r7g.medium,r7g.large --roll 70,85
  elastick plan --volume 400GB --recommend --surge 10 --cushion 2
  elastick plan --paper --risk --recommend --html plan.html
  elastick plan --day volumes.csv --wake first-query --idle-off 30m --queries 09:00-17:30

The day runs on virtual time through the code that runs in production: the queue of the tickerplant, the policy of the nodes, the \
rules of the group. Idle is capacity without data, by stage of the day. A cushion is the time from the request for an instance until \
it is needed, in lead times: below 1 the cluster falls behind, and a surge of that factor makes it 1. Behind is what had arrived and \
was on no node.";

pub fn command() -> Command {
    // A negative number reaches the parser of its value, whose error says what is expected.
    let one = |name: &'static str, value: &'static str, default: &'static str, help: &'static str| {
        Arg::new(name).long(name).value_name(value).default_value(default).allow_hyphen_values(true).help(help)
    };
    let listed = |name: &'static str, value: &'static str, default: &'static str, help: &'static str| {
        one(name, value, default, help).value_delimiter(',')
    };
    let file = |name: &'static str, value: &'static str, help: &'static str| {
        Arg::new(name).long(name).value_name(value).value_parser(clap::value_parser!(PathBuf)).help(help)
    };
    let flag = |name: &'static str, help: &'static str| Arg::new(name).long(name).action(ArgAction::SetTrue).help(help);
    let count = |first: i64, last: i64| clap::value_parser!(u32).range(first..=last);
    command_for(Program::Plan)
        .about("Work out what a day costs and risks on instances of several types and under several thresholds")
        .args([
            one("volume", "SIZE", "16GB", "Bytes of updates in the nodes' memory by the end of the day").value_parser(units::bytes),
            file(
                "day",
                "FILE",
                "When they arrive: lines of a time and a volume, 09:30,1200000, each until the next; scaled to --volume if that is given. \
                 Without it, the day of \"RDB Autoscaling\", figure 2.1",
            ),
            file(
                "log",
                "FILE",
                "A tickerplant log whose day is taken: bytes by the time of each update, its first column; scaled to --volume if that is given",
            )
            .conflicts_with("day"),
            listed("type", "NAME,...", "t3a.small,t3a.medium,t3a.large,t3a.xlarge", "Instance types"),
            listed("scale", "PERCENT,...", "60", "Scale thresholds, or auto").value_parser(units::scale),
            listed("roll", "PERCENT,...", "80", "Roll thresholds").value_parser(units::percent),
            one("fixed", "NAME", "t3a.2xlarge", "Type of the one server without a cluster, to compare with"),
            one("latent", "SIZE", "150MB", "Memory in use on an instance without data").value_parser(units::bytes),
            one("lead", "TIME", "60s", "Time from the request for an instance until its node waits in the queue, for types without lead_s")
                .value_parser(units::duration),
            one("replay", "SIZE", "200MB", "Bytes that a node reads from the log in a second").value_parser(units::bytes),
            one("min", "COUNT", "1", "Least number of instances").value_parser(count(1, 1024)),
            one("max", "COUNT", "64", "Greatest number of instances").value_parser(count(1, 1024)),
            one("surge", "FACTOR", "1", "Multiply the volume for a while after the market opens").value_parser(factor),
            one("surge-length", "TIME", "1h", "How long a surge lasts; those of --risk a quarter of an hour at most").value_parser(units::duration),
            one("days", "COUNT", "1", "Number of days: more than one differ by --noise").value_parser(count(1, 100_000)),
            one("noise", "DEVIATION", "0.25", "How much days differ: standard deviation of the logarithm of a day's volume; of a quarter of an \
                 hour's, twice as much").value_parser(deviation),
            one("seed", "NUMBER", "1", "Seed of the days").value_parser(clap::value_parser!(u64)),
            flag("paper", "Also: the two tables of \"RDB Autoscaling\" beside what this study finds"),
            flag("risk", "Also: how often each cluster falls behind under surges and slow launches"),
            listed("risk-surge", "FACTOR,...", "1,2,5,10,20,50", "Surges of --risk, each at a random time while the market is open")
                .value_parser(factor),
            listed("risk-lead", "TIME,...", "1m,2m,5m,10m", "Lead times of --risk").value_parser(units::duration),
            one("risk-days", "COUNT", "50", "Days for each surge and lead time").value_parser(count(1, 100_000)),
            flag(
                "recommend",
                "Also: the cheapest type and thresholds that keep --cushion on a day with --surge, of all types in the list and thresholds from 20 \
                 to 75, unless --type or --scale is given",
            ),
            one("lag-usd", "USD", "0", "What a second costs in which updates are on no node yet").value_parser(factor),
            one("missing-usd", "USD", "0", "What a second costs in which the rows of a node that died are not back").value_parser(factor),
            one("deaths", "COUNT", "0.1", "Nodes that die in 1000 hours of nodes").value_parser(factor),
            one("cushion", "LEADTIMES", "2", "Least cushion for --recommend").value_parser(factor),
            file("prices", "FILE", "TOML file with other types: date, source, and name, memory_gib, usd_per_hour and perhaps lead_s of each [[type]]"),
            file("html", "FILE", "Write tables and plots as one page, which loads nothing"),
            file("svg", "DIRECTORY", "Write each plot as an SVG file"),
        ])
        .args(sleep_arguments::options())
        .after_help(EXAMPLES)
}

fn factor(text: &str) -> Result<f64, String> {
    number(text, 1e6).ok_or_else(|| "expected a number from 0 to 1000000, as 10".to_string())
}

fn deviation(text: &str) -> Result<f64, String> {
    number(text, 2.0).ok_or_else(|| "expected a number from 0 to 2, as 0.25".to_string())
}

fn number(text: &str, most: f64) -> Option<f64> {
    text.parse().ok().filter(|number: &f64| (0.0..=most).contains(number))
}

/// A type of instances under thresholds.
#[derive(Clone, Debug)]
pub struct Case {
    pub of: InstanceType,
    pub scale: Scale,
    pub roll_percent: f64,
    pub setup: Setup,
}

impl Case {
    pub fn scale_text(&self) -> String {
        match self.scale {
            Scale::At(percent) => format!("{percent}%"),
            Scale::Auto => "auto".to_string(),
        }
    }

    pub fn name(&self) -> String {
        format!("{} {}/{}%", self.of.name, self.scale_text(), self.roll_percent)
    }
}

/// What the command line requests.
pub struct Inputs {
    pub prices: Prices,
    pub fixed: InstanceType,
    pub cases: Vec<Case>,
    /// Those among which one is recommended.
    pub candidates: Vec<Case>,
    /// The log of the planned day, and what it has.
    pub log: Option<(PathBuf, LogVolume)>,
    /// The planned day, without and with its surge.
    pub calm: Shape,
    pub shape: Shape,
    pub surge: f64,
    pub days: u32,
    pub noise: Noise,
    pub seed: u64,
    pub losses: Losses,
    pub paper: bool,
    pub risk: Option<RiskInputs>,
    pub cushion: Option<f64>,
    pub sleep: Option<SleepInputs>,
    pub html: Option<PathBuf>,
    pub svg: Option<PathBuf>,
}

/// Weathers of `--risk`.
#[derive(Debug)]
pub struct RiskInputs {
    pub surges: Vec<f64>,
    pub leads_ns: Vec<u64>,
    pub days: u32,
    pub length_ns: u64,
}

/// Reads the arguments.
///
/// # Errors
/// `Usage` if options contradict one another or a file has a wrong line; `Failed` if a file cannot be read.
pub fn inputs(matches: &ArgMatches) -> Result<Inputs, CliError> {
    let usage = |text: String| CliError::Usage(text);
    let prices = prices(matches)?;
    let all = |name: &str| matches.get_many::<String>(name).into_iter().flatten();
    let find = |option: &str, name: &str| {
        prices.find(name).cloned().map_err(|error| CliError::Usage(format!("--{option}: {error}")))
    };
    let types = all("type").map(|name| find("type", name)).collect::<Result<Vec<_>, _>>()?;
    let fixed = find("fixed", matches.get_one::<String>("fixed").map_or("", String::as_str))?;
    let scales: Vec<Scale> = matches.get_many::<Scale>("scale").into_iter().flatten().copied().collect();
    let rolls: Vec<f64> = numbers(matches, "roll");
    let cases = cases(matches, &types, &scales, &rolls)?;
    let candidates = match matches.get_flag("recommend") {
        false => Vec::new(),
        true => {
            let latent = size(matches, "latent") as f64;
            let is_given = |name: &str| matches.value_source(name) == Some(ValueSource::CommandLine);
            let fits = |of: &&InstanceType| rolls.iter().all(|roll| latent < of.memory_bytes() as f64 * roll / 100.0);
            let tried = TRIED.into_iter().filter(|scale| rolls.iter().all(|roll| scale < roll)).map(Scale::At);
            let types = if is_given("type") { types } else { prices.types.iter().filter(fits).cloned().collect() };
            let scales = if is_given("scale") { scales } else { tried.chain([Scale::Auto]).collect() };
            self::cases(matches, &types, &scales, &rolls)?
        }
    };
    let log = matches.get_one::<PathBuf>("log").map(|path| volume(path).map(|of| (path.clone(), of))).transpose()?;
    let calm = shape(matches, log.as_ref().map(|(_, of)| &of.shape))?;
    let (surge, length_ns) = (decimal(matches, "surge"), time_ns(matches, "surge-length"));
    let (open_ns, _) = calm.open_hours();
    let shape =
        if surge == 1.0 { calm.clone() } else { calm.with_surge((open_ns, open_ns.saturating_add(length_ns)), surge) };
    let html = matches.get_one::<PathBuf>("html").cloned();
    let directory = html.as_ref().and_then(|path| path.parent()).filter(|directory| !directory.as_os_str().is_empty());
    if directory.is_some_and(|directory| !directory.is_dir()) {
        return Err(usage(format!("--html: {} is no directory", directory.unwrap_or(Path::new("")).display())));
    }
    let (days, risk_days) = (whole(matches, "days"), whole(matches, "risk-days"));
    let risk = matches.get_flag("risk").then(|| RiskInputs {
        surges: numbers(matches, "risk-surge"),
        leads_ns: matches.get_many::<Duration>("risk-lead").into_iter().flatten().map(nanoseconds).collect(),
        days: risk_days,
        length_ns: length_ns.min(HOUR_NS / 4),
    });
    let weathers = risk.as_ref().map_or(0, |risk| risk.surges.len().saturating_mul(risk.leads_ns.len()));
    let of_cases = |days: u32| cases.len().saturating_mul(usize::try_from(days).unwrap_or(usize::MAX));
    if of_cases(days).saturating_add(of_cases(risk_days).saturating_mul(weathers)) > MAX_DAYS {
        return Err(usage(format!("more than {MAX_DAYS} days in all: fewer types, thresholds or days")));
    }
    let sleep = sleep_arguments::inputs(matches, &shape, &prices.date)?;
    let volume = decimal(matches, "noise");
    let priced = Losses {
        lag_usd_per_s: decimal(matches, "lag-usd"),
        missing_usd_per_s: decimal(matches, "missing-usd"),
        deaths_per_node_hour: decimal(matches, "deaths") / 1000.0,
    };
    let is_free = priced.lag_usd_per_s == 0.0 && priced.missing_usd_per_s == 0.0;
    let losses = if is_free { Losses::default() } else { priced };
    Ok(Inputs {
        sleep,
        prices,
        fixed,
        cases,
        candidates,
        log,
        calm,
        shape,
        surge,
        days,
        noise: Noise { volume, within: 2.0 * volume },
        seed: matches.get_one::<u64>("seed").copied().unwrap_or(1),
        losses,
        paper: matches.get_flag("paper"),
        risk,
        cushion: matches.get_flag("recommend").then(|| decimal(matches, "cushion")),
        html,
        svg: matches.get_one::<PathBuf>("svg").cloned(),
    })
}

fn size(matches: &ArgMatches, name: &str) -> u64 {
    matches.get_one::<u64>(name).copied().unwrap_or(0)
}

fn whole(matches: &ArgMatches, name: &str) -> u32 {
    matches.get_one::<u32>(name).copied().unwrap_or(1)
}

fn decimal(matches: &ArgMatches, name: &str) -> f64 {
    matches.get_one::<f64>(name).copied().unwrap_or(1.0)
}

fn numbers(matches: &ArgMatches, name: &str) -> Vec<f64> {
    matches.get_many::<f64>(name).into_iter().flatten().copied().collect()
}

fn time_ns(matches: &ArgMatches, name: &str) -> u64 {
    matches.get_one::<Duration>(name).map_or(0, nanoseconds)
}

fn nanoseconds(time: &Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX).max(1)
}

fn prices(matches: &ArgMatches) -> Result<Prices, CliError> {
    match matches.get_one::<PathBuf>("prices") {
        None => Prices::shipped().map_err(CliError::Failed),
        Some(path) => {
            Prices::parse(&read(path)?).map_err(|error| CliError::Usage(format!("{}: {error}", path.display())))
        }
    }
}

fn shape(matches: &ArgMatches, log: Option<&Shape>) -> Result<Shape, CliError> {
    let volume = size(matches, "volume");
    let day = match (matches.get_one::<PathBuf>("day"), log) {
        (None, None) => return Ok(Shape::market_day(volume)),
        (_, Some(log)) => log.clone(),
        (Some(path), _) => {
            Shape::parse_csv(&read(path)?).map_err(|error| CliError::Usage(format!("{}: {error}", path.display())))?
        }
    };
    let is_given = matches.value_source("volume") == Some(ValueSource::CommandLine);
    Ok(if is_given { day.scaled_to(volume) } else { day })
}

fn read(path: &PathBuf) -> Result<String, CliError> {
    let failed = |error: std::io::Error| CliError::Failed(format!("{}: {error}", path.display()));
    if std::fs::metadata(path).map_err(failed)?.len() > MAX_FILE_BYTES {
        return Err(CliError::Failed(format!("{}: longer than {MAX_FILE_BYTES} bytes", path.display())));
    }
    std::fs::read_to_string(path).map_err(failed)
}

fn cases(matches: &ArgMatches, types: &[InstanceType], scales: &[Scale], rolls: &[f64]) -> Result<Vec<Case>, CliError> {
    if types.len().saturating_mul(scales.len()).saturating_mul(rolls.len()) > MAX_CASES {
        return Err(CliError::Usage(format!("more than {MAX_CASES} combinations of --type, --scale and --roll")));
    }
    let mut cases = Vec::new();
    for of in types {
        for roll_percent in rolls.iter().copied() {
            for scale in scales.iter().copied() {
                let setup = setup(matches, of, scale, roll_percent)?;
                cases.push(Case { of: of.clone(), scale, roll_percent, setup });
            }
        }
    }
    Ok(cases)
}

fn setup(matches: &ArgMatches, of: &InstanceType, scale: Scale, roll_percent: f64) -> Result<Setup, CliError> {
    let usage = |text: String| CliError::Usage(text);
    let policy = Params::new(scale, roll_percent).map_err(|error| usage(error.to_string()))?;
    let (memory_bytes, latent_bytes) = (of.memory_bytes(), size(matches, "latent"));
    let (min, max) = (whole(matches, "min"), whole(matches, "max"));
    let threshold_bytes = (memory_bytes as f64 * roll_percent / 100.0) as u64;
    if latent_bytes >= threshold_bytes {
        let (latent, threshold) = (text::bytes(latent_bytes), text::bytes(threshold_bytes));
        let name = &of.name;
        return Err(usage(format!(
            "{name}: an instance without data is over its roll threshold: {latent} of {threshold}"
        )));
    }
    if min > max {
        return Err(usage(format!("--min {min} is more than --max {max}")));
    }
    // The type's own time, unless one is given.
    let is_given = matches.value_source("lead") == Some(ValueSource::CommandLine);
    let own_ns = of.lead_s.filter(|_| !is_given).map(|seconds| (seconds * 1e9) as u64);
    let lead_ns = own_ns.unwrap_or_else(|| time_ns(matches, "lead")).max(1);
    let replay_bytes_per_s = size(matches, "replay").max(1);
    Ok(Setup {
        memory_bytes,
        latent_bytes,
        policy,
        lead_ns,
        min,
        max,
        replay_bytes_per_s,
        sample_ns: Some(SAMPLE_NS),
        sleep: None,
    })
}
