"""kdb+ values and their bytes, written from the format's description: an independent check of elastick's codec.

A value is `K(t, v)`: `t` is the kdb+ type number, `v` a plain Python value (see `K`). Nothing is converted,
so a test compares exactly the values on the wire.
"""

import struct

GENERAL, BOOL, GUID, BYTE, SHORT, INT, LONG, REAL, FLOAT, CHAR, SYMBOL = 0, 1, 2, 4, 5, 6, 7, 8, 9, 10, 11
TIMESTAMP, MONTH, DATE, DATETIME, TIMESPAN, MINUTE, SECOND, TIME = 12, 13, 14, 15, 16, 17, 18, 19
TABLE, DICT, LAMBDA, UNARY, SORTED_DICT, ERROR = 98, 99, 100, 101, 127, -128

NULL_LONG = -(2**63)
NULL_INT = -(2**31)
DAY_NS = 86_400_000_000_000

ITEMS = {
    BOOL: "B", BYTE: "B", SHORT: "h", INT: "i", LONG: "q", REAL: "f", FLOAT: "d", TIMESTAMP: "q", MONTH: "i",
    DATE: "i", DATETIME: "d", TIMESPAN: "q", MINUTE: "i", SECOND: "i", TIME: "i",
}  # fmt: skip


class K:
    """One kdb+ value.

    `v` is: for an atom a number, one-character string or name; for a vector a list of these (characters: one string);
    for a general list a list of K; for a table a dict of name -> column; for a dictionary the pair (keys, values); for
    a lambda (namespace, source); for a primitive its code; for an error its text.
    """

    __slots__ = ("t", "v", "attr")

    def __init__(self, t, v, attr=0):
        self.t, self.v, self.attr = t, v, attr

    def __eq__(self, other):
        return isinstance(other, K) and (self.t, self.v) == (other.t, other.v)

    def __repr__(self):
        return f"K({self.t}, {self.v!r})"

    def __len__(self):
        if self.t == TABLE:
            return len(next(iter(self.v.values())).v)
        return len(self.v)

    def __getitem__(self, key):
        """Item of a general list by position, column of a table or value of a dictionary by name."""
        if self.t == TABLE:
            return self.v[key]
        if self.t in (DICT, SORTED_DICT):
            keys, values = self.v
            place = keys.v.index(key)
            return values.v[place] if values.t == GENERAL else K(-values.t, values.v[place])
        return self.v[key]

    def py(self):
        """The value in plain Python: a table as dict of lists, a keyed table as the dict of both halves."""
        if self.t == GENERAL:
            return [item.py() for item in self.v]
        if self.t == TABLE:
            return {name: column.py() for name, column in self.v.items()}
        if self.t in (DICT, SORTED_DICT):
            keys, values = self.v
            if keys.t == TABLE:
                return {**keys.py(), **values.py()}
            return dict(zip(keys.py(), values.py()))
        return self.v


def sym(name):
    return K(-SYMBOL, name)


def syms(*names):
    return K(SYMBOL, list(names))


def chars(text):
    return K(CHAR, text)


def long(number):
    return K(-LONG, number)


def longs(numbers):
    return K(LONG, list(numbers))


def floats(numbers):
    return K(FLOAT, list(numbers))


def timespans(numbers):
    return K(TIMESPAN, list(numbers))


def lst(*items):
    return K(GENERAL, list(items))


def table(**columns):
    return K(TABLE, columns)


def lam(source, namespace=""):
    return K(LAMBDA, (namespace, source))


NIL = K(UNARY, 0)


def encode(k, order="<"):
    """The bytes of one object, in byte order `<` or `>`."""
    out = []
    _encode(k, order, out)
    return b"".join(out)


def _encode(k, order, out):
    t, v = k.t, k.v
    head = struct.pack("b", t)
    if t == ERROR or t == -SYMBOL:
        out.append(head + _raw(v) + b"\0")
    elif t == -GUID:
        out.append(head + v)
    elif t == -CHAR:
        out.append(head + _raw(v))
    elif t < 0:
        out.append(head + struct.pack(order + ITEMS[-t], v))
    elif t < 20:
        out.append(head + struct.pack(order + "BI", k.attr, len(v)))
        if t == GENERAL:
            for item in v:
                _encode(item, order, out)
        elif t == CHAR:
            out.append(_raw(v))
        elif t == SYMBOL:
            out.append(b"".join(_raw(name) + b"\0" for name in v))
        elif t == GUID:
            out.append(b"".join(v))
        else:
            out.append(struct.pack(f"{order}{len(v)}{ITEMS[t]}", *v))
    elif t == TABLE:
        out.append(head + struct.pack("B", k.attr))
        _encode(K(DICT, (K(SYMBOL, list(v)), K(GENERAL, list(v.values())))), order, out)
    elif t in (DICT, SORTED_DICT):
        out.append(head)
        _encode(v[0], order, out)
        _encode(v[1], order, out)
    elif t == LAMBDA:
        out.append(head + _raw(v[0]) + b"\0")
        _encode(chars(v[1]), order, out)
    elif t in (101, 102, 103):
        out.append(head + struct.pack("B", v))
    elif t in (104, 105):
        out.append(head + struct.pack(order + "I", len(v)))
        for item in v:
            _encode(item, order, out)
    else:
        out.append(head)
        _encode(v, order, out)


def _raw(text):
    return text.encode("latin-1")


def _text(raw):
    """Symbols and strings are bytes; latin-1 maps each byte to one character, which preserves lengths."""
    return raw.decode("latin-1")


def decode(data, order="<", offset=0):
    """The object at `offset`, and its end. Raises IndexError or struct.error if bytes are missing."""
    t = struct.unpack_from("b", data, offset)[0]
    at = offset + 1
    if t == ERROR or t == -SYMBOL:
        end = _find_nul(data, at)
        return K(t, _text(bytes(data[at:end]))), end + 1
    if t == -GUID:
        return K(t, _cut(data, at, 16)), at + 16
    if t == -CHAR:
        return K(t, _text(_cut(data, at, 1))), at + 1
    if t < 0:
        code = struct.Struct(order + ITEMS[-t])
        return K(t, code.unpack_from(data, at)[0]), at + code.size
    if t < 20:
        return _decode_vector(data, order, t, at)
    if t == TABLE:
        attr = data[at]
        columns, end = decode(data, order, at + 1)
        names, values = columns.v
        return K(t, dict(zip(names.v, _columns(values))), attr), end
    if t in (DICT, SORTED_DICT):
        keys, at = decode(data, order, at)
        values, at = decode(data, order, at)
        return K(t, (keys, values)), at
    if t == LAMBDA:
        end = _find_nul(data, at)
        source, after = decode(data, order, end + 1)
        return K(t, (_text(bytes(data[at:end])), source.v)), after
    if t in (101, 102, 103):
        return K(t, data[at]), at + 1
    if t in (104, 105):
        count = _count(data, order, at)
        return _decode_items(data, order, t, count, at + 4)
    if 106 <= t <= 111:
        inner, end = decode(data, order, at)
        return K(t, inner), end
    raise ValueError(f"type {t} at byte {offset} is not a type of the protocol")


def _decode_vector(data, order, t, at):
    attr, count = data[at], _count(data, order, at + 1)
    at += 5
    if t == GENERAL:
        k, end = _decode_items(data, order, t, count, at)
        k.attr = attr
        return k, end
    if t == CHAR:
        return K(t, _text(_cut(data, at, count)), attr), at + count
    if t == SYMBOL:
        names = []
        for _ in range(count):
            end = _find_nul(data, at)
            names.append(_text(bytes(data[at:end])))
            at = end + 1
        return K(t, names, attr), at
    if t == GUID:
        raw = _cut(data, at, 16 * count)
        return K(t, [raw[i : i + 16] for i in range(0, len(raw), 16)], attr), at + 16 * count
    code = struct.Struct(f"{order}{count}{ITEMS[t]}")
    return K(t, list(code.unpack_from(data, at)), attr), at + code.size


def _count(data, order, at):
    (count,) = struct.unpack_from(order + "i", data, at)
    if count < 0:
        raise ValueError(f"negative count {count} at byte {at}")
    return count


def _decode_items(data, order, t, count, at):
    items = []
    for _ in range(count):
        item, at = decode(data, order, at)
        items.append(item)
    return K(t, items), at


def _columns(values):
    """Columns of a table: a list of vectors; a table with one general column may be encoded as any list."""
    return values.v if values.t == GENERAL else [K(-values.t, item) for item in values.v]


def _find_nul(data, at):
    end = data.find(b"\0", at)
    if end < 0:
        raise IndexError(f"no end of the text that begins at byte {at}")
    return end


def _cut(data, at, count):
    if at + count > len(data):
        raise IndexError(f"{count} bytes wanted at byte {at}, there are {len(data) - at}")
    return bytes(data[at : at + count])
