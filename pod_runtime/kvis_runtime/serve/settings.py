"""What the server is told at its start; read from flags by the command line, checked there."""

from dataclasses import dataclass
from pathlib import Path

from kvis_runtime.serve.drain import DrainTimes


@dataclass(frozen=True, slots=True)
class ServeSettings:
    """Settings of the serving side; the engine has its own."""

    model: Path
    """Folder of the model; its tokenizer is read here."""
    served_name: str
    host: str
    port: int
    admin_port: int
    admin_public_key: Path
    """PEM file of the operator's public key; may be absent, then every admin call is refused."""
    pod_uid: str | None
    max_num_queued_reqs: int
    """Requests that may wait or run; more are refused with 429."""
    cache_dtype: str
    """As exposed in `vllm:cache_config_info`."""
    prefix_caching: bool
    drain: DrainTimes
