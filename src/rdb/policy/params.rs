//! Parameters of the policy.

use crate::config::units::Scale;

/// Thresholds and times, validated by [`Params::new`].
#[derive(Clone, Debug, PartialEq)]
pub struct Params {
    scale: Scale,
    roll_percent: f64,
    /// With [`Scale::Auto`]: request a successor when the time left is below this many lead times.
    pub lead_times: f64,
    /// Lead time assumed until one was measured.
    pub lead_assumed_ns: i64,
    /// First and longest pause before a rejected request is repeated; it doubles in between.
    pub retry_first_ns: i64,
    pub retry_most_ns: i64,
    /// Timeout after which an unanswered request counts as rejected.
    pub answer_within_ns: i64,
    /// Time for open queries to finish after the end of the day.
    pub drain_ns: i64,
    /// Interval of status reports to the tickerplant.
    pub report_every_ns: i64,
}

/// Invalid thresholds.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
pub enum ThresholdError {
    #[error("the {0} threshold is {1}; it must be from 0 to 100 percent")]
    OutOfRange(&'static str, f64),
    #[error(
        "the scale threshold, {scale}, is above the roll threshold, {roll}: the successor would be requested too late"
    )]
    ScaleAboveRoll { scale: f64, roll: f64 },
}

impl Params {
    /// # Errors
    /// A threshold outside 0 to 100, or a scale threshold above the roll threshold.
    pub fn new(scale: Scale, roll_percent: f64) -> Result<Params, ThresholdError> {
        if !(0.0..=100.0).contains(&roll_percent) {
            return Err(ThresholdError::OutOfRange("roll", roll_percent));
        }
        if let Scale::At(percent) = scale {
            if !(0.0..=100.0).contains(&percent) {
                return Err(ThresholdError::OutOfRange("scale", percent));
            }
            if percent > roll_percent {
                return Err(ThresholdError::ScaleAboveRoll { scale: percent, roll: roll_percent });
            }
        }
        Ok(Params {
            scale,
            roll_percent,
            lead_times: 3.0,
            lead_assumed_ns: 120_000_000_000,
            retry_first_ns: 1_000_000_000,
            retry_most_ns: 60_000_000_000,
            answer_within_ns: 60_000_000_000,
            drain_ns: 30_000_000_000,
            report_every_ns: 1_000_000_000,
        })
    }

    pub fn scale(&self) -> Scale {
        self.scale
    }

    pub fn roll_percent(&self) -> f64 {
        self.roll_percent
    }

    /// Memory level at which a rebuilding node rolls.
    pub(super) fn rebuild_percent(&self) -> f64 {
        f64::midpoint(self.roll_percent, 100.0)
    }
}
