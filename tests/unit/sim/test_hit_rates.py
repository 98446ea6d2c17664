"""Hit rates against an independent replay of the same prompts through prefix trees, and against published
ones.
"""

import pytest

from kvis_sim.cluster import simulate
from kvis_sim.controller import StaticReplicas
from kvis_sim.scenario import RouterKind, Scenario
from kvis_sim.step_laws import Additive
from kvis_sim.traces import load_trace
from prefix_trie import hit_rate

pytestmark = pytest.mark.slow
BLOCK = 512
AMPLE = 1_000_000
CONVERSATION, SYNTHETIC = "mooncake-conversation", "mooncake-synthetic"
INSTANT = Additive(1e-9, 0.0, 0.0, 0.0)
FAST = Additive(0.002, 1e-5, 1e-5, 1e-9)  # never overloaded, so that routing alone matters


def simulated(name, *, blocks, replicas, router, one_by_one=False):
    trace = load_trace(name)

    def requests(_):
        return (r._replace(output=1) for r in trace.requests()) if one_by_one else trace.requests()

    scenario = Scenario(
        name,
        requests,
        duration=trace.duration + 1.0,
        law=INSTANT if one_by_one else FAST,
        kv_capacity_tokens=blocks * BLOCK,
        block_size=BLOCK,
        max_num_seqs=1 if one_by_one else 256,
        max_num_batched_tokens=10**7 if one_by_one else 8192,
        initial_replicas=replicas,
        router=router,
        warm_up=0.0,
    )
    return simulate(scenario, StaticReplicas(replicas), seed=1).hit_rate


@pytest.mark.parametrize("name", [CONVERSATION, SYNTHETIC])
@pytest.mark.parametrize(("blocks", "replicas"), [(AMPLE, 1), (AMPLE, 4), (3000, 1), (3000, 4), (800, 2)])
def test_hit_rate_equals_an_independent_prefix_tree_replay(name, blocks, replicas):
    expected = hit_rate(load_trace(name).requests(), block_size=BLOCK, capacity=blocks, replicas=replicas)
    found = simulated(name, blocks=blocks, replicas=replicas, router=RouterKind.ROUND_ROBIN, one_by_one=True)
    assert found == pytest.approx(expected, abs=5e-4)


@pytest.mark.parametrize(
    ("name", "blocks", "router", "replicas", "published", "tolerance"),
    [
        (CONVERSATION, AMPLE, RouterKind.ROUND_ROBIN, 8, 0.139, 0.002),
        (SYNTHETIC, AMPLE, RouterKind.ROUND_ROBIN, 8, 0.231, 0.002),
        (CONVERSATION, 3000, RouterKind.ROUND_ROBIN, 8, 0.091, 0.005),
        (SYNTHETIC, 3000, RouterKind.ROUND_ROBIN, 8, 0.149, 0.005),
        (CONVERSATION, AMPLE, RouterKind.PREFIX_AWARE, 8, 0.347, 0.02),
        (SYNTHETIC, AMPLE, RouterKind.PREFIX_AWARE, 8, 0.647, 0.02),
        (CONVERSATION, 3000, RouterKind.PREFIX_AWARE, 8, 0.286, 0.02),
        (SYNTHETIC, 3000, RouterKind.PREFIX_AWARE, 8, 0.599, 0.02),
        # The bound of consistent hashing bites harder here than in that replay: few requests are in flight.
        (CONVERSATION, AMPLE, RouterKind.CONSISTENT_HASH, 8, 0.318, 0.06),
        (CONVERSATION, 3000, RouterKind.CONSISTENT_HASH, 8, 0.254, 0.06),
        (SYNTHETIC, AMPLE, RouterKind.CONSISTENT_HASH, 8, 0.620, 0.06),
        (SYNTHETIC, 3000, RouterKind.CONSISTENT_HASH, 8, 0.562, 0.06),
    ],
)
def test_routers_reach_the_hit_rates_of_an_earlier_replay(
    name, blocks, router, replicas, published, tolerance
):
    found = simulated(name, blocks=blocks, replicas=replicas, router=router)
    assert found == pytest.approx(published, abs=tolerance)


def test_more_replicas_lower_the_rate_when_memory_is_ample_and_raise_it_when_it_is_scarce():
    def rate(blocks, replicas, router):
        return simulated(SYNTHETIC, blocks=blocks, replicas=replicas, router=router)

    assert rate(AMPLE, 8, RouterKind.ROUND_ROBIN) < rate(AMPLE, 2, RouterKind.ROUND_ROBIN)
    assert rate(3000, 8, RouterKind.PREFIX_AWARE) > rate(3000, 2, RouterKind.PREFIX_AWARE)
