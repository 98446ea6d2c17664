"""The fence: open for one lease from the moment a renewal was sent, by the monotonic clock."""

from __future__ import annotations

import pytest

from kvis_operator.cluster.fence import SAFETY_SECONDS, Fence, FenceClosedError


class Clock:
    def __init__(self) -> None:
        self.at = 100.0

    def __call__(self) -> float:
        return self.at


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def fence(clock: Clock) -> Fence:
    return Fence(lease_seconds=15, clock=clock)


def test_nobody_writes_before_the_lease_is_held(fence: Fence) -> None:
    with pytest.raises(FenceClosedError):
        fence.budget(10)


def test_a_write_gets_the_time_it_asks_for_within_the_lease(fence: Fence, clock: Clock) -> None:
    fence.renew(clock.at)
    assert fence.budget(10) == 10


def test_a_late_write_is_cut_to_what_is_left_of_the_lease(fence: Fence, clock: Clock) -> None:
    fence.renew(clock.at)
    clock.at += 10
    assert fence.budget(10) == 5 - SAFETY_SECONDS


def test_a_process_that_was_stopped_for_longer_than_its_lease_writes_nothing(
    fence: Fence, clock: Clock
) -> None:
    fence.renew(clock.at)
    clock.at += 60
    with pytest.raises(FenceClosedError):
        fence.budget(10)


def test_the_lease_counts_from_when_its_renewal_was_sent_not_answered(fence: Fence, clock: Clock) -> None:
    sent_at = clock.at
    clock.at += 6
    fence.renew(sent_at)
    assert fence.remaining_seconds == 9


def test_a_revoked_fence_stays_closed(fence: Fence, clock: Clock) -> None:
    fence.renew(clock.at)
    fence.revoke()
    assert fence.remaining_seconds == 0
