"""The result of sizing: what each replica gets, or why nothing fits and what would.

Data only; `fit` makes it. A plan goes to rendering and to status, a refusal becomes a condition.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from kvis_kv.dtypes import KVDtype
from kvis_operator.api.conditions import ConditionType, Reason
from kvis_operator.api.quantity import format_bytes
from kvis_operator.api.serving import Engine
from kvis_operator.api.status import PlanStatus


@dataclass(frozen=True, slots=True)
class Plan:
    profile: str
    engine: Engine
    image: str
    model_path: str  # in the pod
    served_name: str
    dtype: KVDtype  # numbers the model computes in
    kv_dtype: KVDtype
    kv_memory_bytes: int
    block_size: int
    prefix_caching: bool
    max_num_seqs: int  # ceiling of the live cap
    max_num_batched_tokens: int
    pod_memory_request_bytes: int
    pod_memory_limit_bytes: int
    # None where the model's shape is not known before it runs
    kv_capacity_tokens: int | None = None
    max_model_len: int | None = None
    weights_bytes: int | None = None

    @property
    def is_shape_known(self) -> bool:
        return self.weights_bytes is not None

    @property
    def summary(self) -> str:
        """One sentence for the condition `Sized`."""
        memory = f"{format_bytes(self.kv_memory_bytes)} of KV cache in blocks of {self.block_size} tokens"
        if not self.is_shape_known:
            return f"{memory}; how many tokens that holds is known once the model has loaded"
        return (
            f"{memory} holds {self.kv_capacity_tokens} tokens in {self.kv_dtype}; sequences of up to "
            f"{self.max_model_len} tokens, at most {self.max_num_seqs} at once"
        )

    def to_status(self) -> PlanStatus:
        return PlanStatus(
            profile=self.profile,
            engine=self.engine.value,
            kv_memory=format_bytes(self.kv_memory_bytes),
            kv_dtype=self.kv_dtype.value,
            block_size=self.block_size,
            kv_capacity_tokens=self.kv_capacity_tokens,
            max_num_seqs=self.max_num_seqs,
            max_num_batched_tokens=self.max_num_batched_tokens,
            max_model_len=self.max_model_len,
            pod_memory=format_bytes(self.pod_memory_limit_bytes),
        )


@dataclass(frozen=True, slots=True)
class Infeasible:
    condition: ConditionType  # the one that becomes False: Accepted or Sized
    reason: Reason
    message: str  # names the field and the value that would work
    numbers: Mapping[str, float] = field(default_factory=dict)
