//! The fleet from which a tickerplant requests the first nodes of its queues (`--node-fleet`).

use crate::cli::CliError;
#[cfg(not(feature = "aws"))]
use crate::cli::fleet::choose::WITHOUT_AWS;
use crate::config::{NodeFleetPlace, Settings, TradingCalendar, Wake, options};
use crate::env::Env;
#[cfg(feature = "aws")]
use crate::fleet::aws::{Aws, session::Endpoints};
use crate::fleet::local::Local;
use crate::fleet::{Fleet, Identity};
use crate::queue::Params;
use crate::tick::node_fleet::{Groups, NodeFleet};
use std::sync::Arc;
use std::time::Duration;

/// Shortest `--idle-off`.
const SHORTEST_IDLE: Duration = Duration::from_secs(1);

/// Returns the queue's parameters with the options that say when queues sleep and wake.
///
/// # Errors
/// Options that need another one.
pub fn sleeping(settings: &Settings, params: Params) -> Result<Params, CliError> {
    let (wake, idle) = (settings.get(&options::WAKE)?, settings.get(&options::IDLE_OFF)?);
    let fleet = settings.find(&options::NODE_FLEET)?;
    let needs = |option: &str| {
        Err(CliError::Usage(format!(
            "{option}: needs --node-fleet: without it nobody would start a node again. For an `elastick fleet` on port 5009: --node-fleet :5009/rdb"
        )))
    };
    if fleet.is_none() && wake != Wake::Schedule {
        return needs("--wake");
    }
    if wake == Wake::Calendar && settings.find(&options::CALENDAR)?.is_none() {
        return Err(CliError::Usage("--wake calendar: needs --calendar FILE, which says when the market opens".into()));
    }
    if fleet.is_none() && !idle.is_zero() {
        return needs("--idle-off");
    }
    if !idle.is_zero() && idle < SHORTEST_IDLE {
        let text = "--idle-off: the shortest time is 1s, as nodes report their queries once a second; 0 is never";
        return Err(CliError::Usage(text.into()));
    }
    if let Some(NodeFleetPlace::Aws) = fleet.as_ref().map(|fleet| &fleet.place) {
        #[cfg(not(feature = "aws"))]
        return Err(CliError::Usage(format!("--node-fleet aws: {WITHOUT_AWS}")));
    }
    let groups = fleet.map(|fleet| fleet.groups.into_iter().map(String::into_bytes).collect()).unwrap_or_default();
    let idle_ns = match idle {
        Duration::ZERO => i64::MAX,
        idle => i64::try_from(idle.as_nanos()).unwrap_or(i64::MAX),
    };
    Ok(Params { groups, wake, idle_ns, ..params })
}

/// Returns the trading days, if there is a calendar.
///
/// # Errors
/// The file cannot be read or is no calendar; a roll time beside it.
pub fn calendar(settings: &Settings) -> Result<Option<Arc<TradingCalendar>>, CliError> {
    let Some(path) = settings.find(&options::CALENDAR)? else { return Ok(None) };
    if !settings.is_default(&options::ROLL) {
        let text = "--roll-time: the days end by --calendar, at its `end`; leave --roll-time out";
        return Err(CliError::Usage(text.into()));
    }
    let calendar = TradingCalendar::read(&path).map_err(|error| CliError::Failed(format!("--calendar: {error}")))?;
    Ok(Some(Arc::new(calendar)))
}

/// Opens the fleet, if there is one. A passive tickerplant does so at its start: a take-over must not fail for it.
///
/// # Errors
/// AWS's metadata service is unreachable.
pub fn open(settings: &Settings) -> Result<Option<Groups>, CliError> {
    let Some(fleet) = settings.find(&options::NODE_FLEET)? else { return Ok(None) };
    // This process is in none of the groups.
    let identity = |group: &String| Identity { instance: String::new(), group: group.clone() };
    let back_end = |group: &String| -> Result<Box<dyn Fleet>, CliError> {
        match &fleet.place {
            NodeFleetPlace::Supervisor(address) => Ok(Box::new(Local::new(address.clone(), identity(group)))),
            #[cfg(feature = "aws")]
            NodeFleetPlace::Aws => {
                let aws = Aws::of_group(Endpoints::from_environment(), identity(group));
                Ok(Box::new(aws.map_err(|error| CliError::Failed(format!("--node-fleet {fleet}: {error}")))?))
            }
            #[cfg(not(feature = "aws"))]
            NodeFleetPlace::Aws => Err(CliError::Usage(format!("--node-fleet aws: {WITHOUT_AWS}"))),
        }
    };
    let groups = fleet.groups.iter().map(|group| Ok((group.clone(), back_end(group)?)));
    groups.collect::<Result<_, CliError>>().map(Some)
}

/// Starts the thread that requests nodes.
///
/// # Errors
/// The system has no thread left.
pub fn start(settings: &Settings, env: &Env, groups: Groups) -> Result<NodeFleet, CliError> {
    NodeFleet::start(env, groups, settings.get(&options::NODE_LEAD)?).map_err(CliError::failed)
}
