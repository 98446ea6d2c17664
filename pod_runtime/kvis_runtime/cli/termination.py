"""The last word of a failed container, where the kubelet and the operator find it: the termination log.

One JSON object {"reason": CamelCase, "message": text}; the operator shows it in the service's conditions.
The file exists only inside a pod; elsewhere nothing is written.
"""

import json
import logging
from pathlib import Path
from typing import Final

MAX_BYTES: Final = 4096  # the kubelet cuts the message off there

logger = logging.getLogger(__name__)


def write_termination(path: Path, reason: str, message: str) -> None:
    """Write the object to `path` if that file exists; a failed write is logged, the exit code still tells."""
    content = json.dumps({"reason": reason, "message": message})
    while len(content) > MAX_BYTES:
        message = message[: len(message) * 3 // 4]
        content = json.dumps({"reason": reason, "message": message + "…"})
    try:
        if path.exists():
            path.write_text(content, "ascii")
    except OSError:
        logger.warning("Could not write %s", path, exc_info=True)
