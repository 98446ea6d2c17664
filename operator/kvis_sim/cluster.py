"""The simulated cluster: pods that start, serve, drain and die; a router; a controller that is asked every
tick.

One loop over three sources in order of time: engines (whose stretch of steps ends first), arrivals, and an
agenda of everything else (ticks, pods becoming ready, faults, effects of actions). Ties go to the engines,
then the agenda. A run is a function of scenario, controller and seed.
"""

import random
from collections.abc import Sequence
from heapq import heappop, heappush

from kvis_sim import sequences
from kvis_sim.controller import Alertable, Controller, ControllerAction, Restartable
from kvis_sim.engine import NEVER
from kvis_sim.fleet import Effect, Fleet
from kvis_sim.ledger import Ledger
from kvis_sim.pods import EPOCH, SimPod
from kvis_sim.result import Result
from kvis_sim.scenario import Fault, FaultKind, Scenario
from kvis_sim.scrape import Scraper
from kvis_sim.workload import Request, TraceError

EVERY_POD = frozenset({FaultKind.SCRAPE_LOSS})
POD_FAULTS = frozenset(
    {
        FaultKind.SCRAPE_LOSS,
        FaultKind.NAN,
        FaultKind.FROZEN,
        FaultKind.RENAMED,
        FaultKind.DEAD_HITS,
    }
)


def simulate(scenario: Scenario, controller: Controller, *, seed: int) -> Result:
    """Runs the scenario to its end. `controller` must be fresh: it remembers.

    Raises TraceError when the request stream goes back in time or has impossible lengths.
    """
    return _Simulation(scenario, controller, seed).run()


class _Simulation:
    def __init__(self, scenario: Scenario, controller: Controller, seed: int) -> None:
        self._scenario = scenario
        self._controller = controller
        self._seed = seed
        self._end = scenario.duration + scenario.settle
        self._ledger = Ledger(scenario)
        self._fleet = Fleet(scenario, self._ledger, seed, self._at, self._pods_ready_not_before)
        self._scraper = Scraper(scenario, random.Random(f"{seed}/scrape"))
        self._agenda: list[tuple[float, int, Effect]] = []
        self._agenda_order = 0
        self._faults: dict[Fault, frozenset[int]] = {}  # those under way, with the ordinals of their pods

    def run(self) -> Result:
        self._prepare()
        arrivals = self._scenario.requests(random.Random(f"{self._seed}/requests"))
        request = next(arrivals, None)
        agenda, advance, last = self._agenda, self._fleet.advance, -NEVER
        while True:
            arrival = NEVER if request is None else request.at
            other = agenda[0][0]
            advance(arrival if arrival < other else other)
            if other <= arrival or request is None:
                now, _, effect = heappop(agenda)
                effect(now)
                if now >= self._end:
                    return self._finish(now)
                continue
            if arrival < last:
                raise TraceError(
                    f"scenario {self._scenario.name}: a request at {arrival} s follows one at {last} s"
                )
            last = arrival
            request = next(arrivals, None) if self._arrive(request) else None

    def _arrive(self, request: Request) -> bool:
        """False: the offered traffic is over."""
        if request.at >= self._scenario.duration:
            return False
        if request.at < 0.0 or request.prompt < 1 or request.output < 1:
            raise TraceError(
                f"scenario {self._scenario.name}: a request at {request.at} s with {request.prompt} prompt "
                f"and {request.output} output tokens; times start at 0, both lengths at 1"
            )
        self._ledger.arrive(request)
        self._fleet.route(sequences.Sequence(request), request.at)
        return True

    # The agenda

    def _at(self, when: float, effect: Effect) -> None:
        self._agenda_order += 1
        heappush(self._agenda, (when, self._agenda_order, effect))

    def _prepare(self) -> None:
        self._fleet.start()
        self._at(self._end, lambda _: None)
        self._at(0.0, self._tick)
        self._at(self._scenario.warm_up, lambda _: self._ledger.measured_from_now(self._fleet.pods))
        for fault in self._scenario.faults:
            self._at(fault.start, self._opening(fault))

    def _finish(self, now: float) -> Result:
        for pod in self._fleet.pods:
            self._ledger.settle_pod(pod, now)
        return self._ledger.result(self._controller.name, self._seed, now)

    # Deciding

    def _tick(self, now: float) -> None:
        self._at(now + self._controller.interval, self._tick)
        if any(fault.kind is FaultKind.CONTROLLER_DOWN for fault in self._faults):
            return
        pods = self._fleet.pods
        samples = {}
        for pod in pods:
            if pod.ready_at is not None:
                sample = self._scraper.scrape(pod, now, self._faults_of(pod))
                if sample is not None:
                    samples[pod.uid] = sample
        action = self._controller.tick(EPOCH + now, [pod.state() for pod in pods], samples)
        self._ledger.ticks += 1
        wanted = self._within_bounds(action.replicas)
        self._ledger.decide(now, self._fleet.desired, wanted, action.reason, action.numbers)
        if wanted != self._fleet.desired or action.caps:
            self._at(now + self._scenario.api_delay, lambda at: self._apply(action, wanted, at))

    def _within_bounds(self, replicas: int | None) -> int:
        if replicas is None:
            return self._fleet.desired
        return max(self._scenario.min_replicas, min(replicas, self._scenario.max_replicas))

    def _apply(self, action: ControllerAction, wanted: int, now: float) -> None:
        if any(fault.kind is FaultKind.API_REFUSED for fault in self._faults):
            return
        for pod in self._fleet.pods:
            cap = action.caps.get(pod.uid)
            if cap is not None and cap != pod.replica.cap:
                self._fleet.set_cap(pod, cap, now)
        if wanted != self._fleet.desired:
            self._ledger.act(now, wanted - self._fleet.desired)
            self._fleet.scale(wanted, action.victims, now)

    # Faults

    def _faults_of(self, pod: SimPod) -> Sequence[Fault]:
        if not self._faults:
            return ()
        return [
            fault
            for fault, ordinals in self._faults.items()
            if fault.kind in POD_FAULTS and (pod.ordinal in ordinals or fault.kind in EVERY_POD)
        ]

    def _pods_ready_not_before(self) -> float:
        return max((f.end for f in self._faults if f.kind is FaultKind.STUCK_PENDING), default=0.0)

    def _opening(self, fault: Fault) -> Effect:
        return lambda now: self._open(fault, now)

    def _open(self, fault: Fault, now: float) -> None:
        hit = self._fleet.ready[: fault.pods]
        self._faults[fault] = frozenset(pod.ordinal for pod in hit)
        self._at(fault.end, lambda at: self._close(fault, at))
        match fault.kind:
            case FaultKind.NODE_LOST:
                for pod in hit:
                    self._fleet.kill(pod, now)
            case FaultKind.SLOW_POD:
                for pod in hit:
                    pod.replica.slowness *= fault.factor
            case FaultKind.COUNTER_RESET:
                for pod in hit:
                    self._scraper.reset_counters(pod, now)
            case FaultKind.CONTROLLER_RESTART if isinstance(self._controller, Restartable):
                self._controller.restart(state_lost=fault.fraction > 0.0)
            case FaultKind.ALERT_STORM if isinstance(self._controller, Alertable):
                self._controller.alert(EPOCH + now, firing=True, count=fault.pods)
            case _:
                pass

    def _close(self, fault: Fault, now: float) -> None:
        ordinals = self._faults.pop(fault)
        if fault.kind is FaultKind.SLOW_POD:
            for pod in self._fleet.pods:
                if pod.ordinal in ordinals:
                    pod.replica.slowness /= fault.factor
        if fault.kind is FaultKind.ALERT_STORM and isinstance(self._controller, Alertable):
            self._controller.alert(EPOCH + now, firing=False, count=fault.pods)
