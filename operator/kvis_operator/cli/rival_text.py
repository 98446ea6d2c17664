"""Reads `--versus`: the autoscaler that a user has or considers, as `hpa:inflight=32,down=1800`.

Thresholds are never guessed: one that is missing, zero, given twice or of an unknown name is an error that
says what would be accepted.
"""

from collections.abc import Callable, Mapping

from kvis_sim.baselines import hpa, keda
from kvis_sim.baselines.rival import Scaler

METRICS: Mapping[str, hpa.Gauge] = {"inflight": hpa.in_flight, "waiting": hpa.waiting, "kv": hpa.kv_usage}
LONGEST_WINDOW = 3600.0  # the API's own bound of stabilizationWindowSeconds
DEFAULT_WINDOW = 300.0
FORM = (
    "hpa:inflight=32, hpa:waiting=5, hpa:kv=0.8,waiting=5, keda:inflight=32; "
    "each with an optional ,down=SECONDS"
)


class RivalError(ValueError):
    """A `--versus` that names no complete autoscaler."""


def parse_rival(text: str) -> Callable[[], Scaler]:
    """A maker of fresh scalers, since a scaler remembers."""
    kind, _, rest = text.partition(":")
    if kind not in ("hpa", "keda"):
        raise RivalError(f"--versus {text!r}: unknown autoscaler {kind!r}; write for example {FORM}")
    values = _values(text, rest)
    down = values.pop("down", DEFAULT_WINDOW)
    if not 0.0 <= down <= LONGEST_WINDOW:
        raise RivalError(f"--versus {text!r}: down={down:g} must be within 0 and {LONGEST_WINDOW:g} seconds")
    if not values:
        raise RivalError(f"--versus {text!r}: no threshold; write for example {FORM}")
    for name, target in values.items():
        _check(text, name, target)
    if kind == "keda":
        if len(values) > 1:
            raise RivalError(f"--versus {text!r}: a KEDA trigger has one metric, got {', '.join(values)}")
        ((name, target),) = values.items()
        return lambda: keda.ScaledObject(METRICS[name], target, down_window=down)
    metrics = tuple(hpa.Metric(METRICS[name], target) for name, target in values.items())
    return lambda: hpa.HorizontalPodAutoscaler(metrics, down_window=down)


def _values(text: str, rest: str) -> dict[str, float]:
    values: dict[str, float] = {}
    for part in filter(None, rest.split(",")):
        name, _, number = part.partition("=")
        if name not in METRICS and name != "down":
            raise RivalError(
                f"--versus {text!r}: unknown threshold {name!r}; known: {', '.join(METRICS)}, down"
            )
        if name in values:
            raise RivalError(f"--versus {text!r}: {name} is given twice; give it once")
        try:
            values[name] = float(number)
        except ValueError:
            raise RivalError(f"--versus {text!r}: {name}={number!r} is not a number") from None
    return values


def _check(text: str, name: str, target: float) -> None:
    most = 1.0 if name == "kv" else float("inf")
    if not 0.0 < target <= most or target == float("inf"):
        works = "above 0 and at most 1" if name == "kv" else "a number above 0"
        raise RivalError(f"--versus {text!r}: {name}={target:g} must be {works}")
