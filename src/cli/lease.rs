//! `elastick lease`: shows who holds a lease in a store, and gives back that of an owner who is gone.

use super::args::command_with;
use super::{CliError, json, settings_of};
use crate::cli::lease_store::Source;
use crate::config::{Program, options};
use crate::election::Store;
use crate::lease::{Copies, LeaseRecord, LeaseWrite, Written};
use crate::monitor::text::span;
use clap::{Arg, ArgAction, ArgMatches, Command};
use serde::Serialize;
use std::io::Write;
use std::time::{Duration, Instant};

/// Time of one call of the store.
const CALL_WITHIN: Duration = Duration::from_secs(5);
/// Interval between looks at the record.
const LOOK_EVERY: Duration = Duration::from_millis(100);

pub fn command() -> Command {
    let url = || Arg::new("url").value_name("URL").required(true).help("The lease, as in `elastick tick --lease`");
    let with_json = |name: &'static str| command_with(Program::Lease, name, &|option| option == "json");
    let show = with_json("show")
        .about("Show the owner of a lease, and whether it renews it: takes one renewal, or the lease's duration if there is none")
        .arg(url());
    let owner = Arg::new("owner")
        .long("owner")
        .value_name("NAME")
        .required(true)
        .help("The owner that is gone, as `elastick lease show` names it");
    let now = Arg::new("now")
        .long("now")
        .action(ArgAction::SetTrue)
        .help("Do not wait for a renewal first: the owner's host is known to be off");
    let accept_loss = Arg::new("accept-loss").long("accept-loss").action(ArgAction::SetTrue).help(
        "Where each tickerplant has a copy of the log (--follow): let any copy go on, also one that lacks acknowledged updates, because the \
         hosts of the complete ones are lost",
    );
    let release = Command::new("release")
        .about(
            "Give back the lease of an owner that is gone, so that a passive tickerplant takes it at once. Waits for half of the lease's duration \
             first, and gives nothing back that is renewed",
        )
        .arg(url())
        .arg(owner)
        .arg(now)
        .arg(accept_loss);
    let pause = Command::new("pause")
        .about(
            "Pause take-overs, for maintenance: until `resume`, only a tickerplant at the owner's address takes the lease, or the one that \
             `elastick failover` chooses",
        )
        .arg(url());
    let resume = Command::new("resume").about("End a pause").arg(url());
    Command::new(Program::Lease.name())
        .about("Show a lease in a store, pause take-overs, or give it back for an owner that is gone")
        .subcommand_required(true)
        .arg_required_else_help(true)
        .subcommands([show, release, pause, resume])
        .after_help(
            "Examples:\n  elastick lease show 'dynamodb://elastick-leases/tick-sym?region=eu-west-1'\n  elastick lease release \
             'dynamodb://elastick-leases/tick-sym?region=eu-west-1' --owner tick1:5010/0f3c9a\n\nTo move the active role from a tickerplant that \
             is well, use elastick failover. Under --lease file: the lock of the log is the lease: elastick failover --dry-run shows who has it.",
        )
}

pub fn run(matches: &ArgMatches) -> Result<(), CliError> {
    let Some((action, matches)) = matches.subcommand() else {
        return Err(CliError::Usage("show, release, pause or resume".into()));
    };
    let text = |name: &str| matches.get_one::<String>(name).map(String::as_str).unwrap_or_default();
    let url = text("url").parse().map_err(CliError::Usage)?;
    let Some(source) = Source::of(url)? else {
        let why = "the lease is the lock of the log: elastick failover --dry-run shows who has it";
        return Err(CliError::Usage(format!("file: {why}")));
    };
    match action {
        "pause" => pause(&source, true),
        "resume" => pause(&source, false),
        "show" => show(&source, settings_of(Program::Lease, matches)?.is_on(&options::JSON)?),
        _ => release(&source, text("owner"), (matches.get_flag("now"), matches.get_flag("accept-loss"))),
    }
}

/// A lease as programs read it.
#[derive(Serialize)]
struct Shown<'a> {
    owner: &'a str,
    epoch: u64,
    duration_s: f64,
    is_released: bool,
    successor: Option<&'a str>,
    /// Copies of the log that have every acknowledged update, or the one log of a common directory.
    copies: Vec<&'a str>,
    /// An operator has paused take-overs.
    is_paused: bool,
    /// From the first look to the first renewal; `None` if there was none for the whole duration.
    renewed_after_s: Option<f64>,
}

fn show(source: &Source, is_json: bool) -> Result<(), CliError> {
    let mut store = source.open("", "")?;
    let Some(record) = read(&mut *store)? else {
        return Err(CliError::Failed("nobody has taken this lease yet".into()));
    };
    let lasts = Duration::from_nanos(record.lease_ns);
    let is_kept = record.lease_ns == u64::MAX;
    let renewed = if record.is_released || is_kept { None } else { renewal(&mut *store, &record, lasts)? };
    let is_gone = matches!(renewed, Some(Change { is_gone: true, .. }));
    let renewed = renewed.filter(|change| !change.is_gone).map(|change| change.after);
    if is_json {
        let shown = Shown {
            owner: &record.owner,
            epoch: record.epoch.0,
            duration_s: lasts.as_secs_f64(),
            is_released: record.is_released,
            successor: record.successor.as_deref(),
            copies: record.copies.names().map(String::as_str).collect(),
            is_paused: record.is_paused,
            renewed_after_s: renewed.map(|after| after.as_secs_f64()),
        };
        return Ok(json::print(&mut std::io::stdout(), &shown)?);
    }
    let state = match (record.is_released, &record.successor, renewed) {
        (true, None, _) if !record.copies.is_common() => {
            "released: the next contender with a complete copy takes it".to_string()
        }
        (true, None, _) => "released: the next contender takes it".to_string(),
        (true, Some(successor), _) => format!("released for {successor}, and for anybody after its duration"),
        (false, ..) if is_kept => "nobody takes it while it has this owner".to_string(),
        (false, _, Some(after)) => format!("held: changed {} after the first look", words(after)),
        (false, _, None) if is_gone => {
            "over: released since the first look, or not renewed and deleted by its store".to_string()
        }
        (false, _, None) => format!("over: not renewed for {}", words(lasts)),
    };
    let mut rows = vec![
        ("owner", record.owner.clone()),
        ("epoch", record.epoch.0.to_string()),
        ("duration", if is_kept { String::new() } else { words(lasts) }),
        ("state", state),
    ];
    if !record.copies.is_empty() {
        rows.push((if record.copies.is_common() { "of" } else { "copies" }, record.copies.to_string()));
    }
    if record.is_paused {
        rows.push(("paused", "take-overs, until elastick lease resume".to_string()));
    }
    let mut out = std::io::stdout().lock();
    for (name, value) in rows {
        writeln!(out, "{name:<9} {value}")?;
    }
    Ok(())
}

fn pause(source: &Source, is_paused: bool) -> Result<(), CliError> {
    let mut store = source.open("", "")?;
    let done = if is_paused { "take-overs are paused" } else { "take-overs go on" };
    match store.write(&LeaseWrite::Pause(is_paused), CALL_WITHIN).map_err(CliError::failed)? {
        Written::Applied => Ok(writeln!(std::io::stdout(), "{done}")?),
        Written::Refused => Err(CliError::Failed("nobody has taken this lease yet".into())),
    }
}

fn release(source: &Source, owner: &str, (at_once, accepts_loss): (bool, bool)) -> Result<(), CliError> {
    let failed = |text: String| Err(CliError::Failed(text));
    let mut store = source.open(owner, "")?;
    let Some(record) = read(&mut *store)? else { return failed("nobody has taken this lease yet".into()) };
    if record.owner != owner {
        return failed(format!("its owner is {}", record.owner));
    }
    if record.is_released && !accepts_loss {
        return failed("it is released already".into());
    }
    if record.lease_ns == u64::MAX {
        return failed(format!("{owner} is no process: put another owner into the table"));
    }
    // A heartbeat is at most half of the duration.
    let half = Duration::from_nanos(record.lease_ns / 2);
    if !at_once {
        eprintln!("waiting {} for a renewal", words(half));
        if let Some(Change { after, is_gone }) = renewal(&mut *store, &record, half.saturating_add(LOOK_EVERY))? {
            if is_gone {
                return failed("the lease is over: released meanwhile, or deleted by its store".into());
            }
            let words = words(after);
            return failed(format!("{owner} is not gone, the lease changed after {words}: use elastick failover"));
        }
    }
    let (from, copies) = (record.version.clone(), accepts_loss.then(Copies::any));
    let write = match copies {
        Some(copies) if record.is_released => LeaseWrite::Name { from, copies },
        copies => LeaseWrite::Release { from, successor: None, copies },
    };
    if store.write(&write, CALL_WITHIN).map_err(CliError::failed)? == Written::Refused {
        return failed("the lease has changed meanwhile: nothing is released".into());
    }
    let who = match record.copies.is_common() || accepts_loss {
        true => "a passive tickerplant takes it now".to_string(),
        false => format!("the tickerplant of a complete copy takes it now: {}", record.copies),
    };
    Ok(writeln!(std::io::stdout(), "released: {who}")?)
}

/// A record is not any more what it was.
struct Change {
    after: Duration,
    /// It is released, as a record also counts that its store has deleted because nobody has renewed it.
    is_gone: bool,
}

/// Returns when the record was another one than this, for at most `within`.
fn renewal(store: &mut dyn Store, record: &LeaseRecord, within: Duration) -> Result<Option<Change>, CliError> {
    let began = Instant::now();
    while began.elapsed() < within {
        std::thread::sleep(LOOK_EVERY);
        let now = read(store)?;
        if now.as_ref() != Some(record) {
            let is_gone = now.is_none_or(|now| now.is_released && now.version == record.version);
            return Ok(Some(Change { after: began.elapsed(), is_gone }));
        }
    }
    Ok(None)
}

fn read(store: &mut dyn Store) -> Result<Option<LeaseRecord>, CliError> {
    store.read(CALL_WITHIN).map_err(CliError::failed)
}

fn words(time: Duration) -> String {
    span(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX))
}
