"""A cluster whose nodes belong to a fleet group: `elastick fleet` launches, replaces and terminates them."""

import re

from . import kdb
from .client import KdbError
from .cluster import GONE, Cluster
from .process import binary


class Member:
    """A node as listed by the tickerplant, with its port."""

    def __init__(self, name, port):
        self.name = name
        self.port = port


class GroupCluster(Cluster):
    """A cluster that finds its nodes in `.u.asg.tab`; `nodes` stays empty."""

    def start_group(self, *node_options, least=1, most=8, options=()):
        node = (binary(), "rdb", f"127.0.0.1:{self.port}", "-p", "0", *node_options)
        bounds = ("-p", "127.0.0.1:0", "--group", "rdb", "--min", least, "--max", most, *options)
        self.fleet = self.start("fleet", "fleet", *bounds, "--", *node)
        self.fleet_port = int(self.fleet.wait_for(r"answers at port (\d+)").group(1))

    def running(self):
        table = self.ask(self.tp, "select node, port from .u.asg.tab where state<>`lost")
        if table is None:
            return []
        return [Member(name, port) for name, port in zip(table.v["node"].v, table.v["port"].v)]

    answering = running

    def call(self, name, *arguments):
        """Calls a function of the supervisor."""
        connection = self.connect(self.fleet_port)
        return connection.ask(kdb.lst(kdb.sym(f".fleet.{name}"), *arguments))

    def instance(self, number):
        """Name of an instance, once it has been started."""
        return self.fleet.wait_for(rf"(rdb-[0-9a-f]+-{number}) started as process").group(1)

    def description(self):
        d = self.call("describe", kdb.sym("rdb"))
        return dict(zip(d.v[0].v, d.v[1].v)) if isinstance(d.v, tuple) else d.v

    def launched(self):
        """Number of instances that the group has launched so far."""
        return len(re.findall(r"started as process", self.fleet.printed()))
