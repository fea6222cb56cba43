//! `elastick fleet status`: prints a group and its instances.

use crate::cli::args::{command_with, settings_of};
use crate::cli::error::CliError;
use crate::cli::logging;
use crate::config::units::FleetKind;
use crate::config::{Address, Listen, Program, options};
use crate::fleet::local::{FLEET_VARIABLE, Local};
use crate::fleet::{Description, Fleet, Identity, Member};
use clap::{ArgMatches, Command};
use std::io::Write;
use std::time::Duration;

pub const NAME: &str = "status";

pub fn command() -> Command {
    let takes = |name: &str| ["fleet", "group", "port", "config"].contains(&name);
    command_with(Program::Fleet, NAME, &takes)
        .about("Show a group: its capacity, and the stage, age, lead time and zone of each instance")
        .after_help(
            "Examples:
  elastick fleet status                                   the supervisor on this machine's default port
  elastick fleet status --config elastick.toml            the one at [fleet] port
  elastick fleet status --fleet aws                       on an instance: its own group
  \
             elastick fleet status --fleet aws --group stack-r-asg   another group of the account
  elastick fleet \
             status --fleet 127.0.0.1:41234           the supervisor listening on that port",
        )
}

/// Facts about an instance that only some back ends have.
#[derive(Default)]
struct Extra {
    kind: Option<String>,
    memory_bytes: Option<u64>,
    zone: Option<String>,
    address: Option<String>,
}

pub fn run(matches: &ArgMatches) -> Result<(), CliError> {
    let settings = settings_of(Program::Fleet, matches)?;
    logging::start(&settings)?;
    let group = settings.get(&options::GROUP)?;
    let own = settings.is_default(&options::GROUP);
    let address = match settings.get(&options::FLEET)? {
        FleetKind::Aws => return aws(Some(group.as_str()).filter(|_| !own)),
        FleetKind::Nobody => return Err(CliError::Usage("--fleet none has no instances".to_string())),
        FleetKind::At(address) => address,
        FleetKind::Auto | FleetKind::Local => {
            let own = std::env::var(FLEET_VARIABLE).ok().and_then(|text| text.parse::<Address>().ok());
            match own {
                Some(address) => address,
                None => at(settings.get(&options::FLEET_PORT)?)?,
            }
        }
    };
    let mut local = Local::new(address, Identity { instance: "operator".to_string(), group });
    let description = local.describe().map_err(|error| {
        CliError::Failed(format!("{error}. Its start prints the port; --port, --fleet or --config name another one"))
    })?;
    print(&description, &|_| Extra::default(), &[])
}

/// Returns the address of a supervisor on this machine that listens there.
fn at(listen: Listen) -> Result<Address, CliError> {
    if listen.first == 0 || listen.first != listen.last {
        let reason =
            "--port does not say where the supervisor listens: its start prints the port; use --fleet HOST:PORT";
        return Err(CliError::Usage(reason.to_string()));
    }
    let is_any = ["", "0.0.0.0", "::"].contains(&listen.host.as_str());
    let host = if is_any { "localhost".to_string() } else { listen.host };
    Ok(Address { host, port: listen.first, ..Address::default() })
}

#[cfg(feature = "aws")]
fn aws(group: Option<&str>) -> Result<(), CliError> {
    use crate::fleet::aws::session::Endpoints;

    let status = crate::fleet::aws::status::read(Endpoints::from_environment(), group).map_err(CliError::failed)?;
    let extra = |member: &Member| match status.details.get(&member.instance).cloned() {
        Some(detail) => {
            Extra { kind: detail.kind, memory_bytes: detail.memory_bytes, zone: detail.zone, address: detail.address }
        }
        None => Extra::default(),
    };
    print(&status.group, &extra, &status.notes)
}

#[cfg(not(feature = "aws"))]
fn aws(_: Option<&str>) -> Result<(), CliError> {
    Err(CliError::Usage(format!("--fleet aws: {}", super::choose::WITHOUT_AWS)))
}

fn print(group: &Description, extra: &dyn Fn(&Member) -> Extra, notes: &[String]) -> Result<(), CliError> {
    let mut out = std::io::stdout().lock();
    let counting = group.members.iter().filter(|member| member.counts()).count();
    writeln!(
        out,
        "group {}: {} desired of {} to {}, {counting} there, lead time {}",
        group.group,
        group.desired,
        group.min,
        group.max,
        group.lead_time.map_or_else(|| "not known yet".to_string(), time)
    )?;
    let titles = ["instance", "stage", "age", "lead time", "protected", "type", "memory", "zone", "address", "process"];
    let mut rows = vec![titles.map(ToString::to_string)];
    rows.extend(group.members.iter().map(|member| {
        let extra = extra(member);
        [
            member.instance.clone(),
            member.stage.name().to_string(),
            time(member.age),
            member.lead_time.map_or_else(String::new, time),
            if member.protected { "yes" } else { "no" }.to_string(),
            extra.kind.unwrap_or_default(),
            extra.memory_bytes.map_or_else(String::new, memory),
            extra.zone.unwrap_or_default(),
            extra.address.unwrap_or_default(),
            member.process.map_or_else(String::new, |process| process.to_string()),
        ]
    }));
    for line in aligned(&rows) {
        writeln!(out, "{line}")?;
    }
    for note in notes {
        writeln!(out, "note: {note}")?;
    }
    Ok(())
}

/// Aligns the rows in columns; leaves out a column that is empty below its title.
fn aligned<const N: usize>(rows: &[[String; N]]) -> Vec<String> {
    let width = |column: usize| {
        let cells = rows.iter().filter_map(|row| row.get(column));
        let used = cells.clone().skip(1).any(|cell| !cell.is_empty());
        if used { cells.map(|cell| cell.chars().count()).max().unwrap_or(0) } else { 0 }
    };
    let widths: Vec<usize> = (0..N).map(width).collect();
    let line = |row: &[String; N]| {
        let cells = row.iter().zip(&widths).filter(|(_, width)| **width > 0);
        let cells: Vec<String> = cells.map(|(cell, width)| format!("{cell:<width$}")).collect();
        cells.join("  ").trim_end().to_string()
    };
    rows.iter().map(line).collect()
}

fn time(time: Duration) -> String {
    let seconds = time.as_secs();
    match seconds {
        0 => format!("{} ms", time.as_millis()),
        1..60 => format!("{seconds} s"),
        60..3600 => format!("{} min {} s", seconds / 60, seconds % 60),
        _ => format!("{} h {} min", seconds / 3600, seconds / 60 % 60),
    }
}

fn memory(bytes: u64) -> String {
    format!("{:.1} GiB", bytes as f64 / f64::from(1 << 30))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_aligned_and_empty_ones_left_out() {
        let rows = [["a", "b", "c"], ["long", "", "1"], ["x", "", "2"]].map(|row| row.map(ToString::to_string));
        assert_eq!(aligned(&rows), ["a     c", "long  1", "x     2"]);
    }

    #[test]
    fn a_supervisor_is_found_where_its_port_says() {
        let of = |text: &str| at(text.parse().expect("a port")).map(|address| address.to_string()).ok();
        assert_eq!(of("127.0.0.1:5009").as_deref(), Some("127.0.0.1:5009"));
        assert_eq!(of("6000").as_deref(), Some("localhost:6000"));
        assert_eq!((of("0"), of("5009/5019")), (None, None));
    }

    #[test]
    fn times_are_as_people_say_them() {
        let shown = [5, 65_000, 3_725_000].map(|ms| time(Duration::from_millis(ms)));
        assert_eq!(shown, ["5 ms", "1 min 5 s", "1 h 2 min"]);
    }
}
