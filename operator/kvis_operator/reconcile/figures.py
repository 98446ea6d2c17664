"""What a pass leaves in the journal for the operator's metrics."""

from kvis_operator.diagnose.pods import diagnose
from kvis_operator.observe.cluster import Key
from kvis_operator.reconcile.conditions import ready_pods
from kvis_operator.reconcile.deliberate import Intent
from kvis_operator.reconcile.gather import Scene
from kvis_operator.reconcile.journal import Journal, ServiceFigures
from kvis_operator.reconcile.world import Memory
from kvis_operator.signals.bands import GRIDS
from kvis_operator.signals.observation import PodPhase


def note(
    journal: Journal, key: Key, scene: Scene, memory: Memory, intent: Intent | None, *, seconds: float
) -> None:
    journal.passes += 1
    journal.pass_seconds += seconds
    journal.services[key] = _figures(scene, memory, intent)
    if scene.is_tick and memory.decision is not None:
        journal.decided(key, "replicas", memory.decision.reason.value)
        for decision in memory.cap_decisions:
            journal.decided(key, "maxNumSeqs", decision.reason.value)


def _figures(scene: Scene, memory: Memory, intent: Intent | None) -> ServiceFigures:
    seen = memory.observation
    pods = [pod for pod in seen.pods if pod.phase is PodPhase.READY] if seen else []
    caps = [pod.max_num_active_seqs for pod in pods if pod.max_num_active_seqs is not None]
    return ServiceFigures(
        replicas=len(scene.staying_pods),
        ready=ready_pods(scene),
        desired=intent.replicas if intent else None,
        recommended=memory.decision.replicas if memory.decision else None,
        hit_rate=seen.hit_rate if seen else None,
        kv_usage=seen.kv_usage if seen else None,
        prefill_decode_ratio=seen.prefill_decode_ratio if seen else None,
        running=seen.running if seen else None,
        waiting=seen.waiting if seen else None,
        cap_min=min(caps, default=None),
        cap_max=max(caps, default=None),
        fresh_pods=seen.fresh_ready if seen else 0,
        bands={name: band for name in GRIDS if (band := memory.bands.band(name)).hours},
        healthy=diagnose(scene.pods, scene.deployment, now=scene.now) is None if scene.pods else None,
    )
