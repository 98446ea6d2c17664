"""Kubeconfig files: who a component is to the API server, with the certificates inside the file.

JSON is YAML, so the files need no YAML library to write and any client reads them.
"""

from __future__ import annotations

import base64
import json
from pathlib import Path

from .certificates import Authority, KeyPair
from .layout import API_PORT


def write_kubeconfig(path: Path, authority: Authority, client: KeyPair, *, user: str) -> Path:
    """Write the kubeconfig of one user of the lab's API server."""
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "kvis-lab",
        "clusters": [
            {
                "name": "kvis-lab",
                "cluster": {
                    "server": f"https://127.0.0.1:{API_PORT}",
                    "certificate-authority-data": _encoded(authority.file),
                },
            }
        ],
        "users": [
            {
                "name": user,
                "user": {
                    "client-certificate-data": _encoded(client.certificate),
                    "client-key-data": _encoded(client.key),
                },
            }
        ],
        "contexts": [{"name": "kvis-lab", "context": {"cluster": "kvis-lab", "user": user}}],
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(document, indent=1) + "\n")
    path.chmod(0o600)
    return path


def _encoded(path: Path) -> str:
    return base64.b64encode(path.read_bytes()).decode()
