"""Simulated hosts (network namespaces), and links between them that can be cut in one or both directions, delayed, or made lossy.

A link is two TUN devices, one in each namespace; a thread here forwards or drops each packet. Connections therefore use the
kernel's own TCP. (netem could do the same, but not every kernel has it.)
"""

import contextlib
import ctypes
import fcntl
import heapq
import itertools
import os
import random
import selectors
import struct
import subprocess
import threading
import time

TUNSETIFF = 0x400454CA
IFF_TUN, IFF_NO_PI = 0x0001, 0x1000
CLONE_NEWNET = 0x40000000
TCP = 6
libc = ctypes.CDLL(None, use_errno=True)
numbers = itertools.count(1)


def missing():
    """Why this machine cannot run simulated hosts, or None."""
    if os.geteuid() != 0:
        return "network namespaces need root"
    if not os.path.exists("/dev/net/tun"):
        return "there is no /dev/net/tun"
    try:
        tried = subprocess.run(["ip", "netns", "add", f"elastick-try-{os.getpid()}"], capture_output=True)
    except FileNotFoundError:
        return "there is no ip (iproute2)"
    if tried.returncode:
        return f"ip netns: {tried.stderr.decode().strip()}"
    subprocess.run(["ip", "netns", "del", f"elastick-try-{os.getpid()}"], capture_output=True)
    return None


class Host:
    """A simulated host with its own network; `close` removes it."""

    def __init__(self, name):
        self.name = f"el-{os.getpid()}-{next(numbers)}-{name}"
        subprocess.run(["ip", "netns", "add", self.name], check=True, capture_output=True)
        self.run("ip", "link", "set", "lo", "up")

    @property
    def wrapper(self):
        """Command prefix that runs a command on this host."""
        return ("ip", "netns", "exec", self.name)

    def run(self, *command):
        subprocess.run([*self.wrapper, *command], check=True, capture_output=True)

    @contextlib.contextmanager
    def inside(self):
        """Context manager: sockets that this thread creates inside it belong to this host."""
        with open("/proc/thread-self/ns/net") as home, open(f"/run/netns/{self.name}") as here:
            enter(here)
            try:
                yield
            finally:
                enter(home)

    def tun(self, device, address):
        """Creates a TUN device on this host; its packets are read from and written to the file descriptor."""
        with self.inside():
            fd = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
            fcntl.ioctl(fd, TUNSETIFF, struct.pack("16sH22x", device.encode(), IFF_TUN | IFF_NO_PI))
        self.run("ip", "addr", "add", f"{address}/24", "dev", device)
        self.run("ip", "link", "set", device, "up")
        return fd

    def close(self):
        subprocess.run(["ip", "netns", "del", self.name], capture_output=True)


def enter(namespace):
    if libc.setns(namespace.fileno(), CLONE_NEWNET):
        raise OSError(ctypes.get_errno(), "setns")


class Way:
    """One direction of a link."""

    def __init__(self, seed):
        self.cut = False
        self.delay_s = 0.0
        self.loss = 0.0
        self.carried = 0
        self.dropped = 0
        self.dice = random.Random(seed)

    def passes(self, packet, dead_ports):
        """Whether to deliver a packet."""
        gone = self.cut or (self.loss and self.dice.random() < self.loss) or bool(dead_ports & ports(packet))
        self.carried += not gone
        self.dropped += gone
        return not gone


def ports(packet):
    """Source and destination TCP port of an IPv4 packet."""
    if packet[0] >> 4 != 4 or packet[9] != TCP:
        return set()
    at = (packet[0] & 15) * 4
    return set(struct.unpack_from(">HH", packet, at))


class Link(threading.Thread):
    """Link between the `near` host, 10.77.N.1, and the `far` one, 10.77.N.2. `to_far` and `to_near` are its two directions."""

    def __init__(self, near, far, seed=0):
        super().__init__(daemon=True)
        number = next(numbers) % 250 + 1
        self.near_address, self.far_address = f"10.77.{number}.1", f"10.77.{number}.2"
        self.to_far, self.to_near = Way(seed), Way(seed + 1)
        # Connections silently dropped in the middle: no packet passes, and neither end gets an error.
        self.dead_ports = set()
        self.closing = False
        self.near_fd = near.tun(f"tun{number}", self.near_address)
        self.far_fd = far.tun("tun0", self.far_address)
        self.start()

    def ways(self):
        return (self.to_far, self.to_near)

    def cut(self):
        for way in self.ways():
            way.cut = True

    def heal(self):
        self.dead_ports.clear()
        for way in self.ways():
            way.cut, way.delay_s, way.loss = False, 0.0, 0.0

    def run(self):
        selector = selectors.DefaultSelector()
        selector.register(self.near_fd, selectors.EVENT_READ, (self.to_far, self.far_fd))
        selector.register(self.far_fd, selectors.EVENT_READ, (self.to_near, self.near_fd))
        late, order = [], itertools.count()
        while not self.closing:
            wait = 0.05 if not late else max(0.0, min(0.05, late[0][0] - time.monotonic()))
            for key, _ in selector.select(wait):
                way, out = key.data
                for packet in packets(key.fd):
                    if not way.passes(packet, self.dead_ports):
                        continue
                    if way.delay_s:
                        heapq.heappush(late, (time.monotonic() + way.delay_s, next(order), out, packet))
                    else:
                        put(out, packet)
            while late and late[0][0] <= time.monotonic():
                *_, out, packet = heapq.heappop(late)
                put(out, packet)
        selector.close()

    def close(self):
        self.closing = True
        self.join(5)
        os.close(self.near_fd)
        os.close(self.far_fd)


def packets(fd):
    """Pending packets, limited so that the other direction is served too."""
    for _ in range(64):
        try:
            yield os.read(fd, 1 << 16)
        except BlockingIOError:
            return


def put(fd, packet):
    try:
        os.write(fd, packet)
    except OSError:
        # The queue is full or the device is down: the packet is lost, as on a wire.
        pass
