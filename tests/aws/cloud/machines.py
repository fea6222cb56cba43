"""The instances of the API server as processes of this machine, each with its own metadata service.

Acts as EC2: starts an instance's program once the instance runs, sends SIGTERM on termination, and SIGKILL after a
grace period. Acts as systemd: restarts a failed program.
"""

import datetime
import os
import signal
import subprocess
import threading
import time

from harness import pages
from harness.process import LISTENING

from . import imds

POLL_S = 0.05
# Restart delay of a failed program, shorter than in the units.
RESTART_S = 0.3


class Machine:
    """One instance. `program` returns command and environment for the booted machine."""

    def __init__(self, view, program, directory, grace_s):
        self.id = view["id"]
        self.view = view
        self.overrides = {}
        self.program = program
        self.grace_s = grace_s
        # Directory of its files.
        self.home = directory / f"{self.id}.d"
        self.output = (directory / f"{self.id}.out").open("ab")
        self.output_path = directory / f"{self.id}.out"
        self.metadata = imds.Metadata(self.shown)
        self.process = None
        self.ending = False
        self.started = 0
        self.exits = []
        self.printed_before = 0
        self.lock = threading.Lock()

    def shown(self):
        """The data for its metadata service; a test may change tags, because all machines share one host."""
        return {**self.view, "tags": {**self.view["tags"], **self.overrides}}

    @property
    def app(self):
        return self.view["tags"].get("APP", "")

    @property
    def group(self):
        return self.view["tags"].get("aws:autoscaling:groupName")

    def boot(self):
        with self.lock:
            if self.ending:
                return
            made = self.program(self)
            if made is None:
                return
            command, environment = made
            self.started += 1
            self.printed_before = len(self.printed())
            self.process = subprocess.Popen(
                [str(word) for word in command],
                stdin=subprocess.DEVNULL,
                stdout=self.output,
                stderr=subprocess.STDOUT,
                env=environment,
                start_new_session=True,
            )
        threading.Thread(target=self.watch, args=(self.process,), daemon=True).start()

    def watch(self, process):
        code = process.wait()
        self.exits.append(code)
        if code != 0 and not self.ending:
            time.sleep(RESTART_S)
            self.boot()

    def is_running(self):
        return self.process is not None and self.process.poll() is None

    def signal(self, number):
        """Sends a signal to the program and its children."""
        if self.is_running():
            try:
                os.killpg(self.process.pid, number)
            except ProcessLookupError:
                pass

    def kill(self):
        """kill -9 of elastick; the unit restarts it."""
        units = list(self.home.glob("elastick-[rt]*.service.pid"))
        if units:
            os.kill(int(units[0].read_text()), signal.SIGKILL)
        else:
            self.signal(signal.SIGKILL)

    def crash(self):
        """The whole instance dies: its program is not restarted."""
        self.ending = True
        self.kill_all()

    def kill_all(self):
        """kill -9 of all its processes; units are in separate sessions."""
        self.signal(signal.SIGKILL)
        for unit in self.home.glob("*.service.pid"):
            try:
                os.killpg(int(unit.read_text()), signal.SIGKILL)
            except (ProcessLookupError, ValueError):
                pass

    def shut_down(self):
        """EC2 terminates the instance."""
        self.ending = True

        def run():
            self.signal(signal.SIGTERM)
            try:
                if self.process is not None:
                    self.process.wait(self.grace_s)
            except subprocess.TimeoutExpired:
                self.kill_all()

        threading.Thread(target=run, daemon=True).start()

    @property
    def name(self):
        return self.id

    @property
    def port(self):
        """Port from the output of its latest program; None before it listens."""
        found = LISTENING.findall(self.printed()[self.printed_before :])
        return int(found[-1]) if found else None

    def metrics(self):
        """The metrics at its port: name with labels -> value."""
        return pages.metrics(self.port)

    def printed(self):
        return self.output_path.read_text("utf-8", "replace")

    def close(self):
        self.ending = True
        with self.lock:
            self.kill_all()
            if self.process is not None:
                self.process.wait()
        self.metadata.close()
        self.output.close()


class Machines:
    """Follows the API server: one machine for each running instance."""

    def __init__(self, api, directory, program, grace_s=5, dead_on_arrival=lambda view: False):
        self.api = api
        self.directory = directory
        self.program = program
        self.grace_s = grace_s
        # Instances that run but whose program never starts.
        self.dead_on_arrival = dead_on_arrival
        # Earlier instances belong to another test.
        self.strangers = {view["id"] for view in api.ask("instances")}
        self.machines = {}
        self.stopped = threading.Event()
        self.problem = None
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()

    def _run(self):
        while not self.stopped.is_set():
            try:
                self._look()
            except OSError as error:
                self.problem = error
            self.stopped.wait(POLL_S)

    def _look(self):
        for view in self.api.ask("instances"):
            if view["id"] in self.strangers:
                continue
            machine = self.machines.get(view["id"])
            if machine is not None:
                # The group's tag disappears when the group removes the instance; the instance's metadata keep it.
                view["tags"] = {**machine.view["tags"], **view["tags"]}
                view["role"] = view["role"] or machine.view["role"]
                view["target"] = view["target"] or machine.view["target"]
                machine.view = view
                if view["ec2"] in ("terminated", "shutting-down", "stopped") and not machine.ending:
                    machine.shut_down()
            elif view["ec2"] == "running":
                machine = Machine(view, self.program, self.directory, self.grace_s)
                self.machines[view["id"]] = machine
                if self.dead_on_arrival(view):
                    machine.ending = True
                else:
                    threading.Thread(target=machine.boot, daemon=True).start()

    def all(self, app=None, running=None):
        """Machines in launch order."""
        return [
            machine
            for machine in list(self.machines.values())
            if (app is None or machine.app == app) and (running is None or machine.is_running() == running)
        ]

    def spot_notice(self, machine, seconds=120):
        """Sends a spot interruption notice, and terminates the instance at the announced time."""
        machine.metadata.spot_at = imds.now() + datetime.timedelta(seconds=seconds)
        self.api.note("spot notice", instance=machine.id, seconds=seconds)

        def take():
            if not self.stopped.wait(seconds) and machine.view["ec2"] == "running":
                self.api.client("ec2").terminate_instances(InstanceIds=[machine.id])

        threading.Thread(target=take, daemon=True).start()

    def close(self):
        self.stopped.set()
        self.thread.join()
        for machine in self.machines.values():
            machine.close()
