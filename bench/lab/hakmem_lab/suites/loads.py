"""The larson loads of the suites: size bands, chunks, rows."""

import math
from dataclasses import dataclass

from ..tables import Row

SEED = "4141"
LIVE_BYTES = 16 << 20  # about what one thread keeps alive at most
MOST_CHUNKS, LEAST_CHUNKS = 5000, 16

# Tiers by their largest block
TIERS = (("tiny", 2048), ("mid", 64 << 10), ("large", 1 << 20), ("big", 1 << 24))
SMALLEST, LARGEST = 8, 4 << 20


@dataclass(frozen=True)
class Band:
    """Block sizes low..high, and how larson works on them."""

    label: str
    low: int
    high: int
    chunks: int = 0  # blocks per thread; 0 = by size
    rounds: int = 100  # x chunks = operations in the life of one thread


def tier_of(size) -> str:
    return next(name for name, most in TIERS if size <= most)


def _spread(steps, parts) -> list:
    """Steps for each of the parts (low, high), at least one, the rest by the parts' ratios."""
    counts = [1] * len(parts)
    for _ in range(steps - len(parts)):
        widths = [math.log(high / low) / n for (low, high), n in zip(parts, counts)]
        counts[widths.index(max(widths))] += 1
    return counts


def _cut(low, high, steps):
    """low..high in `steps` ranges of equal ratio; fewer when there are not so many sizes."""
    first = low
    for step in range(1, steps + 1):
        last = high if step == steps else round(low * (high / low) ** (step / steps))
        if last >= first:
            yield first, last
            first = last + 1


def bands(steps, low, high) -> list:
    """`steps` bands over low..high; none crosses a tier's edge unless there are too few steps."""
    parts, first = [], low
    for _, most in TIERS:
        if first <= min(most, high):
            parts.append((first, min(most, high)))
            first = parts[-1][1] + 1
    if steps < len(parts):
        parts = [(low, high)]
    cuts = [cut for part, n in zip(parts, _spread(steps, parts)) for cut in _cut(*part, n)]
    return [Band(f"{tier_of(last)}-{first}-{last}", first, last) for first, last in cuts]


def larson_row(band, threads, seconds) -> Row:
    """A row that runs for `seconds`, whatever the engine's length of a sample."""
    by_size = min(MOST_CHUNKS, max(LEAST_CHUNKS, LIVE_BYTES // band.high))
    args = (seconds, band.low, band.high, band.chunks or by_size, band.rounds, SEED, threads)
    return Row(
        key=f"{band.label}_T{threads}", group="suite",
        title=f"{band.label}, {threads} thread{'s' * (threads > 1)}",
        program="bench_larson", args=tuple(f"{arg}" for arg in args), seconds=float(seconds),
        threads=threads > 1,
    )  # fmt: skip


def larson_rows(some_bands, options) -> list:
    """Every band with every thread count."""
    return [larson_row(b, n, f"{options.runtime:g}") for b in some_bands for n in options.threads]
