//! Identity of this instance: from the metadata service, otherwise from the scaling service or EC2.

use super::api;
use super::cloud::Cloud;
use super::ec2::{Call, Record};
use crate::fleet::FleetError;

/// Tag that the scaling service sets on the instances of a group.
const GROUP_TAG: &str = "aws:autoscaling:groupName";

/// The paper's memory thresholds, as instance tags.
pub const SCALE_TAG: &str = "SCALETHRESHOLD";
pub const ROLL_TAG: &str = "ROLLTHRESHOLD";

/// Returns this instance's id.
///
/// # Errors
/// The metadata service is unreachable or has none.
pub fn instance(cloud: &Cloud) -> Result<String, FleetError> {
    let id = cloud.metadata("instance-id")?.map(|id| id.trim().to_string());
    id.filter(|id| !id.is_empty())
        .ok_or_else(|| FleetError::Protocol("the metadata service names no instance".to_string()))
}

/// Returns the instance's group.
///
/// # Errors
/// The instance is in no group, or no service that knows it could be called.
pub fn group(cloud: &mut Cloud, instance: &str) -> Result<String, FleetError> {
    if let Some(group) = metadata_tag(cloud, GROUP_TAG)? {
        return Ok(group);
    }
    let denied = match member_of(cloud, instance) {
        Ok(Some(group)) => return Ok(group),
        Ok(None) => None,
        // A role without this permission may have the paper's, which reads the tags.
        Err(error @ FleetError::Denied { .. }) => Some(error),
        Err(error) => return Err(error),
    };
    match (resource_tag(cloud, instance, GROUP_TAG), denied) {
        (Ok(Some(group)), _) => Ok(group),
        (Ok(None), _) => {
            let region = &cloud.session.region;
            Err(FleetError::Refused(format!("instance {instance} in {region} is not in an Auto Scaling group")))
        }
        (Err(_), Some(first)) => Err(first),
        (Err(error), None) => Err(error),
    }
}

fn member_of(cloud: &mut Cloud, instance: &str) -> Result<Option<String>, FleetError> {
    let answer = cloud.scaling(&api::DESCRIBE_INSTANCE, |client| {
        client.describe_auto_scaling_instances().instance_ids(instance).send()
    })?;
    let details = answer.auto_scaling_instances().iter().find(|details| details.instance_id() == Some(instance));
    Ok(details.and_then(|details| details.auto_scaling_group_name()).map(ToString::to_string))
}

/// Returns a tag of this instance if the metadata service exposes tags.
fn metadata_tag(cloud: &Cloud, key: &str) -> Result<Option<String>, FleetError> {
    let value = cloud.metadata(&format!("tags/instance/{key}"))?;
    Ok(value.map(|value| value.trim().to_string()).filter(|value| !value.is_empty()))
}

/// Returns a tag of this instance from any source.
///
/// # Errors
/// The metadata service is unreachable, or exposes no tags and EC2 cannot be called.
pub fn tag(cloud: &mut Cloud, instance: &str, key: &str) -> Result<Option<String>, FleetError> {
    if let Some(value) = metadata_tag(cloud, key)? {
        return Ok(Some(value));
    }
    // If tags are exposed at all, this one does not exist.
    match cloud.metadata("tags/instance")?.or(cloud.metadata("tags/instance/")?) {
        Some(_) => Ok(None),
        None => resource_tag(cloud, instance, key),
    }
}

fn resource_tag(cloud: &mut Cloud, instance: &str, key: &str) -> Result<Option<String>, FleetError> {
    let filters = [("resource-id", instance), ("key", key)];
    let mut parameters = Call::new();
    for (number, (name, value)) in (1..).zip(filters) {
        parameters.push((format!("Filter.{number}.Name"), name.to_string()));
        parameters.push((format!("Filter.{number}.Value.1"), value.to_string()));
    }
    let tags = cloud.ec2(&api::DESCRIBE_TAGS, parameters, &["tagSet", "item"], &["resourceId", "key", "value"])?;
    let is = |tag: &Record, name: &str, value: &str| tag.get(name).is_some_and(|text| text == value);
    let tag = tags.into_iter().find(|tag| is(tag, "key", key) && is(tag, "resourceId", instance));
    Ok(tag
        .and_then(|mut tag| tag.remove("value"))
        .map(|value| value.trim().to_string())
        .filter(|value| !value.is_empty()))
}

/// Returns whether the scaling service considers this instance unhealthy.
///
/// # Errors
/// The call fails.
pub fn is_unhealthy(cloud: &mut Cloud, instance: &str) -> Result<bool, FleetError> {
    let answer = cloud.scaling(&api::DESCRIBE_INSTANCE, |client| {
        client.describe_auto_scaling_instances().instance_ids(instance).send()
    })?;
    let health = answer.auto_scaling_instances().first().and_then(|details| details.health_status());
    Ok(health.is_some_and(|health| health.eq_ignore_ascii_case("unhealthy")))
}
