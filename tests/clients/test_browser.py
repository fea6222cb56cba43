"""Chromium without a screen: pages over HTTPS, and a WebSocket over TLS, of processes with a certificate of an authority that it trusts."""

import shutil
import subprocess
import unittest

from harness.certificates import Authority
from harness.process import Process
from harness.scene import Scene

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
CERTUTIL = shutil.which("certutil")

# Sends a question over a WebSocket, and the reply back, so that the process knows what the page has received. `?HOST:PORT` names another server.
PAGE = """<!doctype html><title>test</title><script>
const web = new WebSocket(`wss://${location.search.slice(1) || location.host}`);
web.onopen = () => web.send('exec sum x from ([]x:1 2 39)');
web.onmessage = (message) => { web.onmessage = null; web.send('seen:' + message.data); };
web.onerror = () => fetch('/failed');
</script>"""

SCRIPT = """\
.page.log:()
.page.html:"%s"
.z.ph:{.page.log,:enlist($[x[0]~"failed";`failed;`page];.z.e`PROTOCOL;.z.u);.h.hy[`html] .page.html}
.z.ws:{.page.log,:enlist(`message;x);if[not x like "seen:*";neg[.z.w] .j.j value x]}
.z.wo:{.page.log,:enlist(`open;.z.e`PROTOCOL;.z.u)}
""" % PAGE.replace("\n", " ")

ANSWERED = 'last[.page.log]~(`message;"seen:42")'


@unittest.skipUnless(CHROMIUM, "no Chromium here: apt-get install --no-install-recommends chromium")
@unittest.skipUnless(CERTUTIL, "no certutil here, with which Chromium gets a trusted authority: apt-get install libnss3-tools")
class Browser(Scene):
    def setUp(self):
        super().setUp()
        self.authority = Authority(self.directory / "authority")
        self.environment = self.authority.variables(self.authority.issue("tick1"))
        self.script = self.directory / "web.q"
        self.script.write_text(SCRIPT)
        self.trusting = self.home("trusting")
        for store in (".pki/nssdb", ".local/share/pki/nssdb"):
            store = self.trusting / store
            store.mkdir(parents=True)
            self.certutil("-N", "-d", f"sql:{store}", "--empty-password")
            self.certutil("-A", "-d", f"sql:{store}", "-n", "authority", "-t", "C,,", "-i", self.authority.path)

    def certutil(self, *arguments):
        subprocess.run([CERTUTIL, *map(str, arguments)], check=True, capture_output=True, timeout=60)

    def home(self, name):
        home = self.directory / name
        home.mkdir()
        return home

    def browser(self, home, *arguments):
        """Starts the browser of a user."""
        options = ("--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run", f"--user-data-dir={home / 'profile'}")
        process = Process("chromium", (*options, *arguments), self.directory, {"HOME": str(home)}, program=CHROMIUM)
        self.processes.append(process)
        return process

    def dom(self, home, address):
        """The page as the browser shows it."""
        process = self.browser(home, "--dump-dom", address)
        process.wait(120)
        return process.printed()

    def node(self, tp, *options, name="rdb"):
        return self.start(name, "rdb", f"tcps://localhost:{tp.port}", self.script, "-p", "0", "--node", name, "-E", "2", *options)

    def open(self, address, client, last):
        """Opens an address in the browser until a process has logged this."""
        browser = self.browser(self.trusting, f"https://{address}")
        self.eventually(lambda: client.ask(last).v, "the page has come that far")
        browser.terminate()

    def assert_uses(self, port, client, user="", login=""):
        """Opens the page in the browser: it gets the page and a WebSocket, both by TLS 1.3 and as this user."""
        self.open(f"{login}localhost:{port}/", client, ANSWERED)
        opened = client.ask("distinct .page.log where .page.log[;0] in `page`open").py()
        self.assertEqual(opened, [["page", "TLSv1.3", user], ["open", "TLSv1.3", user]])

    def test_a_node_serves_pages_and_a_websocket(self):
        tp = self.tick("-E", "2")
        node = self.node(tp)
        client = self.connect(node, tls=self.authority.client())
        unknown = self.dom(self.home("other"), f"https://localhost:{node.port}/")
        self.assertRegex(unknown, "ERR_CERT_AUTHORITY_INVALID")
        self.assertEqual(client.ask("count .page.log").v, 0, "a browser that does not trust the authority asks for nothing")
        self.assert_uses(node.port, client)
        for process in (tp, node):
            self.assertRegex(self.dom(self.trusting, f"https://localhost:{process.port}/health"), "ok")

    def test_a_page_of_another_server_needs_a_permission(self):
        tp = self.tick("-E", "2")
        first = self.node(tp, name="first")
        client = self.connect(first, tls=self.authority.client())
        for name, options in (("closed", ()), ("open", ("--allow-origin", f"https://localhost:{first.port}"))):
            with self.subTest(name):
                node = self.node(tp, *options, name=name)
                other = self.connect(node, tls=self.authority.client())
                seen, last = (other, ANSWERED) if options else (client, "`failed in .page.log[;0]")
                self.open(f"localhost:{first.port}/?localhost:{node.port}", seen, last)
                self.assertEqual(other.ask("`open in .page.log[;0]").v, bool(options))

    def test_a_q_session_serves_pages_and_a_websocket_to_its_users(self):
        self.script.write_text(SCRIPT + '`:port 0: enlist string system"p";\n')
        users = self.directory / "users"
        users.write_text("ann:secret\n")
        self.start("session", "q", self.script, "-p", "0W", "-E", "2", "-U", users)
        port = self.directory / "port"
        self.eventually(lambda: port.exists() and port.read_text().strip(), "the session's port")
        port = int(port.read_text())
        client = self.connect(port, tls=self.authority.client(), user="ann:secret")
        with self.assertRaises(OSError):
            self.connect(port, user="ann:secret")
        self.assert_uses(port, client, "ann", "ann:secret@")
        self.assertEqual(client.ask(".z.e`PROTOCOL").v, "TLSv1.3")
