import math

import numpy as np
import pytest
from hakmem_lab import judge, stats


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
    assert judge.word(found.as_dict()) == "faster"


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


@pytest.mark.parametrize("count", [1, 2])
def test_fewer_than_three_rounds_have_no_interval_and_no_verdict(count):
    found = stats.ratio([2.0] * count, [1.0] * count)
    assert found.value == 2.0 and math.isnan(found.low) and math.isnan(found.high)
    assert judge.sign(found.as_dict()) is None
    assert judge.text(found.as_dict()) == "2.00 no verdict"


def test_a_ratio_from_short_samples_is_marked():
    found = stats.ratio([2.0] * 3, [1.0] * 3).as_dict()
    assert judge.text(found, short=judge.is_short({"shortest_s": 0.29})) == "~2.00 [2.00, 2.00] faster"
    assert judge.text(found, short=judge.is_short({"shortest_s": 0.3}, {})).startswith("2.00")


def test_spread_is_the_interquartile_range_over_the_median():
    assert stats.spread([1, 2, 3, 4, 5]) == pytest.approx(2 / 3)
    assert stats.spread([7, 7, 7]) == 0


def test_a_verdict_needs_the_whole_interval():
    intervals = ((1.01, 1.1), (0.9, 0.99), (0.9, 1.1), (1.0, 1.2))
    found = [{"value": 1, "low": low, "high": high} for low, high in intervals]
    assert [judge.sign(ratio) for ratio in found] == [1, -1, 0, 0]
    assert [judge.word(r, "peak RSS") for r in found] == ["more", "less", "even", "even"]
    assert [judge.sign(judge.turned(ratio)) for ratio in found] == [-1, 1, 0, 0]


@pytest.mark.parametrize("count", [3, 5, 10])
def test_intervals_of_equal_speeds_hold_one_as_often_as_they_say(count):
    """95 % of the time; known data, so that the answer is always the same."""
    numbers = np.random.default_rng(count)
    missed = 0
    for _ in range(100):
        ours, theirs = np.exp(numbers.normal(0, 0.02, (2, count)))
        missed += judge.sign(stats.ratio(ours, theirs).as_dict()) != 0
    assert missed <= 10
