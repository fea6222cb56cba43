"""Limits on client expressions, for every kind of process that evaluates them."""

from harness import kdb, wire
from harness.client import Connection

from .limits import USERS, over


class Evaluations:
    script = ".z.pw:{[u;p]while[u=`slow;];1b}\n"

    @over("limit-query-time", "1s")
    def test_a_query_too_long(self):
        with self.refused():
            h, other = self.connect(self.target), self.connect(self.target)
            h.raw(wire.message("while[1b;]"))
            self.assertEqual(other.ask("1+1").v, 2)
            self.assertRegex(self.told(h), "^stop")
            self.assertEqual(h.ask("1+1").v, 2)

    @over("limit-query-memory", "8MiB")
    def test_a_query_too_large(self):
        with self.refused():
            h = self.connect(self.target)
            self.assertRegex(h.error_of("sum til 10000000"), "^wsfull")
            self.assertEqual(h.ask("sum til 1000").v, 499500)

    @over("limit-handler-time", "500ms")
    def test_a_handler_too_long(self):
        with self.refused():
            with self.assertRaises(ConnectionError):
                Connection(self.target.port, user="slow:x")
            self.assertEqual(self.connect(self.target, user="quick:x").ask("1+1").v, 2)

    @over("limit-symbols", "8000")
    def test_symbols_of_a_client_too_many(self):
        """Clients may fill a part of the table, which leaves room for what the process is there for; and names in source text
        find room in a full one."""
        with self.refused():
            h = self.connect(self.target)
            self.assertRegex(h.error_of("count `$string til 10000"), "^limit")
            mixed = kdb.lst(*(kdb.sym(f"n{i}") for i in range(4000)), kdb.NIL)
            for new in (kdb.syms(*(f"s{i}" for i in range(4000))), mixed):
                self.assertRegex(h.error_of(kdb.lst(kdb.chars("{count x}"), new)), "^limit")
            self.assertEqual(h.ask("{[never;seen]never+seen}[1;2]").v, 3)

    @over("limit-client-symbols", "1000")
    def test_symbols_of_all_clients_too_many(self):
        with self.refused():
            h = self.connect(self.target)
            self.assertEqual(h.ask("count `$string til 500").v, 500)
            self.assertRegex(h.error_of("count `$string til 5000"), "^limit")
            self.assertRegex(h.error_of("count `$100000#\"a\""), "^limit")
            self.assertEqual(h.ask("{[never;seen]never+seen}[1;2]").v, 3)

    @over("limit-user-globals", "64KiB", "-U", USERS)
    def test_globals_of_a_user_too_large(self):
        with self.refused():
            h, other = self.connect(self.target, user="part:"), self.connect(self.target, user="piece:")
            h.ask("a:til 5000")
            self.assertRegex(h.error_of("b:til 5000"), "^wsfull")
            other.ask("a:til 5000")
            h.ask("a:1")
            h.ask("b:til 5000")
            self.assertEqual(h.ask("count b").v, 5000)

    @over("limit-query-symbols", "1000")
    def test_symbols_of_a_query_too_many(self):
        with self.refused():
            h = self.connect(self.target)
            self.assertRegex(h.error_of("count 2000?`8"), "^limit")
            self.assertEqual(h.ask("count 500?`8").v, 500)

    @over("limit-symbol-bytes", "64KiB")
    def test_bytes_of_symbols_too_many(self):
        with self.refused():
            h = self.connect(self.target)
            self.assertRegex(h.error_of("count `$40000#/:.Q.a"), "^limit")
            self.assertEqual(h.ask("1+1").v, 2)
