"""B beside A in each row: figures, ratios, verdicts."""

from dataclasses import asdict, dataclass

from .. import judge
from ..summaries import clean, ratio

# figure -> its value in a sample
FIGURES = {"speed": lambda sample: sample.ops_per_s, "peak RSS": lambda sample: sample.rss_kb}


@dataclass(frozen=True)
class Statement:
    """What one row says of B against A in one figure."""

    row: str  # its key
    title: str
    figure: str
    a: str
    b: str
    value: float
    low: float
    high: float
    verdict: str
    short: bool  # a sample was too short to rely on

    @property
    def ratio(self) -> dict:
        return {"value": self.value, "low": self.low, "high": self.high}

    @property
    def text(self) -> str:
        return judge.text(self.ratio, self.figure, self.short)

    def plain(self) -> dict:
        return {**asdict(self), "text": self.text}


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
            short = min(s.seconds for s in by_name[a] + by_name[b]) < judge.SHORT
            for figure, value in FIGURES.items():
                if not all(value(s) > 0 for s in by_name[a] + by_name[b]):
                    continue
                r = ratio(by_name[b], by_name[a], value)
                word = judge.word(r.as_dict(), figure)
                found.append(Statement(row.key, row.title, figure, a, b, r.value, r.low, r.high,
                                       word, short))  # fmt: skip
    return found
