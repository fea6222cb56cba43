"""The wire protocol byte by byte: logins, probes, call forms, byte orders, compression, sockets."""

import os
import socket
import struct
import unittest

from harness import kdb, wire
from harness.process import reserve_port
from harness.scene import Scene, trades, update

PROBE = 'k){x:. x;$[99h<@x;:`$"_pykx_fn_marker";99h~@x;:`$"_pykx_ctx_marker";x]}'


class Wire(Scene):
    """One tickerplant and one node, shared by all tests of the class."""

    def setUp(self):
        super().setUp()
        self.tp = self.tick()
        self.h = self.connect(self.tp)

    def test_logins_are_accepted_as_clients_send_them(self):
        for login, agreed in [
            (b"bob:pw\x03\0", 3), (b"bob:pw\x06\0", 6), (b":\x06\0", 6), (b"anonymous\x03\0", 3),
            (b"\x03\0", 3), (b"x:y\x01\0", 1),
        ]:  # fmt: skip
            with self.subTest(login=login):
                h = self.connect(self.tp, user=None)
                self.assertEqual(h.handshake(login), agreed)
                self.assertEqual(h.ask("1+1").v, 2)

    def test_a_login_may_arrive_byte_by_byte(self):
        h = self.connect(self.tp, user=None)
        for byte in b"bob:pw\x03":
            h.raw(bytes([byte]))
        self.assertEqual(h.handshake(b"\0"), 3)
        self.assertEqual(h.ask("2+2").v, 4)

    def test_header_and_body_of_an_answer_are_one_segment(self):
        """PyKX reads the header with one recv(8); an answer split there kills its connection."""
        for question in ["1+1", ".u.t", "meta trade", "nosuchname"]:
            with self.subTest(question):
                self.h.raw(wire.message(question))
                self.h.socket.settimeout(30)
                first = self.h.socket.recv(1 << 16)
                self.assertGreater(len(first), wire.HEADER)
                self.assertEqual(wire.parse(first[:8])[3], len(first))

    def test_pykx_may_connect(self):
        """What PyKX sends before any query of its user, on tickerplant and node alike."""
        node = self.rdb(self.tp)
        for process in (self.tp, node):
            with self.subTest(process.name):
                h = self.connect(process, user=":", capability=6)
                for _ in range(2):
                    answer = h.ask(kdb.lst(kdb.chars(PROBE), kdb.sym(".q")))
                    self.assertEqual(answer, kdb.sym("_pykx_ctx_marker"))
                    names = h.ask(kdb.lst(kdb.chars("key"), kdb.sym(".q")))
                    self.assertEqual((names.t, names.v[0]), (kdb.SYMBOL, ""))
                    self.assertIn("aj", names.v)
                self.assertEqual(h.ask("@[{2<count .s};(::);{0b}]"), kdb.K(-kdb.BOOL, 0))
                self.assertIsNotNone(h.error_of(kdb.lst(kdb.chars(PROBE), kdb.sym("._loop"))))

    def test_a_call_arrives_in_every_form(self):
        table = kdb.lst(kdb.sym("trade"), self.h.ask(".u.sub[`trade;`]")[1])
        forms = {
            "char vector": kdb.chars(".u.sub[`trade;`]"),
            "list headed by a string": kdb.lst(kdb.chars(".u.sub"), kdb.sym("trade"), kdb.sym("")),
            "list headed by a symbol": kdb.lst(kdb.sym(".u.sub"), kdb.sym("trade"), kdb.sym("")),
            "symbol vector": kdb.syms(".u.sub", "trade", ""),
            "list headed by a lambda": kdb.lst(kdb.lam("{.u.sub[x;y]}"), kdb.sym("trade"), kdb.sym("")),
        }
        for form, message in forms.items():
            with self.subTest(form):
                self.assertEqual(self.h.ask(message), table)
        self.assertEqual(self.h.ask(kdb.K(-kdb.CHAR, "1")), kdb.long(1))

    def test_a_big_endian_publisher_is_understood(self):
        self.h.ask(kdb.syms(".u.sub", "trade", ""))
        big = self.connect(self.tp)
        sent = trades(0, 50)
        big.raw(wire.message(update("trade", sent), wire.SYNC, order=">"))
        self.assertNotEqual(big.answer().t, kdb.ERROR)
        data = self.h.push()[2]
        self.assertEqual(list(data.v.values())[1:], sent.v)

    def test_a_compressed_update_is_understood(self):
        self.h.ask(kdb.syms(".u.sub", "trade", ""))
        for order in "<>":
            sent = trades(0, 5000)
            packed = wire.message(update("trade", sent), wire.SYNC, order=order, compressed=True)
            self.assertLess(len(packed), len(wire.message(update("trade", sent))))
            self.h.raw(packed)
            self.h.answer()
            self.assertEqual(list(self.h.push()[2].v.values())[1:], sent.v)

    def test_messages_may_arrive_in_pieces_and_together(self):
        many = b"".join(wire.message(f"{i}+0") for i in range(20))
        for size in (1, 7, len(many)):
            with self.subTest(size=size):
                for at in range(0, len(many), size):
                    self.h.raw(many[at : at + size])
                self.assertEqual([self.h.answer().v for _ in range(20)], list(range(20)))

    def test_errors_are_kdbs_errors(self):
        """The type byte 0x80 and a text that ends with NUL, in a response."""
        self.h.raw(wire.message("1+`a"))
        head = self.h.socket.recv(1 << 16)
        self.assertEqual(wire.parse(head[:8])[1], wire.RESPONSE)
        self.assertEqual(head[8:9], b"\x80")
        self.assertTrue(head[9:].startswith(b"type") and head.endswith(b"\0"))

    def test_the_length_of_an_answer_is_its_header(self):
        self.h.raw(wire.message("til 1000"))
        data = b""
        while len(data) < 8 + 6 + 8000:
            data += self.h.socket.recv(1 << 16)
        self.assertEqual(struct.unpack("<I", data[4:8])[0], 8 + 6 + 8000)


@unittest.skipUnless(hasattr(socket, "AF_UNIX"), "no Unix sockets here")
class UnixSockets(Scene):
    def test_both_kinds_are_served_beside_the_port(self):
        port = reserve_port()
        environment = {"QUDSPATH": str(self.directory)}
        arguments = ("tick", "sym", self.logs, "-p", port, "--schemas", self.directory / "sym.q")
        process = self.start("tick", *arguments, **environment)
        self.assertEqual(process.port, port)
        path = f"{self.directory}/kx.{port}"
        for address in (path, "\0" + path):
            with self.subTest(repr(address)):
                h = self.connect(address)
                h.ask(kdb.syms(".u.sub", "trade", ""))
                h.ask(update("trade", trades(0, 3)))
                self.assertEqual(h.push()[2]["seq"].v, [0, 1, 2])
        self.assertEqual(process.terminate(), 0)
        self.assertFalse(os.path.exists(path), "the socket's file is left behind")

    def test_node_q_connects_to_the_path(self):
        from .nodeq import play

        port = reserve_port()
        arguments = ("tick", "sym", self.logs, "-p", port, "--schemas", self.directory / "sym.q")
        self.assertEqual(self.start("tick", *arguments, QUDSPATH=str(self.directory)).port, port)
        self.assertEqual(play(f"{self.directory}/kx.{port}", {"sync": "1+1"}), [2])
