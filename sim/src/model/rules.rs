//! Rules for every state, and for rest. They inspect only what is visible from outside: the log's bytes, the table as `.u.asg.tab` shows
//! it, and nodes' windows and rows as queries see them.

use super::node;
use super::state::{State as Whole, Wire};
use super::steps::Model;
use super::tick::{self, Row, TickOutput};
use crate::audit::holdings;
use elastick::queue::State;
use elastick::rdb::policy::Phase;
use std::ops::Range;

/// Rules that one process alone can break: see `Tick::look` and `Node::look`.
fn processes(tick: &tick::Facts, nodes: &[std::rc::Rc<node::Facts>]) -> Result<(), String> {
    if let Some(text) = &tick.broken {
        return Err(text.clone());
    }
    match nodes.iter().find_map(|node| Some((&node.name, node.broken.as_ref()?))) {
        Some((name, text)) => Err(format!("{name}: {text}")),
        None => Ok(()),
    }
}

/// A node holds nothing beyond the log.
fn behind_the_log(tick: &tick::Facts, node: &node::Facts) -> Result<(), String> {
    let Some(day) = node.day else { return Ok(()) };
    let tip = tick.tips.get(day).map_or(0, |tip| u64::from(*tip));
    match node.windows.iter().find(|held| held.window.end > tip) {
        Some(held) => Err(format!("{} has {:?} of day {day}, the log has {tip}", node.name, held.window)),
        None => Ok(()),
    }
}

/// With no message in flight, queries on a node see what the table says of it.
fn node_agrees(tick: &tick::Facts, row: Option<&Row>, node: &node::Facts) -> Result<(), String> {
    let mut shown: Vec<&Range<u64>> = node.windows.iter().filter(|held| !held.open).map(|held| &held.window).collect();
    let mut held: Vec<&Range<u64>> = row.iter().flat_map(|row| &row.held).map(|(window, _)| window).collect();
    shown.sort_by_key(|window| window.start);
    held.sort_by_key(|window| window.start);
    if shown != held {
        return Err(format!("{} shows {shown:?}, and the table has {held:?}", node.name));
    }
    let open = node.windows.iter().find(|held| held.open).map(|held| &held.window);
    match (row.map(|row| row.state), open) {
        (Some(State::Live), Some(open)) => {
            let line = tick.lines.iter().find(|(name, ..)| *name == node.queue).map(|(_, first, _)| *first);
            match line == Some(open.start) && node.day == Some(tick.day) {
                true => Ok(()),
                false => Err(format!("{} is live from {} on, the table says {line:?}", node.name, open.start)),
            }
        }
        (Some(State::Live), None) => Err(format!("the table says that {} is live", node.name)),
        (Some(State::Rebuilding { .. } | State::TakingOver { .. }), _) | (_, None) => Ok(()),
        (state, Some(open)) => {
            Err(format!("{} takes updates from {} on, the table says {state:?}", node.name, open.start))
        }
    }
}

/// A node may end by itself only after a day's end, and with nothing of the current day: those rows would be missing until rebuilt from the
/// log. `node` is its state just before, as a node clears its rows first. Where queues `sleep`, their nodes end at any time, but are out of the
/// table by then.
///
/// # Errors
/// The window it takes with it, or that no day has ended.
pub fn may_end(tick: &tick::Facts, node: &node::Facts, sleeps: bool) -> Result<(), String> {
    let name = &node.name;
    if tick.day == 0 && !sleeps {
        return Err(format!("{name} has itself ended, and no day has ended"));
    }
    if let Some(held) = node.windows.first().filter(|_| !sleeps && node.day.is_none_or(|day| day >= tick.day)) {
        return Err(format!("{name} has itself ended with {:?} of the day that goes on", held.window));
    }
    match tick.rows.iter().filter(|row| row.node == *name).flat_map(|row| &row.held).next() {
        Some((window, _)) => Err(format!("{name} has itself ended, and the table has it hold {window:?}")),
        None => Ok(()),
    }
}

/// A node's reported state matches its windows: it has an open window exactly if it is live or rebuilds.
fn phase_agrees(node: &node::Facts) -> Result<(), String> {
    let Some(phase) = node.phase else { return Ok(()) };
    let open = node.windows.iter().any(|held| held.open);
    let takes = matches!(phase, Phase::Live | Phase::Rebuilding);
    // A window being taken over is hidden until it is complete.
    if open != takes && !(phase == Phase::Rebuilding && node.windows.is_empty()) {
        return Err(format!("{} is {} and has {:?}", node.name, phase.name(), node.windows));
    }
    Ok(())
}

/// With no message in flight, the table and the node give its state the same name.
fn state_agrees(row: Option<&Row>, node: &node::Facts) -> Result<(), String> {
    let (Some(row), Some(phase)) = (row, node.phase) else { return Ok(()) };
    let agrees = match row.state {
        State::Live => phase == Phase::Live,
        State::Rebuilding { .. } => phase == Phase::Rebuilding,
        State::TakingOver { .. } => matches!(phase, Phase::Rebuilding | Phase::Rolled),
        State::Rolled => phase == Phase::Rolled,
        State::Waiting => phase == Phase::Waiting,
        State::Lost => true,
    };
    match agrees {
        true => Ok(()),
        false => Err(format!("{} is {}, the table says {}", node.name, phase.name(), row.state.name())),
    }
}

/// A process may close only its own earlier connection: two of one name would otherwise close each other's for ever.
///
/// # Errors
/// The connection that is closed.
pub fn closes_own_only(from: u8, outputs: &[TickOutput]) -> Result<(), String> {
    let other = outputs.iter().find_map(|output| match output {
        TickOutput::Closes(place) if place / 2 != from / 2 => Some(place / 2),
        _ => None,
    });
    match other {
        Some(other) => Err(format!("what node {} says ends the connection of node {other}", from / 2)),
        None => Ok(()),
    }
}

/// Both ends have the connection, and nothing is in flight.
fn is_quiet(wire: &Wire) -> bool {
    wire.node && wire.tick && wire.up.is_empty() && wire.down.is_empty()
}

impl Model {
    /// Checks the rules of every state.
    ///
    /// # Errors
    /// The rule that is broken.
    pub fn judge(&self, state: &Whole) -> Result<(), String> {
        let tick = self.tick_of(state)?;
        let nodes = state.places.iter().map(|place| self.node_of(place)).collect::<Result<Vec<_>, _>>()?;
        processes(&tick, &nodes)?;
        for (number, (node, place)) in (0u8..).zip(nodes.iter().zip(&state.places)) {
            behind_the_log(&tick, node)?;
            phase_agrees(node)?;
            let wires = self.wires.get(place.wires);
            for (side, wire) in (0u8..).zip(&wires) {
                let at = number.saturating_mul(2).saturating_add(side);
                let quiet = wire.as_ref().is_some_and(is_quiet) && tick.up && !node.comes_round && !node.replays;
                if quiet {
                    let row = tick.rows.iter().find(|row| row.place == Some(at));
                    node_agrees(&tick, row, node)?;
                    state_agrees(row, node)?;
                }
            }
        }
        Ok(())
    }

    /// Checks the rules of rest: each queue is complete, on one live node and its predecessors.
    ///
    /// # Errors
    /// The rule that is broken.
    pub fn judge_rest(&self, state: &Whole) -> Result<(), String> {
        let tick = self.tick_of(state)?;
        let tip = tick.tips.get(tick.day).copied().map_or(0, usize::from);
        let nodes = state.places.iter().map(|place| self.node_of(place)).collect::<Result<Vec<_>, _>>()?;
        for queue in self.queues() {
            let of_queue = || tick.rows.iter().filter(|row| row.queue == queue);
            if let Some((_, first, true)) = tick.lines.iter().find(|(name, ..)| name == queue) {
                return Err(format!("queue {queue} has lost windows before {first}"));
            }
            let live = of_queue().filter(|row| row.state == State::Live).count();
            if live != 1 {
                return Err(format!("queue {queue} has {live} live nodes"));
            }
            // Without another node to rebuild a window, a node keeps it without the update that is too long for it.
            let lacks = |row: &Row| nodes.iter().any(|node| node.name == row.node && node.left_out > 0);
            let unproved = |row: &Row| row.held.iter().find(|(_, ok)| *ok != Some(true)).map(|held| held.0.clone());
            if let Some((row, window)) =
                of_queue().filter(|row| !lacks(row)).find_map(|row| Some((row, unproved(row)?)))
            {
                return Err(format!("{window:?} of {} was not proved", row.node));
            }
            let mut windows = Vec::new();
            for node in nodes.iter().filter(|node| node.queue == queue) {
                let today = node.day.is_none_or(|day| day == tick.day);
                for held in node.windows.iter().filter(|held| today || !held.window.is_empty()) {
                    let index = |index: u64| usize::try_from(index).unwrap_or(usize::MAX);
                    let window = index(held.window.start)..index(held.window.end);
                    windows.push((node.name.clone(), window, held.open));
                }
            }
            let written = usize::try_from(tick.written).unwrap_or(usize::MAX);
            holdings::tile(queue, windows, written, tip).map_err(|broken| broken.0)?;
        }
        Ok(())
    }

    pub fn queues(&self) -> impl Iterator<Item = &'static str> {
        let [first, second] = self.context.bounds.nodes;
        [("a", first), ("b", second)].into_iter().filter(|(_, nodes)| *nodes > 0).map(|(name, _)| name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn holding(day: Option<usize>, window: Option<Range<u64>>) -> node::Facts {
        let windows = window.into_iter().map(|window| node::Held { window, open: false }).collect();
        node::Facts { name: "a0".to_string(), day, windows, ..node::Facts::default() }
    }

    fn table(day: usize, node: &str, window: Range<u64>) -> tick::Facts {
        let state = State::Rolled;
        let row =
            Row { node: node.to_string(), queue: "a".to_string(), place: None, state, held: vec![(window, None)] };
        tick::Facts { day, rows: vec![row], ..tick::Facts::default() }
    }

    #[test]
    fn a_node_may_terminate_with_rows_of_the_previous_day() {
        let other = table(1, "a1", 0..2);
        assert_eq!(may_end(&other, &holding(Some(0), Some(0..2)), false), Ok(()));
        assert_eq!(may_end(&other, &holding(None, None), false), Ok(()));
    }

    #[test]
    fn a_node_may_not_end_in_its_day() {
        let other = table(1, "a1", 0..2);
        assert!(may_end(&other, &holding(Some(1), Some(2..3)), false).is_err(), "it holds a window of today");
        let own = table(1, "a0", 0..2);
        assert!(may_end(&own, &holding(None, None), false).is_err(), "it has cleared what the table says it holds");
        let first_day = tick::Facts::default();
        assert!(may_end(&first_day, &holding(None, None), false).is_err(), "no day has ended");
        let today = holding(Some(0), Some(0..2));
        assert_eq!(may_end(&first_day, &today, true), Ok(()), "its queue sleeps");
        assert!(may_end(&table(0, "a0", 0..2), &today, true).is_err(), "its queue does not know that it sleeps");
    }
}
