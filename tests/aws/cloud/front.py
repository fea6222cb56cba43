"""A proxy in front of a Swift server, which can hold requests and lose answers. Requests have no body, and each its own connection."""

import socket
import socketserver
import threading

DROP_BEFORE, DROP_AFTER = "the request is lost", "the answer is lost"


class Handler(socketserver.BaseRequestHandler):
    def handle(self):
        head = b""
        while not head.endswith(b"\r\n\r\n"):
            part = self.request.recv(65536)
            if not part:
                return
            head += part
        first, *lines = head.decode("latin1").strip().split("\r\n")
        fields = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
        done = self.server.front.hook(first.split()[0], fields)
        if done == DROP_BEFORE:
            return
        with socket.create_connection(("127.0.0.1", self.server.front.upstream)) as upstream:
            upstream.sendall(head)
            answer = b""
            while part := upstream.recv(65536):
                answer += part
        if done == DROP_AFTER:
            return
        try:
            self.request.sendall(answer)
        except OSError:
            pass


class Server(socketserver.ThreadingTCPServer):
    daemon_threads = True
    request_queue_size = 64


class Front:
    """`hook(method, fields)` is called for each request: it may block, and returns one of the above, or None."""

    def __init__(self, upstream):
        self.upstream = upstream
        self.hook = lambda method, fields: None
        self.server = Server(("127.0.0.1", 0), Handler)
        self.server.front = self
        self.port = self.server.server_address[1]
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def close(self):
        self.server.shutdown()
        self.server.server_close()
