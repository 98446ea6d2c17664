"""The queue: serial per service, parallel across, patient with failures, deaf while nobody leads."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest

from kvis_operator.cluster.client import KubeError
from kvis_operator.observe.cluster import Key
from kvis_operator.reconcile.queue import STUBBORN, Pass, WorkQueue

A, B = Key("ns", "a"), Key("ns", "b")


@asynccontextmanager
async def running(
    look: Pass, *, workers: int = 4, errors: Counter[str] | None = None
) -> AsyncIterator[WorkQueue]:
    queue = WorkQueue(look, workers=workers, errors=errors, jitter=lambda: 0.0)
    task = asyncio.create_task(queue.run())
    await asyncio.sleep(0)
    yield queue
    task.cancel()
    await asyncio.wait({task})


async def until(check: Callable[[], bool], seconds: float = 2) -> None:
    async with asyncio.timeout(seconds):
        while not check():  # noqa: ASYNC110 - looked at from outside
            await asyncio.sleep(0.005)


async def test_one_service_is_never_looked_at_twice_at_once_and_a_wake_meanwhile_is_not_lost() -> None:
    looks, inside, gate = 0, 0, asyncio.Event()

    async def look(_: Key) -> float | None:
        nonlocal looks, inside
        looks, inside = looks + 1, inside + 1
        assert inside == 1
        await gate.wait()
        inside -= 1
        return None

    async with running(look) as queue:
        queue.wake(A)
        await until(lambda: looks == 1)
        queue.wake(A)
        queue.wake(A)
        gate.set()
        await until(lambda: looks == 2)
        await asyncio.sleep(0.05)
        assert looks == 2


async def test_a_service_that_hangs_does_not_delay_another() -> None:
    seen: list[Key] = []

    async def look(key: Key) -> float | None:
        if key == A:
            await asyncio.Event().wait()
        seen.append(key)
        return None

    async with running(look) as queue:
        queue.wake(A)
        queue.wake(B)
        await until(lambda: seen == [B])


async def test_a_pass_names_the_time_of_the_next() -> None:
    looks = 0

    async def look(_: Key) -> float | None:
        nonlocal looks
        looks += 1
        return 0.02

    async with running(look) as queue:
        queue.wake(A)
        await until(lambda: looks >= 3)


async def test_a_failure_is_tried_again_later_and_events_do_not_make_it_a_hot_loop() -> None:
    looks = 0

    async def look(_: Key) -> float | None:
        nonlocal looks
        looks += 1
        raise ValueError("broken")

    async with running(look) as queue:
        queue.wake(A)
        await until(lambda: looks == 1)
        for _ in range(20):
            queue.wake(A)
            await asyncio.sleep(0.005)
        assert looks == 1


async def failing(error: Exception, times: int) -> Counter[str]:
    """The errors counted once a look has failed so many times in a row."""
    looks, errors = 0, Counter[str]()

    async def look(_: Key) -> float | None:
        nonlocal looks
        looks += 1
        raise error

    async with running(look, errors=errors) as queue:
        for time in range(1, times + 1):
            queue.wake(A)
            queue._entries[A].due_at = 0.0
            queue._changed.set()
            await until(lambda time=time: looks == time)
            await until(lambda time=time: queue._entries[A].failures == time)
    return errors


async def test_somebody_who_was_faster_is_no_error_unless_it_goes_on() -> None:
    conflict = KubeError(409, "Conflict", "the object has been modified", {})
    assert await failing(conflict, STUBBORN - 1) == {}
    assert await failing(conflict, STUBBORN + 1) == {"KubeError": 2}


@pytest.mark.parametrize(
    "error",
    [
        KubeError(409, "AlreadyExists", "it exists", {}),
        KubeError(403, "Forbidden", "no", {}),
        ValueError("ours"),
    ],
    ids=str,
)
async def test_any_other_failure_is_an_error_at_once(error: Exception) -> None:
    assert await failing(error, 1) == {type(error).__name__: 1}


async def test_a_changed_spec_is_looked_at_at_once_whatever_failed_before() -> None:
    looks = 0

    async def look(_: Key) -> float | None:
        nonlocal looks
        looks += 1
        if looks == 1:
            raise ValueError("broken")
        return None

    async with running(look) as queue:
        queue.wake(A)
        await until(lambda: looks == 1)
        await asyncio.sleep(0.02)
        queue.wake(A, fresh=True)
        await until(lambda: looks == 2, seconds=0.5)


async def test_nothing_is_remembered_while_nobody_leads() -> None:
    async def look(_: Key) -> float | None:
        return None

    queue = WorkQueue(look)
    queue.wake(A)
    assert (queue.depth, queue.oldest_seconds()) == (0, 0.0)


async def test_a_pass_that_never_ends_shows_in_the_age() -> None:
    now = 0.0

    async def look(_: Key) -> float | None:
        await asyncio.Event().wait()
        return None

    queue = WorkQueue(look, clock=lambda: now)
    task = asyncio.create_task(queue.run())
    await asyncio.sleep(0)
    queue.wake(A)
    await asyncio.sleep(0.01)
    now = 200.0
    assert queue.oldest_seconds() == 200.0
    task.cancel()
    await asyncio.wait({task})


async def test_delays_grow_and_are_capped() -> None:
    queue = WorkQueue(lambda _: asyncio.sleep(0, None), jitter=lambda: 0.0)
    assert [queue._retry_seconds(n) for n in (1, 2, 3, 7, 50)] == [1, 2, 4, 60, 60]
