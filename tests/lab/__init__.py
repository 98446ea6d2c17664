"""A Kubernetes cluster for the demo and for tests, from whatever the machine offers.

`lab.up()` returns a `Cluster`; `python -m lab up` does the same from a shell (with tests/ on PYTHONPATH).
Not a part of the product: nothing under operator/ or pod_runtime/ may import it.

Names are looked up when used, so that `python -m lab prepare` runs on a bare Python while the environment
with the libraries of the other commands is still being installed.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .cluster import Cluster, current, down, status, up
    from .preparation import prepare
    from .progress import LabError, StepError
    from .sources import Source

_HOMES = {"LabError": "progress", "StepError": "progress", "Source": "sources", "prepare": "preparation"}

__all__ = ["Cluster", "LabError", "Source", "StepError", "current", "down", "prepare", "status", "up"]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'lab' has no attribute {name!r}")
    return getattr(import_module(f".{_HOMES.get(name, 'cluster')}", __name__), name)
