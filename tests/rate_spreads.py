"""Builders for what is remembered of the rates of past minutes."""

from dataclasses import replace

from kvis_operator.scaling.spread import RateSpread
from observations import NOON

MEMORY = 600.0


def after(*rates: float | None, apart: float = 60.0, served: float = 7200.0) -> RateSpread:
    """Rates of minutes from noon on, the first when the service had had replicas for `served` seconds."""
    spread = RateSpread()
    for i, rate in enumerate(rates):
        spread = spread.seen(rate, served=served + i * apart, now=NOON + i * apart)
    return spread


def unrested(spread: RateSpread) -> RateSpread:
    """The same of a load that has just moved."""
    return replace(spread, calm=0.0)
