"""Messages: the 8-byte header, and kdb+'s compression in both directions, from the format's description."""

import struct

from . import kdb

ASYNC, SYNC, RESPONSE = 0, 1, 2
HEADER = 8


def message(k, kind=SYNC, order="<", compressed=False):
    """A whole message; `k` is a value, or text to be evaluated."""
    k = kdb.chars(k) if isinstance(k, str) else k
    return frame(kdb.encode(k, order), kind, order, compressed)


def frame(body, kind, order="<", compressed=False):
    """An encoded object with the message header before it."""
    little = 1 if order == "<" else 0
    plain = struct.pack(order + "BBBBI", little, kind, 0, 0, HEADER + len(body)) + body
    if not compressed:
        return plain
    stream = compress(plain)
    head = struct.pack(order + "BBBBI", little, kind, 1, 0, HEADER + 4 + len(stream))
    return head + struct.pack(order + "I", len(plain)) + stream


def parse(head):
    """(byte order, kind, compression, total length) of a header."""
    order = "<" if head[0] == 1 else ">"
    kind, packed, high, low = struct.unpack(order + "BBBI", head[1:8])
    return order, kind, packed, (high << 32) + low


def open_message(data):
    """(kind, value) of a whole message."""
    order, kind, packed, length = parse(data[:HEADER])
    if length != len(data):
        raise ValueError(f"the header says {length} bytes, there are {len(data)}")
    if packed:
        total = struct.unpack_from(order + "I", data, HEADER)[0]
        data = data[:HEADER] + decompress(data[HEADER + 4 :], total)
    k, end = kdb.decode(data, order, HEADER)
    if end != len(data):
        raise ValueError(f"{len(data) - end} bytes are left after the value")
    return kind, k


def compress(plain):
    """The compressed form of a whole message, also where q would send it uncompressed."""
    seen = [0] * 256
    out = bytearray()
    items = 0
    flag_at = 0
    late = None
    at = HEADER
    end = len(plain)
    while at < end:
        if items % 8 == 0:
            flag_at = len(out)
            out.append(0)
        pair = plain[at] ^ plain[at + 1] if at + 1 < end else 0
        before = seen[pair]
        match = at <= end - 3 and before != 0 and plain[before] == plain[at]
        if late is not None:
            seen[late[0]] = late[1]
            late = None
        if match:
            seen[pair] = at
            out[flag_at] |= 1 << (items % 8)
            at += 2
            before += 2
            begin = at
            while at < end and at - begin < 255 and plain[before] == plain[at]:
                at += 1
                before += 1
            out += bytes((pair, at - begin))
        else:
            late = (pair, at)
            out.append(plain[at])
            at += 1
        items += 1
    return bytes(out)


def decompress(stream, total):
    """The decompressed bytes without the header; `total` includes the header."""
    seen = [0] * 256
    out = bytearray(HEADER)
    entered = HEADER
    at = 0
    while len(out) < total:
        flags = stream[at]
        at += 1
        for bit in range(8):
            if len(out) >= total:
                break
            if flags >> bit & 1:
                before = seen[stream[at]]
                count = stream[at + 1] + 2
                at += 2
                pair_end = len(out) + 2
                for i in range(count):
                    out.append(out[before + i])
            else:
                out.append(stream[at])
                at += 1
                pair_end = None
            last = len(out) if pair_end is None else pair_end
            while entered < last - 1:
                seen[out[entered] ^ out[entered + 1]] = entered
                entered += 1
            if pair_end is not None:
                entered = len(out)
    if at != len(stream):
        raise ValueError(f"{len(stream) - at} bytes are left in the compressed stream")
    return bytes(out[HEADER:])
