//! Values of a process's metrics at one moment.

use super::table::{Id, Process};

/// A value that may be unknown.
pub trait Figure {
    fn figure(self) -> Option<f64>;
}

impl Figure for f64 {
    fn figure(self) -> Option<f64> {
        self.is_finite().then_some(self)
    }
}

impl Figure for u64 {
    fn figure(self) -> Option<f64> {
        // Exact up to 2^53, like the readers of these values.
        Some(self as f64)
    }
}

impl Figure for usize {
    fn figure(self) -> Option<f64> {
        (self as u64).figure()
    }
}

impl Figure for bool {
    fn figure(self) -> Option<f64> {
        Some(f64::from(u8::from(self)))
    }
}

impl<T: Figure> Figure for Option<T> {
    fn figure(self) -> Option<f64> {
        self.and_then(T::figure)
    }
}

/// One value of a metric.
#[derive(Clone, Debug, PartialEq)]
pub struct Sample {
    /// Values of the metric's labels, in order.
    pub labels: Vec<String>,
    /// Finite.
    pub value: f64,
}

/// Values of one metric.
#[derive(Clone, Debug, Default, PartialEq)]
struct Entry {
    /// Whether the process has set the metric, if only as unknown.
    is_set: bool,
    samples: Vec<Sample>,
}

/// Values of all metrics of a process.
#[derive(Clone, Debug, PartialEq)]
pub struct Snapshot {
    process: Process,
    /// By index in the table.
    entries: Vec<Entry>,
}

impl Snapshot {
    pub fn new(process: Process) -> Snapshot {
        Snapshot { process, entries: vec![Entry::default(); Id::ALL.len()] }
    }

    pub fn process(&self) -> Process {
        self.process
    }

    /// Sets a metric without labels. An unknown value is left out.
    pub fn set(&mut self, id: Id, value: impl Figure) {
        self.add(id, &[], value);
    }

    /// Adds a value of a metric with these labels, in the order of the table.
    pub fn add(&mut self, id: Id, labels: &[&str], value: impl Figure) {
        let Some(entry) = self.entries.get_mut(id as usize) else { return };
        entry.is_set = true;
        if let Some(value) = value.figure() {
            let labels = labels.iter().map(|label| label.to_string()).collect();
            entry.samples.push(Sample { labels, value });
        }
    }

    /// Marks a metric as having no value now, for example because there is no queue.
    pub fn none(&mut self, id: Id) {
        if let Some(entry) = self.entries.get_mut(id as usize) {
            entry.is_set = true;
        }
    }

    /// Returns all values of a metric.
    pub fn samples(&self, id: Id) -> &[Sample] {
        self.entries.get(id as usize).map_or(&[], |entry| &entry.samples)
    }

    /// Returns the value of a metric without labels.
    pub fn value(&self, id: Id) -> Option<f64> {
        self.samples(id).iter().find(|sample| sample.labels.is_empty()).map(|sample| sample.value)
    }

    /// Returns the metrics that this process must set but did not, and those it set but must not.
    pub fn faults(&self) -> Vec<Id> {
        let is_set = |id: &Id| self.entries.get(*id as usize).is_some_and(|entry| entry.is_set);
        Id::ALL.iter().copied().filter(|id| is_set(id) != id.metric().of.includes(self.process)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_values_are_omitted_but_described() {
        let mut snapshot = Snapshot::new(Process::Node);
        snapshot.set(Id::Cushion, None::<f64>);
        snapshot.set(Id::LeadTime, f64::NAN);
        snapshot.set(Id::Lag, Some(7u64));
        assert_eq!((snapshot.value(Id::Cushion), snapshot.value(Id::LeadTime)), (None, None));
        assert_eq!(snapshot.value(Id::Lag), Some(7.0));
        assert!(!snapshot.faults().contains(&Id::Cushion));
    }

    #[test]
    fn gaps_and_foreign_updates_are_faults() {
        let mut snapshot = Snapshot::new(Process::Tick);
        snapshot.set(Id::Lag, 1u64);
        assert!(snapshot.faults().contains(&Id::Lag) && snapshot.faults().contains(&Id::TickUp));
        assert!(!snapshot.faults().contains(&Id::Cushion));
    }
}
