"""A few plain calls to the lab's API server, as the administrator; the rest uses a Kubernetes client."""

from __future__ import annotations

import http.client
import json
import ssl
from typing import Any, Final

from .layout import API_PORT, Layout

TIMEOUT_SECONDS: Final = 5.0


class ApiError(Exception):
    """The API server answered with an error or not at all."""


def get(layout: Layout, path: str) -> Any:
    """GET a path; JSON where the answer is JSON, text otherwise."""
    try:
        context = ssl.create_default_context(cafile=str(layout.pki / "ca.crt"))
        context.load_cert_chain(layout.pki / "admin.crt", layout.pki / "admin.key")
        connection = http.client.HTTPSConnection(
            "127.0.0.1", API_PORT, timeout=TIMEOUT_SECONDS, context=context
        )
        try:
            connection.request("GET", path)
            answer = connection.getresponse()
            body = answer.read().decode(errors="replace")
        finally:
            connection.close()
    except (OSError, http.client.HTTPException) as error:
        raise ApiError(f"GET {path}: {error}") from error
    if answer.status != 200:
        raise ApiError(f"GET {path}: {answer.status} {body[:200]}")
    return json.loads(body) if body.startswith(("{", "[")) else body


def is_ready(layout: Layout) -> bool:
    """Whether the API server says that it is ready to serve."""
    try:
        return bool(get(layout, "/readyz") == "ok")
    except ApiError:
        return False


def has_default_account(layout: Layout) -> bool:
    """Whether the controller manager has made the account that every pod of the default namespace needs."""
    try:
        get(layout, "/api/v1/namespaces/default/serviceaccounts/default")
    except ApiError:
        return False
    return True


def is_node_ready(layout: Layout, name: str) -> bool:
    """Whether a node has the condition Ready."""
    try:
        node = get(layout, f"/api/v1/nodes/{name}")
    except ApiError:
        return False
    conditions = node.get("status", {}).get("conditions", [])
    return any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)
