"""The books of one run: who arrived, who was served well, what it cost, what was decided.

Requests are booked by their minute of arrival; memory grows with minutes and with decisions, never with
requests.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from kvis_sim.meters import LogBins, PodMeter
from kvis_sim.pods import SimPod
from kvis_sim.result import DecisionRecord, MinuteCount, ReplicaPoint, Result, WholeRun
from kvis_sim.scenario import Scenario
from kvis_sim.sequences import Sequence
from kvis_sim.workload import Request

MINUTE = 60.0
GOOD_MINUTE = 0.95  # a minute with a smaller share of good requests is in violation


@dataclass(slots=True)
class Totals:
    """Sums over pods, dead ones included."""

    first_queries: int = 0
    first_hits: int = 0
    prompt_tokens: int = 0
    computed_prompt_tokens: int = 0
    generated_tokens: int = 0
    preemptions: int = 0
    preempted_tokens: int = 0

    def add(self, meter: PodMeter, sign: int = 1) -> None:
        for name in self.__slots__:
            setattr(self, name, getattr(self, name) + sign * getattr(meter, name))


class Ledger:
    """Receives every finished request (it is the replicas' sink) and what the cluster reports."""

    def __init__(self, scenario: Scenario) -> None:
        self._scenario = scenario
        self._from, self._to = scenario.warm_up, scenario.duration
        self._ttft_slo, self._tpot_slo = scenario.slo.ttft_seconds, scenario.slo.tpot_seconds
        minutes = int(scenario.duration // MINUTE) + 1
        self._offered = [0] * minutes
        self._good = [0] * minutes
        self._measured_finished = 0
        self._ttft, self._tpot, self._inter_token = LogBins(), LogBins(), LogBins()
        self._totals = Totals()
        self._before_rejected = self._before_lost = 0
        self.arrived = self.finished_count = self.rejected = self.lost = 0
        self.sojourn_seconds = 0.0
        self.output_tokens = self.generated_tokens = 0
        self.replica_seconds = 0.0
        self.max_alive = 0
        self.ticks = 0
        self.timeline: list[ReplicaPoint] = []
        self.decisions: list[DecisionRecord] = []
        self.actions = self.reversals = 0
        self._direction = 0

    # Requests

    def arrive(self, request: Request) -> None:
        self.arrived += 1
        if self._from <= request.at < self._to:
            self._offered[int(request.at // MINUTE)] += 1

    def finished(self, sequence: Sequence, now: float) -> None:
        request = sequence.request
        at, first, output = request.at, sequence.first_at, request.output
        self.finished_count += 1
        self.sojourn_seconds += now - at
        self.output_tokens += output
        if not self._from <= at < self._to:
            return
        self._measured_finished += 1
        ttft = first - at
        self._ttft.observe(ttft)
        good = ttft <= self._ttft_slo
        if output > 1:
            tpot = (now - first) / (output - 1)
            self._tpot.observe(tpot)
            good = good and tpot <= self._tpot_slo
        if good:
            self._good[int(at // MINUTE)] += 1

    def reject(self, request: Request) -> None:
        self.rejected += 1
        self._before_rejected += not self._from <= request.at < self._to

    def lose(self, request: Request) -> None:
        self.lost += 1
        self._before_lost += not self._from <= request.at < self._to

    # Pods

    def measured_from_now(self, pods: Iterable[SimPod]) -> None:
        """The warm-up ends: what the pods counted so far is taken off the totals."""
        for pod in pods:
            self._totals.add(pod.replica.meter, -1)
            self._inter_token.add(pod.replica.meter.inter_token, -1)

    def settle_pod(self, pod: SimPod, until: float) -> None:
        """A pod is gone at `until`, or the run ends: books its counters and its cost."""
        self.generated_tokens += pod.replica.meter.generated_tokens
        if until > self._from:
            self._totals.add(pod.replica.meter)
            self._inter_token.add(pod.replica.meter.inter_token)
        begin, end = max(pod.created_at, self._from), min(until, self._to)
        self.replica_seconds += max(0.0, end - begin)

    def fleet(self, at: float, desired: int, pods: Iterable[SimPod]) -> None:
        """Notes the fleet if it changed."""
        alive = ready = 0
        for pod in pods:
            alive += 1
            ready += pod.ready_at is not None and not pod.draining
        self.max_alive = max(self.max_alive, alive)
        last = self.timeline[-1] if self.timeline else None
        if last is None or (last.desired, last.ready, last.alive) != (desired, ready, alive):
            self.timeline.append(ReplicaPoint(at, desired, ready, alive))

    def decide(self, at: float, current: int, wanted: int, reason: str, numbers: Mapping[str, float]) -> None:
        """A tick's outcome; kept if it changes the level or the reason."""
        if wanted == current and self.decisions and self.decisions[-1].reason == reason:
            return
        self.decisions.append(DecisionRecord(at, current, wanted, reason, dict(numbers)))

    def act(self, at: float, change: int) -> None:
        """The wanted replicas really changed."""
        if at < self._from or not change:
            return
        direction = 1 if change > 0 else -1
        self.actions += 1
        self.reversals += self._direction == -direction
        self._direction = direction

    # The end

    def result(self, controller: str, seed: int, end: float) -> Result:
        offered, good = sum(self._offered), sum(self._good)
        rejected, lost = self.rejected - self._before_rejected, self.lost - self._before_lost
        totals = self._totals
        minutes = tuple(MinuteCount(o, g) for o, g in zip(self._offered, self._good, strict=True))
        return Result(
            scenario=self._scenario.name,
            controller=controller,
            seed=seed,
            offered=offered,
            good=good,
            finished=self._measured_finished,
            rejected=rejected,
            lost=lost,
            unfinished=offered - self._measured_finished - rejected - lost,
            replica_seconds=self.replica_seconds,
            ttft=self._ttft.quantiles(),
            tpot=self._tpot.quantiles(),
            inter_token=self._inter_token.quantiles(),
            actions=self.actions,
            reversals=self.reversals,
            violation_minutes=sum(m.good < GOOD_MINUTE * m.offered for m in minutes),
            minutes=minutes,
            hit_rate=totals.first_hits / totals.first_queries if totals.first_queries else None,
            prompt_tokens=totals.prompt_tokens,
            computed_prompt_tokens=totals.computed_prompt_tokens,
            generated_tokens=totals.generated_tokens,
            preemptions=totals.preemptions,
            preempted_tokens=totals.preempted_tokens,
            max_alive=self.max_alive,
            timeline=tuple(self.timeline),
            decisions=tuple(self.decisions),
            whole_run=self._whole_run(end),
        )

    def _whole_run(self, end: float) -> WholeRun:
        return WholeRun(
            arrived=self.arrived,
            finished=self.finished_count,
            rejected=self.rejected,
            lost=self.lost,
            in_flight=self.arrived - self.finished_count - self.rejected - self.lost,
            sojourn_seconds=self.sojourn_seconds,
            output_tokens=self.output_tokens,
            generated_tokens=self.generated_tokens,
            end=end,
            ticks=self.ticks,
        )
