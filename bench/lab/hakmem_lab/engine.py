"""The comparison: calibrates, interleaves, repeats what was disturbed, keeps to its time.

Rounds are the outer loop, so that an interrupted comparison has something of every
row; within a row the allocators run one after the other in an order that is shuffled
each round.
"""

import contextlib
import random
import time

from .errors import LabError
from .machine import kind_of
from .plan import Plan, is_fixed
from .runner import Runner
from .samples import Result, append
from .summaries import clean

SCALE_TRIES = 6
FIT_TRIES = 3
FIT_MARGIN = 1.25  # counts are made for samples this much longer than the least length
SLOW_FACTOR = 4.0  # a sample this much longer than the least length gets a smaller count
PATIENCE = 12  # disturbed runs in a row after which the machine is taken as it is
LEAST_PROBE, MOST_PROBE = 2.0, 20.0  # seconds that a row is given beforehand
BUSY_CPUS = 0.35  # other processes' CPU use that counts as a disturbance


class Engine:
    """`listener` is told what happens: start(total, left), step(text), done(), note(text), ...

    `earlier` are samples of the same comparison that was interrupted: they are not run again;
    `rounds` are those that each of its rows was given.
    """

    def __init__(self, launcher, build, rows, allocators, settings, listener, lines=None,
                 earlier=(), rounds=None):  # fmt: skip
        self.rows, self.allocators = rows, allocators
        self.settings, self.listener, self.lines = settings, listener, lines
        self.runner = Runner(launcher, build, rows, settings)
        self.probe = self.runner.probe
        self.random = random.Random(settings.seed)
        self.result = Result(samples=list(earlier))
        self.plan = Plan(rows, lambda row: len(self._takers(row)), settings)
        self.plan.rounds.update(rounds or {})
        self.there = {(s.row, s.allocator, s.round) for s in earlier}
        self.row_kinds = {}  # row -> the CPU distance its first undisturbed sample had
        self.disturbed_in_a_row = 0
        self.said_busy = False
        self.number, self.done_rows = 1, set()

    # --- one sample ----------------------------------------------------------

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
        for retry in range(self.settings.retries + 1):
            sample = self.runner.run(row, allocator, count, number)
            sample.retries, sample.disturbed = retry, self._disturbance(row, sample)
            if not sample.disturbed:
                self.disturbed_in_a_row = 0
                break
            self.disturbed_in_a_row += 1
            if self.disturbed_in_a_row == PATIENCE and not self.said_busy:
                self.said_busy = True
                self._note(f"the machine stays busy ({sample.disturbed}): disturbed runs are kept")
            if self.disturbed_in_a_row >= PATIENCE or not self.plan.spare(number, self.done_rows):
                break
        return sample

    def _note(self, text):
        self.result.notes.append(text)
        self.listener.note(text)

    def _calibrate(self, row):
        """The count at which the system allocator's sample has the wanted length."""
        if row.count == 0:
            return 0
        reference = self._plain(row)
        wanted = self.settings.seconds * row.headroom
        count = row.count
        for _ in range(SCALE_TRIES):
            seconds = self.runner.run(row, reference, count, 0).seconds
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

    # --- one row -------------------------------------------------------------

    def _takers(self, row):
        """The allocators that the row is run with."""
        return [a for a in self.allocators if row.null or a.kind != "limit"]

    def _order(self, row, number):
        """Those that are still to be run in this round, shuffled."""
        order = [
            a for a in self._takers(row)
            if (row.key, a.name) not in self.result.failures
            and (row.key, a.name, number) not in self.there
        ]  # fmt: skip
        self.random.shuffle(order)
        return order

    def skip(self, key, reason):
        """A row that is not run at all."""
        self.result.skipped[key] = reason
        self.plan.rounds[key] = 0
        self.listener.note(f"skipped: {key}: {reason}")

    def _prepare(self, row) -> bool:
        """Before the first run of a row: its count, and for a command that the preload works."""
        self.listener.step(f"preparing {row.title}")
        known = {s.allocator: s for s in self.result.samples if s.row == row.key}
        counts = {name: sample.count for name, sample in known.items()}
        try:
            if len(counts) < len(self._takers(row)):
                if row.kind == "command":
                    preloaded = next((a for a in self._takers(row) if a.library), None)
                    if preloaded:
                        self.runner.prove(row, preloaded)
                base = max(counts.values()) if counts else self._calibrate(row)
                counts = {**{a.name: base for a in self.allocators}, **counts}
        except LabError as error:
            self.skip(row.key, str(error))
            return False
        self.result.counts[row.key] = counts
        for allocator in self.allocators:
            if row.count and allocator.name in known:
                self._fit(row, allocator, known[allocator.name].seconds)
        return True

    def _first_round(self, row):
        """Fits the count to each allocator's speed."""
        for allocator in self._order(row, 1):
            found = self._one(row, allocator, 1)
            for _ in range(FIT_TRIES):
                if not (row.count and found and self._fit(row, allocator, found[0].seconds)):
                    break
                self.listener.more(1)
                found = self._one(row, allocator, 1)
            yield from found

    def _round(self, row, number):
        if number == 1:
            yield from self._first_round(row)
            return
        for allocator in self._order(row, number):
            yield from self._one(row, allocator, number)

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

    # --- the comparison ------------------------------------------------------

    def plan_ahead(self):
        """Runs once what takes as long as it takes, and fits the whole into its bound."""
        fixed = [row for row in self.rows if is_fixed(row)] if self.settings.budget_s else []
        for row in fixed:
            limit = self.plan.probe_limit(self.plan.elapsed())
            if limit < LEAST_PROBE:
                break
            self.listener.step(f"planning: {row.title}")
            begun = time.monotonic()
            with contextlib.suppress(LabError):  # it is said when the row is run
                self.runner.launch(row, self._plain(row), row.count, min(limit, MOST_PROBE))
            self.plan.lengths[row.key] = time.monotonic() - begun
        self.plan.fit()

    def _plain(self, row):
        """The allocator that a row is tried with: the system's, when it takes part."""
        takers = self._takers(row)
        return next((a for a in takers if a.kind == "system"), takers[0])

    def _left_out(self):
        """Samples that cannot be compared with the others of their row: the CPUs stood apart."""
        trips = [d for s in self.result.samples for d in (s.distance_before, s.distance_after)]
        shortest = min((d for d in (*trips, self.probe.shortest) if d), default=None)
        for row in self.rows:
            of_row = [s for s in self.result.samples if s.row == row.key]
            kept = clean(of_row, shortest)
            if row.threads and kept and kept[0].distance_before:
                self.row_kinds[row.key] = kind_of(kept[0].distance_before, shortest)
            there = {id(sample) for sample in kept}
            yield from ((row, sample) for sample in of_row if id(sample) not in there)

    def _take_again(self):
        """What was left out is taken again while there is time; the better sample takes its place."""
        allocators = {allocator.name: allocator for allocator in self.allocators}
        for _ in range(self.settings.retries):
            again = list(self._left_out())
            if not again:
                return
            self.listener.more(len(again))
            for row, old in again:
                if not self.plan.has_time(row):
                    return
                for new in self._one(row, allocators[old.allocator], old.round):
                    self.result.samples.remove(old)
                    self._keep(new)

    def _floors(self):
        for allocator in self.allocators:
            size = self.runner.floor_kb(allocator)
            if size is not None:
                self.result.floors_kb[allocator.name] = size

    def _keep(self, sample):
        self.result.samples.append(sample)
        if self.lines is not None:
            append(self.lines, sample)

    def _run_row(self, row, number):
        """One round of one row."""
        if row.key in self.result.skipped or not self.plan.allows(row, number):
            return
        begun = time.monotonic()
        if row.key not in self.result.counts and not self._prepare(row):
            return
        whole = len(self._order(row, number)) == len(self._takers(row))
        for sample in self._round(row, number):
            self._keep(sample)
        if whole:
            self.plan.observe(row, number, time.monotonic() - begun)

    def _runs(self):
        """Runs that are still to be done."""
        return sum(
            (row.key, a.name, number) not in self.there
            for row in self.rows
            for a in self._takers(row)
            for number in range(1, self.plan.rounds[row.key] + 1)
        )

    def _left(self):
        return self.plan.left(self.number, self.done_rows)

    def _all_rounds(self):
        self._floors()
        for number in range(1, self.settings.rounds + 1):
            self.number, self.done_rows = number, set()
            for row in self.rows:
                self._run_row(row, number)
                self.done_rows.add(row.key)
            self.plan.replan(number)
        self._take_again()

    def run(self) -> Result:
        """All rounds; an interrupt ends early and leaves what is done so far."""
        self.listener.start(self._runs(), self._left)
        begun = time.monotonic()
        try:
            self._all_rounds()
        except KeyboardInterrupt:
            self.result.interrupted = True
        trips = [d for s in self.result.samples for d in (s.distance_before, s.distance_after)]
        self.result.shortest_trip = min((d for d in (*trips, self.probe.shortest) if d),
                                        default=None)  # fmt: skip
        self.result.notes += self.plan.changes(self.result.skipped)
        self.listener.end(time.monotonic() - begun)
        return self.result
