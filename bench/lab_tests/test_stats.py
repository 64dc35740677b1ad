import math

import numpy as np
import pytest
from hakmem_lab import stats


def test_median_and_geomean_of_known_data():
    assert stats.median([3, 1, 2]) == 2
    assert stats.median([4, 1, 2, 3]) == 2.5
    assert stats.geomean([1, 4, 16]) == pytest.approx(4)
    assert stats.geomean([0.5, 2]) == pytest.approx(1)


@pytest.mark.parametrize("values", [[], [1, 0], [1, -2]])
def test_geomean_refuses_what_has_none(values):
    with pytest.raises(ValueError):
        stats.geomean(values)


def test_ratio_of_identical_samples_is_exact():
    found = stats.ratio([2.0] * 5, [1.0] * 5)
    assert (found.value, found.low, found.high) == (2.0, 2.0, 2.0)
    assert found.ahead


def test_ratio_interval_holds_the_ratio_and_is_repeatable():
    ours, theirs = [103, 101, 99, 104, 102, 100, 105], [100, 99, 101, 98, 102, 100, 97]
    one, two = stats.ratio(ours, theirs), stats.ratio(ours, theirs)
    assert one == two
    assert one.value == pytest.approx(102 / 100)
    assert one.low <= one.value <= one.high
    assert one.low > 0.95 and one.high < 1.1


def test_pairing_removes_a_drift_that_both_share():
    drift = [1.0, 1.3, 0.8, 1.1, 0.9, 1.2, 0.7]
    ours, theirs = [1.05 * d for d in drift], list(drift)
    paired, unpaired = stats.ratio(ours, theirs), stats.ratio(ours, theirs, paired=False)
    assert paired.high - paired.low < 1e-9
    assert unpaired.high - unpaired.low > 0.1


def test_different_numbers_of_samples_are_allowed():
    found = stats.ratio([10, 11, 12], [10, 10, 10, 10, 10])
    assert found.value == pytest.approx(1.1)


def test_one_sample_has_no_interval_and_is_never_ahead():
    found = stats.ratio([2.0], [1.0])
    assert found.value == 2.0 and math.isnan(found.low) and math.isnan(found.high)
    assert not found.ahead


@pytest.mark.parametrize(
    "value, low, ahead",
    [(1.0, 0.99, True), (1.2, 0.98, False), (0.999, 0.999, False), (1.0, 1.0, True)],
)
def test_ahead(value, low, ahead):
    assert stats.Ratio(value, low, 2.0).ahead is ahead


def test_spread_is_the_interquartile_range_over_the_median():
    assert stats.spread([1, 2, 3, 4, 5]) == pytest.approx(2 / 3)
    assert stats.spread([7, 7, 7]) == 0


def test_sign_says_what_the_interval_shows():
    intervals = ((1.01, 1.1), (0.9, 0.99), (0.9, 1.1))
    assert [stats.Ratio(1, low, high).sign for low, high in intervals] == [1, -1, 0]
    assert stats.ratio([2.0], [1.0]).sign == 0


@pytest.mark.parametrize("count", [2, 3, 5, 10])
def test_intervals_of_equal_speeds_hold_one_as_often_as_they_say(count):
    """95 % of the time; known data, so that the answer is always the same."""
    numbers = np.random.default_rng(count)
    missed = 0
    for _ in range(100):
        ours, theirs = np.exp(numbers.normal(0, 0.02, (2, count)))
        missed += stats.ratio(ours, theirs).sign != 0
    assert missed <= 10
