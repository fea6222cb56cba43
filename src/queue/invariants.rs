//! Invariants of every queue after every step. Asserted in debug builds; checked by tests and simulation.
//!
//! An update that no other process has written down is *held* by exactly one of: the subscriber with a closed window that contains it, the subscriber that rebuilds such a window,
//! the live subscriber if it lies in the open window, or none (lost). A node that takes over from a draining one holds nothing yet: its
//! window lies in one that the draining node holds, no two nodes take over the same updates, and the window changes hands in the step that
//! proves its last part.

use super::ids::{Handle, NodeName, QueueName, UpdateIndex, Window};
use super::leave;
use super::table::{Kind, Line, Queue, State};
use std::collections::BTreeSet;

/// A violated invariant.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Violation {
    #[error("{queue} has {live} live subscribers")]
    LiveTwice { queue: QueueName, live: usize },
    #[error("in {queue} no window covers the updates from {first} to {last}")]
    Gap { queue: QueueName, first: UpdateIndex, last: UpdateIndex },
    #[error("in {queue} the window {window} begins inside another that ends at {last}")]
    Overlap { queue: QueueName, window: Window, last: UpdateIndex },
    #[error("{queue} knows of updates up to {last}; the log ends at {tip}")]
    BeyondTip { queue: QueueName, last: UpdateIndex, tip: UpdateIndex },
    #[error("a subscriber is in {queue}, which is not in the table")]
    NoLine { queue: QueueName },
    #[error("handle {0} is in the table twice")]
    HandleTwice(Handle),
    #[error("node {0} is in the table twice")]
    NodeTwice(NodeName),
    #[error("subscribers are not in the order in which they joined")]
    Order,
    #[error("{0} is neither connected nor has a deadline, or both")]
    Connection(String),
    #[error("{who} is {state} but holds windows")]
    Holds { who: String, state: &'static str },
    #[error("in {queue} a standby is idle while a window is unassigned")]
    Idle { queue: QueueName },
    #[error("{who} takes over {window}, which no draining node holds")]
    TakesOverNothing { who: String, window: Window },
    #[error("in {queue} two nodes take over {window}")]
    TakenOverTwice { queue: QueueName, window: Window },
    #[error("{0} is draining, has no windows left, and is still in the table")]
    Lingers(String),
}

/// Checks all invariants.
///
/// # Errors
/// The first violation found.
pub fn check(queue: &Queue) -> Result<(), Violation> {
    check_kept(queue)?;
    queue.lines().iter().try_for_each(|(name, line)| check_idle(queue, name, line))
}

/// Checks the invariants of the journaled state, which does not say which standbys can take a window.
///
/// # Errors
/// The first violation found.
pub fn check_kept(queue: &Queue) -> Result<(), Violation> {
    check_subscribers(queue)?;
    queue.lines().iter().try_for_each(|(name, line)| check_line(queue, name, line))
}

/// Fails if a standby that can take a window waits while there is one.
fn check_idle(queue: &Queue, name: &QueueName, line: &Line) -> Result<(), Violation> {
    let able = || queue.subscribers().iter().filter(|s| s.is_waiting_here(name) && queue.is_able(s));
    let has_live = queue.live(name).is_some();
    let handed_on = !leave::not_taken_over(queue.subscribers(), name).is_empty();
    let given_out = has_live && line.lost.is_empty();
    match (!given_out && able().next().is_some()) || (handed_on && able().any(|s| s.kind() == Kind::Native)) {
        true => Err(Violation::Idle { queue: name.clone() }),
        false => Ok(()),
    }
}

fn check_subscribers(queue: &Queue) -> Result<(), Violation> {
    let (mut handles, mut nodes) = (BTreeSet::new(), BTreeSet::new());
    let mut before = None;
    for sub in queue.subscribers() {
        if before >= Some(sub.id) {
            return Err(Violation::Order);
        }
        before = Some(sub.id);
        if !queue.lines().contains_key(&sub.queue) && sub.state != State::Lost {
            return Err(Violation::NoLine { queue: sub.queue.clone() });
        }
        if let Some(handle) = sub.handle
            && !handles.insert(handle)
        {
            return Err(Violation::HandleTwice(handle));
        }
        if let Some(node) = &sub.node
            && !nodes.insert(node)
        {
            return Err(Violation::NodeTwice(node.clone()));
        }
        let reachable = usize::from(sub.handle.is_some()) + usize::from(sub.resume_by_ns.is_some());
        if reachable != usize::from(sub.state != State::Lost) {
            return Err(Violation::Connection(sub.label()));
        }
        let empty = sub.held.is_empty() && matches!(sub.state, State::Waiting | State::Rolled);
        if sub.leaving.is_some() && empty && sub.handle.is_some() {
            return Err(Violation::Lingers(sub.label()));
        }
        let holds_nothing = matches!(sub.state, State::Waiting | State::Lost | State::TakingOver { .. });
        if holds_nothing && !sub.held.is_empty() {
            return Err(Violation::Holds { who: sub.label(), state: sub.state.name() });
        }
    }
    Ok(())
}

/// Fails unless at most one subscriber is live, and each update before the tip is in exactly one window.
fn check_line(queue: &Queue, name: &QueueName, line: &Line) -> Result<(), Violation> {
    let here = || queue.subscribers().iter().filter(|s| s.queue == *name);
    let live = here().filter(|s| s.state == State::Live).count();
    if live > 1 {
        return Err(Violation::LiveTwice { queue: name.clone(), live });
    }
    let mut taken: Vec<Window> = Vec::new();
    for (sub, window) in here().filter_map(|s| Some((s, s.takes_over()?))) {
        if !here().any(|leaver| leaver.hands_on(window)) {
            return Err(Violation::TakesOverNothing { who: sub.label(), window });
        }
        if taken.iter().any(|other| window.first() < other.last() && other.first() < window.last()) {
            return Err(Violation::TakenOverTwice { queue: name.clone(), window });
        }
        taken.push(window);
    }

    let mut windows: Vec<Window> = line.lost.iter().map(|lost| lost.window).collect();
    for sub in here() {
        windows.extend(sub.held.iter().map(|held| held.window));
        if let State::Rebuilding { window, .. } = sub.state {
            windows.push(window);
        }
    }
    windows.sort();
    let mut covered = UpdateIndex::default();
    for window in windows {
        if window.first() < covered {
            return Err(Violation::Overlap { queue: name.clone(), window, last: covered });
        }
        // What another process has written down needs no holder.
        if window.first() > covered && window.first() > queue.written() {
            return Err(Violation::Gap { queue: name.clone(), first: covered, last: window.first() });
        }
        covered = window.last();
    }
    // The open window covers the rest; the live subscriber holds it, or it awaits the next one.
    if covered != line.open && !(covered < line.open && line.open <= queue.written()) {
        let (first, last) = (covered.min(line.open), covered.max(line.open));
        return Err(Violation::Gap { queue: name.clone(), first, last });
    }
    if line.open > queue.tip() {
        return Err(Violation::BeyondTip { queue: name.clone(), last: line.open, tip: queue.tip() });
    }
    Ok(())
}
