//! The group as described by the scaling service, and changes of its capacity.

use super::api;
use super::cloud::Cloud;
use crate::fleet::scaling::{CapacityRequest, Next, StepResult};
use crate::fleet::{Capacity, Description, FleetError, Member, Stage};
use aws_sdk_autoscaling::types::{AutoScalingGroup, LifecycleState, ScalingActivityStatusCode};
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// Maximum number of requests awaiting their instance, for measuring lead times.
const MAX_PENDING_REQUESTS: usize = 16;

/// What this process has observed of the group, as the service does not report how long an instance has existed.
#[derive(Debug, Default)]
pub struct Sightings {
    seen: BTreeMap<String, Sighting>,
    /// Times of requests that no instance has fulfilled yet.
    requested_at: Vec<Instant>,
    /// Latest lead time of the group.
    pub lead: Option<Duration>,
}

/// One instance as observed.
#[derive(Debug)]
struct Sighting {
    since: Instant,
    in_service: bool,
    lead: Option<Duration>,
}

impl Sightings {
    /// Records a request for another instance.
    pub fn requested(&mut self, now: Instant) {
        if self.requested_at.len() < MAX_PENDING_REQUESTS {
            self.requested_at.push(now);
        }
    }

    fn see(&mut self, group: &AutoScalingGroup, now: Instant) {
        let first = self.seen.is_empty();
        let present: BTreeMap<&str, bool> =
            members(group).map(|(id, stage, _)| (id, stage == Stage::InService)).collect();
        self.seen.retain(|instance, _| present.contains_key(instance.as_str()));
        for (instance, in_service) in present {
            let sighting = self.seen.entry(instance.to_string());
            let sighting = sighting.or_insert(Sighting { since: now, in_service: false, lead: None });
            if in_service
                && !std::mem::replace(&mut sighting.in_service, in_service)
                && !first
                && !self.requested_at.is_empty()
            {
                let lead = now.saturating_duration_since(self.requested_at.remove(0));
                sighting.lead = Some(lead);
                self.lead = Some(lead);
            }
        }
    }
}

fn members(group: &AutoScalingGroup) -> impl Iterator<Item = (&str, Stage, bool)> {
    group.instances().iter().filter_map(|instance| {
        let stage = stage(instance.lifecycle_state());
        Some((instance.instance_id()?, stage, instance.protected_from_scale_in().unwrap_or(false)))
    })
}

/// Maps a lifecycle state of the service to a stage.
pub fn stage(state: Option<&LifecycleState>) -> Stage {
    let name = state.map_or("", LifecycleState::as_str);
    match name.split(':').next().unwrap_or_default() {
        "InService" => Stage::InService,
        "Pending" if name == "Pending" => Stage::Pending,
        "Warmed" | "Standby" | "EnteringStandby" => Stage::Standby,
        "Terminating" | "Terminated" | "Detaching" | "Detached" | "Quarantined" => Stage::Terminating,
        _ => Stage::Starting,
    }
}

fn count(number: Option<i32>) -> u32 {
    number.and_then(|number| u32::try_from(number).ok()).unwrap_or(0)
}

/// Returns the group of this name.
///
/// # Errors
/// The call fails, or there is no such group.
pub fn read(cloud: &mut Cloud, name: &str) -> Result<AutoScalingGroup, FleetError> {
    let answer = cloud.scaling(&api::DESCRIBE_GROUP, |client| {
        client.describe_auto_scaling_groups().auto_scaling_group_names(name).send()
    })?;
    let found = answer.auto_scaling_groups.unwrap_or_default().into_iter();
    let mut found = found.filter(|group| group.auto_scaling_group_name() == Some(name));
    found.next().ok_or_else(|| {
        FleetError::Refused(format!("there is no Auto Scaling group {name} in {}", cloud.session.region))
    })
}

/// Describes the group in the fleet's terms.
///
/// # Errors
/// As [`read`].
pub fn describe(cloud: &mut Cloud, name: &str, sightings: &mut Sightings) -> Result<Description, FleetError> {
    let group = read(cloud, name)?;
    let now = Instant::now();
    sightings.see(&group, now);
    let member = |(instance, stage, protected): (&str, Stage, bool)| {
        let sighting = sightings.seen.get(instance);
        Member {
            instance: instance.to_string(),
            stage,
            process: None,
            age: sighting.map_or(Duration::ZERO, |sighting| now.saturating_duration_since(sighting.since)),
            lead_time: sighting.and_then(|sighting| sighting.lead),
            protected,
        }
    };
    Ok(Description {
        group: name.to_string(),
        min: count(group.min_size()),
        desired: count(group.desired_capacity()),
        max: count(group.max_size()),
        lead_time: sightings.lead,
        members: members(&group).map(member).collect(),
    })
}

/// Ends an instance of a group. Unless the desired capacity is decremented, the group launches another one.
///
/// # Errors
/// The call fails.
pub fn terminate(cloud: &mut Cloud, instance: &str, decrement: bool) -> Result<(), FleetError> {
    cloud.scaling(&api::TERMINATE, |client| {
        let call = client.terminate_instance_in_auto_scaling_group().instance_id(instance);
        call.should_decrement_desired_capacity(decrement).send()
    })?;
    Ok(())
}

/// Requests at least `wanted` instances.
///
/// # Errors
/// The request should be retried later.
pub fn at_least(cloud: &mut Cloud, name: &str, wanted: u32, sightings: &mut Sightings) -> Result<Capacity, FleetError> {
    let mut request = CapacityRequest::new(wanted);
    let mut next = Next::Describe;
    loop {
        let result = match next {
            Next::Describe => describe(cloud, name, sightings)
                .map(|group| StepResult::Described { desired: group.desired, max: group.max }),
            Next::Set(desired) => set(cloud, name, desired).map(|()| {
                sightings.requested(Instant::now());
                StepResult::Done
            }),
            Next::Over(capacity) => return Ok(capacity),
            Next::Later(error) => return Err(error),
        };
        next = request.step(result.unwrap_or_else(StepResult::Failed));
    }
}

fn set(cloud: &mut Cloud, name: &str, desired: u32) -> Result<(), FleetError> {
    let desired = i32::try_from(desired).unwrap_or(i32::MAX);
    cloud.scaling(&api::SET_CAPACITY, |client| {
        let call = client.set_desired_capacity().auto_scaling_group_name(name);
        call.desired_capacity(desired).honor_cooldown(false).send()
    })?;
    Ok(())
}

/// Returns why instances are missing: the message of the last failed activity.
///
/// # Errors
/// The call fails.
pub fn failure(cloud: &mut Cloud, name: &str) -> Result<Option<String>, FleetError> {
    let answer = cloud.scaling(&api::DESCRIBE_ACTIVITIES, |client| {
        client.describe_scaling_activities().auto_scaling_group_name(name).max_records(10).send()
    })?;
    let failed = answer.activities().iter().find(|activity| {
        matches!(activity.status_code(), Some(ScalingActivityStatusCode::Failed | ScalingActivityStatusCode::Cancelled))
    });
    Ok(failed.and_then(|activity| activity.status_message().or(activity.description())).map(ToString::to_string))
}
