"""Step time of a replica, refitted online from the engine's own counters.

    t = a + p*prefill_tokens + d*running + c*kv_tokens            (reference H2, seconds per engine step)

Weighted least squares on relative errors, pulled to the prior (ridge), old ticks forgotten, every coefficient kept
within 0.3-3 x its prior. One tick weighs 1 however many pods report, so a big fleet does not forget faster than a
small one. When the fit explains the steps badly for half an hour, whichever of prior and fit explains them better is
used and `distrusted` asks the caller for a wider margin.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from statistics import median
from typing import Final

from kvis_operator.scaling.spec import StepTime
from kvis_operator.signals.observation import StepWindow

FORGETTING: Final = 0.995  # per tick: a memory of about 200 ticks
RIDGE: Final = 1.0  # the prior weighs as much as this many ticks
CLAMP: Final = (0.3, 3.0)  # x prior
FULL_WEIGHT_STEPS: Final = 50.0  # an interval with fewer steps counts proportionally less
FEWEST_STEPS: Final = 5.0
RESIDUAL_MEMORY: Final = 0.9
RESIDUAL_LIMIT: Final = 0.25
RESIDUAL_PATIENCE_SECONDS: Final = 1800.0
SWEEPS: Final = 40  # of coordinate descent; four variables settle in far fewer

_Vector = tuple[float, float, float, float]


@dataclass(frozen=True, slots=True)
class StepFit:
    """Moments of the regression in raw units (so a changed prior needs no new start) and how well it does."""

    moments: tuple[float, ...] = (0.0,) * 10  # upper triangle of sum(w * x x' / t^2)
    targets: _Vector = (0.0, 0.0, 0.0, 0.0)  # sum(w * x / t)
    ticks: float = 0.0  # effective number of ticks behind it
    residual: float | None = None  # smoothed relative error of the fit
    prior_residual: float | None = None
    poor_since: float | None = None
    at: float | None = None  # of the last update

    def updated(self, windows: Sequence[StepWindow], prior: StepTime, *, now: float) -> "StepFit":
        """With one tick's windows added; windows of cold pods must not be passed."""
        usable = [w for w in windows if w.steps >= FEWEST_STEPS and w.seconds_per_step > 0]
        if not usable:
            return self
        estimate = self.coefficients(prior)
        residual = _smoothed(self.residual, _error(estimate, usable))
        prior_residual = _smoothed(self.prior_residual, _error(prior, usable))
        poor = residual > RESIDUAL_LIMIT
        moments, targets = self._moments(usable)
        return replace(
            self,
            moments=moments,
            targets=targets,
            ticks=self.ticks * FORGETTING + 1.0,
            residual=residual,
            prior_residual=prior_residual,
            poor_since=(self.poor_since if self.poor_since is not None else now) if poor else None,
            at=now,
        )

    def _moments(self, windows: Sequence[StepWindow]) -> tuple[tuple[float, ...], _Vector]:
        moments = [FORGETTING * m for m in self.moments]
        targets = [FORGETTING * b for b in self.targets]
        for w in windows:
            weight = min(1.0, w.steps / FULL_WEIGHT_STEPS) / len(windows)
            x = [feature / w.seconds_per_step for feature in _features(w)]
            k = 0
            for i in range(4):
                targets[i] += weight * x[i]
                for j in range(i, 4):
                    moments[k] += weight * x[i] * x[j]
                    k += 1
        return tuple(moments), (targets[0], targets[1], targets[2], targets[3])

    def coefficients(self, prior: StepTime) -> StepTime:
        """The fit, each coefficient within `CLAMP` x prior. Equals the prior before any tick."""
        scale = (prior.a, prior.p, prior.d, prior.c)
        matrix = _matrix(self.moments, scale)
        goal = [b * s + RIDGE for b, s in zip(self.targets, scale, strict=True)]
        factors = [1.0] * 4
        for _ in range(SWEEPS):
            before = list(factors)
            for i in range(4):
                rest = sum(matrix[i][j] * factors[j] for j in range(4) if j != i)
                factors[i] = min(CLAMP[1], max(CLAMP[0], (goal[i] - rest) / matrix[i][i]))
            if max(abs(new - old) for new, old in zip(factors, before, strict=True)) < 1e-9:
                break
        a, p, d, c = (f * s for f, s in zip(factors, scale, strict=True))
        return StepTime(a=a, p=p, d=d, c=c)

    def distrusted(self, now: float) -> bool:
        """Whether the fit has explained the steps badly for half an hour."""
        return self.poor_since is not None and now - self.poor_since >= RESIDUAL_PATIENCE_SECONDS

    def best(self, prior: StepTime, *, now: float) -> StepTime:
        """What to compute capacity with: the fit, or the prior while the fit is distrusted and the prior does better."""
        if self.distrusted(now) and (self.prior_residual or 0.0) < (self.residual or 0.0):
            return prior
        return self.coefficients(prior)


def predict(step: StepTime, window: StepWindow) -> float:
    """Seconds per step under `step`."""
    return step.a + step.p * window.prefill_tokens + step.d * window.running + step.c * window.kv_tokens


def _features(window: StepWindow) -> _Vector:
    return (1.0, window.prefill_tokens, window.running, window.kv_tokens)


def _matrix(moments: Sequence[float], scale: _Vector) -> list[list[float]]:
    matrix = [[0.0] * 4 for _ in range(4)]
    starts = (0, 4, 7, 9, 10)
    for i, (first, last) in enumerate(pairwise(starts)):
        for j, moment in enumerate(moments[first:last], start=i):
            matrix[i][j] = matrix[j][i] = moment * scale[i] * scale[j]
        matrix[i][i] += RIDGE
    return matrix


def _error(step: StepTime, windows: Sequence[StepWindow]) -> float:
    """Median over pods, so that one slow pod is not taken for a wrong model."""
    return median(abs(predict(step, w) - w.seconds_per_step) / w.seconds_per_step for w in windows)


def _smoothed(old: float | None, new: float) -> float:
    return new if old is None else RESIDUAL_MEMORY * old + (1 - RESIDUAL_MEMORY) * new
