"""One simulated trial of a user's own service: its manifest, its profile's machine and a trace, as a
scenario.

The scaler's settings are made by the operator's own reading of the resource, so that what is simulated is
what runs.
"""

import argparse
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean

from kvis_operator.api.v1alpha1 import TuningMode
from kvis_operator.cli.subject_file import InputError, load_subject
from kvis_operator.reconcile.deliberate import scaling_spec
from kvis_operator.reconcile.intake import Accepted
from kvis_operator.reconcile.world import LoopTimes
from kvis_operator.scaling.capacity import TPOT_GUARD, Mix, Replica, capacity
from kvis_operator.scaling.spec import ScalingSpec
from kvis_operator.signals.observation import PodState
from kvis_operator.signals.sample import PodSample
from kvis_sim.controller import Controller, ControllerAction
from kvis_sim.pods import EPOCH
from kvis_sim.scenario import RouterKind, Scenario, Slo
from kvis_sim.step_laws import additive
from kvis_sim.traces import load_trace, read_trace
from kvis_sim.workload import Request, Trace, multiplied, thin, until

NO_OBJECTIVE = 1e9  # seconds: an SLO that the resource leaves out is always met
NOISE, SPEED_SPREAD = 0.05, 0.05
LONGEST_WARM_UP = 600.0


@dataclass(frozen=True, slots=True)
class Trial:
    service: str
    trace: Trace
    spec: ScalingSpec
    scenario: Scenario
    tunes_caps: bool
    smallest_cap: int


def build_trial(args: argparse.Namespace, trace_name: str) -> Trial:
    """Raises InputError, or TraceError, for what cannot be simulated."""
    _check(args)
    subject = load_subject(args.file, args.profile)
    trace = _trace(trace_name)
    duration = (
        trace.duration + 1.0 if args.minutes is None else min(trace.duration + 1.0, 60.0 * args.minutes)
    )
    spec = scaling_spec(subject, LoopTimes())
    initial = spec.min_replicas if args.initial is None else args.initial
    if not spec.min_replicas <= initial <= spec.max_replicas:
        raise InputError(
            f"--initial {initial}: the service has {spec.min_replicas} to {spec.max_replicas} replicas"
        )
    tuning = subject.service.spec.tuning
    return Trial(
        service=subject.service.metadata.name,
        trace=trace,
        spec=spec,
        scenario=_scenario(args, subject, spec, trace, duration=duration, initial=initial),
        tunes_caps=tuning.mode is TuningMode.AUTO,
        smallest_cap=min(tuning.max_num_seqs.min or 1, spec.max_num_seqs),
    )


def _check(args: argparse.Namespace) -> None:
    if args.copies < 1:
        raise InputError(f"--copies {args.copies} must be at least 1; use --keep for less load")
    if not 0.0 < args.keep <= 1.0:
        raise InputError(f"--keep {args.keep:g} must be above 0 and at most 1")
    if args.minutes is not None and args.minutes <= 0.0:
        raise InputError(f"--minutes {args.minutes:g} must be above 0")


def _trace(name: str) -> Trace:
    path = Path(name)
    trace = read_trace(path) if path.is_file() else load_trace(name)
    if trace.duration <= 0.0:
        raise InputError(f"{name}: has lengths but no times; give a trace with arrival times")
    return trace


def _scenario(
    args: argparse.Namespace,
    subject: Accepted,
    spec: ScalingSpec,
    trace: Trace,
    *,
    duration: float,
    initial: int,
) -> Scenario:
    def requests(rng: random.Random) -> Iterator[Request]:
        stream = multiplied(trace, args.copies, rng)
        if args.keep < 1.0:
            stream = thin(stream, args.keep, random.Random(rng.random()))
        return until(stream, duration)

    return Scenario(
        name=f"{subject.service.metadata.name} under {trace.name}",
        requests=requests,
        duration=duration,
        law=additive(spec.prior),
        kv_capacity_tokens=int(spec.kv_capacity_tokens),
        block_size=trace.block_size or subject.plan.block_size,
        max_num_seqs=spec.max_num_seqs,
        max_num_batched_tokens=subject.plan.max_num_batched_tokens,
        noise=NOISE,
        speed_spread=SPEED_SPREAD,
        router=RouterKind(args.router),
        start_seconds=spec.start_seconds,
        slo=Slo(spec.ttft_slo_seconds or NO_OBJECTIVE, spec.tpot_slo_seconds or NO_OBJECTIVE),
        min_replicas=spec.min_replicas,
        max_replicas=spec.max_replicas,
        initial_replicas=initial,
        warm_up=min(LONGEST_WARM_UP, duration / 6.0),
    )


def infeasible(trial: Trial) -> str | None:
    """Why no number of replicas can meet the objectives on this trace, with the best value that can be
    reached.
    """
    spec, trace = trial.spec, trial.trace
    mix = Mix(fmean(trace.prompts), fmean(trace.outputs))
    found = capacity(
        Replica(spec.prior, spec.kv_capacity_tokens, spec.max_num_seqs, spec.tpot_slo_seconds), mix
    )
    if found.batch_max < 1:
        return (
            f"SLOInfeasible: a mean request of {mix.input_tokens + mix.output_tokens:.0f} tokens does not "
            f"fit into {spec.kv_capacity_tokens:.0f} KV tokens; give the replica more KV memory"
        )
    if not found.feasible:
        assert spec.tpot_slo_seconds is not None, "without an objective every batch is feasible"
        best = found.lowest_itl_seconds * 1000
        return (
            f"SLOInfeasible: slo.tpotP95 {spec.tpot_slo_seconds * 1000:g} ms cannot be met at any batch; "
            f"the best reachable mean is {best:.3g} ms, so {best / TPOT_GUARD:.3g} ms or more would work"
        )
    first = spec.prior.a + spec.prior.p * mix.input_tokens
    if spec.ttft_slo_seconds is not None and first > spec.ttft_slo_seconds:
        return (
            f"SLOInfeasible: slo.ttftP95 {spec.ttft_slo_seconds:g} s cannot be met; an idle replica needs "
            f"{first:.3g} s for the mean prompt of {mix.input_tokens:.0f} tokens"
        )
    return None


class Watched:
    """The same controller; says at each tick how many seconds have passed."""

    def __init__(self, controller: Controller, passed: Callable[[float], None]) -> None:
        self._controller = controller
        self._passed = passed

    @property
    def name(self) -> str:
        return self._controller.name

    @property
    def interval(self) -> float:
        return self._controller.interval

    def tick(
        self, now: float, pods: Sequence[PodState], samples: Mapping[str, PodSample]
    ) -> ControllerAction:
        self._passed(now - EPOCH)
        return self._controller.tick(now, pods, samples)
