"""`lab bench`: the comparison from options to files."""

import shlex
import sys
import time
from pathlib import Path

from rich.console import Console

from . import allocators as allocator_finder
from . import counters, report, setup
from .compare import Session, Settings
from .errors import BadInput
from .paths import ROOT
from .settings import PLAIN, SIZES
from .workloads import choose_rows

PLAIN_WIDTH = 100  # of tables when stdout is a file
KEPT_OPTIONS = ("size", "rows", "alloc", "lib", "rounds", "seconds", "warm", "minutes", "build",
                "base")  # fmt: skip


def settings_of(options) -> Settings:
    """The size's settings, overridden by what was named; naming a length lifts the bound."""
    size = SIZES.get(options.size, PLAIN)
    named = options.rounds is not None or options.seconds is not None
    minutes = options.minutes or (None if named else size.minutes)
    return Settings(
        rounds=options.rounds or size.rounds,
        seconds=options.seconds or size.seconds,
        warm_mib=options.warm,
        timed_factor=size.timed_factor,
        budget_s=minutes * 60 if minutes else None,
    )


def _names(options):
    if options.alloc:
        return [name.strip() for name in options.alloc.split(",") if name.strip()]
    size = SIZES.get(options.size, PLAIN)
    return list(size.allocators) if size.allocators else None


def _restore(options):
    """The options of an interrupted comparison; others beside --resume would change it."""
    if any(getattr(options, name) for name in ("size", "rows", "alloc", "lib", "rounds",
                                               "seconds", "minutes", "base", "out")):  # fmt: skip
        raise BadInput("--resume goes on with the options that the comparison had: name no others")
    kept = setup.load(options.resume)["options"] or {}
    for name in KEPT_OPTIONS:
        setattr(options, name, kept.get(name))
    for name in counters.NAMES:
        setattr(options, name, getattr(options, name) or kept.get(name))
    options.out = options.resume


def _command_line() -> str:
    return shlex.join(["lab", *sys.argv[1:]])


def run(options) -> int:
    """0 = done (whatever the verdict), 130 = interrupted, else LabError."""
    output = Console(highlight=False)
    if not output.is_terminal:
        output = Console(width=PLAIN_WIDTH, highlight=False)
    if options.resume:
        _restore(options)
    rows = choose_rows(options.rows, options.size)
    wanted = counters.chosen(options)
    session = Session(options.build, allocator_finder.parse_libraries(options.lib))
    compared = session.allocators(_names(options))
    if options.base and options.base not in [a.name for a in compared]:
        raise BadInput(f"--base {options.base}: not among the allocators")
    stamp = time.strftime("%Y-%m-%d_%H%M%S")
    folder = Path(options.out) if options.out else ROOT / "build" / "bench" / stamp
    kept = {name: getattr(options, name) for name in (*KEPT_OPTIONS, *counters.NAMES)}
    summary = session.run(
        rows, compared, settings_of(options), folder,
        base=options.base, resume=bool(options.resume),
        options={**kept, "command": _command_line()}, counters=wanted,
    )  # fmt: skip
    report.show(output, summary, compared)
    output.print("", "files: " + ", ".join(summary["files"]), soft_wrap=True)
    return 130 if summary["interrupted"] else 0
