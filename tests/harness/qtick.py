"""Fake tickerplants that behave like q's: stock `tick.q`, and the paper's `tickasg.q` on top of it. No native extensions.

They follow the q code (zero-latency mode: publish, then log), on a separate thread with one lock around all
state; a call of an unknown function returns an error with its name, as in q.
"""

import selectors
import socket
import threading

from . import kdb, tplog, wire

ROLL_SOURCE = "{.u.asg.roll[.z.w;x]}"


class QTick:
    """A fake tickerplant with which `elastick rdb` must work. `paper`: whether `.u.asg` is loaded."""

    def __init__(self, log_path, tables, paper):
        self.tables = tables
        self.paper = paper
        self.log_path = str(log_path)
        tplog.write(log_path, [])
        self.lock = threading.RLock()
        self.w = {name: [] for name in tables}
        self.asg = []
        self.i = 0
        self.asked = []
        self.errors = []
        self.closing = False
        self.selector = selectors.DefaultSelector()
        self.peers = {}
        self.next_handle = 6
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        self.selector.register(self.listener, selectors.EVENT_READ)
        self.thread = threading.Thread(target=self._serve, daemon=True)
        self.thread.start()

    def close(self):
        self.closing = True
        self.thread.join(5)
        for sock, *_ in list(self.peers.values()):
            sock.close()
        self.listener.close()

    # Actions of a feed and an operator.

    def upd(self, name, columns):
        """`.u.upd` in zero-latency mode: to each subscriber a table, then the columns to the log."""
        with self.lock:
            rows = kdb.K(kdb.TABLE, dict(zip(self.tables[name].v, columns.v)))
            push = kdb.lst(kdb.sym("upd"), kdb.sym(name), rows)
            for handle, _ in list(self.w[name]):
                self._send(handle, wire.message(push, wire.ASYNC))
            with open(self.log_path, "ab") as log:
                log.write(kdb.encode(tplog.update(name, columns)))
            self.i += 1

    def end(self, date):
        """`.u.end` of tick.q, then `.u.asg.end` for subscribers that are not live."""
        with self.lock:
            message = wire.message(kdb.lst(kdb.sym(".u.end"), kdb.K(-kdb.DATE, date)), wire.ASYNC)
            for handle in dict.fromkeys(h for subscribers in self.w.values() for h, _ in subscribers):
                self._send(handle, message)
            for row in self.asg:
                if row["handle"] is not None and (not row["live"] or row["rolled"]):
                    self._send(row["handle"], message)
            self.asg = [r for r in self.asg if r["handle"] is not None and r["live"] and not r["rolled"]]
            for row in self.asg:
                row["firstI"] = 0

    def rolled_at(self):
        """`lastI` of the subscribers that have rolled, in order."""
        with self.lock:
            return [row["lastI"] for row in self.asg if row["rolled"]]

    def live_count(self):
        with self.lock:
            return sum(bool(row["live"]) and not row["rolled"] and row["handle"] is not None for row in self.asg)

    # u.q and asg/u.q.

    def _sub(self, handle, table, symbols):
        if table == "":
            return kdb.lst(*(self._sub(handle, name, symbols) for name in self.tables))
        if table not in self.tables:
            raise NameError(table)
        self._del(handle, table)
        self.w[table].append((handle, symbols))
        return kdb.lst(kdb.sym(table), self.tables[table])

    def _del(self, handle, table):
        self.w[table] = [entry for entry in self.w[table] if entry[0] != handle]

    def _asg_sub(self, handle, tables, symbols, queue):
        row = dict(handle=handle, tabs=tables, syms=symbols, queue=queue, live=0, rolled=0, firstI=None, lastI=None)
        self.asg.append(row)
        busy = [r for r in self.asg if r["handle"] is not None and r["live"] and not r["rolled"] and r["queue"] == queue]
        if not busy:
            self._asg_add(row)

    def _asg_add(self, row):
        names = row["tabs"].v if row["tabs"].t == kdb.SYMBOL else [row["tabs"].v]
        pairs = []
        for name in names:
            answer = self._sub(row["handle"], name, "")
            pairs += answer.v if name == "" else [answer]
        start = max([r["lastI"] or 0 for r in self.asg if r["queue"] == row["queue"]], default=0)
        window = kdb.longs([start, self.i])
        message = kdb.lst(kdb.sym(".sub.rep"), kdb.lst(*pairs), kdb.sym(":" + self.log_path), window)
        self._send(row["handle"], wire.message(message, wire.ASYNC))
        row["live"], row["firstI"] = 1, start

    def _asg_roll(self, handle, last):
        for table in self.tables:
            self._del(handle, table)
        rows = [row for row in self.asg if row["handle"] == handle]
        for row in rows:
            row["rolled"], row["lastI"] = 1, last
        if rows:
            waiting = [r for r in self.asg if r["handle"] is not None and not r["live"] and r["queue"] == rows[0]["queue"]]
            if waiting:
                self._asg_add(waiting[0])

    def _zpc(self, handle):
        for table in self.tables:
            self._del(handle, table)
        rows = [row for row in self.asg if row["handle"] == handle]
        if rows and rows[0]["live"] and not rows[0]["rolled"]:
            self._asg_roll(handle, 0)
        for row in rows:
            row["handle"] = None

    # `value` of a message.

    def _value(self, handle, k):
        if k.t == kdb.CHAR:
            return self._text(handle, k.v.strip())
        if k.t == kdb.GENERAL and k.v and k.v[0].t == kdb.LAMBDA:
            source = "".join(k.v[0].v[1].split())
            if self.paper and source == ROLL_SOURCE:
                self._asg_roll(handle, k.v[1].v)
                return kdb.NIL
            raise NameError("nyi")
        if k.t == kdb.SYMBOL:
            k = kdb.lst(*(kdb.sym(name) for name in k.v))
        if k.t == -kdb.SYMBOL:
            k = kdb.lst(k)
        name = k.v[0].v if k.t == kdb.GENERAL and k.v else None
        if name == ".u.sub":
            return self._sub(handle, k.v[1].v, k.v[2].v)
        if name == ".u.asg.sub" and self.paper:
            self._asg_sub(handle, *k.v[1:3], k.v[3].v)
            return kdb.NIL
        raise NameError(str(name))

    def _text(self, handle, text):
        state = {".u.i": kdb.long(self.i), ".u.L": kdb.sym(":" + self.log_path), ".u.t": kdb.syms(*self.tables)}
        if text == "`asg in key`.u":
            return kdb.K(-kdb.BOOL, int(self.paper))
        if text in state:
            return state[text]
        if text == ".u.t!{0#value x}each .u.t":
            return kdb.K(kdb.DICT, (state[".u.t"], kdb.lst(*self.tables.values())))
        if text == "(.u.sub[`;`];`.u `i`L)":
            return kdb.lst(self._sub(handle, "", ""), kdb.lst(state[".u.i"], state[".u.L"]))
        raise NameError(text)

    # Sockets.

    def _serve(self):
        while not self.closing:
            for key, _ in self.selector.select(0.05):
                if key.fileobj is self.listener:
                    sock, _ = self.listener.accept()
                    with self.lock:
                        handle, self.next_handle = self.next_handle, self.next_handle + 1
                        self.peers[handle] = (sock, bytearray(), [False])
                    self.selector.register(sock, selectors.EVENT_READ, handle)
                else:
                    self._readable(key.data)

    def _readable(self, handle):
        sock, buffer, greeted = self.peers[handle]
        try:
            data = sock.recv(1 << 16)
        except OSError:
            data = b""
        with self.lock:
            if not data:
                self.selector.unregister(sock)
                del self.peers[handle]
                sock.close()
                self._zpc(handle)
                return
            buffer += data
            if not greeted[0] and b"\0" in buffer:
                end = buffer.index(b"\0")
                sock.sendall(bytes([min(buffer[end - 1], 6)]))
                del buffer[: end + 1]
                greeted[0] = True
            while greeted[0] and len(buffer) >= 8 and len(buffer) >= wire.parse(buffer[:8])[3]:
                length = wire.parse(buffer[:8])[3]
                self._message(handle, *wire.open_message(bytes(buffer[:length])))
                del buffer[:length]

    def _message(self, handle, kind, k):
        self.asked.append(k)
        try:
            answer = self._value(handle, k)
        except (NameError, IndexError, AttributeError) as error:
            answer = kdb.K(kdb.ERROR, str(error))
            self.errors.append((kind, k))
        if kind == wire.SYNC:
            self._send(handle, wire.message(answer, wire.RESPONSE))

    def _send(self, handle, data):
        peer = self.peers.get(handle)
        if peer is not None:
            try:
                peer[0].sendall(data)
            except OSError:
                pass
