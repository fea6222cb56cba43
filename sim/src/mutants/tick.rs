//! Mutants around a tickerplant's service.

use super::{Defect, Delivered, is_planted, object, planted, sleep};
use elastick::log::{Keep, LogReader, Proof, Reads, queue_path, window_proof};
use elastick::net::{ConnId, Links};
use elastick::protocol::{Filter, FromNode, Join, Leaving, names};
use elastick::queue::{Handle, Leaving as When, Params, State, Subscriber, Subscription};
use elastick::tick::plant::Plant;
use elastick::tick::service::TickService;
use proto::{Endian, Header, Limits, MessageKind, View};
use std::ops::Range;
use std::path::{Path, PathBuf};

/// The tickerplant receives a message.
pub fn handle(service: &mut TickService, conn: ConnId, header: &Header, body: &[u8], links: &mut dyn Links) {
    if let Some(call) = called(body).and_then(|name| sleep::before(&service.plant, name)) {
        service.handle(conn, header, &call, links);
    }
    let changed = match planted() {
        Some(defect) => changed(&service.plant, conn, header, body, defect).unwrap_or(Delivered::Unchanged),
        None => Delivered::Unchanged,
    };
    match changed {
        Delivered::Unchanged => service.handle(conn, header, body, links),
        Delivered::Instead(body) => service.handle(conn, header, &body, links),
        Delivered::Nothing => {}
    }
}

/// A connection has ended.
pub fn closed(plant: &mut Plant, conn: ConnId, links: &mut dyn Links) {
    let Some(Subscriber { state, queue, .. }) = plant.queue().by_handle(Handle(conn.handle())) else {
        return plant.closed(conn, links);
    };
    if is_planted(Defect::DisconnectNotNoticed) {
        return;
    }
    let promotes = is_planted(Defect::RolledDisconnectPromotes) && *state == State::Rolled;
    let live = if promotes { plant.queue().live(queue) } else { None };
    let live = live.and_then(|(live, open)| links.by_handle(live.handle?.0).map(|conn| (conn, open)));
    plant.closed(conn, links);
    if let Some((conn, open)) = live {
        let (next, date) = (plant.queue().tip(), plant.queue().date().0);
        let proof = logged(plant, conn, open.0..next.0, Some(date)).unwrap_or_default();
        // Rejected only if the node is not live.
        let _ = plant.asg_rolling(next, proof, Some(date), conn, links);
    }
}

/// Returns whether the tickerplant calls itself healthy.
pub fn is_healthy(plant: &Plant) -> bool {
    let health = plant.health(&[]);
    health.is_ok() || (is_planted(Defect::HealthCountsAbsent) && health.to_string().contains("no live node"))
}

/// Returns the parameters with which a tickerplant starts.
pub fn params(params: Params) -> Params {
    match is_planted(Defect::NoGraceAfterRestart) {
        true => Params { restart_grace_ns: 0, ..params },
        false => params,
    }
}

/// Returns the files that a starting tickerplant does not find: the journals of the logs among these.
pub fn lost_files(paths: Vec<PathBuf>) -> Vec<PathBuf> {
    match is_planted(Defect::StateLostAtRestart) {
        true => paths.iter().map(|path| queue_path(path)).filter(|path| paths.contains(path)).collect(),
        false => Vec::new(),
    }
}

/// Returns the name of the function that a message calls.
fn called(body: &[u8]) -> Option<&str> {
    let (view, _) = View::parse(body, Endian::Little, &Limits::default()).ok()?;
    std::str::from_utf8(view.list()?.iter().next()?.text()?).ok()
}

/// Returns a message as a tickerplant with the mutant takes it; `None` for one that the mutant does not concern.
fn changed(plant: &Plant, conn: ConnId, header: &Header, body: &[u8], defect: Defect) -> Option<Delivered> {
    let (view, _) = View::parse(body, Endian::Little, &Limits::default()).ok()?;
    let items: Vec<View<'_>> = view.list()?.iter().collect();
    let (name, args) = items.split_first()?;
    let name = std::str::from_utf8(name.text()?).ok()?;
    if name == ".u.upd" {
        let is_lost =
            defect == Defect::AsyncUpdateSwallowed && header.kind == MessageKind::Async && body.len().is_multiple_of(7);
        return is_lost.then_some(Delivered::Nothing);
    }
    if let Some(delivered) = sleep::written(plant, name, defect) {
        return Some(delivered);
    }
    let mut out = Vec::new();
    if name == names::JOIN {
        joining(Join::decode(args).ok()?, defect)?.append(&mut out).ok()?;
        return Some(Delivered::Instead(object(&out)));
    }
    let message = match (FromNode::decode(name, args).ok()??, defect) {
        (FromNode::Rolling { next, proof, date }, Defect::WindowOffByOne) => {
            FromNode::Rolling { next: next.saturating_sub(1), proof, date }
        }
        (FromNode::Rolling { next, .. }, Defect::PolicyBeforeWindow) => {
            let own = plant.queue().by_handle(Handle(conn.handle()))?;
            let (_, open) = plant.queue().live(&own.queue)?;
            return (open.0 == next).then_some(Delivered::Nothing);
        }
        (FromNode::Rolling { next, date, .. }, Defect::ProofNotChecked) => {
            let own = plant.queue().by_handle(Handle(conn.handle()))?;
            let first = match own.state {
                State::Live => plant.queue().live(&own.queue)?.1.0,
                State::Rebuilding { window, .. } | State::TakingOver { window, .. } => window.first().0,
                _ => return None,
            };
            FromNode::Rolling { next, proof: logged(plant, conn, first..next, date)?, date }
        }
        (FromNode::Proved { first, last, date, .. }, Defect::ProofNotChecked) => {
            FromNode::Proved { first, last, proof: logged(plant, conn, first..last, date)?, date }
        }
        (FromNode::From { next }, Defect::NoDedupOnResume) => FromNode::From { next: next.saturating_sub(1) },
        (FromNode::Leaving(leaving), Defect::LeaverCountedTwice) => {
            let when = When { replaced: false, ..leaving.when };
            FromNode::Leaving(Leaving { when, ..leaving })
        }
        (FromNode::Status(mut status), Defect::LeftOutUntold) => {
            status.refused = Some(0);
            FromNode::Status(status)
        }
        _ => return None,
    };
    message.append(&mut out).ok()?;
    Some(Delivered::Instead(object(&out)))
}

fn joining(join: Join<Subscription>, defect: Defect) -> Option<Join> {
    let words = |names: &[Vec<u8>]| -> Vec<String> {
        let named = names.iter().filter(|name| !name.is_empty());
        named.map(|name| String::from_utf8_lossy(name).into_owned()).collect()
    };
    let Subscription { tabs, syms } = join.subscription;
    let symbols = syms.first().map(|syms| words(syms)).unwrap_or_default();
    let join = Join {
        subscription: Filter { tables: words(&tabs), symbols },
        node: join.node,
        queue: join.queue,
        port: join.port,
        date: join.date,
        held: join.held,
        open: join.open,
        group: join.group,
        instance: join.instance,
        process: join.process,
        owner: join.owner,
        writer: join.writer,
        leaving: join.leaving,
    };
    Some(match defect {
        Defect::StateLostAtRestart => Join { held: Vec::new(), open: None, ..join },
        Defect::NameGivenTwice => Join { process: None, ..join },
        // Without a writer the tickerplant does not compare the node's log with its own.
        Defect::ProofNotChecked => Join { writer: None, ..join },
        Defect::LeaverCountedTwice => {
            let leaving = join.leaving.map(|when| When { replaced: false, ..when });
            Join { leaving, ..join }
        }
        _ => return None,
    })
}

/// Returns the proof of a window from the log of the day, for a subscriber without a selection of symbols.
fn logged(plant: &Plant, conn: ConnId, window: Range<u64>, date: Option<i32>) -> Option<Proof> {
    let own = plant.queue().by_handle(Handle(conn.handle()))?;
    let Subscription { tabs, syms } = &*own.subscription;
    if syms.iter().flatten().any(|sym| !sym.is_empty()) || date? != plant.queue().date().0 {
        return None;
    }
    let path: &Path = plant.log_path()?;
    let mut reader =
        LogReader::open_until(plant.env(), path, Limits::default(), 1 << 20, Reads::Cached, plant.env().clock.now())
            .ok()?;
    let keep = |table: &[u8]| match tabs.iter().any(|tab| tab.is_empty() || tab == table) {
        true => Keep::Whole,
        false => Keep::Skip,
    };
    window_proof(&mut reader, window, plant.env().clock.now(), |_, record, _| keep(record.table)).ok()
}
