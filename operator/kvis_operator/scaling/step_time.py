"""Step time of a replica, refitted online from the engine's own counters.

    t = a + p*prefill_tokens + d*running + c*kv_tokens            (reference H2, seconds per engine step)

Weighted least squares on relative errors, pulled to the prior at the speed of this machine (ridge), old ticks
forgotten, every coefficient kept within 0.3-3 x its prior. One tick weighs 1 however many pods report, so a big fleet
does not forget faster than a small one. When the fit explains the steps badly for half an hour, whichever of prior and
fit explains them better is used and `distrusted` asks the caller for a wider margin.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import pairwise
from operator import mul
from statistics import median
from typing import Final

from kvis_operator.scaling.spec import StepTime
from kvis_operator.signals.observation import StepWindow

FORGETTING: Final = 0.995  # per tick: a memory of about 200 ticks
RIDGE: Final = 0.1  # the prior weighs as much as a tenth of a tick in which one term makes up the whole step
CLAMP: Final = (0.3, 3.0)  # x prior
FULL_WEIGHT_STEPS: Final = 50.0  # an interval with fewer steps counts proportionally less
FEWEST_STEPS: Final = 5.0
RESIDUAL_MEMORY: Final = 0.9
RESIDUAL_LIMIT: Final = 0.25
RESIDUAL_PATIENCE_SECONDS: Final = 1800.0
SWEEPS: Final = 100  # of coordinate descent; four variables settle in far fewer
SETTLED: Final = 1e-6

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
        return StepTime(*_solved(self.moments, self.targets, prior.terms))

    def distrusted(self, now: float) -> bool:
        """Whether the fit has explained the steps badly for half an hour."""
        return self.poor_since is not None and now - self.poor_since >= RESIDUAL_PATIENCE_SECONDS

    def best(self, prior: StepTime, *, now: float) -> StepTime:
        """What to reckon with: the fit, or the prior while the fit is distrusted and the prior does better."""
        if self.distrusted(now) and (self.prior_residual or 0.0) < (self.residual or 0.0):
            return prior
        return self.coefficients(prior)


def predict(step: StepTime, window: StepWindow) -> float:
    """Seconds per step under `step`."""
    return step.a + step.p * window.prefill_tokens + step.d * window.running + step.c * window.kv_tokens


def _features(window: StepWindow) -> _Vector:
    return (1.0, window.prefill_tokens, window.running, window.kv_tokens)


@lru_cache(maxsize=4096)  # asked for once per tick and service, and once more by the next tick's residual
def _solved(moments: tuple[float, ...], targets: _Vector, prior: _Vector) -> _Vector:
    """The regression in units of the prior, solved exactly, or within the clamp where that binds.

    What the steps leave open is pulled to the prior times one factor that explains them best: a machine slower or
    faster than its profile is the commonest error in one.
    """
    matrix = _matrix(moments, prior)
    wanted = [b * s for b, s in zip(targets, prior, strict=True)]
    speed = _speed(matrix, wanted)
    for i in range(4):
        matrix[i][i] += RIDGE
    goal = [w + RIDGE * speed for w in wanted]
    factors = _eliminated(matrix, goal)
    if not all(CLAMP[0] <= factor <= CLAMP[1] for factor in factors):
        factors = _descended(matrix, goal, factors)
    a, p, d, c = (f * s for f, s in zip(factors, prior, strict=True))
    return a, p, d, c


def _speed(matrix: Sequence[Sequence[float]], wanted: Sequence[float]) -> float:
    """The one factor on the whole prior that explains the steps best, itself pulled to 1."""
    best = (sum(wanted) + RIDGE) / (sum(map(sum, matrix)) + RIDGE)
    return min(CLAMP[1], max(CLAMP[0], best))


def _matrix(moments: Sequence[float], scale: _Vector) -> list[list[float]]:
    matrix = [[0.0] * 4 for _ in range(4)]
    starts = (0, 4, 7, 9, 10)
    for i, (first, last) in enumerate(pairwise(starts)):
        for j, moment in enumerate(moments[first:last], start=i):
            matrix[i][j] = matrix[j][i] = moment * scale[i] * scale[j]
    return matrix


def _eliminated(matrix: Sequence[Sequence[float]], goal: Sequence[float]) -> list[float]:
    """Gaussian elimination; the ridge keeps the matrix positive definite, so no pivoting is needed."""
    rows = [[*row, g] for row, g in zip(matrix, goal, strict=True)]
    for i in range(4):
        for j in range(i + 1, 4):
            share = rows[j][i] / rows[i][i]
            rows[j] = [x - share * y for x, y in zip(rows[j], rows[i], strict=True)]
    factors = [0.0] * 4
    for i in reversed(range(4)):
        known = sum(rows[i][j] * factors[j] for j in range(i + 1, 4))
        factors[i] = (rows[i][4] - known) / rows[i][i]
    return factors


def _descended(
    matrix: Sequence[Sequence[float]], goal: Sequence[float], start: Sequence[float]
) -> list[float]:
    """Coordinate descent within the clamp; convex, so it ends at the best point of the box."""
    factors = [min(CLAMP[1], max(CLAMP[0], factor)) for factor in start]
    for _ in range(SWEEPS):
        moved = 0.0
        for i, row in enumerate(matrix):
            step = (goal[i] - sum(map(mul, row, factors))) / row[i]
            wanted = min(CLAMP[1], max(CLAMP[0], factors[i] + step))
            moved = max(moved, abs(wanted - factors[i]))
            factors[i] = wanted
        if moved < SETTLED:
            break
    return factors


def _error(step: StepTime, windows: Sequence[StepWindow]) -> float:
    """Median over pods, so that one slow pod is not taken for a wrong model."""
    return median(abs(predict(step, w) - w.seconds_per_step) / w.seconds_per_step for w in windows)


def _smoothed(old: float | None, new: float) -> float:
    return new if old is None else RESIDUAL_MEMORY * old + (1 - RESIDUAL_MEMORY) * new
