//! Notices of the instance metadata service that the instance is about to end.

use super::cloud::Cloud;
use crate::fleet::{FleetError, Notice, Reason};
use jiff::Timestamp;
use serde::Deserialize;
use std::time::Duration;

/// The lifecycle state that the group is moving the instance to; 404 outside a group.
const TARGET: &str = "autoscaling/target-lifecycle-state";
const SPOT: &str = "spot/instance-action";
const REBALANCE: &str = "events/recommendations/rebalance";

/// A spot notice precedes the interruption by at most this.
const SPOT_AHEAD: Duration = Duration::from_secs(120);

/// Returns the target lifecycle state, such as `InService`, `Terminated` or `Warmed:Stopped`.
///
/// # Errors
/// The metadata service is unreachable.
pub fn target(cloud: &Cloud) -> Result<Option<String>, FleetError> {
    Ok(cloud.metadata(TARGET)?.map(|state| state.trim().to_string()))
}

/// Returns the most urgent notice. A termination by the group has no known time here.
///
/// # Errors
/// The metadata service is unreachable.
pub fn read(cloud: &Cloud) -> Result<Option<Notice>, FleetError> {
    if let Some(text) = cloud.metadata(SPOT)? {
        return Ok(spot(&text, Timestamp::now()));
    }
    if target(cloud)?.is_some_and(|state| state == "Terminated") {
        return Ok(Some(Notice { reason: Reason::Terminating, left: None }));
    }
    let rebalance = cloud.metadata(REBALANCE)?;
    Ok(rebalance.map(|_| Notice { reason: Reason::Rebalance, left: None }))
}

/// The document `spot/instance-action`.
#[derive(Deserialize)]
struct SpotAction {
    /// Any value: an unreadable time must not hide the action.
    #[serde(default)]
    time: serde_json::Value,
}

/// The instance's identity document.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Identity {
    pending_time: String,
}

/// Parses `{"action": "terminate", "time": "2017-09-18T08:22:00Z"}`. Every action counts, as each loses or freezes the memory.
fn spot(text: &str, now: Timestamp) -> Option<Notice> {
    let action: SpotAction = serde_json::from_str(text).ok()?;
    let at = action.time.as_str().and_then(|time| time.parse::<Timestamp>().ok());
    // A slow local clock must not make the time longer than AWS grants.
    let left = at.map(|at| Duration::try_from(at.duration_since(now)).unwrap_or(Duration::ZERO).min(SPOT_AHEAD));
    Some(Notice { reason: Reason::SpotInterruption, left })
}

/// Returns when the instance was launched: `pendingTime` of its identity document.
pub fn launched(document: &str) -> Option<Timestamp> {
    let identity: Identity = serde_json::from_str(document).ok()?;
    identity.pending_time.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> Timestamp {
        text.parse().expect("a time")
    }

    #[test]
    fn a_spot_notice_says_how_much_time_is_left() {
        let notice = spot(r#"{"action":"terminate","time":"2026-01-02T03:06:00Z"}"#, at("2026-01-02T03:04:00Z"));
        let left = Some(Duration::from_secs(120));
        assert_eq!(notice, Some(Notice { reason: Reason::SpotInterruption, left }));
    }

    #[test]
    fn a_spot_notice_of_the_past_leaves_no_time() {
        let notice = spot(r#"{"action":"stop","time":"2026-01-02T03:00:00Z"}"#, at("2026-01-02T03:04:00Z"));
        assert_eq!(notice.and_then(|notice| notice.left), Some(Duration::ZERO));
    }

    #[test]
    fn a_clock_that_is_slow_adds_no_time_to_a_spot_notice() {
        let notice = spot(r#"{"action":"stop","time":"2026-01-02T03:06:00Z"}"#, at("2026-01-02T02:04:00Z"));
        assert_eq!(notice.and_then(|notice| notice.left), Some(SPOT_AHEAD));
    }

    #[test]
    fn a_spot_notice_without_a_time_is_one() {
        assert_eq!(spot("{}", Timestamp::UNIX_EPOCH).map(|notice| notice.left), Some(None));
        assert_eq!(spot("what?", Timestamp::UNIX_EPOCH), None);
    }

    #[test]
    fn the_identity_document_says_when_it_was_launched() {
        let document = r#"{"pendingTime" : "2026-01-02T03:04:05Z", "region" : "eu-west-1"}"#;
        assert_eq!(launched(document), Some(at("2026-01-02T03:04:05Z")));
        assert_eq!(launched(r#"{"region":"eu-west-1"}"#), None);
    }
}
