"""A resource with its profile's defaults filled in: what is asked of one replica, before anyone checks it.

The model of a claim has no known shape, so everything that follows from it is None.
"""

from dataclasses import dataclass
from typing import Final

from kvis_kv import flags
from kvis_kv.dtypes import KVDtype, resolve
from kvis_kv.layout import KVLayout
from kvis_kv.models import ModelShape
from kvis_operator.api.profile import EngineOffer, Profile
from kvis_operator.api.v1alpha1 import Engine, Spec
from kvis_operator.sizing.working_memory import working_bytes

_WEIGHT_BYTES: Final = {KVDtype.FLOAT32: 4, KVDtype.BFLOAT16: 2, KVDtype.FLOAT16: 2}
LEAST_LENGTH: Final = 256  # tokens a replica must be able to hold when the resource says nothing of lengths


@dataclass(frozen=True, slots=True)
class Ask:
    spec: Spec
    profile: Profile
    engine: Engine
    offer: EngineOffer
    shape: ModelShape | None

    @property
    def block_size(self) -> int:
        return self.spec.kv_cache.block_size or self.offer.default_block_size

    @property
    def kv_dtype(self) -> KVDtype:
        return resolve(self.spec.kv_cache.dtype.value, weights=self.offer.dtype)

    @property
    def kv_memory_bytes(self) -> int:
        wanted = self.spec.kv_cache.memory_bytes
        return self.profile.kv_memory_bytes if wanted is None else wanted

    @property
    def max_num_seqs(self) -> int:
        """The profile's ceiling gives way to an asked number of tokens in a step."""
        batching = self.spec.batching
        if batching.max_num_seqs:
            return batching.max_num_seqs
        return min(self.profile.max_num_seqs, batching.max_num_batched_tokens or self.profile.max_num_seqs)

    @property
    def max_num_batched_tokens(self) -> int:
        return self.spec.batching.max_num_batched_tokens or max(
            self.profile.max_num_batched_tokens, self.max_num_seqs
        )

    @property
    def expected_tokens(self) -> int | None:
        """Prompt and answer of a typical request, as hinted."""
        workload = self.spec.workload
        return (workload.input_tokens or 0) + (workload.output_tokens or 0) or None

    @property
    def least_length(self) -> int:
        """Tokens that one sequence must be able to have."""
        return self.spec.model.max_length or self.expected_tokens or LEAST_LENGTH

    @property
    def model_path(self) -> str:
        claim = self.spec.model.claim
        return (
            f"{flags.MODELS_ROOT}/pvc/{claim[1]}"
            if claim
            else f"{flags.MODELS_ROOT}/{self.spec.model.bundled_name}"
        )

    def layout(self, shape: ModelShape) -> KVLayout:
        return KVLayout(shape, self.kv_dtype, self.block_size)

    def weights_bytes(self, shape: ModelShape) -> int:
        return shape.weights_bytes(_WEIGHT_BYTES[self.offer.dtype])

    def working_bytes(self, shape: ModelShape) -> int:
        return working_bytes(
            shape, max_num_batched_tokens=self.max_num_batched_tokens, max_num_seqs=self.max_num_seqs
        )

    def memory_budget_bytes(self) -> int:
        """Where weights and KV cache must fit: the devices' memory, or the pod's without any."""
        accelerator = self.profile.accelerator
        return accelerator.count * accelerator.memory_bytes if accelerator else self.profile.memory_bytes
