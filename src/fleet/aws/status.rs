//! Full status of a group for operators: `elastick fleet status`.

use super::cloud::Cloud;
use super::ec2::numbered;
use super::group::{self, Sightings};
use super::session::Endpoints;
use super::{api, identity};
use crate::fleet::{Description, FleetError};
use aws_sdk_autoscaling::types::ScalingActivityStatusCode;
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
    let ids: Vec<&str> = status.group.members.iter().map(|member| member.instance.as_str()).collect();
    if ids.is_empty() {
        return Ok(());
    }
    let path = ["reservationSet", "item", "instancesSet", "item"];
    let wanted = ["instanceId", "launchTime", "instanceType", "availabilityZone", "privateIpAddress"];
    let found = cloud.ec2(&api::DESCRIBE_INSTANCES, numbered("InstanceId", ids), &path, &wanted)?;
    let now = Timestamp::now();
    for mut instance in found {
        let Some(id) = instance.remove("instanceId") else { continue };
        let launched = instance.get("launchTime").and_then(|time| time.parse::<Timestamp>().ok());
        let age = launched.and_then(|launched| Duration::try_from(now.duration_since(launched)).ok());
        for member in status.group.members.iter_mut().filter(|member| member.instance == id) {
            member.age = age.unwrap_or(member.age);
        }
        let detail = Detail {
            kind: instance.remove("instanceType"),
            memory_bytes: None,
            zone: instance.remove("availabilityZone"),
            address: instance.remove("privateIpAddress"),
        };
        status.details.insert(id, detail);
    }
    Ok(())
}

fn types(cloud: &mut Cloud, status: &mut Status) -> Result<(), FleetError> {
    let kinds: BTreeSet<&str> = status.details.values().filter_map(|detail| detail.kind.as_deref()).collect();
    if kinds.is_empty() {
        return Ok(());
    }
    let (path, wanted) = (["instanceTypeSet", "item"], ["instanceType", "sizeInMiB"]);
    let found = cloud.ec2(&api::DESCRIBE_TYPES, numbered("InstanceType", kinds), &path, &wanted)?;
    for kind in found {
        let mebibytes = kind.get("sizeInMiB").and_then(|size| size.parse::<u64>().ok());
        let bytes = mebibytes.and_then(|size| size.checked_mul(1 << 20));
        let name = kind.get("instanceType");
        for detail in status.details.values_mut().filter(|detail| detail.kind.as_ref() == name) {
            detail.memory_bytes = bytes;
        }
    }
    Ok(())
}
