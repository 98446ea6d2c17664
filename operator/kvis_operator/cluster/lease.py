"""One operator acts at a time: election by `kubernetes.aio.leaderelection`, made safe to write by.

The library elects; what it leaves open is closed here:
- it catches API errors only, so every transport error, time-out and unreadable answer becomes a failed try;
- it looks at the renew deadline between tries only, so each call on the lock is cut off after `CALL_SECONDS`;
- it counts by the wall clock, so writes are allowed by the fence, which counts by the monotonic one;
- a holder of our own name would be taken for us, so the identity is new with each process start;
- it never lets go, so `release` clears the holder when our writes have ended.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

import aiohttp
from kubernetes.aio import client
from kubernetes.aio.client.exceptions import ApiException
from kubernetes.aio.leaderelection import leaderelection
from kubernetes.aio.leaderelection.electionconfig import Config
from kubernetes.aio.leaderelection.leaderelectionrecord import LeaderElectionRecord
from kubernetes.aio.leaderelection.resourcelock import leaselock

from kvis_operator.cluster.fence import Fence

logger = logging.getLogger(__name__)

CALL_SECONDS = 6.0
"""Above a slow API server's 5 s, below the renew deadline, so that one hung call cannot outlast the lease."""

FAILURES = (aiohttp.ClientError, OSError, TimeoutError, ValueError)


@dataclass(frozen=True, slots=True)
class LeaseTimings:
    """Whole seconds, as a Lease stores them. The library demands lease > renew > 1.2 * retry."""

    lease: int = 15
    renew: int = 10
    retry: int = 2


class LeaseLock(leaselock.LeaseLock):  # type: ignore[misc]  # the library is untyped here
    """The library's Lease lock with bounded calls; a successful write by us opens the fence."""

    def __init__(
        self,
        *,
        name: str,
        namespace: str,
        identity: str,
        api: client.ApiClient,
        fence: Fence,
        call_seconds: float = CALL_SECONDS,
    ) -> None:
        super().__init__(name, namespace, identity, api)
        self._fence = fence
        self._call_seconds = call_seconds
        self.answered_at: float | None = None  # monotonic; the last time the API server answered at all

    async def get(self, name: str, namespace: str) -> tuple[bool, Any]:
        try:
            async with asyncio.timeout(self._call_seconds):
                answer: tuple[bool, Any] = await super().get(name, namespace)
        except FAILURES as error:
            return False, ApiException(status=0, reason=str(error) or type(error).__name__)
        self.answered_at = self._fence.now()
        return answer

    async def create(self, name: str, namespace: str, election_record: LeaderElectionRecord) -> bool:
        return await self._written(self._create(name, namespace, election_record))

    async def update(self, name: str, namespace: str, updated_record: LeaderElectionRecord) -> bool:
        return await self._written(super().update(name, namespace, updated_record))

    async def _create(self, name: str, namespace: str, election_record: LeaderElectionRecord) -> bool:
        """NOTE: the library's own call passes an argument that its client refuses (37.0.2)."""
        spec = self.update_lease(election_record)
        body = client.V1Lease(metadata=client.V1ObjectMeta(name=name), spec=spec)
        try:
            await self.api_instance.create_namespaced_lease(namespace, body)
        except ApiException as error:
            logger.warning("Failed to create the lease", extra={"status": error.status})
            return False
        return True

    async def _written(self, call: Awaitable[bool]) -> bool:
        sent_at = self._fence.now()
        try:
            async with asyncio.timeout(self._call_seconds):
                succeeded = await call
        except FAILURES as error:
            logger.warning("Failed to write the lease", extra={"error": str(error) or type(error).__name__})
            return False
        self.answered_at = self._fence.now()
        if succeeded:
            self._fence.renew(sent_at)
        return succeeded

    async def is_ours(self) -> bool:
        """A live look: does the lease name this process? No answer counts as no."""
        try:
            async with asyncio.timeout(self._call_seconds):
                lease = await self.api_instance.read_namespaced_lease(self.name, self.namespace)
        except (ApiException, *FAILURES):
            return False
        return bool(lease.spec and lease.spec.holder_identity == self.identity)

    async def release(self) -> None:
        """Let go, so that a standby can take over at its next try. Another's lease is left as it is."""
        self._fence.revoke()
        try:
            async with asyncio.timeout(self._call_seconds):
                lease = await self.api_instance.read_namespaced_lease(self.name, self.namespace)
                if lease.spec is None or lease.spec.holder_identity != self.identity:
                    return
                lease.spec.holder_identity = None  # the resource version read above is the precondition
                await self.api_instance.replace_namespaced_lease(self.name, self.namespace, lease)
        except (ApiException, *FAILURES) as error:
            logger.warning("Failed to release the lease", extra={"error": str(error) or type(error).__name__})


async def lead_while_elected(
    lock: LeaseLock, fence: Fence, timings: LeaseTimings, lead: Callable[[], Awaitable[None]]
) -> None:
    """Wait for the lease, run `lead`, and return or raise as soon as either the lease or `lead` ends.

    The fence is closed before this returns, however it ends; the caller then exits the process. On
    cancelling, `lead` ends first, then the lease is released.
    """
    elected = asyncio.Event()
    election = asyncio.create_task(_run_election(lock, timings, elected))
    leading = asyncio.create_task(_after(elected, lead))
    try:
        done, _ = await asyncio.wait({election, leading}, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            task.result()
    except asyncio.CancelledError:
        await _cancelled(leading)
        await _cancelled(election)
        if elected.is_set():
            await lock.release()
        raise
    finally:
        fence.revoke()
        await _cancelled(leading)
        await _cancelled(election)


async def _run_election(lock: LeaseLock, timings: LeaseTimings, elected: asyncio.Event) -> None:
    """The library's election: sets `elected` when the lease is ours, returns when it is lost."""

    async def begin() -> None:
        elected.set()

    async def stop() -> None:
        logger.error("Lost the lease")

    config = Config(
        lock, timings.lease, timings.renew, timings.retry, onstarted_leading=begin, onstopped_leading=stop
    )
    await leaderelection.LeaderElection(config).run()


async def _after(event: asyncio.Event, action: Callable[[], Awaitable[None]]) -> None:
    await event.wait()
    logger.info("Became the leader")
    await action()


async def _cancelled(task: "asyncio.Task[None]") -> None:
    """End `task` and wait for it; what it raised was reported by whoever waited for it first."""
    task.cancel()
    await asyncio.wait({task})
