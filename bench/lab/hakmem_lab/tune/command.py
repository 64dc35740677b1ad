"""`lab tune`: from options to the environment that won."""

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
from ..own.command import row_of
from ..paths import ROOT
from ..progress import Meter
from ..tables import SUBJECT
from . import search, show
from .measure import Cells, ReplayCells, line, named

ROUNDS, LIMIT, MINUTES = 11, 600.0, 30.0
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
        for name in ("tried.json", "checked.json"):
            (folder / name).unlink(missing_ok=True)
        kept = {name: getattr(options, name) for name in KEPT}
        (folder / SETUP).write_text(json.dumps({**kept, "folder": home}, indent=1) + "\n")
    return folder, home


def _watched(cells, meter):
    """cells.cell with progress."""

    def evaluate(settings, again=False):
        meter.step(line(settings) or "the defaults")
        try:
            return cells.cell(settings, again)
        finally:
            meter.done()

    return evaluate


def _search(cells, goal, minutes, console):
    meter, most = Meter(console), search.most_cells(search.KNOBS)
    wanted = cells.minutes(most)
    if wanted > minutes:
        raise LabError(f"the search would take about {wanted:.0f} min: give the program less to do, "
                       "or --trace, or more --minutes")  # fmt: skip
    meter.say(f"at most {most} settings, about {max(wanted, 0.1):.1f} min")
    meter.start(most)
    began = time.monotonic()
    try:
        return search.search(_watched(cells, meter), goal)
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
        options={"command": f"tune -- {shlex.join(options.words)}", "title": line(found.settings)},
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
    folder, home = _begin(options)
    goal = options.goal or "time"
    session = compare.Session(options.build, {}, console)
    hakmem = session.allocators([SUBJECT])[0]
    words = options.words and list(row_of(options.words, home).words)
    kind, what = (ReplayCells, options.trace) if options.trace else (Cells, words)
    cells = kind(session, hakmem, folder, "tried.json", what, home, options.limit or LIMIT)
    found = _search(cells, goal, options.minutes or MINUTES, console)
    output.print(show.table(found, goal))
    if found.interrupted:
        output.print(f"stopped before the end; go on: tune --resume {folder}", soft_wrap=True)
        return 130
    return _conclude(options, session, hakmem, folder, home, found, goal, output)


def _conclude(options, session, hakmem, folder, home, found, goal, output) -> int:
    if not found.settings:
        output.print(f"Nothing is better than the defaults: no setting gains {100 * found.threshold:.1f} % "
                     f"of {goal}.")  # fmt: skip
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
