"""What the boot programs of the guest kernels share: commands, waiting, and steps that print `ok` with the seconds that they took, or `FAILED`."""

import pathlib
import subprocess
import time
import traceback

DEADLINE_S = 240


def sh(command, check=True):
    done = subprocess.run(command, shell=True, capture_output=True, text=True)
    if check and done.returncode:
        raise AssertionError(f"{command}: exit {done.returncode}\n{done.stdout}{done.stderr}")
    return (done.stdout + done.stderr).strip()


def eventually(check, what):
    end = time.monotonic() + DEADLINE_S
    while time.monotonic() < end:
        seen = check()
        if seen:
            return seen
        time.sleep(0.3)
    raise AssertionError(f"not within {DEADLINE_S} s: {what}")


def show(unit, *names):
    out = sh(f"systemctl show {unit} " + " ".join(f"--property={name}" for name in names))
    return dict(line.split("=", 1) for line in out.splitlines())


def active(unit):
    return eventually(lambda: sh(f"systemctl is-active {unit}", check=False) == "active", f"{unit} is active")


def ask(port, text):
    return sh(f"printf '%s\\n' '{text}' | /usr/bin/elastick q localhost:{port}")


def drop_in(unit, lines):
    """Changes a unit until the next boot."""
    folder = pathlib.Path(f"/run/systemd/system/{unit}.service.d")
    folder.mkdir(parents=True)
    (folder / "test.conf").write_text(f"[Service]\n{lines}\n")


def main(prepare, steps):
    """Runs the steps, each with what `prepare` returns; prints the journal, and powers off."""
    try:
        sh("ip link set lo up")
        scene = prepare()
        sh("systemctl daemon-reload")
        for name, step in steps:
            began = time.monotonic()
            try:
                seen = step(scene)
                print(f"ok {time.monotonic() - began:5.1f} s  {name}: {seen}", flush=True)
            except Exception:
                print(f"FAILED  {name}\n{traceback.format_exc()}", flush=True)
                break
        else:
            print("all steps are done", flush=True)
    except Exception:
        traceback.print_exc()
    finally:
        print(sh("journalctl -b --no-pager -u 'elastick-*' -o short-monotonic", check=False), flush=True)
        subprocess.run(["systemctl", "poweroff", "--force", "--force"])
