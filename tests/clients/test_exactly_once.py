"""The examples of docs/exactly-once.md as they are printed, in q and Python with a tickerplant that is killed, in Java as far as the compiler goes."""

import shutil
import subprocess
import sys

from harness import kdb, tplog
from harness.process import ROOT, binary, reserve_port
from harness.scene import Scene

EXAMPLES = ROOT / "examples" / "exactly-once"
LINES = 200_000
DATE = "20261124"

# The part of KX's c.java that the example uses.
KX_C = """package kx;
public class c {
    public static class KException extends Exception {}
    public c(String host, int port) throws KException, java.io.IOException {}
    public Object k(String function, Object argument) throws KException, java.io.IOException { return null; }
    public Object k(Object call) throws KException, java.io.IOException { return null; }
    public void close() throws java.io.IOException {}
}
"""


class Examples(Scene):
    schema = "trade:([]time:`timespan$();sym:`symbol$();price:`float$();size:`long$())\n"

    def setUp(self):
        super().setUp()
        self.file = self.directory / "trades.csv"
        self.file.write_text("".join(f"{('AAA', 'BBB')[line % 2]},{line % 97}.5,{line}\n" for line in range(LINES)))
        self.port = reserve_port()

    def run_tick(self, name):
        return self.tick(name=name, port=self.port)

    def run_empty_tick(self, name):
        """A tickerplant with a log directory of its own."""
        self.logs = self.directory / f"logs-{name}"
        self.logs.mkdir()
        return self.run_tick(name)

    def lines_logged(self):
        logs = [path for path in self.logs.iterdir() if path.suffix[1:].isdigit()]
        updates = [record[2] for log in sorted(logs) for record in tplog.read(log) if record[0] == kdb.sym("upd")]
        return [line for update in updates for line in update[3].v]

    def last_number(self, tick):
        """The publisher's last number, from the tickerplant: it may still be writing the log."""
        h = self.connect(tick)
        try:
            return h.ask(kdb.lst(kdb.sym(".u.seq"), kdb.sym("feed1"))).v
        finally:
            h.close()

    def play(self, *command):
        """Kills the tickerplant and the publisher while it publishes; another run of the publisher finishes the work."""
        tick = self.run_tick("first")
        log = self.log_path(self.connect(tick))
        publisher = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        self.addCleanup(publisher.kill)
        self.eventually(lambda: log.stat().st_size > 20_000, "some lines are logged")
        tick.kill()
        tick = self.run_tick("second")
        self.eventually(lambda: log.stat().st_size > 600_000, "more lines are logged")
        publisher.kill()
        publisher.wait()
        self.assertLess(self.last_number(tick), int(DATE) * 1_000_000_000 + LINES)
        said = subprocess.run(command, capture_output=True, text=True, timeout=60)
        self.assertEqual(said.stdout.strip(), f"published {LINES} lines", said.stderr)
        tick.terminate()
        self.assertEqual(self.lines_logged(), list(range(LINES)))

    def commands(self, file, date):
        """The q and the Python example with a file and its date."""
        return (
            [binary(), "q", EXAMPLES / "publish.q", file, date, str(self.port)],
            [sys.executable, EXAMPLES / "publish.py", file, date, "127.0.0.1", str(self.port)],
        )

    def run_one(self, command):
        return subprocess.run(command, capture_output=True, text=True, timeout=60, stdin=subprocess.DEVNULL)

    def test_q(self):
        self.play(*self.commands(self.file, DATE)[0])

    def test_qpython(self):
        self.play(*self.commands(self.file, DATE)[1])

    def small_file(self, lines, name="small.csv"):
        file = self.directory / name
        file.write_text("".join(f"AAA,1.5,{line}\n" for line in lines))
        return file

    def test_the_next_days_file_is_published_and_another_file_of_the_day_is_an_error(self):
        for number in range(2):
            with self.subTest(example=number):
                tick = self.run_empty_tick(f"day{number}")
                first, second, shorter = (
                    self.small_file(range(0, 250), "1.csv"), self.small_file(range(250, 400), "2.csv"), self.small_file(range(9), "3.csv")
                )
                for file, date, lines in ((first, "20261124", 250), (second, "20261125", 150), (second, "20261125", 150)):
                    said = self.run_one(self.commands(file, date)[number])
                    self.assertEqual((said.stdout.strip(), said.returncode), (f"published {lines} lines", 0), said.stderr)
                for file, date in ((shorter, "20261125"), (first, "20261124")):
                    said = self.run_one(self.commands(file, date)[number])
                    self.assertEqual((said.stdout, said.returncode), ("", 1), said.stderr)
                    self.assertIn("after the end of this file", said.stderr)
                tick.terminate()
                self.assertEqual(self.lines_logged(), list(range(400)))

    def test_of_two_publishers_with_one_id_the_first_stops(self):
        for number in range(2):
            with self.subTest(example=number):
                tick = self.run_empty_tick(f"two{number}")
                h = self.connect(tick)
                log = self.log_path(h)
                command = self.commands(self.file, DATE)[number]
                publisher = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
                self.addCleanup(publisher.kill)
                self.eventually(lambda: log.stat().st_size > 20_000, "some lines are logged")
                h.ask(kdb.lst(kdb.sym(".u.seq"), kdb.sym("feed1")))
                out, errors = publisher.communicate(timeout=60)
                self.assertEqual((out, publisher.returncode), ("", 1), errors)
                self.assertRegex(errors, r"line.*: seq: ")
                tick.terminate()
                logged = self.lines_logged()
                self.assertEqual(logged, list(range(len(logged))))

    def test_an_error_that_does_not_pass_ends_a_publisher_with_the_line(self):
        bad = self.directory / "bad.csv"
        bad.write_text("AAA,1.5,1\nBBB,x,2\n")
        tick = self.run_tick("other-table")
        for number, command in enumerate(self.commands(bad, DATE)):
            with self.subTest(example=number):
                said = self.run_one(command)
                self.assertEqual((said.stdout, said.returncode), ("", 1))
                self.assertIn("line 2: ", said.stderr)
        tick.kill()
        (self.directory / "sym.q").write_text("trade:([]time:`timespan$();sym:`symbol$();price:`float$();size:`int$())\n")
        self.run_empty_tick("other-schema")
        for number, command in enumerate(self.commands(self.small_file(range(5)), DATE)):
            with self.subTest(example=number):
                said = self.run_one(command)
                self.assertEqual((said.stdout, said.returncode), ("", 1))
                self.assertRegex(said.stderr, "line.*: type: ")

    def test_java_compiles(self):
        if not shutil.which("javac"):
            self.skipTest("there is no Java compiler here")
        source = self.directory / "kx" / "c.java"
        source.parent.mkdir()
        source.write_text(KX_C)
        compiled = subprocess.run(
            ["javac", "-d", self.directory, source, EXAMPLES / "Publish.java"], capture_output=True, text=True, timeout=120
        )
        self.assertEqual(compiled.returncode, 0, compiled.stderr)
