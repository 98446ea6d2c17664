"""Names of the metric series that the runtime exposes and the operator reads.

One definition for both sides, for dashboards, alert rules and tests. vLLM's own names where vLLM has the series
(so every vLLM dashboard works on our engine); `kvis_runtime_*` for what it lacks. Counters carry the `_total`
that the exposition format gives them. Not here: the operator's own metrics.
"""

from typing import Final

# vLLM's names (0.32), see also ALIASES for what older releases called them.
REQUESTS_RUNNING: Final = "vllm:num_requests_running"
REQUESTS_WAITING: Final = "vllm:num_requests_waiting"
KV_CACHE_USAGE: Final = "vllm:kv_cache_usage_perc"  # 0-1, blocks referenced by live requests only
PREFIX_QUERIES: Final = "vllm:prefix_cache_queries_total"  # tokens
PREFIX_HITS: Final = "vllm:prefix_cache_hits_total"  # tokens
PROMPT_TOKENS: Final = "vllm:prompt_tokens_total"
PROMPT_TOKENS_CACHED: Final = "vllm:prompt_tokens_cached_total"
PROMPT_TOKENS_BY_SOURCE: Final = "vllm:prompt_tokens_by_source_total"  # label source
GENERATION_TOKENS: Final = "vllm:generation_tokens_total"
REQUEST_SUCCESS: Final = "vllm:request_success_total"  # label finished_reason
ADMISSION_REJECTIONS: Final = "vllm:admission_rejections_total"  # label reason
PREEMPTIONS: Final = "vllm:num_preemptions_total"
TTFT_SECONDS: Final = "vllm:time_to_first_token_seconds"
INTER_TOKEN_SECONDS: Final = "vllm:inter_token_latency_seconds"
TPOT_SECONDS: Final = "vllm:request_time_per_output_token_seconds"
PREFILL_SECONDS: Final = "vllm:request_prefill_time_seconds"
DECODE_SECONDS: Final = "vllm:request_decode_time_seconds"
QUEUE_SECONDS: Final = "vllm:request_queue_time_seconds"
E2E_SECONDS: Final = "vllm:e2e_request_latency_seconds"
ITERATION_TOKENS: Final = "vllm:iteration_tokens_total"  # a histogram despite its name
CACHE_CONFIG_INFO: Final = "vllm:cache_config_info"  # gauge 1, configuration in its labels

# What vLLM lacks.
KV_BLOCKS: Final = "kvis_runtime_kv_blocks"  # label state = referenced|cached|free
MAX_NUM_SEQS: Final = "kvis_runtime_max_num_seqs"  # the ceiling the engine was started with
MAX_NUM_ACTIVE_SEQS: Final = "kvis_runtime_max_num_active_seqs"  # the live cap, <= ceiling
ENGINE_STEPS: Final = "kvis_runtime_engine_steps_total"
ENGINE_BUSY_SECONDS: Final = "kvis_runtime_engine_busy_seconds_total"
DRAINING: Final = "kvis_runtime_draining"  # 0|1

ALIASES: Final[dict[str, tuple[str, ...]]] = {
    KV_CACHE_USAGE: ("vllm:gpu_cache_usage_perc",),
    PREFIX_QUERIES: (
        "vllm:prefix_cache_queries",
        "vllm:gpu_prefix_cache_queries_total",
        "vllm:gpu_prefix_cache_queries",
    ),
    PREFIX_HITS: ("vllm:prefix_cache_hits", "vllm:gpu_prefix_cache_hits_total", "vllm:gpu_prefix_cache_hits"),
    INTER_TOKEN_SECONDS: ("vllm:time_per_output_token_seconds",),
}
"""Current name -> older names, newest first. A present alias is used; an absent one is never read as 0."""
