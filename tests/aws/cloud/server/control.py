"""Wrapper of the server: serialises calls, authorises and records each, and serves the test's own requests, `/__cloud/...`."""

import gzip
import io
import json
import re
import time
import urllib.parse
import uuid

import cbor2
from moto.autoscaling.models import autoscaling_backends
from moto.moto_server.werkzeug_app import DomainDispatcherApplication

from . import access, schedule
from .state import EVENTS, LOCK, record, settings

CALLS = []
CREDENTIAL = re.compile(r"Credential=([^/]+)/\d+/([^/]+)/([^/]+)/")
OPERATION = re.compile(r"^/service/[^/]+/operation/([^/]+)$")
RECORDS = re.compile(r"^/2013-04-01/hostedzone/([^/]+)/rrset/?$")


def call_of(environ, body):
    """Caller and action of a request; None if it is not a signed call."""
    signed = CREDENTIAL.search(environ.get("HTTP_AUTHORIZATION", ""))
    if not signed:
        return None
    key, region, service = signed.groups()
    rpc = OPERATION.match(environ.get("PATH_INFO", ""))
    if rpc:
        action, params = rpc[1], cbor2.loads(body) if body else {}
    elif service == "route53" and environ["REQUEST_METHOD"] == "POST" and RECORDS.match(environ["PATH_INFO"]):
        action, params = "ChangeResourceRecordSets", record_changes(environ["PATH_INFO"], body)
    elif environ.get("HTTP_X_AMZ_TARGET"):
        action, params = environ["HTTP_X_AMZ_TARGET"].split(".")[-1], json.loads(body or b"{}")
    else:
        form = dict(urllib.parse.parse_qsl(body.decode("utf-8", "replace")))
        action, params = form.pop("Action", environ.get("PATH_INFO", "")), form
        params.pop("Version", None)
    found = {"key": key, "region": region, "service": service, "action": action, "params": params}
    return {**found, "rpc": bool(rpc), "json": "HTTP_X_AMZ_TARGET" in environ}


def record_changes(path, body):
    """The records that a change of DNS records affects."""
    texts = {name: re.findall(rf"<{name}>(.*?)</{name}>", body.decode()) for name in ("Name", "Type", "Action", "Value")}
    names = [name.rstrip(".").lower() for name in texts["Name"]]
    return {"HostedZoneId": RECORDS.match(path)[1], **texts, "Name": names}


def error(call, code, message):
    """(status, content type, body) of an error in the protocol of the service."""
    request = uuid.uuid4()
    if call["rpc"]:
        return "403 Forbidden", "application/cbor", cbor2.dumps({"__type": code, "message": message})
    if call["json"]:
        return "400 Bad Request", "application/x-amz-json-1.1", json.dumps({"__type": code, "Message": message}).encode()
    text = message.replace("&", "&amp;").replace("<", "&lt;")
    if call["service"] == "ec2":
        code = "UnauthorizedOperation" if code == "AccessDenied" else code
        body = f"<Response><Errors><Error><Code>{code}</Code><Message>{text}</Message></Error></Errors>"
        return "403 Forbidden", "text/xml", f"{body}<RequestID>{request}</RequestID></Response>".encode()
    body = f"<ErrorResponse><Error><Type>Sender</Type><Code>{code}</Code><Message>{text}</Message></Error>"
    return "403 Forbidden", "text/xml", f"{body}<RequestId>{request}</RequestId></ErrorResponse>".encode()


def plain(params):
    """Parameters in JSON-compatible form."""
    return json.loads(json.dumps(params, default=str))


def keep(call, status, problem=""):
    instance = access.caller(call["key"])
    CALLS.append(
        {
            "n": len(CALLS),
            "t": time.time(),
            "by": instance.id if instance else "operator",
            "service": call["service"],
            "action": call["action"],
            "params": plain(call["params"]),
            "status": status,
            "error": problem,
        }
    )


def guarded(inner, environ, start_response):
    length = int(environ.get("CONTENT_LENGTH") or 0)
    body = environ["wsgi.input"].read(length)
    environ["wsgi.input"] = io.BytesIO(body)
    # The SDK compresses bodies over 10 KiB.
    is_compressed = environ.get("HTTP_CONTENT_ENCODING") == "gzip"
    call = call_of(environ, gzip.decompress(body) if is_compressed else body)
    if call is None:
        return list(inner(environ, start_response))
    message, code = access.refusal(call), "AccessDenied"
    if message is None and call["key"].startswith("ASIA") and not environ.get("HTTP_X_AMZ_SECURITY_TOKEN"):
        message, code = "The security token included in the request is invalid", "InvalidClientTokenId"
    if message is not None:
        keep(call, 403, message)
        status, kind, data = error(call, code, message)
        headers = [("Content-Type", kind), ("Content-Length", str(len(data)))]
        start_response(status, headers + ([("smithy-protocol", "rpc-v2-cbor")] if call["rpc"] else []))
        return [data]
    seen = {}

    def started(status, headers, exc_info=None):
        seen["status"] = int(status.split()[0])
        return start_response(status, headers, exc_info) if exc_info else start_response(status, headers)

    answer = list(inner(environ, started))
    found = re.search(rb"<Message>(.*?)</Message>", b"".join(answer), re.S) if seen["status"] >= 400 else None
    keep(call, seen["status"], found[1].decode() if found else "")
    return answer


def target_state(lifecycle):
    """The target lifecycle state in the instance's metadata; None outside a group."""
    if lifecycle is None:
        return None
    return "Terminated" if lifecycle.startswith("Terminating") else "InService"


def instance_view(instance):
    group, state = access.group_state(instance.id)
    data = access.launch_data(instance.id)
    lifecycle = state.lifecycle_state if state else None
    role = access.role_of(instance)
    return {
        "id": instance.id,
        "ec2": instance._state.name,
        "group": group.name if group else None,
        "lifecycle": lifecycle,
        "target": target_state(lifecycle),
        "tags": {tag["key"]: str(tag["value"]) for tag in instance.get_tags()},
        "user_data": data.get("UserData") or "",
        "metadata_options": data.get("MetadataOptions") or {},
        "type": data.get("InstanceType") or instance.instance_type or "t3a.medium",
        "zone": instance.placement.zone,
        "role": role.name if role else None,
        "key": access.access_key(instance.id),
        "launched": instance.launch_time,
    }


def group_view(group):
    members = [
        {
            "id": state.instance_id,
            "lifecycle": state.lifecycle_state,
            "health": state.health_status,
            "protected": bool(state.protected_from_scale_in),
        }
        for state in group.instance_states
    ]
    sizes = {"min": group.min_size, "max": group.max_size, "desired": group.desired_capacity}
    return {"name": group.name, **sizes, "instances": members}


def answer(path, query, body):
    """Serves a request of the test."""
    after = int(query.get("from", ["0"])[0])
    if path == "instances":
        return [instance_view(instance) for instance in access.instances()]
    if path == "groups":
        backends = [backend for regions in list(autoscaling_backends.values()) for backend in list(regions.values())]
        return [group_view(group) for backend in backends for group in backend.autoscaling_groups.values()]
    if path == "calls":
        return CALLS[after:]
    if path == "events":
        return EVENTS[after:]
    if path == "settings":
        settings.update(body or {})
        return settings
    if path == "clock":
        return schedule.advance(body["now"])
    if path == "note":
        record(**body)
        return {}
    raise KeyError(path)


def controlled(environ, start_response):
    query = urllib.parse.parse_qs(environ.get("QUERY_STRING", ""))
    raw = environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))
    status = "200 OK"
    try:
        found = answer(environ["PATH_INFO"].removeprefix("/__cloud/"), query, json.loads(raw) if raw else None)
    except Exception as problem:
        status, found = "500 Internal Server Error", {"error": repr(problem)}
    data = json.dumps(found, default=str).encode()
    start_response(status, [("Content-Type", "application/json"), ("Content-Length", str(len(data)))])
    return [data]


def install():
    inner = DomainDispatcherApplication.__call__

    def outer(app, environ, start_response):
        with LOCK:
            if environ.get("PATH_INFO", "").startswith("/__cloud/"):
                return controlled(environ, start_response)
            return guarded(lambda *request: inner(app, *request), environ, start_response)

    DomainDispatcherApplication.__call__ = outer
