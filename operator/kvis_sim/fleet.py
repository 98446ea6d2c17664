"""The pods of one simulated service and the router in front of them.

Keeps three lists in step: pods by age, their engines' next times, and the positions of those that take new
requests. A request waits at the router while nobody is ready; a pod that dies hands back what it held.
"""

import random
from collections import deque
from collections.abc import Callable, Sequence

from kvis_operator.signals.observation import PodPhase
from kvis_sim import sequences
from kvis_sim.engine import NEVER
from kvis_sim.ledger import Ledger
from kvis_sim.paged_kv import PrefixIndex
from kvis_sim.pods import PodFactory, SimPod
from kvis_sim.router import ConsistentHash, LeastLoaded, PrefixAware, RoundRobin, Router
from kvis_sim.scenario import RouterKind, Scenario

Effect = Callable[[float], None]
Schedule = Callable[[float, Effect], None]


def _router(scenario: Scenario, index: PrefixIndex | None, rng: random.Random) -> Router:
    match scenario.router:
        case RouterKind.ROUND_ROBIN:
            return RoundRobin()
        case RouterKind.LEAST_LOADED:
            return LeastLoaded()
        case RouterKind.CONSISTENT_HASH:
            return ConsistentHash(rng)
        case RouterKind.PREFIX_AWARE:
            assert index is not None, "a prefix-aware router comes with an index"
            return PrefixAware(index, scenario.block_size)


class Fleet:
    """`schedule` puts an effect on the cluster's agenda; `not_before` says when a pod created now may be
    ready.
    """

    def __init__(
        self,
        scenario: Scenario,
        ledger: Ledger,
        seed: int,
        schedule: Schedule,
        not_before: Callable[[], float],
    ) -> None:
        self._scenario = scenario
        self._ledger = ledger
        self._schedule = schedule
        self._capacity_tokens = scenario.kv_capacity_tokens // scenario.block_size * scenario.block_size
        self._not_before = not_before
        index = PrefixIndex() if scenario.router is RouterKind.PREFIX_AWARE else None
        self._factory = PodFactory(scenario, ledger, seed, index)
        self._router = _router(scenario, index, random.Random(f"{seed}/router"))
        self.pods: list[SimPod] = []
        self._times: list[float] = []
        self._due = NEVER  # the earliest of them
        self._targets: list[int] = []
        self._unrouted: deque[sequences.Sequence] = deque()
        self.desired = scenario.initial_replicas

    def start(self) -> None:
        """The initial replicas are ready, their caches cold."""
        for _ in range(self.desired):
            pod = self._factory.create(0.0)
            pod.phase, pod.ready_at = PodPhase.READY, 0.0
            self.pods.append(pod)
        self._changed(0.0)

    # Work

    def advance(self, until: float) -> None:
        """Lets the engines work until nothing of theirs is due at or before `until`."""
        if self._due > until:
            return
        times = self._times
        while (due := min(times, default=NEVER)) <= until:
            position = times.index(due)
            pod = self.pods[position]
            replica = pod.replica
            replica.step_end()
            times[position] = replica.next_time
            if pod.draining and not replica.in_flight:
                self.terminate(pod, due)
                times = self._times
        self._due = due

    def route(self, sequence: sequences.Sequence, now: float) -> None:
        targets = self._targets
        if not targets:
            self._unrouted.append(sequence)
            return
        request = sequence.request
        position = targets[self._router.choose(request)] if len(targets) > 1 else targets[0]
        replica = self.pods[position].replica
        if request.prompt + request.output > self._capacity_tokens:
            self._ledger.reject(request)
            return
        replica.add(sequence, now)
        self._times[position] = due = replica.next_time
        if due < self._due:
            self._due = due

    def set_cap(self, pod: SimPod, cap: int, now: float) -> None:
        pod.replica.set_cap(cap, now)
        self._times[self.pods.index(pod)] = pod.replica.next_time
        self._due = min(self._times)

    # Size

    @property
    def ready(self) -> list[SimPod]:
        return [self.pods[i] for i in self._targets]

    def scale(self, desired: int, victims: Sequence[str], now: float) -> None:
        """Creates pods, or stops the named ones first and then whoever costs least to stop."""
        self.desired = desired
        staying = [pod for pod in self.pods if not pod.draining]
        for _ in range(desired - len(staying)):
            self._create(now)
        order = {name: rank for rank, name in enumerate(victims)}
        last = len(order)
        staying.sort(
            key=lambda pod: (
                min(order.get(pod.name, last), order.get(pod.uid, last)),
                pod.phase is PodPhase.READY,
                pod.replica.in_flight,
                -pod.ordinal,
            )
        )
        for pod in staying[: max(0, len(staying) - desired)]:
            self._stop(pod, now)
        self._changed(now)

    def kill(self, pod: SimPod, now: float) -> None:
        """The pod dies with its node; a replacement is created at once."""
        self.terminate(pod, now)
        self.scale(self.desired, (), now)

    def terminate(self, pod: SimPod, now: float) -> None:
        """Takes the pod out, with whatever it still holds."""
        self.pods.remove(pod)
        held = pod.replica.abandon()
        self._ledger.settle_pod(pod, now)
        self._factory.release(pod)
        self._changed(now)
        for sequence in held:
            if sequence.first_at < 0.0:
                self.route(sequences.Sequence(sequence.request), now)  # no token was sent: it is asked again
            else:
                self._ledger.lose(sequence.request)

    def _create(self, now: float) -> None:
        pod = self._factory.create(now)
        self.pods.append(pod)
        ready = max(now + pod.start_seconds, self._not_before())
        self._schedule(ready, lambda at: self._ready(pod, at))

    def _ready(self, pod: SimPod, now: float) -> None:
        if pod not in self.pods:
            return
        pod.phase, pod.ready_at = PodPhase.READY, now
        self._changed(now)
        waiting, self._unrouted = self._unrouted, deque()
        for sequence in waiting:
            self.route(sequence, now)

    def _stop(self, pod: SimPod, now: float) -> None:
        if not pod.replica.in_flight:
            self.terminate(pod, now)
            return
        pod.drain()
        self._schedule(now + self._scenario.drain_grace, lambda at: self._out_of_grace(pod, at))

    def _out_of_grace(self, pod: SimPod, now: float) -> None:
        if pod in self.pods:
            self.terminate(pod, now)

    def _changed(self, now: float) -> None:
        self._times = [pod.replica.next_time for pod in self.pods]
        self._due = min(self._times, default=NEVER)
        self._targets = [i for i, pod in enumerate(self.pods) if pod.phase is PodPhase.READY]
        self._router.changed(self.ready)
        self._ledger.fleet(now, self.desired, self.pods)
