"""Ports that a test may listen on: below those that the kernel gives to outgoing connections, and for each
pytest worker its own, so that nobody takes one between the look and the use.
"""

import contextlib
import itertools
import os
import socket

FIRST = 12_000
PER_WORKER = 1_000

_worker = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))
_own = range(FIRST + _worker * PER_WORKER, FIRST + (_worker + 1) * PER_WORKER)
_next = itertools.count(os.getpid())


def a_free_port() -> int:
    """RuntimeError when another process listens on all of them."""
    for _ in _own:
        port = _own[next(_next) % PER_WORKER]
        with contextlib.suppress(OSError), socket.create_server(("127.0.0.1", port)):
            return port
    raise RuntimeError(f"no port from {_own.start} to {_own.stop - 1} is free on 127.0.0.1")
