//! What a cluster risks: how often it falls behind under surges and slow launches, for how long, and with how much.

use super::day::{DayRun, Setup, play};
use super::noise::{Noise, Surge, draw};
use super::shape::Shape;

/// Days under one surge and one lead time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Weather {
    pub noise: Noise,
    pub surge: Surge,
    pub lead_ns: u64,
}

/// What became of one day.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RiskDay {
    /// Smallest cushion, in lead times; `None` if no node rolled.
    pub cushion: Option<f64>,
    /// How long the live node lagged behind the log, and the most bytes by which it did.
    pub behind_ns: u64,
    pub behind_bytes: u64,
    /// Most that a node held.
    pub held_bytes: u64,
}

/// Days under the same weather.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Risk {
    pub days: u32,
    /// Days on which the cluster fell behind.
    pub behind_days: u32,
    /// How long the live node lagged behind the log on such a day: median and longest.
    pub behind_median_ns: u64,
    pub behind_longest_ns: u64,
    /// Most bytes by which the live node lagged.
    pub behind_bytes: u64,
    /// Least cushion: median of the days, and worst.
    pub cushion_median: Option<f64>,
    pub cushion_worst: Option<f64>,
    /// Longest time in which the rows of a node that died are back: an instance comes up, and reads them from the log.
    pub rebuild_ns: u64,
}

/// Plays the day of a seed.
///
/// # Errors
/// The day does not end: a fault of the cores.
pub fn risk_day(setup: &Setup, planned: &Shape, weather: &Weather, seed: u64) -> Result<RiskDay, String> {
    let setup = Setup { lead_ns: weather.lead_ns, sample_ns: None, ..setup.clone() };
    let run = play(&setup, &draw(planned, weather.noise, weather.surge, seed))?;
    Ok(RiskDay {
        cushion: least_cushion(&run),
        behind_ns: run.behind_ns,
        behind_bytes: run.most_behind_bytes,
        held_bytes: run.nodes.iter().map(|node| node.held_bytes).max().unwrap_or(0),
    })
}

/// Returns the smallest cushion of a day: time from the request for a successor to the roll that needs it, in lead times. `None` if no node rolled.
pub fn least_cushion(run: &DayRun) -> Option<f64> {
    run.nodes.iter().filter_map(|node| node.cushion).min_by(f64::total_cmp)
}

/// Time in which the rows of a node that died are back on another one.
pub fn rebuild_ns(setup: &Setup, held_bytes: u64) -> u64 {
    let replay = u128::from(held_bytes) * 1_000_000_000 / u128::from(setup.replay_bytes_per_s.max(1));
    setup.lead_ns.saturating_add(u64::try_from(replay).unwrap_or(u64::MAX))
}

/// Sums days up.
pub fn risk(setup: &Setup, weather: &Weather, days: &[RiskDay]) -> Risk {
    let setup = Setup { lead_ns: weather.lead_ns, ..setup.clone() };
    let mut behind: Vec<u64> = days.iter().map(|day| day.behind_ns).filter(|ns| *ns > 0).collect();
    behind.sort_unstable();
    let mut cushions: Vec<f64> = days.iter().filter_map(|day| day.cushion).collect();
    cushions.sort_by(f64::total_cmp);
    let count = |number: usize| u32::try_from(number).unwrap_or(u32::MAX);
    Risk {
        days: count(days.len()),
        behind_days: count(behind.len()),
        behind_median_ns: behind.get(behind.len() / 2).copied().unwrap_or(0),
        behind_longest_ns: behind.last().copied().unwrap_or(0),
        behind_bytes: days.iter().map(|day| day.behind_bytes).max().unwrap_or(0),
        cushion_median: cushions.get(cushions.len() / 2).copied(),
        cushion_worst: cushions.first().copied(),
        rebuild_ns: rebuild_ns(&setup, days.iter().map(|day| day.held_bytes).max().unwrap_or(0)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::units::Scale;
    use crate::rdb::policy::Params;

    const GIB: u64 = 1 << 30;
    const MINUTE_NS: u64 = 60_000_000_000;

    fn of(scale: f64, surge: f64, lead_ns: u64, days: u64) -> Risk {
        let policy = Params::new(Scale::At(scale), 80.0).unwrap();
        let replay_bytes_per_s = 200 << 20;
        let setup = Setup {
            memory_bytes: 4 * GIB,
            latent_bytes: 0,
            policy,
            lead_ns,
            min: 1,
            max: 64,
            replay_bytes_per_s,
            sample_ns: None,
            sleep: None,
        };
        let surge = Surge { factor: surge, length_ns: 15 * MINUTE_NS };
        let weather = Weather { noise: Noise { volume: 0.2, within: 0.3 }, surge, lead_ns };
        let planned = Shape::market_day(16 * GIB);
        let days: Vec<RiskDay> = (0..days).map(|seed| risk_day(&setup, &planned, &weather, seed).unwrap()).collect();
        risk(&setup, &weather, &days)
    }

    #[test]
    fn greater_surges_and_slower_launches_leave_the_cluster_behind_more_often() {
        let share = |surge, minutes| of(60.0, surge, minutes * MINUTE_NS, 20).behind_days;
        assert_eq!(share(1.0, 1), 0);
        assert!(share(50.0, 1) >= share(10.0, 1) && share(50.0, 10) > share(1.0, 10));
        assert_eq!(share(50.0, 10), 20);
    }

    #[test]
    fn a_later_request_is_a_greater_risk() {
        let (early, late) = (of(30.0, 10.0, 4 * MINUTE_NS, 20), of(75.0, 10.0, 4 * MINUTE_NS, 20));
        assert!(early.cushion_worst > late.cushion_worst && early.behind_days < late.behind_days, "{early:?} {late:?}");
        assert!(late.behind_longest_ns >= late.behind_median_ns && late.behind_bytes > 0);
    }

    #[test]
    fn a_dead_nodes_rows_take_a_launch_and_a_replay() {
        let risk = of(60.0, 1.0, MINUTE_NS, 1);
        // 80 % of 4 GiB at 200 MiB a second.
        let wanted_ns = MINUTE_NS + 16_384_000_000;
        assert!(risk.rebuild_ns.abs_diff(wanted_ns) < 1_000_000_000, "{}", risk.rebuild_ns);
    }
}
