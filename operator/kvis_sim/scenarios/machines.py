"""Simulated hardware: one replica's step-time law and KV memory, by measured rows of reference D2.

`prior` is what a user's profile would say of it, so what our scaler starts from. Laws that the additive
prior cannot express are variants of the same machine.
"""

from dataclasses import dataclass
from enum import StrEnum

from kvis_operator.scaling.spec import StepTime
from kvis_sim.step_laws import MaxForm, StepLaw, additive


class Law(StrEnum):
    ADDITIVE = "additive"  # the controller's own form
    MAX_FORM = "max"  # weights are read, or prompts are computed, whichever takes longer
    QUADRATIC = "quadratic"  # attention grows with the square of a prompt: token 12,000 costs twice as much


@dataclass(frozen=True, slots=True)
class Machine:
    name: str
    prior: StepTime  # seconds, and seconds per token or sequence
    kv_capacity_tokens: int
    max_num_seqs: int = 256

    def law(self, law: Law) -> StepLaw:
        match law:
            case Law.ADDITIVE:
                return additive(self.prior)
            case Law.QUADRATIC:
                return additive(self.prior, quadratic=self.prior.p / 24_000.0)
            case Law.MAX_FORM:
                return MaxForm(
                    floor=self.prior.a,
                    p=self.prior.p * 1.14,
                    d=self.prior.d,
                    c=self.prior.c,
                    prefill_floor=self.prior.a * 1.7,
                )


H100_TP4_70B = Machine("h100x4-70b", StepTime(a=0.0288, p=0.094e-3, d=0.264e-3, c=1.01e-7), 480_000)
A100_TP4_70B = Machine("a100x4-70b", StepTime(a=0.0433, p=0.2425e-3, d=0.183e-3, c=3.72e-7), 480_000)
A100_TP2_8B = Machine("a100x2-8b", StepTime(a=0.0085, p=0.066e-3, d=0.234e-3, c=3.0e-8), 900_000)
"""Llama-2-70B on 4 H100 and on 4 A100, Llama-3.1-8B on 2 A100 (regressions on published measurements)."""
