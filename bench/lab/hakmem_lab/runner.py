"""One run of one row on one allocator: its command, its warm-up, what it measured."""

import contextlib
import shutil
import subprocess
import tempfile

from . import override, parse
from .errors import LabError
from .machine import LineProbe, OtherLoad, warm_mebibytes
from .paths import built
from .placement import Copies
from .samples import Sample

FLOOR_RUNS = 3
FLOOR_LIMIT = 20.0
WARM_LIMIT = 60.0  # seconds; a host that is this slow has no huge pages to give


class Runner:
    """Knows how to run a row; the order, the rounds and the retries are the engine's."""

    def __init__(self, launcher, build, rows, settings):
        self.launcher, self.settings = launcher, settings
        self.programs = {r.program: built(build, r.program) for r in rows if r.kind == "rate"}
        self.empty = built(build, "empty")
        self.hugewarm = built(build, "hugewarm")
        self.probe = LineProbe(built(build, "linedist"))
        self.copies = Copies(build)

    def command(self, row, count) -> list:
        """The words of a row: {n} is the count, {s} the seconds. Other braces are the row's own."""
        if row.words:
            return list(row.words)
        seconds = f"{self.settings.seconds * self.settings.timed_factor:.3f}"
        words = [word.replace("{n}", str(count)).replace("{s}", seconds) for word in row.args]
        return [str(self.programs.get(row.program, row.program)), *words]

    @staticmethod
    def environment(row, allocator) -> dict:
        return {**dict(row.environment), **allocator.environment}

    @contextlib.contextmanager
    def _folder(self, row):
        """Commands of ours run in a folder of their own, so that nothing of theirs is left behind."""
        if row.kind != "command" or row.folder:
            yield row.folder or None
            return
        folder = tempfile.mkdtemp(prefix="hakmem-bench-")
        try:
            yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def warm(self):
        mebibytes = warm_mebibytes(self.settings.warm_mib)
        if mebibytes >= 2:
            with contextlib.suppress(subprocess.TimeoutExpired):
                subprocess.run([self.hugewarm, str(mebibytes)], timeout=WARM_LIMIT, check=False)

    def launch(self, row, allocator, count, limit=None, number=0):
        """(Outcome, CPUs that others used) of one run that ended well."""
        command, library = self.command(row, count), self.copies.of(allocator.library, number)
        if row.kind == "rate":
            command[0] = self.copies.of(command[0], number)
        with self._folder(row) as folder:
            load = OtherLoad().start()
            outcome = self.launcher.run(
                command, library, limit or self.settings.timeout,
                self.environment(row, allocator), folder=folder,
            )  # fmt: skip
        if not outcome.good:
            raise LabError(outcome.reason())
        return outcome, load.stop(outcome.cost["user_s"] + outcome.cost["sys_s"])

    def run(self, row, allocator, count, number) -> Sample:
        """One Sample, as it comes."""
        self.warm()
        before = self.probe.measure() if row.threads else None
        outcome, other = self.launch(row, allocator, count, number=number)
        after = self.probe.measure() if row.threads else None
        return Sample(
            row=row.key, allocator=allocator.name, round=number, **figures(row, outcome),
            cost=outcome.cost, other_cpus=round(other, 3), distance_before=before,
            distance_after=after, count=count,
        )  # fmt: skip

    def prove(self, row, allocator) -> None:
        """Fails unless the command's malloc is the allocator's; it also fills the file caches."""
        with self._folder(row) as folder:
            override.prove(
                self.launcher, self.command(row, row.count), allocator.library,
                self.settings.timeout, self.environment(row, allocator), folder,
            )  # fmt: skip

    def floor_kb(self, allocator):
        """Peak RSS of a program that allocates nothing; None when it does not run."""
        runs = [
            self.launcher.run([self.empty], allocator.library, FLOOR_LIMIT, allocator.environment)
            for _ in range(FLOOR_RUNS)
        ]
        if not all(run.good for run in runs):
            return None
        sizes = [parse.peak_rss_kb(run.stderr.decode(errors="replace")) for run in runs]
        return sorted(sizes)[FLOOR_RUNS // 2]


def figures(row, outcome) -> dict:
    """Speed, length and RSS of a run: what the program says, or what launch saw of a command."""
    text = outcome.stdout.decode(errors="replace")
    if row.kind == "command":
        wall = outcome.cost["wall_s"]
        extra = parse.pairs(text, (row.memory,)) if row.memory else {}
        return {"ops_per_s": 1.0 / wall, "seconds": wall,
                "rss_kb": outcome.cost["max_rss_kb"], "extra": extra}  # fmt: skip
    rss_kb = parse.peak_rss_kb(outcome.stderr.decode(errors="replace"))
    return {**parse.throughput(text), "rss_kb": rss_kb}
