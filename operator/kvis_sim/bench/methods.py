"""The methods that are compared, each by a family name and its few parameters, and how to build one.

A `Method` is plain and picklable: worker processes build the controller from it. Defaults are each
project's own, with a 0.5 KV target for AIBrix (its own benchmark's), 5 waiting requests for queue rules
(the middle of the published 3-5 start values) and 32 requests in flight where a project leaves the target
to its user.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from kvis_operator.scaling.spec import ALL_FEATURES
from kvis_sim.baselines import aibrix, dynamo, hpa, keda, knative, ray, static, wva_v1, wva_v2
from kvis_sim.baselines.rival import Bounds, Rival, Scaler
from kvis_sim.controller import Controller

DOWN_WINDOWS = (300.0, 1800.0)


@dataclass(frozen=True, slots=True)
class Method:
    """`params` are sorted (name, value) pairs; absent ones are the family's defaults."""

    family: str
    params: tuple[tuple[str, float], ...] = ()

    @property
    def label(self) -> str:
        values = ",".join(f"{name}={value:g}" for name, value in self.params)
        return f"{self.family}({values})" if values else self.family

    @property
    def is_ours(self) -> bool:
        return self.family == "kvis" or self.family.startswith("kvis-")

    def at(self, **params: float) -> "Method":
        return Method(self.family, tuple(sorted({**dict(self.params), **params}.items())))


OURS = Method("kvis")
CLAIRVOYANT = Method("clairvoyant")  # computed from the trace, not simulated
ABLATIONS = tuple(Method(f"kvis-no-{feature.replace('_', '-')}") for feature in sorted(ALL_FEATURES))


@dataclass(frozen=True, slots=True)
class Family:
    """`axis`: the one parameter that makes the method more or less generous, from dearest to cheapest
    value.
    """

    make: Callable[[Mapping[str, float]], Scaler]
    defaults: Mapping[str, float]
    axis: str
    values: tuple[float, ...]
    by_default_rival: bool = False  # one of those to be beaten at their defaults
    source: str = ""


IN_FLIGHT_TARGETS = (
    1.0,
    2.0,
    3.0,
    4.0,
    6.0,
    8.0,
    10.0,
    12.0,
    16.0,
    20.0,
    24.0,
    32.0,
    40.0,
    48.0,
    64.0,
    80.0,
    96.0,
)
QUEUE_TARGETS = (0.25, 0.5, 1.0, 3.0, 5.0, 10.0)
KV_TARGETS = (0.05, 0.1, 0.2, 0.3, 0.5, 0.7, 0.9)


def _hpa(metric: hpa.Gauge) -> Callable[[Mapping[str, float]], Scaler]:
    return lambda p: hpa.HorizontalPodAutoscaler((hpa.Metric(metric, p["target"]),), down_window=p["down"])


def _hpa_kv_and_queue(p: Mapping[str, float]) -> Scaler:
    metrics = (hpa.Metric(hpa.kv_usage, p["target"]), hpa.Metric(hpa.waiting, p["waiting"]))
    return hpa.HorizontalPodAutoscaler(metrics, down_window=p["down"])


def _keda(metric: hpa.Gauge) -> Callable[[Mapping[str, float]], Scaler]:
    return lambda p: keda.ScaledObject(metric, target=p["target"], down_window=p["down"])


def _knative(p: Mapping[str, float]) -> Scaler:
    return knative.KnativePodAutoscaler(knative.KpaSettings(p["target"]))


def _wva_v1(p: Mapping[str, float]) -> Scaler:
    return wva_v1.WvaV1(wva_v1.SaturationThresholds(kv_spare=p["kv_spare"], queue_spare=p["queue_spare"]))


def _wva_v2(p: Mapping[str, float]) -> Scaler:
    return wva_v2.WvaV2(wva_v2.TokenThresholds(grow_at=p["grow_at"], shrink_at=p["grow_at"] - 0.15))


def _ray(p: Mapping[str, float]) -> Scaler:
    return ray.RayServe(p["target"], up_delay=p["up"], down_delay=p["down"])


def _dynamo(p: Mapping[str, float]) -> Scaler:
    grow, shrink = dynamo.THROUGHPUT
    return dynamo.DynamoEasy((grow * p["scale"], shrink * p["scale"]))


_HPA_QUEUE = {"target": 5.0, "down": 300.0}
_IN_FLIGHT = {"target": 32.0, "down": 300.0}
FAMILIES: Mapping[str, Family] = {
    "static": Family(
        lambda p: static.Static(int(p["n"])), {"n": 4.0}, "n", tuple(float(n) for n in range(16, 0, -1))
    ),
    "hpa-queue": Family(_hpa(hpa.waiting), _HPA_QUEUE, "target", QUEUE_TARGETS, by_default_rival=True),
    "keda-queue": Family(_keda(hpa.waiting), _HPA_QUEUE, "target", QUEUE_TARGETS, by_default_rival=True),
    "hpa-kv-queue": Family(
        _hpa_kv_and_queue, {"target": 0.7, "waiting": 5.0, "down": 300.0}, "target", KV_TARGETS
    ),
    "hpa-inflight": Family(_hpa(hpa.in_flight), _IN_FLIGHT, "target", IN_FLIGHT_TARGETS),
    "keda-inflight": Family(_keda(hpa.in_flight), _IN_FLIGHT, "target", IN_FLIGHT_TARGETS),
    "wva-v1": Family(
        _wva_v1,
        {"kv_spare": 0.1, "queue_spare": 3.0},
        "queue_spare",
        (4.9, 4.5, 4.0, 3.0, 2.0, 1.0),
        by_default_rival=True,
    ),
    "wva-v2": Family(
        _wva_v2, {"grow_at": 0.85}, "grow_at", (0.2, 0.3, 0.45, 0.6, 0.75, 0.85, 0.95), by_default_rival=True
    ),
    "aibrix-apa": Family(
        lambda p: aibrix.Apa(aibrix.ApaSettings(p["target"])),
        {"target": 0.5},
        "target",
        KV_TARGETS,
        by_default_rival=True,
    ),
    "aibrix-kpa": Family(lambda p: aibrix.AibrixKpa(p["target"]), {"target": 0.5}, "target", KV_TARGETS),
    "aibrix-kpa-pods": Family(
        lambda p: aibrix.AibrixKpa(p["target"], times_pods=True), {"target": 0.5}, "target", KV_TARGETS
    ),
    "knative": Family(_knative, {"target": 32.0}, "target", IN_FLIGHT_TARGETS),
    "ray": Family(_ray, {"target": 2.0, "up": 30.0, "down": 600.0}, "target", IN_FLIGHT_TARGETS),
    "dynamo": Family(_dynamo, {"scale": 1.0}, "scale", (0.1, 0.2, 0.3, 0.5, 0.7, 1.0)),
}
DEFAULT_RIVALS = tuple(Method(name) for name, family in FAMILIES.items() if family.by_default_rival)
IN_FLIGHT_RIVALS = tuple(
    Method(family, (("down", window),))
    for family in ("hpa-inflight", "keda-inflight")
    for window in DOWN_WINDOWS
)


def build_rival(method: Method, bounds: Bounds) -> Controller:
    family = FAMILIES.get(method.family)
    if family is None:
        raise ValueError(f"unknown method {method.family!r}; known: kvis, {', '.join(FAMILIES)}")
    unknown = sorted(set(dict(method.params)) - set(family.defaults))
    if unknown:
        raise ValueError(
            f"{method.family} has no parameter {unknown[0]!r}; it has: {', '.join(family.defaults)}"
        )
    return Rival(method.label, family.make({**family.defaults, **dict(method.params)}), bounds)
