"""HTTP and WebSocket as a client: `.Q.hg`, `.Q.hp`, `` `:http://host `` and `` `:ws://host `` of a session and of a node, against Python's server."""

import base64
import gzip
import http.server
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
        self.send_response(404 if "missing" in self.path else 200)
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
            ("http://AT/a?b=1", "GET /a?b=1 - - - "),
            ("http://ann:pw@AT/a", f"GET /a {basic} - - "),
            ("http://AT/gz", "GET /gz - - - "),
            ("http://AT/chunk", "GET /chunk - - - "),
            ("http://AT/chunk/gz", "GET /chunk/gz - - - "),
            ("http://AT/missing", "GET /missing - - - "),
        ):
            with self.subTest(url=url):
                self.assertEqual(self.q(f'-1 .Q.hg"{url}";'), [wanted])

    def test_post(self):
        lines = self.q('-1 .Q.hp["http://AT/p";.h.ty`json;.j.j`a`b!1 2];')
        self.assertEqual(lines, ['POST /p - - application/json {"a":1,"b":2}'])

    def test_head_and_content(self):
        self.assertEqual(self.q('r:.Q.hmb["http://AT/";`DELETE;()]', '-1(first["\\r\\n"vs r 0;);', "-1 r 1;")[-1], "DELETE / - - - ")

    def test_a_proxy_is_used_except_for_hosts_that_are_named(self):
        basic = "Basic " + base64.b64encode(b"u:p").decode()
        lines = self.q(
            'setenv[`HTTP_PROXY;"http://u:p@AT"]',
            '-1 .Q.hg"http://elsewhere.invalid/x";',
            'setenv[`NO_PROXY;"other,.invalid"]',
            '-1(5#@[.Q.hg;"http://elsewhere.invalid/x";{x}]);',
        )
        self.assertEqual(lines, [f"GET http://elsewhere.invalid/x - {basic} - ", "hop. "])

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
        with self.assertRaises(KdbError) as refused:
            node.ask(f'(`:ws://{self.at})"GET / HTTP/1.1\r\n\r\n"')
        self.assertIn(str(refused.exception), ("nyi", "access"))


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
