"""Waiting for something to become true, without a fixed sleep."""

import asyncio
from collections.abc import Callable


async def eventually(condition: Callable[[], bool], seconds: float = 10.0) -> None:
    """Return as soon as `condition` holds; TimeoutError when it does not within `seconds`."""
    async with asyncio.timeout(seconds):
        while True:
            if condition():
                return
            await asyncio.sleep(0.005)
