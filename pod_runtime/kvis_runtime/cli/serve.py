"""`kvis-runtime serve`: from parsed flags to a serving process and its exit status.

The only module of the command line that imports the server; torch comes with the engine.
"""

import argparse
import asyncio
import logging
import os
import sys
import warnings
from pathlib import Path
from typing import Final

from kvis_kv import flags
from kvis_kv.models import ModelConfigError
from kvis_runtime.cli.arguments import UsageError, as_usage_error
from kvis_runtime.cli.cpu_limit import usable_cpus
from kvis_runtime.engine.config import ConfigError, EngineConfig
from kvis_runtime.serve.backend import Backend
from kvis_runtime.serve.drain import DrainTimes
from kvis_runtime.serve.runtime import build
from kvis_runtime.serve.server import serve, stop_on_signals
from kvis_runtime.serve.settings import ServeSettings
from kvis_runtime.serve.tokens import TextCodec, TokenizerFilesError

QUEUED_PER_SEQUENCE: Final = 8  # of the ceiling: about eight rounds of waiting before a client is sent away
FEWEST_QUEUED: Final = 256
BATCHED_TOKENS: Final = 1024

SWITCH_INTERVAL_SECONDS: Final = 0.0005
"""How long the event loop may keep the interpreter lock from the engine, which asks for it again after every
tensor operation; Python's default of 5 ms is as long as many of a step's operations together."""

OPENMP_WAIT: Final = ("OMP_WAIT_POLICY", "PASSIVE")
"""Threads that wait for each other sleep instead of spinning. Pods share their node's CPUs: with 2 threads
on 2 cores under a load of 14, 32 sequences decoded at 27 tokens/s so, and at 4 with spinning threads, each of
which holds the core that the other one needs. An environment that sets the variable is obeyed."""

logger = logging.getLogger(__name__)


def run(arguments: argparse.Namespace, pod_uid: str | None) -> None:
    """Serve until drained. UsageError for settings that cannot work; other errors mean a failure."""
    config = engine_config(arguments)
    settings = serve_settings(arguments, config, pod_uid)
    try:
        codec = TextCodec.load(config.model)
    except TokenizerFilesError as error:
        raise UsageError(f"{flags.MODEL}: {error}") from error
    if pod_uid is None:
        logger.warning("Refusing every admin call: %s is not set", flags.POD_UID_ENV)
    sys.setswitchinterval(SWITCH_INTERVAL_SECONDS)
    try:
        asyncio.run(_serve(settings, codec, config))
    except ConfigError as error:
        raise as_usage_error(error) from error
    except ModelConfigError as error:
        raise UsageError(f"{flags.MODEL}: {error}") from error


async def _serve(settings: ServeSettings, codec: TextCodec, config: EngineConfig) -> None:
    runtime = build(settings, codec, lambda: load_engine(config))
    await serve(settings, runtime, stop_on_signals(runtime))


def load_engine(config: EngineConfig) -> Backend:
    """Load the torch engine; ConfigError or ModelConfigError when it cannot work."""
    os.environ.setdefault(*OPENMP_WAIT)  # read once, when torch is loaded
    # The image does without NumPy's 70 MB: nothing here hands tensors to it. torch warns once while it loads.
    warnings.filterwarnings("ignore", message="Failed to initialize NumPy")
    # Imported here, in the engine's thread: torch takes seconds, and probes are answered meanwhile.
    from kvis_runtime.model.llm import Engine

    return Engine.load(config)


def engine_config(arguments: argparse.Namespace) -> EngineConfig:
    """Return the engine's settings; UsageError under the flag's name."""
    batched: int | None = arguments.max_num_batched_tokens
    try:
        return EngineConfig(
            model=_model_folder(arguments.model),
            dtype=arguments.dtype,
            kv_cache_dtype=arguments.kv_cache_dtype,
            block_size=arguments.block_size,
            kv_cache_memory_bytes=arguments.kv_cache_memory_bytes,
            max_num_seqs=arguments.max_num_seqs,
            max_num_batched_tokens=max(BATCHED_TOKENS, arguments.max_num_seqs)
            if batched is None
            else batched,
            max_model_len=arguments.max_model_len,
            enable_prefix_caching=arguments.enable_prefix_caching,
            threads=arguments.threads or usable_cpus(),
        )
    except ConfigError as error:
        raise as_usage_error(error) from error


def serve_settings(arguments: argparse.Namespace, config: EngineConfig, pod_uid: str | None) -> ServeSettings:
    """Return the server's settings, defaults filled in."""
    if arguments.port == arguments.admin_port:
        raise UsageError(f"{flags.ADMIN_PORT}: {arguments.admin_port} is the public port; give another one")
    cache_dtype = config.dtype if config.kv_cache_dtype == "auto" else config.kv_cache_dtype
    queued = max(FEWEST_QUEUED, QUEUED_PER_SEQUENCE * config.max_num_seqs)
    return ServeSettings(
        model=config.model,
        served_name=arguments.served_model_name or config.model.name,
        host=arguments.host,
        port=arguments.port,
        admin_port=arguments.admin_port,
        admin_public_key=arguments.admin_public_key,
        pod_uid=pod_uid,
        max_num_queued_reqs=arguments.max_num_queued_reqs or queued,
        cache_dtype=cache_dtype,
        prefix_caching=config.enable_prefix_caching,
        drain=DrainTimes(arguments.endpoint_propagation, arguments.shutdown_timeout),
    )


def _model_folder(path: Path) -> Path:
    if not (path / "config.json").is_file():
        raise UsageError(f"{flags.MODEL}: {path} is not a model folder: it has no config.json")
    return path.resolve()
