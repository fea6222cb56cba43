"""HTTP and WebSocket as a client: `.Q.hg`, `.Q.hp`, `` `:http://host `` and `` `:ws://host `` of a session and of a node, against Python's server."""

import base64
import contextlib
import gzip
import hashlib
import http.server
import re
import socket
import subprocess
import threading
import unittest

from harness.client import KdbError
from harness.process import binary, reserve_port
from harness.scene import Scene

CHUNK_BYTES = 7
NULL_INT = -(2**31)


class Echo(http.server.BaseHTTPRequestHandler):
    """Returns what it was sent: zipped for a path that ends with gz, in chunks for one that begins with /chunk."""

    protocol_version = "HTTP/1.1"

    def answer(self):
        body = self.rfile.read(int(self.headers.get("Content-Length", 0))).decode()
        told = [self.headers.get(name, "-") for name in ("Authorization", "Proxy-Authorization", "Content-Type")]
        out = " ".join([self.command, self.path, *told, body]).encode()
        if self.path == "/lf":
            # Line ends of some small servers.
            self.wfile.write(b"HTTP/1.1 200 OK\nContent-Encoding:  gzip\nContent-Length: %d\n\n" % len(gzip.compress(out)) + gzip.compress(out))
            return
        self.send_response(404 if "missing" in self.path else 200)
        if self.path == "/slow":
            self.end_headers()
            self.wfile.flush()
            # Until the client goes.
            self.rfile.read(1)
            return
        if self.path.endswith("gz") and self.headers.get("Accept-Encoding") == "gzip":
            out = gzip.compress(out)
            self.send_header("Content-Encoding", "gzip")
        if self.path.startswith("/chunk"):
            self.send_header("Transfer-Encoding", "chunked")
            self.end_headers()
            for start in range(0, len(out), CHUNK_BYTES):
                piece = out[start : start + CHUNK_BYTES]
                self.wfile.write(b"%x\r\n%s\r\n" % (len(piece), piece))
            self.wfile.write(b"0\r\n\r\n")
            return
        self.send_header("Content-Length", str(len(out)))
        self.end_headers()
        self.wfile.write(out)

    do_GET = do_POST = do_DELETE = answer

    def log_message(self, *_):
        pass


def quoted(text):
    """A string of q."""
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


class HttpClient(Scene):
    def setUp(self):
        super().setUp()
        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Echo)
        self.addCleanup(self.server.server_close)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        self.addCleanup(self.server.shutdown)
        self.at = f"127.0.0.1:{self.server.server_address[1]}"

    def q(self, *lines):
        """What a session prints for these lines."""
        text = "\n".join(lines).replace("AT", self.at) + "\n"
        done = subprocess.run([binary(), "q", "-q"], input=text, capture_output=True, text=True, timeout=60)
        return (done.stdout + done.stderr).splitlines()

    def test_get(self):
        basic = "Basic " + base64.b64encode(b"ann:pw").decode()
        for url, wanted in (
            ("http://AT", "GET / - - - "),
            ("HTTP://AT", "GET / - - - "),
            ("http://AT/a?b=1", "GET /a?b=1 - - - "),
            ("http://ann:pw@AT/a", f"GET /a {basic} - - "),
            ("http://AT/gz", "GET /gz - - - "),
            ("http://AT/chunk", "GET /chunk - - - "),
            ("http://AT/chunk/gz", "GET /chunk/gz - - - "),
            ("http://AT/missing", "GET /missing - - - "),
            ("http://AT/lf", "GET /lf - - - "),
        ):
            with self.subTest(url=url):
                self.assertEqual(self.q(f'-1 .Q.hg"{url}";'), [wanted])

    def test_post(self):
        lines = self.q('-1 .Q.hp["http://AT/p";.h.ty`json;.j.j`a`b!1 2];')
        self.assertEqual(lines, ['POST /p - - application/json {"a":1,"b":2}'])

    def test_head_and_content(self):
        for method in ("`DELETE", '"DELETE"'):
            lines = self.q(f'r:.Q.hmb["http://AT/";{method};()]', '-1 first"\\r\\n"vs r 0;', "-1 r 1;")
            self.assertEqual(lines, ["HTTP/1.1 200 OK", "DELETE / - - - "])

    def test_a_proxy_is_used_except_for_hosts_that_are_named(self):
        basic = "Basic " + base64.b64encode(b"u:p").decode()
        lines = self.q(
            'setenv[`HTTP_PROXY;"http://u:p@AT"]',
            '-1 .Q.hg"http://elsewhere.invalid/x";',
            'setenv[`NO_PROXY;"other,.invalid"]',
            '-1(5#@[.Q.hg;"http://elsewhere.invalid/x";{x}]);',
        )
        self.assertEqual(lines, [f"GET http://elsewhere.invalid/x - {basic} - ", "hop. "])
        for names in ("foo, 127.0.0.1", "*", ".0.0.1"):
            with self.subTest(names=names):
                direct = self.q('setenv[`HTTP_PROXY;"http://127.0.0.1:1"]', f'setenv[`NO_PROXY;"{names}"]', '-1 .Q.hg"http://AT/";')
                self.assertEqual(direct, ["GET / - - - "])

    def test_a_line_end_in_what_is_given_adds_no_field(self):
        for request in (r'.Q.hg"http://AT/\r\nX: 1"', r'.Q.hp["http://AT/";"text/plain\r\nX: 1";"b"]', r'.Q.hmb["http://AT/";"GET\n";()]'):
            with self.subTest(request=request):
                self.assertEqual(self.q(f"@[value;{quoted(request)};{{x}}]"), ['"url"'])

    def test_a_time_limit_ends_a_request_whose_server_does_not_read(self):
        with socket.create_server(("127.0.0.1", 0)) as deaf:
            url = f"http://127.0.0.1:{deaf.getsockname()[1]}/"
            request = f'.Q.hp["{url}";"t";20000000#"x"]'
            lines = self.q("\\T 1", f"@[0;{quoted(request)};{{x}}]")
        self.assertEqual(lines, ['"stop"'])

    def test_a_request_as_it_is_written(self):
        request = '"DELETE /x HTTP/1.1\\r\\nHost: a\\r\\n\\r\\n"'
        lines = self.q(f"-1 last\"\\r\\n\"vs(`:http://AT){request};", "h:hopen`:http://AT", f"do[2;-1 last\"\\r\\n\"vs h {request}];", "hclose h")
        self.assertEqual(lines, ["DELETE /x - - - "] * 3)

    def test_errors(self):
        lines = self.q(
            "h:hopen`:http://AT",
            "@[h;1;{x}]",
            '@[neg h;"GET / HTTP/1.1\\r\\n\\r\\n";{x}]',
            '@[hopen;`:http://127.0.0.1:1;{x}]',
            '@[.Q.hg;"no address";{x}]',
        )
        self.assertEqual(lines, ['"type"', '"nyi"', '"hop. OS reports: Connection refused"', '"url"'])

    def test_a_node_asks_for_those_who_may_connect(self):
        node = self.connect(self.rdb(self.tick()))
        for text in (
            f'(`:ws://{self.at})"GET / HTTP/1.1\r\n\r\n"',
            f'(`:http://{self.at})"GET / HTTP/1.1\r\n\r\n"',
            f'`::[("http://{self.at}";100);"GET / HTTP/1.1\r\n\r\n"]',
            f'.Q.hg"http://{self.at}/"',
            f'.Q.hp["http://{self.at}/";"text/plain";"x"]',
            f"hopen`:http://{self.at}",
        ):
            with self.subTest(text=text):
                with self.assertRaises(KdbError) as refused:
                    node.ask(text)
                self.assertEqual(str(refused.exception), "access")

    def test_a_query_ends_in_time_though_its_server_does_not(self):
        lines = self.q("\\T 1", '@[0;(.Q.hg;"http://AT/slow");{x}]', '-1 .Q.hg"http://AT/after";')
        self.assertEqual(lines, ['"stop"', "GET /after - - - "])


class Raw:
    """A server that calls `serve` with each connection and the head of its request."""

    def __init__(self, serve):
        self.serve = serve
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.at = f"127.0.0.1:{self.listener.getsockname()[1]}"
        threading.Thread(target=self.run, daemon=True).start()

    def run(self):
        while True:
            try:
                connection, _ = self.listener.accept()
            except OSError:
                return
            threading.Thread(target=self.one, args=(connection,), daemon=True).start()

    def one(self, connection):
        head = b""
        with contextlib.suppress(OSError), connection:
            while not head.endswith(b"\r\n\r\n"):
                head += connection.recv(1)
            self.serve(connection, head)

    def close(self):
        self.listener.close()


def flood(start, part):
    def serve(connection, _):
        connection.sendall(start)
        while True:
            connection.sendall(part)

    return serve


def agreeing(serve, proof=None):
    """Agrees to the upgrade before it calls `serve`."""

    def upgraded(connection, head):
        key = re.search(rb"(?i)sec-websocket-key: *(\S+)", head)[1]
        own = base64.b64encode(hashlib.sha1(key + b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11").digest())
        fields = b"Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: " + (proof or own)
        connection.sendall(b"HTTP/1.1 101 Switching Protocols\r\n" + fields + b"\r\n\r\n")
        serve(connection)

    return upgraded


def text(payload):
    return b"\x81" + bytes([len(payload)]) + payload


def until_closed(connection):
    while connection.recv(65536):
        pass


class HostileServers(Scene):
    def q(self, serve, *lines):
        server = Raw(serve)
        self.addCleanup(server.close)
        shown = "\n".join(lines).replace("AT", server.at) + "\n"
        done = subprocess.run([binary(), "q", "-q"], input=shown, capture_output=True, text=True, timeout=60)
        return done.stdout.splitlines()

    def test_responses_without_an_end(self):
        ok = b"HTTP/1.1 200 OK\r\n"
        chunked = ok + b"Transfer-Encoding: chunked\r\n\r\n"
        for what, serve, wanted in (
            ("fields", flood(ok, b"X: y\r\n" * 100), "http"),
            ("a field", flood(ok, b"x" * 1000), "limit"),
            ("interim heads", flood(b"", b"HTTP/1.1 100 Continue\r\n\r\n"), "limit"),
            ("fields behind the body", flood(chunked + b"0\r\n", b"X: y\r\n" * 100), "limit"),
            ("a body", flood(ok + b"\r\n", b"x" * 1_000_000), "limit"),
            ("a chunk", flood(chunked + b"ffffffffffffffff\r\n", b""), "limit"),
            ("a length", flood(ok + b"Content-Length: 18446744073709551615\r\n\r\n", b""), "limit"),
        ):
            with self.subTest(what=what):
                self.assertEqual(self.q(serve, '@[.Q.hg;"http://AT/";{x}]'), [f'"{wanted}"'])

    OPEN = "r:(`:ws://AT)\"GET / HTTP/1.1\\r\\n\\r\\n\";h:first r;"

    def test_an_agreement_without_the_proof(self):
        lines = self.q(agreeing(until_closed, proof=b"x"), '@[(`:ws://AT);"GET / HTTP/1.1\\r\\n\\r\\n";{x}]', "count .z.W")
        self.assertEqual(lines, ['"http"', "0"])

    def test_frames_that_break_the_protocol_end_the_connection(self):
        for what, frames in (("masked", b"\x81\x83\0\0\0\0abc"), ("endless", b"\x82\x7f" + b"\xff" * 8), ("half", b"\x81\x05ab")):
            with self.subTest(what=what):
                serve = agreeing(lambda connection, frames=frames: connection.sendall(frames))
                lines = self.q(serve, ".z.ws:{-1\"message\"};.z.wc:{-1\"closed \",string x=h;exit 0}", self.OPEN, "\\t 50")
                self.assertEqual(lines, ["closed 1"])

    def test_messages_wait_for_the_evaluation(self):
        def serve(connection):
            connection.sendall(text(b"m") * 10_000)
            until_closed(connection)

        lines = self.q(
            agreeing(serve),
            "n:0;.z.ws:{n+:1;if[n=10000;-1 string n;exit 0]}",
            self.OPEN,
            "a:.z.p;while[.z.p<a+0D00:00:00.5;]",
            "\\t 50",
        )
        self.assertEqual(lines, ["10000"])

    def test_a_handler_closes_its_own_handle_and_opens_another(self):
        def serve(connection):
            connection.sendall(text(b"m") * 100)
            until_closed(connection)

        handler = ".z.ws:{n+:1;if[.z.w<>h;-1\"other\"];hclose .z.w;if[n=20;-1 string n;exit 0];open[]}"
        opening = 'open:{h::first(`:ws://AT)"GET / HTTP/1.1\\r\\n\\r\\n"}'
        self.assertEqual(self.q(agreeing(serve), "n:0", opening, handler, "open[]", "\\t 50")[-1:], ["20"])


    def test_messages_of_a_server_have_the_rights_of_the_session(self):
        handler = '.z.ws:{buf::x};.z.ts:{if[count buf;-1 first system buf;exit 0]}'

        def serve(connection):
            connection.sendall(text(b"echo hi"))
            until_closed(connection)

        lines = self.q(agreeing(serve), "buf:()", handler, self.OPEN, "\\t 20")
        self.assertEqual(lines, ["hi"])


class WebSockets(Scene):
    SERVER = (".z.ws:{neg[.z.w]$[10h=type x;\"echo \",x;x]}", ".z.wo:{opened::x}", ".z.wc:{closed::x}", "opened:closed:0Ni")

    def setUp(self):
        super().setUp()
        self.port = reserve_port()
        script = self.directory / "server.q"
        script.write_text("\n".join(self.SERVER) + "\n")
        self.start("server", "q", str(script), "-u", "0", "-p", f"127.0.0.1:{self.port}")
        self.server = self.eventually(lambda: self.reached(self.port), "the server answers")

    def reached(self, port):
        try:
            return self.connect(port)
        except OSError:
            return None

    def client(self):
        """A session with its port, which keeps what its WebSocket receives in `got`."""
        port, script = reserve_port(), self.directory / "client.q"
        script.write_text('got:();.z.ws:{got,:enlist x};gone:0Ni;.z.wc:{gone::x};.z.pc:{gone::`pc}\n')
        self.start("client", "q", str(script), "-u", "0", "-p", f"127.0.0.1:{port}")
        return self.eventually(lambda: self.reached(port), "the client answers")

    def opened(self, client):
        return client.ask(f'first r:(`:ws://127.0.0.1:{self.port})"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"').py()

    def test_messages_both_ways(self):
        client = self.client()
        self.assertGreater(self.opened(client), 2)
        self.assertEqual(client.ask("12#last r").py(), "HTTP/1.1 101")
        client.ask("h:first r;neg[h]\"one\";neg[h]0x0102;neg[h]1000000#\"x\"")
        self.eventually(lambda: client.ask("count got").py() == 3, "all came back")
        self.assertEqual(client.ask("(got 0;got 1;count got 2;-38!h)").py(), ["echo one", [1, 2], 1000005, {"p": "w", "f": "t"}])

    def test_the_end_of_either_side_is_seen_by_the_other(self):
        client = self.client()
        self.opened(client)
        client.ask("hclose first r")
        self.eventually(lambda: self.server.ask("closed=opened").py(), "the server sees that the client has closed")
        handle = self.opened(client)
        self.server.ask("hclose opened")
        self.eventually(lambda: client.ask("gone").py() == handle, "the client sees that the server has closed")

    def test_a_server_that_does_not_agree(self):
        client = self.client()
        self.server.ask("\\x .z.ws")
        answer = client.ask(f'(`:ws://127.0.0.1:{self.port})"GET / HTTP/1.1\r\n\r\n"').py()
        self.assertEqual(answer[0], NULL_INT)
        self.assertTrue(answer[1].startswith("HTTP/1.1 "), answer)


if __name__ == "__main__":
    unittest.main()
