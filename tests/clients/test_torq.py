"""TorQ with its finance starter pack on `elastick q`: processes find each other, the feed is published, checked and summed, the gateway answers, and
the end of the day is written and loaded."""

import pathlib
import shutil
import unittest

from harness import kdb
from harness.client import KdbError
from harness.process import DEADLINE_S, reserve_port
from harness.scene import Scene
from harness.torq import DATA_FOLDERS, PACK, PROGRAMS, environment, write_zones

# Name: type, script (of TorQ's code, the pack's, or a database), options. In the order of the start.
PROCESSES = {
    "discovery1": ("discovery", "{code}/processes/discovery.q", ""),
    "stp1": ("segmentedtickerplant", "{code}/processes/segmentedtickerplant.q", "-schemafile {app}/database.q -tplogdir {data}/tplogs"),
    "rdb1": ("rdb", "{code}/processes/rdb.q", "-g 1"),
    "hdb1": ("hdb", "{data}/hdb", "-g 1"),
    "wdb1": ("wdb", "{code}/processes/wdb.q", "-g 1"),
    "sort1": ("sort", "{code}/processes/wdb.q", "-g 1 -parentproctype wdb"),
    "gateway1": ("gateway", "{code}/processes/gateway.q", "-g 1"),
    "monitor1": ("monitor", "{code}/processes/monitor.q", ""),
    "feed1": ("feed", "{app}/code/tick/feed.q", ""),
    "metrics1": ("metrics", "{app}/code/processes/metrics.q", "-g 1"),
    "sctp1": ("segmentedchainedtickerplant", "{code}/processes/segmentedtickerplant.q", "-parentproctype segmentedtickerplant"),
}
START_S = 2 * DEADLINE_S


@unittest.skipUnless(PACK.exists(), f"{PACK} is missing")
class StarterPack(Scene):
    def setUp(self):
        super().setUp()
        self.home = pathlib.Path(self.directory) / "torq"
        self.paths = {"code": self.home / "code", "app": self.home / "app", "data": self.home / "data"}
        shutil.copytree(PROGRAMS / "torq", self.home)
        shutil.copytree(PACK, self.paths["app"])
        for folder in DATA_FOLDERS:
            (self.paths["data"] / folder).mkdir(parents=True)
        self.ports = {name: reserve_port() for name in PROCESSES}
        self.write_processes(PROCESSES)
        write_zones(self.home)

    def write_processes(self, names):
        rows = [f"localhost,{self.ports[name]},{PROCESSES[name][0]},{name},,1,0,,,,1,,q" for name in names]
        header = "host,port,proctype,procname,U,localtime,g,T,w,load,startwithall,extras,qcmd"
        (self.paths["app"] / "appconfig" / "process.csv").write_text("\n".join([header, *rows, ""]))

    def launch(self, name, *more):
        kind, script, options = PROCESSES[name]
        app, data = self.paths["app"], self.paths["data"]
        arguments = ["q", self.home / "torq.q", "-procname", name, "-proctype", kind, "-stackid", self.ports["stp1"], "-localtime", 1]
        arguments += ["-load", script.format(**self.paths), *options.format(**self.paths).split(), "-p", self.ports[name], "-U", app / "appconfig" / "passwords" / "accesslist.txt", *more]
        self.start(name, *arguments, **environment(self.home, app, data, self.ports["stp1"]))

    def read(self, name, text):
        """Evaluates text in a process; `None` while it cannot be reached or signals an error."""
        try:
            return self.connect(self.ports[name], user="admin:admin").ask(kdb.chars(text)).py()
        except (OSError, KdbError):
            return None

    def until(self, name, text, what):
        return self.eventually(lambda: self.read(name, text), what, START_S)

    def ask_gateway(self, servers):
        query = f'.gw.syncexec["select count i by sym from trade";{servers}]'
        self.eventually(lambda: "IBM" in repr(self.read("gateway1", query)), f"the gateway asks {servers}", START_S)

    def test_a_day_of_the_starter_pack(self):
        for name in PROCESSES:
            self.launch(name)
            self.until(name, "1b", f"{name} listens")
        self.until("stp1", "min 0<.stplg.rowcount`trade`quote", "the tickerplant has published and counted")
        self.until("rdb1", "min 0<count each(trade;quote)", "the rdb is fed")
        self.until("metrics1", "(0<count sumstab)and 0<count metrics`", "metrics are summed")
        self.until("monitor1", "0<exec count i from checkstatus where status=1h", "checks of the monitor pass")
        self.ask_gateway("`rdb")
        self.read("stp1", ".stplg.endofday[.eodtime.d;.stplg.endofdaydata[],(enlist`p)!enlist .z.p]")
        self.until("hdb1", "0<exec count i from trade where date=last date", "the hdb has loaded the day")
        self.ask_gateway("`hdb`rdb")
        for name in ("stp1", "feed1", "metrics1", "monitor1", "wdb1", "sort1"):
            errors = (self.paths["data"] / "logs" / f"err_{name}.log").read_text()
            self.assertEqual(errors, "", f"{name} logs no errors")

    def test_elastick_in_the_places_of_its_tickerplant_and_rdb(self):
        around = ("discovery1", "hdb1", "wdb1", "sort1", "gateway1", "feed1", "monitor1", "sctp1")
        self.write_processes(around)
        # TorQ's way to name processes that do not run TorQ.
        rows = [f"localhost,{self.ports[name]},{PROCESSES[name][0]},{name}" for name in ("stp1", "rdb1")]
        others = self.paths["app"] / "appconfig" / "nontorqprocess.csv"
        others.write_text("\n".join(["host,port,proctype,procname", *rows, ""]))
        tickerplant = f":{self.ports['stp1']}"
        self.start("stp1", "tick", "database", self.paths["data"] / "tplogs", "-p", self.ports["stp1"], "--schemas", self.paths["app"])
        self.until("stp1", "1b", "the tickerplant listens")
        self.start("rdb1", "rdb", tickerplant, "-p", self.ports["rdb1"])
        # The monitor ends if a process that it connects to publishes no heartbeats.
        options = {"monitor1": ("-.servers.CONNECTIONS", "discovery", "hdb", "wdb", "sort", "gateway", "feed")}
        for name in around:
            self.launch(name, "-.servers.TRACKNONTORQPROCESS", 1, *options.get(name, ()))
            self.until(name, "1b", f"{name} listens")
        self.until("rdb1", "min 0<(count trade;count quote)", "the node is fed")
        self.until("wdb1", "min 0<count each(trade;quote)", "TorQ's writer is fed")
        self.until("sctp1", "min 0<.stplg.rowcount`trade`quote", "TorQ's chained tickerplant is fed")
        self.until("monitor1", "all`hdb1`wdb1`sort1`gateway1`feed1 in exec procname from .hb.hb", "the monitor has heartbeats")
        self.ask_gateway("`rdb")
        self.read("stp1", ".u.endofday[]")
        self.until("hdb1", "0<exec count i from trade where date=last date", "the hdb has loaded the day")
        self.ask_gateway("`hdb`rdb")


if __name__ == "__main__":
    unittest.main()
