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


def health(port):
    """Status and text of `/health`, without what it says of a disk that is nearly full: the tests must pass on such a machine too."""
    status, _, text = page(port, "/health")
    text, little = re.subn(r"the log's file system has .*?free space there; ", "", text)
    return status, re.sub(r"^degraded: (?=[0-9]+ updates today)", "ok: ", text) if little else text


def metrics(port):
    """The metrics: name with labels -> value."""
    status, _, text = page(port, "/metrics")
    assert status == 200, (status, text)
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    return {name: float(value) for name, _, value in (line.rpartition(" ") for line in lines)}
