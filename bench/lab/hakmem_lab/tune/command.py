"""`lab tune`: from options to the environment that won."""

import contextlib
import json
import os
import shlex
import time
from pathlib import Path

from rich.console import Console

from .. import compare
from ..allocators import variant
from ..bench import PLAIN_WIDTH
from ..cost.measure import need_tools
from ..errors import LabError
from ..front import said
from ..own.command import row_of
from ..own.measure import Kept
from ..paths import ROOT, readable
from ..progress import Meter
from ..tables import SUBJECT
from . import search, show
from .measure import CALLGRIND, Cells, ReplayCells, line, named
from .screen import RUNS, Screen, shortlist
from .screen import steps as steps_of

ROUNDS, LIMIT, MINUTES = 7, 600.0, 30.0
CHECKS = 3  # counts of what won, on the program itself
LEAST_COUNTS = 3 + CHECKS  # a search that has no time for so many is not begun
KEPT = ("goal", "trace", "rounds", "limit", "minutes", "build", "words")
SETUP = "tune.json"


def _restore(options) -> str:
    """The options of an interrupted search; the folder that its program ran in."""
    try:
        kept = json.loads((Path(options.resume) / SETUP).read_text())
    except (OSError, ValueError):
        raise LabError(f"{options.resume} is not the folder of a search") from None
    for name in KEPT:
        setattr(options, name, kept[name])
    options.out = options.resume
    return kept["folder"]


def _begin(options):
    """(folder of the results, folder of the program)."""
    home = _restore(options) if options.resume else os.getcwd()
    stamp = time.strftime("%Y-%m-%d_%H%M%S")
    base = ROOT / "build" / "tune" if (ROOT / "build").is_dir() else Path("hakmem-tune")
    folder = (Path(options.out) if options.out else base / stamp).resolve()
    compare.writable(folder)
    if not options.resume:
        options.trace = options.trace and str(Path(options.trace).resolve())
        kept = {name: getattr(options, name) for name in KEPT}
        (folder / SETUP).write_text(json.dumps({**kept, "folder": home}, indent=1) + "\n")
    return folder, home


@contextlib.contextmanager
def _begun(options):
    """What _begin() returns. A search that fails leaves no set-up: it would fail again, and the folder is free."""
    folder, home = _begin(options)
    try:
        yield folder, home
    except LabError:
        if not options.resume:
            for name in (SETUP, "screened.json", "samples.jsonl"):
                (folder / name).unlink(missing_ok=True)
            with contextlib.suppress(OSError):  # something else is in it
                folder.rmdir()
        raise


def _watched(cells, meter):
    """cells.cell with progress."""

    def evaluate(settings, again=False):
        meter.step(line(settings) or "the defaults")
        try:
            return cells.cell(settings, again)
        finally:
            meter.done()

    return evaluate


def _affordable(cell, steps, minutes) -> None:
    """LabError when the search would take longer; `cell` is the first one."""
    wanted = (cell["wall_s"] * steps + CALLGRIND * cell["user_s"] * LEAST_COUNTS) / 60
    if wanted > minutes:
        raise LabError(f"the search would take about {wanted:.0f} min: give the program less to do, "
                       "or --trace, or more --minutes")  # fmt: skip


def _screened(cells, kept, minutes, meter) -> dict:
    """The cells of all settings at full speed."""
    screen, steps = Screen(cells.session, cells.hakmem, kept, cells.full, cells.program, named), steps_of()
    meter.start(len(steps))
    began = time.monotonic()
    try:
        for key, settings in steps:
            meter.step(line(settings))
            cell = screen.cell(key, settings)
            if key == steps[0][0]:
                _affordable(cell, len(steps), minutes)
            meter.done()
    finally:
        meter.end(time.monotonic() - began)
    return screen.kept.cells


def _search(cells, kept, goal, minutes, console):
    """What a search found: all settings at full speed, then the best ones counted."""
    meter, began = Meter(console), time.monotonic()
    meter.say(f"{len(steps_of())} runs at full speed; what seems of use is then counted, {CALLGRIND} times slower")
    screened = _screened(cells, kept, minutes, meter)
    if not shortlist(screened, goal, 0):
        return search.Found()
    whole = cells.cell({})["cycles"]
    candidates = shortlist(screened, goal, whole)
    if not candidates:
        return search.Found()

    def fits(candidates):
        left = 60 * minutes - (time.monotonic() - began)
        took = cells.cell({})["took_s"] + cells.cell({}, again=True)["took_s"]
        return max(1, min(len(candidates), int(left / took * 2) - CHECKS))

    meter = Meter(console)
    meter.say(f"{len(candidates)} settings seem of use: {', '.join(map(line, candidates))}")
    meter.start(search.most_cells(candidates))
    try:
        return search.search(_watched(cells, meter), goal, candidates, fits)
    finally:
        meter.end(time.monotonic() - began)


def _checked(options, session, hakmem, folder, home, found, goal):
    """(whether the settings are better on the program itself, why)."""
    cells = Cells(session, hakmem, folder, "checked.json", options.words, home, options.limit or LIMIT)
    cell = cells.cell(found.settings)
    if cell is None:
        return False, f"it does not run with them: {next(iter(cells.refused.values()))}"
    gain = search.gain(cell, cells.cell({}), goal)
    noise = abs(search.gain(cells.cell({}, again=True), cells.cell({}), goal))
    threshold = max(search.LEAST_GAIN, search.NOISE_FACTOR * noise)
    won = variant(hakmem, named(found.settings), "tuned", "HAKMEM, tuned")
    settings = compare.Settings(rounds=options.rounds or ROUNDS, warm_mib=0,
                                timeout_s=options.limit or LIMIT)  # fmt: skip
    summary = session.run(
        [row_of(options.words, home)], [hakmem, won], settings, folder / "check",
        resume=bool(options.resume) and (folder / "check" / "setup.json").is_file(),
        options={"command": readable(f"tune -- {shlex.join(options.words)}"), "title": line(found.settings)},
    )  # fmt: skip
    if summary["interrupted"]:
        raise KeyboardInterrupt
    timed = summary["rows"][0]["allocators"].get("tuned", {}) if summary["rows"] else {}
    return show.verdict(goal, gain, threshold, timed.get("speed"), timed.get("rss"))


def run(options) -> int:
    """0 = done, whether something is better or not, 130 = interrupted, else LabError."""
    output, console = Console(highlight=False), Console(stderr=True)
    if not output.is_terminal:
        output = Console(width=PLAIN_WIDTH, highlight=False)
    need_tools()
    with _begun(options) as (folder, home):
        return _run(options, folder, home, output, console)


def _run(options, folder, home, output, console) -> int:
    goal = options.goal or "time"
    session = compare.Session(options.build, {}, console)
    hakmem = session.allocators([SUBJECT])[0]
    words = options.words and list(row_of(options.words, home).words)
    kind, what = (ReplayCells, options.trace) if options.trace else (Cells, words)
    cells = kind(session, hakmem, folder, "tried.json", what, home, options.limit or LIMIT)
    try:
        found = _search(cells, Kept(folder, "screened.json"), goal, options.minutes or MINUTES, console)
        if found.tried:
            output.print(show.table(found, goal))
        if not found.interrupted:
            return _conclude(options, session, hakmem, folder, home, found, goal, output)
    except KeyboardInterrupt:
        pass
    output.print(f"stopped before the end; go on: {said('tune')} --resume {folder}", soft_wrap=True)
    return 130


def _conclude(options, session, hakmem, folder, home, found, goal, output) -> int:
    if not found.settings:
        output.print(show.nothing(found, goal, len(steps_of()) - RUNS), soft_wrap=True)
        return 0
    output.print(f"won the search: {line(found.settings)} ({100 * found.gain:.1f} % less {goal})",
                 soft_wrap=True)  # fmt: skip
    if not options.words:
        output.print("On the replay only: give the program, too, to have it checked there.")
        return 0
    better, why = _checked(options, session, hakmem, folder, home, found, goal)
    if better:
        output.print(f"Better on the program itself: {why}.", soft_wrap=True)
        output.print(f"export {line(found.settings)}", soft_wrap=True)
    else:
        output.print(f"Not better on the program itself: {why}. Keep the defaults.", soft_wrap=True)
    return 0
