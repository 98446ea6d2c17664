"""A Kubernetes cluster for the demo and for tests, from whatever the machine offers.

`lab.up()` returns a `Cluster`; `python -m lab up` does the same from a shell (with tests/ on PYTHONPATH).
Not a part of the product: nothing under operator/ or pod_runtime/ may import it.
"""

from .cluster import Cluster, current, down, status, up
from .progress import LabError, StepError
from .sources import Source

__all__ = ["Cluster", "LabError", "Source", "StepError", "current", "down", "status", "up"]
