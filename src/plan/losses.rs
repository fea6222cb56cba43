//! What delays and dead nodes of a cluster cost its users, as far as a second has a price.

use super::day::{DayRun, Setup};
use super::risk::rebuild_ns;

/// Prices of a second, and how often nodes die.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Losses {
    /// Of a second in which updates had arrived and were on no node.
    pub lag_usd_per_s: f64,
    /// Of a second in which the rows of a node that died are not back.
    pub missing_usd_per_s: f64,
    pub deaths_per_node_hour: f64,
}

impl Losses {
    /// Returns what a day costs so. A node that dies holds what the day's nodes hold on average.
    pub fn usd(&self, setup: &Setup, run: &DayRun, node_hours: f64) -> f64 {
        let lag_s = run.behind_ns as f64 / 1e9;
        let rebuild_s = run.nodes.iter().map(|node| rebuild_ns(setup, node.held_bytes) as f64 / 1e9).sum::<f64>();
        let rebuild_s = rebuild_s / (run.nodes.len() as f64).max(1.0);
        lag_s * self.lag_usd_per_s + node_hours * self.deaths_per_node_hour * rebuild_s * self.missing_usd_per_s
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::units::Scale;
    use crate::plan::day::NodeRun;
    use crate::rdb::policy::Params;

    #[test]
    fn lag_and_rebuilding_cost_what_their_seconds_do() {
        let setup = Setup {
            memory_bytes: 1 << 30,
            latent_bytes: 0,
            policy: Params::new(Scale::At(60.0), 80.0).unwrap(),
            lead_ns: 60_000_000_000,
            min: 1,
            max: 9,
            replay_bytes_per_s: 1000,
            sample_ns: None,
            sleep: None,
        };
        let node = |held_bytes| NodeRun { held_bytes, ..NodeRun::default() };
        let run = DayRun { nodes: vec![node(0), node(40_000)], behind_ns: 3_000_000_000, ..DayRun::default() };
        let losses = Losses { lag_usd_per_s: 2.0, missing_usd_per_s: 0.5, deaths_per_node_hour: 0.01 };
        // Three seconds behind; one death in 100 hours, whose rows are back after 60 s and 20,000 bytes.
        assert_eq!(losses.usd(&setup, &run, 100.0), 3.0 * 2.0 + 80.0 * 0.5);
        assert_eq!(Losses::default().usd(&setup, &run, 100.0), 0.0);
    }
}
