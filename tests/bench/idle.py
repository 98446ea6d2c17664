"""How often an idle operator writes: 20 services on a fake node, shipped times, for ten minutes.

Counts by the audit log, and by the metrics, what the operator wrote besides its Lease. Puts
`idle_writes_10min` into build/bench/walking.json; a shorter run is kept in the rows only.

    PYTHONPATH=tests:operator:pod_runtime python tests/bench/idle.py [--seconds 600] [--services 20]
"""

from __future__ import annotations

import argparse
import asyncio
import secrets
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

from kubernetes.aio import client, config

import lab
from bench.bench_file import merge
from kvis_services import Services
from lab.fake_node import FakeNode
from operator_process import QUICK, Operator, an_operator, audited_writes

FULL_SECONDS = 600
QUIET_SECONDS = 30
SETTLE_SECONDS = 300
SHIPPED: dict[str, Any] = {name.replace("-", "_"): None for name in QUICK}
"""No flag: the times that the operator ships with."""


async def measure(cluster: lab.Cluster, *, services: int, seconds: int) -> dict[str, Any]:
    api = await config.new_client_from_config(config_file=str(cluster.kubeconfig))
    namespace = f"kvis-idle-{secrets.token_hex(3)}"
    core = client.CoreV1Api(api)
    async with api, FakeNode(api, f"fake-{namespace}") as node:
        await core.create_namespace({"metadata": {"name": namespace}})
        try:
            with tempfile.TemporaryDirectory() as folder:
                flags = {**SHIPPED, "placement": node.placement}
                async with an_operator(cluster, api, namespace, Path(folder), **flags) as operator:
                    await _create(Services(api, namespace), services)
                    return await _count(operator, namespace, services, seconds)
        finally:
            await core.delete_namespace(namespace)


async def _create(made: Services, count: int) -> None:
    for number in range(count):
        await made.create(f"idle-{number:02}", scaling={"maxReplicas": 4})
    for number in range(count):
        await made.until_ready(f"idle-{number:02}", seconds=SETTLE_SECONDS)
    print(f"{count} services are ready", flush=True)


async def _count(operator: Operator, namespace: str, services: int, seconds: int) -> dict[str, Any]:
    await _settled(operator)
    before, metric = len(audited_writes(operator, namespace=namespace)), await operator.writes()
    print(f"settled after {before} writes; counting for {seconds} s", flush=True)
    began = time.monotonic()
    await asyncio.sleep(seconds)
    written = audited_writes(operator, namespace=namespace)[before:]
    kinds = Counter(f"{entry['verb']} {entry['objectRef']['resource']}" for entry in written)
    return {
        "services": services,
        "seconds": round(time.monotonic() - began),
        "writes_by_audit_log": len(written),
        "writes_by_metric": await operator.writes() - metric,
        "kinds": dict(kinds),
    }


async def _settled(operator: Operator) -> None:
    """Until nothing was written for a while: statuses that had to wait for their turn are out."""
    last, since = await operator.writes(), time.monotonic()
    while time.monotonic() - since < QUIET_SECONDS:
        await asyncio.sleep(2)
        now = await operator.writes()
        last, since = now, since if now == last else time.monotonic()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=int, default=FULL_SECONDS)
    parser.add_argument("--services", type=int, default=20)
    args = parser.parse_args()
    cluster = lab.current() or lab.up(with_images=False)
    row = asyncio.run(measure(cluster, services=args.services, seconds=args.seconds))
    print(row)
    is_full = args.seconds >= FULL_SECONDS
    figures = {"idle_writes_10min": float(row["writes_by_audit_log"])} if is_full else {}
    command = f"python tests/bench/idle.py --seconds {args.seconds} --services {args.services}"
    merge("walking", source="idle", command=command, rows=[row], figures=figures)


if __name__ == "__main__":
    main()
