//! Values of snapshots to publish, by period, kept until they are published. Pure.

use super::snapshot::Snapshot;
use super::table::{CloudWatch, Id, Kind};
use std::collections::{HashMap, VecDeque};
use std::time::SystemTime;

/// A value to publish.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Datum {
    pub metric: CloudWatch,
    /// Finite.
    pub value: f64,
}

/// Values of one period.
#[derive(Clone, Debug, PartialEq)]
pub struct Period {
    /// End of the period.
    pub at: SystemTime,
    pub data: Vec<Datum>,
}

/// Periods not yet published.
#[derive(Debug)]
pub struct Periods {
    /// Counters at the end of the last period.
    counted: HashMap<Id, f64>,
    waiting: VecDeque<Period>,
    most: usize,
}

impl Periods {
    /// Keeps at most `most` periods.
    pub fn new(most: usize) -> Periods {
        Periods { counted: HashMap::new(), waiting: VecDeque::new(), most: most.max(1) }
    }

    /// Adds the snapshot at the end of a period: gauges as values, counters as the increase since the last period. Returns the number of
    /// old periods dropped for it.
    pub fn add(&mut self, snapshot: &Snapshot, at: SystemTime) -> usize {
        let mut data = Vec::new();
        for id in Id::ALL.iter().copied() {
            let Some(metric) = id.metric().cloudwatch.filter(|of| of.of.includes(snapshot.process())) else { continue };
            let Some(value) = snapshot.value(id) else { continue };
            let value = match id.metric().kind {
                Kind::Gauge => value,
                Kind::Counter => (value - self.counted.insert(id, value).unwrap_or(0.0)).max(0.0),
            };
            data.push(Datum { metric, value: metric.scaled(value) });
        }
        if data.is_empty() {
            return 0;
        }
        self.waiting.push_back(Period { at, data });
        let over = self.waiting.len().saturating_sub(self.most);
        self.waiting.drain(..over);
        self.waiting.make_contiguous();
        over
    }

    /// Returns the oldest periods that together have at most `values_most` values, but at least one period.
    pub fn oldest(&self, values_most: usize) -> &[Period] {
        let (front, _) = self.waiting.as_slices();
        let mut values = 0usize;
        let fits = |period: &&Period| {
            values = values.saturating_add(period.data.len());
            values <= values_most
        };
        let count = front.iter().take_while(fits).count().max(1);
        front.get(..count).unwrap_or_default()
    }

    /// Removes the oldest periods after they were published.
    pub fn taken(&mut self, periods: usize) {
        self.waiting.drain(..periods.min(self.waiting.len()));
    }

    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::table::{Process, Unit};
    use std::time::Duration;

    fn at(second: u64) -> SystemTime {
        SystemTime::UNIX_EPOCH + Duration::from_secs(second)
    }

    fn node(updates: u64, memory: f64) -> Snapshot {
        let mut snapshot = Snapshot::new(Process::Node);
        snapshot.set(Id::Updates, updates);
        snapshot.set(Id::MemoryRatio, memory);
        snapshot
    }

    fn value(period: &Period, name: &str) -> Option<f64> {
        period.data.iter().find(|datum| datum.metric.name == name).map(|datum| datum.value)
    }

    #[test]
    fn counters_are_published_as_increases_and_gauges_as_values() {
        let mut periods = Periods::new(9);
        for (second, updates, memory) in [(0, 10, 0.5), (60, 10, 0.25), (120, 17, 0.25)] {
            periods.add(&node(updates, memory), at(second));
        }
        let shown: Vec<_> =
            periods.oldest(1000).iter().map(|p| (value(p, "UpdateCount"), value(p, "MemoryUsage"))).collect();
        assert_eq!(shown, [(Some(10.0), Some(50.0)), (Some(0.0), Some(25.0)), (Some(7.0), Some(25.0))]);
    }

    #[test]
    fn unknown_and_foreign_updates_are_omitted() {
        let mut periods = Periods::new(9);
        let mut snapshot = node(1, 0.1);
        snapshot.set(Id::Cushion, None::<f64>);
        snapshot.set(Id::UpdatesRefused, 3u64);
        snapshot.set(Id::Connections, 2u64);
        periods.add(&snapshot, at(0));
        let period = &periods.oldest(1000)[0];
        assert_eq!((value(period, "Cushion"), value(period, "Quarantined")), (None, None));
        let units: Vec<Unit> = period.data.iter().map(|datum| datum.metric.unit).collect();
        assert_eq!(units, [Unit::Count, Unit::Count, Unit::Percent]);
    }

    #[test]
    fn the_oldest_make_room_and_nothing_is_lost_but_they() {
        let mut periods = Periods::new(3);
        let dropped: Vec<usize> = (0..5).map(|i| periods.add(&node(i * 10, 0.0), at(i))).collect();
        assert_eq!(dropped, [0, 0, 0, 1, 1]);
        let kept: Vec<_> = periods.oldest(1000).iter().map(|p| (p.at, value(p, "UpdateCount"))).collect();
        assert_eq!(kept, [(at(2), Some(10.0)), (at(3), Some(10.0)), (at(4), Some(10.0))]);
    }

    #[test]
    fn whole_periods_are_taken_up_to_a_number_of_values() {
        let mut periods = Periods::new(9);
        for second in 0..4 {
            periods.add(&node(second, 0.0), at(second));
        }
        assert_eq!(periods.oldest(5).len(), 2);
        assert_eq!(periods.oldest(1).len(), 1);
        periods.taken(3);
        assert_eq!(periods.oldest(1000).iter().map(|p| p.at).collect::<Vec<_>>(), [at(3)]);
        periods.taken(1);
        assert!(periods.is_empty() && periods.oldest(1000).is_empty());
    }
}
