"""The closing summary: one dict, printed and written to build/demo.json, and its own verdict.

The verdict is what the demo promises: out and in again, a live cap change, nothing lost. A run that does not
show that ends with exit code 1 and says which promise was broken.
"""

import json
import pathlib
from typing import Any

from rich.console import Console

from bench import bench_file
from demo.load import Tally, quantile
from demo.watch import Look, cap_history, replica_history


def summarise(looks: list[Look], tally: Tally, steps: dict[str, float]) -> dict[str, Any]:
    replicas = replica_history(looks)
    caps = cap_history(looks)
    hits = [look.hit_rate for look in looks if look.hit_rate is not None]
    return {
        "requests": {
            "sent": tally.sent,
            "ok": tally.ok,
            "lost": tally.lost,
            "refused_then_served": tally.refused,
        },
        "faults": tally.faults[:10],
        "replicas": {"history": replicas, "peak_ready": max((look.ready for look in looks), default=0)},
        "caps": {"history": caps, "changes_on_running_pods": cap_changes(looks)},
        "ttft_seconds": {"p50": quantile(tally.ttft_seconds, 0.5), "p95": quantile(tally.ttft_seconds, 0.95)},
        "tpot_seconds": {"p50": quantile(tally.tpot_seconds, 0.5), "p95": quantile(tally.tpot_seconds, 0.95)},
        "hit_rate": max(hits) if hits else None,
        "kv_usage_max": max((look.kv_usage for look in looks if look.kv_usage is not None), default=None),
        "decisions": _decisions(looks),
        "steps_seconds": {name: round(seconds, 1) for name, seconds in steps.items()},
    }


def cap_changes(looks: list[Look]) -> int:
    """Changes of the cap on pods that were already running: a pod's first cap is none."""
    history = cap_history(looks)
    return len(history) - len({pod for _, pod, _ in history})


def broken_promises(summary: dict[str, Any]) -> list[str]:
    desired = [count for _, count in summary["replicas"]["history"]]
    broken = []
    if summary["requests"]["lost"] or not summary["requests"]["ok"]:
        broken.append(f"{summary['requests']['lost']} of {summary['requests']['sent']} requests lost")
    if summary["replicas"]["peak_ready"] < 2:
        broken.append("never two replicas ready")
    if not desired or desired[-1] != 1:
        broken.append(f"replicas ended at {desired[-1] if desired else 'unknown'}, not at 1")
    if not summary["caps"]["changes_on_running_pods"]:
        broken.append("no cap changed on a running pod")
    return broken


def write(summary: dict[str, Any], path: pathlib.Path) -> None:
    """The whole summary into `path`, its figures among those of the walking product."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(summary, indent=2) + "\n")
    figures = {
        "demo_requests_lost": summary["requests"]["lost"],
        "demo_peak_replicas": summary["replicas"]["peak_ready"],
        "demo_cap_changes": summary["caps"]["changes_on_running_pods"],
    }
    bench_file.merge("walking", source="demo", command="make demo", rows=[summary], figures=figures)


def show(summary: dict[str, Any], console: Console) -> None:
    requests, replicas = summary["requests"], summary["replicas"]
    path = " → ".join(str(count) for _, count in replicas["history"])
    console.print(f"\nReplicas {path} (peak ready {replicas['peak_ready']})")
    console.print(f"Live cap changes {summary['caps']['changes_on_running_pods']}: {_caps(summary)}")
    console.print(f"Requests {requests['sent']} sent, {requests['ok']} ok, {requests['lost']} lost")
    for name in ("ttft", "tpot"):
        times = summary[f"{name}_seconds"]
        console.print(f"{name.upper()} p50 {_seconds(times['p50'])}, p95 {_seconds(times['p95'])}")
    console.print(
        "Steps: " + ", ".join(f"{name} {seconds:.0f} s" for name, seconds in summary["steps_seconds"].items())
    )


def _decisions(looks: list[Look]) -> list[str]:
    return list(dict.fromkeys(look.decision for look in looks if look.decision))


def _caps(summary: dict[str, Any]) -> str:
    per_pod: dict[str, list[str]] = {}
    for _, pod, cap in summary["caps"]["history"]:
        per_pod.setdefault(pod, []).append(str(cap))
    return "; ".join(f"{pod} {'→'.join(caps)}" for pod, caps in per_pod.items())


def _seconds(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f} s"
