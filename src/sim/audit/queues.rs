//! The table of the queues, after every step: by the auditor's own reckoning.

use super::Broken;
use crate::queue::{Queue, State};
use std::ops::Range;

/// Whether in each queue at most one is live, and held, rebuilt and lost windows lie side by side up to the open one.
///
/// # Errors
/// What is wrong.
pub fn check(queue: &Queue) -> Result<(), Broken> {
    for (name, line) in queue.lines() {
        let of_line = || queue.subscribers().iter().filter(|subscriber| subscriber.queue == *name);
        let live = of_line().filter(|subscriber| subscriber.state == State::Live).count();
        if live > 1 {
            return Err(Broken(format!("queue {name} has {live} live subscribers")));
        }
        let mut windows: Vec<Range<u64>> = Vec::new();
        let range = |window: crate::queue::Window| window.first().0..window.last().0;
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
            if window.start != next {
                return Err(Broken(format!("queue {name}: windows leave or share what is from {next} to {window:?}")));
            }
            next = window.end;
        }
        if next != line.open.0 {
            return Err(Broken(format!(
                "queue {name}: closed windows end at {next}, the open one begins at {}",
                line.open
            )));
        }
    }
    Ok(())
}
