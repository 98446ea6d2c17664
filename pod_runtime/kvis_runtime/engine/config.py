"""What the engine can be told at its start. Values are checked here, before any weight is read.

Read from flags by the command line, never from the environment. Checks that need the model's shape (does
one sequence fit into the memory?) are in `limits`.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Final

from kvis_kv.dtypes import AUTO, TORCH_ENGINE, KVDtype
from kvis_kv.layout import BLOCK_SIZES, DEFAULT_BLOCK_SIZE, nearest_block_size

WEIGHT_DTYPES: Final = (KVDtype.FLOAT32, KVDtype.BFLOAT16)


class ConfigError(ValueError):
    """A value that the engine cannot use; `field` is its name, the message holds a value that would work."""

    def __init__(self, field: str, message: str) -> None:
        super().__init__(f"{field}: {message}")
        self.field = field
        self.message = message


@dataclass(frozen=True, slots=True)
class EngineConfig:
    """The engine's settings. Raises ConfigError when a value cannot work with any model."""

    model: Path
    """Folder with config.json, *.safetensors and tokenizer.json."""
    dtype: str = KVDtype.FLOAT32
    """Of weights and activations. bfloat16 halves the memory but is slow on CPUs without bf16 units."""
    kv_cache_dtype: str = AUTO
    block_size: int = DEFAULT_BLOCK_SIZE
    """Tokens per block."""
    kv_cache_memory_bytes: int = 512 * 2**20
    max_num_seqs: int = 16
    """Ceiling of sequences in the running batch; the live cap never exceeds it."""
    max_num_batched_tokens: int = 1024
    """Tokens computed in one step, prompts and decodes together. Bounds how long a prompt delays decodes."""
    max_model_len: int | None = None
    """Prompt and output tokens of one sequence; None = the model's context."""
    enable_prefix_caching: bool = True
    threads: int = 0
    """Compute threads; 0 = one per CPU of the process's affinity, whatever its cgroup allows."""

    def __post_init__(self) -> None:
        if self.dtype not in WEIGHT_DTYPES:
            raise ConfigError("dtype", f"{self.dtype!r} is not one of {_listed(WEIGHT_DTYPES)}")
        if self.kv_cache_dtype != AUTO and self.kv_cache_dtype not in TORCH_ENGINE:
            known = _listed((AUTO, *sorted(TORCH_ENGINE)))
            raise ConfigError(
                "kv_cache_dtype", f"the torch engine stores {known}, not {self.kv_cache_dtype!r}"
            )
        if self.block_size not in BLOCK_SIZES:
            near = nearest_block_size(self.block_size)
            raise ConfigError(
                "block_size", f"{self.block_size} is not one of {_listed(BLOCK_SIZES)}; {near} would work"
            )
        self._check_counts()

    def _check_counts(self) -> None:
        for field in ("kv_cache_memory_bytes", "max_num_seqs", "max_num_batched_tokens"):
            if getattr(self, field) < 1:
                raise ConfigError(field, f"{getattr(self, field)} must be at least 1")
        if self.max_model_len is not None and self.max_model_len < 2:
            raise ConfigError("max_model_len", f"{self.max_model_len} must be at least 2")
        if self.threads < 0:
            raise ConfigError("threads", f"{self.threads} must be at least 0")
        if self.max_num_batched_tokens < self.max_num_seqs:
            raise ConfigError(
                "max_num_batched_tokens",
                f"{self.max_num_batched_tokens} cannot give each of max_num_seqs={self.max_num_seqs}"
                f" sequences its token; {self.max_num_seqs} would work",
            )


def _listed(names: tuple[object, ...]) -> str:
    return ", ".join(str(name) for name in names)
