"""Checks the tests' own codec against bytes written by q processes; other tests of elastick rely on it."""

import json
import pathlib
import unittest

from harness import kdb, wire

GOLDEN = pathlib.Path(__file__).parents[3] / "shared" / "kdb" / "golden" / "expr-bytes.jsonl"


@unittest.skipUnless(GOLDEN.exists(), f"{GOLDEN} is missing")
class SecondOpinion(unittest.TestCase):
    def setUp(self):
        self.lines = [json.loads(line) for line in GOLDEN.read_text().splitlines()]

    def test_objects_decode_and_encode_to_the_same_bytes(self):
        compared = 0
        for line in self.lines:
            data = bytes.fromhex(line["hex"])
            if line["kind"] == "compressed-payload" or (line["kind"] == "message" and data[2]):
                continue
            head, body = (data[:8], data[8:]) if line["kind"] == "message" else (b"\1", data)
            order = "<" if head[0] == 1 else ">"
            with self.subTest(line["expr"], hex=line["hex"][:80]):
                value, end = kdb.decode(body, order)
                self.assertEqual(end, len(body))
                self.assertEqual(kdb.encode(value, order).hex(), body.hex())
                compared += 1
        self.assertGreater(compared, 250)

    def test_compressed_messages_open_and_compress_to_the_same_bytes(self):
        compared = 0
        for line in self.lines:
            data = bytes.fromhex(line["hex"])
            if line["kind"] == "message" and data[2]:
                total, stream = int.from_bytes(data[8:12], "little"), data[12:]
            elif line["kind"] == "compressed-payload":
                total, stream = int.from_bytes(data[:4], "little"), data[4:]
            else:
                continue
            with self.subTest(line["expr"]):
                body = wire.decompress(stream, total)
                self.assertEqual(kdb.decode(body)[1], len(body))
                self.assertEqual(wire.compress(bytes(8) + body).hex(), stream.hex())
                compared += 1
        self.assertGreater(compared, 3)
