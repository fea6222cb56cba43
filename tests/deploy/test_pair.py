"""elastick-boot on an instance of two tickerplants: its lease, the name with both addresses, and when the instance is replaced."""

import contextlib
import json
import re
import subprocess
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from deploy import test_boot

TABLE = "day-LeaseTable-1ABCDEF"
OTHER = "127.0.0.2"
ACTIVE, PASSIVE, UNHEALTHY, LOCKED = (200, 503), (503, 200), (503, 503), (401, 401)
# The AWS CLI with these addresses of running instances.
AWS = test_boot.RECORDING + 'case "$*" in *describe-instances*) printf "%s\\n" "$RUNNING" ;; esac\n'
REPLACED = "autoscaling set-instance-health --instance-id i-0123456789abcdef0 --health-status Unhealthy"


class Health:
    """A tickerplant's health page at an address: `answers` are the statuses for an active and for a passive one."""

    def __init__(self, host, answers, port=0):
        self.answers, self.probes = answers, 0
        health = self

        class Handler(BaseHTTPRequestHandler):
            def log_message(self, *_):
                pass

            def do_GET(self):
                health.probes += 1
                self.send_response(health.answers[self.path == "/health?role=passive"])
                self.send_header("Content-Length", "0")
                self.end_headers()

        self.server = ThreadingHTTPServer((host, port), Handler)
        self.port = self.server.server_port
        threading.Thread(target=self.server.serve_forever, args=(0.01,), daemon=True).start()

    def close(self):
        self.server.shutdown()
        self.server.server_close()


class OfTwo(test_boot.Boot):
    def setUp(self):
        super().setUp()
        self.command("aws", AWS)
        self.environment["RUNNING"] = "10.0.0.7"

    def changes(self):
        """The changes of DNS records, each as [(action, addresses)]."""
        texts = re.findall(r"--change-batch (\{.*\})", "\n".join(self.calls("aws")))
        return [
            [
                (change["Action"], [value["Value"] for value in change["ResourceRecordSet"]["ResourceRecords"]])
                for change in json.loads(text)["Changes"]
            ]
            for text in texts
        ]


class Starting(OfTwo):
    def test_a_tickerplant_of_two_has_the_lease_and_forwards_and_is_watched(self):
        self.instance({**test_boot.TICK, "LEASETABLE": TABLE})
        self.boots()
        written = self.written()
        self.assertEqual(written["ELASTICK_LEASE"], f'"dynamodb://{TABLE}/tick?region=eu-west-1"')
        self.assertEqual((written["ELASTICK_FORWARD"], written["ELASTICK_METRICS_OPEN"]), ('"true"', '"true"'))
        self.assertEqual(written["ELASTICK_ADVERTISE"], '"10.0.0.7:5010"')
        self.assertEqual(written["PEERSOF"], '"fs-0123456789abcdef0"')
        starts = ["start --no-block elastick-tick.service", "start --no-block elastick-watch.service"]
        self.assertEqual(self.calls("systemctl")[-2:], starts)

    def test_a_single_tickerplant_has_no_lease_and_is_not_watched(self):
        self.instance({**test_boot.TICK, "LEASETABLE": ""})
        self.boots()
        self.assertNotIn("ELASTICK_LEASE", self.written())
        self.assertEqual(self.calls("systemctl")[-1], "start --no-block elastick-tick.service")

    def test_a_table_that_could_not_be_one_starts_nothing(self):
        self.instance({**test_boot.TICK, "LEASETABLE": "a/b?c"})
        self.refuses("tag LEASETABLE", "DynamoDB table")


class TheName(OfTwo):
    def setUp(self):
        super().setUp()
        self.environment |= {"HOSTEDZONE": "Z1", "TICKERPLANT": "t.internal", "AWS_REGION": "eu-west-1", "PEERSOF": "fs-1"}
        self.instance()

    def test_it_leads_to_both(self):
        self.environment["RUNNING"] = "10.0.0.7\t10.0.1.8"
        self.assertEqual(self.boot("announce").returncode, 0)
        self.assertIn("Name=tag:APP,Values=tick-asg Name=tag:EFS,Values=fs-1", self.calls("aws")[0])
        self.assertEqual(self.changes(), [[("UPSERT", ["10.0.0.7", "10.0.1.8"])]])

    def test_the_first_one_has_it_alone(self):
        self.assertEqual(self.boot("announce").returncode, 0)
        self.assertEqual(self.changes(), [[("UPSERT", ["10.0.0.7"])]])

    def test_without_an_answer_about_the_other_one_it_is_not_changed(self):
        self.command("aws", test_boot.RECORDING + "exit 254\n")
        self.assertEqual(self.boot("announce").returncode, 1)
        self.assertEqual(self.changes(), [])

    def test_an_instance_that_stops_leaves_it_to_the_other(self):
        self.environment["RUNNING"] = "10.0.0.7\t10.0.1.8"
        self.assertEqual(self.boot("withdraw").returncode, 0)
        self.assertEqual(self.changes(), [[("UPSERT", ["10.0.1.8"])]])

    def test_the_last_one_gives_it_back(self):
        self.assertEqual(self.boot("withdraw").returncode, 0)
        self.assertEqual(self.changes(), [[("DELETE", ["10.0.0.7"]), ("CREATE", ["127.0.0.1"])]])


class Watching(OfTwo):
    def setUp(self):
        super().setUp()
        self.environment |= {"AWS_REGION": "eu-west-1", "PEERSOF": "fs-1", "RUNNING": f"10.0.0.7\t{OTHER}"}
        self.environment |= {"BOOT_WATCH_EVERY": "0.02", "BOOT_UNHEALTHY_PROBES": "3", "HOSTEDZONE": "", "TICKERPLANT": "t.internal"}
        self.instance()

    def pair(self, own, other):
        """Health pages of both at one port, as on two instances; None for a process that is not there."""
        pages = Health("127.0.0.1", own or UNHEALTHY), None
        pages = pages[0], Health(OTHER, other, pages[0].port)
        if own is None:
            pages[0].close()
        else:
            self.addCleanup(pages[0].close)
        self.addCleanup(pages[1].close)
        self.environment["ELASTICK_PORT"] = str(pages[1].port)
        return pages

    @contextlib.contextmanager
    def watched(self):
        """Runs the watch meanwhile."""
        out = (self.folder / "out").open("w")
        with out, subprocess.Popen(
            [test_boot.BOOT, "watch"], env=self.everything(), stdout=out, stderr=subprocess.STDOUT, start_new_session=True
        ) as process:
            try:
                yield
            finally:
                process.kill()

    def eventually(self, condition, what):
        end = time.monotonic() + 30
        while not condition():
            self.assertLess(time.monotonic(), end, f"{what}: {(self.folder / 'out').read_text()}")
            time.sleep(0.01)

    def replaced(self):
        return any(REPLACED in call for call in self.calls("aws"))

    def kept(self):
        return "this instance is kept" in (self.folder / "out").read_text()

    def stays(self, own):
        """Asserts that an instance whose tickerplant answers so is looked at many times, and not replaced."""
        page, _ = self.pair(own, ACTIVE)
        with self.watched():
            self.eventually(lambda: page.probes >= 20, "it is probed")
        self.assertFalse(self.replaced() or self.kept())

    def test_an_active_one_and_one_that_could_take_over_stay(self):
        for own in (ACTIVE, PASSIVE):
            with self.subTest(own):
                self.stays(own)

    def test_one_whose_health_cannot_be_told_stays(self):
        self.stays(LOCKED)

    def test_one_that_is_neither_is_replaced_while_the_other_is_either(self):
        for own in (UNHEALTHY, None):
            for other in (ACTIVE, PASSIVE):
                with self.subTest(own=own, other=other):
                    (self.folder / "calls").unlink(missing_ok=True)
                    self.pair(own, other)
                    with self.watched():
                        self.eventually(self.replaced, "it is replaced")

    def test_nothing_is_replaced_while_the_other_one_is_not_known_to_be_healthy(self):
        for other in (UNHEALTHY, LOCKED):
            with self.subTest(other):
                self.pair(UNHEALTHY, other)
                with self.watched():
                    self.eventually(self.kept, "it says that it is kept")
                self.assertFalse(self.replaced())

    def test_a_call_that_fails_is_repeated(self):
        self.command("aws", AWS + 'case "$*" in *set-instance-health*) exit 254 ;; esac\n')
        self.pair(UNHEALTHY, ACTIVE)
        with self.watched():
            self.eventually(lambda: sum(REPLACED in call for call in self.calls("aws")) >= 2, "it is called again")

    def test_one_that_opens_its_log_is_not_replaced(self):
        self.command("systemctl", '#!/usr/bin/env bash\necho "taking over: opening the log"\n')
        self.stays(UNHEALTHY)

    def test_one_that_recovers_in_time_stays(self):
        self.environment["BOOT_UNHEALTHY_PROBES"] = "1000"
        page, _ = self.pair(UNHEALTHY, ACTIVE)
        with self.watched():
            self.eventually(lambda: page.probes >= 6, "it is probed")
            page.answers = PASSIVE
            probes = page.probes
            self.eventually(lambda: page.probes >= probes + 6, "and again")
        self.assertFalse(self.replaced())

    def test_a_name_that_leads_elsewhere_is_corrected_and_one_that_is_right_is_left_alone(self):
        self.environment["HOSTEDZONE"] = "Z1"
        self.command("getent", '#!/usr/bin/env bash\nprintf "%s STREAM t.internal\\n%s DGRAM\\n" $(cat "$CALLS.dns") x\n')
        dns = self.folder / "calls.dns"
        page, _ = self.pair(ACTIVE, PASSIVE)
        dns.write_text(f"10.0.0.7\nx\n{OTHER}\n")
        with self.watched():
            self.eventually(lambda: page.probes >= 5, "it is probed")
            self.assertEqual(self.changes(), [])
            dns.write_text("10.0.0.7\nx\n10.0.9.9\n")
            self.eventually(lambda: self.changes(), "it is corrected")
        self.assertEqual(self.changes()[0], [("UPSERT", ["10.0.0.7", OTHER])])
