"""The runner: calibrates, interleaves, warms, probes, repeats what was disturbed.

Rounds are the outer loop, so that an interrupted comparison has something of every
row; within a row the allocators run one after the other in an order that is shuffled
each round.
"""

import contextlib
import json
import random
import subprocess
import time
from dataclasses import asdict, dataclass, field

from . import parse
from .errors import LabError
from .machine import LineProbe, OtherLoad, warm_mebibytes
from .paths import built

TIMED_FACTOR = 2.0  # rows that run for a given time get this many sample lengths
SCALE_TRIES = 6
FIT_TRIES = 3
FIT_MARGIN = 1.25  # counts are made for samples this much longer than the least length
SLOW_FACTOR = 4.0  # a sample this much longer than the least length gets a smaller count
ROW_RETRIES = 3  # more runs of one sample that was disturbed
PATIENCE = 12  # disturbed runs in a row after which the machine is taken as it is
BUSY_CPUS = 0.35  # other processes' CPU use that counts as a disturbance
FLOOR_RUNS = 3
WARM_LIMIT = 60.0  # seconds; a host that is this slow has no huge pages to give


@dataclass
class Settings:
    rounds: int = 5
    seconds: float = 0.35  # least length of a sample
    warm_mib: int = 1024  # huge pages touched before each run; 0 = none
    seed: int = 1


@dataclass
class Sample:
    """One run of one row on one allocator; a line of samples.jsonl."""

    row: str
    allocator: str
    round: int
    ops_per_s: int
    seconds: float
    rss_kb: int
    extra: dict
    cost: dict
    other_cpus: float
    distance_before: float = None
    distance_after: float = None
    retries: int = 0
    disturbed: str = ""  # why it is not clean, after all retries


@dataclass
class Result:
    """Everything a comparison has measured; verdict.py reads nothing else."""

    samples: list = field(default_factory=list)
    floors_kb: dict = field(default_factory=dict)  # peak RSS of a program without malloc
    counts: dict = field(default_factory=dict)  # row -> allocator -> {n}
    failures: dict = field(default_factory=dict)  # (row, allocator) -> reason
    shortest_trip: float = None
    interrupted: bool = False

    def of(self, row, allocator):
        return [s for s in self.samples if s.row == row and s.allocator == allocator]


class Engine:
    """`listener` is told what happens: start(total), step(text), done(), note(text)."""

    def __init__(self, launcher, build, rows, allocators, settings, listener, lines=None):
        self.launcher, self.rows, self.allocators = launcher, rows, allocators
        self.settings, self.listener, self.lines = settings, listener, lines
        self.programs = {row.program: built(build, row.program) for row in rows}
        self.empty = built(build, "empty")
        self.hugewarm = built(build, "hugewarm")
        self.probe = LineProbe(built(build, "linedist"))
        self.random = random.Random(settings.seed)
        self.result = Result()
        self.row_kinds = {}  # row -> the CPU distance its first undisturbed sample had
        self.disturbed_in_a_row = 0
        self.said_busy = False

    # --- one run -------------------------------------------------------------

    def _command(self, row, count):
        seconds = f"{self.settings.seconds * TIMED_FACTOR:.3f}"
        return [
            str(self.programs[row.program]),
            *(word.format(n=count, s=seconds) for word in row.args),
        ]

    def _warm(self):
        mebibytes = warm_mebibytes(self.settings.warm_mib)
        if mebibytes >= 2:
            with contextlib.suppress(subprocess.TimeoutExpired):
                subprocess.run([self.hugewarm, str(mebibytes)], timeout=WARM_LIMIT, check=False)

    def _run_once(self, row, allocator, count, number):
        """One Sample, as it comes; `disturbed` says what was wrong with it."""
        self._warm()
        before = self.probe.measure() if row.threads else None
        load = OtherLoad().start()
        outcome = self.launcher.run(
            self._command(row, count),
            allocator.library,
            60 + 60 * self.settings.seconds,
            allocator.environment,
        )
        if not outcome.good:
            raise LabError(outcome.reason())
        other = load.stop(outcome.cost["user_s"] + outcome.cost["sys_s"])
        after = self.probe.measure() if row.threads else None
        found = parse.throughput(outcome.stdout.decode(errors="replace"))
        return Sample(
            row=row.key, allocator=allocator.name, round=number,
            ops_per_s=found["ops_per_s"], seconds=found["seconds"],
            rss_kb=parse.peak_rss_kb(outcome.stderr.decode(errors="replace")),
            extra=found["extra"], cost=outcome.cost, other_cpus=round(other, 3),
            distance_before=before, distance_after=after,
        )  # fmt: skip

    def _disturbance(self, row, sample):
        """Why a sample should be taken again, or ""."""
        if row.threads and sample.distance_before is not None:
            kinds = {self.probe.kind(d) for d in (sample.distance_before, sample.distance_after)}
            if len(kinds) > 1 or kinds != {self.row_kinds.setdefault(row.key, *kinds)}:
                return "the CPUs moved"
        if sample.other_cpus > BUSY_CPUS:
            return "others used the CPUs"
        return ""

    def _measure(self, row, allocator, count, number):
        """A clean sample, or after some retries the last one with its disturbance named."""
        for retry in range(ROW_RETRIES + 1):
            sample = self._run_once(row, allocator, count, number)
            sample.retries, sample.disturbed = retry, self._disturbance(row, sample)
            if not sample.disturbed:
                self.disturbed_in_a_row = 0
                break
            self.disturbed_in_a_row += 1
            if self.disturbed_in_a_row == PATIENCE and not self.said_busy:
                self.said_busy = True
                self.listener.note(
                    f"the machine stays busy ({sample.disturbed}): disturbed runs are now kept"
                )
            if self.disturbed_in_a_row >= PATIENCE:
                break
        return sample

    # --- the comparison --------------------------------------------------------

    def _floors(self):
        for allocator in self.allocators:
            runs = [
                self.launcher.run([self.empty], allocator.library, 20, allocator.environment)
                for _ in range(FLOOR_RUNS)
            ]
            if all(run.good for run in runs):
                sizes = [parse.peak_rss_kb(run.stderr.decode()) for run in runs]
                self.result.floors_kb[allocator.name] = sorted(sizes)[FLOOR_RUNS // 2]

    def _calibrate(self, row):
        """The count at which the system allocator's sample has the wanted length."""
        if row.count == 0:
            return 0
        reference = next((a for a in self.allocators if a.kind == "system"), self.allocators[0])
        wanted = self.settings.seconds * row.headroom
        count = row.count
        for _ in range(SCALE_TRIES):
            seconds = self._run_once(row, reference, count, 0).seconds
            if seconds >= wanted / 10:
                return max(row.count, int(count * wanted / seconds) + 1)
            count *= 10
        return count

    def _one(self, row, allocator, number):
        """[sample], or [] when the allocator fails, which is noted once and not tried again."""
        self.listener.step(f"round {number}: {row.title}: {allocator.title}")
        count = self.result.counts[row.key][allocator.name]
        try:
            return [self._measure(row, allocator, count, number)]
        except LabError as error:
            self.result.failures[row.key, allocator.name] = str(error)
            self.listener.note(f"{row.title}: {allocator.title}: {error}")
            return []
        finally:
            self.listener.done()

    def _order(self, row):
        """The row's allocators, shuffled."""
        order = [a for a in self.allocators if (row.key, a.name) not in self.result.failures]
        if not row.null:
            order = [a for a in order if a.kind != "limit"]
        self.random.shuffle(order)
        return order

    def _round(self, row, number):
        for allocator in self._order(row):
            yield from self._one(row, allocator, number)

    def _first_round(self, row):
        """Calibrates on the system allocator, then fits the count to each allocator's speed."""
        self.listener.step(f"calibrating {row.title}")
        count = self._calibrate(row)
        self.result.counts[row.key] = {a.name: count for a in self.allocators}
        for allocator in self._order(row):
            found = self._one(row, allocator, 1)
            for _ in range(FIT_TRIES):
                if not (row.count and found and self._fit(row, allocator, found[0].seconds)):
                    break
                self.listener.more(1)
                found = self._one(row, allocator, 1)
            yield from found

    def _fit(self, row, allocator, seconds):
        """Corrects the allocator's count; True when the sample was too short to be kept.

        Speeds are rates of a steady state, so allocators may do different counts; one
        that is far slower than the rest need not run for minutes.
        """
        wanted, counts = self.settings.seconds, self.result.counts[row.key]
        if seconds < wanted or seconds > SLOW_FACTOR * wanted:
            factor = FIT_MARGIN * wanted / max(seconds, 0.01)
            counts[allocator.name] = int(counts[allocator.name] * factor) + 1
        return seconds < wanted

    def _keep(self, sample):
        self.result.samples.append(sample)
        if self.lines is not None:
            self.lines.write(json.dumps(asdict(sample)) + "\n")
            self.lines.flush()

    def run(self) -> Result:
        """All rounds; an interrupt ends early and leaves what is done so far."""
        runs = sum(len(self.allocators) - (0 if row.null else self._limits()) for row in self.rows)
        self.listener.start(runs * self.settings.rounds)
        begun = time.monotonic()
        try:
            self._floors()
            for number in range(1, self.settings.rounds + 1):
                for row in self.rows:
                    samples = self._first_round(row) if number == 1 else self._round(row, number)
                    for sample in samples:
                        self._keep(sample)
        except KeyboardInterrupt:
            self.result.interrupted = True
        self.result.shortest_trip = self.probe.shortest
        self.listener.end(time.monotonic() - begun)
        return self.result

    def _limits(self):
        return sum(a.kind == "limit" for a in self.allocators)
