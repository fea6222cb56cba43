"""The roles: they allow exactly the calls of the code, and changes to the stack's own resources only."""

import re
import unittest

from deploy import templates

# Read-only actions.
READS = ("Describe", "Get", "List")
# Actions without resource-level permissions in the service reference; a condition restricts them if the service has one.
WITHOUT_RESOURCE = {
    "cloudwatch:PutMetricData": {"StringEquals": {"cloudwatch:namespace": "RdbCluster"}},
    "ssmmessages:CreateControlChannel": None,
    "ssmmessages:CreateDataChannel": None,
    "ssmmessages:OpenControlChannel": None,
    "ssmmessages:OpenDataChannel": None,
}
NODE_CHANGES = {
    "autoscaling:CompleteLifecycleAction",
    "autoscaling:RecordLifecycleActionHeartbeat",
    "autoscaling:SetDesiredCapacity",
    "autoscaling:SetInstanceProtection",
    "autoscaling:TerminateInstanceInAutoScalingGroup",
}


# Calls of the mount helper, of the agents of Systems Manager and CloudWatch, and of Secrets Manager in the caller's name.
OTHERS = {"elasticfilesystem", "ssm", "ssmmessages", "logs", "kms"}


def called():
    """The actions that elastick and its boot script call, from their sources."""
    api = (templates.ROOT / "src" / "fleet" / "aws" / "api.rs").read_text()
    lease = (templates.ROOT / "src" / "election" / "dynamodb" / "error.rs").read_text()
    boot = (templates.ROOT / "deploy" / "userdata" / "elastick-boot").read_text()
    found = set(re.findall(r'needs "(\w+:\w+)"', api)) | {"cloudwatch:PutMetricData"}
    found |= set(re.findall(r'permission: "(dynamodb:\w+)"', lease))
    for service, call in re.findall(r"aws_call (\w+) ([a-z-]+)", boot):
        found.add(f"{service}:" + "".join(word.capitalize() for word in call.split("-")))
    return found


def listed(value):
    return value if isinstance(value, list) else [value]


def statements(name, role):
    """The statements of a role, each as (actions, resources, condition), with those of two tickerplants."""
    for policy in templates.resources(name)[role]["Properties"]["Policies"]:
        for statement in policy["PolicyDocument"]["Statement"]:
            if "Fn::If" in statement:
                condition, statement, otherwise = statement["Fn::If"]
                assert (condition, otherwise) == ("HasTwo", {"Ref": "AWS::NoValue"})
            yield listed(statement["Action"]), listed(statement["Resource"]), statement.get("Condition")


def roles():
    for name in templates.NAMES:
        for role in templates.resources(name, "AWS::IAM::Role"):
            yield name, role


class Policies(unittest.TestCase):
    def test_what_changes_something_names_what_it_changes(self):
        for name, role in roles():
            for actions, resources, condition in statements(name, role):
                for action in actions:
                    verb = action.partition(":")[2]
                    if "*" not in resources or verb.startswith(READS):
                        continue
                    self.assertIn(action, WITHOUT_RESOURCE, f"{role} of {name}: {action} on *")
                    self.assertEqual(condition, WITHOUT_RESOURCE[action], f"{role} of {name}: {action}")

    def test_what_the_roles_allow_is_what_is_called(self):
        allowed = {
            action
            for role in ("TickRole", "RdbRole")
            for actions, _, _ in statements("elastick", role)
            for action in actions
            if action.partition(":")[0] not in OTHERS
        }
        self.assertEqual(allowed, called())

    def test_no_action_is_a_pattern(self):
        for name, role in roles():
            for actions, _, _ in statements(name, role):
                self.assertEqual([action for action in actions if "*" in action], [], f"{role} of {name}")

    def test_roles_have_no_managed_policies(self):
        for name, role in roles():
            self.assertNotIn("ManagedPolicyArns", templates.resources(name)[role]["Properties"], f"{role} of {name}")

    def test_a_node_changes_the_group_of_its_own_stack_only(self):
        for name in ("elastick", "rdb-cluster"):
            for actions, resources, _ in statements(name, "RdbRole"):
                if NODE_CHANGES & set(actions):
                    self.assertEqual(set(actions), NODE_CHANGES)
                    (resource,) = resources
                    self.assertTrue(resource["Fn::Sub"].endswith(":autoScalingGroupName/${AWS::StackName}-RdbGroup-*"))

    def test_a_tickerplant_changes_no_group_but_the_health_of_its_own_instances(self):
        for name in ("elastick", "tickerplant"):
            for actions, resources, _ in statements(name, "TickRole"):
                self.assertEqual([action for action in actions if action in NODE_CHANGES], [])
                if "autoscaling:SetInstanceHealth" in actions:
                    (resource,) = resources
                    self.assertTrue(resource["Fn::Sub"].endswith(":autoScalingGroupName/${AWS::StackName}-TickGroup-*"))

    def test_a_tickerplant_starts_nodes_of_sleeping_clusters_and_of_no_others(self):
        exported = {"Fn::ImportValue": {"Fn::Sub": "${TICKSTACK}-TickRole"}}
        for name, role in (("elastick", {"Ref": "TickRole"}), ("rdb-cluster", exported)):
            policy = templates.resources(name)["FirstNodes"]
            self.assertEqual(policy["Condition"], "Sleeps", name)
            self.assertEqual(policy["Properties"]["Roles"], [role], name)
            (statement,) = policy["Properties"]["PolicyDocument"]["Statement"]
            self.assertEqual(statement["Action"], "autoscaling:SetDesiredCapacity", name)
            self.assertTrue(statement["Resource"]["Fn::Sub"].endswith(":autoScalingGroupName/${RdbGroup}"), name)

    def test_a_tickerplant_reads_and_renews_the_lease_of_its_stack_and_no_more(self):
        for name in ("elastick", "tickerplant"):
            found = [
                (actions, resources)
                for actions, resources, _ in statements(name, "TickRole")
                if any(action.startswith("dynamodb:") for action in actions)
            ]
            table = {"Fn::GetAtt": ["LeaseTable", "Arn"]}
            self.assertEqual(found, [(["dynamodb:GetItem", "dynamodb:UpdateItem"], [table])], name)

    def test_the_lease_has_the_table_of_the_template_for_tickerplants_run_by_hand(self):
        alone = templates.resources("lease")["LeaseTable"]
        for name in ("elastick", "tickerplant"):
            self.assertEqual(templates.resources(name)["LeaseTable"], {**alone, "Condition": "HasTwo"}, name)
        self.assertEqual((alone["DeletionPolicy"], alone["Properties"]["DeletionProtectionEnabled"]), ("Retain", True))

    def test_only_the_tickerplant_writes_the_log_and_both_by_the_access_point(self):
        wanted = {
            "TickRole": ["elasticfilesystem:ClientMount", "elasticfilesystem:ClientWrite"],
            "RdbRole": ["elasticfilesystem:ClientMount"],
        }
        for role, expected in wanted.items():
            found = [
                (actions, condition)
                for actions, _, condition in statements("elastick", role)
                if actions[0].startswith("elasticfilesystem:")
            ]
            ((actions, condition),) = found
            self.assertEqual(actions, expected)
            self.assertEqual(list(condition["StringEquals"]), ["elasticfilesystem:AccessPointArn"])

    def test_a_tickerplant_may_set_its_own_name_and_no_other(self):
        found = [
            (resources, condition)
            for actions, resources, condition in statements("elastick", "TickRole")
            if actions == ["route53:ChangeResourceRecordSets"]
        ]
        (((resource,), condition),) = found
        self.assertEqual(resource, {"Fn::Sub": "arn:${AWS::Partition}:route53:::hostedzone/${Zone}"})
        limits = condition["ForAllValues:StringEquals"]
        self.assertEqual(
            limits["route53:ChangeResourceRecordSetsNormalizedRecordNames"], [{"Fn::Sub": "tick.${ZONENAME}"}]
        )
        self.assertEqual(limits["route53:ChangeResourceRecordSetsRecordTypes"], ["A"])

    def test_a_role_reads_the_secrets_of_its_stack_and_no_other(self):
        users = {"Fn::If": ["HasUsers", {"Ref": "USERSSECRET"}, {"Ref": "AWS::NoValue"}]}
        exported = {"Fn::ImportValue": {"Fn::Sub": "${TICKSTACK}-ClusterSecret"}}
        own = {"Ref": "ClusterSecret"}
        for name, role in roles():
            if role == "NoRebalanceRole":
                continue
            found = [resources for actions, resources, _ in statements(name, role) if "secretsmanager:GetSecretValue" in actions]
            self.assertEqual(found, [[exported if name == "rdb-cluster" else own, users]], f"{role} of {name}")

    def test_a_key_decrypts_for_secrets_manager_and_the_lease_only(self):
        secrets, lease = ({"Fn::Sub": f"{service}.${{AWS::Region}}.${{AWS::URLSuffix}}"} for service in ("secretsmanager", "dynamodb"))
        of_two = {"Fn::If": ["HasTwo", lease, {"Ref": "AWS::NoValue"}]}
        for name, role in roles():
            wanted = {"StringEquals": {"kms:ViaService": [secrets, of_two] if role == "TickRole" else secrets}}
            for actions, _, condition in statements(name, role):
                if any(action.startswith("kms:") for action in actions):
                    self.assertEqual((actions, condition), (["kms:Decrypt"], wanted), f"{role} of {name}")

    def test_the_secret_is_generated_and_no_tag_or_user_data_holds_one(self):
        for name in ("elastick", "tickerplant"):
            properties = templates.resources(name)["ClusterSecret"]["Properties"]
            self.assertNotIn("SecretString", properties)
            self.assertGreaterEqual(properties["GenerateSecretString"]["PasswordLength"], 32)
        for name in templates.NAMES:
            self.assertNotIn("{{resolve:", templates.path(name).read_text(), name)

    def test_nobody_but_ec2_and_the_scheduler_takes_a_role(self):
        for name, role in roles():
            trust = templates.resources(name)[role]["Properties"]["AssumeRolePolicyDocument"]["Statement"]
            services = {statement["Principal"]["Service"] for statement in trust}
            self.assertLessEqual(services, {"ec2.amazonaws.com", "scheduler.amazonaws.com"}, f"{role} of {name}")


class Network(unittest.TestCase):
    def rules(self, kind):
        for name in templates.NAMES:
            for key, found in templates.resources(name).items():
                if found["Type"] == f"AWS::EC2::SecurityGroup{kind}":
                    yield name, key, found, found["Properties"]
                elif found["Type"] == "AWS::EC2::SecurityGroup":
                    for rule in found["Properties"].get(f"SecurityGroup{kind}", []):
                        yield name, key, found, rule

    def test_every_rule_says_what_it_is_for(self):
        for kind in ("Ingress", "Egress"):
            for name, key, _, rule in self.rules(kind):
                self.assertTrue(rule["Description"], f"{key} of {name}")

    def test_who_may_come_in_is_a_group_or_a_range_that_was_asked_for(self):
        for name, key, found, rule in self.rules("Ingress"):
            if "CidrIp" in rule:
                self.assertIn(rule["CidrIp"], ({"Ref": "CLIENTCIDR"}, {"Ref": "SSHCIDR"}), f"{key} of {name}")
                self.assertIn(found["Condition"], ("HasClientRange", "HasSshRange"), f"{key} of {name}")
            else:
                self.assertIn("SourceSecurityGroupId", rule, f"{key} of {name}")

    def test_ssh_is_off_unless_a_range_is_given(self):
        for name, key, found, rule in self.rules("Ingress"):
            if rule["FromPort"] == 22:
                self.assertEqual((found["Condition"], rule["CidrIp"]), ("HasSshRange", {"Ref": "SSHCIDR"}), key)

    def test_what_leaves_goes_to_aws_over_tls_or_to_a_group_of_the_stack(self):
        nowhere = "255.255.255.255/32"
        for name, key, _, rule in self.rules("Egress"):
            if rule.get("CidrIp") == "0.0.0.0/0":
                self.assertEqual((rule["FromPort"], rule["ToPort"]), (443, 443), f"{key} of {name}")
            elif rule.get("CidrIp") != nowhere:
                self.assertIn("DestinationSecurityGroupId", rule, f"{key} of {name}")

    def test_every_security_group_limits_what_leaves(self):
        for name in templates.NAMES:
            for key, group in templates.resources(name, "AWS::EC2::SecurityGroup").items():
                self.assertTrue(group["Properties"]["SecurityGroupEgress"], f"{key} of {name}")


class Servers(unittest.TestCase):
    def launch_data(self):
        for name in templates.NAMES:
            for key, found in templates.resources(name, "AWS::EC2::LaunchTemplate").items():
                yield f"{key} of {name}", found["Properties"]["LaunchTemplateData"]

    def test_metadata_needs_a_token_and_stays_on_the_server(self):
        wanted = {
            "HttpEndpoint": "enabled",
            "HttpTokens": "required",
            "HttpPutResponseHopLimit": 1,
            "InstanceMetadataTags": "enabled",
        }
        for where, data in self.launch_data():
            self.assertEqual(data["MetadataOptions"], wanted, where)

    def test_root_volumes_are_encrypted(self):
        for where, data in self.launch_data():
            for device in data["BlockDeviceMappings"]:
                self.assertIs(device["Ebs"]["Encrypted"], True, where)
                self.assertEqual(device["Ebs"]["VolumeType"], "gp3", where)

    def test_groups_take_the_latest_version_of_their_template(self):
        for name in templates.NAMES:
            for key, group in templates.resources(name, "AWS::AutoScaling::AutoScalingGroup").items():
                wanted = group["Properties"]["LaunchTemplate"]
                template = wanted["LaunchTemplateId"]["Ref"]
                self.assertEqual(wanted["Version"], {"Fn::GetAtt": [template, "LatestVersionNumber"]}, key)

    def test_an_update_of_the_stack_leaves_a_group_as_large_as_it_is(self):
        for name in templates.NAMES:
            for key, group in templates.resources(name, "AWS::AutoScaling::AutoScalingGroup").items():
                self.assertNotIn("DesiredCapacity", group["Properties"], f"{key} of {name}")
                self.assertEqual(
                    group["UpdatePolicy"],
                    {"AutoScalingScheduledAction": {"IgnoreUnmodifiedGroupSizeProperties": True}},
                    f"{key} of {name}",
                )

    def test_nothing_scales_or_ends_nodes_but_nodes_and_the_schedule(self):
        for name in templates.NAMES:
            kinds = {found["Type"] for found in templates.resources(name).values()}
            self.assertNotIn("AWS::AutoScaling::ScalingPolicy", kinds, name)
            for key, group in templates.resources(name, "AWS::AutoScaling::AutoScalingGroup").items():
                self.assertNotIn("MaxInstanceLifetime", group["Properties"], f"{key} of {name}")

    def test_the_logs_outlive_the_stack_and_are_encrypted(self):
        for name in ("elastick", "tickerplant"):
            files = templates.resources(name)["FileSystem"]
            self.assertEqual((files["DeletionPolicy"], files["UpdateReplacePolicy"]), ("Retain", "Retain"))
            self.assertIs(files["Properties"]["Encrypted"], True)
            self.assertEqual(files["Properties"]["ThroughputMode"], "elastic")
