//! Full status of a group for operators: `elastick fleet status`.

use super::cloud::Cloud;
use super::group::{self, Sightings};
use super::session::Endpoints;
use super::{api, identity};
use crate::fleet::{Description, FleetError};
use aws_sdk_autoscaling::types::ScalingActivityStatusCode;
use aws_sdk_ec2::types::InstanceType;
use jiff::Timestamp;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// Details of an instance that the fleet's description lacks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Detail {
    pub kind: Option<String>,
    pub memory_bytes: Option<u64>,
    pub zone: Option<String>,
    pub address: Option<String>,
}

/// A group with details of its instances.
#[derive(Clone, Debug, Default)]
pub struct Status {
    pub group: Description,
    pub details: BTreeMap<String, Detail>,
    /// Problems, including details that could not be read.
    pub notes: Vec<String>,
}

/// A step that adds details to a described group.
type Part = fn(&mut Cloud, &mut Status) -> Result<(), FleetError>;

/// Returns the status of the group `name`, or of this instance's group.
///
/// # Errors
/// The group cannot be described; other failures become notes.
pub fn read(endpoints: Endpoints, name: Option<&str>) -> Result<Status, FleetError> {
    let mut cloud = Cloud::open(endpoints)?;
    let name = match name {
        Some(name) => name.to_string(),
        None => {
            let instance = identity::instance(&cloud)?;
            identity::group(&mut cloud, &instance)?
        }
    };
    let mut status =
        Status { group: group::describe(&mut cloud, &name, &mut Sightings::default())?, ..Status::default() };
    for part in [activities, instances, types] as [Part; 3] {
        if let Err(error) = part(&mut cloud, &mut status) {
            status.notes.push(error.to_string());
        }
    }
    Ok(status)
}

/// Adds lead times of present instances, and the reason why others are missing.
fn activities(cloud: &mut Cloud, status: &mut Status) -> Result<(), FleetError> {
    let name = status.group.group.clone();
    let answer = cloud.scaling(&api::DESCRIBE_ACTIVITIES, |client| {
        client.describe_scaling_activities().auto_scaling_group_name(&name).max_records(100).send()
    })?;
    // The service returns the newest first.
    for activity in answer.activities().iter().rev() {
        let took = activity.start_time().zip(activity.end_time());
        let took = took.and_then(|(from, to)| u64::try_from(to.secs().saturating_sub(from.secs())).ok());
        let launched = activity.description().and_then(|text| text.strip_prefix("Launching a new EC2 instance: "));
        let (Some(took), Some(instance)) = (took.map(Duration::from_secs), launched) else { continue };
        if activity.status_code() == Some(&ScalingActivityStatusCode::Successful) {
            status.group.lead_time = Some(took);
            for member in status.group.members.iter_mut().filter(|member| member.instance == instance.trim()) {
                member.lead_time = Some(took);
            }
        }
    }
    let counting = status.group.members.iter().filter(|member| member.counts()).count();
    if counting < status.group.desired as usize
        && let Some(reason) = group::failure(cloud, &name)?
    {
        status.notes.push(format!("instances are missing: {reason}"));
    }
    Ok(())
}

fn instances(cloud: &mut Cloud, status: &mut Status) -> Result<(), FleetError> {
    let ids: Vec<String> = status.group.members.iter().map(|member| member.instance.clone()).collect();
    if ids.is_empty() {
        return Ok(());
    }
    let answer =
        cloud.ec2(&api::DESCRIBE_INSTANCES, |client| client.describe_instances().set_instance_ids(Some(ids)).send())?;
    let now = Timestamp::now();
    for instance in answer.reservations().iter().flat_map(|reservation| reservation.instances()) {
        let Some(id) = instance.instance_id() else { continue };
        let launched = instance.launch_time().and_then(|time| Timestamp::from_second(time.secs()).ok());
        let age = launched.and_then(|launched| Duration::try_from(now.duration_since(launched)).ok());
        for member in status.group.members.iter_mut().filter(|member| member.instance == id) {
            member.age = age.unwrap_or(member.age);
        }
        let zone = instance.placement().and_then(|placement| placement.availability_zone());
        let detail = Detail {
            kind: instance.instance_type().map(|kind| kind.as_str().to_string()),
            memory_bytes: None,
            zone: zone.map(ToString::to_string),
            address: instance.private_ip_address().map(ToString::to_string),
        };
        status.details.insert(id.to_string(), detail);
    }
    Ok(())
}

fn types(cloud: &mut Cloud, status: &mut Status) -> Result<(), FleetError> {
    let kinds: BTreeSet<&str> = status.details.values().filter_map(|detail| detail.kind.as_deref()).collect();
    let kinds: Vec<InstanceType> = kinds.into_iter().map(InstanceType::from).collect();
    if kinds.is_empty() {
        return Ok(());
    }
    let answer = cloud
        .ec2(&api::DESCRIBE_TYPES, |client| client.describe_instance_types().set_instance_types(Some(kinds)).send())?;
    for kind in answer.instance_types() {
        let mebibytes = kind.memory_info().and_then(|memory| memory.size_in_mib());
        let bytes = mebibytes.and_then(|n| u64::try_from(n).ok()).and_then(|n| n.checked_mul(1 << 20));
        let name = kind.instance_type().map(InstanceType::as_str);
        for detail in status.details.values_mut().filter(|detail| detail.kind.as_deref() == name) {
            detail.memory_bytes = bytes;
        }
    }
    Ok(())
}
