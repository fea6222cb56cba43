//! `elastick feed`: publishes a simulated market, or a recorded log, to a tickerplant.

use super::{CliError, command_for, json, logging, settings_of, tls};
use crate::config::{Limits, Program, Settings, login, options};
use crate::env::Env;
use crate::feed::curve::Curve;
use crate::feed::ledger::FeedTotals;
use crate::feed::market::{Market, MarketOptions};
use crate::feed::pace::Pace;
use crate::feed::publisher::{Publisher, PublisherOptions};
use crate::feed::replay::{Replay, ReplayClock};
use crate::feed::run::{self, Progress, Source};
use crate::feed::shape::Shape;
use crate::log::Proof;
use crate::monitor::text;
use clap::{ArgMatches, Command};
use serde::{Deserialize, Serialize};
use std::io::{IsTerminal, Write};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

/// How long to retry the connection to the tickerplant.
const CONNECT_WITHIN: Duration = Duration::from_secs(60);

pub fn command() -> Command {
    command_for(Program::Feed)
        .about("Publish a simulated market or replay a tickerplant log, and count the accepted updates")
        .after_help(
            "Updates are sent as async messages; a sync call after every --confirm of them returns once they are in the \
             log, as durable as the tickerplant promises, and reports how many were rejected. When the connection \
             breaks, unconfirmed updates are looked up in the tickerplant's log and only the missing ones are sent \
             again. If the log cannot be read from this host, the feed stops and reports how many are in doubt; it \
             never sends an update twice. The exit code is 1 if an update was rejected or could not be confirmed.",
        )
}

pub fn run(matches: &ArgMatches) -> Result<(), CliError> {
    let settings = settings_of(Program::Feed, matches)?;
    logging::start(&settings)?;
    tls::start(&settings, settings.get(&options::TICKERPLANT)?.has_tls())?;
    let limits = Limits::resolve(&settings)?;
    let codec = proto::Limits { max_message_bytes: limits.message_bytes, ..proto::Limits::default() };
    let chunk_bytes = usize::try_from(limits.log_read_chunk_bytes).unwrap_or(usize::MAX);
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
        signal_hook::flag::register_conditional_shutdown(signal, 1, Arc::clone(&stop)).map_err(CliError::failed)?;
        signal_hook::flag::register(signal, Arc::clone(&stop)).map_err(CliError::failed)?;
    }
    let confirm_every = settings.get(&options::CONFIRM)?.max(1);
    let env = Env::system();
    let mut publisher = Publisher::connect(PublisherOptions {
        env: env.clone(),
        addresses: login::tickerplant(&settings)?,
        sync: settings.is_on(&options::SYNC)?,
        confirm_every: usize::try_from(confirm_every).unwrap_or(usize::MAX),
        connect_within: CONNECT_WITHIN,
        stop: Arc::clone(&stop),
        limits: codec,
        chunk_bytes,
    })
    .map_err(CliError::failed)?;
    let mut source = match settings.find(&options::REPLAY)? {
        Some(path) => Source::Replay {
            replay: Box::new(Replay::open(&env, &path, codec, chunk_bytes).map_err(CliError::failed)?),
            clock: ReplayClock::new(settings.get(&options::SPEED)?),
        },
        None => market(&settings, &mut publisher)?,
    };
    let limit = settings.find(&options::FEED_UPDATES)?.unwrap_or(u64::MAX);
    let began = Instant::now();
    let mut line = ProgressLine::new();
    let outcome = run::run(&mut source, &mut publisher, limit, &stop, |progress, account| line.show(progress, account));
    line.end();
    summary(&settings, &publisher, &source, began.elapsed())?;
    outcome.map_err(CliError::failed)?;
    let account = publisher.account();
    match (account.refused, account.unknown) {
        (0, 0) if account.lost_most > 0 => {
            let lost = account.lost_most;
            Err(CliError::Failed(format!(
                "up to {lost} confirmed updates are not in the log of the tickerplant that took over"
            )))
        }
        (0, 0) => Ok(()),
        (0, count) => {
            Err(CliError::Failed(format!("{count} updates could not be confirmed: they may be in the log or not")))
        }
        (count, _) => {
            let why = account.reasons.first().map(String::as_str).unwrap_or_default();
            Err(CliError::Failed(format!("the tickerplant rejected {count} updates, the first with '{why}")))
        }
    }
}

/// Returns the market given by the options, over the tables of the tickerplant.
fn market(settings: &Settings, publisher: &mut Publisher) -> Result<Source, CliError> {
    let selected = settings.get(&options::TABLES)?;
    let size = |count: u64| usize::try_from(count).unwrap_or(usize::MAX);
    let shapes = shapes(publisher, &selected)?;
    let (date, time_ns) = now();
    let options = MarketOptions {
        seed: settings.get(&options::SEED)?,
        symbols: size(settings.get(&options::UNIVERSE)?).clamp(1, 1_000_000),
        skew: settings.get(&options::SKEW)?,
        rows: size(settings.get(&options::ROWS)?).clamp(1, 100_000),
        quotes_per_trade: u32::try_from(settings.get(&options::QUOTES)?).unwrap_or(u32::MAX).min(1000),
        date,
    };
    let rate = settings.get(&options::FEED_RATE)?;
    let pace = match settings.find(&options::FEED_MINUTES)? {
        Some(minutes) => Pace::Day {
            curve: Curve::market_day(),
            updates: (rate * minutes * 60.0) as u64,
            length_ns: (minutes * 60e9) as u64,
        },
        None => Pace::Rate { per_second: rate, start_ns: time_ns },
    };
    Ok(Source::Market { market: Market::new(options, shapes), pace })
}

/// Returns the tickerplant's tables that the feed can generate; a requested table that it cannot generate is an error.
fn shapes(publisher: &mut Publisher, selected: &[String]) -> Result<Vec<Shape>, CliError> {
    let answer = publisher.query(".u.t").map_err(CliError::failed)?;
    let names = answer.as_symbols().map(<[_]>::to_vec).unwrap_or_default();
    let names: Vec<String> = names.iter().map(|name| String::from_utf8_lossy(name).into_owned()).collect();
    if let Some(unknown) = selected.iter().find(|table| !names.contains(table)) {
        return Err(CliError::Failed(format!("the tickerplant has no table {unknown}; it has {}", names.join(", "))));
    }
    let mut shapes = Vec::new();
    for name in names.iter().filter(|name| selected.is_empty() || selected.contains(name)) {
        let empty = publisher.query(&format!("0#{name}")).map_err(CliError::failed)?;
        match Shape::of(name, &empty) {
            Ok(shape) => shapes.push(shape),
            Err(reason) if selected.contains(name) => return Err(CliError::Failed(reason)),
            Err(reason) => tracing::info!(%reason, "table is not fed"),
        }
    }
    match shapes.is_empty() {
        true => Err(CliError::Failed("the tickerplant has no table that can be fed".to_string())),
        false => Ok(shapes),
    }
}

/// Today in days since 2000.01.01, and the time of day in nanoseconds.
fn now() -> (i32, u64) {
    let now = jiff::Zoned::now();
    let days = now.date().since(jiff::civil::date(2000, 1, 1)).map_or(0, |span| span.get_days());
    let midnight = now.start_of_day().map_or_else(|_| now.timestamp(), |day| day.timestamp());
    let since = now.timestamp().as_nanosecond().saturating_sub(midnight.as_nanosecond());
    (days, u64::try_from(since).unwrap_or(0))
}

/// Progress line on a terminal's standard error, redrawn every quarter of a second.
struct ProgressLine {
    terminal: bool,
    shown: Option<Instant>,
    last: (Duration, u64),
}

impl ProgressLine {
    fn new() -> ProgressLine {
        ProgressLine { terminal: std::io::stderr().is_terminal(), shown: None, last: (Duration::ZERO, 0) }
    }

    fn show(&mut self, progress: Progress, account: &FeedTotals) {
        if !self.terminal || self.shown.is_some_and(|shown| shown.elapsed() < Duration::from_millis(250)) {
            return;
        }
        self.shown = Some(Instant::now());
        let (then, before) = std::mem::replace(&mut self.last, (progress.elapsed, progress.updates));
        let seconds = progress.elapsed.saturating_sub(then).as_secs_f64().max(1e-9);
        let rate = progress.updates.saturating_sub(before) as f64 / seconds;
        let day = progress.day_ns.map_or(String::new(), |ns| format!("{}  ", text::clock(ns)));
        let of = progress.total.map_or(String::new(), |total| format!(" of {}", text::thousands(total)));
        let rejected = match account.refused {
            0 => String::new(),
            count => format!(", {} rejected", text::thousands(count)),
        };
        let line = format!(
            "{day}{}{of} updates sent, {} accepted{rejected}, {} updates/s",
            text::thousands(progress.updates),
            text::thousands(account.accepted.total().updates),
            text::thousands(rate as u64)
        );
        // A closed terminal needs no progress line.
        let _ = write!(std::io::stderr(), "\r\x1b[K{line}");
    }

    fn end(&self) {
        if self.shown.is_some() {
            let _ = writeln!(std::io::stderr());
        }
    }
}

/// What a feed has sent, as `--json` prints it at its end.
#[derive(Serialize, Deserialize)]
pub struct Summary {
    /// Updates that the tickerplant has confirmed, and their number.
    pub tables: Proof,
    sent: u64,
    updates: u64,
    rows: u64,
    bytes: u64,
    seconds: f64,
    tip: u64,
    unconfirmed: u64,
    refused: u64,
    reasons: Vec<String>,
    reconnects: u64,
    resent: u64,
    passed_over: u64,
}

fn summary(settings: &Settings, publisher: &Publisher, source: &Source, elapsed: Duration) -> Result<(), CliError> {
    let account = publisher.account();
    let total = account.accepted.total();
    let unconfirmed = account.unknown.saturating_add(publisher.unconfirmed() as u64);
    let seconds = elapsed.as_secs_f64();
    let mut out = std::io::stdout().lock();
    if settings.is_on(&options::JSON)? {
        let summary = Summary {
            tables: account.accepted.clone(),
            sent: account.sent,
            updates: total.updates,
            rows: total.rows,
            bytes: account.sent_bytes,
            seconds,
            tip: publisher.tip(),
            unconfirmed,
            refused: account.refused,
            reasons: account.reasons.clone(),
            reconnects: account.reconnects,
            resent: account.resent,
            passed_over: match source {
                Source::Replay { replay, .. } => replay.passed_over,
                Source::Market { .. } => 0,
            },
        };
        return Ok(json::print(&mut out, &summary)?);
    }
    let rows: Vec<Vec<String>> = account
        .accepted
        .iter()
        .map(|(name, table)| {
            let name = String::from_utf8_lossy(name).into_owned();
            vec![name, text::thousands(table.updates), text::thousands(table.rows), format!("{:016x}", table.hash)]
        })
        .collect();
    for line in text::table(&["table", "updates", "rows", "hash"], &rows) {
        writeln!(out, "{line}")?;
    }
    let rate = |count: u64| text::thousands((count as f64 / seconds.max(1e-9)) as u64);
    writeln!(
        out,
        "sent {} updates: {} accepted, {} rejected, {} unconfirmed",
        text::thousands(account.sent),
        text::thousands(total.updates),
        text::thousands(account.refused),
        text::thousands(unconfirmed)
    )?;
    for reason in &account.reasons {
        writeln!(out, "rejected: '{reason}")?;
    }
    writeln!(
        out,
        "accepted {} updates, {} rows in {:.1} s: {} updates/s, {} rows/s",
        text::thousands(total.updates),
        text::thousands(total.rows),
        seconds,
        rate(total.updates),
        rate(total.rows)
    )?;
    if account.lost_most > 0 {
        writeln!(out, "lost in a take-over: up to {} confirmed updates", text::thousands(account.lost_most))?;
    }
    if account.reconnects > 0 {
        writeln!(out, "reconnected {} times, resent {} updates", account.reconnects, account.resent)?;
    }
    Ok(())
}
