//! Checks the table of the queues after every step, by the auditor's own reckoning.

use super::Broken;
use elastick::queue::{Queue, State, Subscriber};
use std::ops::Range;

/// Checks that health is `ok` only while every logged update is on a connected node, or about to be sent to one.
///
/// # Errors
/// The queue with updates that cannot be queried while health is `ok`.
pub fn check_health(queue: &Queue, tip: u64, is_healthy: bool) -> Result<(), Broken> {
    if !is_healthy {
        return Ok(());
    }
    // No node is expected where a queue sleeps, nor to hold what is written down.
    for (name, line) in queue.lines().iter().filter(|(_, line)| !queue.is_asleep(line)) {
        let of_line = || queue.subscribers().iter().filter(|subscriber| subscriber.queue == *name);
        let here = || of_line().filter(|subscriber| subscriber.handle.is_some());
        let live = here().any(|subscriber| subscriber.state == State::Live);
        let written = queue.written().0.min(line.open.0);
        let above = |window: elastick::queue::Window| window.last().0.saturating_sub(window.first().0.max(written));
        let held: u64 = here().flat_map(|subscriber| &subscriber.held).map(|held| above(held.window)).sum();
        if written.saturating_add(held) != line.open.0 || (!live && line.open.0 < tip) {
            return Err(Broken(format!(
                "health is ok, and of queue {name} {held} of {tip} updates are on closed nodes, live: {live}"
            )));
        }
    }
    Ok(())
}

/// Checks each queue: at most one node is live, no able standby waits while none is live or a window is lost, and held, rebuilt and lost
/// windows tile the range up to the open one.
///
/// # Errors
/// The first violation.
pub fn check(queue: &Queue) -> Result<(), Broken> {
    for (name, line) in queue.lines() {
        let of_line = || queue.subscribers().iter().filter(|subscriber| subscriber.queue == *name);
        let live = of_line().filter(|subscriber| subscriber.state == State::Live).count();
        if live > 1 {
            return Err(Broken(format!("queue {name} has {live} live subscribers")));
        }
        let can_take = |own: &&Subscriber| own.state == State::Waiting && own.handle.is_some() && own.leaving.is_none();
        if (live == 0 || !line.lost.is_empty())
            && let Some(standby) = of_line().filter(can_take).find(|own| queue.is_able(own))
        {
            return Err(Broken(format!(
                "queue {name}: {} waits, {live} are live and {} windows are lost",
                standby.label(),
                line.lost.len()
            )));
        }
        let mut windows: Vec<Range<u64>> = Vec::new();
        let range = |window: elastick::queue::Window| window.first().0..window.last().0;
        for subscriber in of_line() {
            windows.extend(subscriber.held.iter().map(|held| range(held.window)));
            if let State::Rebuilding { window, .. } = subscriber.state {
                windows.push(range(window));
            }
        }
        windows.extend(line.lost.iter().map(|lost| range(lost.window)));
        windows.sort_by_key(|window| (window.start, window.end));
        let mut next = 0;
        for window in windows {
            let is_written = window.start > next && window.start <= queue.written().0;
            if window.start != next && !is_written {
                return Err(Broken(format!("queue {name}: windows leave or share what is from {next} to {window:?}")));
            }
            next = window.end;
        }
        if next != line.open.0 && !(next < line.open.0 && line.open <= queue.written()) {
            return Err(Broken(format!(
                "queue {name}: closed windows end at {next}, the open one begins at {}",
                line.open
            )));
        }
    }
    Ok(())
}
