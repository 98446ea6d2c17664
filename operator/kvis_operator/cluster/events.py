"""Kubernetes events for people: one for each change worth telling, never the same one twice.

Callers derive them from transitions of the stored status, so a restart repeats nothing. An event that
cannot be written is given up: it informs, nothing depends on it.
"""

import hashlib
import logging
from dataclasses import dataclass
from typing import Literal

from kvis_operator.cluster.client import Kube, KubeError, Manifest, UnreachableError
from kvis_operator.cluster.resources import EVENTS

logger = logging.getLogger(__name__)

CONTROLLER = "kvis.dev/operator"
NOTE_LIMIT = 1024  # the API's bound, in bytes
INSTANCE_LIMIT = 128  # the API's bound


@dataclass(frozen=True, slots=True)
class Notice:
    """What happened: `action` is the verb (Scale, Tune, Report), `reason` the CamelCase why, `note` the
    sentence.
    """

    kind: Literal["Normal", "Warning"]
    action: str
    reason: str
    note: str


async def tell(kube: Kube, service: Manifest, notice: Notice, *, at: str, instance: str) -> None:
    """Create the event. `at` is RFC 3339 with microseconds; same notice at the same time = same event."""
    metadata = service["metadata"]
    seed = f"{metadata['uid']}|{notice}|{at}"
    digest = hashlib.sha256(seed.encode()).hexdigest()[:16]
    event = {
        "apiVersion": EVENTS.api_version,
        "kind": EVENTS.kind,
        "metadata": {"name": f"{metadata['name'][:200]}.{digest}", "namespace": metadata["namespace"]},
        "eventTime": at,
        "type": notice.kind,
        "action": notice.action,
        "reason": notice.reason,
        "note": notice.note.encode()[:NOTE_LIMIT].decode("utf-8", "ignore"),
        "regarding": {
            "apiVersion": service["apiVersion"],
            "kind": service["kind"],
            "name": metadata["name"],
            "namespace": metadata["namespace"],
            "uid": metadata["uid"],
            "resourceVersion": metadata["resourceVersion"],
        },
        "reportingController": CONTROLLER,
        "reportingInstance": instance[:INSTANCE_LIMIT],
    }
    try:
        await kube.create(EVENTS, event)
    except KubeError as error:
        if error.reason != "AlreadyExists":
            logger.warning("Failed to write an event", extra={"reason": notice.reason, "error": str(error)})
    except UnreachableError as error:
        logger.warning("Failed to write an event", extra={"reason": notice.reason, "error": str(error)})
