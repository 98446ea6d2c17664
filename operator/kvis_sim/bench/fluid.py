"""The clairvoyant bound of one scenario and seed: its own traffic as a fluid of work, minute by minute.

The work of a minute is its arrivals over mu* of that minute's mix (reference H3) on the machine's prior.
Prefixes count as cached from their first appearance on, anywhere in the fleet: no cache can do better, so
the bound stays one.
"""

import random
from collections.abc import Iterable
from dataclasses import dataclass

from kvis_operator.scaling.capacity import Mix, Replica, capacity, rate
from kvis_sim.baselines.clairvoyant import replica_hours
from kvis_sim.bench.rows import Job, Row
from kvis_sim.scenarios.recipe import Recipe
from kvis_sim.workload import Request

SLOT_SECONDS = 60.0


@dataclass(slots=True)
class _Slot:
    requests: int = 0
    prompt: int = 0
    output: int = 0
    cached: int = 0


def clairvoyant_row(job: Job, recipe: Recipe) -> Row:
    slots = _slots(
        recipe.traffic.requests(random.Random(f"{job.seed}/requests"), duration=recipe.duration), recipe
    )
    first = int(recipe.warm_up // SLOT_SECONDS)
    load = [_replicas(slot, recipe) for slot in slots]
    hours = replica_hours(load[first:], slot_seconds=SLOT_SECONDS, start_seconds=recipe.start_seconds)
    return Row(
        scenario=job.scenario,
        family=job.method.family,
        method=job.method.label,
        seed=job.seed,
        offered=sum(slot.requests for slot in slots[first:]),
        attainment=1.0,
        replica_hours=hours,
        extra={"bound": True},
    )


def _slots(requests: Iterable[Request], recipe: Recipe) -> list[_Slot]:
    slots = [_Slot() for _ in range(int(recipe.duration // SLOT_SECONDS) + 1)]
    seen: set[int] = set()
    for request in requests:
        slot = slots[int(request.at // SLOT_SECONDS)]
        slot.requests += 1
        slot.prompt += request.prompt
        slot.output += request.output
        slot.cached += sum(block in seen for block in request.blocks) * recipe.block_size
        seen.update(request.blocks)
    return slots


def _replicas(slot: _Slot, recipe: Recipe) -> float:
    """Replicas kept busy by one minute's arrivals. A mix that no batch serves in time is worked off one by
    one.
    """
    if slot.requests == 0:
        return 0.0
    count = slot.requests
    mix = Mix(slot.prompt / count, slot.output / count, slot.cached / slot.prompt)
    machine = recipe.machine
    replica = Replica(
        machine.prior, machine.kv_capacity_tokens, machine.max_num_seqs, recipe.slo.tpot_seconds
    )
    best = capacity(replica, mix)
    served = best.rate if best.feasible else rate(machine.prior, mix, 1)
    return count / SLOT_SECONDS / served
