"""Alarms and the dashboard use metrics and dimensions that elastick publishes."""

import json
import re
import unittest

from deploy import templates

METRICS = templates.ROOT / "src" / "metrics" / "METRICS.md"
ROW = re.compile(r"^\| `elastick_\w+` \| \w+ \| (?P<of>[\w, ]+) \|.*\| `(?P<name>\w+)` \((?P<notes>[^)]*)\) \|", re.M)


def published():
    """{CloudWatch name: (publishing program, whether also under the group's name alone)}."""
    found = {}
    for row in ROW.finditer(METRICS.read_text()):
        notes = [note.strip() for note in row["notes"].split(",")]
        of = {"tick"} if "tick only" in notes else {"rdb"} if "rdb only" in notes else set(row["of"].split(", "))
        found[row["name"]] = (of, "group" in notes)
    return found


def watched(alarm):
    """(namespace, metric, dimensions) of each metric of an alarm."""
    properties = alarm["Properties"]
    if "MetricName" in properties:
        yield properties["Namespace"], properties["MetricName"], properties["Dimensions"]
    for query in properties.get("Metrics", []):
        if "MetricStat" in query:
            metric = query["MetricStat"]["Metric"]
            yield metric["Namespace"], metric["MetricName"], metric["Dimensions"]


class Watching(unittest.TestCase):
    def alarms(self, name="elastick"):
        return templates.resources(name, "AWS::CloudWatch::Alarm")

    def test_the_list_of_metrics_is_read(self):
        self.assertEqual(published()["TickerplantUp"], ({"tick"}, True))
        self.assertEqual(published()["MemoryUsed"], ({"rdb"}, False))

    def test_alarms_look_at_what_is_published_for_a_group(self):
        metrics = published()
        of_group = {"TickGroup": "tick", "RdbGroup": "rdb"}
        for key, alarm in self.alarms().items():
            for namespace, metric, dimensions in watched(alarm):
                ((dimension, group),) = ((each["Name"], each["Value"]["Ref"]) for each in dimensions)
                self.assertEqual(dimension, "AutoScalingGroupName", key)
                if namespace == "RdbCluster":
                    of, per_group = metrics[metric]
                    self.assertIn(of_group[group], of, f"{key}: {metric}")
                    self.assertTrue(per_group, f"{key}: {metric} is not published for the group")
                else:
                    self.assertEqual(namespace, "AWS/AutoScaling", key)

    def test_alarms_of_two_tickerplants_are_made_for_two(self):
        of_two = {"TwoActive", "StandbyMissing", "LeaseInDanger", "LeaseLate", "LeaseStoreFailing"}
        self.assertEqual({key for key, alarm in self.alarms().items() if "Condition" in alarm}, of_two)

    def test_the_lease_is_late_after_half_of_its_duration(self):
        """The boot script's URL has no duration, so it is the default of docs/lease.md."""
        (duration,) = re.findall(r"\| `duration` \| `(\d+)s` \|", (templates.ROOT / "docs" / "lease.md").read_text())
        self.assertEqual(self.alarms()["LeaseLate"]["Properties"]["Threshold"], int(duration) / 2)

    def test_every_metric_published_for_a_group_has_an_alarm(self):
        seen = {metric for alarm in self.alarms().values() for _, metric, _ in watched(alarm)}
        for metric, (_, per_group) in published().items():
            if per_group:
                self.assertIn(metric, seen)

    def test_alarms_go_to_the_topic_if_there_is_one(self):
        for key, alarm in self.alarms().items():
            wanted = [{"Fn::If": ["HasTopic", {"Ref": "ALARMTOPIC"}, {"Ref": "AWS::NoValue"}]}]
            self.assertEqual(alarm["Properties"]["AlarmActions"], wanted, key)

    def test_silence_of_the_tickerplant_is_an_alarm_and_a_cluster_that_is_off_is_none(self):
        for key, alarm in self.alarms().items():
            missing = "breaching" if key == "TickerplantDown" else "notBreaching"
            self.assertEqual(alarm["Properties"]["TreatMissingData"], missing, key)

    def test_the_guide_says_what_every_alarm_means(self):
        guide = (templates.ROOT / "deploy" / "README.md").read_text()
        for key in self.alarms():
            self.assertIn(f"| `{key}` |", guide)

    def test_the_dashboard_shows_metrics_that_are_published(self):
        body, _ = templates.resources("elastick")["Dashboard"]["Properties"]["DashboardBody"]["Fn::Sub"]
        dashboard = json.loads(body)
        metrics = published()
        seen = set(re.findall(r'MetricName="(\w+)"', json.dumps(dashboard).replace('\\"', '"')))
        for widget in dashboard["widgets"]:
            self.assertEqual(widget["properties"]["region"], "${AWS::Region}")
            namespace = None
            for line in widget["properties"]["metrics"]:
                if isinstance(line[0], str):
                    namespace = namespace if line[0] == "." else line[0]
                    if namespace == "RdbCluster":
                        seen.add(line[1])
        self.assertGreater(len(seen), 12)
        self.assertEqual(seen - metrics.keys(), set())

    def test_widgets_do_not_overlap(self):
        body, _ = templates.resources("elastick")["Dashboard"]["Properties"]["DashboardBody"]["Fn::Sub"]
        taken = set()
        for widget in json.loads(body)["widgets"]:
            for x in range(widget["x"], widget["x"] + widget["width"]):
                for y in range(widget["y"], widget["y"] + widget["height"]):
                    self.assertNotIn((x, y), taken)
                    taken.add((x, y))
            self.assertLessEqual(widget["x"] + widget["width"], 24)
