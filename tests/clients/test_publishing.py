"""The examples of docs/publishing.md, run as they stand there against a tickerplant with the page's tables."""

import importlib.util
import math
import os
import re
import shutil
import subprocess
import sys
import unittest

from harness import kdb, tplog
from harness.process import ROOT, binary
from harness.scene import Scene

PAGE = (ROOT / "docs" / "publishing.md").read_text()
# Code blocks by the words after the fence: language and name.
BLOCKS = {match[1]: match[2] for match in re.finditer(r"^```(\S+ \S+)\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)}
# The part of javakdb that the example uses.
JAVAKDB = """
package com.kx;
public class c {
    public c(String host, int port, String login) throws Exception {}
    public Object k(String expression) throws Exception { return null; }
    public Object k(String function, Object one, Object two) throws Exception { return null; }
    public void ks(String function, Object one, Object two) throws java.io.IOException {}
    public void close() throws java.io.IOException {}
}
"""
# 2026-11-24 09:30, in nanoseconds since 2000-01-01.
OPENING = 848_827_800_000_000_000


class Publishing(Scene):
    schema = BLOCKS["q feed.q"]

    def setUp(self):
        super().setUp()
        (self.directory / "feed.q").write_text(BLOCKS["q feed.q"])
        self.tp = self.start("tick", "tick", "feed", self.logs, "-p", "0")

    def write(self, block, name):
        """Writes an example to a file, for this test's port."""
        text = BLOCKS[block]
        self.assertIn("5010", text)
        path = self.directory / name
        path.write_text(text.replace("5010", str(self.tp.port)))
        return path

    def execute(self, *command, **environment):
        done = subprocess.run(
            [str(word) for word in command],
            cwd=self.directory,
            env={**os.environ, **environment},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=120,
        )
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def assert_published(self):
        """Asserts that the log has the page's three updates and nothing was rejected."""
        h = self.connect(self.tp)
        self.eventually(lambda: h.ask(".u.i").v + h.ask(".u.refused").v == 3, "three updates")
        self.assertEqual(h.ask(".u.refused").v, 0, h.ask("exec reason from .u.rejected"))
        trade, book, row = tplog.read(self.log_path(h))
        self.assertEqual([record[1].v for record in (trade, book, row)], ["trade", "book", "trade"])
        _, symbols, prices, sizes, sides = trade[2].v
        self.assertEqual((symbols, sides), (kdb.syms("AAPL", "MSFT"), kdb.chars("BS")))
        self.assertEqual(prices.v[0], 187.2)
        self.assertTrue(math.isnan(prices.v[1]))
        self.assertEqual(sizes, kdb.longs([100, -(1 << 63)]))
        lists = (kdb.lst(kdb.floats([187.1, 187.0])), kdb.lst(kdb.floats([187.3])), kdb.lst(kdb.chars("opening")))
        self.assertEqual(tuple(book[2].v), (kdb.K(kdb.TIMESTAMP, [OPENING]), kdb.syms("AAPL"), *lists))
        self.assertEqual(tuple(row[2].v[1:]), (kdb.syms("AAPL"), kdb.floats([187.25]), kdb.longs([50]), kdb.chars("B")))

    def test_every_example_of_the_page_has_a_test(self):
        tested = {"q feed.q", "q publisher", "python aiokdb", "python pykx", "python qpython", "javascript node-q",
                  "java javakdb", "c publisher"}  # fmt: skip
        self.assertEqual(set(BLOCKS), tested)
        self.assertEqual(PAGE.count("\n```"), 2 * len(BLOCKS))

    def test_q(self):
        self.execute(binary(), "q", self.write("q publisher", "publisher.q"))
        self.assert_published()

    def test_aiokdb(self):
        self.execute(sys.executable, self.write("python aiokdb", "publisher.py"))
        self.assert_published()

    def test_qpython(self):
        self.execute(sys.executable, self.write("python qpython", "publisher.py"))
        self.assert_published()

    @unittest.skipUnless(importlib.util.find_spec("pykx"), "PyKX is not installed (pip install pykx)")
    def test_pykx(self):
        self.execute(sys.executable, self.write("python pykx", "publisher.py"))
        self.assert_published()

    def test_node_q(self):
        modules = str(ROOT / "node_modules")
        self.execute("node", "--no-deprecation", self.write("javascript node-q", "publisher.js"), NODE_PATH=modules)
        self.assert_published()

    @unittest.skipUnless(shutil.which("javac"), "no JDK")
    def test_java_compiles(self):
        stub = self.directory / "c.java"
        stub.write_text(JAVAKDB)
        self.execute("javac", "-d", self.directory, stub, self.write("java javakdb", "Publish.java"))

    @unittest.skipUnless(
        shutil.which("javac") and os.environ.get("ELASTICK_JAVAKDB"), "no JDK, or ELASTICK_JAVAKDB does not name javakdb's jar"
    )
    def test_java(self):
        jar = os.environ["ELASTICK_JAVAKDB"]
        source = self.write("java javakdb", "Publish.java")
        self.execute("javac", "-cp", jar, source)
        self.execute("java", "-cp", f"{jar}:{self.directory}", "Publish")
        self.assert_published()

    @unittest.skipUnless(shutil.which("cc"), "no C compiler")
    def test_c(self):
        program = self.directory / "publisher"
        source = self.write("c publisher", "publisher.c")
        self.execute("cc", "-std=c11", "-Wall", "-Wextra", "-Werror", "-o", program, source)
        self.execute(program)
        self.assert_published()
