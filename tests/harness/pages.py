"""The pages that a process serves over HTTP: `/health` and `/metrics`."""

import http.client
import re


def page(port, path, method="GET", **headers):
    """Status, headers and text of a page."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    try:
        connection.request(method, path, headers=headers)
        answer = connection.getresponse()
        return answer.status, answer.headers, answer.read().decode()
    finally:
        connection.close()


def text(port, path):
    """Status and text of a page."""
    status, _, text = page(port, path)
    return status, text


def health(port):
    """Status and text of `/health`, without what it says of a disk that is nearly full: the tests must pass on such a machine too."""
    status, said = text(port, "/health")
    said, little = re.subn(r"the log's file system has .*?free space there; ", "", said)
    return status, re.sub(r"^degraded: (?=[0-9]+ updates today)", "ok: ", said) if little else said


def metrics(port):
    """The metrics: name with labels -> value."""
    status, said = text(port, "/metrics")
    assert status == 200, (status, said)
    lines = [line for line in said.splitlines() if line and not line.startswith("#")]
    return {name: float(value) for name, _, value in (line.rpartition(" ") for line in lines)}
