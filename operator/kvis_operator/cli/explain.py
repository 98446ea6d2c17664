"""`kvis explain NAME`: what is true of a service, what was decided for it lately, and by which numbers.

Reads the status that the operator wrote; decides nothing anew.
"""

import argparse
import asyncio
import sys
from pathlib import Path
from typing import Any

from kubernetes.aio import client
from kubernetes.aio.client.exceptions import ApiException

from kvis_operator.api.status import Status
from kvis_operator.cluster import connection
from kvis_operator.cluster.resources import SERVICES


def add_parser(subparsers: Any) -> None:
    parser = subparsers.add_parser("explain", help="say what was decided for a service, and why")
    parser.add_argument("name", help="name of the KVInferenceService")
    parser.add_argument("-n", "--namespace", default="default")
    parser.add_argument("--kubeconfig", type=Path, default=None, help="default: ~/.kube/config")


def run(args: argparse.Namespace) -> int:
    kubeconfig = args.kubeconfig or Path("~/.kube/config").expanduser()
    try:
        service = asyncio.run(_read(kubeconfig, args.namespace, args.name))
    except (connection.ConnectionSettingsError, ApiException) as error:
        reason = error.reason if isinstance(error, ApiException) else error
        print(f"kvis explain: {args.namespace}/{args.name}: {reason}", file=sys.stderr)
        return 1
    print("\n".join(lines(service)))
    return 0


def lines(service: dict[str, Any]) -> list[str]:
    """The text for a service as the API server has it."""
    status = Status.restore(service.get("status"))
    name = f"{service['metadata']['namespace']}/{service['metadata']['name']}"
    wanted = service["spec"].get("replicas", "unset")
    text = [f"{name}: {status.ready_replicas} of {wanted} replicas serve"]
    for condition in status.conditions:
        text.append(
            f"  {condition.type:14} {condition.status:8} {condition.reason}  {condition.message}".rstrip()
        )
    if status.recommendation is not None:
        told = status.recommendation
        text.append(
            f"Recommended: {told.replicas} replicas, cap {told.max_num_seqs or 'as it is'} ({told.reason})"
        )
    text.append("Decisions, newest first:" if status.decisions else "No decision yet")
    for decision in status.decisions:
        numbers = " ".join(f"{key}={value:g}" for key, value in decision.numbers.items())
        change = f"{decision.knob} {decision.before} -> {decision.after}"
        text.append(f"  {decision.at} {change} {decision.reason} ({decision.outcome}) {numbers}".rstrip())
    return text


async def _read(kubeconfig: Path, namespace: str, name: str) -> dict[str, Any]:
    async with await connection.connect(kubeconfig) as api:
        objects = client.CustomObjectsApi(api)
        where = (SERVICES.group, SERVICES.version, namespace, SERVICES.plural, name)
        return dict(await objects.get_namespaced_custom_object(*where))
