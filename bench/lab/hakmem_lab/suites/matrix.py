"""Runs a suite: its rows by its entries, on the engine, and writes what came out."""

import json
import shlex
import time

from .. import allocators as finder
from .. import compare, counters, samples
from ..errors import LabError
from ..settings import Settings
from . import knobs, notes, results
from .statements import state


def find_allocators(session, entries) -> list:
    """An Allocator per entry, each proved to be active and to know its options."""
    wanted = list(dict.fromkeys(entry.allocator for entry in entries))
    plain = {allocator.name: allocator for allocator in session.allocators(wanted)}
    absent = [entry.allocator for entry in entries if entry.allocator not in plain]
    if absent:
        raise LabError(f"allocator {absent[0]} cannot be had (see above)")
    ours = {plain[e.allocator].library for e in entries if e.options}
    for library in ours:
        names = {name for entry in entries for name, _ in entry.options}
        knobs.check_names(session, library, names)
    found = []
    for entry in entries:
        one = plain[entry.allocator]
        if entry.options:
            one = compare.variant(one, entry.environment, entry.name, entry.name)
            session.check(one)
        found.append(one)
    return found


def perform(suite, options, argv, title, folder):
    """Measures into a folder; ((page, the same for a terminal), summary, status 0, 1 = a program failed, 130)."""
    rows, entries = suite.rows(options), suite.entries(options)
    session = compare.Session(options.build, finder.parse_libraries(options.lib))
    compared = find_allocators(session, entries)
    settings = Settings(
        rounds=options.rounds, seconds=options.runtime, warm_mib=options.warm, timed_factor=1.0
    )
    command = shlex.join([f"scripts/{suite.name}.sh", *argv])
    base = next((e.name for e in entries if e.ours), None)
    counted = counters.instructions_of() if options.counts else ()
    summary = session.run(rows, compared, settings, folder, base=base, counters=counted,
                          options={"command": command, "title": title})  # fmt: skip
    taken = samples.load(folder / "samples.jsonl")
    if summary["interrupted"] and not taken:
        raise KeyboardInterrupt
    statements = state(rows, [(a.name, b.name) for a, b in suite.pairs(entries)], taken)
    summary["suite"] = suite.name
    if suite.axes:
        ours = next(a for a in compared if a.kind == "subject")
        chosen = knobs.values(session, ours.library, [axis.knob for axis in suite.axes])
        summary["defaults"] = " / ".join(chosen)
    summary["statements"] = [statement.plain() for statement in statements]
    (folder / "summary.json").write_text(json.dumps(summary, indent=1, default=str) + "\n")
    page, shown = (
        notes.page(title, suite, command, summary, entries, statements, draw)
        for draw in (notes.table, notes.aligned)
    )
    failed = summary["failures"] or summary["skipped"]
    return (page, shown), summary, 130 if summary["interrupted"] else 1 if failed else 0


def run(suite, options, argv) -> int:
    """One suite into a folder of its own."""
    with results.folder(results.folder_for(suite, options.out)) as folder:
        title = f"{suite.title}, {results.stamp()[:10]}"
        (page, shown), summary, status = perform(suite, options, argv, title, folder)
        results.write_logs(folder, summary, samples.load(folder / "samples.jsonl"))
        (folder / f"{suite.suffix}.md").write_text(page)
    print(notes.wrapped(shown))
    print(f"files: {folder}")
    return status


def save(suite, options, argv) -> int:
    """Adds a sweep to the notes of the day; the logs go to the folder of the day."""
    base, day = options.out or results.BENCHMARKS, time.strftime("%Y-%m-%d")
    results.writable(base)
    with results.folder(results.SCRATCH / f"{results.stamp()}_{suite.suffix}") as scratch:
        title = f"{suite.title}, {results.stamp()}"
        (page, shown), summary, status = perform(suite, options, argv, title, scratch)
        logs = results.writable(base / day)
        results.write_logs(logs, summary, samples.load(scratch / "samples.jsonl"))
    path = base / f"{day}_SWEEP_NOTES.md"
    with path.open("a") as file:
        file.write(("\n" if file.tell() else "") + page)
    print(notes.wrapped(shown))
    print(f"files: {path}, {logs}/")
    return status
