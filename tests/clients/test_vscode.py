"""What VS Code's kdb extension sends: a function around every line that a user runs, which returns the result as text, as columns or as it is, and
an error with its place."""

import pathlib
import unittest

from harness import kdb
from harness.process import reserve_port
from harness.scene import Scene

WRAPPER = pathlib.Path(__file__).parents[3] / "shared" / "kdb" / "programs" / "ide" / "vscode" / "evaluate.q"
FORMATS = ("text", "structuredText", "serialized")
# A line, and its text.
LINES = {
    "1+1": "2\n",
    "til 5": "0 1 2 3 4\n",
    "()": "()\n",
    "`a`b!1 2": "a| 1\nb| 2\n",
    "1 2!3 4": "1| 3\n2| 4\n",
    "{x+y}": "{x+y}\n",
    '"abc"': '"abc"\n',
    '("ab";"cd")': '"ab"\n"cd"\n',
    "2026.11.21D10:00": "2026.11.21D10:00:00.000000000\n",
    "([]a:1 2;b:`x`y)": "a b\n---\n1 x\n2 y\n",
    "([k:1 2]v:3 4)": "k| v\n-| -\n1| 3\n2| 4\n",
    "select from ([]a:1 2 3) where a>1": "a\n-\n2\n3\n",
    "1b": "1b\n",
    "0x0102": "0x0102\n",
    "(1;`a;\"b\")": "1\n`a\n\"b\"\n",
    "a:1 / one\n\n/ two\nb:2\n\na+b": "3\n",
    "f:{\n  x+1\n\n  }\nf 2": "3\n",
    "/\na block\n\\\n1+2": "3\n",
}
# A line, its error, and the text above the caret.
ERRORS = {"1+`a": ("type", "1+`a"), "nothing": ("nothing", "nothing"), "til `a": ("type", "til `a"), "(1 2)+1 2 3": ("length", "(1 2)+1 2 3")}


@unittest.skipUnless(WRAPPER.exists(), f"{WRAPPER} is missing")
class VsCode(Scene):
    def servers(self):
        node, port = self.rdb(self.tick()), reserve_port()
        self.start("session", "q", "-p", f"127.0.0.1:{port}")
        return {"a node": self.connect(node), "a session": self.eventually(lambda: self.reached(port), "the session answers")}

    def reached(self, port):
        try:
            return self.connect(port)
        except OSError:
            return None

    def evaluate(self, connection, line, form):
        function = WRAPPER.read_text().replace("\n", " ")
        return connection.ask(kdb.lst(kdb.chars(function), kdb.chars("."), kdb.chars(line), kdb.chars(form))).py()

    def test_every_line_is_answered_in_every_form(self):
        for server, connection in self.servers().items():
            for line, text in LINES.items():
                for form in FORMATS:
                    with self.subTest(server=server, line=line, form=form):
                        answer = self.evaluate(connection, line, form)
                        self.assertFalse(answer["errored"], answer)
                        if form == "text":
                            self.assertEqual(answer["result"], text)
                        if form == "structuredText":
                            self.assertIn('"columns":[', answer["result"])

    def test_an_error_is_shown_with_its_place(self):
        for server, connection in self.servers().items():
            for line, (error, code) in ERRORS.items():
                with self.subTest(server=server, line=line):
                    answer = self.evaluate(connection, line, "text")
                    self.assertTrue(answer["errored"])
                    self.assertEqual(answer["error"], error)
                    self.assertIn(f"]  {code}\n", answer["backtrace"])
