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
KINDS = ("instructions", "misses")  # what one run under callgrind counts
# One row of strace's table: share, seconds, usecs/call, calls, [errors,] name
CALLS = re.compile(r"^\s*[\d.]+\s+[\d.]+\s+\d+\s+(\d+)\s+(?:\d+\s+)?(\w+)$", re.MULTILINE)
EVENTS = re.compile(r"^events: (.+)$", re.MULTILINE)
TOTALS = re.compile(r"^(?:summary|totals): ([\d ]+)$", re.MULTILINE)
MISSES = ("D1mr", "D1mw")  # first-level data misses

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


def instructions_of(groups=None) -> list:
    """Instructions and misses of the rows of these groups (None: all), where there is callgrind."""
    absent = needs.lacking((("valgrind", "valgrind"),))
    return [_nothing(absent) if absent else _each("instructions", _count_instructions, groups)]


def _nothing(reason):
    def run(_session, _rows, _allocators, _settings, listener):
        listener.note(f"instructions are not counted: {reason}")
        return {}

    return run


def _each(name, count, groups=None):
    """A function for compare.Session.run: {kind: {row: {allocator: figures}}}."""

    def run(session, rows, allocators, settings, listener):
        runner = Runner(session.launcher, session.build, rows, settings)
        found = {}
        rows = [row for row in rows if groups is None or row.group in groups]
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
                for kind, one in figure.items():
                    found.setdefault(kind, {}).setdefault(row.key, {})[allocator.name] = one
        return found

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
        return {"syscalls": parse_strace(table.read())}


# --- instructions ------------------------------------------------------------


def parse_callgrind(text) -> dict:
    """{"instructions", "misses"} of one output file; no misses where no cache was simulated."""
    names, sums = EVENTS.search(text), TOTALS.search(text)
    if names is None or sums is None:
        raise LabError("callgrind wrote no total")
    found = dict(zip(names.group(1).split(), map(int, sums.group(1).split())))
    return {"instructions": found["Ir"], "misses": sum(found.get(name, 0) for name in MISSES)}


def _counted(runner, words, allocator, environment) -> tuple:
    """({"instructions", "misses"} of all processes, Outcome) of one run under callgrind."""
    with tempfile.TemporaryDirectory(prefix="hakmem-callgrind-") as folder:
        tool = ["valgrind", "-q", "--tool=callgrind", "--trace-children=yes", "--cache-sim=yes",
                f"--callgrind-out-file={folder}/out.%p"]  # fmt: skip
        limit = TIMEOUT_BASE + SLOW_FACTOR * runner.settings.seconds
        outcome = _run(runner, tool, words, allocator, environment,
                       runner.settings.timeout_s or limit)  # fmt: skip
        totals = [parse_callgrind(p.read_text(errors="replace")) for p in Path(folder).iterdir()]
    return {kind: sum(total[kind] for total in totals) for kind in KINDS}, outcome


def _operations(row, outcome) -> float:
    found = figures(row, outcome)
    return found["ops_per_s"] * found["seconds"]


def _count_instructions(runner, row, allocator) -> dict:
    """{kind: figures}. Per operation: two runs of different length tell the operations from the start-up.

    A row that runs for a given time has one run, less that of an empty program.
    """
    environment = {**runner.environment(row, allocator), **FIXED_WARM_UP}
    if row.kind == "command":
        found, _ = _counted(runner, runner.command(row, row.count), allocator, environment)
        return {kind: {"total": found[kind]} for kind in KINDS}
    if row.count:
        counts = [max(2, int(row.count * share)) for share in (SHORT_SHARE, LONG_SHARE)]
        if counts[0] == counts[1]:
            counts[1] += 2
        (short, one), (long, two) = (
            _counted(runner, runner.command(row, count), allocator, environment)
            for count in counts
        )
        operations = _operations(row, two) - _operations(row, one)
    else:
        short, _ = _counted(runner, [str(runner.empty)], allocator, environment)
        long, two = _counted(runner, runner.command(row, 0), allocator, environment)
        operations = _operations(row, two)
    if operations <= 0:
        raise LabError("too short to count")
    return {kind: {"per_op": (long[kind] - short[kind]) / operations, "total": long[kind]}
            for kind in KINDS}  # fmt: skip
