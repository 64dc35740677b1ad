"""Medians, ratios with bootstrap intervals, geometric means."""

import warnings
from dataclasses import dataclass

import numpy as np
from scipy import stats

LEVEL = 0.95
RESAMPLES = 4999
SEED = 20240229  # the same data always give the same interval

AHEAD_RATIO = 1.00
AHEAD_LOW = 0.99


@dataclass(frozen=True)
class Ratio:
    """A ratio of two medians with its confidence interval."""

    value: float
    low: float
    high: float

    @property
    def ahead(self) -> bool:
        return self.value >= AHEAD_RATIO and self.low >= AHEAD_LOW


def median(values) -> float:
    return float(np.median(np.asarray(values, dtype=float)))


def geomean(values) -> float:
    values = np.asarray(values, dtype=float)
    if values.size == 0 or np.any(values <= 0):
        raise ValueError("a geometric mean needs positive values")
    return float(np.exp(np.mean(np.log(values))))


def _median_ratio(a, b, axis=-1):
    return np.median(a, axis=axis) / np.median(b, axis=axis)


def ratio(numerator, denominator, paired=True) -> Ratio:
    """median(numerator) / median(denominator), with a percentile bootstrap interval.

    `paired` says that samples at the same place are of the same round: they are then
    resampled together, since what disturbs a round mostly disturbs both.
    """
    a, b = np.asarray(numerator, dtype=float), np.asarray(denominator, dtype=float)
    value = float(_median_ratio(a, b))
    if min(a.size, b.size) < 2:
        return Ratio(value, float("nan"), float("nan"))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # identical samples have no spread, which is fine
        found = stats.bootstrap(
            (a, b), _median_ratio, paired=paired and a.size == b.size, vectorized=True, axis=-1,
            n_resamples=RESAMPLES, confidence_level=LEVEL, method="percentile",
            random_state=np.random.default_rng(SEED),
        ).confidence_interval  # fmt: skip
    return Ratio(value, float(found.low), float(found.high))
