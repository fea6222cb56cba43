//! Since when subscribers do not keep up.

use crate::net::ConnId;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// A subscriber that has not kept up at least once.
#[derive(Debug)]
struct Slow {
    times: u32,
    /// Since when, in local time (nanoseconds from 2000.01.01) and by the steady clock; `None` once it has caught up.
    since: Option<(i64, Instant)>,
}

/// Slow consumers among the open connections.
#[derive(Debug, Default)]
pub(super) struct SlowConsumers(BTreeMap<ConnId, Slow>);

impl SlowConsumers {
    /// Notes that a subscriber has become a slow consumer. Returns whether to log it: the 1st, 2nd, 4th, 8th time and so on, as it may go to
    /// and fro.
    pub fn began(&mut self, conn: ConnId, at_ns: i64, now: Instant) -> bool {
        let slow = self.0.entry(conn).or_insert(Slow { times: 0, since: None });
        slow.times = slow.times.saturating_add(1);
        slow.since.get_or_insert((at_ns, now));
        slow.times.is_power_of_two()
    }

    /// Notes that a subscriber has caught up. Returns how long it took, if its beginning was logged.
    pub fn ended(&mut self, conn: ConnId, now: Instant) -> Option<Duration> {
        let slow = self.0.get_mut(&conn)?;
        let (_, since) = slow.since.take()?;
        slow.times.is_power_of_two().then(|| now.saturating_duration_since(since))
    }

    /// Returns since when a subscriber is a slow consumer; `None` if it is none.
    pub fn since(&self, conn: ConnId) -> Option<(i64, Instant)> {
        self.0.get(&conn)?.since
    }

    pub fn closed(&mut self, conn: ConnId) {
        self.0.remove(&conn);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_log_gets_fewer_lines_of_a_subscriber_that_goes_to_and_fro() {
        let (mut slow, conn, start) = (SlowConsumers::default(), ConnId::new(1, 1), Instant::now());
        let mut logged = Vec::new();
        for time in 1..=8 {
            let now = start + Duration::from_secs(time);
            let begins = slow.began(conn, i64::try_from(time).unwrap(), now);
            assert_eq!(slow.since(conn).map(|(at_ns, _)| at_ns), i64::try_from(time).ok());
            assert_eq!(slow.ended(conn, now + Duration::from_millis(500)).is_some(), begins);
            assert_eq!((slow.since(conn), slow.ended(conn, now)), (None, None));
            logged.extend(begins.then_some(time));
        }
        assert_eq!(logged, [1, 2, 4, 8]);
        slow.closed(conn);
        assert!(slow.0.is_empty());
    }
}
