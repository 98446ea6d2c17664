"""One look at one service: gather → decide → apply → report → when to look again.

Level-based: nothing here relies on an event having been seen, and a pass over an unchanged service writes
nothing. What a person got wrong becomes a condition; what the world got wrong is raised and tried again by
the queue.
"""

import time
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime

from kvis_operator.api.conditions import ConditionType, Reason
from kvis_operator.api.status import MAX_DECISIONS, DecisionStatus, Status
from kvis_operator.cluster.apply import NameTakenError
from kvis_operator.cluster.client import KubeError
from kvis_operator.cluster.events import Notice, tell
from kvis_operator.cluster.resources import SERVICES
from kvis_operator.cluster.status import patch_status
from kvis_operator.diagnose.pods import Fault
from kvis_operator.observe.cluster import Key
from kvis_operator.reconcile import notices
from kvis_operator.reconcile.act import Outcome, act
from kvis_operator.reconcile.deliberate import Intent, deliberate
from kvis_operator.reconcile.figures import note
from kvis_operator.reconcile.gather import Scene, gather
from kvis_operator.reconcile.history import history
from kvis_operator.reconcile.intake import Refusal, Refused
from kvis_operator.reconcile.report import compose, delay
from kvis_operator.reconcile.world import Memory, World

WAITING_SECONDS = 1.0
"""Until a step that waits for a watch is looked at again, should the watch be late."""

SHORTEST_SECONDS = 0.05


@dataclass(frozen=True, slots=True)
class Result:
    """What one pass came to. `refusal` None: the service is being served."""

    outcome: Outcome
    intent: Intent | None = None
    refusal: Refusal | None = None
    error: KubeError | None = None


async def one_pass(key: Key, *, world: World) -> float | None:
    """Seconds until the next look; None when there is nothing to look at any more."""
    started = time.monotonic()
    service = world.view.service(key)
    if service is None:
        world.journal.forget(key)
        world.forget_all_but({body["metadata"]["uid"] for body in world.view.services()})
        return None
    if service["metadata"].get("deletionTimestamp"):
        return None  # garbage collection takes the children
    memory = world.memory_of(service)
    scene = await gather(world, service, memory)
    result = await _serve(world, scene, memory)
    wait = await _report(world, scene, memory, result)
    note(world.journal, key, scene, memory, result.intent, seconds=time.monotonic() - started)
    if result.error is not None:
        raise result.error
    return _next_look(world, memory, result, wait)


async def _serve(world: World, scene: Scene, memory: Memory) -> Result:
    """Decide and carry out. A refusal touches nothing that runs: what serves goes on serving."""
    unchanged = Outcome(version=scene.service["metadata"]["resourceVersion"])
    subject = scene.subject
    if isinstance(subject, Refused):
        return Result(unchanged, refusal=subject.refusal)
    intent = deliberate(scene, subject, memory, world.times)
    try:
        outcome = await act(world, scene, subject, memory, intent)
    except NameTakenError as error:
        refusal = Refusal(
            ConditionType.ACCEPTED, Reason.NAME_TAKEN, f"{error}: rename the service or that object"
        )
        return Result(unchanged, refusal=refusal)
    except KubeError as error:
        if error.status == 409:
            raise  # somebody was faster: look again at what there is now
        return Result(unchanged, intent, error=error)
    return Result(outcome, intent)


async def _report(world: World, scene: Scene, memory: Memory, result: Result) -> float | None:
    """Write status and events where due; returns the seconds until a status that has to wait may be
    written.
    """
    stored = scene.service.get("status") or {}
    before = Status.restore(stored)
    told = history(before, scene, memory, result.intent, result.outcome)
    memory.untold = (*told, *memory.untold)[:MAX_DECISIONS]
    after = compose(before, scene, memory, intent=result.intent, refusal=result.refusal, fault=_fault(result))
    document = after.to_dict()
    wait = delay(stored, document, memory, world.times, now=scene.steady)
    news = [*_deeds(world, told, result)]
    if wait == 0.0 or result.outcome.replicas_written is not None:
        written = await patch_status(world.kube, scene.service, document, result.outcome.version)
        world.view.put(SERVICES.kind, written)
        memory.status_at, memory.untold, wait = scene.steady, (), None
        news += notices.of_transitions(before.conditions, after.conditions)
    at = datetime.fromtimestamp(scene.now, UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")
    for notice in news:
        await tell(world.kube, scene.service, notice, at=at, instance=world.identity)
    return wait


def _fault(result: Result) -> Fault | None:
    """What the API server said no to: a quota, a missing right, a value it does not take."""
    if result.error is None:
        return None
    return Fault(Reason.CREATE_REFUSED, f"The API server refused a child: {result.error.message}")


def _deeds(world: World, told: tuple[DecisionStatus, ...], result: Result) -> Iterator[Notice]:
    yield from (notices.of_decision(decision) for decision in told if decision.outcome == "Applied")
    yield from (notices.of_taken_back(change) for change in result.outcome.took_back)
    wish = result.intent.standing.taken_back if result.intent else None
    if wish is not None and result.outcome.replicas_written is not None:
        yield notices.of_wish_taken_back(wish, result.outcome.replicas_written, world.times.manual_hold)


def _next_look(world: World, memory: Memory, result: Result, wait: float | None) -> float:
    looks = [memory.next_tick_at - world.steady()]
    if wait is not None:
        looks.append(wait)
    if result.outcome.is_waiting:
        looks.append(WAITING_SECONDS)
    if result.intent is not None and result.intent.standing.held_until is not None:
        looks.append(result.intent.standing.held_until - world.now())
    return max(SHORTEST_SECONDS, min(looks))
