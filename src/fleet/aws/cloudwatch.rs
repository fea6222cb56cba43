//! Publisher thread for the paper's metrics: sends a process's values to CloudWatch, period by period.
//!
//! It requests snapshots like any monitor and runs apart from the process's work, so failing calls cost nothing but
//! this thread's time. Unpublished periods are kept for a while, retried with growing pauses and jitter, and dropped
//! oldest first. A call whose response is lost is repeated, so CloudWatch may get a period twice.

use super::api::{self, Api, Purpose};
use super::session::{Service, Session};
use crate::fleet::back_off::BackOff;
use crate::fleet::{FleetError, Identity};
use crate::metrics::periods::{Period, Periods};
use crate::metrics::{self, Id, Tap, Unit};
use aws_sdk_cloudwatch::Client;
use aws_sdk_cloudwatch::primitives::DateTime;
use aws_sdk_cloudwatch::types::{Dimension, MetricDatum, StandardUnit};
use std::io;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::time::{Duration, Instant, SystemTime};

/// The paper's namespace.
pub const NAMESPACE: &str = "RdbCluster";
const GROUP: &str = "AutoScalingGroupName";
const INSTANCE: &str = "InstanceId";

/// Maximum number of values per call, an API limit. A value takes about 200 bytes, so a call stays far below 1 MB.
const MAX_VALUES: usize = 1000;
/// Periods kept while CloudWatch is unreachable.
const MAX_PERIODS: usize = 60;
/// Time for the process's loop to fill a snapshot.
const SNAPSHOT_WITHIN: Duration = Duration::from_secs(5);
/// First and longest ceiling of the retry pauses.
const PAUSE_FIRST_NS: u64 = 2_000_000_000;
const MAX_PAUSE_NS: u64 = 120_000_000_000;
/// Time limit of the last call when the process ends.
const LAST_CALL: Duration = Duration::from_secs(1);
/// Longest delay of the process's end by this thread.
const END_WITHIN: Duration = Duration::from_millis(1500);

static PUT: Api =
    Api { name: "PutMetricData", permission: "cloudwatch:PutMetricData", purpose: Purpose::Describe, changes: false };

/// Handle to the publisher thread, which ends when this is dropped.
pub struct Publisher {
    end: Option<Sender<()>>,
    ended: Receiver<()>,
}

/// Starts publishing this instance's values at the interval `every`.
///
/// # Errors
/// The thread cannot start.
pub fn start(tap: Tap, identity: Identity, every: Duration) -> io::Result<Publisher> {
    let (end, stop) = mpsc::channel();
    let (going, ended) = mpsc::channel();
    let worker = Worker {
        tap,
        identity,
        every,
        periods: Periods::new(MAX_PERIODS),
        connection: None,
        back_off: BackOff::new(PAUSE_FIRST_NS, MAX_PAUSE_NS),
        not_before: None,
    };
    crate::sys::stack::thread("cloudwatch".into()).spawn(move || {
        let _going = going;
        if let Err(error) = worker.run(&stop) {
            tracing::error!(%error, "metrics will not be published");
        }
    })?;
    Ok(Publisher { end: Some(end), ended })
}

impl Drop for Publisher {
    fn drop(&mut self) {
        self.end.take();
        // Nothing is sent on this channel: it disconnects when the thread ends.
        let _ = self.ended.recv_timeout(END_WITHIN);
    }
}

struct Connection {
    client: Client,
    address: String,
}

/// State of the publisher thread.
struct Worker {
    tap: Tap,
    identity: Identity,
    every: Duration,
    periods: Periods,
    connection: Option<Connection>,
    back_off: BackOff,
    /// Time of the next attempt after a failure.
    not_before: Option<Instant>,
}

impl Worker {
    fn run(mut self, stop: &Receiver<()>) -> io::Result<()> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let mut next = Instant::now().checked_add(self.every);
        loop {
            let attempt = self.not_before.filter(|_| !self.periods.is_empty());
            let Some(until) = [next, attempt].into_iter().flatten().min() else { return Ok(()) };
            match stop.recv_timeout(until.saturating_duration_since(Instant::now())) {
                Err(RecvTimeoutError::Timeout) => {}
                Ok(()) | Err(RecvTimeoutError::Disconnected) => {
                    if !self.periods.is_empty() && self.back_off.failures() == 0 {
                        // Result and timeout are ignored, as the process ends either way.
                        let _ = runtime.block_on(async { tokio::time::timeout(LAST_CALL, self.publish()).await });
                    }
                    return Ok(());
                }
            }
            if next.is_some_and(|next| Instant::now() >= next) {
                next = Instant::now().checked_add(self.every);
                self.gather();
            }
            if self.not_before.is_none_or(|at| Instant::now() >= at) {
                self.attempt(&runtime);
            }
        }
    }

    /// Collects the values of the period that ends now. If the loop does not respond, the period has no values, and
    /// alarms see that.
    fn gather(&mut self) {
        let Some(snapshot) = self.tap.take(SNAPSHOT_WITHIN) else {
            return tracing::warn!("no metrics to publish: the event loop has not replied within {SNAPSHOT_WITHIN:?}");
        };
        for _ in 0..self.periods.add(&snapshot, SystemTime::now()) {
            metrics::count(Id::CloudWatchDropped);
        }
    }

    fn attempt(&mut self, runtime: &tokio::runtime::Runtime) {
        while !self.periods.is_empty() {
            match runtime.block_on(self.publish()) {
                Ok(periods) => {
                    if self.back_off.failures() > 0 {
                        tracing::info!("publishing metrics works again");
                    }
                    (0..periods).for_each(|_| metrics::count(Id::CloudWatchSent));
                    self.back_off = BackOff::new(PAUSE_FIRST_NS, MAX_PAUSE_NS);
                    self.not_before = None;
                }
                Err(error) => {
                    metrics::count(Id::CloudWatchFailed);
                    if self.back_off.failures() == 0 {
                        tracing::warn!(%error, "cannot publish metrics; retrying");
                    } else {
                        tracing::debug!(%error, "still cannot publish metrics");
                    }
                    if let FleetError::Refused(_) = error {
                        // These values would be rejected again later.
                        self.periods.taken(1);
                        metrics::count(Id::CloudWatchDropped);
                    }
                    let pause = Duration::from_nanos(self.back_off.pause_ns(fastrand::f64()));
                    self.not_before = Instant::now().checked_add(pause);
                    return;
                }
            }
        }
    }

    /// Publishes the oldest periods in one call; returns their number.
    async fn publish(&mut self) -> Result<usize, FleetError> {
        let connection = match &self.connection {
            Some(connection) => connection,
            None => self.connection.insert(connect().await?),
        };
        let periods = self.periods.oldest(MAX_VALUES);
        let data = periods.iter().flat_map(|period| data(period, &self.identity)).collect();
        let call = connection.client.put_metric_data().namespace(NAMESPACE).set_metric_data(Some(data));
        call.send().await.map_err(|error| api::explain(&PUT, &connection.address, &error))?;
        let count = periods.len();
        self.periods.taken(count);
        Ok(count)
    }
}

async fn connect() -> Result<Connection, FleetError> {
    let session = Session::open().await?;
    let client = Client::new(&session.config(Service::CloudWatch));
    Ok(Connection { client, address: session.address(Service::CloudWatch) })
}

/// Builds the values of a period, once for each set of dimensions.
fn data(period: &Period, identity: &Identity) -> Vec<MetricDatum> {
    let dimension = |name: &str, value: &str| Dimension::builder().name(name).value(value).build();
    let group = || vec![dimension(GROUP, &identity.group)];
    let own = || [group(), vec![dimension(INSTANCE, &identity.instance)]].concat();
    let mut data = Vec::new();
    for datum in &period.data {
        let of = |dimensions: Vec<Dimension>| {
            MetricDatum::builder()
                .metric_name(datum.metric.name)
                .set_dimensions(Some(dimensions))
                .unit(unit(datum.metric.unit))
                .value(datum.value)
                .timestamp(DateTime::from(period.at))
                .build()
        };
        data.push(of(own()));
        if datum.metric.per_group {
            data.push(of(group()));
        }
    }
    data
}

fn unit(unit: Unit) -> StandardUnit {
    match unit {
        Unit::Count => StandardUnit::Count,
        Unit::Bytes => StandardUnit::Bytes,
        Unit::Seconds => StandardUnit::Seconds,
        Unit::Percent => StandardUnit::Percent,
        Unit::None => StandardUnit::None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::{Process, Snapshot};

    #[test]
    fn every_unit_is_one_of_the_apis() {
        for of in Unit::ALL {
            assert_eq!(unit(of).as_str(), of.name());
            assert!(StandardUnit::values().contains(&of.name()), "{}", of.name());
        }
    }

    #[test]
    fn a_value_that_alarms_look_at_is_published_for_the_group_too() {
        let identity = Identity { instance: "i-1".to_string(), group: "g".to_string() };
        let mut snapshot = Snapshot::new(Process::Node);
        snapshot.set(Id::Cushion, 2.5);
        snapshot.set(Id::LeadTime, 60.0);
        let mut periods = Periods::new(1);
        periods.add(&snapshot, SystemTime::UNIX_EPOCH);
        let data = data(&periods.oldest(1000)[0], &identity);
        let shown: Vec<(&str, Vec<&str>)> = data
            .iter()
            .map(|datum| {
                let dimensions = datum.dimensions().iter().filter_map(|dimension| dimension.value());
                (datum.metric_name().unwrap_or(""), dimensions.collect())
            })
            .collect();
        assert_eq!(shown, [("LeadTime", vec!["g", "i-1"]), ("Cushion", vec!["g", "i-1"]), ("Cushion", vec!["g"])]);
        assert_eq!(data[1].value(), Some(2.5));
    }
}
