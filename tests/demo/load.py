"""Sends the traffic as a client would and keeps count: open loop, a connection a request, streamed answers.

One connection a request because a kept one would stick to the pod it first reached. A 429 is answered the
way a good client does (waits Retry-After, then asks again); anything else but a complete answer is lost.
"""

import asyncio
import json
import time
from collections.abc import Iterator
from dataclasses import dataclass, field

import httpx

from demo.traffic import Arrival, Phase, Prompt, arrivals

REQUEST_SECONDS = 300.0


@dataclass(slots=True)
class Tally:
    sent: int = 0
    ok: int = 0
    lost: int = 0
    refused: int = 0  # 429 answers, asked again later
    ttft_seconds: list[float] = field(default_factory=list)
    tpot_seconds: list[float] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)

    @property
    def in_flight(self) -> int:
        return self.sent - self.ok - self.lost


class Load:
    def __init__(self, base_url: str, model: str, *, verify: bool | str = True) -> None:
        self._base_url = base_url.rstrip("/")
        self._model = model
        self._verify = verify
        self._tasks: set[asyncio.Task[None]] = set()
        self.tally = Tally()

    async def play(self, phase: Phase, prompts: Iterator[Prompt], *, seed: int) -> None:
        """Sends a phase's requests at their times and returns when the last one is sent."""
        start = time.monotonic()
        for arrival in arrivals(phase, prompts, seed=seed):
            await asyncio.sleep(max(0.0, start + arrival.at - time.monotonic()))
            self._send(arrival)
        await asyncio.sleep(max(0.0, start + phase.seconds - time.monotonic()))

    async def finish(self) -> None:
        """Waits for every answer."""
        while self._tasks:
            await asyncio.wait(self._tasks)

    def _send(self, arrival: Arrival) -> None:
        self.tally.sent += 1
        task = asyncio.create_task(self._ask(arrival.prompt))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _ask(self, prompt: Prompt) -> None:
        try:
            async with asyncio.timeout(REQUEST_SECONDS):
                while (pause := await self._try_once(prompt)) is not None:
                    self.tally.refused += 1
                    await asyncio.sleep(pause)
        except (httpx.HTTPError, TimeoutError, ValueError) as fault:
            self._lose(f"{type(fault).__name__}: {fault}")

    async def _try_once(self, prompt: Prompt) -> float | None:
        """One request. Returns the seconds to wait when it was refused with 429, else None."""
        body = {
            "model": self._model,
            "prompt": list(prompt.tokens),
            "max_tokens": prompt.max_tokens,
            "ignore_eos": True,
            "temperature": 0,
            "stream": True,
        }
        start = time.monotonic()
        stamps: list[float] = []
        finished = None
        limits = httpx.Limits(max_keepalive_connections=0)
        async with (
            httpx.AsyncClient(timeout=REQUEST_SECONDS, limits=limits, verify=self._verify) as client,
            client.stream("POST", f"{self._base_url}/v1/completions", json=body) as answer,
        ):
            if answer.status_code == httpx.codes.TOO_MANY_REQUESTS:
                return float(answer.headers.get("retry-after", "1"))
            if answer.status_code != httpx.codes.OK:
                self._lose(f"HTTP {answer.status_code}: {(await answer.aread())[:200]!r}")
                return None
            async for line in answer.aiter_lines():
                if not line.startswith("data: {"):
                    continue
                event = json.loads(line.removeprefix("data: "))
                if "error" in event:
                    raise ValueError(f"error frame: {event['error']}")
                stamps.append(time.monotonic())
                finished = finished or next((choice["finish_reason"] for choice in event["choices"]), None)
        self._count(finished, start, stamps, prompt.max_tokens)
        return None

    def _count(self, finished: str | None, start: float, stamps: list[float], tokens: int) -> None:
        if finished not in ("length", "stop") or not stamps:
            self._lose(f"stream ended with finish_reason={finished} after {len(stamps)} events")
            return
        self.tally.ok += 1
        self.tally.ttft_seconds.append(stamps[0] - start)
        if tokens > 1:
            self.tally.tpot_seconds.append((stamps[-1] - stamps[0]) / (tokens - 1))

    def _lose(self, fault: str) -> None:
        self.tally.lost += 1
        self.tally.faults.append(fault)


def quantile(values: list[float], share: float) -> float | None:
    """Nearest-rank quantile; None of nothing."""
    if not values:
        return None
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]
