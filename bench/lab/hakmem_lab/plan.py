"""How long a comparison takes, and what gives way when it would take too long.

Rows that run for as long as they take are run once beforehand. Then, in this order: rows whose
runs are slow lose their last round, samples get shorter, the slowest rows lose more rounds, in the
end all. Once the first round has shown what the rows really take, rounds are dropped again by that.
"""

import math
import time

LEAST_SECONDS = 0.35  # a sample is not made shorter than this for the sake of the bound
MARGIN = 0.92  # of the bound is planned; the rest is for disturbed runs
LAST_START = 0.95  # of the bound: what would end later is not begun, the report takes time too
RUN_OVERHEAD = 0.2  # seconds: starting, touching huge pages
PROBE_OVERHEAD = 0.15  # measuring the CPUs' distance before and after
FIRST_FACTOR = 1.4  # the first round calibrates, and repeats what was too short
FIT_OVER = 1.25  # samples are this much longer than their least length
UNKNOWN_SECONDS = 2.0  # of a row that runs for as long as it takes, before it has been run
PROBE_SHARE = 0.1  # of the bound may be spent on running such rows beforehand
SLOW_RUN = 2.0  # a run of more than so many samples is slow
MOST_OVER = 1.5  # of the time that was told: what was left out is taken again within it
KEPT_ROUNDS = 2  # rows lose no round below this while others have more


def is_timed(row) -> bool:
    return any("{s}" in word for word in row.args)


def is_fixed(row) -> bool:
    """Whether the row runs for as long as it takes."""
    return not is_timed(row) and (row.kind == "command" or not row.count)


def rounds_text(count) -> str:
    return "1 round" if count == 1 else f"{count} rounds"


class Plan:
    """`rounds[row.key]` and settings.seconds are what came out; changes() says what was cut."""

    def __init__(self, rows, runs_of, settings, clock=time.monotonic):
        self.rows, self.runs_of, self.settings, self.clock = rows, runs_of, settings, clock
        self.rounds = {row.key: settings.rounds for row in rows}
        self.lengths = {}  # fixed row -> seconds that one run of it took
        self.seen = {}  # row -> seconds that one round of it took
        self.shortened = ""
        self.planned = math.inf
        self.begun = clock()

    def fit(self):
        """Cuts until the whole fits its bound, if it has one."""
        if self.settings.budget_s:
            bound = MARGIN * self.settings.budget_s - self.elapsed()
            slow = [row for row in self.rows if self._is_slow(row)]
            self._drop(bound, slow, (KEPT_ROUNDS,))
            self._shorten(bound)
            self._drop(bound, self.rows)
        self.planned = self.elapsed() + self.total()

    # --- estimates -----------------------------------------------------------

    def _run(self, row) -> float:
        if is_fixed(row):
            sample = self.lengths.get(row.key, row.seconds or UNKNOWN_SECONDS)
        elif is_timed(row):
            sample = self.settings.seconds * self.settings.timed_factor
        else:
            sample = self.settings.seconds * FIT_OVER
        return sample + RUN_OVERHEAD + (PROBE_OVERHEAD if row.threads else 0)

    def round_of(self, row, number) -> float:
        """Seconds that this round of the row takes: as seen, else as estimated."""
        if row.key in self.seen:
            return self.seen[row.key]
        return self.runs_of(row) * self._run(row) * (FIRST_FACTOR if number == 1 else 1)

    def _needed(self, rounds, after=0) -> float:
        """Seconds for all rounds beyond number `after`."""
        return sum(
            self.round_of(row, number)
            for row in self.rows
            for number in range(after + 1, rounds[row.key] + 1)
        )

    def total(self) -> float:
        return self._needed(self.rounds)

    # --- cuts ----------------------------------------------------------------

    def _is_slow(self, row) -> bool:
        return self._run(row) > SLOW_RUN * self.settings.seconds

    def _shorten(self, bound):
        """Samples as long as the bound allows, the time beside them left as it is."""
        settings = self.settings
        full, wanted = self.total(), settings.seconds
        if full <= bound or wanted <= LEAST_SECONDS:
            return
        settings.seconds = 0.0
        fixed = self.total()
        share = max(0.0, bound - fixed) / (full - fixed) if full > fixed else 1.0
        settings.seconds = max(LEAST_SECONDS, math.floor(100 * wanted * share) / 100)
        self.shortened = f"samples shortened from {wanted:g} to {settings.seconds:g} s"

    def _drop(self, bound, rows, floors=(KEPT_ROUNDS, 1, 0), after=0):
        """Takes last rounds from the slowest of these rows until the rest fits."""
        for floor in floors:
            while self._needed(self.rounds, after) > bound:
                able = [row for row in rows if self.rounds[row.key] > max(floor, after)]
                if not able:
                    break
                slowest = max(able, key=lambda row: self.round_of(row, 2))
                self.rounds[slowest.key] -= 1

    def changes(self, skipped=()) -> list:
        """What was cut, in a line for each number of rounds; `skipped` rows have other reasons."""
        cut = {}
        for row in self.rows:
            if row.key not in skipped and self.rounds[row.key] < self.settings.rounds:
                cut.setdefault(self.rounds[row.key], []).append(row.key)
        lines = [self.shortened] if self.shortened else []
        for count, keys in sorted(cut.items(), reverse=True):
            text = f"{rounds_text(count)} instead of {self.settings.rounds}" if count else "not run"
            lines.append(f"{text}, for want of time: {', '.join(keys)}")
        return lines

    def probe_limit(self, spent) -> float:
        """Seconds that one more run beforehand may take; 0 = no more of them."""
        return max(0.0, PROBE_SHARE * self.settings.budget_s - spent)

    # --- while it runs -------------------------------------------------------

    def elapsed(self) -> float:
        return self.clock() - self.begun

    @property
    def bound(self) -> float:
        return LAST_START * self.settings.budget_s if self.settings.budget_s else math.inf

    def observe(self, row, number, seconds):
        """What one round of a row took; the first, which also calibrates, only roughly."""
        self.seen[row.key] = seconds / (FIRST_FACTOR if number == 1 and row.count else 1)

    def replan(self, after):
        """After a round: do the others still fit?"""
        if self.settings.budget_s:
            self._drop(self.bound - self.elapsed(), self.rows, after=after)

    def allows(self, row, number) -> bool:
        """Whether this round of the row is run; when time is up it is not."""
        if number > self.rounds[row.key]:
            return False
        if self.elapsed() + self.round_of(row, number) <= self.bound:
            return True
        self.rounds[row.key] = number - 1
        return False

    def has_time(self, row) -> bool:
        """Whether one more run of the row ends in time. Without a bound: within the time planned."""
        bound = self.bound if self.settings.budget_s else MOST_OVER * self.planned
        return self.elapsed() + self._run(row) <= bound

    def left(self, number, done) -> float:
        """Seconds left in round `number` when the rows in `done` have had it."""
        rest = sum(self.round_of(row, number) for row in self.rows
                   if row.key not in done and number <= self.rounds[row.key])  # fmt: skip
        return rest + self._needed(self.rounds, number)

    def spare(self, number, done) -> bool:
        """Whether there is time to repeat a disturbed run."""
        return self.elapsed() + self.left(number, done) <= self.bound
