"""What a profiler finds out about one allocator, whichever profiler it was."""

from dataclasses import dataclass, field


@dataclass
class Profile:
    """`counters` are per operation; `functions` are (name, file, share of the whole)."""

    name: str  # hakmem, system
    title: str
    source: str  # what counted, in words
    ops: float  # operations that were counted
    counters: dict = field(default_factory=dict)  # counter -> per operation
    totals: dict = field(default_factory=dict)  # counter -> in all
    functions: list = field(default_factory=list)
    hotspots: str = ""  # the tool's own listing
    callgraph: str = ""
    annotated: dict = field(default_factory=dict)  # malloc, free -> instruction by instruction
    timed: dict = field(default_factory=dict)  # of runs without a profiler


# counters in the order they are shown; key -> what it is
COUNTERS = {
    "instructions": "instructions",
    "cycles": "cycles",
    "reads": "data reads",
    "writes": "data writes",
    "l1_misses": "first-level data cache misses",
    "last_misses": "last-level cache misses",
    "branches": "branches",
    "mispredicted": "mispredicted branches",
}
TIMED = {
    "ops_per_s": "operations per second",
    "rss_kb": "peak RSS, KB",
    "user_s": "user time, s",
    "sys_s": "system time, s",
    "minor_faults": "minor page faults",
    "voluntary_switches": "voluntary context switches",
    "involuntary_switches": "involuntary context switches",
}
