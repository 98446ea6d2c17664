"""The `kvis-runtime` command.

Exit status: 0 done, 1 failed, 78 (EX_CONFIG) when only other settings can help.

A failure is told twice: on stderr for people, and in the termination log for the operator. The engine's
thread may still be inside a tensor operation when the process ends, so it ends without the interpreter's
clean-up.
"""

import argparse
import logging
import os
import signal
import sys
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from types import FrameType
from typing import Final, NoReturn

from kvis_kv import flags
from kvis_runtime.cli.arguments import UsageError, parse
from kvis_runtime.cli.termination import write_termination

EXIT_FAILED: Final = 1
ENGINE_THREAD: Final = "engine"  # named so by the server, which is not imported for every command
INSTALL_LINE: Final = "pip install 'kvis[runtime]'"

logger = logging.getLogger(__name__)


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command line and return the exit status."""
    logging.basicConfig(
        level=logging.INFO, stream=sys.stderr, format="%(asctime)s %(levelname)s %(name)s: %(message)s"
    )
    status = reported(lambda: _run(argv), Path(flags.TERMINATION_LOG))
    if any(thread.name == ENGINE_THREAD for thread in threading.enumerate()):
        logging.shutdown()
        sys.stderr.flush()
        os._exit(status)
    return status


def reported(work: Callable[[], int], termination_log: Path) -> int:
    """Run `work`; tell what ended it on stderr and in the termination log, and return the exit status."""
    try:
        return work()
    except UsageError as error:
        return _give_up(termination_log, "InvalidConfiguration", str(error), flags.EXIT_CONFIG)
    except ModuleNotFoundError as error:
        message = f"The package {error.name} is missing: {INSTALL_LINE}"
        return _give_up(termination_log, "MissingPackage", message, flags.EXIT_CONFIG)
    except Exception as error:  # the process's boundary: every other end must also reach the operator
        logger.exception("Stopped on an error")
        return _give_up(termination_log, type(error).__name__, str(error), EXIT_FAILED)


def _run(argv: Sequence[str] | None) -> int:
    arguments = parse(argv)
    match arguments.command:
        case "serve":
            return _serve(arguments)
        case "convert-bundled":
            return _convert(arguments)
    raise AssertionError(f"no handler for the command {arguments.command}")


def _serve(arguments: argparse.Namespace) -> int:
    # As PID 1 a process has no default for SIGTERM: until the server handles it, the signal would be lost and
    # the pod would hang until it is killed.
    signal.signal(signal.SIGTERM, leave_before_serving)
    # Imported here: the other command works without torch and the server's packages.
    from kvis_runtime.cli import serve

    serve.run(arguments, os.environ.get(flags.POD_UID_ENV))
    return 0


def leave_before_serving(number: int, frame: FrameType | None) -> NoReturn:
    """End the process: it has accepted nothing yet."""
    raise SystemExit(0)


def _convert(arguments: argparse.Namespace) -> int:
    from kvis_runtime.cli import convert

    return convert.main([f"--out={arguments.out}"])


def _give_up(termination_log: Path, reason: str, message: str, status: int) -> int:
    print(f"kvis-runtime: {message}", file=sys.stderr)
    write_termination(termination_log, reason, message)
    return status


if __name__ == "__main__":
    raise SystemExit(main())
