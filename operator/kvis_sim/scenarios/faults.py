"""The fault protocol (reference I7): one steady service, one fault at a time, and the same run without it.

What a fault *causes* is the difference to the undisturbed run of the same seed. Faults of the inputs
(lost, spoilt, frozen, renamed series, refused writes, a controller that stops or restarts, alerts) must
not change capacity; a slow or a lost pod really takes capacity away, and may be answered.
"""

from dataclasses import replace

from kvis_sim.scenario import Fault, FaultKind
from kvis_sim.scenarios.machines import A100_TP4_70B
from kvis_sim.scenarios.recipe import Kind, Recipe
from kvis_sim.scenarios.traffic import Lengths, Segment, Segments

MINUTE = 60.0
START = 40 * MINUTE
CHAT = Lengths("azure-conv")

STEADY = Recipe(
    "fault/none",
    Kind.FIXED_MIX,
    Segments((Segment(75 * MINUTE, 3.5, CHAT),)),
    A100_TP4_70B,
    duration=75 * MINUTE,
    initial=4,
)
BURST = replace(
    STEADY,
    name="fault-in-burst/none",
    traffic=Segments(
        (Segment(38 * MINUTE, 3.0, CHAT), Segment(6 * MINUTE, 6.0, CHAT), Segment(31 * MINUTE, 3.0, CHAT))
    ),
)

STEADY_FAULTS = {
    "scrape-loss-10": Fault(FaultKind.SCRAPE_LOSS, START, fraction=0.1, pods=16),
    "scrape-loss-50": Fault(FaultKind.SCRAPE_LOSS, START, fraction=0.5, pods=16),
    "scrape-loss-100": Fault(FaultKind.SCRAPE_LOSS, START, fraction=1.0, pods=16),
    "nan": Fault(FaultKind.NAN, START, pods=2),
    "counter-reset": Fault(FaultKind.COUNTER_RESET, START, pods=2),
    "frozen-pod": Fault(FaultKind.FROZEN, START, pods=1),
    "hits-dead": Fault(FaultKind.DEAD_HITS, START, pods=16),
    "kv-usage-renamed": Fault(FaultKind.RENAMED, START, pods=16, field="kv_usage"),
    "waiting-renamed": Fault(FaultKind.RENAMED, START, pods=16, field="waiting"),
    "finished-renamed": Fault(FaultKind.RENAMED, START, pods=16, field="finished_requests"),
    "api-refused": Fault(FaultKind.API_REFUSED, START),
    "failover": Fault(FaultKind.CONTROLLER_DOWN, START, duration=60.0),
    "restart": Fault(FaultKind.CONTROLLER_RESTART, START, fraction=0.0),
    "restart-state-lost": Fault(FaultKind.CONTROLLER_RESTART, START, fraction=1.0),
    "alert-storm": Fault(FaultKind.ALERT_STORM, START, duration=60.0, pods=1000),
    "slow-pod": Fault(FaultKind.SLOW_POD, START, factor=2.0),
    "node-lost": Fault(FaultKind.NODE_LOST, START, duration=0.0),
}
BURST_FAULTS = {
    "restart": Fault(FaultKind.CONTROLLER_RESTART, START, fraction=0.0),
    "restart-state-lost": Fault(FaultKind.CONTROLLER_RESTART, START, fraction=1.0),
    "stuck-pending": Fault(FaultKind.STUCK_PENDING, START - 2 * MINUTE, duration=600.0),
    "api-refused": Fault(FaultKind.API_REFUSED, START - 2 * MINUTE, duration=120.0),
}
TAKES_CAPACITY = frozenset({"slow-pod", "node-lost", "stuck-pending"})
COOLS_DOWN = frozenset({"alert-storm"})
"""Faults after which the extra replica leaves by the normal cool-down, not within ticks."""


def fault_recipes() -> tuple[Recipe, ...]:
    found = [STEADY, BURST]
    for base, faults in ((STEADY, STEADY_FAULTS), (BURST, BURST_FAULTS)):
        prefix = base.name.split("/")[0]
        found += [replace(base, name=f"{prefix}/{name}", faults=(fault,)) for name, fault in faults.items()]
    return tuple(found)


def undisturbed(name: str) -> str:
    """The name of the run without the fault."""
    return name.split("/")[0] + "/none"
