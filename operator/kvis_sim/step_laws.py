"""How long one engine step takes: the laws that the simulated hardware obeys.

The scaler believes t = a + p*prefill + d*running + c*kv. A simulator that obeyed just that would flatter
it, so there are laws it cannot express: a maximum of compute and memory time, attention that grows with
the square of a long prompt; noise and per-pod speed come on top in the engine.

Every law's step time is linear in the step's number while the batch stays the same, so that a run of
identical steps has a closed form; `progression` returns that line.
"""

from dataclasses import dataclass
from typing import Protocol

from kvis_operator.scaling.spec import StepTime


class StepLaw(Protocol):
    def progression(self, prefill: int, pairs: float, running: int, kv: float) -> tuple[float, float]:
        """Seconds of the first of several identical steps, and by how many seconds each further one is
        longer.

        `prefill`: prompt tokens in each step. `pairs`: the sum of end^2 - start^2 over the prompt chunks
        of the first step, by position in their prompts. `running`: sequences that emit a token in each step.
        `kv`: tokens they attend to in the first step (one more each in every further step).
        """
        ...


@dataclass(frozen=True, slots=True)
class Additive:
    """t = a + p*prefill + d*running + c*kv + quadratic*pairs. With quadratic = 0 it is the controller's
    own law.
    """

    a: float
    p: float
    d: float
    c: float
    quadratic: float = 0.0  # seconds per squared token; 4e-9 doubles the cost of token 12,000 of a 70B prompt

    def progression(self, prefill: int, pairs: float, running: int, kv: float) -> tuple[float, float]:
        first = self.a + self.p * prefill + self.d * running + self.c * kv
        growth = self.c * running
        if prefill and self.quadratic:
            first += self.quadratic * pairs
            growth += 2.0 * self.quadratic * prefill * prefill
        return first, growth


@dataclass(frozen=True, slots=True)
class MaxForm:
    """t = max(floor, p*prefill) + d*running + c*kv + quadratic*pairs: weights are read, or prompts computed.

    `prefill_floor` replaces `floor` in steps that carry prompt tokens (kernels differ); None: the same.
    """

    floor: float
    p: float
    d: float
    c: float
    prefill_floor: float | None = None
    quadratic: float = 0.0

    def progression(self, prefill: int, pairs: float, running: int, kv: float) -> tuple[float, float]:
        base = self.floor
        growth = self.c * running
        if prefill:
            floor = self.floor if self.prefill_floor is None else self.prefill_floor
            base = max(floor, self.p * prefill) + self.quadratic * pairs
            growth += 2.0 * self.quadratic * prefill * prefill
        return base + self.d * running + self.c * kv, growth


def additive(step: StepTime, quadratic: float = 0.0) -> Additive:
    return Additive(step.a, step.p, step.d, step.c, quadratic)
