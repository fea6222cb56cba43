//! `elastick rdb`: one node of the elastic real-time database.

use super::fleet::choose::choose;
use super::fleet::publish::Publishing;
use super::{CliError, command_for, logging, owner_store, settings_of, startup, tls};
use crate::config::OwnerUrl;
use crate::config::Program;
use crate::config::options;
use crate::election::owner::{Keeper, StallDetector};
use crate::env::Env;
use crate::env::task::Every;
use crate::fleet::Fleet;
use crate::fleet::absent::NoFleet;
use crate::net::{Notifier, Watchdog, call_stack};
use crate::rdb::node;
use crate::rdb::options::{LEAVE_WITHIN, NodeOptions, OptionsError};
use crate::rdb::shared::Ending;
use clap::{ArgMatches, Command};
use std::io::Write;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Queue of a node outside of a group.
const QUEUE: &str = "rdb";

pub fn command() -> Command {
    command_for(Program::Rdb)
        .about(
            "One node of the elastic real-time database: waits in its queue, receives updates until it is full, \
             serves q queries",
        )
        .arg(startup::argument(2))
        .after_help(format!(
            "Examples:\n  elastick rdb :5010 --memory 4GiB --scale 60% --roll-threshold 80%\n  elastick rdb :5010 \
             analytics.q handlers.q -s 4    with your own functions and handlers\n  elastick rdb tickerplant:5010 \
             --fleet aws    on an instance of an Auto Scaling group, with the thresholds of its tags\n\n{}\n\nAny \
             kdb+ client can query the printed port: select from trade, .rdb.windows, .rdb.stats. Clients cannot \
             write to tables that the tickerplant feeds ('noupdate).",
            startup::HELP
        ))
}

pub fn run(matches: &ArgMatches) -> Result<(), CliError> {
    let mut settings = settings_of(Program::Rdb, matches)?;
    logging::start(&settings)?;
    let mut chosen = choose(&settings)?;
    chosen.supply(&mut settings)?;
    let publishing = Publishing::of(&settings, &chosen)?;
    let door = tls::start(&settings, settings.get(&options::TICKERPLANT)?.has_tls())?;
    let mut options = NodeOptions::resolve(&settings).map_err(|error| match error {
        OptionsError::Config(error) => CliError::Config(error),
        OptionsError::Thresholds(error) => CliError::Usage(error.to_string()),
        OptionsError::Secret(error) => CliError::failed(error),
    })?;
    let mut fleet = match chosen.fleet() {
        Some(fleet) => {
            options.leave_within.get_or_insert(LEAVE_WITHIN);
            fleet
        }
        None => {
            options.queue.get_or_insert_with(|| QUEUE.to_string());
            Box::new(NoFleet::new(options.node.as_deref().unwrap_or("this node")))
        }
    };
    let tickerplant = options.tickerplant.to_string();
    let notifier = Notifier::from_environment();
    options.audit = startup::audit_options(&settings)?;
    let owner_lease = settings.find(&options::OWNER_LEASE)?;
    options.has_owner_lease = owner_lease.is_some();
    options.load.extend(startup::files(matches));
    options.commands = startup::commands(&settings)?;
    let is_quiet = settings.is_on(&options::QUIET)?;
    call_stack::serve();
    let program = startup::loaded(node::Evaluated::load(&options, startup::print))?;
    await_service(fleet.as_mut(), &notifier);
    let mut node = node::prepare(Env::system(), options, fleet, program, &notifier).map_err(CliError::failed)?;
    if let Some(door) = door {
        node.set_tls(door).map_err(CliError::failed)?;
    }
    let identity = node.identity().clone();
    let _keeper = owner_lease.map(|url| keep(&url, &node)).transpose()?;
    let ready = move || {
        notifier.ready(&format!("listening on {}", identity.port));
        if is_quiet {
            return;
        }
        let mut out = std::io::stdout();
        let line = format!("{} of queue {}, tickerplant {tickerplant}", identity.node, identity.queue);
        // A closed standard output must not stop the node.
        let _ = writeln!(out, "{line}, listening on {}", identity.port).and_then(|()| out.flush());
    };
    let _published = publishing.start(node.tap())?;
    match node.run(ready).map_err(CliError::failed)? {
        Ending::Requested => Ok(()),
        Ending::Left => {
            writeln!(std::io::stdout(), "left the queue")?;
            Ok(())
        }
        Ending::Terminated => {
            writeln!(std::io::stdout(), "the day is over; terminated")?;
            Ok(())
        }
        Ending::Failed(reason) => Err(CliError::Failed(reason)),
    }
}

/// Starts to keep this process's lease, which ends when the result is dropped.
fn keep(url: &OwnerUrl, node: &node::Node) -> Result<(Keeper, Every), CliError> {
    let (windows, env, identity) = (owner_store::windows(url), Env::system(), node.identity());
    let store = owner_store::open(url, &format!("{} of {}", identity.node, identity.queue))?;
    let detector = Arc::new(StallDetector::new(Arc::clone(&env.clock), Duration::from_nanos(windows.usable_ns())));
    let beats = detector.start(&*env.spawner).map_err(CliError::failed)?;
    node.set_stall_detector(detector);
    let keeper = Keeper::start(store, identity.process.clone(), windows, env.clock).map_err(CliError::failed)?;
    node.set_lease(keeper.watch());
    Ok((keeper, beats))
}

/// Waits while this node is in a warm pool: it must not join the queue before it is taken into service.
fn await_service(fleet: &mut dyn Fleet, notifier: &Notifier) {
    const STATUS: &str = "in the fleet's warm pool";
    let mut watchdog: Option<Watchdog> = None;
    loop {
        match fleet.is_aside() {
            Ok(true) => {}
            Ok(false) => return,
            // Joining too early is better than never.
            Err(error) => return tracing::warn!(%error, "cannot find out whether this node is in a warm pool"),
        }
        let now = Instant::now();
        let watchdog = watchdog.get_or_insert_with(|| {
            tracing::info!("this node is in its fleet's warm pool and waits");
            notifier.ready(STATUS);
            Watchdog::new(notifier.clone(), now)
        });
        if watchdog.due().is_some_and(|due| due <= now) {
            watchdog.beat(now, Some(STATUS.to_string()));
        }
        std::thread::sleep(fleet.notice_every());
    }
}
