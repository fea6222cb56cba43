//! The group as the scaling service describes it, and its capacity.

use super::api;
use super::cloud::Cloud;
use crate::fleet::scaling::{Heard, Next, Request};
use crate::fleet::{Capacity, Description, FleetError, Member, Stage};
use aws_sdk_autoscaling::types::{AutoScalingGroup, LifecycleState, ScalingActivityStatusCode};
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// Requests whose instances are waited for, to measure how long they take.
const ASKED_MOST: usize = 16;

/// What this process has seen of the group: the service does not say since when an instance is there.
#[derive(Debug, Default)]
pub struct Sightings {
    seen: BTreeMap<String, Sighting>,
    /// When capacity was asked for that no instance has filled yet.
    asked: Vec<Instant>,
    /// The group's last lead time.
    pub lead: Option<Duration>,
}

#[derive(Debug)]
struct Sighting {
    since: Instant,
    in_service: bool,
    lead: Option<Duration>,
}

impl Sightings {
    /// Capacity for another instance was asked for.
    pub fn asked(&mut self, now: Instant) {
        if self.asked.len() < ASKED_MOST {
            self.asked.push(now);
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
                && !self.asked.is_empty()
            {
                let lead = now.saturating_duration_since(self.asked.remove(0));
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

/// The stages of the scaling service in ours.
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

/// The group of this name.
///
/// # Errors
/// The service's, and that there is no such group.
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

/// The group in the fleet's terms.
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

/// Sees to it that the group has at least so many instances.
///
/// # Errors
/// What is to be tried again later.
pub fn at_least(cloud: &mut Cloud, name: &str, wanted: u32, sightings: &mut Sightings) -> Result<Capacity, FleetError> {
    let mut request = Request::new(wanted);
    let mut next = Next::Describe;
    loop {
        let heard = match next {
            Next::Describe => describe(cloud, name, sightings)
                .map(|group| Heard::Described { desired: group.desired, max: group.max }),
            Next::Set(desired) => set(cloud, name, desired).map(|()| {
                sightings.asked(Instant::now());
                Heard::Done
            }),
            Next::Over(capacity) => return Ok(capacity),
            Next::Later(error) => return Err(error),
        };
        next = request.step(heard.unwrap_or_else(Heard::Failed));
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

/// Why the group has not the instances that it should: what the last activity that failed says.
///
/// # Errors
/// The service's.
pub fn failure(cloud: &mut Cloud, name: &str) -> Result<Option<String>, FleetError> {
    let answer = cloud.scaling(&api::DESCRIBE_ACTIVITIES, |client| {
        client.describe_scaling_activities().auto_scaling_group_name(name).max_records(10).send()
    })?;
    let failed = answer.activities().iter().find(|activity| {
        matches!(activity.status_code(), Some(ScalingActivityStatusCode::Failed | ScalingActivityStatusCode::Cancelled))
    });
    Ok(failed.and_then(|activity| activity.status_message().or(activity.description())).map(ToString::to_string))
}
