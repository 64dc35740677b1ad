"""Trains a profile-guided build: every row of ours once, on the instrumented library."""

import os
from pathlib import Path

from .cli import Parser
from .errors import LabError
from .launch import Launcher
from .paths import build_folder, built
from .workloads import ROWS

SECONDS = "0.3"  # of rows that run for a given time
REPEAT = 5  # times the least count of rows that run for a count
LIMIT = 120.0


def rows() -> list:
    """Rows of our own programs: they are the same everywhere and need no package."""
    return [row for row in ROWS if row.kind == "rate" and "standard" in row.sizes]


def command(row, build) -> list:
    words = [w.replace("{n}", str(row.count * REPEAT)).replace("{s}", SECONDS) for w in row.args]
    return [built(build, row.program), *words]


def parser() -> Parser:
    parser = Parser(description=__doc__)
    parser.add_argument("--library", required=True, type=Path, help="the instrumented library")
    parser.add_argument("--build", help="CMake build folder with the programs")
    return parser


def run(options) -> int:
    from rich.console import Console

    from .progress import Meter

    if not options.library.exists():
        raise LabError(f"{options.library} does not exist")
    build = build_folder(options.build)
    launcher, meter = Launcher(built(build, "launch")), Meter(Console(stderr=True))
    meter.start(len(rows()))
    begun = os.times().elapsed
    try:
        for row in rows():
            meter.step(f"training: {row.title}")
            environment = dict(row.environment)
            outcome = launcher.run(
                command(row, build), options.library.resolve(), LIMIT, environment
            )
            if not outcome.good:
                raise LabError(f"{row.key}: {outcome.reason()}")
            meter.done()
    finally:
        meter.end(os.times().elapsed - begun)
    return 0
