mod server;

use super::*;
use crate::fleet::Stage;
use server::{Reply, Server};

fn endpoints(server: &Server) -> Endpoints {
    Endpoints { metadata: server.url.clone(), services: std::array::from_fn(|_| Some(server.url.clone())) }
}

fn open(server: &Server) -> Aws {
    Aws::open(endpoints(server)).expect("an instance of a group")
}

const UP: &str = "InService";

fn throttled() -> Reply {
    Reply::error(400, "Throttling", "Rate exceeded")
}

#[test]
fn an_instance_with_tags_finds_its_group_without_a_call() {
    let server = Server::of_an_instance();
    let fleet = open(&server);
    assert_eq!(*fleet.identity(), Identity { instance: "i-1".to_string(), group: "g".to_string() });
    assert_eq!(fleet.region(), "eu-west-1");
    assert_eq!(server.count("DescribeAutoScalingInstances") + server.count("DescribeTags"), 0);
}

/// An instance whose metadata service exposes no tags.
fn untagged() -> Server {
    Server::of_an_instance().set("tags/instance/aws:autoscaling:groupName", &[Reply::Text(404, String::new())])
}

const MEMBERSHIP: &str = "<AutoScalingInstances><member><InstanceId>i-1</InstanceId><AutoScalingGroupName>told</AutoScalingGroupName></member></AutoScalingInstances>";
const TAGS: &str = r#"<DescribeTagsResponse xmlns="http://ec2.amazonaws.com/doc/2016-11-15/"><requestId>r</requestId><tagSet><item><resourceId>i-1</resourceId><resourceType>instance</resourceType><key>aws:autoscaling:groupName</key><value>tagged</value></item></tagSet></DescribeTagsResponse>"#;
const NO_TAGS: &str = r#"<DescribeTagsResponse xmlns="http://ec2.amazonaws.com/doc/2016-11-15/"><requestId>r</requestId><tagSet/></DescribeTagsResponse>"#;

#[test]
fn without_tags_in_the_metadata_the_scaling_service_knows_the_group() {
    let reply = Reply::xml("DescribeAutoScalingInstances", MEMBERSHIP);
    let server = untagged().set("DescribeAutoScalingInstances", &[reply]);
    assert_eq!(open(&server).identity().group, "told");
}

#[test]
fn a_role_with_the_papers_permissions_finds_the_group_by_its_tags() {
    let denied = Reply::error(403, "AccessDenied", "no");
    let server = untagged().set("DescribeAutoScalingInstances", &[denied]).set("DescribeTags", &[Reply::ok(TAGS)]);
    assert_eq!(open(&server).identity().group, "tagged");
    let calls = server.requests("DescribeTags");
    let [call] = &calls[..] else { panic!("{calls:?}") };
    let filters = "Filter.1.Name=resource-id&Filter.1.Value.1=i-1&Filter.2.Name=key&Filter.2.Value.1=aws%3Aautoscaling%3AgroupName";
    assert_eq!(call.body, format!("Action=DescribeTags&Version=2016-11-15&{filters}"));
    assert!(call.authorization.contains("/eu-west-1/ec2/aws4_request, SignedHeaders="), "{}", call.authorization);
}

const INSTANCES: &str = "<DescribeInstancesResponse><reservationSet>\
    <item><groupSet/><instancesSet><item><instanceId>i-1</instanceId><instanceType>r6g.large</instanceType>\
    <launchTime>2026-01-02T03:04:05.000Z</launchTime><placement><availabilityZone>eu-west-1a</availabilityZone></placement>\
    <privateIpAddress>10.0.0.1</privateIpAddress><networkInterfaceSet><item><privateIpAddress>10.9.9.9</privateIpAddress></item>\
    </networkInterfaceSet></item></instancesSet></item>\
    <item><instancesSet><item><instanceId>i-2</instanceId><instanceType>new.kind</instanceType></item></instancesSet></item>\
    </reservationSet></DescribeInstancesResponse>";
const TYPES: &str = "<DescribeInstanceTypesResponse><instanceTypeSet><item><instanceType>r6g.large</instanceType>\
    <memoryInfo><sizeInMiB>16384</sizeInMiB></memoryInfo></item></instanceTypeSet></DescribeInstanceTypesResponse>";

#[test]
fn the_status_has_details_of_every_instance() {
    let server = Server::of_an_instance().groups(&[(1, 2, 9, &[("i-1", UP), ("i-2", UP)])]);
    let server =
        server.set("DescribeInstances", &[Reply::ok(INSTANCES)]).set("DescribeInstanceTypes", &[Reply::ok(TYPES)]);
    let read = status::read(endpoints(&server), Some("g")).expect("a status");
    let text = |text: &str| Some(text.to_string());
    let first = status::Detail {
        kind: text("r6g.large"),
        memory_bytes: Some(16 << 30),
        zone: text("eu-west-1a"),
        address: text("10.0.0.1"),
    };
    let second = status::Detail { kind: text("new.kind"), ..status::Detail::default() };
    assert_eq!(read.details.into_iter().collect::<Vec<_>>(), [("i-1".to_string(), first), ("i-2".to_string(), second)]);
    assert!(read.group.members.iter().any(|member| member.instance == "i-1" && member.age.as_secs() > 3600));
    let [call] = &server.requests("DescribeInstances")[..] else { panic!("one call") };
    assert!(call.body.ends_with("&InstanceId.1=i-1&InstanceId.2=i-2"), "{}", call.body);
    let [call] = &server.requests("DescribeInstanceTypes")[..] else { panic!("one call") };
    assert!(call.body.ends_with("&InstanceType.1=new.kind&InstanceType.2=r6g.large"), "{}", call.body);
}

#[test]
fn details_that_cannot_be_read_become_a_note() {
    let server = Server::of_an_instance().groups(&[(1, 1, 9, &[("i-1", UP)])]);
    let server = server.set("DescribeInstances", &[Reply::ok("<html>Sign in</html>")]);
    let read = status::read(endpoints(&server), Some("g")).expect("a status");
    assert!(read.details.is_empty());
    assert!(
        read.notes.iter().any(|note| note.contains("DescribeInstances") && note.contains("the root is html")),
        "{:?}",
        read.notes
    );
}

#[test]
fn what_ec2_rejects_names_the_permission() {
    let denied = || Reply::error(403, "AccessDenied", "no");
    let refused = "<Response><Errors><Error><Code>UnauthorizedOperation</Code><Message>not you</Message></Error></Errors></Response>";
    let server = Server::of_an_instance().set("tags/instance", &[Reply::Text(404, String::new())]);
    let server = server.set("DescribeTags", &[Reply::Text(403, refused.to_string()), denied(), Reply::ok("no XML")]);
    let mut fleet = open(&server);
    let error = fleet.thresholds().expect_err("denied");
    assert!(
        matches!(&error, FleetError::Denied { permission: "ec2:DescribeTags", reason, .. } if reason == "UnauthorizedOperation: not you"),
        "{error:?}"
    );
    let error = fleet.thresholds().expect_err("of another shape");
    assert_eq!(error, FleetError::Refused("DescribeTags: status 403".to_string()));
    let error = fleet.thresholds().expect_err("no XML");
    assert!(matches!(error, FleetError::Protocol(_)), "{error:?}");
}

#[test]
fn a_start_while_the_service_is_busy_is_patient() {
    let reply = Reply::xml("DescribeAutoScalingInstances", MEMBERSHIP);
    let server = untagged().set("DescribeAutoScalingInstances", &[throttled(), reply]);
    let server = server.set("DescribeTags", &[throttled()]);
    assert_eq!(open(&server).identity().group, "told");
}

#[test]
fn an_instance_without_a_group_gets_an_error() {
    let nothing = Reply::xml("DescribeAutoScalingInstances", "<AutoScalingInstances/>");
    let server = untagged().set("DescribeAutoScalingInstances", &[nothing]).set("DescribeTags", &[Reply::ok(NO_TAGS)]);
    let error = Aws::open(endpoints(&server)).err().expect("no group");
    assert!(error.to_string().contains("i-1 in eu-west-1 is not in an Auto Scaling group"), "{error}");
}

#[test]
fn no_metadata_service_names_the_variable_and_the_hop_limit() {
    let nowhere = "http://127.0.0.1:9".to_string();
    let error =
        Aws::open(Endpoints { metadata: nowhere, services: [None, None, None, None, None] }).err().expect("nobody");
    let message = error.to_string();
    for word in ["127.0.0.1:9", "AWS_EC2_METADATA_SERVICE_ENDPOINT", "hop limit"] {
        assert!(message.contains(word), "{message}");
    }
}

#[test]
fn the_group_is_described_in_our_stages() {
    let states = [
        ("i-1", UP),
        ("i-2", "Pending"),
        ("i-3", "Pending:Wait"),
        ("i-4", "Terminating:Wait"),
        ("i-5", "Warmed:Stopped"),
        ("i-6", "Standby"),
    ];
    let server = Server::of_an_instance().groups(&[(1, 3, 9, &states)]);
    let group = open(&server).describe().expect("described");
    assert_eq!((group.min, group.desired, group.max), (1, 3, 9));
    let stages: Vec<Stage> = group.members.iter().map(|member| member.stage).collect();
    let aside = Stage::Standby;
    assert_eq!(stages, [Stage::InService, Stage::Pending, Stage::Starting, Stage::Terminating, aside, aside]);
    assert!(group.members.iter().all(|member| member.protected));
}

#[test]
fn a_group_that_does_not_exist_is_named() {
    let nothing = Reply::xml("DescribeAutoScalingGroups", "<AutoScalingGroups/>");
    let server = Server::of_an_instance().set("DescribeAutoScalingGroups", &[nothing]);
    let error = open(&server).describe().expect_err("none");
    assert_eq!(error, FleetError::Refused("there is no Auto Scaling group g in eu-west-1".to_string()));
}

#[test]
fn capacity_is_set_as_requested_without_a_cooldown() {
    let server = Server::of_an_instance().groups(&[(1, 1, 9, &[("i-1", UP)])]);
    assert_eq!(open(&server).at_least(2), Ok(Capacity::Granted { desired: 2 }));
    let calls = server.requests("SetDesiredCapacity");
    let [call] = &calls[..] else { panic!("{calls:?}") };
    for part in ["DesiredCapacity=2", "HonorCooldown=false", "AutoScalingGroupName=g"] {
        assert!(call.body.contains(part), "{}", call.body);
    }
}

#[test]
fn without_a_position_one_more_than_desired_is_requested() {
    let server = Server::of_an_instance().groups(&[(1, 2, 9, &[("i-1", UP), ("i-0", UP)])]);
    assert_eq!(open(&server).one_more(), Ok(3));
}

#[test]
fn a_throttled_call_is_not_repeated_here() {
    let server = Server::of_an_instance().groups(&[(1, 1, 9, &[])]).set("SetDesiredCapacity", &[throttled()]);
    let error = open(&server).at_least(2).expect_err("throttled");
    assert!(matches!(error, FleetError::Busy { call: "SetDesiredCapacity", .. }), "{error}");
    assert_eq!(server.count("SetDesiredCapacity"), 1);
}

#[test]
fn a_group_that_is_busy_is_left_for_later() {
    for (status, code) in
        [(400, "ScalingActivityInProgress"), (500, "ResourceContention"), (503, "RequestLimitExceeded")]
    {
        let busy = Reply::error(status, code, "later");
        let server = Server::of_an_instance().groups(&[(1, 1, 9, &[])]).set("SetDesiredCapacity", &[busy]);
        assert!(matches!(open(&server).at_least(2), Err(FleetError::Busy { .. })), "{code}");
    }
}

#[test]
fn a_lost_answer_is_read_back_and_not_repeated() {
    let server =
        Server::of_an_instance().groups(&[(1, 1, 9, &[]), (1, 2, 9, &[])]).set("SetDesiredCapacity", &[Reply::Drop]);
    assert_eq!(open(&server).at_least(2), Ok(Capacity::Granted { desired: 2 }));
    assert_eq!((server.count("SetDesiredCapacity"), server.count("DescribeAutoScalingGroups")), (1, 2));
}

#[test]
fn an_answer_that_cannot_be_read_counts_as_lost() {
    let server = Server::of_an_instance()
        .groups(&[(1, 1, 9, &[]), (1, 2, 9, &[])])
        .set("SetDesiredCapacity", &[Reply::error(500, "InternalFailure", "?")]);
    assert_eq!(open(&server).at_least(2), Ok(Capacity::Granted { desired: 2 }));
    let server = Server::of_an_instance().set("DescribeAutoScalingGroups", &[Reply::ok("<html>no</html>")]);
    assert!(matches!(open(&server).describe(), Err(FleetError::Protocol(_))));
}

#[test]
fn a_maximum_that_was_lowered_in_between_is_the_answer() {
    let invalid = Reply::error(400, "ValidationError", "New SetDesiredCapacity value 4 is above max value 3");
    let server =
        Server::of_an_instance().groups(&[(1, 3, 9, &[]), (1, 3, 3, &[])]).set("SetDesiredCapacity", &[invalid]);
    assert!(matches!(open(&server).at_least(4), Ok(Capacity::Refused { desired: 3, .. })));
}

#[test]
fn a_missing_permission_is_named_with_its_call() {
    let denied = Reply::error(403, "AccessDenied", "User: x is not authorized");
    let server = Server::of_an_instance().groups(&[(1, 1, 9, &[])]).set("SetDesiredCapacity", &[denied]);
    let message = open(&server).at_least(2).expect_err("denied").to_string();
    assert!(message.starts_with("SetDesiredCapacity is not allowed"), "{message}");
    assert!(message.contains("needs the permission autoscaling:SetDesiredCapacity"), "{message}");
}

#[test]
fn credentials_that_are_expired_or_missing_are_reported() {
    let expired = Reply::error(403, "ExpiredToken", "The security token included in the request is expired");
    let server = Server::of_an_instance().set("DescribeAutoScalingGroups", &[expired]);
    assert!(matches!(open(&server).describe(), Err(FleetError::Credentials { .. })));
    let server = Server::of_an_instance().set("iam/security-credentials/", &[Reply::Text(404, String::new())]);
    let error = open(&server).describe().expect_err("no role");
    assert!(matches!(error, FleetError::Credentials { .. }), "{error:?}");
    assert_eq!(server.count("DescribeAutoScalingGroups"), 0);
}

#[test]
fn an_instance_that_ends_itself_lifts_its_protection_and_takes_one_off() {
    let server = Server::of_an_instance().groups(&[(1, 2, 9, &[("i-1", UP), ("i-2", UP)])]);
    assert_eq!(open(&server).terminate_me(), Ok(()));
    assert!(server.requests("SetInstanceProtection")[0].body.contains("ProtectedFromScaleIn=false"));
    let calls = server.requests("TerminateInstanceInAutoScalingGroup");
    assert!(calls.len() == 1 && calls[0].body.contains("ShouldDecrementDesiredCapacity=true"), "{calls:?}");
}

#[test]
fn a_lost_answer_to_its_end_takes_one_off_once() {
    let before: &[(&str, &str)] = &[("i-1", UP), ("i-2", UP)];
    let server = Server::of_an_instance()
        .groups(&[(1, 2, 9, before), (1, 2, 9, before), (1, 1, 9, &[("i-1", "Terminating"), ("i-2", UP)])])
        .set("TerminateInstanceInAutoScalingGroup", &[Reply::Drop]);
    let mut fleet = open(&server);
    assert!(matches!(fleet.terminate_me(), Err(FleetError::Unsure { .. })));
    assert!(matches!(fleet.terminate_me(), Err(FleetError::Busy { .. })), "it may still show");
    assert_eq!(fleet.terminate_me(), Ok(()));
    assert_eq!(server.count("TerminateInstanceInAutoScalingGroup"), 1);
}

#[test]
fn the_last_instance_of_a_group_stays() {
    let server = Server::of_an_instance().groups(&[(1, 1, 9, &[("i-1", UP)])]);
    assert!(matches!(open(&server).terminate_me(), Err(FleetError::Refused(_))));
    assert_eq!(server.count("TerminateInstanceInAutoScalingGroup"), 0);
}

#[test]
fn a_late_instance_is_replaced_without_a_change_of_capacity() {
    let server = Server::of_an_instance().groups(&[(1, 2, 9, &[("i-1", UP), ("i-2", UP)])]);
    let mut fleet = open(&server);
    assert_eq!(fleet.replace("i-2"), Ok(()));
    assert_eq!(fleet.replace("i-9"), Ok(()), "gone already");
    let calls = server.requests("TerminateInstanceInAutoScalingGroup");
    let [call] = &calls[..] else { panic!("{calls:?}") };
    assert!(call.body.contains("InstanceId=i-2") && call.body.contains("ShouldDecrementDesiredCapacity=false"));
}

/// A server whose group has one hook for each transition.
fn hooked(server: Server) -> Server {
    let hook = |name: &str| {
        format!(
            "<member><LifecycleHookName>{name}</LifecycleHookName><LifecycleTransition>autoscaling:EC2_INSTANCE_{name}</LifecycleTransition><HeartbeatTimeout>60</HeartbeatTimeout><GlobalTimeout>6000</GlobalTimeout></member>"
        )
    };
    let hooks = format!("<LifecycleHooks>{}{}</LifecycleHooks>", hook("LAUNCHING"), hook("TERMINATING"));
    server
        .set("DescribeLifecycleHooks", &[Reply::xml("DescribeLifecycleHooks", &hooks)])
        .set("CompleteLifecycleAction", &[Reply::xml("CompleteLifecycleAction", "")])
}

#[test]
fn the_launch_hook_is_completed_once() {
    let server = hooked(Server::of_an_instance())
        .groups(&[(1, 1, 9, &[("i-1", "Pending")]), (1, 1, 9, &[("i-1", "Pending:Wait")])]);
    let mut fleet = open(&server);
    assert!(matches!(fleet.ready(), Err(FleetError::Busy { .. })), "it does not wait yet");
    assert_eq!((fleet.ready(), fleet.ready()), (Ok(()), Ok(())));
    let calls = server.requests("CompleteLifecycleAction");
    let [call] = &calls[..] else { panic!("{calls:?}") };
    assert!(call.body.contains("LifecycleHookName=LAUNCHING") && call.body.contains("LifecycleActionResult=CONTINUE"));
}

#[test]
fn a_node_that_is_started_again_has_no_hook_to_complete() {
    let server = hooked(Server::of_an_instance()).groups(&[(1, 1, 9, &[("i-1", UP)])]);
    assert_eq!(open(&server).ready(), Ok(()));
    assert_eq!(server.count("CompleteLifecycleAction"), 0);
}

#[test]
fn a_termination_notice_has_the_hooks_timeout() {
    let server = hooked(Server::of_an_instance());
    let mut fleet = open(&server);
    assert_eq!(fleet.notice(), Ok(None));
    let server = server.set("autoscaling/target-lifecycle-state", &[Reply::ok("Terminated")]);
    let notice = fleet.notice().expect("asked").expect("a notice");
    assert_eq!(notice.reason, Reason::Terminating);
    assert!(notice.left.is_some_and(|left| left > Duration::from_secs(5000)), "{notice:?}");
    assert_eq!(fleet.released(), Ok(()));
    assert!(server.requests("CompleteLifecycleAction")[0].body.contains("LifecycleHookName=TERMINATING"));
    assert_eq!(server.count("TerminateInstanceInAutoScalingGroup"), 0);
}

#[test]
fn an_unhealthy_instance_gets_a_notice() {
    let health = "<AutoScalingInstances><member><InstanceId>i-1</InstanceId><HealthStatus>UNHEALTHY</HealthStatus></member></AutoScalingInstances>";
    let server = Server::of_an_instance()
        .set("autoscaling/target-lifecycle-state", &[Reply::ok("Terminated")])
        .set("DescribeAutoScalingInstances", &[Reply::xml("DescribeAutoScalingInstances", health)]);
    let notice = open(&server).notice().expect("asked").expect("a notice");
    assert_eq!(notice.reason, Reason::Unhealthy);
}

#[test]
fn a_server_that_is_taken_back_has_its_successor_launched_before_it_is_gone() {
    let spot = r#"{"action": "terminate", "time": "2126-01-01T00:00:00Z"}"#;
    let server = Server::of_an_instance()
        .groups(&[(1, 2, 9, &[("i-1", UP), ("i-2", UP)])])
        .set("spot/instance-action", &[Reply::ok(spot)]);
    let mut fleet = open(&server);
    assert_eq!(fleet.notice().expect("asked").map(|notice| notice.reason), Some(Reason::SpotInterruption));
    assert_eq!(fleet.released(), Ok(()));
    let calls = server.requests("TerminateInstanceInAutoScalingGroup");
    assert!(calls.len() == 1 && calls[0].body.contains("ShouldDecrementDesiredCapacity=false"), "{calls:?}");
}

#[test]
fn a_node_of_a_warm_pool_waits_until_it_is_taken() {
    let server = hooked(Server::of_an_instance())
        .set("autoscaling/target-lifecycle-state", &[Reply::ok("Warmed:Running"), Reply::ok(UP)])
        .groups(&[(1, 1, 9, &[("i-1", "Pending:Wait")])]);
    let mut fleet = open(&server);
    assert_eq!((fleet.is_aside(), fleet.is_aside()), (Ok(true), Ok(false)));
    assert_eq!(fleet.ready(), Ok(()));
    assert_eq!(server.count("CompleteLifecycleAction"), 2, "into the pool, and into service");
}

#[test]
fn thresholds_come_from_the_tags() {
    let server = Server::of_an_instance()
        .set("tags/instance/SCALETHRESHOLD", &[Reply::ok("60")])
        .set("tags/instance", &[Reply::ok("SCALETHRESHOLD")]);
    assert_eq!(open(&server).thresholds(), Ok((Some("60".to_string()), None)));
    assert_eq!(server.count("DescribeTags"), 0);
}

#[test]
fn a_budget_that_is_used_up_keeps_calls_on_the_instance() {
    let server = Server::of_an_instance().groups(&[(1, 1, 9, &[])]);
    let mut fleet = open(&server);
    let answers: Vec<bool> = (0..40).map(|_| fleet.describe().is_ok()).collect();
    assert!(answers[0] && !answers[39], "{answers:?}");
    assert!(server.count("DescribeAutoScalingGroups") < 40);
}

#[test]
fn every_call_needs_the_permission_of_its_name() {
    for api in api::ALL {
        let (service, action) = api.permission.split_once(':').expect("service:action");
        assert_eq!(action, api.name);
        assert!(["autoscaling", "ec2"].contains(&service), "{service}");
    }
}
