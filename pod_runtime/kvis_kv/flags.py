"""Command-line flags of `kvis-runtime serve`: rendered by the operator, parsed by the runtime.

vLLM's spelling where vLLM has the flag. The operator renders only these names, each as one argv element
`--flag=value`, so a value can never become a flag of its own.
"""

from typing import Final

MODEL: Final = "--model"
SERVED_MODEL_NAME: Final = "--served-model-name"
DTYPE: Final = "--dtype"
KV_CACHE_DTYPE: Final = "--kv-cache-dtype"
KV_CACHE_MEMORY_BYTES: Final = "--kv-cache-memory-bytes"
BLOCK_SIZE: Final = "--block-size"
ENABLE_PREFIX_CACHING: Final = "--enable-prefix-caching"  # "true" | "false"
MAX_NUM_SEQS: Final = "--max-num-seqs"
MAX_NUM_BATCHED_TOKENS: Final = "--max-num-batched-tokens"
MAX_NUM_QUEUED_REQS: Final = "--max-num-queued-reqs"  # waiting + running; 0 = from max_num_seqs
MAX_MODEL_LEN: Final = "--max-model-len"
HOST: Final = "--host"
PORT: Final = "--port"
ADMIN_PORT: Final = "--admin-port"
ADMIN_PUBLIC_KEY: Final = "--admin-public-key"  # file with a PEM Ed25519 public key
SHUTDOWN_TIMEOUT: Final = "--shutdown-timeout"  # seconds of drain after SIGTERM, the pause below included
ENDPOINT_PROPAGATION: Final = "--endpoint-propagation"  # seconds of it that new requests are still served
THREADS: Final = "--threads"  # 0 = from the cgroup's CPU limit

PUBLIC_PORT: Final = 8000
ADMIN_PORT_NUMBER: Final = 8001
ADMIN_PUBLIC_KEY_PATH: Final = "/etc/kvis/admin/public.pem"
ADMIN_KEY_CONFIGMAP_KEY: Final = "public.pem"
POD_UID_ENV: Final = "KVIS_POD_UID"  # the audience an admin token must name
MODELS_ROOT: Final = "/models"  # bundled models lie at /models/<name>; a claim is mounted at /models/pvc
TERMINATION_LOG: Final = "/dev/termination-log"

EXIT_CONFIG: Final = 78  # sysexits EX_CONFIG: do not retry blindly, only a changed resource can help
