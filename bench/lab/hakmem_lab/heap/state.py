"""What `hakmem stat --json` says of a process: the parts of its resident memory, over time, and the map of its
superslabs, which tells what pins each page."""

import json
from collections import defaultdict
from dataclasses import dataclass, field

from ..errors import LabError
from .names import own

GRAIN, UNIT = 4096, 16  # bytes of a grain, grains of a unit
PARTS = ("live", "rounding", "sparse", "caches", "dirty", "metadata", "other")
LEVELS = "." + "0123456789abcdef"


@dataclass
class Pin:
    """The pages of slabs of one class of which at most a quarter is in use: few blocks pin each."""

    size: int  # bytes of a block
    pages: int
    used: int  # bytes of the blocks in them

    @property
    def free(self):
        """Bytes in them that nobody uses."""
        return self.pages * GRAIN - self.used

    @property
    def blocks(self):
        return max(round(self.used / self.size), 1)


@dataclass
class State:
    """One look at a process."""

    process: int
    time: float  # seconds since 1970; None: not told
    resident: dict
    rows: list = field(default_factory=list)  # of the map: (address, [(class, grains)])
    stride: int = 1  # every so many superslabs one has a row
    pins: list = field(default_factory=list)  # [Pin], the most free bytes first

    @property
    def rss(self):
        return self.resident["rss"]


def _pins(told, stride) -> list:
    """Of the map's superslabs, each of which stands for `stride`."""
    found = [Pin(int(kind), stride * int(one["pages"]), stride * int(one["used"])) for kind, one in told.items()]
    return sorted(found, key=lambda pin: -pin.free)


def _state(text, where) -> State:
    try:
        root = json.loads(text)
        resident = {name: int(root["resident"][name]) for name in ("rss", *PARTS)}
        state = State(int(root["pid"]), root.get("time"), resident)
        chart = root.get("map", {})
        if chart:
            state.stride = int(chart.pop("stride"))
            state.pins = _pins(chart.pop("pins"), state.stride)
        for address, units in chart.items():
            pairs = [tuple(unit.split(":")) for unit in units.split()]
            if any(len(pair) != 2 or len(pair[1]) != UNIT or set(pair[1]) - set(LEVELS)
                   for pair in pairs):  # fmt: skip
                raise ValueError("the map is damaged")
            state.rows.append((int(address, 16), pairs))
    except (ValueError, KeyError, TypeError, AttributeError):
        raise LabError(f"{where} is no JSON of a running process: `hakmem stat PID --json --map`"
                       " writes that") from None  # fmt: skip
    state.rows.sort()
    return state


def read(text, where) -> list:
    """The states of one object, or of a line each (`--every`)."""
    lines = [line for line in text.split("\n") if line.startswith('{"time":')]
    if not lines:
        return [_state(text, where)]
    return [_state(line, f"{where}, line {i}") for i, line in enumerate(lines, 1)]


def calls_of_class(profile, size) -> list:
    """[(stack, part of the blocks in use of that size)], the largest part first."""
    sums = defaultdict(int)
    for site in profile.sites:
        if site.size == size:
            sums[own(profile.stack(site))] += site.live
    whole = sum(sums.values())
    return sorted(((stack, live / whole) for stack, live in sums.items() if live),
                  key=lambda pair: -pair[1])  # fmt: skip
