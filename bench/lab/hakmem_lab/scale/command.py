"""`lab scale`: from options to files."""

import json
import os
import subprocess
import tempfile
import time
from pathlib import Path

from rich.console import Console

from ..bench import PLAIN_WIDTH
from ..errors import LabError
from ..machine import revision
from ..paths import ROOT, build_folder, built
from ..progress import Meter
from . import build, figures, published, show, validate
from .kept import Kept
from .options import allocators_of, cpus_of, loads_of, machine_of
from .runs import Cell, Runner
from .symbols import Names


def operations(program) -> dict:
    """{workload: (operation, about)}, as the program says."""
    done = subprocess.run([program, "--list"], capture_output=True, text=True, check=True)
    rows = [line.split("\t") for line in done.stdout.splitlines()]
    return {name: (operation, about) for name, operation, about in rows}


class Collected:
    """What the runs counted, cell by cell."""

    def __init__(self, most_lines, subject, kept):
        self.names, self.kept = Names(), kept
        self.figures, self.tops, self.notes = {}, {}, []
        self.most_lines, self.subject = most_lines, subject

    def take(self, cell, outcome) -> None:
        if isinstance(outcome, LabError):
            self.notes.append(f"{cell.library.title}, {cell.load}, {cell.cpus} CPUs, seed "
                              f"{cell.seed}: {outcome}")  # fmt: skip
            return
        found = {"figures": figures.of_run(self.names, outcome)}
        if cell.library.name == self.subject and cell.seed == 1 and self.most_lines:
            found["top"] = {
                "allocator": cell.library.name, "cpus": cell.cpus,
                "lines": figures.top_lines(self.names, outcome, self.most_lines),
                "places": figures.top_places(self.names, outcome, self.most_lines),
                "process_locks": figures.top_process_locks(self.names, outcome, self.most_lines),
                "functions": figures.top_functions(self.names, outcome, self.most_lines),
            }  # fmt: skip
        self.kept.put(cell, found)
        self.add(cell, found)

    def add(self, cell, found) -> None:
        self.figures.setdefault(cell.key, {})[cell.seed] = found["figures"]
        if "top" in found:
            self.tops[cell.key] = found["top"]

    def left(self, cells) -> list:
        """The cells that an earlier run has not counted; those that it has are added."""
        found = [(cell, self.kept.get(cell)) for cell in cells]
        for cell, known in found:
            if known:
                self.add(cell, known)
        return [cell for cell, known in found if not known]

    def rows(self, load, libraries, cpus) -> list:
        keys = [(load, library.name, n) for library in libraries for n in cpus]
        return [
            {"allocator": key[1], "cpus": key[2], "runs": len(self.figures[key]),
             "figures": figures.combine([run for _, run in sorted(self.figures[key].items())])}
            for key in keys
            if key in self.figures
        ]  # fmt: skip


def document_of(collected, options, libraries, loads, about, interrupted) -> dict:
    cpus = cpus_of(options)
    return {
        "date": time.strftime("%Y-%m-%d %H:%M"),
        "commit": revision()["commit"],
        "machine": machine_of(options),
        "seeds": options.seeds,
        "cpus": cpus,
        "interrupted": interrupted,
        "allocators": {lib.name: {"title": lib.title, "version": lib.version} for lib in libraries},
        "loads": [
            {"name": load, "operation": about[load][0], "about": about[load][1],
             "rows": collected.rows(load, libraries, cpus),
             "tops": [top for key, top in sorted(collected.tops.items()) if key[0] == load]}
            for load in loads
        ],
        "notes": sorted(collected.notes),
    }  # fmt: skip


def write(document, folder) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "scale.json").write_text(json.dumps(document, indent=1) + "\n")
    (folder / "scale.html").write_text(show.page(document), encoding="utf-8")


def measure(runner, cells, jobs, collected) -> bool:
    """Runs all cells; True if it was interrupted."""
    meter, begun = Meter(Console(stderr=True)), time.monotonic()
    meter.start(len(cells))

    def done(cell, outcome):
        meter.step(f"{cell.library.title}, {cell.load}, {cell.cpus} CPUs")
        meter.done()
        collected.take(cell, outcome)

    try:
        runner.each(cells, jobs, done)
    except KeyboardInterrupt:
        return True
    finally:
        meter.end(time.monotonic() - begun)
    return False


def folder_of(options) -> Path:
    stamp = time.strftime("%Y-%m-%d_%H%M%S")
    named = options.resume or options.out
    return Path(named) if named else ROOT / "build" / "scale-runs" / stamp


def run(options) -> int:
    if options.source:
        published.write(published.read(options.source.split(",")))
        return 0
    output = Console(highlight=False)
    if not output.is_terminal:
        output = Console(width=PLAIN_WIDTH + 20, highlight=False)
    program = built(build_folder(options.build), "scale")
    loads, libraries = loads_of(options), build.libraries(allocators_of(options))
    if not libraries:
        raise LabError("none of the allocators could be built")
    if options.validate:
        return validate.run(options, program, libraries, output)
    # The slowest runs first, so that no CPU waits at the end; with --quick-first all rows have a run soon.
    order = cpus_of(options) if options.quick_first else reversed(cpus_of(options))
    cells = [Cell(load, library, n, seed) for n in order for load in loads
             for library in libraries for seed in range(1, options.seeds + 1)]  # fmt: skip
    if options.quick_first:
        cells.sort(key=lambda cell: cell.seed)
    folder = folder_of(options)
    kept = Kept(folder, program, machine_of(options), options.lines)
    collected = Collected(options.lines, libraries[0].name, kept)
    cells = collected.left(cells)
    with tempfile.TemporaryDirectory(prefix="hakmem-scale-") as described:
        runner = Runner(program, machine_of(options), Path(described), options.limit)
        stopped = measure(runner, cells, options.jobs or os.cpu_count() or 1, collected)
    if not collected.figures:
        raise LabError(collected.notes[0] if collected.notes else "stopped before the first result")
    document = document_of(collected, options, libraries, loads, operations(program), stopped)
    write(document, folder)
    show.print_all(output, document)
    output.print("", f"files: {folder / 'scale.json'}, {folder / 'scale.html'}", soft_wrap=True)
    return 130 if stopped else 0
