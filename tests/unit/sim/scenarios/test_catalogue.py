"""Sixteen scenarios that can be built, whose traffic ascends and is the same for the same seed."""

import itertools
import random

import pytest

from kvis_sim.scenarios.catalogue import SCENARIOS, recipe_named, variants
from kvis_sim.scenarios.faults import fault_recipes, undisturbed
from kvis_sim.scenarios.recipe import Kind, Recipe


def first_requests(recipe: Recipe, seed: int, count: int = 400) -> list[tuple[float, int, int]]:
    stream = recipe.traffic.requests(random.Random(f"{seed}/requests"), duration=recipe.duration)
    return [(request.at, request.prompt, request.output) for request in itertools.islice(stream, count)]


def test_there_are_sixteen_with_one_mix_shift_and_four_days() -> None:
    kinds = [recipe.kind for recipe in SCENARIOS]
    assert len(SCENARIOS) == 16
    assert (kinds.count(Kind.MIX_SHIFT), kinds.count(Kind.FLAT_DAY), kinds.count(Kind.PEAKY_DAY)) == (1, 1, 3)


@pytest.mark.parametrize("recipe", SCENARIOS, ids=lambda recipe: recipe.name)
def test_traffic_ascends_within_the_duration_and_repeats_by_seed(recipe: Recipe) -> None:
    requests = first_requests(recipe, seed=3)
    assert requests == first_requests(recipe, seed=3)
    assert [at for at, _, _ in requests] == sorted(at for at, _, _ in requests)
    assert all(0.0 <= at < recipe.duration and prompt > 0 and output > 0 for at, prompt, output in requests)
    assert recipe.scenario().name == recipe.name
    assert recipe.scaling_spec().max_replicas == recipe.max_replicas


def test_every_fault_has_its_undisturbed_run() -> None:
    names = {recipe.name for recipe in fault_recipes()}
    assert all(undisturbed(name) in names for name in names)


def test_a_name_may_cut_a_scenario_short() -> None:
    assert recipe_named("ramp@600").duration == 600.0


def test_an_unknown_name_lists_the_known_ones() -> None:
    with pytest.raises(ValueError, match="azure-conv"):
        recipe_named("nothing")


def test_variants_have_names_of_their_own() -> None:
    names = [recipe.name for recipe in variants()]
    assert len(names) == len(set(names))
