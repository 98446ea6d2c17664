"""What the scaler remembers between ticks: small, immutable, JSON for the resource's status (under 4 KiB).

A lost or unreadable state is *unknown*, not zero: the demand memory is then empty, its coverage is nil, and nothing
shrinks until one full memory has been observed again. Growing needs no memory.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final, Self

from kvis_operator.scaling.capacity import Mix
from kvis_operator.scaling.demand import DemandRing
from kvis_operator.scaling.flap import FlapGuard
from kvis_operator.scaling.guard import Guard
from kvis_operator.scaling.spread import RateSpread
from kvis_operator.scaling.step_time import StepFit

VERSION: Final = 1


@dataclass(frozen=True, slots=True)
class ScalerState:
    desired: int | None = None  # replicas last decided; None before any decision
    observed_at: float | None = None  # of the newest observation learned from
    mix: Mix | None = None  # last known shape of requests
    mix_seconds: float = 0.0  # of requests that it rests on
    fit: StepFit = field(default_factory=StepFit)
    spread: RateSpread = field(default_factory=RateSpread)
    demand: DemandRing = field(default_factory=DemandRing)
    guard: Guard = field(default_factory=Guard)
    flap: FlapGuard = field(default_factory=FlapGuard)
    up_at: float | None = None
    down_at: float | None = None
    learning_since: float | None = None  # first observation ever learned from
    short_since: float | None = None  # since when the model has asked for more than there is
    alerted_at: float | None = None  # last time an alert held the floor
    step_at: float | None = None  # start of the tick that the growth limit counts from
    step_base: int | None = None  # replicas then

    @classmethod
    def initial(cls, desired: int | None = None) -> Self:
        """Nothing remembered, with the replicas that are wanted at the moment if known."""
        return cls(desired=desired)

    def following(self, replicas: int) -> Self:
        """With the replicas that somebody else set, or that were kept although others were recommended.

        Nothing changes when they are the ones decided here. Otherwise the cooldowns of moves that never
        happened go too; the demand memory stays.
        """
        if replicas == self.desired:
            return self
        return replace(
            self, desired=replicas, up_at=None, down_at=None, step_at=None, step_base=None, flap=FlapGuard(),
            guard=replace(self.guard, quiet_until=None),
        )  # fmt: skip

    def to_json(self) -> dict[str, Any]:
        """Only JSON types; fields at their defaults are left out."""
        raw: dict[str, Any] = {"v": VERSION}
        for name in _PLAIN:
            if (value := getattr(self, name)) is not None:
                raw[name] = value
        if self.mix is not None:
            raw["mix"] = [self.mix.input_tokens, self.mix.output_tokens, self.mix.hit_rate]
        if self.mix_seconds:
            raw["mix_seconds"] = self.mix_seconds
        if self.fit.ticks:
            raw["fit"] = {
                "m": list(self.fit.moments), "t": list(self.fit.targets), "n": self.fit.ticks, "r": self.fit.residual,
                "pr": self.fit.prior_residual, "poor": self.fit.poor_since, "at": self.fit.at,
            }  # fmt: skip
        if self.spread != RateSpread():
            raw["spread"] = {
                "m": list(self.spread.minutes), "at": self.spread.at, "s": self.spread.squares, "w": self.spread.weight,
                "r": self.spread.rates, "n": self.spread.needs, "c": self.spread.count, "calm": self.spread.calm,
                "new": self.spread.new, "since": self.spread.since,
            }  # fmt: skip
        if self.demand.values:
            raw["demand"] = {
                "w": self.demand.width,
                "first": self.demand.first,
                "values": list(self.demand.values),
            }
        if self.guard != Guard():
            g = self.guard
            raw["guard"] = [
                g.crowded_since, g.slo_since, g.preempting_since, g.quiet_until, g.fires, g.margin, g.margin_at,
            ]  # fmt: skip
        if self.flap != FlapGuard():
            raw["flap"] = [
                self.flap.direction,
                self.flap.moved_at,
                list(self.flap.reversals),
                self.flap.factor,
                self.flap.eased_at,
            ]
        return raw

    @classmethod
    def restore(cls, raw: Mapping[str, Any] | None) -> Self:
        """The state that `to_json` wrote. None, another version, or anything unreadable gives the initial state."""
        if not isinstance(raw, Mapping) or raw.get("v") != VERSION:
            return cls.initial()
        try:
            return cls(
                desired=_whole(raw.get("desired")),
                observed_at=_number(raw.get("observed_at")),
                mix=_mix(raw.get("mix")),
                mix_seconds=_finite(raw.get("mix_seconds", 0.0)),
                fit=_fit(raw.get("fit")),
                spread=_spread(raw.get("spread")),
                demand=_demand(raw.get("demand")),
                guard=_guard(raw.get("guard")),
                flap=_flap(raw.get("flap")),
                up_at=_number(raw.get("up_at")),
                down_at=_number(raw.get("down_at")),
                learning_since=_number(raw.get("learning_since")),
                short_since=_number(raw.get("short_since")),
                alerted_at=_number(raw.get("alerted_at")),
                step_at=_number(raw.get("step_at")),
                step_base=_whole(raw.get("step_base")),
            )
        except (TypeError, ValueError, KeyError):
            return cls.initial()


_PLAIN: Final = (
    "desired",
    "observed_at",
    "up_at",
    "down_at",
    "learning_since",
    "short_since",
    "alerted_at",
    "step_at",
    "step_base",
)


def _number(raw: object) -> float | None:
    if raw is None:
        return None
    if isinstance(raw, bool) or not isinstance(raw, (int, float)) or not math.isfinite(raw):
        raise ValueError(f"not a finite number: {raw!r}")
    return float(raw)


def _finite(raw: object) -> float:
    value = _number(raw)
    if value is None:
        raise ValueError("a number is missing")
    return value


def _whole(raw: object) -> int | None:
    value = _number(raw)
    if value is not None and (value != int(value) or value < 0):
        raise ValueError(f"not a count: {raw!r}")
    return None if value is None else int(value)


def _mix(raw: Any) -> Mix | None:
    if raw is None:
        return None
    input_tokens, output_tokens, hit_rate = map(_finite, raw)
    if input_tokens <= 0 or output_tokens <= 0 or not 0 <= hit_rate <= 1:
        raise ValueError(f"not a request shape: {raw!r}")
    return Mix(input_tokens, output_tokens, hit_rate)


def _fit(raw: Any) -> StepFit:
    if raw is None:
        return StepFit()
    moments = tuple(map(_finite, raw["m"]))
    a, p, d, c = map(_finite, raw["t"])
    if len(moments) != len(StepFit().moments):
        raise ValueError("the fit has another shape")
    return StepFit(
        moments, (a, p, d, c), _finite(raw["n"]), _number(raw["r"]), _number(raw["pr"]), _number(raw["poor"]),
        _number(raw["at"]),
    )  # fmt: skip


def _spread(raw: Any) -> RateSpread:
    if raw is None:
        return RateSpread()
    minutes, since = tuple(map(_finite, raw["m"])), _number(raw.get("since"))
    squares, weight = _finite(raw["s"]), _finite(raw["w"])
    rates, needs, count = map(_finite, (raw["r"], raw["n"], raw["c"]) if "c" in raw else (0.0, 0.0, 0.0))
    calm, new = _finite(raw.get("calm", 0.0)), raw.get("new", False)
    if min(squares, weight, rates, needs, count, calm, *minutes) < 0:
        raise ValueError("a spread has no negative sums or rates")
    if not isinstance(new, bool):
        raise TypeError(f"a load is new or not: {new!r}")
    return RateSpread(minutes, _number(raw["at"]), squares, weight, rates, needs, count, calm, new, since)


def _demand(raw: Any) -> DemandRing:
    if raw is None:
        return DemandRing()
    width, first = _finite(raw["w"]), _whole(raw["first"])
    if width <= 0 or first is None:
        raise ValueError("the demand memory has no buckets")
    return DemandRing(width, first, tuple(map(_number, raw["values"])))


def _guard(raw: Any) -> Guard:
    if raw is None:
        return Guard()
    crowded, slo, preempting, quiet, fires, margin, margin_at = map(_number, raw)
    return Guard(crowded, slo, preempting, quiet, int(fires or 0), margin or 0.0, margin_at)


def _flap(raw: Any) -> FlapGuard:
    if raw is None:
        return FlapGuard()
    direction, moved_at, reversals, factor, eased_at = raw
    if direction not in (-1, 0, 1) or not isinstance(factor, int) or factor < 1:
        raise ValueError("the flap guard has another shape")
    return FlapGuard(direction, _number(moved_at), tuple(map(_finite, reversals)), factor, _number(eased_at))
