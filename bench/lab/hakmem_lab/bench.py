"""`hakmem_lab bench`: the comparison from options to files."""

import json
import time
from pathlib import Path

from rich.console import Console

from . import allocators as allocator_finder
from . import chart, machine, report, verdict
from .engine import Engine, Settings
from .errors import LabError
from .launch import Launcher
from .paths import ROOT, build_folder, built
from .progress import Meter
from .workloads import GROUPS, ROWS

PLAIN_WIDTH = 180  # of tables when stdout is a file


def choose_rows(text) -> list:
    """Rows for "mixed,bulk" or single keys like "threads:cross"; None = all."""
    if text is None:
        return list(ROWS)
    chosen = []
    for word in filter(None, (part.strip() for part in text.split(","))):
        found = [row for row in ROWS if word in (row.group, row.key)]
        if not found:
            raise LabError(
                f"unknown row '{word}'; groups are {', '.join(GROUPS)}, "
                f"single rows {ROWS[0].key} ... {ROWS[-1].key} (see --list)"
            )
        chosen += [row for row in found if row not in chosen]
    if not chosen:
        raise LabError("--rows names no row")
    return chosen


def _write(folder, summary, allocators, facts, result, options):
    """summary.json and the charts; returns the names of the files."""
    document = {
        "machine": facts,
        "allocators": {a.name: {"title": a.title, "version": a.version, "library": a.library}
                       for a in allocators},
        "settings": {"rounds": options.rounds, "seconds": options.seconds, "warm_mib": options.warm},
        **summary,
    }  # fmt: skip
    path = folder / "summary.json"
    path.write_text(json.dumps(document, indent=1, default=str) + "\n")
    return [str(path), *chart.draw(summary, allocators, facts, folder / "chart")]


def run(options) -> int:
    """0 = done (whatever the verdict), 130 = interrupted, else LabError."""
    progress, output = Console(stderr=True), Console(highlight=False)
    if not output.is_terminal:
        output = Console(width=PLAIN_WIDTH, highlight=False)
    rows, build = choose_rows(options.rows), build_folder(options.build)
    launcher = Launcher(built(build, "launch"))
    wanted = options.alloc.split(",") if options.alloc else None
    libraries = allocator_finder.parse_libraries(options.lib)
    compared, warnings = allocator_finder.find(wanted, libraries, build)
    for allocator in compared:
        allocator_finder.check_active(allocator, launcher, built(build, "whose"))
    for text in warnings:
        progress.print(text, style="yellow")

    stamp = time.strftime("%Y-%m-%d_%H%M%S")
    folder = Path(options.out) if options.out else ROOT / "build" / "bench" / stamp
    folder.mkdir(parents=True, exist_ok=True)
    settings = Settings(rounds=options.rounds, seconds=options.seconds, warm_mib=options.warm)
    facts = machine.describe()
    with (folder / "samples.jsonl").open("w") as lines:
        engine = Engine(launcher, build, rows, compared, settings, Meter(progress), lines)
        result = engine.run()
    summary = verdict.summarise(rows, compared, result)
    report.show(output, summary, compared)
    files = _write(folder, summary, compared, facts, result, options)
    output.print("", "files: " + ", ".join([str(folder / "samples.jsonl"), *files]), soft_wrap=True)
    return 130 if result.interrupted else 0
