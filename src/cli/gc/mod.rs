//! `elastick gc`: finds nodes that are gone although their connections have not ended, and gives them up.

mod finding;
mod instances;

use super::{CliError, command_for, json, logging, owner_store, settings_of, tls};
use crate::config::{Program, login, options, units};
use crate::election::owner::OwnerStore;
use crate::lease::owner::{Liveness, Observer};
use crate::monitor::text::{span, table, thousands};
use crate::net::Client;
use crate::net::client::ClientError;
use crate::protocol::owners::{self, OwnerRow};
use crate::protocol::{Standing, TickState, names};
use clap::{Arg, ArgAction, ArgMatches, Command};
use finding::{Due, Finding, State};
use instances::Instances;
use proto::{Limits, Value};
use std::io::Write;
use std::time::{Duration, Instant};

/// Time for the tickerplant to answer.
const ANSWER_WITHIN: Duration = Duration::from_secs(3);
/// Time for a call of the store.
const CALL_WITHIN: Duration = Duration::from_secs(5);
/// Interval between looks at leases whose records do not say whether they are over.
const LOOK_EVERY: Duration = Duration::from_millis(200);
/// Time between the first look at a node and its eviction: a tickerplant that has just gone on after a pause has heard nobody yet, and a node
/// sends its status every second.
const CONFIRM_AFTER: Duration = Duration::from_millis(2500);

pub fn command() -> Command {
    let forget = Arg::new("forget").long("forget").value_name("QUEUE").action(ArgAction::Append).help(
        "Remove this queue, of a cluster that was torn down, with the updates that nobody serves; only while no node is in it. \
         May be given several times",
    );
    let instances = Arg::new("instances")
        .long("instances")
        .value_name("TIME")
        .num_args(0..=1)
        .require_equals(true)
        .default_missing_value("5m")
        .value_parser(units::duration)
        .help(
            "Also end instances in service of the nodes' Auto Scaling groups on which no node has lived for TIME (5m without it), which has to be longer than an instance takes from service to a node; the group launches others. \
             Needs the permissions autoscaling:DescribeAutoScalingGroups and autoscaling:TerminateInstanceInAutoScalingGroup",
        );
    command_for(Program::Gc)
        .about(
            "Give up nodes that are gone although their connections have not ended: hosts that hang, links that are half open. Other nodes rebuild \
             their windows",
        )
        .args([forget, instances])
        .after_help(
            "Examples:\n  elastick gc tick:5010 --owner-lease 'swift://swift.example.com/leases?user=tick&key-file=key' \
             --dry-run\n  elastick gc tick:5010 --owner-lease 'dynamodb://elastick-leases/owners?region=eu-west-1'\n  elastick gc :5010 \
             --owner-lease file:/var/lib/elastick/owners --forget old-rdb\n  elastick gc :5010 --owner-lease file:/var/lib/elastick/owners \
             --instances=2m\n\nA node is given up only if its lease \
             is over in the store AND the tickerplant has not heard from it for 5 s: a store that \
             is away, or that has lost its leases, costs no node. Needs the role operator (--login-file). The command may \
             be ended and repeated at any time. The exit code is 0 if nothing is left to do, and 1 if something could not be decided or done.",
        )
}

/// The tickerplant and the store.
struct Gc {
    client: Client,
    store: Box<dyn OwnerStore>,
    /// Time for which a look at a lease counts.
    validity: Duration,
    began: Instant,
    /// Only if they are to be looked at.
    instances: Option<Box<dyn Instances>>,
}

pub fn run(matches: &ArgMatches) -> Result<(), CliError> {
    let settings = settings_of(Program::Gc, matches)?;
    logging::start(&settings)?;
    let addresses = login::tickerplant(&settings)?;
    tls::start(&settings, addresses.has_tls())?;
    let Some(url) = settings.find(&options::OWNER_LEASE)? else {
        return Err(CliError::Usage("--owner-lease: the store in which the nodes keep their leases".into()));
    };
    let (is_json, is_dry) = (settings.is_on(&options::JSON)?, settings.is_on(&options::DRY_RUN)?);
    let forget: Vec<String> = matches.get_many::<String>("forget").into_iter().flatten().cloned().collect();
    let client = active(&addresses)?;
    let store = owner_store::open(&url, "")?;
    let empty_for = matches.get_one::<Duration>("instances").copied();
    let instances = empty_for.map(|_| instances::open()).transpose()?;
    let mut gc = Gc { client, store, validity: url.validity, began: Instant::now(), instances };
    let vacant = empty_for.map(|empty_for| instances::find(&mut gc, empty_for)).transpose()?;
    let mut findings: Vec<Finding> = gc.rows()?.into_iter().map(|row| Finding::of(row, &forget)).collect();
    gc.decide(&mut findings);
    findings.extend(vacant.into_iter().flatten());
    finding::sort(&mut findings);
    if !is_dry {
        findings.iter_mut().for_each(|finding| gc.collect(finding));
    }
    match is_json {
        true => json::print(&mut std::io::stdout(), &findings.iter().map(Finding::shown).collect::<Vec<_>>())?,
        false => show(&findings, is_dry)?,
    }
    let open = findings.iter().filter(|finding| finding.is_failure()).count();
    match open {
        0 => Ok(()),
        count => {
            Err(CliError::Failed(format!("{count} of {} could not be decided or done: see the table", findings.len())))
        }
    }
}

/// Connects to the active tickerplant of the list.
fn active(addresses: &crate::config::Addresses) -> Result<Client, CliError> {
    let mut reasons = Vec::new();
    for address in addresses.iter() {
        let asked = Client::connect_directly(address, ANSWER_WITHIN, Limits::default()).and_then(|mut client| {
            let answer = client.request(&Value::list([Value::symbol(names::STATE), Value::NULL]))?;
            Ok((client, TickState::read(&answer)))
        });
        match asked {
            Ok((client, Some(state))) if state.role == Standing::Active => return Ok(client),
            Ok((_, Some(_))) => reasons.push(format!("{address} is passive")),
            Ok((_, None)) => reasons.push(format!("{address} is no tickerplant of elastick")),
            Err(error) => reasons.push(format!("{address}: {error}")),
        }
    }
    Err(CliError::Failed(format!("no active tickerplant: {}", reasons.join("; "))))
}

impl Gc {
    fn rows(&mut self) -> Result<Vec<OwnerRow>, CliError> {
        let answer = self.client.request(&Value::list([Value::symbol(names::OWNERS), Value::NULL]));
        owners::read(&answer.map_err(CliError::failed)?)
            .ok_or_else(|| CliError::Failed("the answer is not the table of .u.asg.owners[]".into()))
    }

    /// Looks at the leases of silent nodes, until each is there or gone.
    fn decide(&mut self, findings: &mut [Finding]) {
        let mut open: Vec<(&mut Finding, Observer)> = findings
            .iter_mut()
            .filter(|of| matches!(of.state, State::Suspect))
            .map(|of| (of, Observer::default()))
            .collect();
        while !open.is_empty() {
            let mut away: Option<String> = None;
            for (finding, observer) in &mut open {
                match &away {
                    // Each of many nodes would cost the whole time of a call.
                    Some(why) => finding.state = State::Unknown(why.clone()),
                    None => self.look(finding, observer),
                }
                if let State::Unknown(why) = &finding.state {
                    away = Some(why.clone());
                }
            }
            open.retain(|(finding, _)| matches!(finding.state, State::Suspect));
            if !open.is_empty() {
                std::thread::sleep(LOOK_EVERY);
            }
        }
    }

    fn look(&mut self, finding: &mut Finding, observer: &mut Observer) {
        let owner = finding.owner();
        match self.store.look(&owner, CALL_WITHIN) {
            // A store that is away says nothing about owners.
            Err(error) => finding.state = State::Unknown(error.to_string()),
            Ok(stored) => {
                let now_ns = u64::try_from(self.began.elapsed().as_nanos()).unwrap_or(u64::MAX);
                match observer.look(stored, now_ns) {
                    Liveness::Alive => finding.state = State::Leased,
                    Liveness::Gone => finding.state = State::Gone { seen: Instant::now(), observer: observer.clone() },
                    Liveness::Unknown { .. } => {}
                }
            }
        }
    }

    /// Does what is due. Every step checks again, and repeating it changes nothing.
    fn collect(&mut self, finding: &mut Finding) {
        let done = match finding.due() {
            Due::Nothing => return,
            Due::Forget => self.call(&[names::FORGET, &finding.queue()]),
            Due::Replace => match self.replace(&finding.node()) {
                Ok(true) => Ok(()),
                Ok(false) => return finding.state = State::Heard,
                Err(error) => Err(error),
            },
            Due::Evict => match self.confirm(finding) {
                Ok(true) => self.call(&[names::EVICT, &finding.node(), &finding.process()]),
                Ok(false) => return,
                Err(error) => Err(error),
            },
        };
        match done {
            Ok(()) => {
                if finding.due() == Due::Evict
                    && let Err(error) = self.store.release(&finding.owner(), CALL_WITHIN)
                {
                    tracing::info!(%error, "what is left of the lease stays in the store");
                }
                finding.done();
            }
            Err(error) => finding.state = State::Failed(error.to_string()),
        }
    }

    /// Ends an instance, unless a node lives there by now.
    fn replace(&mut self, instance: &str) -> Result<bool, CliError> {
        let is_vacant = instances::is_vacant(&self.rows()?, instance);
        if let Some(instances) = self.instances.as_mut().filter(|_| is_vacant) {
            instances.replace(instance)?;
        }
        Ok(is_vacant)
    }

    /// Whether a node is still to be evicted: it is the same process, still silent, and a look at its lease is not older than the validity window.
    fn confirm(&mut self, finding: &mut Finding) -> Result<bool, CliError> {
        std::thread::sleep(CONFIRM_AFTER.saturating_sub(self.began.elapsed()));
        if let State::Gone { seen, observer } = &finding.state
            && seen.elapsed() >= self.validity
        {
            let mut observer = observer.clone();
            finding.state = State::Suspect;
            self.look(finding, &mut observer);
            if finding.due() != Due::Evict {
                return Ok(false);
            }
        }
        let rows = self.rows()?;
        match rows.into_iter().find(|row| row.node == finding.row.node && row.process == finding.row.process) {
            Some(row) if finding::is_silent(&row) => {
                finding.row = row;
                Ok(true)
            }
            Some(_) => {
                finding.state = State::Heard;
                Ok(false)
            }
            None => {
                finding.state = State::Left;
                Ok(false)
            }
        }
    }

    fn call(&mut self, words: &[&str]) -> Result<(), CliError> {
        let answer: Result<Value, ClientError> = self.client.request(&Value::list(words.iter().map(Value::symbol)));
        answer.map(drop).map_err(CliError::failed)
    }
}

fn show(findings: &[Finding], is_dry: bool) -> Result<(), CliError> {
    let row = |finding: &Finding| {
        let silent = finding.row.silent_ns.and_then(|ns| u64::try_from(ns).ok()).map(span).unwrap_or_default();
        let updates = thousands(finding.row.updates);
        let state = String::from_utf8_lossy(&finding.row.state).into_owned();
        vec![finding.node(), finding.queue(), state, silent, updates, finding.lease(), finding.action(is_dry)]
    };
    let rows: Vec<Vec<String>> = findings.iter().map(row).collect();
    let mut out = std::io::stdout().lock();
    for line in table(&["node", "queue", "state", "silent", "updates", "lease", "action"], &rows) {
        writeln!(out, "{line}")?;
    }
    Ok(())
}
