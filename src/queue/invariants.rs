//! What must hold of every queue after every step, whatever happened. Asserted in debug builds, asked by tests and simulation.

use super::ids::{Handle, NodeName, QueueName, UpdateIndex, Window};
use super::table::{Line, Queue, State};
use std::collections::BTreeSet;

/// An invariant that does not hold.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Violation {
    #[error("{queue} has {live} live subscribers")]
    LiveTwice { queue: QueueName, live: usize },
    #[error("in {queue} the updates from {first} to {last} are nobody's")]
    Gap { queue: QueueName, first: UpdateIndex, last: UpdateIndex },
    #[error("in {queue} the window {window} begins inside another that ends at {last}")]
    Overlap { queue: QueueName, window: Window, last: UpdateIndex },
    #[error("{queue} knows of updates up to {last}; the log ends at {tip}")]
    BeyondTip { queue: QueueName, last: UpdateIndex, tip: UpdateIndex },
    #[error("a subscriber is in {queue}, which is not in the table")]
    NoLine { queue: QueueName },
    #[error("handle {0} stands twice")]
    HandleTwice(Handle),
    #[error("node {0} stands twice")]
    NodeTwice(NodeName),
    #[error("subscribers do not stand in the order in which they came")]
    Order,
    #[error("{0} is neither connected nor has a deadline, or both")]
    Connection(String),
    #[error("{who} is {state} and yet holds windows")]
    Holds { who: String, state: &'static str },
    #[error("in {queue} someone waits while there is work")]
    Idle { queue: QueueName },
}

/// Checks the whole table.
///
/// # Errors
/// The first violation found.
pub fn check(queue: &Queue) -> Result<(), Violation> {
    check_subscribers(queue)?;
    for (name, line) in queue.lines() {
        check_line(queue, name, line)?;
    }
    Ok(())
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
        if matches!(sub.state, State::Waiting | State::Lost) && !sub.held.is_empty() {
            return Err(Violation::Holds { who: sub.label(), state: sub.state.name() });
        }
    }
    Ok(())
}

/// One live at most, and every update before the tip in exactly one window.
fn check_line(queue: &Queue, name: &QueueName, line: &Line) -> Result<(), Violation> {
    let here = || queue.subscribers().iter().filter(|s| s.queue == *name);
    let live = here().filter(|s| s.state == State::Live).count();
    if live > 1 {
        return Err(Violation::LiveTwice { queue: name.clone(), live });
    }
    if (live == 0 || !line.lost.is_empty()) && here().any(|s| s.is_waiting_here(name)) {
        return Err(Violation::Idle { queue: name.clone() });
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
        if window.first() > covered {
            return Err(Violation::Gap { queue: name.clone(), first: covered, last: window.first() });
        }
        covered = window.last();
    }
    // From here on the open window covers the rest, held by the live subscriber or kept for the next.
    if covered != line.open {
        let (first, last) = (covered.min(line.open), covered.max(line.open));
        return Err(Violation::Gap { queue: name.clone(), first, last });
    }
    if line.open > queue.tip() {
        return Err(Violation::BeyondTip { queue: name.clone(), last: line.open, tip: queue.tip() });
    }
    Ok(())
}
