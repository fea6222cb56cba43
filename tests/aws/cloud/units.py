"""A minimal systemd for elastick's units, so that user data, boot script and units run as shipped.

    python -m aws.cloud.units DIRECTORY

DIRECTORY holds `user-data` and `units/`; the instance's commands (`bin/`) come first in PATH. Supports only what the units use:
EnvironmentFile, ExecStart, ExecStop, Restart and its exit codes, readiness notification, Wants and BindsTo between
units, LoadCredential and Environment of a drop-in. It ignores sandboxing, accounts and limits, and has shorter restart delays.
"""

import configparser
import os
import pathlib
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time

RESTART_S = 0.3
STOP_S = 8


def say(text):
    print(f"systemd: {text}", flush=True)


class Unit:
    def __init__(self, name, machine):
        self.name = name
        self.machine = machine
        self.parsed = configparser.ConfigParser(strict=False, interpolation=None, delimiters=("=",))
        self.parsed.optionxform = str
        self.parsed.read(machine.directory / "units" / name)
        self.process = None
        self.stopping = False

    def get(self, section, key, default=""):
        return self.parsed.get(section, key, fallback=default)

    def credentials(self):
        """Environment from drop-ins, which names the copies of the unit's credentials."""
        folder = self.machine.directory / "credentials" / self.name
        found = {}
        for path in (self.machine.directory / "units-made" / f"{self.name}.d").glob("*.conf"):
            for key, _, value in (line.partition("=") for line in path.read_text().splitlines()):
                if key == "LoadCredential":
                    name, _, source = value.partition(":")
                    folder.mkdir(parents=True, exist_ok=True)
                    (folder / name).unlink(missing_ok=True)
                    shutil.copy(source, folder / name)
                elif key == "Environment":
                    name, _, text = value.partition("=")
                    found[name] = text.replace("%d", str(folder))
        return found

    def environment(self):
        found = {**os.environ, **self.credentials()}
        path = self.get("Service", "EnvironmentFile")
        if path:
            for line in self.machine.at(path).read_text().splitlines():
                if line and not line.startswith("#"):
                    key, _, value = line.partition("=")
                    found[key] = "".join(shlex.split(value))
        return found

    def command(self, key, environment):
        """A command line as systemd reads it: `$NAME` alone is split into words, paths are this machine's."""
        words = []
        for word in shlex.split(self.get("Service", key)):
            words += environment.get(word[1:], "").split() if word.startswith("$") else [word]
        return [str(self.machine.program(words[0])), *words[1:]]

    def run(self):
        restart = self.get("Service", "Restart", "no")
        final = {int(code) for code in self.get("Service", "RestartPreventExitStatus").split()}
        while not self.stopping:
            code = self.once()
            if self.stopping or code in final or restart == "no" or (restart == "on-failure" and code == 0):
                break
            time.sleep(RESTART_S)
        if not self.stopping:
            say(f"{self.name} has ended")

    def once(self):
        environment = self.environment()
        ready = None
        if self.get("Service", "Type") == "notify":
            ready = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
            ready.bind(f"\0elastick-{os.getpid()}-{self.name}-{time.monotonic_ns()}")
            environment["NOTIFY_SOCKET"] = "@" + ready.getsockname()[1:].decode()
            threading.Thread(target=self.listen, args=(ready,), daemon=True).start()
        say(f"starting {self.name}")
        self.process = subprocess.Popen(self.command("ExecStart", environment), env=environment, start_new_session=True)
        (self.machine.directory / f"{self.name}.pid").write_text(str(self.process.pid))
        code = self.process.wait()
        say(f"{self.name} ended with {code}")
        if ready is not None:
            ready.close()
        return code

    def listen(self, ready):
        try:
            while True:
                message = ready.recv(4096).decode()
                if "READY=1" in message.splitlines():
                    say(f"{self.name} is ready")
                    for wanted in self.get("Unit", "Wants").split():
                        if (self.machine.directory / "units" / wanted).exists():
                            self.machine.start(wanted)
        except OSError:
            return

    def stop(self):
        self.stopping = True
        if self.get("Service", "ExecStop"):
            environment = self.environment()
            subprocess.run(self.command("ExecStop", environment), env=environment, timeout=STOP_S, check=False)
        if self.process is not None and self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(STOP_S)
            except subprocess.TimeoutExpired:
                os.killpg(self.process.pid, signal.SIGKILL)


class Machine:
    def __init__(self, directory):
        self.directory = directory
        self.units = {}
        self.lock = threading.Lock()

    def at(self, path):
        """A path of the image, on this machine."""
        return self.directory / path.lstrip("/")

    def program(self, path):
        return self.directory / "bin" / pathlib.Path(path).name

    def start(self, name):
        with self.lock:
            if name not in self.units:
                self.units[name] = Unit(name, self)
                threading.Thread(target=self.units[name].run, daemon=True).start()

    def stop(self, *_):
        # A unit that is bound to another one stops before it.
        for unit in sorted(self.units.values(), key=lambda unit: not unit.get("Unit", "BindsTo")):
            unit.stop()
        os._exit(0)

    def run(self):
        signal.signal(signal.SIGTERM, self.stop)
        wanted = self.directory / "wanted"
        wanted.touch()
        subprocess.Popen(["bash", str(self.directory / "user-data")])
        done = 0
        while True:
            names = wanted.read_text().splitlines()
            for name in names[done:]:
                self.start(name)
            done = len(names)
            time.sleep(0.05)


if __name__ == "__main__":
    Machine(pathlib.Path(sys.argv[1])).run()
