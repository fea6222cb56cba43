"""Monitoring on the port of tickerplant and node: metrics as read by Prometheus's own parser, health checks, other HTTP clients."""

import base64
import http.client
import socket
import subprocess

from harness import kdb
from harness.pages import page
from harness.scene import Scene, trades, update
from prometheus_client.parser import text_string_to_metric_families


def scrape(process):
    """Metric families by name, and values by name and sorted labels."""
    status, headers, text = page(process.port, "/metrics")
    assert status == 200, status
    assert headers["Content-Type"] == "text/plain; version=0.0.4; charset=utf-8", headers
    families = {family.name: family for family in text_string_to_metric_families(text)}
    values = {}
    for family in families.values():
        for sample in family.samples:
            key = (sample.name, tuple(sorted(sample.labels.items())))
            assert key not in values, f"{key} twice"
            values[key] = sample.value
    return families, values


def value(process, name, **labels):
    return scrape(process)[1].get((name, tuple(sorted(labels.items()))))


class Monitors(Scene):
    def setUp(self):
        super().setUp()
        self.tp = self.tick()
        self.h = self.connect(self.tp)

    def test_prometheus_reads_what_tickerplant_and_node_tell(self):
        node = self.rdb(self.tp, "--memory", "64MiB")
        self.h.ask(update("trade", trades(0, 7)))
        self.eventually(lambda: value(node, "elastick_rows") == 7, "the node holds the rows")
        for process in (self.tp, node):
            with self.subTest(process.name):
                families, values = scrape(process)
                self.assertEqual(families["elastick_updates"].type, "counter")
                self.assertEqual(families["elastick_connections"].type, "gauge")
                self.assertTrue(all(family.documentation for family in families.values()))
                self.assertEqual(values["elastick_updates_total", ()], 1)
                self.assertEqual(values["elastick_limit_bytes", (("limit", "limit-message"),)], 256 << 20)
                self.assertGreaterEqual(values["elastick_process_cpu_seconds_total", ()], 0)
                self.assertGreater(values["elastick_process_resident_memory_bytes", ()], 1 << 20)

    def test_the_numbers_are_those_that_q_users_see(self):
        for first in range(0, 50, 10):
            self.h.ask(update("trade", trades(first, 10)))
        stats = self.h.ask(".u.stats")
        told = dict(zip(stats.v[0].v, stats.v[1].v))
        _, values = scrape(self.tp)
        for name, word in [
            ("elastick_updates_total", "updates"), ("elastick_rows_total", "rows"), ("elastick_log_updates", "tip"),
            ("elastick_log_bytes", "logBytes"), ("elastick_updates_refused_total", "refused"),
        ]:  # fmt: skip
            self.assertEqual(values[name, ()], told[word], name)

    def test_names_that_need_escaping_arrive_whole(self):
        name = 'a "queue"\\ with\nlines'
        self.h.ask(kdb.lst(kdb.sym(".u.asg.sub"), kdb.sym(""), kdb.sym(""), kdb.sym(name)))
        self.assertEqual(value(self.tp, "elastick_queue_live", queue=name), 1)

    def test_one_connection_serves_many_requests(self):
        connection = http.client.HTTPConnection("127.0.0.1", self.tp.port, timeout=30)
        self.addCleanup(connection.close)
        sockets = set()
        for method in ("GET", "HEAD", "GET"):
            connection.request(method, "/health")
            answer = connection.getresponse()
            body = answer.read()
            self.assertEqual((answer.status, body.startswith(b"ok")), (200, method == "GET"))
            sockets.add(connection.sock.fileno())
        self.assertEqual(len(sockets), 1)

    def test_curl_is_served(self):
        done = subprocess.run(
            ["curl", "-sS", "-i", f"http://127.0.0.1:{self.tp.port}/health"], capture_output=True, timeout=60
        )
        self.assertTrue(done.stdout.startswith(b"HTTP/1.1 200 OK\r\n"), done)

    def test_health_tells_a_node_without_its_tickerplant(self):
        node = self.rdb(self.tp)
        self.eventually(lambda: page(node.port, "/health")[0] == 200, "the node is well")
        self.tp.terminate()
        self.eventually(lambda: page(node.port, "/health")[0] == 503, "the node says that it is of no use")
        self.assertIn("not connected", page(node.port, "/health")[2])

    def test_users_are_those_of_kdb(self):
        users = self.directory / "users"
        users.write_text("ann:secret\n")
        tp = self.tick("-U", users, name="closed", logs=self.directory / "closed")
        self.assertEqual(page(tp.port, "/metrics")[0], 401)
        self.assertIn("Basic", page(tp.port, "/metrics")[1]["WWW-Authenticate"])
        for secret, status in [("secret", 200), ("wrong", 401)]:
            login = "Basic " + base64.b64encode(f"ann:{secret}".encode()).decode()
            self.assertEqual(page(tp.port, "/metrics", Authorization=login)[0], status)
        tp = self.tick("-U", users, "--metrics-open", name="open", logs=self.directory / "open")
        self.assertEqual(page(tp.port, "/metrics")[0], 200)

    def test_what_is_no_request_costs_nobody_else_anything(self):
        for request in [
            b"GET / HTTP/1.1\r\nbad\x01header\r\n\r\n", b"GET nothing\r\n\r\n", b"GET / HTTP/9.9\r\n\r\n",
            b"GET " + b"x" * 20000,
        ]:  # fmt: skip
            with self.subTest(request[:20]):
                with socket.create_connection(("127.0.0.1", self.tp.port), timeout=30) as sock:
                    sock.sendall(request)
                    self.assertRegex(sock.recv(100), rb"^HTTP/1.1 (400|431|505) ")
                self.assertEqual(self.h.ask("1+1").v, 2)
        # Clients that stop in the middle of a request do not block the page for others.
        idle = [socket.create_connection(("127.0.0.1", self.tp.port), timeout=30) for _ in range(40)]
        for sock in idle:
            self.addCleanup(sock.close)
            sock.sendall(b"GET /metrics HTTP/1.1\r\n")
        self.eventually(
            lambda: value(self.tp, "elastick_limit_used_items", limit="limit-http-connections") == 41, "all are seen"
        )
        self.h.ask(update("trade", trades(0, 1)))
