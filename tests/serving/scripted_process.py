"""A server process with a scripted engine, for tests of signals: `python -m serving.scripted_process ARGS`.

Takes the flags of `kvis-runtime serve`; the model folder needs only what the server itself reads.
"""

import asyncio
import os
import sys
from pathlib import Path

from kvis_kv import flags
from kvis_runtime.cli.arguments import parse
from kvis_runtime.cli.main import reported
from kvis_runtime.cli.serve import engine_config, serve_settings
from kvis_runtime.serve.runtime import build
from kvis_runtime.serve.server import serve, stop_on_signals
from kvis_runtime.serve.tokens import TextCodec
from serving.running import an_engine

STEP_SECONDS = 0.02
TEXT = "Word after word. "


async def run(argv: list[str]) -> None:
    arguments = parse(argv)
    config = engine_config(arguments)
    settings = serve_settings(arguments, config, os.environ.get(flags.POD_UID_ENV))
    codec = TextCodec.load(config.model)
    runtime = build(
        settings, codec, lambda: an_engine(TEXT, step_seconds=STEP_SECONDS, max_num_seqs=config.max_num_seqs)
    )
    await serve(settings, runtime, stop_on_signals(runtime))


def work() -> int:
    asyncio.run(run(["serve", *sys.argv[1:]]))
    return 0


if __name__ == "__main__":
    raise SystemExit(reported(work, Path(os.environ["TERMINATION_LOG_OF_TEST"])))
