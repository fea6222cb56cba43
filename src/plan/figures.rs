//! What a day comes to: cost, idle capacity and cushion.

use super::day::DayRun;
use super::prices::InstanceType;
use super::shape::Shape;
use crate::feed::curve::DAY_NS;

const HOUR_NS: f64 = 3.6e12;

/// The paper's stages of a day: before the market opens, while it is open, and afterwards.
pub const STAGES: [&str; 3] = ["night", "market", "evening"];

/// Figures of a day, or of several.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Figures {
    pub days: u32,
    /// Days on which the cluster fell behind.
    pub behind_days: u32,
    /// Most instances at once.
    pub most_nodes: u32,
    /// From each request for an instance to the end of the day.
    pub node_hours: f64,
    pub cost_usd: f64,
    /// Part of the cost of `fixed` that is saved, in per cent.
    pub saving_percent: f64,
    /// Capacity without data, in per cent, over the day and in each stage.
    pub idle_percent: f64,
    pub idle_by_stage: [f64; 3],
    /// Lead times between requests and rolls; `None` if no node rolled.
    pub cushion_median: Option<f64>,
    pub cushion_worst: Option<f64>,
    pub most_behind_bytes: u64,
    pub behind_s: f64,
    /// What lag and dead nodes cost ([`super::losses::Losses`]); not part of `cost_usd`.
    pub losses_usd: f64,
}

/// Cost of one instance that holds the whole day, as before there was a cluster.
pub fn fixed_usd(of: &InstanceType) -> f64 {
    of.usd_per_hour * DAY_NS as f64 / HOUR_NS
}

/// Returns the figures of a day on instances of a type. `shape`: that of the day.
pub fn figures(run: &DayRun, of: &InstanceType, fixed: &InstanceType, shape: &Shape) -> Figures {
    let node_hours = run.paid_ns() as f64 / HOUR_NS;
    let cost_usd = node_hours * of.usd_per_hour;
    let (open_ns, close_ns) = shape.open_hours();
    let stages = [(0, open_ns), (open_ns, close_ns), (close_ns, DAY_NS)];
    let idle = |(from_ns, to_ns): (u64, u64)| {
        let of_stage = || run.samples.iter().filter(|sample| (from_ns..to_ns).contains(&sample.at_ns));
        let capacity: f64 = of_stage().map(|sample| sample.capacity_bytes as f64).sum();
        let used: f64 = of_stage().map(|sample| sample.used_bytes as f64).sum();
        if capacity > 0.0 { 100.0 * (1.0 - used / capacity) } else { 0.0 }
    };
    let mut cushions: Vec<f64> = run.nodes.iter().filter_map(|node| node.cushion).collect();
    cushions.sort_by(f64::total_cmp);
    Figures {
        days: 1,
        behind_days: u32::from(run.behind_ns > 0),
        most_nodes: run.samples.iter().map(|sample| sample.nodes).max().unwrap_or(0),
        node_hours,
        cost_usd,
        saving_percent: 100.0 * (1.0 - cost_usd / fixed_usd(fixed)),
        idle_percent: idle((0, DAY_NS)),
        idle_by_stage: stages.map(idle),
        cushion_median: cushions.get(cushions.len() / 2).copied(),
        cushion_worst: cushions.first().copied(),
        most_behind_bytes: run.most_behind_bytes,
        behind_s: run.behind_ns as f64 / 1e9,
        losses_usd: 0.0,
    }
}

/// Returns the figures of several days on the same instances: means of cost and idle capacity, the medians' median of the cushions, and the worst
/// of everything else.
pub fn over(days: &[Figures]) -> Figures {
    let count = (days.len() as f64).max(1.0);
    let mean = |of: fn(&Figures) -> f64| days.iter().map(of).sum::<f64>() / count;
    let mut medians: Vec<f64> = days.iter().filter_map(|day| day.cushion_median).collect();
    medians.sort_by(f64::total_cmp);
    Figures {
        days: u32::try_from(days.len()).unwrap_or(u32::MAX),
        behind_days: days.iter().map(|day| day.behind_days).sum(),
        most_nodes: days.iter().map(|day| day.most_nodes).max().unwrap_or(0),
        node_hours: mean(|day| day.node_hours),
        cost_usd: mean(|day| day.cost_usd),
        saving_percent: mean(|day| day.saving_percent),
        idle_percent: mean(|day| day.idle_percent),
        idle_by_stage: [
            mean(|day| day.idle_by_stage[0]),
            mean(|day| day.idle_by_stage[1]),
            mean(|day| day.idle_by_stage[2]),
        ],
        cushion_median: medians.get(medians.len() / 2).copied(),
        cushion_worst: days.iter().filter_map(|day| day.cushion_worst).min_by(f64::total_cmp),
        most_behind_bytes: days.iter().map(|day| day.most_behind_bytes).max().unwrap_or(0),
        behind_s: days.iter().map(|day| day.behind_s).fold(0.0, f64::max),
        losses_usd: mean(|day| day.losses_usd),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn several_days_have_the_mean_cost_and_the_worst_cushion() {
        let day = |cost_usd, cushion, behind_s| Figures {
            days: 1,
            behind_days: u32::from(behind_s > 0.0),
            most_nodes: 3,
            cost_usd,
            cushion_median: Some(cushion),
            cushion_worst: Some(cushion / 2.0),
            behind_s,
            ..Figures::default()
        };
        let all = over(&[day(2.0, 8.0, 0.0), day(4.0, 6.0, 30.0), day(6.0, 10.0, 0.0)]);
        let wanted = Figures {
            days: 3,
            behind_days: 1,
            most_nodes: 3,
            cost_usd: 4.0,
            cushion_median: Some(8.0),
            cushion_worst: Some(3.0),
            behind_s: 30.0,
            ..Figures::default()
        };
        assert_eq!(all, wanted);
        assert_eq!(over(&[]), Figures::default());
    }
}
