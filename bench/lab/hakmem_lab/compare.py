"""The engine as a function: rows x allocators -> figures, with everything written to a folder.

    from hakmem_lab import compare
    from hakmem_lab.settings import Settings

    session = compare.Session()                        # or Session(build_folder, libraries)
    plain = session.allocators(["hakmem"])[0]          # any names that --alloc takes
    small = compare.variant(plain, {"HAKMEM_X": 64}, title="X 64")
    session.check(small)                               # LabError names an unknown option
    summary = session.run(rows, [plain, small], Settings(rounds=5, seconds=1), "out")
    for row in summary["rows"]:
        cell = row["allocators"][small.name]
        cell["ops_per_s"], cell["rss_kb"]              # medians
        cell["speed"]   # {"value": B/A, "low", "high": 95 %}; judge.sign() says what it shows
        cell["rss"]     # the same for peak RSS
    compare.said(cell["speed"])                        # "1.05 [1.02, 1.08] faster"

Rows are tables.Row, from workloads.ROWS or your own; groups may have any name. Ratios are to
`base`: the allocator of that name, by default HAKMEM, else the first. The folder receives
samples.jsonl, setup.json, summary.json, report.html, chart.png and chart.svg; a folder that
cannot be written is a LabError. summary["interrupted"] is true after Ctrl-C, summary["failures"]
and summary["skipped"] say what did not run. BENCH_TIMEOUT and KILL_GRACE of the environment are
in effect for every run (settings.bounds()).
"""

import contextlib
import errno
import dataclasses
import json
from pathlib import Path

from rich.console import Console

from . import allocators as finder
from . import chart, judge, machine, needs, samples, setup, summaries
from .allocators import variant
from .engine import Engine
from .errors import LabError
from .launch import Launcher
from .paths import build_folder, built
from .progress import Meter
from .settings import Settings, bounds

__all__ = ["Session", "Settings", "said", "variant"]

said = judge.text  # a ratio with its interval, and what it says about B in words


def writable(folder) -> Path:
    """The folder, made if need be."""
    folder = Path(folder)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "samples.jsonl").open("a").close()
    except OSError as error:
        raise LabError(f"cannot write to {folder}: {error.strerror}") from None
    return folder


UNWRITTEN = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS, errno.EIO)  # the disk's or its limit's


@contextlib.contextmanager
def begun(folder):
    """The folder, made if need be. An end before the set-up is kept leaves none: nothing of it could go on."""
    there = Path(folder).exists()
    folder = writable(folder)
    try:
        yield folder
    except BaseException as error:
        lines = folder / "samples.jsonl"
        if not (folder / setup.NAME).is_file():
            if lines.is_file() and lines.stat().st_size == 0:
                lines.unlink()
            if not there:
                with contextlib.suppress(OSError):  # something else is in it, or it is gone
                    folder.rmdir()
        if isinstance(error, OSError) and error.errno in UNWRITTEN:
            raise LabError(f"cannot write to {folder}: {error.strerror}") from None
        raise


class Session:
    """A build folder with its launcher, and the libraries given by path."""

    def __init__(self, build=None, libraries=None, console=None):
        self.build, self.libraries = build_folder(build), libraries or {}
        self.console = console or Console(stderr=True)
        limits = bounds()
        self.launcher = Launcher(built(self.build, "launch"), limits.get("grace_s", 2.0))
        self.warnings = []

    def allocators(self, names=None) -> list:
        """The allocators of these names (None = the default peers and ours), checked."""
        found, warnings = finder.find(names, self.libraries, self.build)
        for text in warnings:
            self.warnings.append(text)
            self.console.print(text, style="yellow", highlight=False)
        for allocator in found:
            self.check(allocator)
        return found

    def check(self, allocator) -> None:
        """Fails unless it can be preloaded and knows the options it is to be run with."""
        finder.check_active(allocator, self.launcher, built(self.build, "whose"))
        finder.check_options(allocator, self.launcher, built(self.build, "empty"))

    def run(self, rows, allocators, settings, folder, *, base=None, listener=None, options=None,
            resume=False, counters=(), amend=None) -> dict:  # fmt: skip
        """Runs the comparison and writes its files; returns the summary document.

        `options` is kept with it (the command line). `resume` goes on with what the folder has.
        `counters` are called with (session, rows, allocators, settings, listener) after the timed
        runs and return what they add to the document, {name: figures}. `amend` is called with the
        document before it is written.
        """
        with begun(folder) as folder:
            return self._run(rows, allocators, settings, folder, base, listener or Meter(self.console),
                             options, resume, counters, amend)  # fmt: skip

    def _run(self, rows, allocators, settings, folder, base, listener, options, resume, counters,
             amend) -> dict:  # fmt: skip
        settings = dataclasses.replace(settings, **bounds())
        rows, lacking = needs.split_rows(rows)
        if not allocators:
            raise LabError("there is no allocator to measure")
        described, earlier, rounds = setup.describe(rows, allocators), [], None
        if resume:
            kept = setup.load(folder)
            setup.check_same(kept, described)
            settings = dataclasses.replace(kept["settings"], budget_s=None, **bounds())
            earlier, rounds = samples.load(folder / "samples.jsonl"), kept["rounds"]
            samples.rewrite(folder / "samples.jsonl", earlier)
        facts = machine.describe()
        with (folder / "samples.jsonl").open("a" if resume else "w") as lines:
            engine = Engine(self.launcher, self.build, rows, allocators, settings, listener,
                            lines, earlier, rounds)  # fmt: skip
            for key, reason in lacking.items():
                engine.skip(key, reason)
            engine.plan_ahead()
            self._say_plan(engine, listener)
            setup.save(folder, described, settings, engine.plan.rounds, options)
            result = engine.run()
            setup.save(folder, described, settings, engine.plan.rounds, options)
        result.notes[:0] = self.warnings
        extra = {}
        try:
            for counter in () if result.interrupted else counters:
                extra.update(counter(self, rows, allocators, settings, listener))
        except KeyboardInterrupt:
            result.interrupted = True
        summary = {
            "machine": facts,
            "command": (options or {}).get("command", ""),
            "title": (options or {}).get("title", ""),
            "allocators": {a.name: _about(a) for a in allocators},
            "settings": dataclasses.asdict(settings),
            **summaries.summarise(rows, allocators, result, base),
            **extra,
        }
        if amend:
            amend(summary)
        summary["files"] = write(folder, summary, allocators)
        return summary

    @staticmethod
    def _say_plan(engine, listener):
        minutes, bound = engine.plan.total() / 60, engine.settings.budget_s
        count = sum(rounds > 0 for rounds in engine.plan.rounds.values())
        text = f"planned: {count} rows, {len(engine.allocators)} allocators, "
        text += f"{engine.settings.rounds} rounds, samples of {engine.settings.seconds:g} s: "
        text += f"about {minutes:.1f} min" + (f" (at most {bound / 60:.0f})" if bound else "")
        for line in (text, *engine.plan.changes(engine.result.skipped)):
            listener.say(line)


def _about(allocator) -> dict:
    return {"title": allocator.title, "version": allocator.version, "kind": allocator.kind,
            "library": allocator.library, "environment": allocator.environment}  # fmt: skip


def write(folder, summary, allocators) -> list:
    """summary.json, the report and the charts; returns their names."""
    from . import html

    path = folder / "summary.json"
    path.write_text(json.dumps(summary, indent=1, default=str) + "\n")
    html.write(summary, folder / "report.html")
    names = [str(folder / "samples.jsonl"), str(path), str(folder / "report.html")]
    return names + chart.draw(summary, allocators, summary["machine"], folder / "chart")
