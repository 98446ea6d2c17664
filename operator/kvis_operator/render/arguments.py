"""The runtime's command line, one argv element `--flag=value` for each setting of the plan.

A list and never a shell line, so no value can become a flag or a command.
"""

from typing import Final

from kvis_kv import flags
from kvis_operator.sizing.plan import Plan

SUBCOMMAND: Final = "serve"  # of the image's entry point
SHUTDOWN_SECONDS: Final = 120  # to finish what streams after SIGTERM; the pod's grace is longer


def arguments(plan: Plan) -> list[str]:
    settings: list[tuple[str, object]] = [
        (flags.MODEL, plan.model_path),
        (flags.SERVED_MODEL_NAME, plan.served_name),
        (flags.DTYPE, plan.dtype.value),
        (flags.KV_CACHE_DTYPE, plan.kv_dtype.value),
        (flags.KV_CACHE_MEMORY_BYTES, plan.kv_memory_bytes),
        (flags.BLOCK_SIZE, plan.block_size),
        (flags.ENABLE_PREFIX_CACHING, str(plan.prefix_caching).lower()),
        (flags.MAX_NUM_SEQS, plan.max_num_seqs),
        (flags.MAX_NUM_BATCHED_TOKENS, plan.max_num_batched_tokens),
        (flags.MAX_MODEL_LEN, plan.max_model_len),
        (flags.HOST, "0.0.0.0"),
        (flags.PORT, flags.PUBLIC_PORT),
        (flags.ADMIN_PORT, flags.ADMIN_PORT_NUMBER),
        (flags.ADMIN_PUBLIC_KEY, flags.ADMIN_PUBLIC_KEY_PATH),
        (flags.SHUTDOWN_TIMEOUT, SHUTDOWN_SECONDS),
    ]
    return [SUBCOMMAND] + [f"{flag}={value}" for flag, value in settings if value is not None]
