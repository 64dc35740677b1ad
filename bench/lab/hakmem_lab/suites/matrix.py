"""Runs a suite: its rows by its entries, on the engine, and writes what came out."""

import dataclasses
import json
import shlex

from rich.console import Console

from .. import allocators as finder
from .. import machine
from ..engine import Engine, Settings
from ..errors import LabError
from ..launch import Launcher
from ..paths import build_folder, built
from ..progress import Meter
from ..tables import SUBJECT
from . import knobs, notes, results
from .statements import state


class BoundedLauncher(Launcher):
    """No run may take longer than BENCH_TIMEOUT."""

    def __init__(self, program, limit):
        super().__init__(program)
        self.limit = limit

    def run(self, command, library=None, limit=60.0, environment=None, while_running=None):
        return super().run(command, library, min(limit, self.limit), environment, while_running)


def find_allocators(entries, options, build) -> list:
    """An Allocator per entry, with the entry's name and environment."""
    wanted = list(dict.fromkeys(entry.allocator for entry in entries))
    found, _ = finder.find(wanted, finder.parse_libraries(options.lib), build)
    by_name = {allocator.name: allocator for allocator in found}
    absent = [name for name in wanted if name not in by_name]
    if absent:
        raise LabError(f"allocator {', '.join(absent)} cannot be had (see above)")
    return [
        dataclasses.replace(
            by_name[entry.allocator], name=entry.name, title=entry.name,
            environment={**by_name[entry.allocator].environment, **entry.environment},
        )
        for entry in entries
    ]  # fmt: skip


def check(launcher, build, entries, compared) -> None:
    """Knobs that the library lacks, values it refuses, libraries that do not load."""
    libraries = {a.library for e, a in zip(entries, compared) if e.allocator == SUBJECT}
    names = {name for entry in entries for name, _ in entry.options}
    for library in libraries:
        knobs.check_names(launcher, build, library, names)
    seen = set()
    for entry, allocator in zip(entries, compared):
        for pair in set(entry.options) - seen:
            seen.add(pair)
            setting = {knobs.PREFIX + pair[0]: pair[1]}
            knobs.check_values(launcher, build, allocator.library, setting)
        if allocator.library not in seen:
            seen.add(allocator.library)
            finder.check_active(allocator, launcher, built(build, "whose"))


def measure(options, rows, entries, logs, progress):
    """The engine's own run."""
    build = build_folder(options.build)
    launcher = BoundedLauncher(built(build, "launch"), options.timeout)
    compared = find_allocators(entries, options, build)
    check(Launcher(built(build, "launch")), build, entries, compared)
    settings = Settings(rounds=options.rounds, seconds=options.runtime, warm_mib=options.warm)
    engine = Engine(launcher, build, rows, compared, settings, Meter(progress), logs)
    result = engine.run()
    for (row, entry), reason in result.failures.items():
        logs.failed(row, entry, reason)
    return result


def document_of(suite, facts, rows, entries, result, statements) -> dict:
    """summary.json of a suite."""
    medians = notes.cells(rows, entries, result)
    return {
        "suite": suite.name,
        "machine": facts,
        "rows": [
            {"key": r.key, "title": r.title, "command": [r.program, *r.args],
             "entries": {name: {"ops_per_s": speed, "rss_kb": rss}
                         for name, (speed, rss) in medians[r.key].items()}}
            for r in rows
        ],
        "statements": [statement.plain() for statement in statements],
        "failures": [
            {"row": row, "entry": entry, "reason": reason}
            for (row, entry), reason in result.failures.items()
        ],
        "interrupted": result.interrupted,
    }  # fmt: skip


def perform(suite, options, argv, title, folder, samples="samples.jsonl"):
    """Measures into a folder; (page, document, status 0, 1 = a program failed, 130)."""
    rows, entries = suite.rows(options), suite.entries(options)
    logs = results.RawLogs(folder, samples)
    try:
        result = measure(options, rows, entries, logs, Console(stderr=True))
    finally:
        logs.close()
        results.remove_if_unused(folder, samples)
    if result.interrupted and not result.samples:
        raise KeyboardInterrupt
    statements = state(rows, [(a.name, b.name) for a, b in suite.pairs(entries)], result)
    command, facts = shlex.join([f"scripts/{suite.name}.sh", *argv]), machine.describe()
    page = notes.page(title, suite, command, facts, rows, entries, result, statements)
    status = 130 if result.interrupted else 1 if result.failures else 0
    return page, document_of(suite, facts, rows, entries, result, statements), status


def run(suite, options, argv) -> int:
    """One suite into a folder of its own."""
    folder = results.writable(results.folder_for(suite, options.out))
    title = f"{suite.suffix.replace('_', ' ').capitalize()}, {results.stamp()}"
    page, document, status = perform(suite, options, argv, title, folder)
    (folder / f"{suite.suffix}.md").write_text(page)
    (folder / "summary.json").write_text(json.dumps(document, indent=1, default=str) + "\n")
    print(page)
    print(f"files: {folder}")
    return status
