"""How long a comparison takes, and what gives way when it would take too long.

First the samples get shorter, then the slowest rows lose their last rounds; once the
first round has shown what the rows really take, the same is done with those figures.
"""

import time

LEAST_SECONDS = 0.35  # a sample is not made shorter than this for the sake of the bound
MARGIN = 0.92  # of the bound is planned; the rest is for disturbed runs
RUN_OVERHEAD = 0.2  # seconds: starting, touching huge pages
PROBE_OVERHEAD = 0.15  # measuring the CPUs' distance before and after
FIRST_FACTOR = 1.4  # the first round calibrates, and repeats what was too short
FIT_OVER = 1.25  # samples are this much longer than their least length
UNKNOWN_SECONDS = 2.0  # of a row that runs for as long as it takes
KEPT_ROUNDS = 2  # rows lose no round below this while others have more


def is_timed(row) -> bool:
    return any("{s}" in word for word in row.args)


def fixed_rounds(text) -> str:
    return "1 round" if text == 1 else f"{text} rounds"


class Plan:
    """`rounds[row.key]` and settings.seconds are what came out; `changes` says what was cut."""

    def __init__(self, rows, runs_of, settings, clock=time.monotonic):
        self.rows, self.runs_of, self.settings, self.clock = rows, runs_of, settings, clock
        self.rounds = {row.key: settings.rounds for row in rows}
        self.seen = {}  # row -> seconds that one round of it took
        self.changes = []
        self.begun = clock()
        self.spent = 0.0  # before this session, when it resumes one
        if settings.budget_s:
            self._shorten()
            self._drop(MARGIN * settings.budget_s, self.rounds)

    # --- estimates -----------------------------------------------------------

    def _run(self, row) -> float:
        if row.kind == "command" or not (row.count or is_timed(row)):
            sample = UNKNOWN_SECONDS
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

    def _shorten(self):
        """Samples as long as the bound allows, the time beside them left as it is."""
        bound, settings = MARGIN * self.settings.budget_s, self.settings
        full, wanted = self.total(), settings.seconds
        if full <= bound or wanted <= LEAST_SECONDS:
            return
        settings.seconds = 0.0
        fixed = self.total()
        share = max(0.0, bound - fixed) / (full - fixed) if full > fixed else 1.0
        settings.seconds = round(max(LEAST_SECONDS, wanted * share), 2)
        self.changes.append(f"samples shortened from {wanted:g} to {settings.seconds:g} s")

    def _drop(self, bound, rounds, after=0):
        """Takes last rounds from the slowest rows until the rest fits."""
        dropped = {}
        for least in (KEPT_ROUNDS, 1):
            while self._needed(rounds, after) > bound:
                able = [row for row in self.rows if rounds[row.key] > max(least, after)]
                if not able:
                    break
                slowest = max(able, key=lambda row: self.round_of(row, 2))
                rounds[slowest.key] -= 1
                dropped[slowest.key] = rounds[slowest.key]
        if dropped:
            kept = ", ".join(f"{key}: {count}" for key, count in dropped.items())
            self.changes.append(f"fewer than {self.settings.rounds} rounds, for time: {kept}")

    # --- while it runs -------------------------------------------------------

    def elapsed(self) -> float:
        return self.spent + self.clock() - self.begun

    def observe(self, row, number, seconds):
        """What one round of a row took; the first, which also calibrates, only roughly."""
        self.seen[row.key] = seconds / (FIRST_FACTOR if number == 1 and row.count else 1)

    def replan(self, after):
        """After a round: do the others still fit?"""
        if self.settings.budget_s:
            self._drop(self.settings.budget_s - self.elapsed(), self.rounds, after)

    def allows(self, row, number) -> bool:
        """Whether this round of the row is run; when time is up it is not."""
        if number > self.rounds[row.key]:
            return False
        bound = self.settings.budget_s
        if not bound or self.elapsed() + self.round_of(row, number) <= bound:
            return True
        if number == 1:
            self.changes.append(f"not run, no time left: {row.key}")
        else:
            self.changes.append(f"{fixed_rounds(number - 1)} only, no time left: {row.key}")
        self.rounds[row.key] = number - 1
        return False

    def left(self, number, done) -> float:
        """Seconds left in round `number` when the rows in `done` have had it."""
        rest = sum(self.round_of(row, number) for row in self.rows
                   if row.key not in done and number <= self.rounds[row.key])  # fmt: skip
        return rest + self._needed(self.rounds, number)

    def spare(self, number, done) -> bool:
        """Whether there is time to repeat a disturbed run."""
        bound = self.settings.budget_s
        return not bound or self.elapsed() + self.left(number, done) <= bound
