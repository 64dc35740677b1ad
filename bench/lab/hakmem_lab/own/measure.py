"""What is measured beside time: resident memory over time, and counted costs.

Each figure is written to the folder at once, so that an end before the end loses one run.
"""

import json
import os
import time
from pathlib import Path

import psutil

from .. import needs
from ..cost.measure import Meter
from ..cost.programs import Program
from ..errors import LabError

TREE_EVERY = 5  # looks at the memory for one look at which processes there are, once there is one
SLOWER = 60  # times that callgrind takes longer, about
SEEDS = {"PYTHONHASHSEED": "0", "PERL_HASH_SEED": "0"}  # unless the user has set them
HIDDEN = ("LD_PRELOAD", "HAKMEM_BENCH_SUITE", "HAKMEM_BENCH_RUN", "HAKMEM_BENCH_BUILD")
PAGE_KB = os.sysconf("SC_PAGE_SIZE") // 1024


class Resident:
    """Called while a run lasts: the resident memory of all its processes together."""

    def __init__(self):
        self.began, self.looks, self.tree, self.points = time.monotonic(), 0, [], []

    def __call__(self, launcher_pid):
        if not self.tree or self.looks % TREE_EVERY == 0:
            try:
                self.tree = [p.pid for p in psutil.Process(launcher_pid).children(recursive=True)]
            except psutil.Error:
                return
        self.looks += 1
        size = sum(map(_resident_kb, self.tree))
        if size:
            self.points.append((round(time.monotonic() - self.began, 3), size))


def _resident_kb(pid) -> int:
    try:
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * PAGE_KB
    except (OSError, IndexError):
        return 0


def mean_kb(points) -> float:
    """The mean over time; each point counts until the next."""
    if len(points) < 2:
        return float(points[0][1]) if points else 0.0
    weighted = sum(size * (after - at) for (at, size), (after, _) in zip(points, points[1:]))
    return weighted / (points[-1][0] - points[0][0])


def environment() -> dict:
    """The caller's, with fixed hash seeds."""
    own = {name: value for name, value in os.environ.items() if name not in HIDDEN}
    return {**SEEDS, **own}


class Kept:
    """A JSON file of the folder: {allocator: figures}."""

    def __init__(self, folder, name):
        self.path, self.cells = Path(folder) / name, {}
        if self.path.is_file():
            self.cells = json.loads(self.path.read_text())

    def put(self, name, cell):
        self.cells[name] = cell
        fresh = self.path.with_suffix(".new")
        fresh.write_text(json.dumps(self.cells) + "\n")
        fresh.replace(self.path)


class Counters:
    """`timeline` and `counted` are for compare.Session.run; `found` is what is there so far."""

    def __init__(self, folder, words, minutes):
        self.words, self.minutes = words, minutes
        self.lines, self.costs = Kept(folder, "timeline.json"), Kept(folder, "costs.json")

    @property
    def found(self) -> dict:
        return {"timeline": self.lines.cells, "costs": self.costs.cells}

    def timeline(self, session, rows, allocators, settings, listener) -> dict:
        for allocator in allocators:
            if allocator.name in self.lines.cells:
                continue
            listener.say(f"resident memory over time: {allocator.title}")
            look = Resident()
            outcome = session.launcher.run(
                rows[0].words, allocator.library, settings.timeout, allocator.environment, look,
                rows[0].folder,
            )  # fmt: skip
            if outcome.good:
                self.lines.put(allocator.name, look.points)
            else:
                listener.note(f"resident memory: {allocator.title}: {outcome.reason()}")
        return {"timeline": self.lines.cells}

    def counted(self, session, rows, allocators, settings, listener) -> dict:
        todo = [one for one in allocators if one.name not in self.costs.cells]
        absent = needs.lacking((("valgrind", "valgrind"), ("strace", "strace")))
        if absent or not self.minutes or not todo:
            if absent and self.minutes:
                listener.note(f"nothing is counted: {absent}")
            return {"costs": self.costs.cells}
        row, environ = rows[0], environment()
        program = Program("command", row.title, row.words, environment=tuple(environ.items()),
                          folder=row.folder)  # fmt: skip
        meter = Meter(session, limit=settings.timeout * SLOWER)
        whole = self._affordable(session, row, allocators, settings, listener)
        for allocator in todo:
            listener.say(f"counting: {allocator.title}")
            try:
                self.costs.put(allocator.name, _cell(meter, program, allocator, whole))
            except LabError as error:
                listener.note(f"not counted: {error}")
        return {"costs": self.costs.cells}

    def _affordable(self, session, row, allocators, settings, listener) -> bool:
        """Whether the instructions are counted: not where it would take too long."""
        outcome = session.launcher.run(row.words, None, settings.timeout, folder=row.folder)
        minutes = SLOWER * outcome.cost["wall_s"] * len(allocators) / 60
        if minutes > self.minutes:
            listener.note(f"instructions are not counted: that would take about {minutes:.0f} min "
                          "(--counts MINUTES)")  # fmt: skip
            return False
        listener.say(f"counting instructions: about {max(minutes, 0.1):.1f} min")
        return True


def _cell(meter, program, allocator, whole) -> dict:
    """The figures of one allocator; `whole` with the instructions."""
    counts = [meter.faults, meter.system_calls]
    found = {}
    for count in [meter.instructions, *counts] if whole else counts:
        found.update(count(program, allocator))
    return {**found, **by_calls(meter, program, allocator)}


def by_calls(meter, program, allocator) -> dict:
    """The figures by the clock of calls; none of a program that ends by _exit, which they miss."""
    try:
        return meter.memory(program, allocator)
    except LabError:
        return {}
