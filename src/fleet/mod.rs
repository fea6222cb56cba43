//! Launching and terminating nodes. A node uses only the trait [`Fleet`]: its policy decides when to request a node and
//! when to end, and the back end decides how instances start and stop.
//!
//! | back end | nodes are |
//! |---|---|
//! | [`local`] | child processes of a [`supervisor`] on this machine, which follows the rules of [`group`] |
//! | `aws` | EC2 instances of an Auto Scaling group (feature `aws`) |
//! | [`absent`] | started by hand |

pub mod absent;
#[cfg(feature = "aws")]
pub mod aws;
pub mod back_off;
pub mod group;
pub mod local;
mod notice;
mod program;
pub mod protocol;
pub mod scaling;
pub mod supervisor;

pub use notice::{Notice, Reason};

use std::time::Duration;
use thiserror::Error;

/// Identity of this process in the fleet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// Name of the instance, given by the fleet and never reused.
    pub instance: String,
    /// Group of the instance; empty without a fleet.
    pub group: String,
}

/// Lifecycle stage of an instance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// Requested, not running yet.
    Pending,
    /// Running, not yet able to do its work.
    Starting,
    /// Running and ready: a node that waits in its queue or has since become live.
    InService,
    /// Set aside and not counted: in a warm pool, or in standby.
    Standby,
    /// About to end.
    Terminating,
}

impl Stage {
    pub const fn name(self) -> &'static str {
        match self {
            Stage::Pending => "pending",
            Stage::Starting => "starting",
            Stage::InService => "in service",
            Stage::Standby => "standby",
            Stage::Terminating => "terminating",
        }
    }

    pub const ALL: [Stage; 5] = [Stage::Pending, Stage::Starting, Stage::InService, Stage::Standby, Stage::Terminating];

    pub fn from_name(name: &str) -> Option<Stage> {
        Stage::ALL.into_iter().find(|stage| stage.name() == name)
    }
}

/// One instance of a group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    pub instance: String,
    pub stage: Stage,
    /// Process id on this machine; `None` while it does not run, or if the back end has no process ids.
    pub process: Option<u32>,
    /// Time since it was requested.
    pub age: Duration,
    /// Time from the request until it was ready.
    pub lead_time: Option<Duration>,
    /// Protected from scale-in.
    pub protected: bool,
}

impl Member {
    /// Returns whether the instance counts towards the group's desired capacity.
    pub fn counts(&self) -> bool {
        !matches!(self.stage, Stage::Standby | Stage::Terminating)
    }
}

/// Current state of a group.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Description {
    pub group: String,
    pub min: u32,
    pub desired: u32,
    pub max: u32,
    /// The group's latest lead time; `None` before the first instance was ready.
    pub lead_time: Option<Duration>,
    /// In the order of their requests.
    pub members: Vec<Member>,
}

/// Result of a request for capacity.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Capacity {
    /// The desired capacity, given here, is at least the one requested.
    Granted { desired: u32 },
    /// The group stays at this desired capacity.
    Refused { desired: u32, reason: String },
}

/// Why a call failed. The texts are for operators and stay the same from attempt to attempt.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum FleetError {
    /// The fleet was not reached; the call may be repeated.
    #[error("the fleet at {address} cannot be reached: {reason}")]
    Unreachable { address: String, reason: String },
    /// The fleet throttles calls, or is busy with the group; the call may be repeated later.
    #[error("{call}: throttled by the fleet: {reason}")]
    Busy { call: &'static str, reason: String },
    /// The response was lost or is an internal error: the call may or may not have taken effect.
    #[error("{call}: unknown whether it took effect: {reason}")]
    Unsure { call: &'static str, reason: String },
    /// The credentials of this process are missing, expired or not accepted.
    #[error("{call}: the credentials of this instance's role were rejected: {reason}")]
    Credentials { call: &'static str, reason: String },
    /// The role lacks a permission.
    #[error("{call} is not allowed: the role of this instance needs the permission {permission} ({reason})")]
    Denied { call: &'static str, permission: &'static str, reason: String },
    /// The fleet rejects the call.
    #[error("the fleet rejected the request: {0}")]
    Refused(String),
    /// The response violates the protocol.
    #[error("unexpected reply of the fleet: {0}")]
    Protocol(String),
}

impl FleetError {
    /// Returns whether the same call may succeed later, if only after an operator's fix.
    pub fn may_pass(&self) -> bool {
        !matches!(self, FleetError::Refused(_))
    }
}

/// A node's interface to its fleet. A call may take as long as a network timeout, so it must not run on the ingest thread.
pub trait Fleet: Send {
    fn identity(&self) -> &Identity;

    /// Whether there is a fleet: without one, somebody has to start the nodes.
    fn exists(&self) -> bool {
        true
    }

    /// Describes the group, its limits and its members.
    fn describe(&mut self) -> Result<Description, FleetError>;

    /// Requests that the group have at least `desired` instances, but never more than its maximum; a node requests its
    /// position in the queue plus one. Idempotent: requests of several nodes do not add up.
    fn at_least(&mut self, desired: u32) -> Result<Capacity, FleetError>;

    /// Returns the number of instances to request so that one follows this one, if no tickerplant reports the position
    /// in the queue: this instance's place in launch order, plus one.
    fn one_more(&mut self) -> Result<u32, FleetError> {
        let group = self.describe()?;
        let own = &self.identity().instance;
        let place = group.members.iter().zip(2u32..).find(|(member, _)| member.instance == *own);
        Ok(place.map_or(group.desired.saturating_add(1), |(_, desired)| desired))
    }

    /// Reports that this instance is ready to work; its lead time ends here.
    fn ready(&mut self) -> Result<(), FleetError> {
        Ok(())
    }

    /// Switches scale-in protection of this instance. It does not protect from termination by name, replacement as
    /// unhealthy, or interruption: see [`Fleet::notice`].
    fn protect(&mut self, _on: bool) -> Result<(), FleetError> {
        Ok(())
    }

    /// Returns a notice if the fleet is about to end this instance. Cheap but not free: poll at [`Fleet::notice_every`].
    fn notice(&mut self) -> Result<Option<Notice>, FleetError> {
        Ok(None)
    }

    /// After a [`Notice`], reports that ending this instance loses nothing, so the fleet need not wait.
    fn released(&mut self) -> Result<(), FleetError> {
        Ok(())
    }

    /// Reports that this instance ends on its own once other nodes hold its windows. Returns whether the fleet stops
    /// counting it and launches a replacement at once; the takeover then needs no additional capacity.
    fn leaving(&mut self) -> Result<bool, FleetError> {
        Ok(false)
    }

    /// Ends another instance, one that never came up. The desired capacity stays, so a new instance replaces it.
    fn replace(&mut self, instance: &str) -> Result<(), FleetError>;

    /// Ends this instance and reduces the desired capacity by one, so that it is not replaced. Rejected if the group
    /// would fall below its minimum.
    fn terminate_me(&mut self) -> Result<(), FleetError>;

    /// Returns whether this instance is in a warm pool and must not join its queue yet. Poll at [`Fleet::notice_every`]
    /// until it is not.
    fn is_aside(&mut self) -> Result<bool, FleetError> {
        Ok(false)
    }

    /// Returns why the group has fewer instances than desired, if the fleet reports it.
    fn why_missing(&mut self) -> Result<Option<String>, FleetError> {
        Ok(None)
    }

    /// Poll interval of [`Fleet::notice`].
    fn notice_every(&self) -> Duration {
        Duration::from_secs(1)
    }

    /// Poll interval of [`Fleet::describe`] while no instance is awaited.
    fn describe_every(&self) -> Duration {
        Duration::from_secs(5)
    }
}
