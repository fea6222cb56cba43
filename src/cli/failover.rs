//! `elastick failover`: hands the active role over to a passive tickerplant, and shows which one is active.

use super::{CliError, command_for, json, logging, settings_of, tls};
use crate::config::{Address, Program, Settings, login, options};
use crate::monitor::text::{span, table, thousands};
use crate::net::Client;
use crate::net::client::ClientError;
use crate::protocol::{Standing, TickState, names};
use clap::{ArgMatches, Command};
use proto::{Limits, Value};
use serde::Serialize;
use std::io::Write;
use std::time::{Duration, Instant};

/// Time for one tickerplant to answer.
const ANSWER_WITHIN: Duration = Duration::from_secs(3);
/// Time for another one to be active.
const WITHIN: Duration = Duration::from_secs(60);
/// Time for the former one to be passive, so that the next hand-over has a successor.
const PASSIVE_WITHIN: Duration = Duration::from_secs(10);
/// Interval between looks at them meanwhile.
const LOOK_EVERY: Duration = Duration::from_millis(20);

pub fn command() -> Command {
    command_for(Program::Failover)
        .about("Hand the active role over to a passive tickerplant, for maintenance or as a drill")
        .after_help(
            "Examples:\n  elastick failover tick1:5010,tick2:5010 --dry-run     shows who is active, and who would take over\n  elastick \
             failover tick1:5010,tick2:5010               the active one closes its log and is passive afterwards\n  elastick failover \
             tick1:5010,tick2:5010 --to tick2:5010\n\nNeeds the role operator on the active one (--login-file). The exit code is 0 once another \
             tickerplant is active, and 1 if none is after 60 s, if there is nobody to take over, or if two are active.",
        )
}

/// One address, and what its tickerplant says of itself, or why it does not.
struct Member {
    address: Address,
    state: Result<TickState, String>,
}

/// What was done, for programs.
#[derive(Serialize)]
struct Summary<'a> {
    from: &'a str,
    to: &'a str,
    epoch: Option<u64>,
    seconds: f64,
}

/// What would be done, for programs.
#[derive(Serialize)]
struct Planned<'a> {
    from: &'a str,
    to: &'a str,
}

impl Member {
    fn ask(address: &Address) -> Member {
        let state = state(address).map_err(|error| error.to_string());
        Member { address: address.clone(), state }
    }

    fn is(&self, role: Standing) -> bool {
        self.state.as_ref().is_ok_and(|state| state.role == role)
    }

    fn epoch(&self) -> Option<u64> {
        self.state.as_ref().ok()?.epoch
    }

    /// Name in the store of the lease; empty without one.
    fn name(&self) -> &str {
        self.state.as_ref().map_or("", |state| &state.record.name)
    }

    /// Why an active one has given its last hand-over up.
    fn gave_up(&self) -> Option<&str> {
        let state = self.state.as_ref().ok().filter(|state| state.role == Standing::Active)?;
        Some(state.note.as_str()).filter(|note| !note.is_empty())
    }

    /// Why it should not take over.
    fn trouble(&self) -> Option<&str> {
        match &self.state {
            Ok(state) => Some(state.record.trouble.as_str()).filter(|trouble| !trouble.is_empty()),
            Err(error) => Some(error),
        }
    }

    fn row(&self) -> Vec<String> {
        let number = |number: Option<u64>| number.map(thousands).unwrap_or_default();
        let (role, epoch, tip) = match &self.state {
            Ok(state) => (state.role.name(), number(state.epoch), number(state.tip)),
            Err(_) => ("", String::new(), String::new()),
        };
        let note = self.state.as_ref().map(|state| state.note.as_str()).unwrap_or_default();
        vec![self.address.to_string(), role.to_string(), epoch, tip, self.trouble().unwrap_or(note).to_string()]
    }
}

/// Asks the process at an address itself for its state, also if it hands other connections through.
fn state(address: &Address) -> Result<TickState, ClientError> {
    let mut client = Client::connect_directly(address, ANSWER_WITHIN, Limits::default())?;
    let answer = client.request(&Value::list([Value::symbol(names::STATE), Value::NULL]))?;
    TickState::read(&answer)
        .ok_or_else(|| ClientError::Server(b"type: the answer is not the state of a tickerplant".to_vec()))
}

pub fn run(matches: &ArgMatches) -> Result<(), CliError> {
    let settings = settings_of(Program::Failover, matches)?;
    logging::start(&settings)?;
    let addresses = login::tickerplant(&settings)?;
    tls::start(&settings, addresses.has_tls())?;
    let members: Vec<Member> = addresses.iter().map(Member::ask).collect();
    let is_json = settings.is_on(&options::JSON)?;
    if !is_json {
        show(&members)?;
    }
    let (active, successor) = chosen(&members, &settings)?;
    let (from, to) = (active.address.to_string(), successor.address.to_string());
    if settings.is_on(&options::DRY_RUN)? {
        if is_json {
            return Ok(json::print(&mut std::io::stdout(), &Planned { from: &from, to: &to })?);
        }
        return say(is_json, &format!("{from} is active, and would hand over to {to}"));
    }
    say(is_json, &format!("handing over from {from} to {to}"))?;
    let began = Instant::now();
    request(active, successor)?;
    let now = await_another(&members, active)?;
    let took = began.elapsed();
    let to = now.address.to_string();
    let former = await_passive(&active.address);
    let tip_of = |member: &Member| member.state.as_ref().ok().and_then(|state| state.tip);
    if let (Some(before), Some(after)) = (tip_of(active), tip_of(&now))
        && after < before
    {
        let (before, after) = (thousands(before), thousands(after));
        return Err(CliError::Failed(format!(
            "{to} is active with {after} updates in its log, and {from} had {before}: unless a day has ended meanwhile, updates are missing. Keep the \
             directory of {from}"
        )));
    }
    if is_json {
        let summary = Summary { from: &from, to: &to, epoch: now.epoch(), seconds: took.as_secs_f64() };
        return Ok(json::print(&mut std::io::stdout(), &summary)?);
    }
    let tip = now.state.as_ref().ok().and_then(|state| state.tip);
    let epoch = now.epoch().map_or_else(|| "?".to_string(), |epoch| epoch.to_string());
    let held = tip.map(|tip| format!(", {} updates in its log", thousands(tip))).unwrap_or_default();
    say(is_json, &format!("{to} is active after {}: epoch {epoch}{held}", span(nanoseconds(took))))?;
    match former {
        Ok(()) => Ok(()),
        Err(why) => say(is_json, &format!("{from} is not passive yet, and could not take over: {why}")),
    }
}

/// Waits until the former active one is passive; otherwise returns what it said last.
fn await_passive(address: &Address) -> Result<(), String> {
    let began = Instant::now();
    loop {
        let former = Member::ask(address);
        match former.state {
            Ok(state) if state.role == Standing::Passive => return Ok(()),
            state if began.elapsed() >= PASSIVE_WITHIN => {
                return Err(state.err().unwrap_or_else(|| "it is active".into()));
            }
            _ => std::thread::sleep(LOOK_EVERY),
        }
    }
}

fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

fn say(is_json: bool, text: &str) -> Result<(), CliError> {
    if !is_json {
        writeln!(std::io::stdout(), "{text}")?;
    }
    Ok(())
}

fn show(members: &[Member]) -> Result<(), CliError> {
    let rows: Vec<Vec<String>> = members.iter().map(Member::row).collect();
    let mut out = std::io::stdout().lock();
    for line in table(&["tickerplant", "role", "epoch", "updates", "note"], &rows) {
        writeln!(out, "{line}")?;
    }
    writeln!(out)?;
    Ok(())
}

/// Returns the active tickerplant and the one that is to take over.
fn chosen<'a>(members: &'a [Member], settings: &Settings) -> Result<(&'a Member, &'a Member), CliError> {
    let failed = |text: String| Err(CliError::Failed(text));
    let active: Vec<&Member> = members.iter().filter(|member| member.is(Standing::Active)).collect();
    let active = match active.as_slice() {
        [active] => *active,
        [] => return failed("none of the tickerplants is active".to_string()),
        [one, another, ..] => {
            let (one, another) = (&one.address, &another.address);
            return failed(format!("{one} and {another} are both active: they do not share one lease and log"));
        }
    };
    let asked = settings.find(&options::SUCCESSOR)?;
    let successor = match &asked {
        Some(asked) => {
            let is_asked = |member: &&Member| (&member.address.host, member.address.port) == (&asked.host, asked.port);
            let Some(member) = members.iter().find(is_asked) else {
                return Err(CliError::Usage(format!("--to {asked}: not one of the tickerplants of the list")));
            };
            if member.name().is_empty() && members.iter().filter(|member| member.is(Standing::Passive)).count() > 1 {
                let why = "without a lease in a store the first that gets the lock of the log takes over";
                return failed(format!("--to {asked}: {why}"));
            }
            member
        }
        None => {
            let passive = members.iter().find(|member| member.is(Standing::Passive) && member.trouble().is_none());
            let Some(passive) = passive else {
                return failed("no passive tickerplant of the list can take over".to_string());
            };
            passive
        }
    };
    let of = &successor.address;
    match successor.trouble() {
        _ if successor.is(Standing::Active) => failed(format!("{of} is active already")),
        Some(trouble) => failed(format!("{of} cannot take over: {trouble}")),
        None => Ok((active, successor)),
    }
}

/// Lets the active one step down.
fn request(active: &Member, successor: &Member) -> Result<(), CliError> {
    let failed = |error: ClientError| CliError::Failed(format!("{}: {error}", active.address));
    let mut client = Client::connect_directly(&active.address, ANSWER_WITHIN, Limits::default()).map_err(failed)?;
    let name = match successor.name() {
        "" => Value::NULL,
        name => Value::chars(name),
    };
    client.request(&Value::list([Value::symbol(names::FAIL_OVER), name])).map_err(failed)?;
    Ok(())
}

/// Waits until another one than `before` is active. Which one that is, the lease decides.
fn await_another(members: &[Member], before: &Member) -> Result<Member, CliError> {
    let began = Instant::now();
    while began.elapsed() < WITHIN {
        for member in members {
            let now = Member::ask(&member.address);
            if let Some(why) = now.gave_up().filter(|_| now.address == before.address) {
                return Err(CliError::Failed(format!("{}: {why}", now.address)));
            }
            if now.is(Standing::Active) && now.epoch() > before.epoch() {
                if now.address == before.address {
                    let why = "no other tickerplant took the log in time, and this one is active again: see their logs";
                    return Err(CliError::Failed(format!("{}: {why}", now.address)));
                }
                return Ok(now);
            }
        }
        std::thread::sleep(LOOK_EVERY);
    }
    Err(CliError::Failed(format!("no tickerplant of the list is active after {WITHIN:?}")))
}
