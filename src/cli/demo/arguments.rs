//! Command lines of the demo's processes.

use super::DemoOptions;
use super::cluster::GROUP;
use super::sleep::IDLE_OFF;
use super::users::{DemoUsers, HOST};
use crate::cli::CliError;
use crate::config::units::Scale;
use std::ffi::OsString;
use std::path::Path;
use std::time::Duration;

/// Returns the number of nodes left after the end of the day.
pub fn min_nodes(options: &DemoOptions) -> u32 {
    u32::from(!options.sleep)
}

/// A tickerplant with its log in `logs`, and its schema in `schemas`. `fleet`: the port of the fleet, if the cluster sleeps.
pub fn tick(
    options: &DemoOptions,
    logs: &Path,
    schemas: &Path,
    users: &DemoUsers,
    fleet: Option<u16>,
) -> Vec<OsString> {
    let mut arguments = words(&["tick", "sym"]);
    arguments.push(logs.into());
    arguments.extend(words(&[
        "-p",
        &format!("{HOST}:{}/{}", options.listen.first, options.listen.last),
        "--durability",
        &options.durability.to_string(),
        "--schemas",
    ]));
    arguments.push(schemas.into());
    if options.kill_tick {
        arguments.extend(words(&["--lease", "file:"]));
    }
    if let Some(port) = fleet {
        arguments.extend(words(&["--node-fleet", &format!("{HOST}:{port}/{GROUP}"), "--wake", "first-update"]));
        let lead_time = format!("{}ms", options.lead_time.as_millis());
        arguments.extend(words(&["--lead-time", &lead_time, "--idle-off", &format!("{}ms", IDLE_OFF.as_millis())]));
    }
    arguments.extend(member_arguments(users));
    arguments
}

fn words(words: &[&str]) -> Vec<OsString> {
    words.iter().map(OsString::from).collect()
}

/// Users and secret, for tickerplant and nodes.
fn member_arguments(users: &DemoUsers) -> [OsString; 4] {
    ["-U".into(), users.users.clone().into(), "--cluster-secret-file".into(), users.secret.clone().into()]
}

/// The fleet at this port, by default any free one. Its nodes connect to these tickerplants.
pub fn fleet(
    options: &DemoOptions,
    dir: &Path,
    tickerplants: &[u16],
    users: &DemoUsers,
    port: Option<u16>,
) -> Result<Vec<OsString>, CliError> {
    let time = |time: Duration| format!("{}ms", time.as_millis());
    let mut arguments = words(&[
        "fleet",
        "-p",
        &format!("{HOST}:{}", port.unwrap_or(0)),
        "--group",
        GROUP,
        "--min",
        &min_nodes(options).to_string(),
    ]);
    arguments.extend(words(&["--max", &options.max_nodes.to_string(), "--launch-delay", &time(options.lead_time)]));
    arguments.extend(words(&["--grace", "5s", "--output"]));
    arguments.push(dir.join("nodes").into());
    arguments.push("--".into());
    arguments.push(std::env::current_exe().map_err(CliError::failed)?.into());
    let scale = match options.scale {
        Scale::Auto => "auto".to_string(),
        Scale::At(percent) => format!("{percent}%"),
    };
    arguments.extend(words(&["rdb", &addresses(tickerplants), "-p", &format!("{HOST}:0")]));
    arguments.extend(words(&["--scale", &scale]));
    arguments.extend(words(&["--roll-threshold", &format!("{}%", options.roll_percent)]));
    arguments.extend(words(&["--memory", &format!("{}B", options.node_memory_bytes), "--query-threads", "1"]));
    arguments.extend(member_arguments(users));
    Ok(arguments)
}

/// The feed to these tickerplants.
pub fn feed(options: &DemoOptions, tickerplants: &[u16], login: &Path) -> Vec<OsString> {
    let mut arguments = words(&["feed", &addresses(tickerplants), "--json"]);
    let mut add = |name: &str, value: String| arguments.extend([OsString::from(name), OsString::from(value)]);
    add("--login-file", login.to_string_lossy().into_owned());
    add("--minutes", options.minutes.to_string());
    add("--rate", options.rate.to_string());
    add("--rows", options.rows.to_string());
    add("--universe", options.universe.to_string());
    add("--skew", options.skew.to_string());
    add("--quotes", options.quotes.to_string());
    add("--seed", options.seed.to_string());
    arguments
}

fn addresses(ports: &[u16]) -> String {
    ports.iter().map(|port| format!("{HOST}:{port}")).collect::<Vec<_>>().join(",")
}
