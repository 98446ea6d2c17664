"""What only the leader does: look at every service again and again, from a whole listing on.

Leading begins with a listing, so that nothing is decided on a stale view, and repeats it at intervals.
Between, events wake single services and ticks come by themselves.
"""

import asyncio
import logging
from collections.abc import Sequence

from kvis_operator.cluster.client import KubeError, UnreachableError
from kvis_operator.cluster.listing import list_everything
from kvis_operator.observe.cluster import key_of
from kvis_operator.reconcile.queue import WorkQueue
from kvis_operator.reconcile.world import World

logger = logging.getLogger(__name__)

RETRY_SECONDS = 2.0


async def lead(world: World, queue: WorkQueue, *, namespaces: Sequence[str], resync_seconds: float) -> None:
    """Until cancelled, or until something of our own fails."""
    await synchronise(world, namespaces)
    world.memories.clear()  # another may have led since: what it wrote is in the statuses
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(queue.run())
        await asyncio.sleep(0)  # let it begin: it takes wakes only while it runs
        while True:
            for service in world.view.services():
                queue.wake(key_of(service))
            await asyncio.sleep(resync_seconds)
            await synchronise(world, namespaces)


async def synchronise(world: World, namespaces: Sequence[str]) -> None:
    """Replace the view by a whole listing; an API server that does not answer is waited for."""
    while True:
        try:
            listings = await list_everything(world.kube, namespaces)
        except (KubeError, UnreachableError) as error:
            logger.warning("Failed to list the cluster", extra={"error": str(error)})
            await asyncio.sleep(RETRY_SECONDS)
            continue
        for resource, items, version in listings:
            world.view.replace_all(resource.kind, items, version)
        return
