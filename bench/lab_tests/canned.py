"""Samples as a comparison would have taken them, the same every time."""

import numpy as np
from hakmem_lab import machine, summaries
from hakmem_lab.samples import Result, Sample
from hakmem_lab.tables import Allocator, Row
from hakmem_lab.workloads import ROWS

ALLOCATORS = (
    Allocator("hakmem", "HAKMEM", kind="subject", version="1.0.0"),
    Allocator("system", "glibc", kind="system", version="glibc 2.36"),
    Allocator("null", "null (limit)", kind="limit"),
    Allocator("mimalloc", "mimalloc v3", version="3.6.0"),
    Allocator("jemalloc", "jemalloc", version="5.3.1", environment={"MALLOC_CONF": "a:b"}),
)
SPEEDS = {"hakmem": 100, "system": 60, "null": 180, "mimalloc": 93, "jemalloc": 75}
PER_GROUP = 3
COMMANDS = tuple(
    Row(f"real:{name}", "real", f"{name}, a program with a title that is rather long", name, (),
        kind="command")
    for name in ("python3", "sqlite3", "lua")
)  # fmt: skip


def _sample(row, allocator, number, numbers, pace):
    speed = SPEEDS[allocator.name] * pace * numbers.normal(1, 0.015) * 1e6
    if row.kind == "command":
        speed /= 1e8
    cost = {"wall_s": 0.5, "user_s": 0.4, "sys_s": 0.01, "minor_faults": 1234, "major_faults": 0,
            "voluntary_switches": 3, "involuntary_switches": 12}  # fmt: skip
    extra = {"live_kb": 500, **({row.memory: numbers.uniform(1, 2)} if row.memory else {})}
    return Sample(
        row=row.key, allocator=allocator.name, round=number, ops_per_s=speed,
        seconds=0.4 if row.kind == "rate" else 1 / speed, rss_kb=int(numbers.uniform(2000, 9000)),
        extra=extra, cost=cost, other_cpus=0.0, distance_before=50, distance_after=50,
        disturbed="others used the CPUs" if number == 3 else "",
    )  # fmt: skip


def _some_rows() -> list:
    """The first rows of each group."""
    groups = dict.fromkeys(row.group for row in ROWS)
    return [row for group in groups for row in [r for r in ROWS if r.group == group][:PER_GROUP]]


def document() -> dict:
    """A summary document with everything that a report can show."""
    numbers, rows = np.random.default_rng(4), (*_some_rows(), *COMMANDS)
    result = Result(floors_kb={a.name: 1300 for a in ALLOCATORS}, shortest_trip=50,
                    notes=["the machine stays busy"],
                    skipped={"real:gs": "needs gs (Debian: apt-get install ghostscript)"},
                    failures={("bulk:1600/16/order", "jemalloc"): "ended by SIGSEGV"})  # fmt: skip
    for row in rows:
        for allocator in ALLOCATORS:
            if allocator.kind == "limit" and not row.null:
                continue
            pace = numbers.uniform(0.75, 1.25)
            result.samples += [_sample(row, allocator, n, numbers, pace) for n in (1, 2, 3)]
    return {
        "machine": {**machine.describe(), "commit": "0123456789ab", "dirty": True},
        "command": "hakmem_lab bench --size <standard>",
        "allocators": {a.name: {"title": a.title, "version": a.version, "kind": a.kind,
                                "environment": a.environment} for a in ALLOCATORS},
        "settings": {"rounds": 3, "seconds": 1.0, "budget_s": 2400.0, "warm_mib": 1024},
        "syscalls": {"threads:cross": {"hakmem": {"total": 40, "calls": {"mmap": 40}}}},
        "instructions": {"threads:cross": {"hakmem": {"per_op": 33.3, "total": 1000}},
                         "real:lua": {"hakmem": {"total": 123456}}},
        **summaries.summarise(rows, ALLOCATORS, result),
    }  # fmt: skip
