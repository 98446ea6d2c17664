"""The benchmark's sixteen scenarios (reference I3) and their variants.

Loads are sized so that one to about a dozen replicas of the named machine carry them. ServeGen records
rates but no lengths; its days get prompts of the Azure conversation trace with answers five times as long
(a reasoning model), which keeps a day of real time small enough to simulate. At the start run as many
replicas as the busiest of the first ten minutes needs. Objectives are 2 s and 100 ms, except for traces of
long contexts, whose prompts alone take longer on this hardware.
"""

from collections.abc import Mapping
from dataclasses import replace
from functools import cache

from kvis_sim.scenario import RouterKind, Slo
from kvis_sim.scenarios.faults import fault_recipes
from kvis_sim.scenarios.machines import A100_TP2_8B, A100_TP4_70B, H100_TP4_70B, Law
from kvis_sim.scenarios.recipe import Kind, Recipe
from kvis_sim.scenarios.traffic import Lengths, RecordedRates, Replay, Segment, Segments
from kvis_sim.workload import SharedPrefixes

CHAT = Lengths("azure-conv")
CODE = Lengths("azure-code")
LONG_PROMPT = Lengths("arxiv")
LONG_ANSWER = Lengths("", fixed=(500, 1500))
REASONING = Lengths("azure-conv", output_times=5.0)
LONG_CONTEXT_SLO = Slo(ttft_seconds=8.0, tpot_seconds=0.1)
MINUTE = 60.0
HOUR = 3600.0
DAY = 86_400.0


def _replays() -> tuple[Recipe, ...]:
    mooncake = Recipe(
        "mooncake-conv",
        Kind.FIXED_MIX,
        Replay("mooncake-conversation"),
        A100_TP2_8B,
        duration=3540.0,
        initial=5,
        router=RouterKind.PREFIX_AWARE,
        slo=LONG_CONTEXT_SLO,
        block_size=512,
    )
    return (
        Recipe("azure-conv", Kind.FIXED_MIX, Replay("azure-conv"), A100_TP4_70B, duration=3480.0, initial=6),
        Recipe(
            "azure-code",
            Kind.FIXED_MIX,
            Replay("azure-code"),
            H100_TP4_70B,
            duration=3420.0,
            initial=4,
        ),
        mooncake,
        replace(
            mooncake, name="mooncake-conv-x2", traffic=Replay("mooncake-conversation", copies=2), initial=9
        ),
        replace(
            mooncake,
            name="mooncake-synthetic",
            traffic=Replay("mooncake-synthetic", loops=3),
            duration=3060.0,
            initial=5,
        ),
        replace(
            mooncake,
            name="agentic",
            traffic=Replay("agentic"),
            duration=HOUR,
            initial=5,
        ),
        Recipe(
            "aibrix-8min",
            Kind.FIXED_MIX,
            Replay("aibrix", copies=2, loops=8),
            A100_TP4_70B,
            duration=HOUR,
            initial=4,
        ),
    )


def _days() -> tuple[Recipe, ...]:
    def day(name: str, kind: Kind, pool: str, number: int, peak: float, initial: int) -> Recipe:
        traffic = RecordedRates(pool, number, peak, REASONING)
        return Recipe(name, kind, traffic, A100_TP4_70B, duration=DAY, initial=initial, start_seconds=180.0)

    return (
        day("servegen-flat-2", Kind.FLAT_DAY, "language/m-large", 2, 2.0, 5),
        day("servegen-peaky-9", Kind.PEAKY_DAY, "language/m-large", 9, 2.8, 3),
        day("servegen-peaky-10", Kind.PEAKY_DAY, "language/m-large", 10, 2.8, 9),
        day("servegen-small-11", Kind.PEAKY_DAY, "language/m-small", 11, 2.8, 3),
    )


def _shapes() -> tuple[Recipe, ...]:
    bursts = tuple(
        Segment(seconds, rate, CHAT)
        for _ in range(4)
        for seconds, rate in ((12 * MINUTE, 2.0), (6 * MINUTE, 7.0))
    )
    prompts = SharedPrefixes(fraction=0.6, block_size=16, groups=4, switch_at=40 * MINUTE)
    one_prompt = Segments((Segment(80 * MINUTE, 5.0, CHAT),), prefixes=prompts)
    return (
        Recipe(
            "square-bursts", Kind.FIXED_MIX, Segments(bursts), A100_TP4_70B, duration=72 * MINUTE, initial=3
        ),
        Recipe(
            "step-down",
            Kind.FIXED_MIX,
            Segments((Segment(30 * MINUTE, 8.0, CHAT), Segment(90 * MINUTE, 2.0, CHAT))),
            A100_TP4_70B,
            duration=120 * MINUTE,
            initial=9,
        ),
        Recipe(
            "ramp",
            Kind.FIXED_MIX,
            Segments((Segment(15 * MINUTE, 1.0, CHAT), Segment(45 * MINUTE, 1.0, CHAT, rate_end=10.0))),
            A100_TP4_70B,
            duration=HOUR,
            initial=2,
        ),
        Recipe(
            "hit-collapse",
            Kind.HIT_SHIFT,
            one_prompt,
            A100_TP4_70B,
            duration=80 * MINUTE,
            initial=4,
            router=RouterKind.CONSISTENT_HASH,
        ),
        Recipe(
            "mix-shift",
            Kind.MIX_SHIFT,
            Segments(
                (
                    Segment(25 * MINUTE, 9.0, CHAT),
                    Segment(30 * MINUTE, 5.0, LONG_PROMPT),
                    Segment(30 * MINUTE, 8.0, CODE),
                    Segment(30 * MINUTE, 3.0, LONG_ANSWER),
                    Segment(35 * MINUTE, 9.0, CHAT),
                )
            ),
            H100_TP4_70B,
            duration=150 * MINUTE,
            initial=4,
        ),
    )


SCENARIOS: tuple[Recipe, ...] = _replays() + _days() + _shapes()
BY_NAME = {recipe.name: recipe for recipe in SCENARIOS}


def variants() -> tuple[Recipe, ...]:
    """The factors of reference I4, one at a time: other step-time laws, routers, start times and
    objectives.
    """
    found = []
    for name in ("azure-conv", "mix-shift", "mooncake-conv"):
        recipe = BY_NAME[name]
        found += [replace(recipe, name=f"{name}/law={law}", law=law) for law in (Law.ADDITIVE, Law.QUADRATIC)]
        found.append(replace(recipe, name=f"{name}/noise", noise=0.2, speed_spread=0.15))
        found += [
            replace(recipe, name=f"{name}/start={seconds:g}", start_seconds=seconds)
            for seconds in (30.0, 60.0, 300.0)
        ]
    found += [
        replace(BY_NAME["mooncake-conv"], name=f"mooncake-conv/router={router}", router=router)
        for router in (RouterKind.ROUND_ROBIN, RouterKind.LEAST_LOADED, RouterKind.CONSISTENT_HASH)
    ]
    conv = BY_NAME["azure-conv"]
    found.append(replace(conv, name="azure-conv/slo=tight", machine=H100_TP4_70B, slo=Slo(0.5, 0.05)))
    return tuple(found)


def noise_recipes() -> tuple[Recipe, ...]:
    """A day of constant load whose rate changes every minute by up to 20 %, on top of Poisson arrivals."""
    return tuple(
        Recipe(
            f"noise-24h/{rate:g}",
            Kind.FIXED_MIX,
            Segments((Segment(DAY, rate, CHAT),), noise=0.2),
            A100_TP4_70B,
            duration=DAY,
            initial=initial,
        )
        for rate, initial in ((2.6, 4), (4.0, 6))
    )


def recipe_named(name: str) -> Recipe:
    """The recipe, or its first so many seconds by `name@seconds`."""
    plain, _, seconds = name.partition("@")
    found = _all().get(plain)
    if found is None:
        raise ValueError(f"unknown scenario {plain!r}; known: {', '.join(_all())}")
    return replace(found, name=name, duration=min(found.duration, float(seconds))) if seconds else found


@cache
def _all() -> Mapping[str, Recipe]:
    return {recipe.name: recipe for recipe in (*SCENARIOS, *variants(), *noise_recipes(), *fault_recipes())}
