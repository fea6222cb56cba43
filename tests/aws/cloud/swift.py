"""A Swift server on this machine, from the package index: one replica, one device, no root. Its expirer deletes what is over."""

import atexit
import getpass
import itertools
import os
import pathlib
import shutil
import signal
import socketserver
import subprocess
import tempfile
import threading
import unittest
import urllib.error
import urllib.request

from harness.process import ROOT, eventually, reserve_port

BIN = pathlib.Path(os.environ.get("ELASTICK_SWIFT", ROOT / ".venv-swift")) / "bin"
_shared = {}
_numbers = itertools.count(1)

# swift.conf's path is a constant of swift.common.utils: nothing goes to /etc.
LAUNCH = """
import sys, swift.common.utils as utils
utils.SWIFT_CONF_FILE = sys.argv[1]
from swift.common import constraints
constraints.reload_constraints()
utils.validate_hash_conf()
name, conf = sys.argv[2:4]
sys.argv = ["swift-" + name, conf]
from swift.common.daemon import run_daemon
if name == "object-expirer":
    from swift.obj.expirer import ObjectExpirer
    run_daemon(ObjectExpirer, conf, section=name, verbose=True)
elif name == "container-updater":
    from swift.container.updater import ContainerUpdater
    run_daemon(ContainerUpdater, conf, section=name, verbose=True)
elif name == "object-server":
    from swift.common.wsgi import run_wsgi
    from swift.obj import server
    run_wsgi(conf, name, global_conf_callback=server.global_conf_callback, verbose=True)
else:
    from swift.common.wsgi import run_wsgi
    run_wsgi(conf, name, verbose=True)
"""

SERVERS = ("account", "container", "object")


def missing():
    """Why there can be no server; None if there can."""
    if not (BIN / "swift-ring-builder").exists():
        return f"swift is not installed in {BIN.parent}: tests/run aws installs it"
    return None


class Memcache(socketserver.StreamRequestHandler):
    """The commands of memcached that tempauth uses for its tokens."""

    def handle(self):
        held = self.server.held
        while line := self.rfile.readline():
            words = line.split()
            if words[0] == b"set":
                value = self.rfile.read(int(words[4]) + 2)[:-2]
                held[words[1]] = (words[2], value)
                self.reply(words, b"STORED\r\n")
            elif words[0] == b"get":
                found = [(key, *held[key]) for key in words[1:] if key in held]
                parts = [b"VALUE %s %s %d\r\n%s\r\n" % (key, flags, len(value), value) for key, flags, value in found]
                self.wfile.write(b"".join(parts) + b"END\r\n")
            elif words[0] == b"delete":
                is_there = held.pop(words[1], None) is not None
                self.reply(words, b"DELETED\r\n" if is_there else b"NOT_FOUND\r\n")
            else:
                self.wfile.write(b"ERROR\r\n")

    def reply(self, words, text):
        if words[-1] != b"noreply":
            self.wfile.write(text)


class Tokens(socketserver.ThreadingTCPServer):
    daemon_threads = True
    allow_reuse_address = True


class Swift:
    """`auth` is noauth or tempauth, with the user test:tester whose key is testing."""

    def __init__(self, auth):
        self.auth = auth
        self.directory = pathlib.Path(tempfile.mkdtemp(prefix="elastick-swift-"))
        self.port, self.processes = reserve_port(), []
        self.url = f"http://127.0.0.1:{self.port}"
        self.tokens = Tokens(("127.0.0.1", 0), Memcache)
        self.tokens.held = {}
        threading.Thread(target=self.tokens.serve_forever, daemon=True).start()
        self.ports = {name: reserve_port() for name in SERVERS}
        for name in ("etc", "run", "log", "cache", "srv/d1"):
            (self.directory / name).mkdir(parents=True)
        self.configure()
        for name in SERVERS:
            self.start(f"{name}-server", f"{name}-server")
        self.proxy = self.start("proxy-server", "proxy-server")
        # Without the container's updater the expirer's queue stays empty.
        self.start("container-updater", "container-server")
        self.start_expirer()
        eventually(self.answers, "Swift answers", 60, self.said)

    def configure(self):
        etc = self.directory / "etc"
        common = (
            f"[DEFAULT]\nbind_ip = 127.0.0.1\nworkers = 0\nswift_dir = {etc}\ndevices = {self.directory}/srv\nmount_check = false\n"
            f"user = {getpass.getuser()}\nrecon_cache_path = {self.directory}/cache\nfallocate_reserve = 0\nlog_level = WARNING\n"
        )
        auth, users = ("cache tempauth", "[filter:tempauth]\nuse = egg:swift#tempauth\nuser_test_tester = testing .admin\n")
        auth, users = (auth, users) if self.auth == "tempauth" else ("", "")
        memcache = f"[filter:cache]\nuse = egg:swift#memcache\nmemcache_servers = 127.0.0.1:{self.tokens.server_address[1]}\n"
        files = {
            "swift.conf": "[swift-hash]\nswift_hash_path_suffix = tests\n[storage-policy:0]\nname = one\ndefault = yes\n",
            "proxy-server.conf": f"{common}bind_port = {self.port}\n[pipeline:main]\npipeline = catch_errors gatekeeper healthcheck {auth} "
            "proxy-server\n[app:proxy-server]\nuse = egg:swift#proxy\naccount_autocreate = true\nallow_account_management = true\n"
            # Otherwise a part that starts late is left out for a minute.
            "error_suppression_interval = 1\nconn_timeout = 5\n"
            f"{users}{memcache}[filter:healthcheck]\nuse = egg:swift#healthcheck\n[filter:catch_errors]\nuse = egg:swift#catch_errors\n"
            "[filter:gatekeeper]\nuse = egg:swift#gatekeeper\n",
            "internal-client.conf": f"[DEFAULT]\nswift_dir = {etc}\n[pipeline:main]\npipeline = catch_errors proxy-server\n[app:proxy-server]\n"
            "use = egg:swift#proxy\naccount_autocreate = true\n[filter:catch_errors]\nuse = egg:swift#catch_errors\n",
            "object-expirer.conf": f"{common}[object-expirer]\ninterval = 1\ndequeue_from_legacy = true\n"
            f"internal_client_conf_path = {etc}/internal-client.conf\nrecon_cache_path = {self.directory}/cache\n",
        }
        for name in SERVERS:
            server = f"{common}bind_port = {self.ports[name]}\n[pipeline:main]\npipeline = {name}-server\n[app:{name}-server]\nuse = egg:swift#{name}\n"
            more = "[container-updater]\ninterval = 1\naccount_suppression_time = 1\n" if name == "container" else ""
            files[f"{name}-server.conf"] = server + more
        for name, text in files.items():
            (etc / name).write_text(text)
        for name in SERVERS:
            device = f"r1z1-127.0.0.1:{self.ports[name]}/d1"
            for words in (("create", "4", "1", "0"), ("add", device, "1"), ("rebalance",)):
                # A rebalance of one device warns.
                subprocess.run([BIN / "swift-ring-builder", f"{name}.builder", *words], cwd=etc, capture_output=True, check=False)

    def start(self, program, conf):
        log = open(self.directory / "log" / program, "wb")
        etc = self.directory / "etc"
        command = [BIN / "python", "-c", LAUNCH, etc / "swift.conf", program, etc / f"{conf}.conf"]
        process = subprocess.Popen(list(map(str, command)), stdout=log, stderr=subprocess.STDOUT, start_new_session=True)
        log.close()
        self.processes.append(process)
        return process

    def start_expirer(self):
        self.expirer = self.start("object-expirer", "object-expirer")

    def answers(self):
        try:
            return self.request("GET", "/healthcheck")[0] == 200
        except OSError:
            return False

    def pause(self):
        """The server accepts connections and answers nothing, until the returned function is called."""
        self.proxy.send_signal(signal.SIGSTOP)
        return lambda: self.proxy.send_signal(signal.SIGCONT)

    def stop_expirer(self):
        self.expirer.kill()
        self.expirer.wait()

    def said(self):
        return "".join(f"{log.name}: {log.read_text(errors='replace')[-400:]}\n" for log in (self.directory / "log").iterdir())

    def request(self, method, path, **fields):
        """Status and fields of a response. Asks again after 503: Swift answers it for a moment when a part of it was slow."""
        return eventually(lambda: self.unless_busy(method, path, **fields), f"Swift answers {method} {path}", 60, self.said)

    def unless_busy(self, method, path, **fields):
        """Status and fields of a response, None if the status is 503."""
        fields = {name.replace("_", "-"): value for name, value in fields.items()}
        request = urllib.request.Request(self.url + path, method=method, headers=fields)
        try:
            with urllib.request.urlopen(request, timeout=20) as response:
                return response.status, response.headers
        except urllib.error.HTTPError as error:
            return None if error.code == 503 else (error.code, error.headers)

    def close(self):
        for process in self.processes:
            process.kill()
            process.wait()
        self.tokens.shutdown()
        self.tokens.server_close()
        shutil.rmtree(self.directory, ignore_errors=True)


def swift(auth):
    """One server of each kind for all tests of a run."""
    if auth not in _shared:
        _shared[auth] = Swift(auth)
        atexit.register(_shared[auth].close)
    return _shared[auth]


class Account:
    """For test cases: a container of an account that needs no login."""

    auth = "noauth"

    @classmethod
    def setUpClass(cls):
        reason = missing()
        if reason:
            raise unittest.SkipTest(reason)
        super().setUpClass()

    def make_container(self):
        self.server = swift(self.auth)
        self.container = f"leases{next(_numbers)}"
        self.fields, self.account = self.login()
        # A server that has just started may still lack its parts.
        eventually(lambda: self.server.request("PUT", self.path(), **self.fields)[0] in (201, 202), "the container is made")
        eventually(lambda: self.server.request("HEAD", self.path("none"), **self.fields)[0] == 404, "its objects are served")

    def login(self):
        return {}, "/v1/AUTH_karbor"

    def access(self):
        return "account=AUTH_karbor"

    def path(self, *names):
        return "/".join([self.account, self.container, *names])


class AccountWithLogin(Account):
    """With tempauth's tokens."""

    auth = "tempauth"

    def login(self):
        status, fields = self.server.request("GET", "/auth/v1.0", X_Auth_User="test:tester", X_Auth_Key="testing")
        self.assertEqual(status, 200)
        return {"X_Auth_Token": fields["X-Auth-Token"]}, "/v1/AUTH_test"

    def key_file(self, key="testing"):
        path = pathlib.Path(self.directory) / f"key-{key}"
        path.write_text(key + "\n")
        return path

    def access(self):
        return f"user=test:tester&key-file={self.key_file()}"
