"""Runs in a guest kernel under systemd: the lifecycle of an instance, from its tags to the watchdog. Prints `ok` or `FAILED` for
each step, and the journal at the end; powers off."""

import os
import pathlib
import sys

sys.path.insert(0, "/root/guest")
from metadata import Metadata
from steps import active, ask, drop_in, eventually, main, sh, show

FILE_SYSTEM = "fs-0123456789abcdef0"
TAGS = {
    "APP": "tick-asg",
    "EFS": FILE_SYSTEM,
    "EFSPLAIN": "yes",
    "TICKERPLANT": "localhost",
    "CLUSTERSECRET": "arn:aws:secretsmanager:eu-west-1:123456789012:secret:cluster-AbCdEf",
    "USERSSECRET": "",
    "ELASTICK_OPEN": "true",
    "ELASTICK_PORT": "5010",
    "ELASTICK_OPTIONS": "--durability os --limit-connections 100",
}


SECRET = "in-no-environment-and-no-journal"


def file_system():
    """Serves NFS 4.1 from this kernel to itself, in place of EFS."""
    # The root file system is the host's; a socket needs a file system of the guest.
    sh("mount -t tmpfs -o mode=1777 tmpfs /tmp")
    sh("modprobe nfsd; modprobe nfsv4; mkdir -p /export /etc/elastick; mount -t tmpfs tmpfs /export; mkdir /export/log")
    sh("chown 5010:5010 /export/log; mount -t nfsd nfsd /proc/fs/nfsd")
    sh("exportfs -i -o rw,no_root_squash,insecure,fsid=0,no_subtree_check '127.0.0.1:/export'; mkdir -p /var/lib/nfs/v4recovery")
    sh("echo 1 >/proc/fs/nfsd/nfsv4gracetime; echo 1 >/proc/fs/nfsd/nfsv4leasetime", check=False)
    sh("rpcbind -w || true; rpc.mountd -N 2 -N 3; rpc.nfsd -N 3 -V 4.2 4")
    pathlib.Path("/etc/hosts").write_text(f"127.0.0.1 localhost {FILE_SYSTEM}.efs.eu-west-1.amazonaws.com\n")


def an_instance_becomes_a_tickerplant(metadata):
    sh("systemctl start elastick-boot.service")
    active("elastick-tick.service")
    assert sh("findmnt -no FSTYPE /efs") == "nfs4", sh("findmnt")
    return sh("systemctl show -P StatusText elastick-tick.service")


def it_takes_updates_on_the_mount(metadata):
    ask(5010, "(.u.upd)[`trade;(enlist `a;enlist 1.5;enlist 100;enlist \"B\";enlist `N)]")
    found = sh("ls -ln /efs/log")
    assert "sym2" in found, found
    assert ask(5010, ".u.i") == "1"
    return found.splitlines()[1]


def it_cannot_do_what_it_need_not(metadata):
    pid = show("elastick-tick.service", "MainPID")["MainPID"]
    status = pathlib.Path(f"/proc/{pid}/status").read_text()
    fields = dict(line.split(":\t", 1) for line in status.splitlines() if ":\t" in line)
    assert fields["NoNewPrivs"] == "1" and fields["CapEff"].strip("0") == "" and fields["Seccomp"] == "2", status
    assert fields["Uid"].split()[0] == "5010", status
    return f"uid {fields['Uid'].split()[0]}, no capabilities, seccomp filter"


def the_secret_is_a_credential_of_the_unit(metadata):
    assert sh("stat -c '%a %U' /run/elastick/cluster-secret") == "400 root", sh("ls -l /run/elastick")
    assert sh("stat -f -c %T /run/elastick") == "tmpfs", sh("findmnt")
    pid = show("elastick-tick.service", "MainPID")["MainPID"]
    environ = pathlib.Path(f"/proc/{pid}/environ").read_bytes().decode().split("\0")
    copy = next(line.partition("=")[2] for line in environ if line.startswith("ELASTICK_CLUSTER_SECRET_FILE="))
    assert copy == "/run/credentials/elastick-tick.service/cluster-secret", copy
    assert SECRET not in "".join(environ) + sh("journalctl -b --no-pager")
    return copy


def local_clients_find_the_abstract_socket(metadata):
    sockets = pathlib.Path("/proc/net/unix").read_text()
    assert "@/tmp/kx.5010" in sockets, sockets
    return "@/tmp/kx.5010"


def a_hung_tickerplant_is_replaced(metadata):
    before = show("elastick-tick.service", "MainPID")["MainPID"]
    sh(f"kill -STOP {before}")

    def replaced():
        now = show("elastick-tick.service", "MainPID", "ActiveState", "NRestarts")
        return now if now["ActiveState"] == "active" and now["MainPID"] not in (before, "0") else None

    now = eventually(replaced, "another process")
    assert "watchdog" in sh("journalctl -b -u elastick-tick.service --no-pager").lower()
    held = ask(5010, ".u.i")
    assert held == "1", f"the log went on with {held}"
    return f"after {now['NRestarts']} restart the log goes on at {held}"


def a_mount_that_goes_stops_it_first(metadata):
    sh("systemctl stop efs.mount")
    eventually(lambda: sh("systemctl is-active elastick-tick.service", check=False) == "inactive", "it stops in order")
    refused = sh("systemctl start elastick-tick.service", check=False)
    # By when it is called, systemctl names the mount, or says that a dependency failed.
    assert "efs.mount" in refused or "dependency job for elastick-tick.service failed" in refused, refused
    return refused.splitlines()[0]


def started_all_the_same_it_leaves_the_local_disk_alone(metadata):
    sh("rm -r /run/systemd/system/elastick-tick.service.d/mount.conf; systemctl daemon-reload")
    sh("systemctl start --no-block elastick-tick.service")
    reason = "is the volume mounted?"
    eventually(lambda: reason in sh("journalctl -b -u elastick-tick.service --no-pager"), "the refusal in the journal")
    sh("systemctl stop elastick-tick.service")
    assert os.listdir("/efs") == [], os.listdir("/efs")
    return [line for line in sh("journalctl -b -u elastick-tick.service --no-pager -o cat").splitlines() if reason in line][-1]


def booting_again_puts_it_right(metadata):
    sh("systemctl restart elastick-boot.service")
    active("elastick-tick.service")
    assert ask(5010, ".u.i") == "1"
    return sh("journalctl -b -u elastick-boot.service --no-pager -o cat -n 2").splitlines()[-1]


def a_node_joins_and_tells_how_it_is(metadata):
    env = pathlib.Path("/etc/elastick/env")
    env.write_text('ELASTICK_TICKERPLANT="localhost:5010"\nELASTICK_PORT="5011"\nSCALETHRESHOLD="60"\nROLLTHRESHOLD="80"\n')
    sh("systemctl start elastick-rdb.service")
    eventually(lambda: sh("systemctl show -P StatusText elastick-rdb.service").startswith("live"), "the node is live")
    eventually(lambda: ask(5011, "count trade") == "1", "the node has the row")
    return sh("systemctl show -P StatusText elastick-rdb.service")


def a_hung_node_is_replaced_and_has_the_rows_again(metadata):
    before = show("elastick-rdb.service", "MainPID")["MainPID"]
    sh(f"kill -STOP {before}")

    def again():
        now = show("elastick-rdb.service", "MainPID", "ActiveState")
        return now["ActiveState"] == "active" and now["MainPID"] not in (before, "0")

    eventually(again, "another process")
    eventually(lambda: "1" == sh("echo 'count trade' | /usr/bin/elastick q localhost:5011", check=False), "the row is back")
    return "count trade = 1"


def wrong_options_are_not_tried_for_ever(metadata):
    with open("/etc/elastick/env", "a") as env:
        env.write('ROLLTHRESHOLD="150"\n')
    sh("systemctl restart elastick-rdb.service", check=False)
    eventually(lambda: sh("systemctl is-failed elastick-rdb.service", check=False) == "failed", "it has failed")
    return sh("journalctl -b -u elastick-rdb.service --no-pager -o cat | grep -i roll").splitlines()[-1]


def it_ends_in_order(metadata):
    sh("systemctl stop elastick-tick.service")
    now = show("elastick-tick.service", "ActiveState", "Result", "ExecMainStatus")
    assert now["Result"] == "success" and now["ExecMainStatus"] == "0", now
    return f"{now}"


STEPS = [
    an_instance_becomes_a_tickerplant,
    it_takes_updates_on_the_mount,
    it_cannot_do_what_it_need_not,
    the_secret_is_a_credential_of_the_unit,
    local_clients_find_the_abstract_socket,
    a_hung_tickerplant_is_replaced,
    a_mount_that_goes_stops_it_first,
    started_all_the_same_it_leaves_the_local_disk_alone,
    booting_again_puts_it_right,
    a_node_joins_and_tells_how_it_is,
    a_hung_node_is_replaced_and_has_the_rows_again,
    wrong_options_are_not_tried_for_ever,
    it_ends_in_order,
]


def prepare():
    file_system()
    metadata = Metadata(tags=TAGS)
    cli = pathlib.Path("/usr/bin/aws")
    cli.write_text(f"#!/bin/sh\necho {SECRET}\n")
    cli.chmod(0o755)
    # Shorten the watchdog timeout: the test is about the effect, not the duration.
    for unit, lines in {
        "elastick-boot": f"Environment=AWS_EC2_METADATA_SERVICE_ENDPOINT={metadata.url} PATH=/usr/sbin:/usr/bin:/sbin:/bin",
        # No fleet: this test does not cover it, and a binary without the feature `aws` has none.
        "elastick-tick": "WatchdogSec=8\nUnsetEnvironment=ELASTICK_FLEET",
        "elastick-rdb": "WatchdogSec=25\nUnsetEnvironment=ELASTICK_FLEET\nLoadCredential=cluster-secret:/run/elastick/cluster-secret\n"
        "Environment=ELASTICK_CLUSTER_SECRET_FILE=%d/cluster-secret",
    }.items():
        drop_in(unit, lines)
    return metadata


main(prepare, [(step.__name__.replace("_", " "), step) for step in STEPS])
