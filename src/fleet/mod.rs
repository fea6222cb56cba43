//! Launching and ending nodes. A node knows only [`Fleet`]; when to ask for another node and when to go is its policy's
//! business, how nodes come and go is the back end's.
//!
//! | back end | nodes are |
//! |---|---|
//! | [`local`] | child processes of a [`supervisor`] on this machine, which keeps the rules of [`group`] |
//! | `aws` | EC2 instances of an Auto Scaling group (feature `aws`) |
//! | [`dry_run`] | nobody's: what would be asked is printed |

#[cfg(feature = "aws")]
pub mod aws;
pub mod back_off;
pub mod dry_run;
pub mod group;
pub mod local;
mod notice;
pub mod protocol;
pub mod scaling;
pub mod supervisor;

pub use notice::{Notice, Reason};

use std::time::Duration;
use thiserror::Error;

/// Who this process is to the fleet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// The instance's name, given by the fleet and never used again for another.
    pub instance: String,
    /// The group that the instance belongs to; empty without a fleet.
    pub group: String,
}

/// Where an instance stands in its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// Asked for, not running yet.
    Pending,
    /// Running, not yet able to do its work.
    Starting,
    /// Running and ready: a node that waits in its queue, or has left it for live.
    InService,
    /// Kept aside, and not counted: in a warm pool, or in standby.
    Standby,
    /// Told to end.
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
    /// Process on this machine, none while it does not run or where the back end has no such thing.
    pub process: Option<u32>,
    /// Time since it was asked for.
    pub age: Duration,
    /// From asking for it until it was ready.
    pub lead_time: Option<Duration>,
    /// The fleet does not take it when it makes the group smaller.
    pub protected: bool,
}

impl Member {
    /// Whether it is one of those that the group's desired capacity counts.
    pub fn counts(&self) -> bool {
        !matches!(self.stage, Stage::Standby | Stage::Terminating)
    }
}

/// A group as it is now.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Description {
    pub group: String,
    pub min: u32,
    pub desired: u32,
    pub max: u32,
    /// The group's most recent lead time, none before the first instance was ready.
    pub lead_time: Option<Duration>,
    /// In the order in which they were asked for.
    pub members: Vec<Member>,
}

/// What became of a request for capacity.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Capacity {
    /// The group's desired capacity is at least what was asked for; it is this.
    Granted { desired: u32 },
    /// The group stays at this capacity.
    Refused { desired: u32, reason: String },
}

/// Why a request came to nothing. Texts are for operators; they do not change from attempt to attempt.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum FleetError {
    /// The fleet could not be asked: the request may be repeated.
    #[error("the fleet at {address} cannot be reached: {reason}")]
    Unreachable { address: String, reason: String },
    /// The fleet is asked too much, or is busy with the group: the request may be repeated later.
    #[error("{call}: the fleet asks to wait: {reason}")]
    Busy { call: &'static str, reason: String },
    /// No answer came, or one of a fault inside: it may have been carried out or not.
    #[error("{call}: whether it was carried out is not known: {reason}")]
    Unsure { call: &'static str, reason: String },
    /// The credentials of this process are missing, expired, or not taken.
    #[error("{call}: the credentials of this instance's role were not accepted: {reason}")]
    Credentials { call: &'static str, reason: String },
    /// This process lacks a permission.
    #[error("{call} is not allowed: the role of this instance needs the permission {permission} ({reason})")]
    Denied { call: &'static str, permission: &'static str, reason: String },
    /// The fleet says no.
    #[error("the fleet refuses: {0}")]
    Refused(String),
    /// The answer is not what the protocol says.
    #[error("the fleet's answer makes no sense: {0}")]
    Protocol(String),
}

impl FleetError {
    /// Whether the same request may succeed later, if only because an operator has put something right.
    pub fn may_pass(&self) -> bool {
        !matches!(self, FleetError::Refused(_))
    }
}

/// What a node asks of the fleet that it belongs to. Calls may take as long as a network does: not for the thread that
/// takes updates.
pub trait Fleet: Send {
    fn identity(&self) -> &Identity;

    /// The group, with its limits and members.
    fn describe(&mut self) -> Result<Description, FleetError>;

    /// Asks that the group have at least `desired` instances; a node asks for its own position in the queue plus one.
    /// Repeating it changes nothing, and two nodes that ask do not add up. Never more than the group's maximum.
    fn at_least(&mut self, desired: u32) -> Result<Capacity, FleetError>;

    /// Instances to ask for so that there is one behind this one, where nobody tells its position in the queue: its place among
    /// the members in the order of their launch, plus one.
    fn one_more(&mut self) -> Result<u32, FleetError> {
        let group = self.describe()?;
        let own = &self.identity().instance;
        let place = group.members.iter().zip(2u32..).find(|(member, _)| member.instance == *own);
        Ok(place.map_or(group.desired.saturating_add(1), |(_, desired)| desired))
    }

    /// Says that this instance can do its work; its lead time ends here.
    fn ready(&mut self) -> Result<(), FleetError>;

    /// Protects this instance from being taken when the group is made smaller, or no longer. It does not protect it from
    /// being ended by name, found unhealthy, or interrupted: see [`Fleet::notice`].
    fn protect(&mut self, on: bool) -> Result<(), FleetError>;

    /// Whether the fleet is going to end this instance. Cheap, but not free: to be asked every [`Fleet::notice_every`].
    fn notice(&mut self) -> Result<Option<Notice>, FleetError>;

    /// Says that nothing is lost any more if this instance ends, after a [`Notice`]: the fleet need not wait.
    fn released(&mut self) -> Result<(), FleetError>;

    /// Says that this instance ends of its own accord once others hold what it holds. Returns whether the fleet counts it no longer and
    /// launches another in its place at once: a takeover then needs no capacity of its own.
    fn leaving(&mut self) -> Result<bool, FleetError> {
        Ok(false)
    }

    /// Ends another instance, one that never came up; the desired capacity stays, so that a new one takes its place.
    fn replace(&mut self, instance: &str) -> Result<(), FleetError>;

    /// Ends this instance and takes one off the desired capacity, so that it is not replaced. Refused where the group
    /// would fall below its minimum.
    fn terminate_me(&mut self) -> Result<(), FleetError>;

    /// Whether this instance is kept aside for later (a warm pool): it must not join its queue yet. To be asked again every
    /// [`Fleet::notice_every`] until it is not.
    fn is_aside(&mut self) -> Result<bool, FleetError> {
        Ok(false)
    }

    /// Why the group has fewer instances than desired, where it says.
    fn why_missing(&mut self) -> Result<Option<String>, FleetError> {
        Ok(None)
    }

    /// How often to ask for a notice.
    fn notice_every(&self) -> Duration {
        Duration::from_secs(1)
    }

    /// How often to look at the group while nothing is expected of it.
    fn describe_every(&self) -> Duration {
        Duration::from_secs(5)
    }
}
