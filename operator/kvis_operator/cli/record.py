"""`kvis record`: scrapes a service's pods at an interval into a CSV that `kvis simulate` replays.

Pods are given by their `--url`s, or found by the service's name through a kubeconfig and then read through
the API server's proxy, since a pod's address is seldom reachable from outside. Ends after `--minutes`, or
on Ctrl-C; every scrape is on disk before the next one begins.
"""

import argparse
import asyncio
import contextlib
import os
import sys
import time
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

import aiohttp
from kubernetes.aio import client
from kubernetes.aio.client.exceptions import ApiException

from kvis_kv.flags import PUBLIC_PORT
from kvis_operator.cli.recording import RecordingWriter, Scrape
from kvis_operator.cluster.connection import ConnectionSettingsError, connect
from kvis_operator.observe.pods import pod_state
from kvis_operator.render.labels import SERVICE
from kvis_operator.signals import exposition
from kvis_operator.signals.observation import PodPhase, PodState
from kvis_operator.signals.sample import PodSample

EXIT_BAD_INPUT = 2
SHORTEST_INTERVAL = 1.0
Scraping = Callable[[float], Awaitable[Scrape]]


class RecordError(Exception):
    """The recording cannot be made; the text says what would work."""


def add_parser(subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    parser = subparsers.add_parser("record", help="record a service's signals for a later replay")
    add = parser.add_argument
    add("service", nargs="?", help="name of the service; needs a kubeconfig")
    add("-n", "--namespace", default="default", help="namespace of the service")
    add("--kubeconfig", type=Path, help="default: $KUBECONFIG, then ~/.kube/config")
    add("--url", action="append", default=[], help="a pod's metrics address instead of a service; repeatable")
    add("-o", "--out", type=Path, default=Path("recording.csv"), help="file to write; default recording.csv")
    add("--interval", type=float, default=15.0, help="seconds between scrapes; default 15")
    add("--minutes", type=float, help="how long; default until Ctrl-C")


def run(args: argparse.Namespace) -> int:
    try:
        _check(args)
        with contextlib.suppress(KeyboardInterrupt):
            asyncio.run(_record(args))
    except (RecordError, ConnectionSettingsError) as error:
        print(f"kvis record: {error}", file=sys.stderr)
        return EXIT_BAD_INPUT
    print(f"{args.out} written")
    return 0


def _check(args: argparse.Namespace) -> None:
    if bool(args.url) == bool(args.service):
        raise RecordError("give either the name of a service or --url for each pod, not both and not neither")
    if not args.interval >= SHORTEST_INTERVAL:
        raise RecordError(f"--interval {args.interval:g} must be at least {SHORTEST_INTERVAL:g} s")
    if args.minutes is not None and not args.minutes > 0.0:
        raise RecordError(f"--minutes {args.minutes:g} must be above 0")


async def _record(args: argparse.Namespace) -> None:
    if args.url:
        async with aiohttp.ClientSession() as session:
            await _loop(args, lambda at: _scrape_urls(session, args.url, at, deadline=args.interval))
        return
    api = await connect(_kubeconfig(args.kubeconfig))
    try:
        core = client.CoreV1Api(api)
        await _loop(args, lambda at: _scrape_service(core, args, at))
    finally:
        await api.close()


def _kubeconfig(given: Path | None) -> Path:
    return given or Path(os.environ.get("KUBECONFIG") or Path.home() / ".kube" / "config")


async def _loop(args: argparse.Namespace, scraping: Scraping) -> None:
    """Scrapes on a fixed beat, whatever a scrape takes; at least once."""
    begin = time.monotonic()
    end = float("inf") if args.minutes is None else begin + 60.0 * args.minutes
    with args.out.open("w", encoding="utf-8", newline="") as file:
        writer = RecordingWriter(file)
        count = 0
        while True:
            scrape = await scraping(time.time())
            writer.write(scrape)
            count += 1
            answered = f"{len(scrape.samples)} of {len(scrape.pods)} pods answered"
            print(f"scrape {count}: {answered}", file=sys.stderr)
            due = begin + count * args.interval
            if due > end:
                return
            await asyncio.sleep(max(0.0, due - time.monotonic()))


async def _scrape_urls(
    session: aiohttp.ClientSession, urls: Sequence[str], at: float, *, deadline: float
) -> Scrape:
    """Pods known by address only: taken as ready since the beginning."""
    pods = tuple(PodState(url, url, PodPhase.READY, 0.0, 0.0) for url in urls)
    samples = await asyncio.gather(*(_from_url(session, url, at, deadline) for url in urls))
    return Scrape(
        at, pods, {url: sample for url, sample in zip(urls, samples, strict=True) if sample is not None}
    )


async def _from_url(session: aiohttp.ClientSession, url: str, at: float, deadline: float) -> PodSample | None:
    try:
        async with asyncio.timeout(deadline), session.get(url) as response:
            return exposition.parse(await response.text(), at=at) if response.status == 200 else None
    except (aiohttp.ClientError, OSError, TimeoutError, ValueError):
        return None


async def _scrape_service(core: Any, args: argparse.Namespace, at: float) -> Scrape:
    try:
        listing = await core.list_namespaced_pod(
            args.namespace, label_selector=f"{SERVICE}={args.service}", _preload_content=False
        )
        items = (await listing.json())["items"]
    except (ApiException, aiohttp.ClientError, OSError) as error:
        raise RecordError(f"the API server cannot be asked for pods of {args.service}: {error}") from error
    if not items:
        raise RecordError(f"no pods with the label {SERVICE}={args.service} in namespace {args.namespace}")
    pods = tuple(pod_state(item) for item in items)
    found = await asyncio.gather(*(_through_proxy(core, args, pod, at) for pod in pods))
    return Scrape(
        at, pods, {pod.uid: sample for pod, sample in zip(pods, found, strict=True) if sample is not None}
    )


async def _through_proxy(core: Any, args: argparse.Namespace, pod: PodState, at: float) -> PodSample | None:
    if pod.phase not in (PodPhase.READY, PodPhase.DRAINING):
        return None
    try:
        async with asyncio.timeout(args.interval):
            response = await core.connect_get_namespaced_pod_proxy_with_path(
                f"{pod.name}:{PUBLIC_PORT}", args.namespace, "metrics", _preload_content=False
            )
            return exposition.parse(await response.text(), at=at)
    except (ApiException, aiohttp.ClientError, OSError, TimeoutError, ValueError):
        return None
