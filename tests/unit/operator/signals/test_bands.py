import json

import pytest

from kvis_operator.signals.bands import HOURS, Band, Bands
from observations import an_observation


def after(hours: int, **observation) -> Bands:
    bands = Bands()
    for _ in range(hours):
        for _ in range(60):
            bands = bands.updated(an_observation(**observation), seconds=60.0)
    return bands


def test_before_an_hour_of_load_a_hint_stands_in():
    assert Bands().band("kv_usage") == Band(0.0, 0.85, hours=0)
    bands = Bands().updated(an_observation(hit_rate=0.5), seconds=3599.0)
    assert bands.band("hit_rate") == Band(0.95, 1.0, hours=0)


def test_a_band_encloses_what_was_seen_under_load():
    band = after(3, hit_rate=0.43).band("hit_rate")
    assert band == Band(pytest.approx(0.42), pytest.approx(0.44), hours=3)


def test_idle_time_teaches_nothing():
    assert after(3, hit_rate=0.4, rate=0.0).band("hit_rate").hours == 0
    assert after(3, hit_rate=0.4, rate=None).band("hit_rate").hours == 0


def test_unknown_values_teach_nothing():
    assert after(2, hit_rate=None, prefill_decode_ratio=float("nan")).band("hit_rate").hours == 0


def test_one_odd_hour_moves_it_little():
    bands = after(4, hit_rate=0.43)
    for _ in range(60):
        bands = bands.updated(an_observation(hit_rate=0.01), seconds=60.0)
    assert bands.band("hit_rate") == Band(pytest.approx(0.42), pytest.approx(0.44), hours=5)


def test_a_day_of_load_is_remembered():
    assert after(HOURS + 3, hit_rate=0.4).band("hit_rate").hours == HOURS


def test_ratios_have_a_wide_scale():
    band = after(1, prefill_decode_ratio=50.0).band("prefill_decode_ratio")
    assert band.low <= 50.0 <= band.high < 60.0
    assert after(1, prefill_decode_ratio=1e9).band("prefill_decode_ratio").high == pytest.approx(1000.0)
    assert after(1, prefill_decode_ratio=0.01).band("prefill_decode_ratio").low == pytest.approx(0.1)


def test_rare_values_fall_outside_the_band():
    bands = Bands()
    for i in range(60):
        bands = bands.updated(an_observation(hit_rate=0.05 if i % 30 == 0 else 0.61), seconds=60.0)
    assert bands.band("hit_rate").low == pytest.approx(0.6)


def test_it_survives_json():
    bands = after(2, hit_rate=0.4).updated(an_observation(hit_rate=0.2), seconds=15.0)
    assert Bands.restore(json.loads(json.dumps(bands.to_json()))) == bands


@pytest.mark.parametrize(
    "raw", [None, {}, {"hit_rate": {}}, {"hit_rate": {"counts": [[-1, 2.0]], "hours": []}}, {"hit_rate": 3}]
)
def test_what_cannot_be_read_is_forgotten(raw):
    assert Bands.restore(raw) == Bands()
