"""Compiles and builds images ahead, starting nothing, in the minutes in which other things are installed.

Needs only a bare Python. An `up` that comes before this is done waits for what it needs of it.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

from . import binaries, images, preflight, sources
from .layout import Layout, default_layout
from .progress import say
from .sources import Source


def prepare() -> None:
    """Fill the cache with what this machine's kind of cluster will need."""
    layout = default_layout()
    choice = sources.choose(sources.look(layout))
    say(f"prepare for {choice.source.value}")
    match choice.source:
        case Source.EXISTING | Source.KIND:
            binaries.ensure(layout, binaries.clients())
        case Source.CONTROL_PLANE:
            binaries.ensure(layout, binaries.needed(node=False))
        case Source.LAB:
            _prepare_lab(layout)


def _prepare_lab(layout: Layout) -> None:
    preflight.install_missing(layout)
    with ThreadPoolExecutor(max_workers=1, thread_name_prefix="images") as pool:
        built = pool.submit(images.build, layout)
        binaries.ensure(layout, binaries.needed(node=True))
        built.result()
