"""Failing starts: one clear line with the problem, its place and the remedy, and a non-zero exit code."""

import os
import pathlib
import re
import resource
import socket
import subprocess
import tempfile
import unittest

from harness.process import binary

NOBODY = 65534
TABLE = "trade:([]time:`timespan$();sym:`symbol$();price:`float$())\n"
# Patterns of Rust debug output, which must not appear in error texts.
DEBUG = re.compile(r"panicked|RUST_BACKTRACE|\b(?:Err|Ok|Some|None)\(|Os \{|Custom \{|kind: |ErrorKind|unwrap")


def mounted(*arguments):
    """Whether a mount succeeded."""
    return subprocess.run(["mount", *arguments], capture_output=True).returncode == 0


class Start(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="elastick-start-", ignore_cleanup_errors=True)
        self.addCleanup(folder.cleanup)
        self.here = pathlib.Path(folder.name)
        self.here.chmod(0o755)
        (self.here / "sym.q").write_text(TABLE)
        self.logs = self.here / "logs"

    def refused(self, *arguments, code=1, **how):
        """The error output of a program that must fail to start with this exit code."""
        done = subprocess.run(
            [binary(), *map(str, arguments)], capture_output=True, cwd=self.here, timeout=60, stdin=subprocess.DEVNULL, **how
        )
        said = done.stderr.decode("utf-8", "replace")
        self.assertEqual(done.returncode, code, said)
        self.assertNotRegex(said, DEBUG)
        return said

    def tick_refused(self, *arguments, src="sym", says=(), lines=1, **how):
        said = self.refused("tick", src, *arguments, "-p", "127.0.0.1:0", **how)
        for words in says:
            self.assertIn(str(words), said)
        self.assertEqual(len(said.splitlines()), lines, said)
        return said

    def schema(self, text, name="bad.q"):
        path = self.here / name
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return path

    def config(self, text):
        return self.schema(text, "elastick.toml")


class LogDirectory(Start):
    def test_a_file_in_its_place(self):
        self.logs.write_text("x")
        self.tick_refused(self.logs, says=[self.logs, "must be a directory"])

    def test_a_file_on_the_way_to_it(self):
        (self.here / "file").write_text("x")
        self.tick_refused(self.here / "file" / "logs", says=[self.here / "file", "must be a directory"])

    def test_one_that_is_missing_is_made(self):
        process = subprocess.Popen(
            [binary(), "tick", "sym", "deep/logs", "-p", "127.0.0.1:0"], cwd=self.here, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        )
        self.addCleanup(process.wait)
        self.addCleanup(process.stdout.close)
        self.addCleanup(process.kill)
        self.assertIn(b"listening on", process.stdout.readline())
        self.assertEqual(len(list((self.here / "deep" / "logs").glob("sym????.??.??"))), 1)

    @unittest.skipIf(os.geteuid() != 0, "another user is needed")
    def test_another_users(self):
        self.logs.mkdir()
        self.here.chmod(0o755)
        says = [self.logs, "Permission denied", "needs read and write access"]
        self.tick_refused(self.logs, says=says, user=NOBODY, group=NOBODY, extra_groups=[])

    @unittest.skipIf(os.geteuid() != 0, "another user is needed")
    def test_one_that_another_user_would_have_to_make(self):
        says = [self.logs, "cannot create the directory", "Permission denied", "needs read and write access"]
        self.tick_refused(self.logs, says=says, user=NOBODY, group=NOBODY, extra_groups=[])

    def test_on_a_file_system_that_is_mounted_for_reading(self):
        self.logs.mkdir()
        if not (mounted("--bind", self.logs, self.logs) and mounted("-o", "remount,ro,bind", self.logs)):
            self.skipTest("nothing can be mounted here (this needs root)")
        self.addCleanup(subprocess.run, ["umount", "-l", self.logs])
        self.tick_refused(self.logs, says=[self.logs, "read-only", "remount it read-write"])

    def test_on_a_full_disk(self):
        self.logs.mkdir()
        if not mounted("-t", "tmpfs", "-o", "size=64k", "tmpfs", self.logs):
            self.skipTest("a small file system cannot be mounted here (this needs root)")
        self.addCleanup(subprocess.run, ["umount", "-l", self.logs])
        with (self.logs / "filler").open("wb", buffering=0) as filler:
            try:
                while filler.write(bytes(4096)):
                    pass
            except OSError:
                pass
        self.tick_refused(self.logs, says=[self.logs, "No space left", "free space there"])

    def test_with_a_limit_of_file_sizes(self):
        for size in (0, 4):
            limit = lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))
            self.tick_refused(self.logs, says=[self.logs, "File too large", "ulimit -f"], preexec_fn=limit)


class Schemas(Start):
    def test_one_that_is_missing(self):
        self.tick_refused("--schemas", self.here, src="other", says=[self.here / "other.q", "looked for at", "--schemas FILE.q"])

    def test_a_directory_of_schemas_that_is_missing(self):
        self.tick_refused("--schemas", self.here / "nowhere", says=["--schemas", self.here / "nowhere", "no such directory"])

    def test_a_directory_of_schemas_that_is_a_file(self):
        (self.here / "file").write_text("x")
        self.tick_refused("--schemas", self.here / "file", says=["--schemas", self.here / "file", "must end in .q"])

    def test_an_error_with_its_line_and_column(self):
        bad = self.schema("a:1\n\ntrade:([]time:`timespan$();sym:`symbol$();x:`foo$())\n")
        says = [bad, "line 3, column 49", "'cast", "x:`foo$()"]
        said = self.tick_refused("--schemas", bad, says=says, lines=4)
        *_, text, caret = said.splitlines()
        self.assertEqual(text[caret.index("^") :], "$())", "the caret is below what failed")

    def test_brackets_that_stay_open(self):
        bad = self.schema("trade:([]time:`timespan$();sym:`symbol$()\n")
        self.tick_refused("--schemas", bad, says=[bad, "line 1, column 7", "'("], lines=4)

    def test_one_that_is_empty(self):
        for text in ("", "\n\n", "/ nothing\n", "a:1\n"):
            bad = self.schema(text)
            self.tick_refused("--schemas", bad, says=[bad, "defines no table", "trade:([]time:"])

    def test_a_directory(self):
        bad = self.here / "bad.q"
        bad.mkdir()
        self.tick_refused("--schemas", bad, says=[bad, "Is a directory"])

    def test_tables_that_do_not_begin_with_time_and_sym(self):
        bad = self.schema("trade:([]sym:`symbol$();price:`float$())\n")
        self.tick_refused("--schemas", bad, says=[bad, "trade", "time and sym"])

    def test_bytes_that_are_no_text_do_not_reach_the_terminal(self):
        bad = self.schema(b"a:1\n\x1b[2J\x07\x9b\xff\x00trade\n")
        said = self.refused("tick", "sym", "-p", "127.0.0.1:0", "--schemas", bad)
        self.assertIn("line 2", said)
        self.assertNotRegex(said, r"[\x00-\x08\x0b-\x1f]")


class Ports(Start):
    def test_one_in_use_names_the_process(self):
        with socket.create_server(("127.0.0.1", 0)) as taken:
            port = taken.getsockname()[1]
            said = self.refused("tick", "sym", "-p", f"127.0.0.1:{port}")
            for words in (f"port {port} on 127.0.0.1", f"process {os.getpid()} (", "choose another port with -p"):
                self.assertIn(words, said)

    @unittest.skipIf(os.geteuid() != 0, "another user is needed")
    def test_one_of_a_process_that_this_user_may_not_look_at(self):
        with socket.create_server(("127.0.0.1", 0)) as taken:
            port = taken.getsockname()[1]
            said = self.refused("tick", "sym", "-p", f"127.0.0.1:{port}", user=NOBODY, group=NOBODY, extra_groups=[])
            self.assertIn("another process listens there", said)

    @unittest.skipIf(os.geteuid() != 0, "another user is needed")
    def test_one_that_is_not_allowed(self):
        if int(pathlib.Path("/proc/sys/net/ipv4/ip_unprivileged_port_start").read_text()) <= 80:
            self.skipTest("any user may listen on any port here")
        said = self.refused("tick", "sym", "-p", "127.0.0.1:80", user=NOBODY, group=NOBODY, extra_groups=[])
        for words in ("port 80", "Permission denied", "choose a higher one with -p"):
            self.assertIn(words, said)

    def test_none_that_is_one(self):
        for port in ("abc", "70000", "-1", "5010/", "host:", "5020/5010"):
            self.assertIn("port", self.refused("tick", "sym", f"-p={port}", code=2))


class Configuration(Start):
    def says(self, text, *words):
        path = self.config(text)
        said = self.refused("tick", "sym", "-p", "127.0.0.1:0", "--config", path, code=2)
        for expected in (str(path), *words):
            self.assertIn(expected, said)
        self.assertEqual(len(said.splitlines()), 1, said)

    def test_keys_that_are_unknown(self):
        self.says("nosuch = 1\n", 'unknown option "nosuch"')
        self.says("durabilty = 'os'\n", 'did you mean "durability"?')
        self.says("[tick]\nnosuch = 1\n", 'unknown option "nosuch"')

    def test_values_of_a_wrong_type(self):
        self.says("timer = [1, 2]\n", "timer is no text, number or boolean", "array")
        self.says("port = {a = 1}\n", "unknown section [port]")
        self.says("limit-connections = true\n", "limit-connections", '"true"')
        self.says("quiet = 12\n", "quiet", "12")
        self.says("limit-message = 'much'\n", "limit-message", "much")
        self.says("durability = 7\n", "durability", "7")

    def test_a_form_that_is_wrong_with_its_line_and_column(self):
        self.says("quiet = true\nport = \n", "line 2: column")
        self.says(b"quiet = true\n\xff\xfe\n", "UTF-8")

    def test_a_file_that_cannot_be_read(self):
        for path, words in ((self.here / "nowhere", "No such file"), (self.here, "directory")):
            said = self.refused("tick", "sym", "-p", "127.0.0.1:0", "--config", path, code=2)
            for expected in (str(path), "--config", words):
                self.assertIn(expected, said)
