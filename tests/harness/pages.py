"""The pages that a process serves over HTTP: `/health` and `/metrics`."""

import http.client


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
    """Status and text of `/health`."""
    status, _, text = page(port, "/health")
    return status, text


def metrics(port):
    """The metrics: name with labels -> value."""
    status, _, text = page(port, "/metrics")
    assert status == 200, (status, text)
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    return {name: float(value) for name, _, value in (line.rpartition(" ") for line in lines)}
