"""Runs in a guest kernel under systemd: one server without AWS. Every command of its operator's page, in order, from the installation of the
package to its removal, with checks in between."""

import pathlib
import re
import sys

sys.path.insert(0, "/root/guest")
from steps import active, ask, drop_in, eventually, main, sh, show

NOT_TRIED = "# not tried here"
TICK, FLEET = "elastick-server-tick.service", "elastick-server-fleet.service"
LOGS = pathlib.Path("/var/lib/elastick/log")
CONFIG = pathlib.Path("/etc/elastick/elastick.toml")
# The page's commands run in this folder, which has the package that its reader has downloaded.
DOWNLOADS = pathlib.Path("/root/guest/downloads")
NEXT = pathlib.Path("/root/guest/next")
# Longer than a page, so that it needs room on the disk.
NEWS = "(.u.upd)[`news;(enlist `a;enlist 5000#\"x\")]"
OPERATOR = ":ops:a third long password"


def commands():
    """The page's shell blocks that are tried, with their headings."""
    page = pathlib.Path("/root/guest/README.md").read_text()
    for part in re.split(r"(?m)^## ", page)[1:]:
        title = part.splitlines()[0]
        for block in re.finditer(r"(?ms)^```sh\n(.*?)^```", part):
            tried, _, _ = block[1].partition(NOT_TRIED)
            if tried.strip():
                yield title, tried


def run(script):
    """A step that runs a block and returns its last line, without those of the shell's trace."""
    path = pathlib.Path("/root/guest/block")

    def step(_):
        path.write_text(script)
        lines = [line for line in sh(f"cd {DOWNLOADS} && bash -eux -o pipefail {path}").splitlines() if not line.startswith("+")]
        return (lines or [""])[-1]

    return step


def rows(port, table, login=""):
    return sh(f"echo 'count {table}' | /usr/bin/elastick q 'localhost:{port}{login}'", check=False)


def rows_of(text):
    """What the live node answers, or the error."""
    return sh(f"echo '{text}' | /usr/bin/elastick q localhost:{live_port()}", check=False)


def live_port():
    return ask(5010, "exec first port from .u.asg.tab where state=`live").rstrip("i")


def the_package_has_made_its_account_and_starts_nothing(_):
    assert sh(f"stat -c '%a %U' {LOGS}") == "750 elastick", sh(f"stat {LOGS}")
    for unit in (TICK, FLEET):
        now = show(unit, "LoadState", "ActiveState", "UnitFileState")
        assert now == {"LoadState": "loaded", "ActiveState": "inactive", "UnitFileState": "disabled"}, now
    return sh("dpkg-query --show elastick")


def the_node_has_the_row(_):
    eventually(lambda: rows(5011, "trade") == "1", "the node has the row")
    return sh("systemctl show -P StatusText elastick-server-tick.service")


def they_cannot_do_what_they_need_not(_):
    for unit in (TICK, FLEET):
        pid = show(unit, "MainPID")["MainPID"]
        status = pathlib.Path(f"/proc/{pid}/status").read_text()
        fields = dict(line.split(":\t", 1) for line in status.splitlines() if ":\t" in line)
        assert fields["NoNewPrivs"] == "1" and fields["CapEff"].strip("0") == "" and fields["Seccomp"] == "2", status
        assert sh(f"stat -c %U /proc/{pid}") == "elastick"
    return sh(f"stat -c '%a %U' {LOGS}")


def a_node_that_dies_is_replaced_with_its_rows(_):
    # The last column of the first instance is its process.
    before = sh("elastick fleet status").splitlines()[2].split()[-1]
    sh(f"kill -KILL {before}")
    eventually(lambda: before not in sh("elastick fleet status").split(), "the supervisor notices")
    eventually(lambda: rows(live_port(), "trade") == "1", "the row is back")
    return sh("elastick fleet status").splitlines()[0]


def a_hung_tickerplant_is_replaced(_):
    before = show(TICK, "MainPID")["MainPID"]
    sh(f"kill -STOP {before}")

    def replaced():
        now = show(TICK, "MainPID", "ActiveState")
        return now["ActiveState"] == "active" and now["MainPID"] not in (before, "0")

    eventually(replaced, "another process")
    assert "watchdog" in sh(f"journalctl -b -u {TICK} --no-pager").lower()
    return ask(5010, ".u.i")


def the_zone_of_the_unit_is_the_one_of_the_updates(_):
    seen = ask(5010, ".z.P-.z.p")
    assert seen.startswith("0D01") or seen.startswith("0D02"), seen
    return seen


def nodes_come_back_after_a_weekend(_):
    active(FLEET)
    return eventually(lambda: "live" in ask(5010, "select state from .u.asg.tab") and "live", "a node is live")


def nodes_have_the_new_table_and_the_new_column(_):
    eventually(lambda: rows(live_port(), "news") == "1", "the node has the new table")
    eventually(lambda: "venue" in rows_of("cols trade"), "the node has the new column")
    return rows_of("cols trade")


def a_full_disk_is_named_and_left_behind(_):
    logged = ask(5010, ".u.i")
    sh(f"dd if=/dev/zero of={LOGS}/ballast bs=64k", check=False)
    eventually(lambda: "io" in sh(f"echo '{NEWS}' | elastick q :5010", check=False), "publishers get io")
    unwell = sh("curl --silent http://localhost:5010/health", check=False)
    assert "No space" in unwell or "full" in unwell, unwell
    sh(f"rm {LOGS}/ballast")
    eventually(lambda: "io" not in sh(f"echo '{NEWS}' | elastick q :5010", check=False), "updates are accepted again")
    assert int(ask(5010, ".u.i")) > int(logged), f"{ask(5010, '.u.i')} after {logged}"
    return f"{unwell}; {ask(5010, '.u.i')} updates"


def a_wrong_line_is_named_and_not_tried_for_ever(_):
    good = CONFIG.read_text()
    CONFIG.write_text(good.replace("[rdb]", "[rdb]\nmemroy = 1", 1))
    sh(f"systemctl restart {TICK}", check=False)
    assert sh(f"systemctl is-failed {TICK}", check=False) == "failed"
    said = [line for line in sh(f"journalctl -b -u {TICK} --no-pager -o cat").splitlines() if "memroy" in line]
    CONFIG.write_text(good)
    sh(f"systemctl start {TICK}")
    return said[-1]


def passwords_are_asked_for(_):
    refused = sh("echo .u.i | elastick q :5010", check=False)
    assert "access" in refused, refused
    return rows(5010, "trade", OPERATOR)


def the_next_version_is_downloaded(scene):
    scene["before"] = (CONFIG.read_text(), ask_as_operator(".u.i"), show(TICK, "MainPID"), sh("dpkg-query --show elastick"))
    for path in DOWNLOADS.iterdir():
        path.unlink()
    for path in NEXT.iterdir():
        path.rename(DOWNLOADS / path.name)
    return scene["before"][1] + " updates"


def the_upgrade_keeps_configuration_and_log(scene):
    config, logged, process, version = scene["before"]
    now = sh("dpkg-query --show elastick")
    assert now != version and show(TICK, "MainPID") != process, now
    settings = [line for line in config.splitlines() if line and not line.startswith("#")]
    kept = CONFIG.read_text().splitlines()
    assert [line for line in settings if line not in kept] == [], kept
    assert "A line of the next version" in pathlib.Path(f"{CONFIG}.dpkg-dist").read_text()
    eventually(lambda: ask_as_operator(".u.i") == logged, "the log goes on")
    eventually(lambda: "live" in ask_as_operator("exec state from .u.asg.tab"), "a node is live")
    return f"{version.split()[1]} to {now.split()[1]}, {logged} updates"


def ask_as_operator(text):
    return sh(f"echo '{text}' | /usr/bin/elastick q --login-file ~root/.elastick-login :5010", check=False)


def only_the_logs_stay(_):
    found = sh("dpkg-query --show --showformat '${db:Status-Status}' elastick", check=False)
    assert "not-installed" in found or "no packages found" in found, found
    assert not pathlib.Path("/usr/bin/elastick").exists() and not CONFIG.exists()
    logs = sorted(path.name for path in LOGS.glob("sym????.??.??"))
    assert logs, sh(f"ls {LOGS}")
    assert sh(f"stat -c %U {LOGS}") == "elastick"
    return ", ".join(logs)


def everything_is_over(_):
    for unit in (TICK, FLEET):
        now = show(unit, "ActiveState", "Result")
        assert now == {"ActiveState": "inactive", "Result": "success"}, now
    left = [path.parent.name for path in pathlib.Path("/proc").glob("[0-9]*/comm") if path.read_text().strip() == "elastick"]
    assert left == [], left
    return "no process is left"


# Before the first block of a section.
BEFORE = {"Upgrade": the_next_version_is_downloaded}
# Checks after the last block of a section.
AFTER = {
    "Install": [the_package_has_made_its_account_and_starts_nothing],
    "Start": [the_node_has_the_row, they_cannot_do_what_they_need_not, a_node_that_dies_is_replaced_with_its_rows,
              a_hung_tickerplant_is_replaced],
    "Time zone": [the_zone_of_the_unit_is_the_one_of_the_updates],
    "End of day, weekend": [nodes_come_back_after_a_weekend],
    "Add a table, add a column": [nodes_have_the_new_table_and_the_new_column],
    "Disk": [a_full_disk_is_named_and_left_behind, a_wrong_line_is_named_and_not_tried_for_ever],
    "Serve other machines": [passwords_are_asked_for],
    "Upgrade": [the_upgrade_keeps_configuration_and_log],
    "Stop, remove": [everything_is_over, only_the_logs_stay],
}


def steps():
    blocks = list(commands())
    assert {*BEFORE, *AFTER} <= {title for title, _ in blocks}, "a section of the page is gone"
    for at, (title, script) in enumerate(blocks):
        if title in BEFORE and title not in [earlier for earlier, _ in blocks[:at]]:
            yield BEFORE[title].__name__.replace("_", " "), BEFORE[title]
        yield f"{title}: {script.strip().splitlines()[0]}", run(script)
        if title not in [later for later, _ in blocks[at + 1 :]]:
            yield from ((check.__name__.replace("_", " "), check) for check in AFTER.get(title, []))


def prepare():
    # The root file system is the host's; sockets need a file system of the guest, and a disk that fills a small one.
    sh("mount -t tmpfs -o mode=1777 tmpfs /tmp; mkdir -p /var/lib/elastick; mount -t tmpfs -o size=64m tmpfs /var/lib/elastick")
    pathlib.Path("/etc/hosts").write_text("127.0.0.1 localhost\n")
    # Shorten the watchdog timeout: the test is about the effect, not the duration.
    drop_in("elastick-server-tick", "WatchdogSec=8")
    return {}


main(prepare, list(steps()))
