"""Plus-one guard: symptoms of overload that the model did not predict (reference H5.2).

Fires on requests waiting or KV full on a third of the pods for 3 ticks, on a latency objective missed for 2 minutes,
or on preemptions for 2 minutes. It adds one replica and then waits a start time. Firing twice without the model
agreeing means that the model is too optimistic: the margin widens by .05 (at most by .25) and comes back by .01/h.
A missed latency objective counts only where another replica could help: requests wait, or the replicas are busy.
"""

from dataclasses import dataclass, replace
from typing import Final

from kvis_operator.scaling.decision import Reason
from kvis_operator.signals.observation import Observation, PodPhase

CROWDED_SHARE: Final = 1 / 3
CROWDED_WAITING: Final = 3.0
CROWDED_KV: Final = 0.95
CROWDED_TICKS: Final = 3
SLO_SECONDS: Final = 120.0
SETTLING_SECONDS: Final = 120.0  # the window of the latency signals
PREEMPTIONS_PER_REQUEST: Final = 0.05
PREEMPTION_SECONDS: Final = 120.0
QUEUE_PER_POD: Final = 1.0
NEAR_FULL_SHARE: Final = 0.85
BUSY_SHARE: Final = 0.5  # of capacity; below it and with no queue, latency is not for want of replicas
MARGIN_STEP: Final = 0.05
WIDEST_MARGIN: Final = 0.25  # rho_up .85 -> floor .60
MARGIN_REGAIN_PER_SECOND: Final = 0.01 / 3600.0


@dataclass(frozen=True, slots=True)
class Symptoms:
    """What is wrong at one tick; None cannot be told."""

    crowded: bool | None
    crowded_by_memory: bool
    slo_missed: bool | None
    preempting: bool | None


@dataclass(frozen=True, slots=True)
class Guard:
    """Since when each symptom has held (Unix seconds), until when not to fire again, and the learned margin."""

    crowded_since: float | None = None
    slo_since: float | None = None
    preempting_since: float | None = None
    quiet_until: float | None = None
    fires: int = 0  # in a row, without the model agreeing
    margin: float = 0.0  # taken off rho
    margin_at: float | None = None

    def seen(self, symptoms: Symptoms, *, now: float) -> "Guard":
        """After one observation. An unknown symptom neither starts nor ends."""
        regained = (
            0.0 if self.margin_at is None else MARGIN_REGAIN_PER_SECOND * max(0.0, now - self.margin_at)
        )
        return replace(
            self,
            crowded_since=_since(self.crowded_since, symptoms.crowded, now),
            slo_since=_since(self.slo_since, symptoms.slo_missed, now),
            preempting_since=_since(self.preempting_since, symptoms.preempting, now),
            margin=max(0.0, self.margin - regained),
            margin_at=now,
        )

    def alarm(self, symptoms: Symptoms, *, now: float, tick: float) -> Reason | None:
        """Why to add a replica now, if at all."""
        if self.quiet_until is not None and now < self.quiet_until:
            return None
        if _lasting(self.crowded_since, (CROWDED_TICKS - 1) * tick, now):
            return Reason.MEMORY if symptoms.crowded_by_memory else Reason.BACKLOG
        if _lasting(self.preempting_since, PREEMPTION_SECONDS, now):
            return Reason.MEMORY
        if _lasting(self.slo_since, SLO_SECONDS, now):
            return Reason.SLO_GUARD
        return None

    def fired(self, *, now: float, start_seconds: float) -> "Guard":
        """After adding a replica that the model did not ask for."""
        fires = self.fires + 1
        quiet = replace(
            self, quiet_until=now + start_seconds, crowded_since=None, slo_since=None, preempting_since=None
        )
        if fires < 2:
            return replace(quiet, fires=fires)
        return replace(quiet, fires=0, margin=min(WIDEST_MARGIN, self.margin + MARGIN_STEP), margin_at=now)

    def awaiting(self, *, now: float) -> "Guard":
        """While help is on its way: what is measured until a while after its arrival says nothing about its effect."""
        until = now + SETTLING_SECONDS
        return self if (self.quiet_until or 0.0) >= until else replace(self, quiet_until=until)

    def agreed(self) -> "Guard":
        """After the model asked for more by itself."""
        return replace(self, fires=0)


def symptoms(
    obs: Observation, *, ttft_slo: float | None, tpot_slo: float | None, busy_share: float | None
) -> Symptoms:
    """Symptoms in `obs`. `busy_share` is the load over the capacity of the ready replicas, None if unknown."""
    ready = [pod for pod in obs.pods if pod.phase is PodPhase.READY and pod.fresh]
    waiting = [pod for pod in ready if pod.waiting is not None and pod.waiting >= CROWDED_WAITING]
    full = [pod for pod in ready if pod.kv_usage is not None and pod.kv_usage > CROWDED_KV]
    crowded = {pod.uid for pod in (*waiting, *full)}
    queueing = obs.waiting is not None and obs.waiting >= QUEUE_PER_POD * len(ready)
    hungry = queueing or busy_share is None
    slow_start = _missed(
        obs.ttft_p95_seconds,
        obs.ttft_p95_at_least_seconds,
        ttft_slo,
        helps=hungry or (busy_share or 0.0) >= NEAR_FULL_SHARE,
    )
    slow_tokens = _missed(
        obs.tpot_p95_seconds,
        obs.tpot_p95_at_least_seconds,
        tpot_slo,
        helps=hungry or (busy_share or 0.0) >= BUSY_SHARE,
    )
    return Symptoms(
        crowded=len(crowded) >= CROWDED_SHARE * len(ready) and bool(crowded) if ready else None,
        crowded_by_memory=len(full) >= len(waiting),
        slo_missed=_either(slow_start, slow_tokens),
        preempting=None
        if obs.preemptions_per_request is None
        else obs.preemptions_per_request > PREEMPTIONS_PER_REQUEST,
    )


def _missed(
    p95: float | None, at_least: float | None, objective: float | None, *, helps: bool
) -> bool | None:
    """Whether the objective is missed for certain. Inside the bucket that holds it, nobody can tell."""
    if p95 is None or objective is None:
        return None
    if at_least is None or at_least >= objective:
        return p95 > objective and helps
    return None if p95 > objective and helps else False


def _either(one: bool | None, other: bool | None) -> bool | None:
    if one or other:
        return True
    return None if one is None and other is None else False


def _since(since: float | None, holds: bool | None, now: float) -> float | None:
    if holds is None:
        return since
    return (since if since is not None else now) if holds else None


def _lasting(since: float | None, seconds: float, now: float) -> bool:
    return since is not None and now - since >= seconds
