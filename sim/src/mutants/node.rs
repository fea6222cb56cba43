//! Mutants around a node's ingest.

use super::{Defect, Delivered, is_planted, object, planted};
use elastick::protocol::{FromNode, Joined, ToNode};
use elastick::rdb::capacity::FleetRequest;
use elastick::rdb::ingest::Fault;
use elastick::rdb::policy::Phase;
use elastick::rdb::shared::Shared;
use elastick::rdb::update;
use elastick::table::symbol;
use proto::{Endian, Header, Limits, MessageKind, View};
use std::borrow::Cow;
use std::sync::mpsc::{Receiver, Sender, channel};

/// Size of an update's trailing index.
const INDEX_BYTES: usize = 8;
/// Of this many seconds a dozing node listens in the first ones only.
const DOZES_EVERY_S: u64 = 100;
const LISTENS_S: u64 = 20;

/// Returns a message as the node gets it; `None` if it does not.
pub fn receive<'a>(header: &Header, body: &'a [u8], shared: &Shared) -> Option<Cow<'a, [u8]>> {
    let changed = match planted() {
        Some(defect) => changed(header, body, shared, defect).unwrap_or(Delivered::Unchanged),
        None => Delivered::Unchanged,
    };
    match changed {
        Delivered::Unchanged => Some(Cow::Borrowed(body)),
        Delivered::Instead(body) => Some(Cow::Owned(body)),
        Delivered::Nothing => None,
    }
}

fn changed(header: &Header, body: &[u8], shared: &Shared, defect: Defect) -> Option<Delivered> {
    if let Some(update) = update::update(body) {
        let next = shared.view().state.windows.iter().find(|shown| shown.open)?.window.next;
        if defect != Defect::NoDedupOnResume || update.index? >= next {
            return None;
        }
        // What the node has already comes as if it were the next one.
        let mut again = body.to_vec();
        again.truncate(again.len().checked_sub(INDEX_BYTES)?);
        again.extend(next.to_le_bytes());
        return Some(Delivered::Instead(again));
    }
    let (view, _) = View::parse(body, Endian::Little, &Limits::default()).ok()?;
    if header.kind == MessageKind::Response {
        let joined = Joined::decode(&view).ok().filter(|joined| joined.drop && defect == Defect::DropNotHeeded)?;
        let kept = Joined { drop: false, ..joined }.encode().ok()?;
        return Some(Delivered::Instead(object(&kept)));
    }
    let message = match (ToNode::decode(&view).ok()??, defect) {
        (ToNode::Live(mut live), Defect::SuccessorStartsLate) if live.first > 0 && live.first < live.tip => {
            live.first = live.first.saturating_add(1);
            ToNode::Live(live)
        }
        (ToNode::Live(mut live), Defect::AnyLogIsRead) => {
            live.samples.clear();
            ToNode::Live(live)
        }
        (ToNode::Rebuild(mut rebuild), Defect::AnyLogIsRead) => {
            rebuild.samples.clear();
            ToNode::Rebuild(rebuild)
        }
        (ToNode::Rebuild(mut rebuild), Defect::RebuildEndsEarly) => {
            rebuild.last = rebuild.last.saturating_sub(1);
            ToNode::Rebuild(rebuild)
        }
        (ToNode::Rebuild(_), Defect::LostWindowForgotten)
        | (ToNode::Schema { index: None, .. }, Defect::ChangeToldAtTipOnly)
        | (ToNode::Drop, Defect::DropNotHeeded)
        | (ToNode::End { .. }, Defect::DayEndForgetsNothing) => return Some(Delivered::Nothing),
        _ => return None,
    };
    Some(Delivered::Instead(object(&message.encode().ok()?)))
}

/// Returns whether the node hears nothing at this time.
pub fn dozes(now_ns: u64) -> bool {
    is_planted(Defect::NodeDozes) && now_ns / 1_000_000_000 % DOZES_EVERY_S >= LISTENS_S
}

/// Returns the roll that a node sends while it replays, and then replays on.
pub fn rolls_in_replay(replays: bool, shared: &Shared) -> Vec<u8> {
    let mut out = Vec::new();
    if !replays || !is_planted(Defect::RollInReplayUndone) {
        return out;
    }
    let state = shared.view().state;
    let open = state.windows.iter().find(|shown| shown.open).filter(|shown| !shown.window.is_empty());
    if let (Phase::Live, Some(shown)) = (state.phase, open) {
        let proof = shown.window.proof(state.tables.iter().map(|name| symbol::text(*name)));
        // The names are those of tables.
        let _ = FromNode::Rolling { next: shown.window.next, proof, date: state.date }.append(&mut out);
    }
    out
}

/// Returns why a node takes its connection to have ended.
pub fn ended(result: Result<(), Fault>) -> Result<(), Fault> {
    match result {
        Err(Fault::Unreadable(reason)) if is_planted(Defect::UnreadableForgotten) => Err(Fault::Connection(reason)),
        result => result,
    }
}

/// Returns the capacity that a node requests after failed requests for it.
pub fn requested(desired: u32, failures: u32) -> u32 {
    if is_planted(Defect::ScalesTwiceOnRetry) { desired.saturating_add(failures) } else { desired }
}

/// The way of a node's requests to its fleet.
pub struct Asking(Option<(Receiver<FleetRequest>, Sender<FleetRequest>)>);

impl Asking {
    /// Returns the end for the node, and the way from there to the fleet.
    pub fn to(fleet: Sender<FleetRequest>) -> (Sender<FleetRequest>, Asking) {
        if !is_planted(Defect::RolledNodeReplacesOthers) {
            return (fleet, Asking(None));
        }
        let (sender, requests) = channel();
        (sender, Asking(Some((requests, fleet))))
    }

    /// Passes requests on. A node that does not watch launches any more does not say so.
    pub fn pass_on(&self) {
        let Some((requests, fleet)) = &self.0 else { return };
        let is_passed = |request: &FleetRequest| !matches!(request, FleetRequest::Joined(joined) if joined.is_empty());
        // The fleet's end lives as long as the node.
        requests.try_iter().filter(is_passed).for_each(|request| drop(fleet.send(request)));
    }
}
