"""What is profiled: a row of the lab by its key, or one of these by name."""

import ctypes.util
import os
from dataclasses import dataclass
from pathlib import Path

from ..errors import LabError
from ..paths import built
from ..tables import Row
from ..workloads import ROWS

SCENARIOS = "scenarios"
SECONDS = 1.0  # of rows that run for a given time
SHORT_SECONDS = 3.0  # under callgrind, where everything is slower

NAMED = {
    "mixed": Row("mixed", "profile", "random mixed, 400 blocks of 16..1040 B",
                 "bench_random_mixed_system", ("{n}", "400", "1"), count=1_000_000),
    "tiny": Row("tiny", "profile", "random mixed, 400 blocks of 8..128 B",
                "bench_random_mixed_system", ("{n}", "400", "1", "8", "128"), count=1_000_000),
    "larson": Row("larson", "profile", "larson 8..1000 B, 1 thread", "bench_larson",
                  ("{s}", "8", "1000", "1000", "100", "4141", "1")),
    "large": Row("large", "profile", "larson 64 KiB..1 MiB, 1 thread", "bench_larson",
                 ("{s}", "65536", "1048576", "16", "100", "4141", "1")),
}  # fmt: skip
LONGER = 10  # times more steps where no profiler slows them down


def libc() -> str:
    """The C library's file: that of our own process."""
    with open("/proc/self/maps") as maps:
        for line in maps:
            path = line.split()[-1]
            if os.path.basename(path).startswith("libc.so"):
                return path
    return ctypes.util.find_library("c") or "libc.so.6"


@dataclass
class Work:
    row: Row
    build: Path

    @property
    def name(self) -> str:
        return self.row.key

    @property
    def title(self) -> str:
        return self.row.title

    @property
    def libc(self) -> str:
        return libc()

    def command(self, short=False) -> list:
        """The words of the command; `short` where a profiler slows it down."""
        count = self.row.count * (1 if short else LONGER)
        seconds = SHORT_SECONDS if short else SECONDS
        words = [w.replace("{n}", str(count)).replace("{s}", str(seconds)) for w in self.row.args]
        return [str(built(self.build, self.row.program)), *words]


def find(name, build) -> Work:
    """The work of this name."""
    rows = {row.key: row for row in ROWS if row.kind == "rate"}
    scenarios = {key.partition(":")[2]: row for key, row in rows.items() if row.group == SCENARIOS}
    rows = {**rows, **scenarios, **NAMED}
    if name not in rows:
        raise LabError(
            f"unknown workload '{name}'; there are {', '.join([*NAMED, *scenarios])}, and the rows "
            "of 'lab bench --list' that run a program of ours"
        )
    return Work(rows[name], build)
