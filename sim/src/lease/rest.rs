//! From every state, without further faults, one process becomes active and writes the log.

use super::UNIT_NS;
use super::state::{Act, Setting, State};
use std::collections::HashSet;
use std::hash::{BuildHasher, RandomState};

/// Most steps of a run, and most leases' durations that it may take.
const STEPS: u32 = 400;
const LEASES: u64 = 4;

/// States from which a run has been seen to come to rest, by hash.
#[derive(Default)]
pub struct Rest {
    hasher: RandomState,
    known: HashSet<u64>,
}

impl Rest {
    /// Runs on from a state.
    ///
    /// # Errors
    /// What goes wrong, and the steps to it.
    pub fn check(&mut self, state: &State, setting: &Setting) -> Result<(), (&'static str, Vec<Act>)> {
        let (mut now, mut acts, mut seen) = (state.clone(), Vec::new(), HashSet::new());
        let mut left_ns = setting.terms.lease_ns.saturating_mul(LEASES);
        for _ in 0..STEPS {
            if let Some(violation) = now.violation() {
                return Err((violation, acts));
            }
            let hash = self.hasher.hash_one(&now);
            if now.is_served() || self.known.contains(&hash) {
                self.known.extend(seen);
                return Ok(());
            }
            if !seen.insert(hash) {
                return Err(("the processes call the store without end while no time passes", acts));
            }
            let act = now.next_without_faults();
            if let Act::Time(_) = act {
                let Some(rest_ns) = left_ns.checked_sub(UNIT_NS) else { break };
                left_ns = rest_ns;
            }
            acts.push(act);
            now = now.after(act, setting);
        }
        Err(("no process comes to be active and to write the log in time, though nothing goes wrong any more", acts))
    }
}
