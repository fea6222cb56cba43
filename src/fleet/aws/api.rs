//! The API calls in use: their permissions, and the meaning of their errors.

use super::imds::innermost;
use crate::fleet::FleetError;
use aws_sdk_autoscaling::config::http::HttpResponse;
use aws_sdk_autoscaling::error::{ProvideErrorMetadata, SdkError};
use std::error::Error;

/// Purpose of a call; each has its own budget.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// Describing the group and its activities.
    Describe,
    /// Changing the capacity.
    Capacity,
    /// Protection, lifecycle and end of this instance, and the end of a late one.
    Instance,
    /// Identity of this instance; tags, types and addresses.
    Identity,
}

/// An API call.
#[derive(Debug, PartialEq, Eq)]
pub struct Api {
    pub name: &'static str,
    pub permission: &'static str,
    pub purpose: Purpose,
    /// The call modifies something.
    pub changes: bool,
}

macro_rules! calls {
    ($($id:ident = $name:literal needs $permission:literal for $purpose:ident $(, $changes:ident)?;)*) => {
        $(pub static $id: Api = Api {
            name: $name,
            permission: $permission,
            purpose: Purpose::$purpose,
            changes: calls!(@ $($changes)?),
        };)*
        /// Every call, for the guide and for tests.
        #[cfg(test)]
        pub static ALL: &[&Api] = &[$(&$id),*];
    };
    (@ changes) => { true };
    (@) => { false };
}

calls! {
    DESCRIBE_GROUP = "DescribeAutoScalingGroups" needs "autoscaling:DescribeAutoScalingGroups" for Describe;
    DESCRIBE_ACTIVITIES = "DescribeScalingActivities" needs "autoscaling:DescribeScalingActivities" for Describe;
    DESCRIBE_INSTANCE = "DescribeAutoScalingInstances" needs "autoscaling:DescribeAutoScalingInstances" for Instance;
    DESCRIBE_HOOKS = "DescribeLifecycleHooks" needs "autoscaling:DescribeLifecycleHooks" for Instance;
    SET_CAPACITY = "SetDesiredCapacity" needs "autoscaling:SetDesiredCapacity" for Capacity, changes;
    SET_PROTECTION = "SetInstanceProtection" needs "autoscaling:SetInstanceProtection" for Instance, changes;
    COMPLETE = "CompleteLifecycleAction" needs "autoscaling:CompleteLifecycleAction" for Instance, changes;
    HEARTBEAT = "RecordLifecycleActionHeartbeat" needs "autoscaling:RecordLifecycleActionHeartbeat" for Instance, changes;
    TERMINATE = "TerminateInstanceInAutoScalingGroup" needs "autoscaling:TerminateInstanceInAutoScalingGroup" for Instance, changes;
    DESCRIBE_TAGS = "DescribeTags" needs "ec2:DescribeTags" for Identity;
    DESCRIBE_INSTANCES = "DescribeInstances" needs "ec2:DescribeInstances" for Identity;
    DESCRIBE_TYPES = "DescribeInstanceTypes" needs "ec2:DescribeInstanceTypes" for Identity;
}

/// Error codes for throttling and temporary conflicts.
const BUSY: &[&str] = &[
    "Throttling",
    "ThrottlingException",
    "ThrottledException",
    "RequestThrottled",
    "RequestThrottledException",
    "RequestLimitExceeded",
    "TooManyRequestsException",
    "BandwidthLimitExceeded",
    "SlowDown",
    "PriorRequestNotComplete",
    "ScalingActivityInProgress",
    "ScalingActivityInProgressFault",
    "ResourceContention",
    "ResourceContentionFault",
    "ResourceInUse",
    "ResourceInUseFault",
];
const DENIED: &[&str] = &["AccessDenied", "AccessDeniedException", "UnauthorizedOperation"];
const CREDENTIALS: &[&str] = &[
    "ExpiredToken",
    "ExpiredTokenException",
    "RequestExpired",
    "InvalidClientTokenId",
    "UnrecognizedClientException",
    "AuthFailure",
    "MissingAuthenticationToken",
    "SignatureDoesNotMatch",
    "InvalidSignatureException",
    "IncompleteSignature",
];

/// Maximum length of an error's text, in characters.
const REASON_CHARACTERS: usize = 400;

/// Translates an SDK error into an operator's terms, without parts that differ from attempt to attempt.
pub fn explain<E>(api: &Api, address: &str, error: &SdkError<E, HttpResponse>) -> FleetError
where
    E: ProvideErrorMetadata + Error + 'static,
{
    let call = api.name;
    let lost = |reason: String| match api.changes {
        true => FleetError::Unsure { call, reason },
        false => FleetError::Unreachable { address: address.to_string(), reason },
    };
    match error {
        SdkError::ServiceError(context) => {
            let status = context.raw().status().as_u16();
            of_service(api, context.err().code(), context.err().message(), status)
        }
        SdkError::TimeoutError(_) => lost("timed out waiting for a reply".to_string()),
        SdkError::ResponseError(context) => {
            let reason = format!("an unreadable response with status {}", context.raw().status().as_u16());
            if api.changes {
                FleetError::Unsure { call, reason }
            } else {
                FleetError::Protocol(format!("{call}: {reason}"))
            }
        }
        other => {
            let reason = short(&innermost(other));
            if is_of_credentials(other) {
                return FleetError::Credentials {
                    call,
                    reason: format!("the metadata service has no credentials for it: {reason}"),
                };
            }
            lost(reason)
        }
    }
}

fn of_service(api: &Api, code: Option<&str>, message: Option<&str>, status: u16) -> FleetError {
    let call = api.name;
    let reason = match (code, message) {
        (Some(code), Some(message)) => short(&format!("{code}: {message}")),
        (Some(code), None) => code.to_string(),
        (None, Some(message)) => short(message),
        (None, None) => format!("status {status}"),
    };
    let is = |codes: &[&str]| code.is_some_and(|code| codes.contains(&code));
    if is(BUSY) || status == 429 {
        FleetError::Busy { call, reason }
    } else if is(DENIED) {
        FleetError::Denied { call, permission: api.permission, reason }
    } else if is(CREDENTIALS) {
        FleetError::Credentials { call, reason }
    } else if status >= 500 {
        match api.changes {
            true => FleetError::Unsure { call, reason },
            false => FleetError::Busy { call, reason },
        }
    } else if status < 300 {
        FleetError::Protocol(format!("{call}: {reason}"))
    } else {
        FleetError::Refused(format!("{call}: {reason}"))
    }
}

/// Returns whether credentials could not be fetched, so that nothing was sent.
fn is_of_credentials(error: &dyn Error) -> bool {
    let mut next: Option<&dyn Error> = Some(error);
    while let Some(error) = next {
        let text = error.to_string();
        if text.contains("credential") || text.contains("identity") {
            return true;
        }
        next = error.source();
    }
    false
}

fn short(text: &str) -> String {
    text.chars().take(REASON_CHARACTERS).map(|c| if c.is_control() { ' ' } else { c }).collect()
}
