"""One job made real: the recipe, the controller, the simulation, the row. Runs in a worker process."""

import time
from dataclasses import replace

from kvis_operator.scaling.spec import ALL_FEATURES, ScalingSpec
from kvis_sim.baselines.rival import Bounds
from kvis_sim.bench.fluid import clairvoyant_row
from kvis_sim.bench.methods import CLAIRVOYANT, Method, build_rival
from kvis_sim.bench.rows import Job, Row, row_of
from kvis_sim.cluster import simulate
from kvis_sim.controller import Controller
from kvis_sim.scenarios.catalogue import recipe_named
from kvis_sim.scenarios.recipe import Recipe
from kvis_sim.shipped import ShippedController


def controller(method: Method, recipe: Recipe) -> Controller:
    if method.is_ours:
        return ShippedController(our_spec(method, recipe), initial_replicas=recipe.initial)
    bounds = Bounds(
        initial_replicas=recipe.initial,
        min_replicas=1,
        max_replicas=recipe.max_replicas,
        kv_capacity_tokens=recipe.machine.kv_capacity_tokens,
    )
    return build_rival(method, bounds)


def our_spec(method: Method, recipe: Recipe) -> ScalingSpec:
    """`kvis`: the shipped decision at its defaults; `spare` and `rho` make it more or less generous, `memory` sets
    `downMemory`, in seconds, `prior` makes the profile wrong.
    """
    params = dict(method.params)
    spec = recipe.scaling_spec(prior_factor=params.pop("prior", 1.0))
    if (spare := params.pop("spare", None)) is not None:
        spec = replace(spec, spare_replicas=spare)
    if (rho := params.pop("rho", None)) is not None:
        spec = replace(spec, rho_up=rho, rho_down=rho - (spec.rho_up - spec.rho_down))
    if (memory := params.pop("memory", None)) is not None:
        spec = replace(spec, down_memory_seconds=memory)
    if method.family != "kvis":
        left_out = method.family.removeprefix("kvis-no-").replace("-", "_")
        if left_out not in ALL_FEATURES:
            raise ValueError(f"unknown ablation {method.family!r}; parts: {', '.join(sorted(ALL_FEATURES))}")
        spec = replace(spec, features=ALL_FEATURES - {left_out})
    if params:
        raise ValueError(f"kvis has no parameter {next(iter(params))!r}; it has: memory, prior, rho, spare")
    return spec


def run_job(job: Job) -> Row:
    recipe = recipe_named(job.scenario)
    if job.method == CLAIRVOYANT:
        return clairvoyant_row(job, recipe)
    started = time.monotonic()
    result = simulate(recipe.scenario(), controller(job.method, recipe), seed=job.seed)
    extra = {"desired": [[round(d.at, 1), d.replicas, d.reason] for d in result.decisions]}
    return row_of(job, result, wall_seconds=time.monotonic() - started, extra=extra)
