"""Tickerplants with a log directory each, and one lease in a table that names the complete copies."""

from harness.client import KdbError
from harness.cluster import GONE
from harness.process import reserve_port
from harness.scene import trades, update

from .lease_scene import LeaseScene

LEASE_NS = 3_000_000_000
# How a publisher notices that a tickerplant is none of its own any more.
REFUSED = (*GONE, KdbError)


class CopiesScene(LeaseScene):
    """Each tickerplant has a directory of its own and follows whichever of the others is active."""

    count = 2

    def setUp(self):
        super().setUp()
        self.ports = [reserve_port() for _ in range(self.count)]
        self.starts = 0
        self.acknowledged = []

    def directory_of(self, number):
        return self.directory / f"copy{number}"

    def begin(self, number, *options, durability="replica(1)", lease=None):
        """Starts the tickerplant of a directory. It is passive until the lease is its own."""
        self.starts += 1
        port = self.ports[number]
        addresses = ",".join(f"127.0.0.1:{other}" for other in self.ports)
        arguments = ("--follow", addresses, "--durability", durability, "--replica-timeout", "1s", *options)
        place = self.directory_of(number)
        name = f"tick{number}-{self.starts}"
        own = f"127.0.0.1:{port}"
        return self.tick("--lease", lease or self.url(), "--advertise", own, *arguments, name=name, logs=place, port=own)

    def both(self, *options, durability="replica(1)"):
        """An active tickerplant and its complete follower."""
        one = self.begin(0, *options, durability=durability)
        self.is_active(0)
        two = self.begin(1, *options, durability=durability)
        self.named(0, 1)
        return one, two

    def is_active(self, number):
        self.eventually_equal(lambda: self.role(self.ports[number]), "active", f"tickerplant {number} is active")

    def says(self, number, words):
        """Waits until a passive tickerplant says why it cannot take over; `None` for nothing."""

        def is_said():
            try:
                trouble = self.state(self.ports[number])["trouble"]
            except GONE:
                return None
            return (trouble == "" if words is None else words in trouble) or None

        self.eventually(is_said, f"it says {words}")

    def passes_by(self, number):
        """A tickerplant stays passive although the lease has been over for long."""

        def is_long_over():
            state = self.state(self.ports[number])
            self.assertEqual(state["role"], "passive")
            return (state["renewed"] or 0) > 2 * LEASE_NS or None

        self.eventually(is_long_over, "the lease is over")

    def numbered_copies(self):
        """The copies that the lease names, each as its address and number."""
        item = self.item() or {}
        return sorted(item.get("copies", {}).get("SS", []))

    def copies(self):
        """Addresses of the copies that the lease names."""
        return [name.rpartition("/")[0] for name in self.numbered_copies()]

    def named(self, *numbers):
        """Waits until the lease names the copies of these tickerplants, and no others."""
        wanted = sorted(f"127.0.0.1:{self.ports[number]}" for number in numbers)
        self.eventually_equal(self.copies, wanted, "the lease names the complete copies")

    def named_under_another_number(self, before):
        """Waits until the lease names as many copies as before, one of them with another number."""

        def is_there():
            now = self.numbered_copies()
            return len(now) == len(before) and now != before

        self.eventually(is_there, "the lease names the new copy")

    def publish_to(self, number, count=20):
        """Publishes single rows, and keeps in mind those that were acknowledged."""
        with self.connect(self.ports[number]) as feed:
            for _ in range(count):
                self.seq += 1
                try:
                    feed.ask(update("trade", trades(self.seq, 1)))
                except REFUSED:
                    return
                self.acknowledged.append(self.seq)

    def rows(self, number):
        return self.logged(self.directory_of(number))

    def complete(self, number):
        """Everything acknowledged is in a log, once."""
        rows = self.rows(number)
        self.assertEqual(len(rows), len(set(rows)), "nothing is there twice")
        self.assertEqual(sorted(set(self.acknowledged) - set(rows)), [], "nothing is lost")
