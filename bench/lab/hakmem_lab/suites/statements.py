"""Says in words, with an interval, whether B differs from A."""

import math
from dataclasses import asdict, dataclass

from ..summaries import clean, ratio

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
    verdict: str  # faster, slower, more, less, no difference seen; "" = one sample

    @property
    def text(self) -> str:
        interval = f" [{self.low:.2f}, {self.high:.2f}]" if not math.isnan(self.low) else ""
        verdict = f": {self.verdict}" if self.verdict else ""
        return f"{self.b} is {self.value:.2f} x {self.a}{interval}{verdict}"

    def plain(self) -> dict:
        return {**asdict(self), "text": self.text}


def judge(found, more, less) -> str:
    """The word for a ratio with its interval."""
    if math.isnan(found.low):
        return ""  # one sample
    return {1: more, -1: less, 0: "no difference seen"}[found.sign]


def comparable(row, samples) -> dict:
    """{entry: samples} of a row, as far as the CPUs stood alike."""
    trips = [d for s in samples for d in (s.distance_before, s.distance_after) if d]
    by_name = {}
    for sample in clean([s for s in samples if s.row == row.key], min(trips, default=None)):
        by_name.setdefault(sample.allocator, []).append(sample)
    return by_name


def state(rows, pairs, samples) -> list:
    """A Statement per row, pair of entry names and figure, where both have samples."""
    found = []
    for row in rows:
        by_name = comparable(row, samples)
        for a, b in pairs:
            if a not in by_name or b not in by_name:
                continue
            for figure, (value, more, less) in FIGURES.items():
                r = ratio(by_name[b], by_name[a], value)
                word = judge(r, more, less)
                found.append(Statement(row.title, figure, a, b, r.value, r.low, r.high, word))
    return found
