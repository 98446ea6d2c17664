import pytest

from kvis_operator.signals.series import Fleet
from observations import NOON, a_pod_state, a_sample, observed, recorded

OLD = a_pod_state("a")


class TestRateOfANewPod:
    """It draws most of the traffic at once, before its first sample. The old pod serves 2 requests/s."""

    @staticmethod
    def rate(
        *samples: tuple[float, float, float], ready: float = 20.0, created: float = 140.0
    ) -> float | None:
        """With samples (seconds ago, finished, running) of a pod created and ready so many seconds ago."""
        fleet = recorded(Fleet(), "a", rate=2.0)
        for ago, finished, running in samples:
            fleet.record("new", a_sample(NOON - ago, finished, running=running, waiting=2.0))
        new = a_pod_state("new", created_at=NOON - created, ready_at=NOON - ready)
        return observed(fleet, OLD, new).rate_60s

    def test_what_came_before_the_first_sample_counts(self):
        assert self.rate((0, 1.0, 27.0)) == pytest.approx(2.0 + 30 / 60)
        assert self.rate((15, 1.0, 27.0), (0, 5.0, 29.0)) == pytest.approx(2.0 + 36 / 60)

    def test_a_pod_watched_since_before_it_was_ready_counts_the_same(self):
        watched = self.rate((30, 0.0, 0.0), (15, 1.0, 27.0), (0, 5.0, 29.0))
        assert watched == pytest.approx(2.0 + 34 / 60)  # two waited from the beginning in these samples

    def test_a_pod_that_was_ready_before_brings_no_old_requests(self):
        assert self.rate((15, 9000.0, 4.0), (0, 9030.0, 4.0), created=9000.0) == pytest.approx(2.0 + 30 / 60)

    def test_nor_does_one_whose_engine_restarted(self):
        assert self.rate((15, 50.0, 4.0), (0, 3.0, 4.0)) == pytest.approx(2.0)

    def test_long_after_its_first_sample_it_counts_like_any(self):
        samples = [(ago, 1000.0 - ago, 4.0) for ago in range(120, -1, -15)]
        assert self.rate(*samples, ready=130.0, created=250.0) == pytest.approx(3.0)

    def test_without_its_count_of_finished_requests_it_is_unknown(self):
        fleet = recorded(Fleet(), "a", rate=2.0)
        fleet.record("new", a_sample(NOON, finished_requests=None))
        new = a_pod_state("new", created_at=NOON - 140.0, ready_at=NOON - 20.0)
        assert observed(fleet, OLD, new).rate_60s == pytest.approx(2.0)

    def test_an_unknown_queue_leaves_what_is_known(self):
        fleet = recorded(Fleet(), "a", rate=2.0)
        fleet.record("new", a_sample(NOON, 1.0, running=29.0, waiting=None))
        new = a_pod_state("new", created_at=NOON - 140.0, ready_at=NOON - 20.0)
        assert observed(fleet, OLD, new).rate_60s == pytest.approx(2.0 + 30 / 60)
