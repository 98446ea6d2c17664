"""Replays recorded scrapes through the shipped decisions: what would have been decided, tick by tick, and
why.

The fleet stays as it was recorded: each decision starts from the replicas that there were, so it is what
the operator would have said at that moment, not what would have followed from it.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from kvis_operator.cli.recording import Scrape
from kvis_operator.cli.subject_file import load_subject
from kvis_operator.reconcile.deliberate import scaling_spec
from kvis_operator.reconcile.world import LoopTimes
from kvis_operator.scaling.decide import decide
from kvis_operator.scaling.decision import Decision
from kvis_operator.scaling.state import ScalerState
from kvis_operator.signals.golden import observe
from kvis_operator.signals.observation import PodPhase
from kvis_operator.signals.series import Fleet
from kvis_sim.baselines.rival import Bounds, Rival, Scaler


@dataclass(frozen=True, slots=True)
class Moment:
    at: float  # Unix seconds
    recorded: int  # replicas that there were
    decision: Decision
    rival: int | None = None


@dataclass(frozen=True, slots=True)
class Replayed:
    service: str
    moments: tuple[Moment, ...]

    def to_json(self) -> str:
        rows = [
            {
                "at": moment.at,
                "recorded": moment.recorded,
                "replicas": moment.decision.replicas,
                "reason": moment.decision.reason,
                "conditions": sorted(moment.decision.conditions),
                "numbers": dict(moment.decision.numbers),
                "versus": moment.rival,
            }
            for moment in self.moments
        ]
        return json.dumps({"service": self.service, "label": "replayed", "decisions": rows}, indent=1) + "\n"


def replay(
    manifest: Path, profiles: Path | None, scrapes: Sequence[Scrape], rival: Scaler | None
) -> Replayed:
    subject = load_subject(manifest, profiles)
    spec = scaling_spec(subject, LoopTimes())
    fleet, state = Fleet(), ScalerState.initial(_alive(scrapes[0]))
    bounds = Bounds(_alive(scrapes[0]), spec.min_replicas, spec.max_replicas, spec.kv_capacity_tokens)
    beside = Rival("versus", rival, bounds) if rival else None
    moments = []
    for scrape in scrapes:
        for uid, sample in scrape.samples.items():
            fleet.record(uid, sample)
        fleet.forget({pod.uid for pod in scrape.pods})
        seen = observe(
            scrape.pods,
            fleet,
            now=scrape.at,
            interval=spec.tick_seconds,
            start_seconds=spec.start_seconds,
        )
        recorded = _alive(scrape)
        decision, state = decide(spec, seen, replace(state, desired=recorded), now=scrape.at)
        other = beside.tick(scrape.at, scrape.pods, scrape.samples).replicas if beside else None
        moments.append(Moment(scrape.at, recorded, decision, other))
    return Replayed(subject.service.metadata.name, tuple(moments))


def _alive(scrape: Scrape) -> int:
    return max(1, sum(pod.phase is not PodPhase.DRAINING for pod in scrape.pods))
