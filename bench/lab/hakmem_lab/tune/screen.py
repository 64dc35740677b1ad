"""Which settings are worth a count under callgrind.

Each setting runs once at full speed, and the library says what it did: refills, locks, large blocks, system
calls. An option that is of use to a program moves one of these, its page faults or its memory. callgrind takes
25 times as long, and what goes by time happens 25 times as often in it; so it gets the best values only.
"""

from ..allocators import variant
from ..errors import LabError
from . import search
from .search import GOALS, LEAST_GAIN, singles

# What one of each takes, in cycles, roughly: these numbers order settings, and decide nothing else.
CYCLES = {("total", "uc_miss"): 200, ("total", "shared_lock"): 50, ("large", "local"): 200,
          ("large", "stolen"): 400, **{("os", call): 1500 for call in
          ("mmap", "munmap", "madvise", "mprotect", "mremap")}}  # fmt: skip
FAULT = 1500
RUNS = 3  # of the defaults
SLACK = 1.1  # of a bound on the other figure, which a single run may miss by chance
MOST = 6  # settings that are counted


def cycles(told) -> float:
    """The part of a run's cost that options move."""
    spent = sum(process.get(group, {}).get(name, 0) * each for (group, name), each in CYCLES.items()
                for process in told["statistics"])  # fmt: skip
    return spent + FAULT * told["faults"]


class Screen:
    """One cell of each setting, kept in a file of the folder."""

    def __init__(self, session, hakmem, kept, meter, program, named):
        self.session, self.hakmem, self.kept = session, hakmem, kept
        self.meter, self.program, self.named = meter, program, named
        self.refused = {}

    def cell(self, key, settings):
        """The cell; None when the library or the program refuses the settings."""
        if key not in self.kept.cells and key not in self.refused:
            try:
                allocator = variant(self.hakmem, self.named(settings))
                self.session.check(allocator)
                told = self.meter.at_full_speed(self.program, allocator)
            except LabError as error:
                if key.startswith("defaults"):
                    raise
                self.refused[key] = str(error)
                return None
            memory = told["peak_rss_kb"] + told["mean_rss_kb"]
            self.kept.put(key, {"cycles": cycles(told), "memory_kb": memory,
                                "wall_s": told["wall_s"], "user_s": told["user_s"]})  # fmt: skip
        return self.kept.cells.get(key)


def steps(knobs=None) -> list:
    """(key, settings) of all runs."""
    defaults = [(f"defaults {run}", {"LIVE": "0"}) for run in range(RUNS)]
    return defaults + [(repr(settings), settings) for settings in singles(knobs or search.KNOBS)]


def shortlist(cells, goal, whole, most=MOST, knobs=None) -> list:
    """The best value of each option that seems to be of use, the most useful first. `whole` is the cost of
    the program in all, in cycles; `cells` are those of steps()."""
    figure, other, bound = GOALS[goal]
    defaults = [cells[f"defaults {run}"] for run in range(RUNS)]
    base = sorted(defaults, key=lambda cell: cell[figure])[RUNS // 2]
    share = whole if figure == "cycles" else base[figure]
    spread = max(cell[figure] for cell in defaults) - min(cell[figure] for cell in defaults)
    least = max(share * LEAST_GAIN / 2, spread)
    best = {}
    for key, settings in steps(knobs)[RUNS:]:
        cell = cells.get(key)
        if cell is None or (other == "memory_kb" and cell[other] > SLACK * bound * base[other]):
            continue
        saved, (name,) = base[figure] - cell[figure], settings
        if saved > least and saved > best.get(name, (0, None))[0]:
            best[name] = (saved, settings)
    return [settings for _, settings in sorted(best.values(), key=lambda one: -one[0])][:most]
