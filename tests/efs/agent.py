"""Agent in a guest: serves the tests' requests over TCP, one request per connection, as JSON lines.

Standard library only, so that the host's Python can run it in the guest.
"""

import json
import os
import signal
import socketserver
import subprocess
import sys

started = {}


def run(command, deadline_s=120):
    """Runs a shell command. Returns (exit code, output)."""
    try:
        done = subprocess.run(command, shell=True, capture_output=True, timeout=deadline_s, stdin=subprocess.DEVNULL)
    except subprocess.TimeoutExpired:
        return [None, f"not within {deadline_s} s"]
    return [done.returncode, (done.stdout + done.stderr).decode("utf-8", "replace")]


def start(arguments, output, environment=None):
    """Starts a background process with its output in a file. Returns its number."""
    with open(output, "ab") as file:
        child = subprocess.Popen(
            arguments,
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=subprocess.STDOUT,
            env={**os.environ, **(environment or {})},
            cwd="/",
        )
    started[child.pid] = child
    return child.pid


def kill(pid, number=signal.SIGKILL):
    child = started.get(pid)
    if child is not None and child.poll() is None:
        child.send_signal(number)


def poll(pid):
    """Exit code; None while it runs."""
    return started[pid].poll()


class Handler(socketserver.StreamRequestHandler):
    def handle(self):
        name, arguments = json.loads(self.rfile.readline())
        try:
            answer = {"value": {"run": run, "start": start, "kill": kill, "poll": poll}[name](**arguments)}
        except Exception as error:
            answer = {"error": f"{type(error).__name__}: {error}"}
        self.wfile.write(json.dumps(answer).encode() + b"\n")


class Server(socketserver.ThreadingTCPServer):
    allow_reuse_address = True
    daemon_threads = True


if __name__ == "__main__":
    with Server(("0.0.0.0", int(sys.argv[1])), Handler) as server:
        server.serve_forever()
