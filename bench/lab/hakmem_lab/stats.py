"""Medians, ratios with bootstrap intervals, geometric means."""

import warnings
from dataclasses import dataclass

import numpy as np

from .judge import LEAST_ROUNDS

LEVEL = 0.95
FEW = 8  # samples below which a bootstrap alone says too narrow an interval
RESAMPLES = 4999
SEED = 20240229  # the same data always give the same interval


@dataclass(frozen=True)
class Ratio:
    """A ratio of two medians with its confidence interval."""

    value: float
    low: float
    high: float

    def as_dict(self) -> dict:
        return {"value": self.value, "low": self.low, "high": self.high}


def median(values) -> float:
    return float(np.median(np.asarray(values, dtype=float)))


def geomean(values) -> float:
    values = np.asarray(values, dtype=float)
    if values.size == 0 or np.any(values <= 0):
        raise ValueError("a geometric mean needs positive values")
    return float(np.exp(np.mean(np.log(values))))


def spread(values) -> float:
    """Interquartile range as a share of the median."""
    values = np.asarray(values, dtype=float)
    middle = np.median(values)
    low, high = np.percentile(values, (25, 75))
    return float((high - low) / middle) if middle else 0.0


def _median_ratio(a, b, axis=-1):
    return np.median(a, axis=axis) / np.median(b, axis=axis)


def _bootstrap(a, b, paired):
    from scipy import stats  # takes a second to load, which most commands do not need

    found = stats.bootstrap(
        (a, b), _median_ratio, paired=paired, vectorized=True, axis=-1,
        n_resamples=RESAMPLES, confidence_level=LEVEL, method="percentile",
        random_state=np.random.default_rng(SEED),
    ).confidence_interval  # fmt: skip
    return found.low, found.high


def _student(a, b, paired):
    """The interval of the mean log ratio (paired: Student's t; else Welch's)."""
    from scipy import stats

    a, b = np.log(a), np.log(b)
    test = stats.ttest_rel(a, b) if paired else stats.ttest_ind(a, b, equal_var=False)
    found = test.confidence_interval(LEVEL)
    return np.exp(found.low), np.exp(found.high)


def ratio(numerator, denominator, paired=True) -> Ratio:
    """median(numerator) / median(denominator) of positive samples, with its 95 % interval.

    The interval is that of a percentile bootstrap. `paired` says that samples at the same
    place are of the same round: they are then resampled together, since what disturbs a
    round mostly disturbs both. A bootstrap over three or five samples cannot know more than
    their extremes and misses the truth far oftener than it says, so with few samples the
    interval is widened to Student's t over the logarithms.
    """
    a, b = np.asarray(numerator, dtype=float), np.asarray(denominator, dtype=float)
    value = float(_median_ratio(a, b))
    if min(a.size, b.size) < LEAST_ROUNDS:  # two values are no interval
        return Ratio(value, float("nan"), float("nan"))
    paired = paired and a.size == b.size
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # identical samples have no spread, which is fine
        low, high = _bootstrap(a, b, paired)
        if min(a.size, b.size) < FEW:
            wide = _student(a, b, paired)
            low, high = np.nanmin([low, wide[0], value]), np.nanmax([high, wide[1], value])
    return Ratio(value, float(low), float(high))
