"""The status of a service after a pass, and whether it is worth a write. Pure.

Written on change only and at most every few seconds; measured values alone, and what scaling remembers
alone, wait longer still; a service that idles is not written at all.
"""

from collections.abc import Mapping
from typing import Any, Final

from kvis_operator.api.status import (
    CacheStatus,
    Caps,
    Recommendation,
    Status,
)
from kvis_operator.diagnose.pods import Fault
from kvis_operator.reconcile.conditions import judge, ready_pods
from kvis_operator.reconcile.deliberate import Intent
from kvis_operator.reconcile.gather import Scene
from kvis_operator.reconcile.intake import Accepted, Refusal
from kvis_operator.reconcile.world import LoopTimes, Memory
from kvis_operator.render.labels import selector_text
from kvis_operator.scaling.decision import Reason
from kvis_operator.signals.observation import Observation, PodPhase

Document = Mapping[str, Any]

AGES: Final = ("hitRateAgeSeconds", "kvUsageAgeSeconds", "prefillDecodeRatioAgeSeconds")
DIGITS: Final = 2  # of the measured ratios in status


def compose(
    before: Status,
    scene: Scene,
    memory: Memory,
    *,
    intent: Intent | None,
    refusal: Refusal | None,
    fault: Fault | None,
) -> Status:
    """The whole status; what this pass could not judge stays as it was."""
    status = before.model_copy(
        update={
            "observed_generation": scene.generation,
            "replicas": len(scene.staying_pods),
            "ready_replicas": ready_pods(scene),
            "selector": selector_text(scene.name),
            "conditions": judge(
                before.conditions, scene, memory, intent=intent, refusal=refusal, fault=fault
            ),
            "cache": _cache(memory.observation),
            "caps": _caps(memory.observation, scene),
            "recommendation": _recommendation(memory),
            "scaler": {"state": memory.scaler.to_json(), "written": memory.written.to_json()},
            "tuner": {uid: raw for uid, state in sorted(memory.caps.items()) if (raw := state.to_json())}
            or None,
        }
    )
    if isinstance(scene.subject, Accepted):
        status = status.model_copy(update={"plan": scene.subject.plan.to_status()})
    for decision in reversed(memory.untold):
        status = status.with_decision(decision)
    return status


def delay(before: Document, after: Document, memory: Memory, times: LoopTimes, *, now: float) -> float | None:
    """Seconds until `after` may be written over `before`; 0: now, None: it need not be."""
    if _without(before, "cache", "scaler", "tuner") != _without(after, "cache", "scaler", "tuner"):
        wait = times.status
    elif _steady(before.get("cache")) != _steady(after.get("cache")):
        wait = times.cache_status
    elif before.get("scaler") != after.get("scaler") or before.get("tuner") != after.get("tuner"):
        patience = _state_patience(memory, times)
        if patience is None:
            return None
        wait = patience
    else:
        return None
    return max(0.0, memory.status_at + wait - now)


def _state_patience(memory: Memory, times: LoopTimes) -> float | None:
    """How long what scaling remembers may go unwritten; None: losing it would change nothing."""
    seen, decision = memory.observation, memory.decision
    if seen is not None and any((seen.running, seen.waiting, seen.rate_60s)):
        return times.busy_state
    floor = decision.numbers.get("need_down") if decision else None
    has_spare = decision is not None and floor is not None and floor < decision.replicas
    return times.idle_state if has_spare and decision is not None and _waits(decision.reason) else None


def _waits(reason: Reason) -> bool:
    """A scale-in is due and waits for memory or time, which a restart would otherwise begin anew."""
    return reason.value.startswith(("Hold", "Cooldown"))


def _cache(seen: Observation | None) -> CacheStatus:
    if seen is None:
        return CacheStatus()
    age = _age(seen)
    return CacheStatus(
        hit_rate=_ratio(seen.hit_rate),
        hit_rate_age_seconds=None if seen.hit_rate is None else age,
        kv_usage=_ratio(seen.kv_usage),
        kv_usage_age_seconds=None if seen.kv_usage is None else age,
        prefill_decode_ratio=_rounded(seen.prefill_decode_ratio),
        prefill_decode_ratio_age_seconds=None if seen.prefill_decode_ratio is None else age,
    )


def _age(seen: Observation) -> int | None:
    """Age of the oldest sample that the readings rest on, seconds."""
    ages = [p.sample_age_seconds for p in seen.pods if p.fresh and p.sample_age_seconds is not None]
    return max(0, int(max(ages))) if ages else None


def _caps(seen: Observation | None, scene: Scene) -> Caps:
    pods = [pod for pod in seen.pods if pod.phase is PodPhase.READY] if seen else []
    caps = [pod.max_num_active_seqs for pod in pods if pod.max_num_active_seqs is not None]
    ceiling = scene.subject.plan.max_num_seqs if isinstance(scene.subject, Accepted) else None
    return Caps(min=min(caps, default=None), max=max(caps, default=None), ceiling=ceiling)


def _recommendation(memory: Memory) -> Recommendation | None:
    decision = memory.decision
    if decision is None:
        return None
    caps = [d.cap for d in memory.cap_decisions if d.cap is not None]
    return Recommendation(
        replicas=decision.replicas, max_num_seqs=min(caps, default=None), reason=decision.reason.value
    )


def _without(status: Mapping[str, Any], *names: str) -> dict[str, Any]:
    return {name: value for name, value in status.items() if name not in names}


def _steady(cache: Mapping[str, Any] | None) -> dict[str, Any]:
    return _without(cache or {}, *AGES)


def _ratio(value: float | None) -> float | None:
    return None if value is None else min(1.0, max(0.0, round(value, DIGITS)))


def _rounded(value: float | None) -> float | None:
    return None if value is None else max(0.0, round(value, DIGITS))
