"""`elastick q` at a terminal, in a pipe, and as a server."""

import pathlib
import socket
import subprocess
import tempfile
import threading
import unittest

from harness.client import Connection, KdbError
from harness.kdb import chars
from harness.process import binary, eventually, reserve_port
from harness.terminal import Terminal


def before_the_end(first, last):
    """Keys that type a line and press Tab between its parts."""
    return first + last + "\x1b[D" * len(last) + "\t"


class AtATerminal(unittest.TestCase):
    def setUp(self):
        self.home = tempfile.TemporaryDirectory()
        self.addCleanup(self.home.cleanup)

    def session(self, *arguments, rows=25, columns=80):
        places = {"HOME": self.home.name, "XDG_STATE_HOME": ""}
        terminal = Terminal(["q", *arguments], rows, columns, places)
        self.addCleanup(terminal.close)
        terminal.wait_for("q)")
        return terminal

    def answer(self, terminal, line, expected):
        terminal.type(line + "\r")
        terminal.wait_for("\n" + expected + "\n")
        terminal.wait_for("q)")

    def test_a_line_is_answered_and_the_next_is_asked_for(self):
        q = self.session()
        self.answer(q, "6*7", "42")
        self.answer(q, "1+`a", "'type (+ was given a long and a symbol)")

    def test_lines_typed_ahead_are_kept(self):
        q = self.session()
        q.type("1+1\r2+2\r3+3\r")
        for sum in ("2", "4", "6"):
            q.wait_for("\n" + sum + "\n")

    def test_keys_edit_the_line(self):
        q = self.session()
        # Ctrl-A, Ctrl-E, left, Ctrl-K, Ctrl-W.
        self.answer(q, "7\x016*\x05", "42")
        self.answer(q, "3+4junk\x1b[D\x1b[D\x1b[D\x1b[D\x0b", "7")
        self.answer(q, "10+ junk\x17" + "1", "11")

    def test_lines_of_a_program_are_not_edited(self):
        places = {"HOME": self.home.name, "XDG_STATE_HOME": ""}
        q = Terminal(["q"], environment=places, echo=False)
        self.addCleanup(q.close)
        q.wait_for("q)")
        # A notebook or `expect` takes all that it reads up to the prompt for the result.
        for line, expected in (("6*7", "42\n"), ("a:1", ""), ("([]a:1 2)", "a\n-\n1\n2\n")):
            q.type(line + "\n")
            self.assertEqual(q.wait_for("q)"), expected)
        self.assertNotIn(b"\x1b", q.seen)

    def test_history_is_there_again_in_the_next_session(self):
        q = self.session()
        self.answer(q, "1000+1", "1001")
        q.type("\x04")
        self.assertEqual(q.ended(), 0)
        again = self.session()
        self.answer(again, "\x1b[A", "1001")
        self.answer(again, "\x12" + "1000", "1001")

    def test_tab_completes_a_name(self):
        q = self.session()
        q.type("averylongname:21\r")
        q.wait_for("q)")
        self.answer(q, "2*averyl\t", "42")

    def test_tab_completes_columns_of_the_tables_on_the_line(self):
        q = self.session()
        q.type("prices:([]averylongcolumn:1 2;b:3 4)\r")
        q.wait_for("q)")
        self.answer(q, "sum prices.averyl\t", "3")
        self.answer(q, before_the_end("exec sum averyl", " from prices"), "3")

    def test_tab_completes_file_names(self):
        q = self.session()
        self.answer(q, f"`:{self.home.name}/averylongname 0: enlist \"xx\";1", "1")
        self.answer(q, f"count read0 `:{self.home.name}/averyl\t", "1")

    def test_help_explains_errors_forms_and_near_names(self):
        q = self.session(columns=200)
        for name, shown in (("length", "'length  lists or columns of different lengths"), (",:", "x,:y  appends"),
                            ("-11!", "-11!file "), ("selct", "no such name: selct; near: select")):
            q.type(f"\\help {name}\r")
            q.wait_for("\n" + shown)
            q.wait_for("q)")

    def test_the_prompt_names_the_namespace(self):
        q = self.session()
        q.type("\\d .analytics\r")
        q.wait_for("q.analytics)")
        q.type("\\d .\r")
        q.wait_for("q)")

    def test_pasted_lines_are_one_definition(self):
        q = self.session()
        q.type("\x1b[200~f:{\n  x+1\n  }\nf 41\x1b[201~\r")
        q.wait_for("\n42\n")

    def test_ctrl_c_stops_what_runs_and_the_session_goes_on(self):
        q = self.session()
        q.type('0N!`started;while[1b;x:1]\r')
        q.wait_for("\n`started\n")
        q.interrupt()
        q.wait_for("'stop")
        q.wait_for("q)")
        self.answer(q, "2+2", "4")

    def test_ctrl_c_drops_a_line_and_twice_on_an_empty_one_ends_the_session(self):
        q = self.session()
        q.type("1+")
        q.wait_for("1+")
        q.interrupt()
        q.wait_for("\nq)")
        q.interrupt()
        q.wait_for("(Ctrl-C again ends the session)\nq)")
        q.interrupt()
        self.assertEqual(q.ended(), 130)

    def test_the_window_gives_the_size_of_what_is_shown(self):
        q = self.session(rows=30, columns=40)
        self.answer(q, "\\c", "30 40i")
        self.answer(q, "til 100", "0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15..")

    def test_what_the_timer_prints_stands_above_the_line(self):
        q = self.session()
        q.type(".z.ts:{0N!`tick;system\"t 0\"}\r")
        q.wait_for("q)")
        q.type("\\t 1\r")
        q.wait_for("`tick\n")
        self.answer(q, "1+1", "2")

    def test_an_error_in_a_function_is_looked_at(self):
        q = self.session()
        q.type("g:{a:x*2;a+y}\r")
        q.wait_for("q)")
        q.type('{g[x;2#y]}[3;"hello"]\r')
        q.wait_for("  [2]  g:{a:x*2;a+y}\n")
        q.wait_for("q))")
        self.answer(q, "a*4", "24")
        self.answer(q, ".z.ex", "+")
        self.answer(q, ".z.ey", '6\n"he"')
        q.type("`\r")
        q.wait_for("  [1]  {g[x;2#y]}\n")
        self.answer(q, "y", '"hello"')
        q.type(". / the frame that failed\r")
        q.wait_for("  [2]  g:{a:x*2;a+y}\n")
        q.type("'other\r")
        q.wait_for("'other\n")
        q.wait_for("q))")
        q.type("\\\r")
        q.wait_for("\nq)")
        self.answer(q, "1+1", "2")

    def test_exit_codes(self):
        for line, code in (("exit 3", 3), ("\\\\", 0), (".z.exit:{0N!`code,x};exit 4", 4)):
            q = self.session()
            q.type(line + "\r")
            self.assertEqual(q.ended(), code, line)


def piped(text, *arguments, directory=None):
    """Exit code, output and errors of a session that reads a pipe."""
    run = subprocess.run([binary(), "q", *arguments], input=text.encode(), stdout=subprocess.PIPE,
                         stderr=subprocess.PIPE, cwd=directory, timeout=60)
    return run.returncode, run.stdout.decode(), run.stderr.decode()


def shown(text, *arguments, directory=None):
    """Exit code, and output and errors in order, as a terminal shows them."""
    run = subprocess.run([binary(), "q", *arguments], input=text.encode(), stdout=subprocess.PIPE,
                         stderr=subprocess.STDOUT, cwd=directory, timeout=60)
    return run.returncode, run.stdout.decode()


class Piped(unittest.TestCase):
    def test_a_handler_of_exit_may_exit_itself_and_nothing_is_said_of_it(self):
        self.assertEqual(piped('.z.exit:{-1"bye";exit 5}\nexit 3\n'), (5, "bye\n", ""))
        self.assertEqual(piped(".z.exit:{-1 .Q.s1 x;}\nexit 3\n"), (3, "3i\n", ""))

    def test_a_request_to_exit_gets_the_close_of_its_connection(self):
        port = reserve_port()
        server = subprocess.Popen([binary(), "q", "-p", str(port), "-u", "0"], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
        asked = piped(f"while[0=h:@[hopen;{port};0];0]\n-1@[h;(exit;7);{{x}}];\nexit 0\n")
        self.assertEqual((asked, server.wait(timeout=60)), ((0, "close\n", ""), 7))

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def test_hopen_offers_kdbs_capability_and_nothing_else(self):
        # Servers in other languages look for this byte.
        with socket.create_server(("127.0.0.1", 0)) as server:
            line = f'h:hopen`$":127.0.0.1:{server.getsockname()[1]}:ann:secret"\n'
            client = subprocess.Popen([binary(), "q"], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL)
            client.stdin.write(line.encode() + b"exit 3\n")
            client.stdin.flush()
            connection, _ = server.accept()
            with connection:
                login = b""
                while not login.endswith(b"\0"):
                    login += connection.recv(64)
                self.assertEqual(login, b"ann:secret\x06\0")
                connection.sendall(b"\x06")
                client.communicate()
                self.assertEqual(client.returncode, 3)

    def test_lines_in_answers_out_and_no_prompt(self):
        self.assertEqual(piped("1+1\n\n/ a comment\n`a`b\n"), (0, "2\n`a`b\n", ""))

    def test_an_error_is_shown_and_the_next_line_runs(self):
        self.assertEqual(shown("1+`a\n2\n"), (0, "'type (+ was given a long and a symbol)\n  [0]  1+`a\n        ^\n2\n"))

    def test_a_line_that_leaves_a_bracket_open_takes_no_other_with_it(self):
        self.assertEqual(shown("f:{1+\n2+2\n3+3\n"), (0, "'{\n  [0]  f:{1+\n         ^\n4\n6\n"))

    def test_a_function_made_in_another_goes_by_its_name_in_traces(self):
        _, out = shown('f0:{{("hi";x+y)}[x*2;"there"]}\nf0[2]\n')
        self.assertEqual(out, "'type (+ was given a long and a string)\n  [2]  f0@:{(\"hi\";x+y)}\n                   ^\n")

    def test_what_runs_is_shown_innermost_first(self):
        _, out, _ = piped("f:{{.Q.bt[];x*2}x+1}\nf 4\n")
        self.assertEqual(out, "  [2]  f@:{.Q.bt[];x*2}\n           ^\n  [1]  f:{{.Q.bt[];x*2}x+1}\n          ^\n"
                              "  [0]  f 4\n       ^\n10\n")

    def test_a_database_is_gone_into_and_its_tables_are_there(self):
        made = "`:db/2020.01.01/t/ set .Q.en[`:db]([]s:`a`b;v:1 2);\n`:db/2020.01.02/t/ set .Q.en[`:db]([]s:`b`c;v:3 4);\n"
        asked = "exec sum v by s from t\ndate\n\\cd\n"
        for load in ("\\l db\n", ".Q.l`:db\n"):
            _, out, _ = piped(made + load + asked, directory=self.folder)
            self.assertEqual(out, f"a| 1\nb| 5\nc| 4\n2020.01.01 2020.01.02\n\"{self.folder.resolve()}/db\"\n", load)

    def test_exit_ends_with_its_code_and_nothing_after_it_runs(self):
        self.assertEqual(piped("exit 3\n1\n"), (3, "", ""))
        self.assertEqual(piped("\\\\\n1\n"), (0, "", ""))

    def test_definitions_over_lines_and_blocks_of_comment(self):
        self.assertEqual(piped("f:{\n x+1\n }\nf 1\n/\nf 2\n\\\nf 3\n"), (0, "2\n4\n", ""))

    def test_standard_error_is_apart_and_output_can_go_to_a_file(self):
        code, out, err = piped('-1"o";\n-2"e";\n\\1 o.txt\n42\n-1"in it";\n', directory=self.folder)
        self.assertEqual((code, out, err), (0, "o\n", "e\n"))
        self.assertEqual((self.folder / "o.txt").read_text(), "42\nin it\n")

    def test_a_script_runs_first_with_its_arguments(self):
        (self.folder / "lib.q").write_text("#! elastick q\n\\d .lib\nf:{\n  x*2}\n\\d .\n\\l other.q\n")
        (self.folder / "other.q").write_text("/\nleft out\n\\\nb:.lib.f 21\n\\\nb:0\n")
        asked = ".z.f\n.z.x\nb\n\\P\n"
        code, out, _ = piped(asked, "lib.q", "one", "-P", "4", "-x", "2", directory=self.folder)
        self.assertEqual((code, out), (0, '`lib.q\n"one"\n"-x"\n,"2"\n42\n4i\n'))

    def test_an_error_in_a_script_names_file_and_line(self):
        (self.folder / "bad.q").write_text("a:1\n\nf:{x+`a}\nf 2\n")
        _, out = shown("a\n", "bad.q", directory=self.folder)
        first, place, caret, a = out.splitlines()
        self.assertEqual((first, a), ("'type (+ was given a long and a symbol)", "1"))
        self.assertTrue(place.endswith("bad.q:3: f:{x+`a}") and place.startswith("  [3]  /"), place)
        self.assertEqual(place[len(caret) - 1], "+")

    def test_an_error_of_a_replay_names_the_message(self):
        made = "L:`:log;L set();h:hopen L;h((`upd;`t;1 2);(`upd;`t;`a);(`upd;`t;3))\nhclose h;upd:{neg last y}\n"
        _, out = shown(made + "-11!L\n@[-11!;L;{x}]\n-11!(1;L)\n", directory=self.folder)
        lines = out.splitlines()
        self.assertEqual(lines[0][-1:], "i")
        self.assertIn("'type (neg was given a symbol; message 2 of the log: `upd`t`a)", lines)
        self.assertEqual(lines[-2:], ['"type"', "1"])

    def test_results_in_a_script_are_shown_on_one_line(self):
        (self.folder / "t.q").write_text("([]a:1 2)\n1+1\n")
        self.assertEqual(piped("", "t.q", directory=self.folder), (0, "+(,`a)!,1 2\n2\n", ""))


class AsAServer(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def serve(self, script, *arguments):
        (self.folder / "s.q").write_text(script + '\n`:port 0: enlist string system"p";\n')
        server = subprocess.Popen([binary(), "q", "s.q", "-p", "0W", *arguments], cwd=self.folder,
                                  stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.STDOUT)
        self.addCleanup(server.wait)
        self.addCleanup(server.kill)
        written = self.folder / "port"
        return int(eventually(lambda: written.exists() and written.read_text().strip(), "the server's port"))

    def client(self, port, user="ann", password=""):
        client = Connection(port, f"{user}:{password}")
        self.addCleanup(client.close)
        return client

    def test_clients_are_answered_through_the_handlers(self):
        port = self.serve(".z.pg:{$[10h=type x;value x;`refused]};.z.po:{who::.z.u}")
        client = self.client(port)
        self.assertEqual(client.ask(chars("1+1")).v, 2)
        self.assertEqual(client.ask(chars("who")).v, "ann")

    def test_clients_reach_no_files_unless_they_are_trusted(self):
        with self.assertRaisesRegex(KdbError, "access"):
            self.client(self.serve("")).ask(chars('system"ls"'))
        self.folder.joinpath("port").unlink()
        self.assertTrue(self.client(self.serve("", "-u", "0")).ask(chars('count system"ls"')).v > 0)

    def test_users_of_kdbs_file_are_trusted_as_in_kdb_and_others_are_not(self):
        (self.folder / "users").write_text("ann:secret\n")
        (self.folder / "users.toml").write_text('[users.ann]\npassword = "secret"\nroles = ["query"]\n')
        for options in (("-U", "users"), ("-u", "users"), ("-U", "users", "-u", "1"), ("-u", "1", "-U", "users"), ("-U", "users.toml")):
            with self.subTest(options):
                (self.folder / "port").unlink(missing_ok=True)
                client = self.client(self.serve("", *options), password="secret")
                self.assertEqual(client.ask(chars("1+1")).v, 2)
                if options == ("-U", "users"):
                    self.assertTrue(client.ask(chars('count system"ls"')).v > 0)
                else:
                    with self.assertRaisesRegex(KdbError, "access"):
                        client.ask(chars('system"ls"'))

    def test_clients_may_be_kept_from_assigning(self):
        client = self.client(self.serve("a:1", "-b"))
        self.assertEqual(client.ask(chars("a")).v, 1)
        with self.assertRaisesRegex(KdbError, "noupdate"):
            client.ask(chars("a:2"))

    def test_another_session_sends_async_and_is_called_back(self):
        port = self.serve("upd:{neg[.z.w](`got;x*2)}")
        asked = f"got:{{0N!(`got;x);exit 0}}\nh:hopen {port}\nneg[h](`upd;21)\n"
        code, out, _ = piped(asked)
        self.assertEqual((code, out), (0, "(`got;42)\n"))

    def test_a_remote_console_types_into_it(self):
        port = self.serve("f:{x+1}")
        answer = shown("f 1\nf`a\n\\c\n", f"127.0.0.1:{port}")
        self.assertEqual(answer, (0, "2\n'type (+ was given a symbol and a long)\n  [1]  f:{x+1}\n           ^\n25 2000i\n"))


class ConnectedToAProcess(unittest.TestCase):
    """A console at a terminal, connected to a session that serves clients."""

    serve = AsAServer.serve
    client = AsAServer.client

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def console(self, port):
        places = {"HOME": str(self.folder), "XDG_STATE_HOME": ""}
        terminal = Terminal(["q", f"127.0.0.1:{port}:ann:x"], environment=places)
        self.addCleanup(terminal.close)
        self.prompt = f"127.0.0.1:{port}>"
        terminal.wait_for(self.prompt)
        return terminal

    def answer(self, terminal, line, expected):
        terminal.type(line + "\r")
        terminal.wait_for("\n" + expected + "\n")
        terminal.wait_for(self.prompt)

    def running(self):
        """A query that never ends, and a wait until it runs."""
        mark = self.folder / "running"
        return "`:running 0:enlist\"xx\";while[1b;]", lambda: eventually(mark.exists, "the query")

    def test_ctrl_c_stops_the_query_there_and_the_session_goes_on(self):
        port = self.serve("n:0", "-u", "0")
        console, other = self.console(port), self.client(port)
        self.answer(console, "n:41;n", "41")
        forever, runs = self.running()
        console.type(forever + "\r")
        runs()
        console.interrupt()
        console.wait_for("'stop\n")
        console.wait_for(self.prompt)
        self.assertEqual(other.ask(chars("n+1")).v, 42)
        self.answer(console, "n+2", "43")
        self.answer(console, "1+`a", "'type (+ was given a long and a symbol)")

    def test_tab_completes_names_of_the_process(self):
        port = self.serve("prices:([]averylongcolumn:1 2);averylongfunction:{x+1}")
        console = self.console(port)
        self.answer(console, before_the_end("exec sum averylongc", " from prices"), "3")
        self.answer(console, "averylongf\t 1", "2")
        # A table that is new since: an error makes the console ask again.
        self.answer(console, "newprices:([]anewcolumn:4 5);1+`a", "'type (+ was given a long and a symbol)")
        self.answer(console, before_the_end("exec sum anewc", " from newprices"), "9")

    def test_a_process_that_does_not_tell_its_names_is_asked_once(self):
        port = self.serve("n:0;.z.pg:{n+:1;$[x like\"*tables*\";'`access;value x]}")
        console = self.console(port)
        self.answer(console, "n", "2")
        self.answer(console, "1+`a", "'type (+ was given a long and a symbol)")
        self.answer(console, "n", "4")

    def test_pasted_lines_after_the_one_that_was_stopped_do_not_run(self):
        port = self.serve("n:0", "-u", "0")
        console = self.console(port)
        forever, runs = self.running()
        console.type(f"\x1b[200~n:1\n{forever}\nn:2\x1b[201~\r")
        runs()
        console.interrupt()
        console.wait_for("'stop\n")
        console.wait_for(self.prompt)
        self.answer(console, "n", "1")

    def test_a_second_ctrl_c_ends_the_console(self):
        # A process that accepts the login and never answers a line.
        silent = socket.create_server(("127.0.0.1", 0))
        self.addCleanup(silent.close)
        accepted, asked = [], threading.Event()

        def accept():
            for number in range(2):
                peer, _ = silent.accept()
                accepted.append(peer)
                peer.recv(1000)
                if number == 0:
                    peer.send(b"\x03")
                    peer.recv(1000)
                    # An error: it does not tell its names.
                    peer.send(b"\x01\x02\x00\x00" + (12).to_bytes(4, "little") + b"\x80no\x00")
                    peer.recv(1000)
                    asked.set()

        listening = threading.Thread(target=accept, daemon=True)
        listening.start()
        self.addCleanup(lambda: [peer.close() for peer in accepted])
        console = self.console(silent.getsockname()[1])
        console.type("1+1\r")
        self.assertTrue(asked.wait(60))
        console.interrupt()
        # It logs in again, in vain.
        eventually(lambda: len(accepted) == 2, "the second connection")
        console.interrupt()
        self.assertEqual(console.ended(), 130)


if __name__ == "__main__":
    unittest.main()
