"""Users of identity services: OpenID Connect tokens and LDAP binds as passwords, over kdb+ IPC, HTTP and WebSocket, with services that are
wrong, slow, silent or gone."""

import base64
import contextlib
import hashlib
import hmac
import json
import re
import signal
import socket
import subprocess
import threading
import time
import tomllib
import unittest

from harness import directory, kdb
from harness.certificates import Authority
from harness.process import ROOT
from harness.scene import Scene
from harness.tokens import ISSUER, Issuer, KeyServer, base64url

from .limits import http, metrics

# Longer than any test: a busy machine must not turn a login that waits into one that is late.
PATIENT = ("--limit-identity-time", "1h", "--limit-handshake-time", "1h")

FILE = """
[roles.desk]
query = true
subscribe = ["trade"]

[users.tests]
password = "file"
roles = ["publish", "subscribe", "query", "node", "operator"]
"""

OIDC = """
[oidc]
jwks = "{jwks}"
issuer = "{issuer}"
audience = "elastick"
user_claim = "preferred_username"
roles_claim = "realm_access.roles"
keys_refetch = "0s"
{more}
[oidc.roles]
traders = ["desk"]
"""


class Identity(Scene):
    def setUp(self):
        super().setUp()
        self.users = self.directory / "users.toml"

    def write(self, *tables):
        """Replaces the users file at once, as an editor does."""
        new = self.users.with_suffix(".new")
        new.write_text(FILE + "".join(tables))
        new.replace(self.users)

    def own(self, process):
        """A user of the file, who always logs in."""
        return self.connect(process, user="tests:file")

    def admitted(self, process, user, password):
        """`.z.u` of a user's connection."""
        h = self.connect(process, user=f"{user}:{password}")
        return h.ask(".z.u").v

    def rejected(self, process, user, password, reason):
        """A login is rejected, for this reason in the log."""
        before = len(process.printed())
        with self.assertRaises(OSError):
            self.connect(process, user=f"{user}:{password}")
        self.eventually(lambda: re.search(reason, process.printed()[before:]), f"the log says {reason!r}")

    def count(self, process, name):
        return float(re.search(rf"^{name} (\S+)$", self.page(process), re.MULTILINE).group(1))

    def page(self, process):
        answer = http(process, self.get("/metrics", "tests", "file"))
        self.assertTrue(answer.startswith("HTTP/1.1 200 "), answer)
        return answer

    def get(self, path, user, password, *fields):
        basic = base64.b64encode(f"{user}:{password}".encode()).decode()
        lines = (f"GET {path} HTTP/1.1", "Host: h", f"Authorization: Basic {basic}", *(fields or ("Connection: close",)), "", "")
        return "\r\n".join(lines).encode()

    def curl(self, process, *arguments):
        """The status that `curl` receives. What is secret is in a file: `ps` shows arguments."""
        done = subprocess.run(["curl", "-s", "-o", "/dev/null", "-w", "%{http_code}", *arguments, f"http://127.0.0.1:{process.port}/metrics"], capture_output=True, text=True, timeout=60)
        return done.stdout

    def assert_secret(self, *secrets):
        """None of these is in any process's log or metrics."""
        for process in self.processes:
            for secret in secrets:
                self.assertNotIn(secret, process.printed())
                self.assertNotIn(secret, self.page(process))


class Tokens(Identity):
    def setUp(self):
        super().setUp()
        self.authority = Authority(self.directory / "authority")
        self.issuer = Issuer(self.directory / "issuer", ("rsa", "RS256"))
        self.server = self.serve()

    def serve(self, certificate=None):
        server = KeyServer(self.issuer, certificate)
        self.addCleanup(server.stop)
        return server

    def oidc(self, more="", server=None):
        return OIDC.format(jwks=(server or self.server).url, issuer=ISSUER, more=more)

    def start_tick(self, more="", *options):
        self.write(self.oidc(more))
        return self.tick("-U", self.users, *options)

    def test_every_algorithm_logs_in_with_the_claims_roles(self):
        for name in ("RS512", "PS256", "ES256", "ES384", "EdDSA"):
            self.issuer.add(name.lower(), name)
        tp = self.start_tick()
        for key in self.issuer.keys:
            h = self.connect(tp, user=f"tia:{self.issuer.token(key)}")
            self.assertEqual(h.ask(".z.u").v, "tia", key)
            self.assertIsNone(h.error_of(kdb.syms(".u.sub", "trade", "")))
            self.assertRegex(h.error_of(kdb.syms(".u.sub", "quote", "")), "^access")
            self.assertRegex(h.error_of(".u.end .z.d"), "^access")
        self.assertEqual(self.server.asked, 1, "keys are kept")
        self.assertEqual(self.admitted(tp, "", self.issuer.token()), "tia")

    def test_tokens_that_are_wrong_are_rejected_and_kept_secret(self):
        self.issuer.add("ec")
        other = Issuer(self.directory / "other", ("rsa", "RS256"))
        tp = self.start_tick()
        token, now = self.issuer.token, int(time.time())
        good = token()
        head, claims, signature = good.split(".")
        public = json.loads(self.issuer.jwks())["keys"][0]["n"]
        confused = f"{base64url(json.dumps({'alg': 'HS256', 'kid': 'rsa'}).encode())}.{claims}"
        confused += "." + base64url(hmac.new(base64.urlsafe_b64decode(public + "=="), confused.encode(), hashlib.sha256).digest())
        wrong = [
            ("tia", token(exp=now - 61), "has expired"),
            ("tia", token(exp=None), "no expiry"),
            ("tia", token(nbf=now + 600), "not valid yet"),
            ("tia", token(aud="another"), "another audience"),
            ("tia", token(aud=["another", "one"]), "another audience"),
            ("tia", token(iss="https://sso.example.com/realms/other"), "another issuer"),
            ("tia", token(realm_access={"roles": ["cleaners"]}), "has no role"),
            ("tia", token(realm_access="traders"), "has no role"),
            ("tia", token(preferred_username=None), "no user name"),
            ("tia", token(preferred_username="tests"), "is of another user"),
            ("", token(preferred_username="tests"), "that of a user in the users file"),
            ("", token(preferred_username="cluster"), "that of a user in the users file"),
            ("tia", other.token(), "signature is wrong"),
            ("tia", token("ec", header={"kid": "rsa"}), "not for its algorithm"),
            ("tia", token(header={"kid": "unknown"}), "none of the issuer's"),
            ("tia", confused, "algorithm is not accepted"),
            ("tia", f"{base64url(json.dumps({'alg': 'none'}).encode())}.{claims}.", "algorithm is not accepted"),
            ("tia", f"{head}.{claims}.{'A' * len(signature)}", "signature is wrong"),
            ("tia", f"{head}.{claims}.A", "malformed"),
            ("tests", good, "wrong user or password"),
        ]
        for user, password, reason in wrong:
            self.rejected(tp, user, password, reason)
        self.assertEqual(self.admitted(tp, "tia", good), "tia")
        self.assert_secret(*(password for _, password, _ in wrong), good, signature)

    def test_audience_may_be_a_list_and_the_user_any(self):
        tp = self.start_tick("any_user = true")
        self.assertEqual(self.admitted(tp, "token", self.issuer.token(aud=["x", "elastick"])), "tia")

    def test_a_token_too_long_is_rejected_by_the_limit_of_the_handshake(self):
        tp = self.start_tick()
        self.assertEqual(self.admitted(tp, "tia", self.issuer.token(padding="x" * 8_000)), "tia")
        self.rejected(tp, "tia", self.issuer.token(padding="x" * 20_000), "limit-handshake|no end of the handshake")

    def test_a_new_key_is_fetched_when_a_token_names_it(self):
        tp = self.start_tick()
        old = self.issuer.token()
        self.assertEqual(self.admitted(tp, "tia", old), "tia")
        del self.issuer.keys["rsa"]
        self.issuer.add("next")
        self.assertEqual(self.admitted(tp, "tia", self.issuer.token("next")), "tia")
        self.assertEqual(self.server.asked, 2)
        self.rejected(tp, "tia", old, "none of the issuer's")

    def test_unknown_keys_keep_no_token_waiting_whose_key_is_known(self):
        tp = self.start_tick("", "--limit-identity-logins", "8", *PATIENT)
        good, unknown = self.issuer.token(), self.issuer.token(header={"kid": "unknown"})
        self.assertEqual(self.admitted(tp, "tia", good), "tia")
        silent = threading.Event()
        self.addCleanup(silent.set)
        self.server.answer = lambda handler: (silent.wait(), self.server.keys(handler))
        for number in range(12):
            self.connect(tp, user=None).raw(f"eve{number}:{unknown}".encode() + b"\3\0")
            # Four of them wait. The others come one at a time, because a login holds a slot until it is rejected.
            rejected = max(number - 3, 0)
            self.eventually(lambda: tp.printed().count("too many tokens with unknown keys") == rejected, f"{rejected} are rejected")
        self.assertEqual(self.admitted(tp, "tia", good), "tia")

    def test_unknown_keys_cause_no_more_requests_than_the_interval_allows(self):
        self.write(self.oidc().replace('keys_refetch = "0s"', 'keys_refetch = "1h"'))
        tp = self.tick("-U", self.users)
        for number in range(4):
            self.rejected(tp, "tia", self.issuer.token(header={"kid": f"x{number}"}), "none of the issuer's")
        self.assertEqual(self.server.asked, 1)
        self.assertEqual(self.admitted(tp, "tia", self.issuer.token()), "tia")

    def test_a_slow_issuer_holds_up_nobody_else(self):
        release = threading.Event()
        self.addCleanup(release.set)

        def late(handler):
            release.wait()
            self.server.keys(handler)

        self.server.answer = late
        tp = self.start_tick("", *PATIENT)
        waiting = self.connect(tp, user=None)
        waiting.raw(f"tia:{self.issuer.token()}".encode() + b"\3\0")
        self.eventually(lambda: self.server.asked, "keys are requested")
        self.assertEqual(self.own(tp).ask("1+1").v, 2)
        self.assertTrue(self.page(tp))
        release.set()
        self.assertEqual(waiting.socket.recv(1), b"\3")

    def test_an_issuer_out_of_reach_is_an_error_that_locks_nobody_out(self):
        self.server.answer = lambda handler: handler.send_error(503)
        tp = self.start_tick()
        for _ in range(8):
            self.rejected(tp, "tia", self.issuer.token(), "keys cannot be read")
        self.assertGreaterEqual(self.count(tp, "elastick_identity_failures_total"), 8)
        self.assertIn("HTTP status 503", tp.printed())
        self.server.answer = None
        self.assertEqual(self.admitted(tp, "tia", self.issuer.token()), "tia")
        self.server.answer = lambda handler: handler.send_error(503)
        self.assertEqual(self.admitted(tp, "tia", self.issuer.token()), "tia", "the keys are kept")

    def test_hostile_answers_of_an_issuer_are_errors(self):
        tp = self.start_tick()
        for answer, reason in (
            (b"HTTP/1.1 302 Found\r\nLocation: " + self.server.url.encode() + b"\r\nContent-Length: 0\r\n\r\n", "HTTP status 302"),
            (b"SSH-2.0-OpenSSH_9.2\r\n", "no HTTP response"),
            (b"", "incomplete"),
            (b"HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\n{", "incomplete"),
            (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nfffffffffffffff\r\n{", "incomplete|chunk|more than"),
            (b"HTTP/1.1 200 OK\r\n\r\n<html>", "is no JWKS"),
            (b"HTTP/1.1 200 OK\r\n\r\n" + b"[" * 100_000, "is no JWKS"),
            (b'HTTP/1.1 200 OK\r\n\r\n{"keys": [{"kty": "oct", "k": "AAAA", "kid": "rsa"}]}', "no public key of a supported kind"),
            (b'HTTP/1.1 200 OK\r\n\r\n{"keys": [{"kty": "RSA", "n": "", "e": "", "kid": "rsa"}]}', "signature is wrong"),
        ):
            before = len(tp.printed())

            def say(handler, answer=answer):
                handler.wfile.write(answer)
                handler.close_connection = True

            self.server.answer = say
            self.rejected(tp, "tia", self.issuer.token(), "keys cannot be read|signature is wrong")
            self.assertRegex(tp.printed()[before:], reason)
            self.assertEqual(self.own(tp).ask("1+1").v, 2)
        self.assertNotIn("panicked", tp.printed())

    def test_wrong_tokens_lock_out_nobody_of_that_name(self):
        """All users of a machine share its address, so here it is not locked out either."""
        tp = self.start_tick()
        for user in ("tia", ""):
            for _ in range(7):
                self.rejected(tp, user, self.issuer.token(aud="x"), "another audience")
            self.assertEqual(self.admitted(tp, user, self.issuer.token()), "tia")

    def test_keys_come_over_https_from_a_server_that_is_trusted(self):
        certificate = self.authority.issue("sso")
        server = self.serve(certificate)
        for more, is_trusted in ((f'ca = "{self.authority.path}"', True), ("", False)):
            self.write(self.oidc(more, server))
            tp = self.tick("-U", self.users, name=f"tick{is_trusted}", logs=self.mkdir(f"logs{is_trusted}"))
            if is_trusted:
                self.assertEqual(self.admitted(tp, "tia", self.issuer.token()), "tia")
            else:
                self.rejected(tp, "tia", self.issuer.token(), "keys cannot be read")
                self.assertIn("issuer of the certificate is not among the trusted ones", tp.printed())

    def mkdir(self, name):
        path = self.directory / name
        path.mkdir()
        return path

    def test_keys_come_from_a_file(self):
        path = self.directory / "keys.json"
        path.write_text(self.issuer.jwks())
        self.write(self.oidc().replace(self.server.url, str(path)))
        tp = self.tick("-U", self.users)
        self.assertEqual(self.admitted(tp, "tia", self.issuer.token()), "tia")
        self.issuer.add("next")
        path.write_text(self.issuer.jwks())
        self.assertEqual(self.admitted(tp, "tia", self.issuer.token("next")), "tia")
        self.assertEqual(self.server.asked, 0)

    def test_pages_take_a_token_as_password_or_bearer(self):
        tp = self.start_tick()
        token = self.issuer.token()
        config = self.directory / "curl"
        for text, status in (
            (f'user = "tia:{token}"', "200"),
            (f'oauth2-bearer = "{token}"', "200"),
            (f'oauth2-bearer = "{self.issuer.token(aud="x")}"', "401"),
            ('oauth2-bearer = "secret"', "401"),
            ("", "401"),
        ):
            config.write_text(text + "\n")
            self.assertEqual(self.curl(tp, "-K", str(config)), status, text[:20])
        self.assertEqual(self.curl(tp, "-u", f"tia:{token}"), "200")
        self.assert_secret(token)

    def test_a_websocket_on_a_node_has_the_tokens_user(self):
        tp = self.tick()
        self.write(self.oidc())
        script = self.directory / "web.q"
        script.write_text(".z.ws:{neg[.z.w] string .z.u}\n")
        node = self.rdb(tp, "-U", self.users, script)
        fields = ("Connection: Upgrade", "Upgrade: websocket", "Sec-WebSocket-Version: 13", "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==")
        with socket.create_connection(("127.0.0.1", node.port), timeout=30) as sock:
            sock.sendall(self.get("/", "tia", self.issuer.token(), *fields))
            stream = sock.makefile("rb")
            self.assertIn(b" 101 ", stream.readline())
            while stream.readline().strip():
                pass
            # A masked text frame.
            sock.sendall(bytes([0x81, 0x81, 0, 0, 0, 0]) + b"x")
            self.assertEqual(stream.read(5), b"\x81\x03tia")

    def test_the_connection_is_closed_when_its_token_expires(self):
        tp = self.start_tick('leeway = "1s"')
        own = self.own(tp)
        # A busy machine may need longer to log in than a short token lives.
        for lifetime_s in (2, 8, 20):
            expires = int(time.time()) + lifetime_s
            with contextlib.suppress(OSError):
                h = self.connect(tp, user=f"tia:{self.issuer.token(exp=expires)}")
                break
        self.assertTrue(h.is_closed_by_peer())
        self.assertGreaterEqual(time.time(), expires, "not before the token expires")
        self.assertEqual(own.ask("1+1").v, 2)
        self.assertEqual(self.count(tp, "elastick_sessions_expired_total"), 1)

    def test_a_changed_file_changes_the_roles_of_connected_users(self):
        tp = self.start_tick()
        kept = self.connect(tp, user=f"tia:{self.issuer.token(realm_access={'roles': ['traders']})}")
        more = FILE + self.oidc() + 'risk = ["subscribe"]\n'
        self.users.write_text(more)
        tp.popen.send_signal(signal.SIGHUP)
        tp.wait_for("users file was read again")
        self.assertEqual(kept.ask("1+1").v, 2, "the same roles")
        both = self.connect(tp, user=f"tia:{self.issuer.token(realm_access={'roles': ['traders', 'risk']})}")
        self.assertIsNone(both.error_of(kdb.syms(".u.sub", "quote", "")))
        self.write(self.oidc())
        self.assertTrue(both.is_closed_by_peer())
        self.assertEqual(kept.ask("1+1").v, 2)
        self.write()
        self.assertTrue(kept.is_closed_by_peer())
        self.rejected(tp, "tia", self.issuer.token(), "wrong user or password")

    def test_a_name_that_the_file_takes_over_is_its_own(self):
        tp = self.start_tick()
        h = self.connect(tp, user=f"tia:{self.issuer.token()}")
        self.write('[users.tia]\npassword = "own"\nroles = ["desk"]\n', self.oidc())
        self.assertTrue(h.is_closed_by_peer())
        self.assertEqual(self.admitted(tp, "tia", "own"), "tia")
        self.rejected(tp, "tia", self.issuer.token(), "wrong user or password")

    def test_the_examples_of_the_readme_take_the_tokens_they_describe(self):
        examples = [text for text in examples_of_readme() if "[oidc]" in text]
        self.assertEqual(len(examples), 3)
        for number, text in enumerate(examples):
            table = tomllib.loads(text)["oidc"]
            self.users.write_text(text.replace(table["jwks"], self.server.url))
            tp = self.tick("-U", self.users, name=f"tick{number}", logs=self.mkdir(f"logs{number}"))
            audience = table["audience"]
            claims = {table.get("user_claim", "sub"): "tia"}
            value = [next(iter(table["roles"]))]
            for name in reversed(table["roles_claim"].split(".")):
                value = {name: value}
            token = self.issuer.token(iss=table["issuer"], aud=audience if isinstance(audience, str) else audience[0], **{**claims, **value})
            self.assertEqual(self.admitted(tp, "tia", token), "tia", text)


def examples_of_readme():
    return re.findall(r"```toml\n(.*?)```", (ROOT / "src/access/README.md").read_text(), re.DOTALL)


BIND = """
[ldap]
url = {url}
{more}
bind_dn = "uid={{user}},ou=people,dc=example,dc=com"
group_base = "ou=groups,dc=example,dc=com"
group_filter = "(&(objectClass=groupOfNames)(member={{dn}}))"
{every}
[ldap.roles]
Traders = ["desk"]
"""

SEARCH = """
[ldap]
url = {url}
{more}
service_dn = "{service}"
service_password_file = "{password}"
search_base = "dc=example,dc=com"
search_filter = "(&(objectClass=inetOrgPerson)(uid={{user}}))"
group_base = "ou=groups,dc=example,dc=com"
group_filter = "(&(objectClass=groupOfNames)(member={{dn}}))"
{every}
[ldap.roles]
traders = ["desk"]
"""


def ber(tag, contents):
    length = len(contents)
    return bytes([tag]) + (bytes([length]) if length < 128 else b"\x84" + length.to_bytes(4, "big")) + contents


def ldap(number, kind, contents):
    return ber(0x30, ber(2, bytes([number])) + ber(kind, contents))


def result(code):
    return ber(10, bytes([code])) + ber(4, b"") + ber(4, b"text")


class Ldap(Identity):
    def setUp(self):
        if why := directory.why_not():
            self.skipTest(why)
        super().setUp()
        self.authority = Authority(self.directory / "authority")
        people = ("lea", "own", "lee.o'hara", "tests", "x.1")
        self.ldap = directory.Directory(self.directory / "ldap", self.authority, people, {"Traders": ["lea", "own", "lee.o'hara", "tests"], "Risk": ["x.1"]})
        self.addCleanup(self.ldap.stop)
        self.password = self.directory / "service-password"
        self.password.touch(0o600)
        self.password.write_text(directory.SERVICE_PASSWORD + "\n")

    def table(self, form=SEARCH, url=None, more="", every=""):
        url = url or f"ldap://127.0.0.1:{self.ldap.port}"
        return form.format(url=json.dumps(url), more=more, every=every, service=directory.SERVICE, password=self.password)

    def start_tick(self, *options, **how):
        self.write(self.table(**how))
        return self.tick("-U", self.users, *options)

    def test_a_user_of_the_directory_has_the_roles_of_the_groups(self):
        tp = self.start_tick()
        h = self.connect(tp, user=f"lea:{directory.PASSWORD}")
        self.assertEqual(h.ask(".z.u").v, "lea")
        self.assertIsNone(h.error_of(kdb.syms(".u.sub", "trade", "")))
        self.assertRegex(h.error_of(kdb.syms(".u.sub", "quote", "")), "^access")
        self.assertEqual(self.admitted(tp, "LEA", directory.PASSWORD), "lea", "one user has one name")
        self.assertEqual(self.admitted(tp, "lee.o'hara", directory.PASSWORD), "lee.o'hara")
        self.assertEqual(self.curl(tp, "-u", f"lea:{directory.PASSWORD}"), "200")
        self.assertEqual(self.curl(tp, "-u", "lea:x"), "401")
        self.assert_secret(directory.PASSWORD, directory.SERVICE_PASSWORD)

    def test_wrong_logins_are_rejected(self):
        tp = self.start_tick()
        for user, password, reason in (
            ("lea", "wrong", "wrong user or password .LDAP"),
            ("lea", "", "wrong user or password"),
            ("", directory.PASSWORD, "wrong user or password"),
            ("nobody", directory.PASSWORD, "wrong user or password .LDAP"),
            ("x.1", directory.PASSWORD, "has no role"),
            ("tests", directory.PASSWORD, "wrong user or password"),
            ("TESTS", directory.PASSWORD, "wrong user or password"),
            ("*", directory.PASSWORD, "wrong user or password .LDAP"),
            ("le*", directory.PASSWORD, "wrong user or password .LDAP"),
            ("lea)(uid=*", directory.PASSWORD, "wrong user or password .LDAP"),
            ("lea ", directory.PASSWORD, "wrong user or password"),
            ("lea\0", directory.PASSWORD, None),
        ):
            if reason:
                self.rejected(tp, user, password, reason)
            else:
                with self.assertRaises(OSError):
                    self.connect(tp, user=f"{user}:{password}").ask("1")
        self.assertEqual(self.own(tp).ask("1+1").v, 2)

    def test_the_directory_would_accept_a_bind_without_a_password(self):
        """Otherwise the test of an empty password could not fail."""
        dn = b"uid=lea,ou=people,dc=example,dc=com"
        bind = b"\x02\x01\x03\x04" + bytes([len(dn)]) + dn + b"\x80\x00"
        message = b"\x02\x01\x01\x60" + bytes([len(bind)]) + bind
        with socket.create_connection(("127.0.0.1", self.ldap.port), timeout=30) as sock:
            sock.sendall(b"\x30" + bytes([len(message)]) + message)
            answer = sock.recv(100)
        self.assertEqual(answer[7:10], b"\x0a\x01\x00", answer)

    def test_filters_find_what_they_say(self):
        """The encoding of each kind of filter, as OpenLDAP reads it."""
        tp = self.start_tick()
        own = self.own(tp)
        for filter, is_found in (
            ("(|(mail={user})(uid={user}))", True),
            ("(&(uid={user})(!(cn=own))(objectClass=*))", True),
            ("(&(uid={user})(!(cn=lea)))", False),
            ("(&(uid={user})(mail=*))", False),
            ("(uid:caseIgnoreMatch:={user})", True),
            ("(uid:caseExactMatch:=L{user})", False),
            ("(cn=\\\\6c\\\\65a)(uid={user}", None),
            ("(&(cn=\\\\6c\\\\65a)(uid={user}))", True),
        ):
            before = len(tp.printed())
            text = self.table().replace("(&(objectClass=inetOrgPerson)(uid={user}))", filter)
            self.users.write_text(FILE + text)
            tp.popen.send_signal(signal.SIGHUP)
            loaded = "stay in force" if is_found is None else "was read again"
            self.eventually(lambda: loaded in tp.printed()[before:], filter)
            if is_found:
                self.assertEqual(self.admitted(tp, "lea", directory.PASSWORD), "lea", filter)
            elif is_found is False:
                self.rejected(tp, "lea", directory.PASSWORD, "wrong user or password .LDAP")
        self.assertEqual(own.ask("1+1").v, 2)

    def test_groups_may_be_named_by_their_whole_names(self):
        table = self.table(more='group_attribute = "dn"').replace('traders = ["desk"]', '"CN=Traders,OU=groups,dc=example,dc=com" = ["desk"]')
        self.write(table)
        tp = self.tick("-U", self.users)
        self.assertEqual(self.admitted(tp, "lea", directory.PASSWORD), "lea")
        self.rejected(tp, "x.1", directory.PASSWORD, "has no role")

    def test_five_wrong_passwords_lock_the_user_out_in_every_spelling(self):
        tp = self.start_tick()
        for user in ("lea", "Lea", "lEa", "leA", "LEA"):
            self.rejected(tp, user, "wrong", "wrong user or password .LDAP")
        self.rejected(tp, "LEa", directory.PASSWORD, "too many wrong passwords")
        self.assertEqual(self.admitted(tp, "own", directory.PASSWORD), "own")

    def test_a_template_names_the_user_and_cannot_be_left(self):
        tp = self.start_tick(form=BIND)
        self.assertEqual(self.admitted(tp, "own", directory.PASSWORD), "own")
        self.rejected(tp, "lea,ou=people,dc=example,dc=com", directory.PASSWORD, "wrong user or password|could decide")
        self.rejected(tp, "own+cn=own", directory.PASSWORD, "wrong user or password|could decide")
        self.rejected(tp, "own", "wrong", "wrong user or password .LDAP")
        # Who may not read the groups of the directory needs a service account that may.
        self.rejected(tp, "lea", directory.PASSWORD, "no LDAP server could decide")
        tp.wait_for("search below .*ou=groups.* result 32")

    def test_every_user_may_have_roles(self):
        tp = self.start_tick(every='every_user = ["query"]')
        self.assertEqual(self.admitted(tp, "x.1", directory.PASSWORD), "x.1")

    def test_the_connection_is_encrypted_by_ldaps_or_starttls(self):
        secure = f"ldaps://localhost:{self.ldap.tls_port}"
        plain = f"ldap://localhost:{self.ldap.port}"
        ca = f'ca = "{self.authority.path}"\n'
        for number, (url, more, is_admitted) in enumerate(
            (
                (secure, ca, True),
                (plain, ca + "start_tls = true", True),
                (secure, "", False),
                (plain, "start_tls = true", False),
            )
        ):
            self.write(self.table(url=url, more=more))
            logs = self.directory / f"logs{number}"
            logs.mkdir()
            tp = self.tick("-U", self.users, name=f"tick{number}", logs=logs)
            if is_admitted:
                self.assertEqual(self.admitted(tp, "lea", directory.PASSWORD), "lea")
            else:
                self.rejected(tp, "lea", directory.PASSWORD, "no LDAP server could decide")
                self.assertIn("not among the trusted ones", tp.printed())
        self.assertIn("TLS established", self.ldap.printed())

    def test_a_directory_that_is_gone_or_silent_holds_up_nobody_else(self):
        with socket.create_server(("127.0.0.1", 0)) as silent:
            tp = self.start_tick("--limit-identity-time", "1s", "--limit-handshake-time", "1h", url=f"ldap://127.0.0.1:{silent.getsockname()[1]}")
            waiting = [self.connect(tp, user=None) for _ in range(8)]
            for h in waiting:
                h.raw(b"lea:secret\3\0")
            self.assertEqual(self.own(tp).ask("1+1").v, 2)
            for h in waiting:
                self.assertTrue(h.is_closed_by_peer())
            tp.wait_for("no answer in time")
        self.rejected(tp, "lea", directory.PASSWORD, "no LDAP server could decide")
        self.assertEqual(self.own(tp).ask("1+1").v, 2)
        self.assertGreater(self.count(tp, "elastick_identity_failures_total"), 8)
        self.assertNotIn("too many wrong passwords", tp.printed())

    def test_the_next_server_is_asked_if_one_is_gone(self):
        with socket.create_server(("127.0.0.1", 0)) as silent:
            urls = [f"ldap://127.0.0.1:{directory.free_port()}", f"ldap://127.0.0.1:{silent.getsockname()[1]}", f"ldap://127.0.0.1:{self.ldap.port}"]
            # The silent server uses up half of the time.
            tp = self.start_tick("--limit-identity-time", "8s", "--limit-handshake-time", "1h", url=urls)
            self.assertEqual(self.admitted(tp, "lea", directory.PASSWORD), "lea")

    def hostile(self, name, *answers, options=(), **table):
        """A tickerplant whose directory gives these answers, one for each request: bytes, or chunks of bytes, of which `None` closes the connection."""
        server = socket.create_server(("127.0.0.1", 0))
        self.addCleanup(server.close)

        def serve():
            with contextlib.suppress(OSError):
                sock, _ = server.accept()
                with sock:
                    for answer in answers:
                        sock.recv(1000)
                        for chunk in [answer] if isinstance(answer, bytes) else answer:
                            if chunk is None:
                                return
                            sock.sendall(chunk)
                    while sock.recv(1000):
                        pass

        threading.Thread(target=serve, daemon=True).start()
        self.write(self.table(url=f"ldap://127.0.0.1:{server.getsockname()[1]}", **table))
        logs = self.directory / f"logs-{name}"
        logs.mkdir()
        return self.tick("-U", self.users, *options, name=name, logs=logs)

    def test_hostile_answers_are_errors(self):
        bound = ldap(1, 0x61, result(0))
        entry = ldap(2, 0x64, ber(4, b"cn=x") + ber(0x30, ber(0x30, ber(4, b"cn") + ber(0x31, ber(4, b"Traders")))))
        start_tls = {"form": BIND, "more": "start_tls = true"}
        nested = b""
        for _ in range(2000):
            nested = ber(0x30, nested)
        for number, (answers, reason, how) in enumerate(
            (
                ([b"HTTP/1.1 400 Bad Request\r\n\r\n"], "", {}),
                ([b"\x30\x84\xff\xff\xff\xff"], "limit-identity-answer", {}),
                ([b"\x30\x80"], "a length that is not supported", {}),
                ([b"\x30\x00"], "no element", {}),
                ([b"\x00" * 64], "no LDAP message", {}),
                ([ber(0x30, b"\x02\x01\x01\x61\x07\x0a\x01\x00\x04\x00\x04\x09")], "longer than its sequence", {}),
                ([ldap(7, 0x61, result(0))], "unexpected response", {}),
                ([ldap(1, 0x65, result(0))], "unexpected response", {}),
                ([ldap(0, 0x78, result(52))], "the server ends the session: 52", {}),
                ([ldap(1, 0x61, result(10))], "refers to another one", {}),
                ([ldap(1, 0x61, result(14))], "result 14", {}),
                ([bound, ldap(2, 0x65, result(10))], "refers to another one", {}),
                ([bound, ldap(3, 0x64, b"")], "unexpected response", {}),
                ([bound, entry * 40_000], "limit-identity-answer", {}),
                ([bound, ldap(2, 0x73, b"") * 250_000], "limit-identity-answer", {}),
                ([bound, ldap(2, 0x64, ber(4, b"cn=x") + nested)], "no element with the tag 0x04", {}),
                ([[None]], "the server closed the connection", {}),
                ([[bound[:-3], None]], "the server closed the connection", {}),
                ([bound, [entry[:-3], None]], "the server closed the connection", {}),
                ([ldap(1, 0x78, result(2))], "StartTLS is rejected: 2", start_tls),
                ([ldap(1, 0x78, result(0)) + ldap(2, 0x61, result(0))], "bytes after the response to StartTLS", start_tls),
            )
        ):
            tp = self.hostile(f"tick{number}", *answers, **{"form": BIND, **how})
            self.rejected(tp, "lea", directory.PASSWORD, "no LDAP server could decide")
            self.assertIn(reason, tp.printed())
            self.assertEqual(self.own(tp).ask("1+1").v, 2)
            self.assertNotIn("panicked", tp.printed())
        tp = self.hostile("good", bound, entry + ldap(2, 0x73, b"") + ldap(2, 0x65, result(0)), form=BIND)
        self.assertEqual(self.admitted(tp, "lea", directory.PASSWORD), "lea", "the answers above are those of a directory but for one thing")

    def test_answers_byte_by_byte_are_answers_within_the_time_of_the_login(self):
        bound, found = ldap(1, 0x61, result(0)), ldap(2, 0x64, ber(4, b"cn=x") + ber(0x30, ber(0x30, ber(4, b"cn") + ber(0x31, ber(4, b"Traders")))))
        bytes_of = lambda answer: (answer[at : at + 1] for at in range(len(answer)))
        tp = self.hostile("slow", bytes_of(bound), bytes_of(found + ldap(2, 0x65, result(0))), form=BIND, options=PATIENT)
        self.assertEqual(self.admitted(tp, "lea", directory.PASSWORD), "lea")
        over = threading.Event()
        self.addCleanup(over.set)

        def endless():
            yield b"\x30\x83\x00\xff\xff"
            while not over.wait(0.02):
                yield b"\x02"

        tp = self.hostile("endless", endless(), form=BIND, options=("--limit-identity-time", "1s"))
        self.rejected(tp, "lea", directory.PASSWORD, "no LDAP server could decide")
        self.assertIn("no answer in time", tp.printed())

    def test_of_a_crowd_each_login_is_decided_by_its_own_password(self):
        tp = self.start_tick(*PATIENT)
        right = [(user, directory.PASSWORD) for user in ("lea", "own", "LEE.O'Hara")] * 8
        wrong = [(f"nobody{number}", directory.PASSWORD) for number in range(12)] + [("x.1", directory.PASSWORD), ("lea", ""), ("own", "x")] * 4
        logins = [login for pair in zip(right, wrong) for login in pair]
        crowd = [self.connect(tp, user=None) for _ in logins]
        for h, (user, password) in zip(crowd, logins):
            h.raw(f"{user}:{password}".encode() + b"\3\0")
        for h, login in zip(crowd, logins):
            if login in right:
                self.assertEqual(h.socket.recv(1), b"\3", login)
                self.assertEqual(h.ask(".z.u").v, login[0].lower())
            else:
                self.assertTrue(h.is_closed_by_peer(), login)

    def test_names_and_passwords_with_nul_are_rejected(self):
        """Pages take any bytes; a login of kdb+ ends at the first NUL."""
        tp = self.start_tick()
        for user, password in (("lea", ""), ("lea\0", directory.PASSWORD), ("\0lea", directory.PASSWORD), ("lea", "\0"), ("lea", directory.PASSWORD + "\0")):
            answer = http(tp, self.get("/metrics", user, password))
            self.assertTrue(answer.startswith("HTTP/1.1 401 "), (user, password, answer))
        self.assertTrue(http(tp, self.get("/metrics", "lea", directory.PASSWORD)).startswith("HTTP/1.1 200 "))

    def test_a_wrong_service_account_is_an_error_in_the_log(self):
        self.password.write_text("wrong\n")
        tp = self.start_tick()
        self.rejected(tp, "lea", directory.PASSWORD, "no LDAP server could decide")
        self.assertRegex(tp.printed(), "service account .*cn=elastick.* is rejected: 49")

    def test_a_changed_file_changes_the_roles_of_connected_users(self):
        tp = self.start_tick()
        h = self.connect(tp, user=f"lea:{directory.PASSWORD}")
        self.write(self.table().replace('traders = ["desk"]', 'traders = ["query"]'))
        self.assertTrue(h.is_closed_by_peer())
        h = self.connect(tp, user=f"lea:{directory.PASSWORD}")
        self.assertRegex(h.error_of(kdb.syms(".u.sub", "trade", "")), "^access")

    def test_a_node_takes_users_of_the_directory(self):
        tp = self.tick()
        self.write(self.table())
        node = self.rdb(tp, "-U", self.users)
        self.assertEqual(self.admitted(node, "lea", directory.PASSWORD), "lea")
        self.rejected(node, "lea", "wrong", "wrong user or password .LDAP")

    def test_the_examples_of_the_readme(self):
        """That for OpenLDAP works here; that for Active Directory is read, because no such server can be had."""
        examples = [text for text in examples_of_readme() if "[ldap]" in text]
        self.assertEqual(len(examples), 2)
        for number, text in enumerate(examples):
            table = tomllib.loads(text)["ldap"]
            local = f"ldaps://localhost:{self.ldap.tls_port}"
            urls = [table["url"]] if isinstance(table["url"], str) else table["url"]
            for url in urls:
                text = text.replace(url, local)
            text = text.replace(table["service_password_file"], str(self.password)).replace(table["ca"], str(self.authority.path))
            self.users.write_text(FILE + text)
            logs = self.directory / f"logs{number}"
            logs.mkdir()
            tp = self.tick("-U", self.users, name=f"tick{number}", logs=logs)
            self.assertEqual(self.own(tp).ask("1+1").v, 2)
            if "OpenLDAP" in text:
                self.assertEqual(self.admitted(tp, "lea", directory.PASSWORD), "lea")
        self.assertIn("1.2.840.113556.1.4.1941", "".join(examples))


if __name__ == "__main__":
    unittest.main()
