"""Counts taken in runs of their own, since counting slows a program down.

System calls come from strace -fc; instructions from callgrind, which counts the same every
time whatever else the machine does.
"""

import re
import tempfile
from pathlib import Path

from . import needs
from .errors import LabError
from .runner import Runner, figures
from .settings import TIMEOUT_BASE

NAMES = ("syscalls", "instructions")
# One row of strace's table: share, seconds, usecs/call, calls, [errors,] name
CALLS = re.compile(r"^\s*[\d.]+\s+[\d.]+\s+\d+\s+(\d+)\s+(?:\d+\s+)?(\w+)$", re.MULTILINE)
TOTAL = re.compile(r"^(?:summary|totals): (\d+)", re.MULTILINE)

SHORT_SHARE, LONG_SHARE = 0.1, 0.5  # of a row's unscaled count, for the two counted runs
SLOW_FACTOR = 100  # callgrind's, for the time limit
FIXED_WARM_UP = {"HAKMEM_BENCH_PREFAULT": "1"}  # so that the difference of two runs has none


def chosen(options) -> list:
    """The counters that the options ask for; a missing tool is an error now, not an hour later."""
    found = []
    if options.syscalls:
        needs.require("strace", "strace", "--syscalls")
        found.append(_each("syscalls", _count_syscalls))
    if options.instructions:
        needs.require("valgrind", "valgrind", "--instructions")
        found.append(_each("instructions", _count_instructions))
    return found


def _each(name, count):
    """A function for compare.Session.run: {name: {row: {allocator: figures}}}."""

    def run(session, rows, allocators, settings, listener):
        runner = Runner(session.launcher, session.build, rows, settings)
        found = {}
        for row in rows:
            for allocator in allocators:
                if allocator.kind == "limit" and not row.null:
                    continue
                listener.say(f"counting {name}: {row.title}: {allocator.title}")
                try:
                    figure = count(runner, row, allocator)
                except LabError as error:
                    listener.note(f"{row.title}: {allocator.title}: {name}: {error}")
                    continue
                found.setdefault(row.key, {})[allocator.name] = figure
        return {name: found}

    return run


def _run(runner, tool, words, allocator, environment, limit):
    """Runs `words` under a tool; the library is the words' alone where the tool can do that."""
    with tempfile.TemporaryDirectory(prefix="hakmem-bench-") as folder:
        outcome = runner.launcher.run(
            [*tool, *words], allocator.library if tool[0] != "strace" else None, limit,
            environment, folder=folder,
        )  # fmt: skip
    if not outcome.good:
        raise LabError(outcome.reason())
    return outcome


# --- system calls ------------------------------------------------------------


def parse_strace(text) -> dict:
    """{"total": all calls, "calls": {name: count}}, the most frequent first."""
    calls = {name: int(count) for count, name in CALLS.findall(text) if name != "total"}
    if not calls:
        raise LabError("strace counted nothing")
    ordered = dict(sorted(calls.items(), key=lambda item: -item[1]))
    return {"total": sum(ordered.values()), "calls": ordered}


def _count_syscalls(runner, row, allocator) -> dict:
    with tempfile.NamedTemporaryFile("r", prefix="hakmem-strace-") as table:
        tool = ["strace", "-f", "-c", "-o", table.name]
        if allocator.library:
            tool += ["-E", f"LD_PRELOAD={allocator.library}"]
        _run(runner, tool, runner.command(row, row.count), allocator,
             runner.environment(row, allocator), runner.settings.timeout)  # fmt: skip
        return parse_strace(table.read())


# --- instructions ------------------------------------------------------------


def parse_callgrind(text) -> int:
    """All instructions of one output file."""
    found = TOTAL.search(text)
    if found is None:
        raise LabError("callgrind wrote no total")
    return int(found.group(1))


def _instructions(runner, words, allocator, environment) -> tuple:
    """(instructions of all processes, Outcome) of one run under callgrind."""
    with tempfile.TemporaryDirectory(prefix="hakmem-callgrind-") as folder:
        tool = ["valgrind", "-q", "--tool=callgrind", "--trace-children=yes",
                f"--callgrind-out-file={folder}/out.%p"]  # fmt: skip
        limit = TIMEOUT_BASE + SLOW_FACTOR * runner.settings.seconds
        outcome = _run(runner, tool, words, allocator, environment,
                       runner.settings.timeout_s or limit)  # fmt: skip
        totals = [parse_callgrind(p.read_text(errors="replace")) for p in Path(folder).iterdir()]
    return sum(totals), outcome


def _operations(row, outcome) -> float:
    found = figures(row, outcome)
    return found["ops_per_s"] * found["seconds"]


def _count_instructions(runner, row, allocator) -> dict:
    """Per operation: two runs of different length tell the operations from the start-up.

    A row that runs for a given time has one run, less that of an empty program.
    """
    environment = {**runner.environment(row, allocator), **FIXED_WARM_UP}
    if row.kind == "command":
        words = runner.command(row, row.count)
        return {"total": _instructions(runner, words, allocator, environment)[0]}
    if row.count:
        counts = [max(2, int(row.count * share)) for share in (SHORT_SHARE, LONG_SHARE)]
        if counts[0] == counts[1]:
            counts[1] += 2
        (short, one), (long, two) = (
            _instructions(runner, runner.command(row, count), allocator, environment)
            for count in counts
        )
        operations = _operations(row, two) - _operations(row, one)
    else:
        words = runner.command(row, 0)
        short = _instructions(runner, [str(runner.empty)], allocator, environment)[0]
        long, two = _instructions(runner, words, allocator, environment)
        operations = _operations(row, two)
    if operations <= 0:
        raise LabError("too short to count")
    return {"per_op": (long - short) / operations, "total": long}
