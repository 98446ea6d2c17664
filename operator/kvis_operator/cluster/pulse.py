"""The pulse of the watches: when the API server last answered each of them.

Every watch ends after at most a minute and is opened again (handlers.py sets the time-outs), so a healthy
one beats at least that often even when nothing happens. A watch that stalls, or whose task has died, stops
beating.
"""

import time
from collections.abc import Callable
from types import SimpleNamespace

import aiohttp


class WatchPulse:
    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._beats: dict[str, float] = {}

    def expect(self, path: str) -> None:
        """Count `path` as watched from now on, even if it never beats."""
        self._beats.setdefault(path, self._clock())

    def beat(self, path: str) -> None:
        self._beats[path] = self._clock()

    def ages(self) -> dict[str, float]:
        """Seconds since the last answer, by path of the watch."""
        now = self._clock()
        return {path: now - at for path, at in self._beats.items()}

    def trace(self) -> aiohttp.TraceConfig:
        """Makes a client session beat whenever a watch is answered with success."""
        config = aiohttp.TraceConfig()

        async def ended(
            session: aiohttp.ClientSession, context: SimpleNamespace, params: aiohttp.TraceRequestEndParams
        ) -> None:
            if params.url.query.get("watch") == "true" and params.response.status < 300:
                self.beat(params.url.path)

        config.on_request_end.append(ended)
        return config
