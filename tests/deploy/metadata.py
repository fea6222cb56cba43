"""A fake instance metadata service (IMDSv2): tokens, optional tags, changing states."""

import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

PREFIX = "/latest/meta-data/"


class Metadata:
    """`paths` maps a path below latest/meta-data/ to its text, or to a list of texts returned one after the other."""

    def __init__(self, paths=None, tags=None):
        self.paths = {"instance-id": "i-0123456789abcdef0", "placement/region": "eu-west-1", "local-ipv4": "10.0.0.7"}
        self.paths |= paths or {}
        if tags is not None:
            self.paths["tags/instance/"] = "\n".join(tags)
            self.paths |= {f"tags/instance/{key}": value for key, value in tags.items()}
        self.status = None
        self.asked = []
        metadata = self

        class Handler(BaseHTTPRequestHandler):
            def log_message(self, *_):
                pass

            def answer(self, status, text=""):
                body = text.encode()
                self.send_response(metadata.status or status)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def do_PUT(self):
                lives = self.headers.get("X-aws-ec2-metadata-token-ttl-seconds", "")
                valid = self.path == "/latest/api/token" and lives.isdigit() and 1 <= int(lives) <= 21600
                self.answer(200, "the-token") if valid else self.answer(400)

            def do_GET(self):
                metadata.asked.append(self.path)
                if self.headers.get("X-aws-ec2-metadata-token") != "the-token":
                    return self.answer(401)
                text = metadata.paths.get(self.path.removeprefix(PREFIX))
                if isinstance(text, list):
                    text = text.pop(0) if len(text) > 1 else text[0]
                self.answer(404) if text is None else self.answer(200, text)

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"
        threading.Thread(target=self.server.serve_forever, args=(0.01,), daemon=True).start()

    def close(self):
        self.server.shutdown()
        self.server.server_close()
