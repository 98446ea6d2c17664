"""Fetching `/metrics` of a service's pods at once, each with its own deadline and size limit.

A pod that refuses, hangs, answers with an error or with too much is simply absent from the result: what
could not be read is unknown, never zero. Nothing here raises for a pod's fault, and one hung pod costs at
most its own deadline.
"""

import asyncio
import logging
import time
from collections.abc import Iterable
from dataclasses import dataclass

import aiohttp

from kvis_kv.flags import PUBLIC_PORT
from kvis_operator.observe.pods import PodEndpoint
from kvis_operator.signals import exposition
from kvis_operator.signals.sample import PodSample

logger = logging.getLogger(__name__)

MAX_BODY_BYTES = 1 << 20
CHUNK_BYTES = 1 << 16


@dataclass(frozen=True, slots=True)
class ScrapeLimits:
    """`seconds` bounds one pod's scrape and must stay below the tick; `at_once` bounds all services
    together.
    """

    seconds: float = 3.0
    at_once: int = 64


class Scraper:
    """Owns nothing but the right to a share of the connections. Call `close` when done."""

    def __init__(self, limits: ScrapeLimits, *, port: int = PUBLIC_PORT) -> None:
        self._limits = limits
        self._port = port
        self._slots = asyncio.Semaphore(limits.at_once)
        # Pods are reached directly: a proxy from the environment has no business between us and them.
        self._session = aiohttp.ClientSession(trust_env=False, connector=aiohttp.TCPConnector(limit=0))

    async def close(self) -> None:
        await self._session.close()

    async def scrape(self, pods: Iterable[PodEndpoint]) -> dict[str, PodSample]:
        """Samples by pod UID, of those pods that answered properly in time."""
        wanted = tuple(pods)
        samples = await asyncio.gather(*(self._sample(pod) for pod in wanted))
        return {pod.uid: sample for pod, sample in zip(wanted, samples, strict=True) if sample is not None}

    async def _sample(self, pod: PodEndpoint) -> PodSample | None:
        try:
            async with self._slots, asyncio.timeout(self._limits.seconds):
                at = time.time()
                text = await self._fetch(pod)
                return exposition.parse(text, at=at)
        except (aiohttp.ClientError, OSError, TimeoutError, ValueError) as error:
            logger.debug(
                "Failed to scrape pod", extra={"pod": pod.name, "error": str(error) or type(error).__name__}
            )
            return None

    async def _fetch(self, pod: PodEndpoint) -> str:
        url = pod.url(self._port, "/metrics")
        async with self._session.get(
            url, allow_redirects=False, headers={"Accept": "text/plain"}
        ) as response:
            if response.status != 200:
                raise ValueError(f"status {response.status}")
            body = bytearray()
            async for chunk in response.content.iter_chunked(CHUNK_BYTES):
                body += chunk
                if len(body) > MAX_BODY_BYTES:
                    raise ValueError(f"more than {MAX_BODY_BYTES} bytes")
        return body.decode("utf-8", "replace")
