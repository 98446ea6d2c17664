"""Which phase of its life the pod is in, and what it therefore answers.

    LOADING ──► READY ──► LEAVING ──► REFUSING          any ──► FAILED

LEAVING: asked to go. Readiness is false at once, but new requests are still served, because routers and
endpoint lists learn of it seconds later. REFUSING: new requests get 503, those in flight go on. Phases only
move forward.
"""

from enum import IntEnum

from kvis_runtime.serve.errors import ApiError, unavailable


class Phase(IntEnum):
    """Phases in their order."""

    LOADING = 0
    READY = 1
    LEAVING = 2
    REFUSING = 3
    FAILED = 4


class Lifecycle:
    """The pod's phase. Read by the gate, the probes, the metrics and the admin port."""

    __slots__ = ("phase",)

    def __init__(self) -> None:
        self.phase = Phase.LOADING

    def advance(self, phase: Phase) -> None:
        """Go to `phase`; an earlier one than the present is ignored."""
        self.phase = max(self.phase, phase)

    @property
    def is_draining(self) -> bool:
        """Whether the pod was asked to go."""
        return self.phase in (Phase.LEAVING, Phase.REFUSING)

    def refusal(self) -> ApiError | None:
        """Return why a new request cannot be served now, None when it can."""
        match self.phase:
            case Phase.LOADING:
                return unavailable("The model is still loading; try again.", code="loading")
            case Phase.REFUSING:
                return shutting_down()
            case Phase.FAILED:
                return unavailable(
                    "The model engine failed and this pod restarts; try again.", code="engine_failed"
                )
            case Phase.READY | Phase.LEAVING:
                return None


def shutting_down() -> ApiError:
    """Return the 503 of a pod that takes no more requests, or cuts off the last ones."""
    return unavailable("This pod is shutting down; send the request again.", code="shutting_down")
