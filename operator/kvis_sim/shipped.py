"""The scaler and the cap law that ship, behind the simulator's controller protocol.

Nothing is re-implemented here: samples go into the same `Fleet`, through the same `observe`, `decide` and
`decide_cap` that the operator's loop calls, with the same state between ticks.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from kvis_operator.scaling.decide import decide
from kvis_operator.scaling.decision import Decision
from kvis_operator.scaling.spec import ScalingSpec
from kvis_operator.scaling.state import ScalerState
from kvis_operator.signals.golden import observe
from kvis_operator.signals.observation import Observation, PodPhase, PodState
from kvis_operator.signals.sample import PodSample
from kvis_operator.signals.series import Fleet
from kvis_operator.tuning.admission import CapSpec, CapState, decide_cap
from kvis_sim.controller import ControllerAction


class ShippedController:
    """`initial_replicas` is what the service runs when the operator first sees it."""

    def __init__(
        self,
        spec: ScalingSpec,
        *,
        initial_replicas: int,
        tune_caps: bool = True,
        smallest_cap: int = 1,
        name: str = "kvis",
    ) -> None:
        self._name = name
        self._spec = spec
        self._caps = CapSpec(
            ceiling=spec.max_num_seqs, minimum=smallest_cap, tpot_slo_seconds=spec.tpot_slo_seconds
        )
        self._tune_caps = tune_caps
        self._fleet = Fleet()
        self._state = ScalerState.initial(initial_replicas)
        self._cap_states: dict[str, CapState] = {}
        self._alert_floor: int | None = None
        self.decision: Decision | None = None
        self.observation: Observation | None = None

    @property
    def name(self) -> str:
        return self._name

    @property
    def interval(self) -> float:
        return self._spec.tick_seconds

    @property
    def state(self) -> ScalerState:
        return self._state

    def tick(
        self, now: float, pods: Sequence[PodState], samples: Mapping[str, PodSample]
    ) -> ControllerAction:
        for uid, sample in samples.items():
            self._fleet.record(uid, sample)
        self._fleet.forget({pod.uid for pod in pods})
        self.observation = observe(
            pods, self._fleet, now=now, interval=self.interval, start_seconds=self._spec.start_seconds
        )
        spec = replace(self._spec, alert_floor=self._alert_floor) if self._alert_floor else self._spec
        self.decision, self._state = decide(spec, self.observation, self._state, now=now)
        caps = self._decide_caps(self.observation, now) if self._tune_caps else {}
        return ControllerAction(
            replicas=self.decision.replicas,
            victims=self.decision.victims,
            caps=caps,
            reason=self.decision.reason,
            numbers=self.decision.numbers,
        )

    def _decide_caps(self, obs: Observation, now: float) -> dict[str, int]:
        caps: dict[str, int] = {}
        states: dict[str, CapState] = {}
        batch = self.decision.numbers.get("batch") if self.decision else None
        spec = replace(self._caps, slo_batch=None if batch is None else max(1, int(batch)))
        for pod in obs.pods:
            state = self._cap_states.get(pod.uid, CapState())
            if pod.phase is PodPhase.READY and pod.fresh:
                decision, state = decide_cap(spec, pod, obs, state, now=now)
                if decision.cap is not None and decision.cap != decision.current:
                    caps[pod.uid] = decision.cap
            states[pod.uid] = state
        self._cap_states = states
        return caps

    def restart(self, *, state_lost: bool) -> None:
        """A new process: samples are gone; the state comes back through its JSON, unless that is lost too."""
        self._fleet = Fleet()
        raw = None if state_lost else self._state.to_json()
        desired = self._state.desired  # what the scaled object says, not what the process remembered
        self._state = replace(ScalerState.restore(raw), desired=desired)
        self._cap_states = {}

    def alert(self, now: float, *, firing: bool, count: int) -> None:
        """However many alerts say so: at most one replica more than now, for as long as they fire."""
        if not firing:
            self._alert_floor = None
        elif self._alert_floor is None and self._state.desired is not None:
            self._alert_floor = min(self._spec.max_replicas, self._state.desired + 1)
