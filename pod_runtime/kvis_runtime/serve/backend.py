"""The engine as the server sees it.

`kvis_runtime.model.llm.Engine` is the real one, `scripted_engine` the test double; neither is thread-safe.
"""

from typing import Protocol

from kvis_runtime.engine.request import EngineStats, Output, Request


class Backend(Protocol):
    """Continuous batching behind six calls, all made from one thread."""

    def add(self, request: Request) -> None:
        """Queue a request; ValueError when it can never be served."""

    def abort(self, request_id: str) -> object:
        """Drop a request and free its blocks; an unknown one is ignored."""

    def step(self) -> list[Output]:
        """Compute one step and return what it produced."""

    def has_work(self) -> bool:
        """Whether a request waits or runs."""

    def set_cap(self, cap: int) -> int:
        """Limit the running requests, within the ceiling; returns the cap that now holds."""

    def reset_prefix_cache(self) -> object:
        """Forget cached prefixes that no request holds."""

    def stats(self) -> EngineStats:
        """Return counters and gauges; cheap, called after every step."""
