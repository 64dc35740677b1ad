"""`lab compare`: a program of the user's on several allocators, from options to files."""

import os
import shlex
import time
from pathlib import Path

from rich.console import Console

from .. import compare, samples, setup
from ..allocators import parse_libraries
from ..bench import PLAIN_WIDTH
from ..errors import BadInput, LabError
from ..front import said
from ..paths import ROOT, readable
from ..tables import Row
from . import find, show
from .measure import Counters
from .options import DEFAULT, program_of

ROUNDS, LIMIT, COUNT_MINUTES = 7, 600.0, 15.0
TITLE = 60  # letters
KEPT = ("alloc", "lib", "base", "rounds", "limit", "minutes", "counts", "warm", "build", "words")


def row_of(words, folder) -> Row:
    """The program as a row of the lab."""
    title = readable(shlex.join(words))
    title = title if len(title) <= TITLE else title[: TITLE - 4] + " ..."
    return Row("program", "program", title, readable(words[0]), (), kind="command",
               words=(program_of(words), *words[1:]), folder=folder)  # fmt: skip


def settings_of(options) -> compare.Settings:
    return compare.Settings(
        rounds=options.rounds or ROUNDS, warm_mib=options.warm or 0,
        timeout_s=options.limit or LIMIT,
        budget_s=options.minutes * 60 if options.minutes else None,
    )  # fmt: skip


def _restore(options) -> str:
    """The options of an interrupted comparison; the folder that its program ran in."""
    kept = setup.load(options.resume)["options"] or {}
    if "words" not in kept:
        raise LabError(f"{options.resume} is not the folder of a comparison of a program")
    for name in KEPT:
        setattr(options, name, kept[name])
    options.out = options.resume
    return kept["folder"]


def _session(options, console):
    """(session, allocators); what is missing is said in one line."""
    libraries = parse_libraries(options.lib)
    session = compare.Session(options.build, libraries, console)
    found, missing = find.find(options.alloc or DEFAULT, libraries, session.build)
    if missing:
        session.warnings.append(missing)
        console.print(missing, style="yellow", highlight=False, soft_wrap=True)
    for allocator in found:
        session.check(allocator)
    if options.base and options.base not in [one.name for one in found]:
        raise BadInput(f"--base {options.base}: not among the allocators")
    return session, found


def run(options) -> int:
    """0 = done, 130 = interrupted, else LabError."""
    output = Console(highlight=False)
    if not output.is_terminal:
        output = Console(width=PLAIN_WIDTH, highlight=False)
    home = _restore(options) if options.resume else os.getcwd()
    session, allocators = _session(options, Console(stderr=True))
    stamp = time.strftime("%Y-%m-%d_%H%M%S")
    base = ROOT / "build" / "compare" if (ROOT / "build").is_dir() else Path("hakmem-compare")
    folder = Path(options.out) if options.out else base / stamp
    with compare.begun(folder) as folder:
        return _compare(options, session, allocators, folder, home, output)


def _compare(options, session, allocators, folder, home, output) -> int:
    row = row_of(options.words, home)
    allocators = find.with_own_malloc(session, allocators, row, options.limit or LIMIT)
    counters = Counters(folder, options.words, COUNT_MINUTES if options.counts is None
                        else options.counts)  # fmt: skip
    kept = {name: getattr(options, name) for name in KEPT}
    summary = session.run(
        [row], allocators, settings_of(options), folder, base=options.base,
        resume=bool(options.resume), counters=[counters.timeline, counters.counted],
        options={**kept, "folder": home, "command": readable(f"compare -- {shlex.join(options.words)}"),
                 "title": f"{row.title} on {len(allocators)} allocators"},
        # The goals of HAKMEM's own rows say nothing here.
        amend=lambda document: document.update(counters.found, verdict=[]),
    )  # fmt: skip
    return _finish(output, summary, folder)


def _finish(output, summary, folder) -> int:
    """Tables, and where the page is, of what there is."""
    if not summary["rows"]:
        reasons = [one["reason"] for one in (*summary["skipped"], *summary["failures"])]
        if summary["interrupted"]:
            raise KeyboardInterrupt
        raise LabError(reasons[0] if reasons else "nothing was measured")
    show.show(output, summary, samples.load(folder / "samples.jsonl"))
    output.print(f"page: {folder / 'report.html'}", soft_wrap=True)
    if summary["interrupted"]:
        output.print(f"go on: {said('compare')} --resume {folder}", soft_wrap=True)
    return 130 if summary["interrupted"] else 0
