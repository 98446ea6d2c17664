from kvis_operator.scaling.victims import victims
from kvis_operator.signals.observation import PodPhase
from observations import a_pod


def test_no_victims_unless_asked_for():
    assert victims([a_pod("a")], 0) == ()
    assert victims([a_pod("a")], -2) == ()


def test_pods_that_serve_nobody_go_first():
    pods = [
        a_pod("ready", running=0.0),
        a_pod("pending", phase=PodPhase.PENDING),
        a_pod("failed", phase=PodPhase.FAILED),
    ]
    assert victims(pods, 3) == ("failed", "pending", "ready")


def test_least_in_flight_goes_first():
    pods = [a_pod("a", running=5.0), a_pod("b", running=2.0, waiting=2.0), a_pod("c", running=3.0)]
    assert victims(pods, 2) == ("c", "b")


def test_equal_load_spares_the_warmer_cache():
    pods = [a_pod("hot", hit_rate=0.9, hit_queries=1e6), a_pod("cold", hit_rate=0.1, hit_queries=1e6)]
    assert victims(pods, 1) == ("cold",)


def test_equal_caches_spare_the_older_pod():
    assert victims([a_pod("old", age_seconds=900.0), a_pod("new", age_seconds=100.0)], 1) == ("new",)


def test_an_unknown_load_goes_last():
    pods = [
        a_pod("silent", running=None, waiting=None),
        a_pod("busy", running=90.0),
        a_pod("half", running=1.0, waiting=None),
    ]
    assert victims(pods, 3) == ("busy", "half", "silent")


def test_draining_pods_are_not_named_again():
    assert victims([a_pod("going", phase=PodPhase.DRAINING), a_pod("a")], 2) == ("a",)


def test_names_break_ties():
    assert victims([a_pod("b"), a_pod("a")], 1) == ("a",)


def test_one_of_many_is_named_and_what_it_would_lose_is_the_tokens_it_reuses():
    busy_cache = a_pod("asked", hit_rate=0.2, hit_queries=1e6)
    small_cache = a_pod("hot", hit_rate=0.9, hit_queries=1e4)
    assert victims([busy_cache, small_cache, a_pod("cold", hit_rate=0.0)], 1) == ("cold",)
    assert victims([busy_cache, small_cache], 1) == ("hot",)


def test_an_unknown_cache_is_worth_nothing():
    assert victims([a_pod("a", hit_rate=0.9, hit_queries=1.0), a_pod("b", hit_rate=None)], 1) == ("b",)
    assert victims([a_pod("a", hit_rate=0.9, hit_queries=1.0), a_pod("b", hit_queries=None)], 1) == ("b",)
