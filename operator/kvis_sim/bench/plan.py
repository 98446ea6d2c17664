"""What the benchmark asks, in order of importance: a run that is cut short has answered the first questions.

Ours at its defaults; rivals at theirs; in-flight rivals tuned per trace; a fixed count in hindsight;
faults and noise; wrong priors; then every method's cost at 95 % and 99 %, ablations, one setting for all,
and the factors of the protocol.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from statistics import fmean

from kvis_sim.bench.methods import (
    ABLATIONS,
    CLAIRVOYANT,
    DEFAULT_RIVALS,
    DOWN_WINDOWS,
    FAMILIES,
    IN_FLIGHT_RIVALS,
    OURS,
    Method,
)
from kvis_sim.bench.schedule import Question
from kvis_sim.bench.search import TIED, Outcome, Seeds, Sweep, at_setting, cheapest
from kvis_sim.scenarios.catalogue import SCENARIOS, noise_recipes, variants
from kvis_sim.scenarios.faults import fault_recipes
from kvis_sim.scenarios.recipe import DAYS, Kind, Recipe

SPARE = (
    12.0,
    10.0,
    9.0,
    8.0,
    7.0,
    6.0,
    5.0,
    4.5,
    4.0,
    3.5,
    3.0,
    2.5,
    2.0,
    1.5,
    1.25,
    1.0,
    0.75,
    0.5,
    0.25,
    0.0,
)
RHO = (
    0.4,
    0.45,
    0.5,
    0.55,
    0.6,
    0.65,
    0.7,
    0.75,
    0.8,
    0.825,
    0.85,
    0.875,
    0.9,
    0.9125,
    0.925,
    0.95,
    0.975,
    1.0,
)
SHORT_MEMORY = min(DOWN_WINDOWS)  # the rivals' shorter window
WRONG_PRIORS = (1.5, 1 / 1.5)
LEVELS = (0.99, 0.95)
ROBUSTNESS_SEEDS = 3
HELD_OUT_SEEDS = tuple(range(400, 450))  # of days of noise that no constant of the law was chosen by
ONE_SETTING_TARGETS = (4.0, 8.0, 12.0, 16.0, 24.0, 32.0)
SWEPT_RIVALS = ("hpa-queue", "hpa-kv-queue", "wva-v1", "wva-v2", "aibrix-apa", "knative", "ray", "dynamo")


@dataclass(frozen=True, slots=True)
class Size:
    """How much is run: scenarios by name, seeds, and whether the less important questions are asked."""

    scenarios: tuple[str, ...]
    seeds: tuple[int, ...]
    day_seeds: tuple[int, ...]
    complete: bool = True

    def of(self, recipe: Recipe) -> Seeds:
        if recipe.kind in DAYS:
            return Seeds(tuning=self.day_seeds[:1], comparing=self.day_seeds)
        return Seeds(tuning=self.seeds[:2], comparing=self.seeds)


QUICK = Size(("azure-conv@1500", "square-bursts@1800", "mix-shift@4200"), (0, 1), (0,), complete=False)


def full(seeds: int, day_seeds: int) -> Size:
    return Size(tuple(recipe.name for recipe in SCENARIOS), tuple(range(seeds)), tuple(range(day_seeds)))


def thinning(size: Size, unanswered: int) -> str:
    """In words, what was left out against the whole protocol."""
    text = (
        f"{len(size.seeds)} seeds ({len(size.day_seeds)} for day-long scenarios); settings searched by bisection "
        f"on {len(size.seeds[:2])} seeds (one of a day), then confirmed on all, the cheapest first, stepping on while "
        f"they reach the level; with them those that cost as much there, within {100 * (TIED - 1):.0f} %."
    )
    return f"{text} {unanswered} questions were left open for lack of time." if unanswered else text


def questions(size: Size, recipes: Sequence[Recipe]) -> dict[str, Question[Outcome]]:
    """By name `scenario|what`, first asked first served."""
    days = [recipe for recipe in recipes if recipe.kind in DAYS]
    others = [recipe for recipe in recipes if recipe.kind not in DAYS]
    others.sort(key=lambda recipe: recipe.kind is not Kind.MIX_SHIFT)  # the decisive one
    found: dict[str, Question[Outcome]] = {}
    for stage, subjects in (
        (_headline, others),
        (_robustness, others),
        (_headline, days),
        (_levels, others + days),
        (_comparison, others + days),
        (_background, others),
    ):
        found.update(stage(size, subjects))
    return found


def _headline(size: Size, recipes: Sequence[Recipe]) -> Iterator[tuple[str, Question[Outcome]]]:
    for recipe in recipes:
        name, seeds = recipe.name, size.of(recipe)
        yield f"{name}|ours", at_setting(name, OURS, seeds.comparing)
        yield f"{name}|clairvoyant", at_setting(name, CLAIRVOYANT, seeds.comparing)
        yield f"{name}|as-ours|in-flight", _as_good_as_ours(name, IN_FLIGHT, seeds)
        yield f"{name}|as-ours|static", _as_good_as_ours(name, STATIC, seeds)
        for rival in DEFAULT_RIVALS:
            yield f"{name}|default|{rival.label}", at_setting(name, rival, seeds.comparing)


def _robustness(size: Size, recipes: Sequence[Recipe]) -> Iterator[tuple[str, Question[Outcome]]]:
    if not size.complete:
        return
    for recipe in noise_recipes():
        yield f"{recipe.name}|ours", at_setting(recipe.name, OURS, size.day_seeds[:ROBUSTNESS_SEEDS])
        yield f"{recipe.name}|held-out", at_setting(recipe.name, OURS, HELD_OUT_SEEDS)
    for recipe in fault_recipes():
        yield f"{recipe.name}|ours", at_setting(recipe.name, OURS, size.seeds[:ROBUSTNESS_SEEDS])
    for recipe in recipes:
        for factor in WRONG_PRIORS:
            found = at_setting(recipe.name, OURS.at(prior=factor), size.seeds[:ROBUSTNESS_SEEDS])
            yield f"{recipe.name}|prior|{factor:.3g}", found


def _levels(size: Size, recipes: Sequence[Recipe]) -> Iterator[tuple[str, Question[Outcome]]]:
    margins = MARGIN if size.complete else MARGIN[:1]
    for level in LEVELS:
        for recipe in recipes:
            name, seeds = recipe.name, size.of(recipe)
            yield f"{name}|level|kvis|{level:g}", _at_level(name, margins, level, seeds)
            yield f"{name}|level|in-flight|{level:g}", _at_level(name, IN_FLIGHT, level, seeds)


def _comparison(size: Size, recipes: Sequence[Recipe]) -> Iterator[tuple[str, Question[Outcome]]]:
    if not size.complete:
        return
    for recipe in recipes:
        name, seeds = recipe.name, size.of(recipe)
        some = Seeds(seeds.tuning, seeds.comparing[:5])
        for level in LEVELS:
            yield f"{name}|level|static|{level:g}", _at_level(name, STATIC, level, seeds)
            for rival in () if recipe.kind in DAYS else SWEPT_RIVALS:
                found = _at_level(name, (family_sweep(rival),), level, some)
                yield f"{name}|level|{rival}|{level:g}", found
        for target in ONE_SETTING_TARGETS:
            setting = Method("hpa-inflight").at(down=1800.0, target=target)
            yield f"{recipe.name}|one-setting|{target:g}", at_setting(recipe.name, setting, seeds.tuning)


def _background(size: Size, recipes: Sequence[Recipe]) -> Iterator[tuple[str, Question[Outcome]]]:
    if not size.complete:
        return
    for recipe in recipes:
        for ablation in ABLATIONS:
            yield (
                f"{recipe.name}|ablation|{ablation.label}",
                at_setting(recipe.name, ablation, size.seeds[:3]),
            )
        for name in ("aibrix-kpa", "aibrix-kpa-pods", "hpa-kv-queue", "knative", "ray", "dynamo"):
            yield f"{recipe.name}|default|{name}", at_setting(recipe.name, Method(name), size.seeds[:3])
    for variant in variants():
        seeds = Seeds(size.seeds[:2], size.seeds[:3])
        yield f"{variant.name}|ours", at_setting(variant.name, OURS, seeds.comparing)
        yield f"{variant.name}|as-ours|in-flight", _as_good_as_ours(variant.name, IN_FLIGHT[:2], seeds)


def family_sweep(name: str) -> Sweep:
    return Sweep(Method(name), FAMILIES[name].axis, FAMILIES[name].values)


STATIC = (family_sweep("static"),)
MARGIN = tuple(
    Sweep(method, axis, values)
    for axis, values in (("spare", SPARE), ("rho", RHO))
    for method in (OURS, OURS.at(memory=SHORT_MEMORY))
)
IN_FLIGHT = tuple(
    Sweep(method, FAMILIES[method.family].axis, FAMILIES[method.family].values) for method in IN_FLIGHT_RIVALS
)


def _at_level(scenario: str, sweeps: Sequence[Sweep], level: float, seeds: Seeds) -> Question[Outcome]:
    return cheapest(scenario, sweeps, level=level, level_name=f"{level:g}", seeds=seeds)


def _as_good_as_ours(scenario: str, sweeps: Sequence[Sweep], seeds: Seeds) -> Question[Outcome]:
    """The cheapest setting of a rival that attains at least what ours attains at its defaults."""
    ours = yield from at_setting(scenario, OURS, seeds.comparing)
    level = fmean(row.attainment for row in ours.rows)
    return (yield from cheapest(scenario, sweeps, level=level, level_name="ours", seeds=seeds))
