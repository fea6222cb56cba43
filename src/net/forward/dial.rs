//! Attempts to reach the other process for one client. No sockets; the caller passes the time.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

/// Time for all attempts: less than a client has for its login, and longer than a take-over takes.
const WITHIN: Duration = Duration::from_secs(3);
/// Time for one attempt.
const ATTEMPT: Duration = Duration::from_secs(1);
/// Pause after every address was tried.
const PAUSE: Duration = Duration::from_millis(50);

/// What to do next for a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    Connect(SocketAddr),
    /// Wait until [`Dial::due`].
    Wait,
    GiveUp,
}

/// The attempts for one client.
#[derive(Debug)]
pub(super) struct Dial {
    by: Instant,
    due: Instant,
    rest: VecDeque<SocketAddr>,
    reason: String,
}

impl Dial {
    pub fn new(now: Instant) -> Dial {
        let by = now.checked_add(WITHIN).unwrap_or(now);
        Dial { by, due: now, rest: VecDeque::new(), reason: "no address of it is known".to_string() }
    }

    /// Deadline of the attempt under way, or of the pause.
    pub fn due(&self) -> Instant {
        self.due
    }

    /// Why the last attempt failed.
    pub fn reason(&self) -> &str {
        &self.reason
    }

    /// An attempt failed. Returns the next one, or a pause if each of `targets` was tried.
    pub fn failed(&mut self, reason: String, now: Instant) -> Step {
        self.reason = reason;
        match self.rest.is_empty() {
            true => self.plan(PAUSE, Step::Wait, now),
            false => self.next(&[], now),
        }
    }

    /// The pause is over: the next attempt, from the first of `targets` on.
    pub fn next(&mut self, targets: &[SocketAddr], now: Instant) -> Step {
        if self.rest.is_empty() {
            self.rest = targets.iter().copied().collect();
        }
        match self.rest.pop_front() {
            Some(target) => self.plan(ATTEMPT, Step::Connect(target), now),
            None => self.plan(PAUSE, Step::Wait, now),
        }
    }

    fn plan(&mut self, time: Duration, step: Step, now: Instant) -> Step {
        if now >= self.by {
            return Step::GiveUp;
        }
        self.due = now.checked_add(time).unwrap_or(now).min(self.by);
        step
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_address_is_tried_again_and_again_until_the_time_is_over() {
        let mut now = Instant::now();
        let targets: Vec<SocketAddr> = ["10.0.0.1:5010", "10.0.0.2:5010"].iter().map(|a| a.parse().unwrap()).collect();
        let mut dial = Dial::new(now);
        for _ in 0..3 {
            assert_eq!(dial.next(&targets, now), Step::Connect(targets[0]));
            assert_eq!(dial.failed("refused".to_string(), now), Step::Connect(targets[1]));
            assert_eq!(dial.failed("refused".to_string(), now), Step::Wait);
            now = dial.due();
        }
        assert_eq!(dial.next(&targets, now), Step::Connect(targets[0]));
        now += WITHIN;
        assert_eq!(dial.failed("silent".to_string(), now), Step::GiveUp);
        assert_eq!(dial.reason(), "silent");
    }

    #[test]
    fn without_an_address_it_waits_for_one() {
        let now = Instant::now();
        let mut dial = Dial::new(now);
        assert_eq!(dial.next(&[], now), Step::Wait);
        assert_eq!(dial.next(&[], now + WITHIN), Step::GiveUp);
        assert!(dial.reason().contains("no address"));
    }
}
