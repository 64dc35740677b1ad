"""What a comparison has measured: samples, and the file they are kept in."""

import json
from dataclasses import asdict, dataclass, field, fields


@dataclass
class Sample:
    """One run of one row on one allocator; a line of samples.jsonl."""

    row: str
    allocator: str
    round: int
    ops_per_s: float  # of a command: 1 / wall time
    seconds: float
    rss_kb: int
    extra: dict  # what the program printed besides: key=value
    cost: dict  # launch's line: times, faults, switches
    other_cpus: float
    distance_before: float = None
    distance_after: float = None
    retries: int = 0
    disturbed: str = ""  # why it is not clean, after all retries
    count: int = 0  # {n} it ran with


@dataclass
class Result:
    """Everything a comparison has measured; verdict.py reads nothing else."""

    samples: list = field(default_factory=list)
    floors_kb: dict = field(default_factory=dict)  # peak RSS of a program without malloc
    counts: dict = field(default_factory=dict)  # row -> allocator -> {n}
    failures: dict = field(default_factory=dict)  # (row, allocator) -> reason
    skipped: dict = field(default_factory=dict)  # row -> why it was not run at all
    notes: list = field(default_factory=list)  # what else a reader must know
    shortest_trip: float = None
    interrupted: bool = False

    def of(self, row, allocator):
        return [s for s in self.samples if s.row == row and s.allocator == allocator]


def append(lines, sample) -> None:
    """One more line of samples.jsonl, at once on disk."""
    lines.write(json.dumps(asdict(sample)) + "\n")
    lines.flush()


def load(path) -> list:
    """The samples of a file, of those taken again the last; a line that was cut off is left out."""
    known = {f.name for f in fields(Sample)}
    found = {}
    for line in path.read_text().splitlines():
        try:
            values = json.loads(line)
            one = Sample(**{k: v for k, v in values.items() if k in known})
            found[one.row, one.allocator, one.round] = one
        except (ValueError, TypeError):
            continue
    return list(found.values())


def rewrite(path, samples) -> None:
    """The file with these samples only: what follows a line that was cut off must not join it."""
    fresh = path.with_suffix(".new")
    fresh.write_text("".join(json.dumps(asdict(sample)) + "\n" for sample in samples))
    fresh.replace(path)
