"""An instance's metadata service (IMDSv2): requires tokens, and serves the API server's current data of the instance."""

import base64
import datetime
import json
import re
import secrets
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

TTL_HEADER = "X-aws-ec2-metadata-token-ttl-seconds"
TOKEN_HEADER = "X-aws-ec2-metadata-token"
SIX_HOURS = datetime.timedelta(hours=6)


def stamp(moment):
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")


def now():
    return datetime.datetime.now(datetime.timezone.utc)


def pending_time(launched):
    """Launch time as in the identity document, in seconds."""
    return re.sub(r"[ T](\d\d:\d\d:\d\d).*", r"T\1Z", str(launched))


class Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request, client_address):
        """Ignores errors of a request whose program was killed."""


class Metadata:
    """The service of one instance. `view` returns the instance's data of the API server. The test sets notices."""

    def __init__(self, view, address="127.0.0.1"):
        self.view = view
        self.address = address
        self.tokens = {}
        self.spot_at = None
        self.rebalance_at = None
        self.requests = []
        self.silent = False
        metadata = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *_):
                pass

            def do_PUT(self):
                metadata.put(self)

            def do_GET(self):
                metadata.get(self)

        self.server = Server(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"
        threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.1}, daemon=True).start()

    def close(self):
        self.server.shutdown()
        self.server.server_close()

    def reply(self, handler, code, text="", headers=()):
        data = text.encode()
        handler.send_response(code)
        handler.send_header("Content-Type", "text/plain")
        handler.send_header("Content-Length", str(len(data)))
        for key, value in headers:
            handler.send_header(key, value)
        handler.end_headers()
        handler.wfile.write(data)

    def put(self, handler):
        handler.rfile.read(int(handler.headers.get("Content-Length") or 0))
        ttl = handler.headers.get(TTL_HEADER, "")
        if handler.path != "/latest/api/token":
            return self.reply(handler, 404)
        if "X-Forwarded-For" in handler.headers:
            return self.reply(handler, 403)
        if not ttl.isdigit() or not 1 <= int(ttl) <= 21600:
            return self.reply(handler, 400)
        token = secrets.token_urlsafe(40)
        self.tokens[token] = time.monotonic() + int(ttl)
        return self.reply(handler, 200, token, [(TTL_HEADER, ttl)])

    def get(self, handler):
        self.requests.append(handler.path)
        if self.tokens.get(handler.headers.get(TOKEN_HEADER, ""), 0) < time.monotonic():
            return self.reply(handler, 401)
        found = self.find(handler.path.split("?")[0])
        return self.reply(handler, 404) if found is None else self.reply(handler, 200, found)

    def find(self, path):
        view = self.view()
        if path.rstrip("/") == "/latest/dynamic/instance-identity/document":
            region = view["zone"][:-1]
            place = {"instanceId": view["id"], "region": region, "availabilityZone": view["zone"]}
            also = {"instanceType": view["type"], "privateIp": self.address, "pendingTime": pending_time(view["launched"])}
            return json.dumps({**place, **also, "accountId": "123456789012"})
        if path == "/latest/user-data":
            return base64.b64decode(view["user_data"]).decode() if view["user_data"] else None
        prefix = "/latest/meta-data/"
        if not path.startswith(prefix):
            return None
        return self.item(path.removeprefix(prefix), view)

    def item(self, path, view):
        tags = view["tags"] if view["metadata_options"].get("InstanceMetadataTags", "enabled") == "enabled" else {}
        known = {
            "instance-id": view["id"],
            "instance-type": view["type"],
            "local-ipv4": self.address,
            "local-hostname": f"ip-{self.address.replace('.', '-')}.ec2.internal",
            "mac": "02:00:00:00:00:01",
            "placement/availability-zone": view["zone"],
            "placement/region": view["zone"][:-1],
            "services/domain": "amazonaws.com",
            "services/partition": "aws",
            "autoscaling/target-lifecycle-state": view["target"],
        }
        if tags:
            known["tags/instance"] = known["tags/instance/"] = "\n".join(tags)
            known |= {f"tags/instance/{key}": value for key, value in tags.items()}
        if view["role"]:
            known["iam/security-credentials"] = known["iam/security-credentials/"] = view["role"]
            known[f"iam/security-credentials/{view['role']}"] = json.dumps(self.credentials(view))
        if self.spot_at:
            known["spot/instance-action"] = json.dumps({"action": "terminate", "time": stamp(self.spot_at)})
            known["spot/termination-time"] = stamp(self.spot_at)
        if self.rebalance_at:
            known["events/recommendations/rebalance"] = json.dumps({"noticeTime": stamp(self.rebalance_at)})
        return known.get(path)

    def credentials(self, view):
        return {
            "Code": "Success",
            "Type": "AWS-HMAC",
            "LastUpdated": stamp(now()),
            "AccessKeyId": view["key"],
            "SecretAccessKey": "secret",
            "Token": f"token-of-{view['id']}",
            "Expiration": stamp(now() + SIX_HOURS),
        }
