"""Says in words, with an interval, whether B differs from A."""

import math
from dataclasses import asdict, dataclass

from .. import stats
from ..verdict import clean

ENOUGH_SAMPLES = 5  # the interval of a median of fewer does not hold what it promises

# figure -> (of a sample, more of it, less of it)
FIGURES = {
    "speed": (lambda sample: sample.ops_per_s, "faster", "slower"),
    "peak RSS": (lambda sample: sample.rss_kb, "more", "less"),
}


@dataclass(frozen=True)
class Statement:
    """What one row says of B against A in one figure."""

    row: str
    figure: str
    a: str
    b: str
    value: float
    low: float
    high: float
    verdict: str  # faster, slower, more, less, no difference seen, too few samples

    @property
    def text(self) -> str:
        interval = f" [{self.low:.2f}, {self.high:.2f}]" if not math.isnan(self.low) else ""
        return f"{self.b} is {self.value:.2f} x {self.a}{interval}: {self.verdict}"

    def plain(self) -> dict:
        return {**asdict(self), "text": self.text}


def judge(ratio, samples, more, less) -> str:
    """The word for a ratio with its interval."""
    if samples < ENOUGH_SAMPLES or math.isnan(ratio.low):
        return f"{samples} sample{'s' * (samples != 1)}, too few to say"
    if ratio.low > 1:
        return more
    if ratio.high < 1:
        return less
    return "no difference seen"


def state(rows, pairs, result) -> list:
    """A Statement per row, pair of entry names and figure, where both have samples."""
    found = []
    for row in rows:
        by_name = {}
        kept = clean([s for s in result.samples if s.row == row.key], result.shortest_trip)
        for sample in kept:
            by_name.setdefault(sample.allocator, []).append(sample)
        for a, b in pairs:
            ours, theirs = by_name.get(b, []), by_name.get(a, [])
            if not ours or not theirs:
                continue
            paired = [s.round for s in ours] == [s.round for s in theirs]
            for figure, (value, more, less) in FIGURES.items():
                ratio = stats.ratio([value(s) for s in ours], [value(s) for s in theirs], paired)
                word = judge(ratio, min(len(ours), len(theirs)), more, less)
                found.append(
                    Statement(row.title, figure, a, b, ratio.value, ratio.low, ratio.high, word)
                )
    return found
