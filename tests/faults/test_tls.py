"""TLS between real processes: publishers, subscribers, nodes and browsers, certificates that are wrong or replaced, hostile handshakes."""

import contextlib
import re
import signal
import socket
import ssl
import subprocess
import urllib.request

from harness import kdb
from harness.certificates import Authority, openssl
from harness.process import binary, eventually
from harness.scene import Scene, trades, update

from .limits import metrics
from .test_limits_wire import client_hello

# A page, a WebSocket and its echo, by a browser's own TLS.
BROWSER = """
const https = require("https"), port = process.argv[1];
https.get({ port, path: "/health" }, (page) => {
  page.resume().on("end", () => {
    if (process.argv[2] === "page") { console.log(page.statusCode); return; }
    const web = new WebSocket(`wss://localhost:${port}`);
    web.onopen = () => web.send("hello");
    web.onmessage = (message) => { console.log(page.statusCode, message.data); web.close(); };
    web.onerror = (error) => { console.log("failed", error.message); process.exit(1); };
  });
});
"""


class Tls(Scene):
    def setUp(self):
        super().setUp()
        self.authority = Authority(self.directory / "authority")
        self.server = self.authority.issue("tick1")
        self.environment = self.authority.variables(self.server)
        self.context = self.authority.client()

    def secure(self, process, context=None, **options):
        return self.connect(process, tls=context or self.context, **options)

    def q(self, expression, *address, **environment):
        """The output of a console that evaluates an expression, here or at an address."""
        done = subprocess.run(
            [binary(), "q", *address],
            input=expression,
            capture_output=True,
            text=True,
            timeout=60,
            env={"PATH": "/usr/bin:/bin", "HOME": str(self.directory), **self.authority.variables(), **environment},
        )
        return done.stdout + done.stderr

    def page(self, process, path):
        with contextlib.suppress(OSError):
            with urllib.request.urlopen(f"https://localhost:{process.port}{path}", context=self.context, timeout=30) as page:
                return page.read()
        return b""

    def node(self, tick, *options, name="rdb", **environment):
        address = f"tcps://localhost:{tick.port}"
        return self.start(name, "rdb", address, "-p", "0", "--node", name, *options, **environment)


class Clients(Tls):
    def test_plain_and_tls_clients_share_a_port_and_get_the_same_updates(self):
        tp = self.tick("-E", "1")
        clients = [self.connect(tp), self.secure(tp), self.secure(tp, self.authority.client(version=ssl.TLSVersion.TLSv1_2))]
        for client in clients:
            client.ask(kdb.syms(".u.sub", "trade", ""))
        for number, publisher in enumerate(clients):
            publisher.ask(update("trade", trades(number * 20_000, 20_000)))
        for client in clients:
            seqs = [seq for _ in clients for seq in client.push()[2]["seq"].v]
            self.assertEqual(seqs, list(range(60_000)))
        self.assertEqual([client.ask(".z.e `PROTOCOL").v for client in clients[1:]], ["TLSv1.3", "TLSv1.2"])
        self.assertEqual(clients[0].ask("count .z.e").v, 0)
        self.assertRegex(clients[2].ask(".z.e `CIPHER").v, "^ECDHE-ECDSA-AES(256|128)-GCM-SHA")
        self.assertEqual(clients[0].ask("(-26!)[] `SSL_CERT_FILE").v, f"{self.server}.pem")

    def test_a_plain_client_of_a_tls_port_is_rejected_with_a_reason_in_the_log(self):
        tp = self.tick("-E", "2")
        with self.assertRaises(OSError):
            self.connect(tp)
        tp.wait_for(r"a plain client, but this port takes TLS only \(-E 2\)")
        self.assertEqual(self.secure(tp).ask("1+1").v, 2)

    def test_a_tls_client_of_a_plain_port_is_rejected_with_a_reason_on_both_sides(self):
        tp = self.tick()
        with self.assertRaises(OSError):
            self.secure(tp)
        tp.wait_for(r"a TLS client, but this port has no TLS \(-E 1 or -E 2\)")
        self.assertIn("does it listen with TLS", self.q("1+1", f"tcps://localhost:{tp.port}"))

    def test_unix_sockets_stay_plain(self):
        tp = self.tick("-E", "2", "--unix-sockets", self.directory)
        self.assertEqual(self.connect(str(self.directory / f"kx.{tp.port}")).ask("1+1").v, 2)

    def test_openssl_finds_nothing_to_complain_about(self):
        tp = self.tick("-E", "1")
        for version in ("-tls1_2", "-tls1_3"):
            said = openssl("s_client", "-connect", f"localhost:{tp.port}", "-CAfile", self.authority.path, "-verify_return_error", "-verify_hostname", "localhost", version, input="Q\n")
            self.assertIn("Verify return code: 0 (ok)", said)

    def test_renegotiation_and_old_versions_are_rejected(self):
        tp = self.tick("-E", "1")
        base = ("openssl", "s_client", "-connect", f"localhost:{tp.port}", "-CAfile", str(self.authority.path))
        for arguments, text in ((("-tls1_2",), "R\n"), (("-tls1_1", "-cipher", "ALL@SECLEVEL=0"), "")):
            done = subprocess.run([*base, *arguments], input=text, capture_output=True, text=True, timeout=60)
            self.assertNotEqual(done.returncode, 0, done.stdout)
        self.assertEqual(self.secure(tp).ask("1+1").v, 2)

    def test_a_slow_subscriber_is_fed_from_the_log_and_misses_nothing(self):
        tp = self.tick("-E", "1", "--limit-outbox", "1MiB")
        lazy, feed = self.secure(tp), self.connect(tp)
        lazy.ask(kdb.syms(".u.sub", "trade", ""))
        sent = 0
        while not re.search(r"^elastick_subscribers_demoted_total [1-9]", metrics(tp), re.MULTILINE):
            feed.ask(update("trade", trades(sent, 5000)))
            sent += 5000
            self.assertLess(sent, 5_000_000)
        seqs = []
        while len(seqs) < sent:
            seqs += lazy.push()[2]["seq"].v
        self.assertEqual(seqs, list(range(sent)))

    def test_a_page_and_a_websocket_come_with_a_browsers_tls(self):
        tp = self.tick("-E", "1")
        script = self.directory / "web.q"
        script.write_text(".z.ws:{neg[.z.w] x}\n")
        node = self.node(tp, script, "-E", "2", "--metrics-open")
        for process, what, wanted in ((tp, "page", "200"), (node, "web", "200 hello")):
            process.wait_for("listening on")
            eventually(lambda: self.page(process, "/health"), "its page has status 200")
            done = subprocess.run(
                ["node", "--no-warnings", "--experimental-websocket", "-e", BROWSER, str(process.port), what],
                capture_output=True,
                text=True,
                timeout=60,
                env={"PATH": "/usr/bin:/bin:/usr/local/bin", "NODE_EXTRA_CA_CERTS": str(self.authority.path)},
            )
            self.assertEqual(done.stdout.strip(), wanted, done.stderr)


class Nodes(Tls):
    def test_nodes_feed_and_console_use_tls_from_end_to_end(self):
        tp = self.tick("-E", "2")
        node = self.node(tp, "-E", "2")
        feed = self.start("feed", "feed", f"tcps://localhost:{tp.port}", "--tables", "trade", "--updates", "500", "--rate", "100000")
        self.assertEqual(feed.wait(), 0, feed.tail())
        self.assertEqual(self.secure(tp).ask(".u.i").v, 500)
        reader = self.secure(node)
        self.eventually(lambda: reader.ask("exec sum updates from .rdb.windows").v == 500, "the node has all updates")
        address = f"tcps://localhost:{node.port}"
        self.assertIn("TLSv1.3", self.q(".z.e`PROTOCOL", address))
        self.assertEqual(self.q("1+1", f"localhost:{node.port}").count("rejected"), 1)
        script = f"h:hopen `:{address}\nh\"1+1\"\nneg[h]\"a:til 1000000\"\nh\"sum a\"\nhclose h\n"
        self.assertEqual(self.q(script).split(), ["2", "499999500000"])

    def test_a_node_joins_again_after_the_tickerplants_certificate_was_replaced(self):
        tp = self.tick("-E", "2", "--start-grace", "1s")
        node = self.node(tp)
        node.wait_for("live from update 0")
        port = tp.port
        tp.terminate()
        self.authority.issue("tick1")
        tp = self.tick("-E", "2", "--start-grace", "1s", port=port)
        self.secure(tp).ask(update("trade", trades(0, 10)))
        reader = self.connect(node)
        self.eventually(lambda: reader.ask("count trade").v == 10, "the node is fed again")


class Certificates(Tls):
    def test_a_client_certificate_is_required_and_verified(self):
        self.environment["SSL_VERIFY_CLIENT"] = "YES"
        tp = self.tick("-E", "2")
        client = self.authority.issue("feed1", names="DNS:feed1.example")
        other = Authority(self.directory / "other", "Other authority")
        stranger = other.issue("feed1")
        self.assertEqual(self.secure(tp, self.authority.client(client)).ask("1+1").v, 2)
        for base, why in ((None, "SSL_VERIFY_CLIENT=YES requires one"), (stranger, "issuer of the certificate is not among")):
            with self.assertRaises(OSError):
                self.secure(tp, self.authority.client(base))
            tp.wait_for(why)
        own = {"SSL_CERT_FILE": f"{client}.pem", "SSL_KEY_FILE": f"{client}.key"}
        address = f"tcps://localhost:{tp.port}"
        self.assertEqual(self.q("1+1", address, **own).strip(), "2")
        self.assertIn("requires a certificate", self.q("1+1", address))

    def test_a_certificate_stands_for_its_user_and_proves_a_node(self):
        self.environment["SSL_VERIFY_CLIENT"] = "YES"
        users = self.directory / "users.toml"
        users.write_text(
            '[users.ann]\ncertificates = ["ann.example"]\nroles = ["query"]\n'
            '[users.rdbs]\ncertificates = ["rdb"]\nroles = ["node"]\n'
        )
        secret = self.directory / "secret"
        secret.write_text("the secret of this cluster")
        secret.chmod(0o600)
        tp = self.tick("-E", "2", "-U", users, "--cluster-secret-file", secret)
        own = lambda base: {"SSL_CERT_FILE": f"{base}.pem", "SSL_KEY_FILE": f"{base}.key"}
        ann = self.authority.issue("ann", names="DNS:ann.example")
        address = f"tcps://localhost:{tp.port}"
        self.assertEqual(self.q(".z.u", address, **own(ann)).strip(), "`ann")
        self.assertIn("access", self.q(".u.endofday[]", address, **own(ann)))
        self.assertIn("access", self.q("1+1", f"{address}:rdbs:", **own(ann)), "a certificate is no other user's")
        node = self.authority.issue("node", names="DNS:rdb")
        other = self.node(tp, "--queue", "rdb", name="other", **self.authority.variables(node))
        other.wait_for("must know the secret of the cluster")
        self.node(tp, "--queue", "rdb", name="rdb", **self.authority.variables(node))
        names = "exec node from .u.asg.tab where state<>`lost"
        self.eventually(lambda: "rdb" in self.q(names, address, **own(ann)), "the node has joined")
        self.assertNotIn("other", self.q(names, address, **own(ann)))

    def test_a_server_is_verified_unless_that_is_switched_off(self):
        expired = self.authority.issue("old", end="20210101000000Z")
        other = self.authority.issue("other", names="DNS:other.example")
        stranger = Authority(self.directory / "other", "Other authority").issue("tick1")
        for base, why in ((expired, "has expired"), (other, "another host name"), (stranger, "issuer of the certificate")):
            self.environment = self.authority.variables(base)
            tp = self.tick("-E", "2", name=base.name, logs=self.directory / f"logs-{base.parent.name}-{base.name}")
            address = f"tcps://localhost:{tp.port}"
            self.assertIn(why, self.q("1+1", address))
            self.assertEqual(self.q("1+1", address, SSL_VERIFY_SERVER="NO").strip(), "2")
        self.assertIn("has expired: clients will reject it", self.processes[0].printed())

    def test_a_certificate_that_signs_itself_is_trusted_if_the_file_of_trusted_ones_has_it(self):
        base = self.directory / "self"
        openssl("req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", f"{base}.key", "-out", f"{base}.pem", "-days", 20, "-subj", "/CN=self", "-addext", "subjectAltName=DNS:localhost")
        self.environment = self.authority.variables(base)
        tp = self.tick("-E", "2")
        tp.wait_for("the certificate .SSL_CERT_FILE. expires within 20 days")
        address = f"tcps://localhost:{tp.port}"
        self.assertEqual(self.q("1+1", address, SSL_CA_CERT_FILE=f"{base}.pem").strip(), "2")
        self.assertIn("another host name", self.q("1+1", f"tcps://127.0.0.1:{tp.port}", SSL_CA_CERT_FILE=f"{base}.pem"))

    def test_a_start_without_usable_files_says_which_is_missing(self):
        for environment, why in (
            ({"SSL_KEY_FILE": ""}, "set SSL_CERT_FILE .--tls-cert. and SSL_KEY_FILE"),
            ({"SSL_KEY_FILE": "/no/such.key"}, "SSL_KEY_FILE, /no/such.key: "),
            ({"SSL_KEY_FILE": f"{self.server}.pem"}, "SSL_KEY_FILE, .*no private key"),
            ({"SSL_KEY_FILE": str(self.authority.directory / "ca.key")}, "do not fit together"),
            ({"SSL_VERIFY_CLIENT": "YES", "SSL_CA_CERT_FILE": ""}, "SSL_VERIFY_CLIENT=YES needs"),
            ({"SSL_VERIFY_CLIENT": "maybe"}, "SSL_VERIFY_CLIENT.*is not YES or NO"),
        ):
            process = self.start("tick", "tick", "sym", "-p", "0", "-E", "2", **environment)
            self.assertNotEqual(process.wait(), 0)
            self.assertRegex(process.printed(), why)

    def serial(self, process):
        with socket.create_connection(("127.0.0.1", process.port), timeout=30) as plain:
            with self.context.wrap_socket(plain, server_hostname="localhost") as sock:
                return sock.getpeercert()["serialNumber"]

    def test_replaced_files_are_used_without_a_restart_and_wrong_ones_are_not(self):
        tp = self.tick("-E", "2")
        open_before, first = self.secure(tp), self.serial(tp)
        self.authority.issue("tick1")
        self.eventually(lambda: self.serial(tp) != first, "new connections get the new certificate")
        second = self.serial(tp)
        certificate = self.server.with_suffix(".pem")
        kept = certificate.read_text()
        certificate.write_text("not a certificate")
        tp.wait_for("the certificates stay as they were: SSL_CERT_FILE")
        self.assertEqual(self.serial(tp), second)
        certificate.write_text(kept)
        said = tp.printed().count("new connections get the certificate read now")
        tp.signal(signal.SIGHUP)
        self.eventually(lambda: tp.printed().count("new connections get the certificate read now") > said, "it reads again")
        self.assertEqual((self.serial(tp), open_before.ask("1+1").v), (second, 2))
        self.assertRegex(self.page(tp, "/metrics").decode(), r"(?m)^elastick_tls_certificate_remaining_seconds \d{8,}")


class Hostile(Tls):
    def setUp(self):
        super().setUp()
        self.tp = self.tick("-E", "1", "--limit-handshake-time", "2s")
        self.other = self.secure(self.tp)

    def assert_unharmed(self):
        self.assertEqual(self.other.ask("1+1").v, 2)
        self.assertEqual(self.secure(self.tp).ask("1+1").v, 2)
        self.assertNotIn("panicked", self.tp.printed())

    def raw(self):
        sock = socket.create_connection(("127.0.0.1", self.tp.port), timeout=30)
        self.addCleanup(sock.close)
        return sock

    def ends(self, sock):
        with contextlib.suppress(ConnectionError):
            while sock.recv(1 << 16):
                pass

    def test_clients_that_stop_in_their_handshake_occupy_nothing_and_are_dropped(self):
        hello = client_hello()
        stuck = [self.raw() for _ in range(100)]
        for at, sock in enumerate(stuck):
            sock.sendall(hello[: 1 + at * len(hello) // 100])
        self.assert_unharmed()
        for sock in stuck:
            self.ends(sock)
        self.tp.wait_for("no handshake within 2s")
        self.assert_unharmed()

    def test_bytes_that_are_not_tls_after_a_first_byte_that_is(self):
        for rest in (b"\x16" * 600, b"\x16\x03\x01\xff\xff" + bytes(70_000), b"\x16\x03\x01\x00\x00" * 400, b"\x16\x03\x03\x00\x04\x01\xff\xff\xff" * 300):
            sock = self.raw()
            with contextlib.suppress(ConnectionError):
                sock.sendall(rest)
            self.ends(sock)
            self.assert_unharmed()
        self.tp.wait_for("bytes that are not TLS")

    def test_an_end_of_stream_in_the_middle_of_a_handshake(self):
        """More of them than there are threads, each with bytes after its end."""
        end = b"\x15\x03\x03\x00\x02\x01\x00"
        for version in (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3):
            hello = client_hello(version)
            for _ in range(3):
                sock = self.raw()
                with contextlib.suppress(OSError):
                    sock.sendall(hello + end + 40 * hello)
                    sock.shutdown(socket.SHUT_WR)
                self.ends(sock)
        self.assert_unharmed()

    def test_a_connection_whose_bytes_are_changed_on_the_way_is_closed(self):
        plain = self.raw()
        incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        client = self.context.wrap_bio(incoming, outgoing, server_hostname="localhost")
        while True:
            try:
                client.do_handshake()
                break
            except ssl.SSLWantReadError:
                plain.sendall(outgoing.read())
                incoming.write(plain.recv(1 << 16))
        client.write(b"tests:\x03\0")
        data = bytearray(outgoing.read())
        data[-1] ^= 1
        plain.sendall(data)
        self.ends(plain)
        self.assert_unharmed()

    def test_a_crowd_of_handshakes_delays_nobodys_updates(self):
        subscriber = self.secure(self.tp)
        subscriber.ask(kdb.syms(".u.sub", "trade", ""))
        hello = client_hello()
        crowd = [self.raw() for _ in range(300)]
        for at, sock in enumerate(crowd):
            sock.sendall(hello)
            if at % 30 == 0:
                self.other.ask(update("trade", trades(at, 1)))
                self.assertEqual(subscriber.push()[2]["seq"].v, [at])
        self.assert_unharmed()
