from dataclasses import replace

import pytest

from kvis_operator.scaling.spec import StepTime
from kvis_operator.scaling.step_time import CLAMP, FORGETTING, RIDGE, StepFit, predict
from kvis_operator.signals.observation import StepWindow
from observations import NOON, PRIOR, TICK


def a_window(truth: StepTime, i: int, **changes: float) -> StepWindow:
    prefill, running = 40.0 + 37.0 * (i % 7), 5.0 + 11.0 * (i % 5)
    window = StepWindow(200.0, 1.0, prefill, running, running * (600.0 + 150.0 * (i % 3)))
    return replace(window, seconds_per_step=predict(truth, window), **changes)


def fitted(truth: StepTime, ticks: int, prior: StepTime = PRIOR, **changes: float) -> StepFit:
    fit = StepFit()
    for i in range(ticks):
        fit = fit.updated([a_window(truth, i, **changes)], prior, now=NOON + i * TICK)
    return fit


def times(step: StepTime, factor: float) -> StepTime:
    return StepTime(*(factor * x for x in step.terms))


def test_without_samples_it_is_the_prior():
    assert StepFit().coefficients(PRIOR).terms == pytest.approx(PRIOR.terms)


@pytest.mark.parametrize("factor", [0.5, 1 / 1.5, 1.0, 1.5, 2.0])
def test_a_prior_off_by_a_factor_is_corrected_within_minutes(factor):
    truth = times(PRIOR, factor)
    step = fitted(truth, 40).coefficients(PRIOR)
    window = a_window(truth, 3)
    assert predict(step, window) == pytest.approx(window.seconds_per_step, rel=0.05)


def test_each_coefficient_stays_within_its_clamp():
    step = fitted(times(PRIOR, 10.0), 100).coefficients(PRIOR)
    assert all(got <= 3.0 * prior * 1.0001 for got, prior in zip(step.terms, PRIOR.terms, strict=True))
    step = fitted(times(PRIOR, 0.01), 100).coefficients(PRIOR)
    assert all(got >= 0.3 * prior * 0.9999 for got, prior in zip(step.terms, PRIOR.terms, strict=True))


def test_a_zero_prior_coefficient_stays_zero():
    assert fitted(PRIOR, 20).coefficients(replace(PRIOR, c=0.0)).c == 0.0


def test_a_changed_prior_does_not_spoil_what_was_learned():
    fit = fitted(PRIOR, 100)
    window = a_window(PRIOR, 3)
    assert predict(fit.coefficients(times(PRIOR, 1.3)), window) == pytest.approx(
        window.seconds_per_step, rel=0.05
    )


def test_old_ticks_are_forgotten():
    fit = fitted(times(PRIOR, 0.7), 400)
    for i in range(800):
        fit = fit.updated([a_window(times(PRIOR, 1.4), i)], PRIOR, now=NOON + i)
    window = a_window(times(PRIOR, 1.4), 3)
    assert predict(fit.coefficients(PRIOR), window) == pytest.approx(window.seconds_per_step, rel=0.05)
    assert fit.ticks == pytest.approx(200, rel=0.02)


def test_many_pods_weigh_as_much_as_one():
    one = StepFit().updated([a_window(PRIOR, 1)], PRIOR, now=NOON)
    many = StepFit().updated([a_window(PRIOR, 1)] * 50, PRIOR, now=NOON)
    assert many.moments == pytest.approx(one.moments)
    assert many.targets == pytest.approx(one.targets)


def test_few_steps_weigh_less_and_very_few_nothing():
    full = StepFit().updated([a_window(PRIOR, 1)], PRIOR, now=NOON)
    half = StepFit().updated([a_window(PRIOR, 1, steps=25.0)], PRIOR, now=NOON)
    assert half.moments == pytest.approx([m / 2 for m in full.moments])
    assert StepFit().updated([a_window(PRIOR, 1, steps=4.0)], PRIOR, now=NOON) == StepFit()


def test_windows_without_duration_are_ignored():
    assert (
        StepFit().updated([replace(a_window(PRIOR, 1), seconds_per_step=0.0)], PRIOR, now=NOON) == StepFit()
    )


def a_poor_fit(seconds: float) -> StepFit:
    """A service eight times slower than its prior, which the clamp cannot follow."""
    fit = StepFit()
    for i in range(int(seconds / TICK) + 1):
        fit = fit.updated([a_window(times(PRIOR, 8.0), i)], PRIOR, now=NOON + i * TICK)
    return fit


def test_half_an_hour_of_poor_fit_is_distrusted():
    fit = a_poor_fit(1800.0)
    assert fit.distrusted(NOON + 1800.0)
    assert not fit.distrusted(NOON + 1799.0)


def test_a_distrusted_fit_that_beats_the_prior_is_still_used():
    fit = a_poor_fit(1800.0)
    assert fit.best(PRIOR, now=NOON + 1800.0) == fit.coefficients(PRIOR)


def test_a_distrusted_fit_that_is_worse_than_the_prior_is_not_used():
    fit = replace(fitted(times(PRIOR, 2.0), 50), residual=0.4, prior_residual=0.3, poor_since=NOON)
    assert fit.best(PRIOR, now=NOON + 1800.0) == PRIOR
    assert fit.best(PRIOR, now=NOON + 1000.0) == fit.coefficients(PRIOR)


def test_trust_returns_with_a_good_fit():
    fit = a_poor_fit(1800.0)
    for i in range(200):
        fit = fit.updated([a_window(PRIOR, i)], PRIOR, now=NOON + 2000.0 + i)
    assert fit.poor_since is None
    assert fit.residual is not None
    assert fit.residual < 0.1


def test_one_slow_pod_is_not_a_wrong_model():
    windows = [a_window(PRIOR, 1), a_window(PRIOR, 1), a_window(times(PRIOR, 5.0), 1)]
    fit = StepFit().updated(windows, PRIOR, now=NOON)
    assert fit.residual == pytest.approx(0.0, abs=1e-9)
    assert fit.poor_since is None


def test_the_residual_is_smoothed():
    fit = replace(StepFit(), residual=0.5, prior_residual=0.5).updated([a_window(PRIOR, 1)], PRIOR, now=NOON)
    assert fit.residual == pytest.approx(0.45)
    assert fit.prior_residual == pytest.approx(0.45)
    assert fit.poor_since == NOON
    assert fit.at == NOON


def errors(step: StepTime, windows: list[StepWindow]) -> float:
    """Squared relative errors, those of older ticks forgotten."""
    last = len(windows) - 1
    return sum(
        FORGETTING ** (last - i) * ((predict(step, w) - w.seconds_per_step) / w.seconds_per_step) ** 2
        for i, w in enumerate(windows)
    )


def speed(windows: list[StepWindow], prior: StepTime) -> float:
    """The factor on the prior with the smallest errors and pull to 1, by trying them all."""
    factors = [CLAMP[0] + i * 0.001 for i in range(int((CLAMP[1] - CLAMP[0]) / 0.001) + 1)]
    return min(factors, key=lambda f: errors(times(prior, f), windows) + RIDGE * (f - 1) ** 2)


def cost(step: StepTime, windows: list[StepWindow], prior: StepTime, pull: float) -> float:
    """What the fit minimises, straight from its definition: errors plus the pull to the prior at this speed."""
    ratios = [x / p for x, p in zip(step.terms, prior.terms, strict=True)]
    return errors(step, windows) + RIDGE * sum((ratio - pull) ** 2 for ratio in ratios)


def test_a_machine_slower_than_its_profile_is_believed_to_be_slower_in_all():
    truth = times(PRIOR, 1.5)
    fit = StepFit()
    for _ in range(4):  # of one kind, which tells nothing of the single terms
        fit = fit.updated([a_window(truth, 1)], PRIOR, now=NOON)
    assert fit.coefficients(PRIOR).terms == pytest.approx(truth.terms, rel=0.02)


@pytest.mark.parametrize(
    "truth",
    [
        StepTime(0.03, 0.00012, 0.00015, 1.2e-7),  # all within the clamp
        StepTime(0.026, 0.00001, 0.0002, 1e-7),  # p below it
        StepTime(0.2, 0.000094, 0.0002, 1e-7),  # a above it
        StepTime(0.002, 0.0006, 0.0009, 1e-7),  # several beyond it
        StepTime(0.026, 0.000094, 0.00001, 9e-7),
    ],
)
def test_no_step_law_nearby_within_the_clamp_explains_the_steps_better(truth):
    windows = [a_window(truth, i) for i in range(35)]
    fit = StepFit()
    for window in windows:
        fit = fit.updated([window], PRIOR, now=NOON)
    best, pull = fit.coefficients(PRIOR), speed(windows, PRIOR)
    for i, (term, prior) in enumerate(zip(best.terms, PRIOR.terms, strict=True)):
        for nudge in (-0.01, 0.01):
            factor = min(CLAMP[1], max(CLAMP[0], term / prior + nudge))
            terms = [*best.terms[:i], factor * prior, *best.terms[i + 1 :]]
            assert cost(StepTime(*terms), windows, PRIOR, pull) >= cost(best, windows, PRIOR, pull) - 1e-5
        assert CLAMP[0] - 1e-9 <= term / prior <= CLAMP[1] + 1e-9


def test_two_pods_of_one_tick_count_half_each():
    slow, fast = a_window(times(PRIOR, 1.5), 1), a_window(times(PRIOR, 0.8), 2)
    both = StepFit().updated([slow, fast], PRIOR, now=NOON)
    alone = [StepFit().updated([w], PRIOR, now=NOON) for w in (slow, fast)]
    assert both.moments == pytest.approx(
        [(a + b) / 2 for a, b in zip(alone[0].moments, alone[1].moments, strict=True)]
    )
    assert both.targets == pytest.approx(
        [(a + b) / 2 for a, b in zip(alone[0].targets, alone[1].targets, strict=True)]
    )
