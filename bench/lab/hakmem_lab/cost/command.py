"""`lab cost`: its options, and a run of it."""

import argparse
import json
import sys
import time
from pathlib import Path

from ..cli import WordsParser
from ..errors import BadInput, LabError
from ..paths import ROOT
from .programs import PROGRAMS, choose, of_command

ABOUT = """\
Counts what allocators cost a program: instructions in all and in the allocator's functions, misses
of simulated caches, page faults, system calls, peak and mean RSS. Counts do not depend on what else
the machine does; a second run differs by less than 0.1 %."""
DEFAULT = "hakmem,null,system,mimalloc,mimalloc2,snmalloc,jemalloc,tcmalloc"
HARDENED = (
    "QUARANTINE=256", "RANDOM_PLACEMENT=1", "CANARY=1", "ZERO_ON_FREE=1",
    "ZERO_ON_FREE=1 CHECK_FREED=1", "CHECK_MISMATCH=1", "GUARD_LARGE=1", "GUARD_UNITS=8",
    "GUARD_EMPTY=1",
)  # fmt: skip


def hardened_parts() -> list:
    """The default, HAKMEM_HARDENED=1, each part of the profile alone beside it, and the profile."""
    path = "hakmem+HAKMEM_HARDENED=1"
    alone = ["+".join([path, *(f"HAKMEM_{word}" for word in part.split())]) for part in HARDENED]
    return ["hakmem", path, *alone, "hakmem+HAKMEM_PROFILE=HARDENED"]


def parser() -> WordsParser:
    made = WordsParser(
        description=ABOUT, formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog=f"programs: {' '.join(program.name for program in PROGRAMS)}\n\nexamples:\n"
        "  scripts/lab cost lua,perl --alloc hakmem,mimalloc\n"
        "  scripts/lab cost scenarios --alloc hakmem,null\n"
        "  scripts/lab cost lua --lib old=/path/libhakmem.so --diff old,hakmem\n"
        "  scripts/lab cost --alloc hakmem --moved\n"
        "  scripts/lab cost lua --parts --instructions\n"
        "  scripts/lab cost --alloc hakmem -- /usr/bin/ls -l /",
    )  # fmt: skip
    made.add_argument("what", nargs="?", help="programs, rows or groups of rows (the programs)")
    made.add_argument("--alloc", help=f"allocators, as in 'lab bench' ({DEFAULT})")
    made.add_argument("--lib", action="append", metavar="NAME=PATH", help="add an allocator")
    made.add_argument("--build", help="CMake build folder (default: build/release)")
    made.add_argument("--base", help="allocator to which ratios refer (hakmem, else the first allocator)")
    made.add_argument("--diff", metavar="OLD,NEW", help="two allocators, function by function")
    made.add_argument("--instructions", action="store_true",
                      help="count only instructions, not cache misses: three times as fast")  # fmt: skip
    made.add_argument("--parts", action="store_true",
                      help="instead of --alloc: count the hardened profile, and each of its parts alone")  # fmt: skip
    made.add_argument("--from", dest="source", metavar="FOLDER[,FOLDER]",
                      help="show the combined counts of earlier runs")  # fmt: skip
    made.add_argument("--moved", action="store_true", help="show what has changed since the published run")
    made.add_argument("--publish", action="store_true", help="make this the published run")
    made.add_argument("--out", type=Path, help="folder for the results (build/cost/<time>)")

    def check(options):
        if options.words and options.what:
            raise BadInput("either programs or a command behind --")
        if options.words:
            of_command(options.words)
        choose(options.what)
        if options.parts and (options.alloc or options.diff):
            raise BadInput("--parts says which allocators: neither --alloc nor --diff")
        if options.publish and options.instructions:
            raise BadInput("--publish needs all counts: not with --instructions")
        if options.diff is not None and len(_pair(options)) != 2:
            raise BadInput("--diff needs two allocators: OLD,NEW")

    made.check = check
    return made


def _pair(options) -> list:
    return [name for name in (options.diff or "").split(",") if name]


def _read(text) -> dict:
    from . import figures

    documents = []
    for folder in text.split(","):
        try:
            documents.append(json.loads((Path(folder) / "cost.json").read_text()))
        except (OSError, ValueError) as error:
            raise LabError(f"{folder} is not the folder of a run of lab cost: {error}") from None
    return figures.merged(documents)


def _keep(document, folder) -> None:
    (folder / "cost.json").write_text(json.dumps(document, indent=1) + "\n")


def _cells(meter, programs, allocators, document, folder) -> None:
    """Counts everything into the document; what cannot run is said and left out. What is counted is
    written at once, so that an end before the end loses one cell."""
    for program in programs:
        row = document["programs"][program.name] = {"title": program.title, "cells": {}}
        for allocator in allocators:
            began = time.monotonic()
            try:
                cell = meter.cell(program, allocator)
            except LabError as error:
                print(f"lab cost: left out: {error}", file=sys.stderr)
                continue
            row["cells"][allocator.name] = cell
            _keep(document, folder)
            total = cell["instructions"]["total"]
            print(f"{program.name}: {allocator.title}: {total:,} instructions, "
                  f"{time.monotonic() - began:.0f} s", file=sys.stderr, flush=True)  # fmt: skip


def _measure(options, words, folder) -> dict:
    from .. import allocators as finder
    from .. import compare, machine
    from ..paths import build_folder, built
    from ..needs import split_rows
    from . import measure

    measure.need_tools()
    programs, lacking = split_rows([of_command(words)] if words else choose(options.what))
    for name, reason in lacking.items():
        print(f"lab cost: {name} {reason}", file=sys.stderr)
    libraries = {"null": str(built(build_folder(options.build), "libbump.so")),
                 **finder.parse_libraries(options.lib)}  # fmt: skip
    names = options.alloc or (options.diff if options.diff else DEFAULT)
    names = hardened_parts() if options.parts else [name for name in names.split(",") if name]
    session = compare.Session(options.build, libraries)
    wanted = session.allocators(names)
    allocators = [allocator for allocator in wanted if allocator.name in names]
    if not programs or not allocators:
        raise LabError("there is nothing to count")
    known = [allocator.name for allocator in allocators]
    base = options.base or (_pair(options)[-1] if options.diff else None)
    base = base or ("hakmem" if "hakmem" in known else known[0])
    if base not in known:
        raise BadInput(f"--base {base}: not among the allocators")
    document = {
        "machine": machine.describe(), "base": base,
        "allocators": {one.name: {"title": one.title, "version": one.version}
                       for one in allocators},
        "programs": {},
    }  # fmt: skip
    meter = measure.Meter(session, whole=not options.instructions)
    _cells(meter, programs, allocators, document, folder)
    return document


def run(options) -> int:
    from . import draw, published, show

    words = options.words
    folder = options.out or ROOT / "build" / "cost" / time.strftime("%Y-%m-%d_%H%M%S")
    folder.mkdir(parents=True, exist_ok=True)
    document = _read(options.source) if options.source else _measure(options, words, folder)
    if not any(row["cells"] for row in document["programs"].values()):
        raise LabError("nothing was counted")
    _keep(document, folder)
    page = show.difference(document, *_pair(options)) if options.diff else show.page(document)
    (folder / "cost.md").write_text(page)
    draw.draw(document, folder / "cost")
    print(page)
    if options.moved:
        print(published.told(published.moved(published.load(), document)))
    if options.publish:
        published.write(document, "scripts/lab cost --publish")
    print(f"files: {folder}", file=sys.stderr)
    return 0
