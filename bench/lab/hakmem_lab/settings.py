"""How a comparison is run: rounds, lengths, bounds; the sizes of run that have names."""

import os
from dataclasses import dataclass

from .errors import BadInput

TIMED_FACTOR = 2.0  # rows that run for a given time get this many sample lengths
TIMEOUT_BASE = 60.0  # seconds one run may take: this and so many sample lengths
TIMEOUT_FACTOR = 60.0
KILL_GRACE = 2.0


@dataclass
class Settings:
    rounds: int = 5
    seconds: float = 0.35  # least length of a sample
    warm_mib: int = 1024  # huge pages touched before each run; 0 = none
    seed: int = 1
    retries: int = 3  # more runs of one sample that was disturbed
    timed_factor: float = TIMED_FACTOR
    budget_s: float = None  # the whole comparison; samples and rounds shrink to fit
    timeout_s: float = None  # one run; None = derived from the length of a sample
    grace_s: float = KILL_GRACE  # between TERM and KILL

    @property
    def timeout(self) -> float:
        return self.timeout_s or TIMEOUT_BASE + TIMEOUT_FACTOR * self.seconds


@dataclass(frozen=True)
class Size:
    """A size of run: its defaults. `allocators` None = all that a plain run has."""

    rounds: int
    seconds: float
    minutes: float = None  # at most; None = as long as it takes
    allocators: tuple = None
    timed_factor: float = TIMED_FACTOR


SIZES = {
    "quick": Size(5, 0.35, 3, ("hakmem", "system", "mimalloc", "null")),
    "standard": Size(3, 1.0, 40, timed_factor=1.2),
    "full": Size(7, 2.0),
}
PLAIN = Size(5, 0.35)  # no size named
PLAIN_ROWS = "standard"  # the rows of a run without a size


def _bound(name, low):
    """A number of seconds from the environment, None when it is not set."""
    text = os.environ.get(name, "")
    if not text:
        return None
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not low <= value <= 86400:
        raise BadInput(f"{name} must be seconds from {low:g} to 86400, not '{text}'")
    return value


def bounds() -> dict:
    """The fields of Settings that BENCH_TIMEOUT and KILL_GRACE set."""
    found = {"timeout_s": _bound("BENCH_TIMEOUT", 0.1), "grace_s": _bound("KILL_GRACE", 0.0)}
    return {name: value for name, value in found.items() if value is not None}
