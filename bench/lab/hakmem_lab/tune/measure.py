"""Cells of a search, counted: of the program itself, or of a replayed trace."""

import json
import time

from ..allocators import variant
from ..cost.figures import MODEL
from ..cost.measure import Meter
from ..cost.programs import Program
from ..errors import LabError
from ..own.measure import SLOWER, Kept, environment
from ..paths import built, readable
from .search import PREFIX

CALLGRIND = 25  # times slower, about, without caches
DRY = "--dry"
# Two runs of the defaults: each sets a variable, as other cells do, to what it is anyway. Where a
# variable moves the program's stack, that is a part of the noise.
DEFAULTS = ({"STATS": "off"}, {"LIVE": "0"})


def named(settings) -> dict:
    """As environment variables."""
    return {PREFIX + name: value for name, value in settings.items()}


def line(settings) -> str:
    return " ".join(f"{name}={value}" for name, value in named(settings).items())


def figures(cell) -> dict:
    """What a search looks at."""
    cycles = cell["instructions"] * MODEL["instructions"] + cell["faults"] * MODEL["faults"]
    return {**cell, "cycles": cycles, "memory_kb": cell["peak_rss_kb"] + cell["mean_rss_kb"]}


class Cells:
    """Counts cells, each once: they are kept in a file of the folder."""

    def __init__(self, session, hakmem, folder, name, words, home, limit):
        self.session, self.hakmem = session, hakmem
        self.kept, self.refused = Kept(folder, name), {}
        self.meter, self.full = Meter(session, whole=False, limit=limit * SLOWER), Meter(session, limit=limit)
        self.program = Program("command", readable(" ".join(words)), tuple(words), folder=home,
                               environment=tuple(environment().items()))  # fmt: skip

    def _of(self, allocator, program) -> dict:
        counted = self.meter.instructions(program, allocator)["instructions"]["total"]
        plain = self.full.at_full_speed(program, allocator)
        return {"instructions": counted, **{name: plain[name] for name in
                ("faults", "peak_rss_kb", "mean_rss_kb")}}  # fmt: skip

    def cell(self, settings, again=False):
        """The cell of these settings; None when the library or the program refuses them."""
        key = line(settings) or "defaults" + " again" * again
        if key not in self.kept.cells and key not in self.refused:
            try:
                allocator = variant(self.hakmem, named(settings or DEFAULTS[again]))
                self.session.check(allocator)
                began = time.monotonic()
                cell = self._of(allocator, self.program)
                self.kept.put(key, {**cell, "took_s": time.monotonic() - began})
            except LabError as error:
                if not settings:
                    raise
                self.refused[key] = str(error)
        return figures(self.kept.cells[key]) if key in self.kept.cells else None


class ReplayCells(Cells):
    """Of a trace: less what it costs to read it, and the memory of the heap alone."""

    def __init__(self, session, hakmem, folder, name, trace, home, limit):
        words = [str(built(session.build, "hakmem-replay")), "--json", str(trace)]
        super().__init__(session, hakmem, folder, name, words, home, limit)
        self.dry = Program("command", "reading the trace", (*words[:-1], DRY, words[-1]), folder=home,
                           environment=self.program.environment)  # fmt: skip
        self.reading = None

    def _counts(self, allocator, program):
        plain = self.full.plain(program, allocator)
        counted = self.meter.instructions(program, allocator)["instructions"]["total"]
        return counted, plain.cost["minor_faults"], json.loads(plain.stdout)

    def _of(self, allocator, program) -> dict:
        if self.reading is None:
            self.reading = self._counts(self.hakmem, self.dry)
        counted, faults, said = self._counts(allocator, program)
        return {"instructions": counted - self.reading[0], "faults": faults - self.reading[1],
                "peak_rss_kb": said["heap_most_kb"], "mean_rss_kb": said["heap_at_peak_kb"]}  # fmt: skip
