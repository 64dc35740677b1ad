"""The search: one option after the other from the defaults, then what won together.

A cell is {"cycles", "memory_kb"}: the cost model's instructions and faults, and resident memory.
"""

from dataclasses import dataclass, field

# Options that tools/hakmem/when.def has for users or for tuning, and the values that are tried.
# Left out: those that look for faults, limit, log, or stand for others (PROFILE, CONF).
KNOBS = {
    "PURGE_DELAY_MS": ("0", "5000", "-1"),
    "PURGE_THREAD": ("0", "2"),
    "CACHE_BUDGET": ("256K", "4M", "256M"),
    "THP": ("0", "2"),
    "SHARDS": ("1",),
    "SS_SIZE": ("512K", "2M"),
    "HUGE_CACHE": ("0", "256M"),
    "MID_DYN1": ("0",),
    "TINY_POLICY_PROFILE": ("legacy", "tinyplus_all"),
    "POOL_RING_CAP": ("8", "128"),
    "L25_RUN_FACTOR": ("1", "16"),
    "TINY_SS_PARTIAL_INTERVAL": ("1", "64"),
    "SS_PREFAULT": ("1",),
}
PREFIX = "HAKMEM_"
LEAST_GAIN = 0.005  # a smaller one is not worth a setting
NOISE_FACTOR = 3.0  # nor one that is not so many times the difference of two equal runs
MOST_MEMORY, MOST_CYCLES = 1.10, 1.05  # of the defaults', where that is not the goal

# goal -> (the figure that shall be small, the other one, its bound)
GOALS = {
    "time": ("cycles", "memory_kb", MOST_MEMORY),
    "memory": ("memory_kb", "cycles", MOST_CYCLES),
}


@dataclass
class Found:
    """What a search came to; `tried` are (settings, cell, gain) in their order."""

    base: dict = field(default_factory=dict)
    noise: float = 0.0
    settings: dict = field(default_factory=dict)
    gain: float = 0.0
    tried: list = field(default_factory=list)
    interrupted: bool = False

    @property
    def threshold(self) -> float:
        return max(LEAST_GAIN, NOISE_FACTOR * self.noise)


def gain(cell, base, goal) -> float:
    """How much smaller the goal's figure is; minus infinity when the other one is too large."""
    figure, other, most = GOALS[goal]
    if cell[other] > most * base[other]:
        return float("-inf")
    return 1 - cell[figure] / base[figure] if base[figure] else 0.0


def too_dear(found, goal):
    """The settings with the largest gain of those that need too much of the other figure, and how much less and how
    much more that is; None when there are none."""
    figure, other, _ = GOALS[goal]
    dear = [(1 - cell[figure] / found.base[figure], cell[other] / found.base[other] - 1, settings)
            for settings, cell, won in found.tried if cell and won == float("-inf")]  # fmt: skip
    saved, more, settings = max(dear, key=lambda one: one[0], default=(0, 0, None))
    return (settings, saved, more) if saved > found.threshold else None


def singles(knobs) -> list:
    return [{name: value} for name, values in knobs.items() for value in values]


def most_cells(candidates) -> int:
    """Cells that a search needs at most: two of the defaults, each candidate, and the combinations."""
    return 2 + 2 * len(candidates)


def search(evaluate, goal, candidates, fits=len) -> Found:
    """`evaluate(settings, again=False)` is a cell, or None when the settings do not work. `fits(candidates)`
    is asked after the defaults how many of them there is time for. Ctrl-C ends the search with what it has."""
    found = Found()
    try:
        found.base, second = evaluate({}), evaluate({}, again=True)
        found.noise = min(1.0, abs(gain(second, found.base, goal)))
        _single(evaluate, goal, candidates[: fits(candidates)], found)
        _together(evaluate, goal, found)
    except KeyboardInterrupt:
        found.interrupted = True
    return found


def _try(evaluate, goal, settings, found):
    cell = evaluate(settings)
    won = gain(cell, found.base, goal) if cell else float("-inf")
    found.tried.append((settings, cell, won))
    return won


def _single(evaluate, goal, candidates, found) -> None:
    for settings in candidates:
        won = _try(evaluate, goal, settings, found)
        if won > max(found.threshold, found.gain):
            found.settings, found.gain = settings, won


def _together(evaluate, goal, found) -> None:
    """Adds the best value of each option, the most useful first, while that is of use."""
    best = {}
    for settings, _, won in found.tried:
        (name,) = settings
        if won > found.threshold and won > best.get(name, (0, ""))[0]:
            best[name] = (won, settings[name])
    order = sorted(best, key=lambda name: -best[name][0])
    for name in order[1:]:
        settings = {**found.settings, name: best[name][1]}
        won = _try(evaluate, goal, settings, found)
        if won > found.gain + found.threshold / 2:
            found.settings, found.gain = settings, won
