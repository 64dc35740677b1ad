"""`lab run`: a real program on the system allocator and on HAKMEM in turn."""

import hashlib
import json
import random
import shlex
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.table import Table

from . import allocators as allocator_finder
from . import judge, machine, override, stats
from .bench import PLAIN_WIDTH
from .errors import BadInput, LabError
from .launch import Launcher
from .paths import WORKLOADS, build_folder, built, readable
from .progress import Meter
from .tables import SUBJECT, SYSTEM

# figure -> how it comes out of launch's line
FIGURES = {
    "time s": lambda cost: cost["wall_s"],
    "CPU s": lambda cost: cost["user_s"] + cost["sys_s"],
    "peak RSS MB": lambda cost: cost["max_rss_kb"] / 1024,
    "page faults": lambda cost: cost["minor_faults"] + cost["major_faults"],
}
TIMES = ("time s", "CPU s")
TITLE_WIDTH = 40
DECIMALS = {"page faults": 0, "peak RSS MB": 1}


@dataclass(frozen=True)
class Job:
    """A command to run; `fixed` = its output must be the same on every allocator."""

    title: str
    command: tuple
    environment: dict
    fixed: bool


def jobs_for(words) -> list:
    """The user's command (as words, or as one quoted string, behind "--"), or our workloads."""
    words = words[1:] if words[:1] == ["--"] else words
    if len(words) == 1 and any(c.isspace() for c in words[0]):
        try:
            words = shlex.split(words[0])
        except ValueError as error:
            raise BadInput(f"CMD: {error}: {words[0]}") from None
    if words:
        title = readable(" ".join(words))
        title = title if len(title) <= TITLE_WIDTH else title[: TITLE_WIDTH - 4] + " ..."
        return [Job(title, tuple(words), {}, False)]
    scripts = sorted(WORKLOADS.glob("*.py"))
    if not scripts:
        raise LabError(f"no workload in {WORKLOADS}")
    # without its own pool, so that every Python object is a malloc of ours
    pool_off = {"PYTHONMALLOC": "malloc", "PYTHONHASHSEED": "0"}
    python = sys.executable
    return [Job(f"python3 {s.stem}", (python, str(s)), pool_off, True) for s in scripts]


class Comparison:
    """All rounds of all jobs; `costs[job.title, allocator]` is a list of launch's lines."""

    def __init__(self, launcher, jobs, compared, options, meter):
        self.launcher, self.jobs, self.compared = launcher, jobs, compared
        self.options, self.meter = options, meter
        self.costs, self.outputs, self.proofs = {}, {}, []
        self.interrupted = False

    def _prove(self, job):
        for allocator in self.compared:
            if allocator.library:
                seen = override.prove(
                    self.launcher, job.command, allocator.library, self.options.limit, {**job.environment, **allocator.environment},
                )  # fmt: skip
                self.proofs.append(f"{job.title}: {allocator.title} is active: {seen}")
                self.meter.console.print(self.proofs[-1], highlight=False, soft_wrap=True)

    def _once(self, job, allocator, number):
        self.meter.step(f"round {number}: {job.title}: {allocator.title}")
        outcome = self.launcher.run(
            job.command,
            allocator.library,
            self.options.limit,
            {**job.environment, **allocator.environment},
        )
        if not outcome.good:
            raise LabError(f"{job.title} on {allocator.title}: {outcome.reason()}")
        digest = hashlib.sha256(outcome.stdout).hexdigest()
        self.outputs.setdefault(job.title, {}).setdefault(digest, set()).add(allocator.title)
        self.costs.setdefault((job.title, allocator.name), []).append(outcome.cost)
        self.meter.done()

    def run(self):
        order = random.Random(1)
        self.meter.start(len(self.jobs) * len(self.compared) * self.options.rounds)
        begun = time.monotonic()
        try:
            for job in self.jobs:
                self._prove(job)
            for number in range(1, self.options.rounds + 1):
                for job in self.jobs:
                    shuffled = list(self.compared)
                    order.shuffle(shuffled)
                    for allocator in shuffled:
                        self._once(job, allocator, number)
        except KeyboardInterrupt:
            self.interrupted = True
        finally:
            self.meter.end(time.monotonic() - begun)

    def differing(self):
        """Jobs whose output should be the same everywhere and is not."""
        return [j.title for j in self.jobs if j.fixed and len(self.outputs.get(j.title, ())) > 1]


def table_of(comparison) -> Table:
    """Medians per figure and allocator, and the ratio to the system allocator's."""
    table = Table(title="medians; ratio to the system allocator (below 1 = less; ~: runs below 0.3 s)",
                  title_justify="left")  # fmt: skip
    table.add_column("program")
    table.add_column("figure")
    base = comparison.compared[0]
    for allocator in comparison.compared:
        table.add_column(allocator.title, justify="right")
        if allocator is not base:
            table.add_column("ratio", no_wrap=True)
    for job in comparison.jobs:
        for figure, value in FIGURES.items():
            cells = [job.title if figure == "time s" else "", figure]
            for allocator in comparison.compared:
                costs = comparison.costs.get((job.title, allocator.name), [])
                values = [value(cost) for cost in costs]
                shown = f"{stats.median(values):.{DECIMALS.get(figure, 3)}f}" if values else "-"
                cells.append(shown)
                if allocator is not base:
                    others = comparison.costs.get((job.title, base.name), [])
                    runs = [*costs, *others] if figure in TIMES else []
                    short = any(cost["wall_s"] < judge.SHORT for cost in runs)
                    cells.append(_ratio(values, [value(cost) for cost in others], short))
            table.add_row(*cells, end_section=figure == "page faults")
    return table


def _ratio(values, reference, short):
    if not values or not reference or stats.median(reference) <= 0:
        return "-"
    found = stats.ratio(values, reference)
    return judge.number(found.as_dict(), short)


def _write(comparison, path):
    document = {
        "machine": machine.describe(),
        "proofs": comparison.proofs,
        "interrupted": comparison.interrupted,
        "runs": [
            {"program": title, "allocator": name, "costs": costs}
            for (title, name), costs in comparison.costs.items()
        ],
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(document, indent=1) + "\n")


def run(options) -> int:
    """0 = all ran with the same output, 1 = an output differs, 130 = interrupted."""
    progress, output = Console(stderr=True), Console(highlight=False)
    if not output.is_terminal:
        output = Console(width=PLAIN_WIDTH, highlight=False)
    jobs, build = jobs_for(options.command), build_folder(options.build)
    launcher = Launcher(built(build, "launch"))
    names = options.alloc.split(",") if options.alloc else [SYSTEM, SUBJECT]
    if SYSTEM not in names:
        names.insert(0, SYSTEM)
    compared, _ = allocator_finder.find(names, allocator_finder.parse_libraries(options.lib), build)
    compared.sort(key=lambda allocator: allocator.name != SYSTEM)
    comparison = Comparison(launcher, jobs, compared, options, Meter(progress))
    comparison.run()
    if comparison.costs:
        output.print(table_of(comparison))
    if options.out:
        _write(comparison, Path(options.out))
    if comparison.interrupted:
        output.print("stopped before the end: figures are of what was done", style="yellow")
        return 130
    for title in comparison.differing():
        output.print(f"{title}: the output is not the same on all allocators", style="red")
    if not comparison.differing() and any(job.fixed for job in comparison.jobs):
        output.print("output: the same on all allocators")
    return 1 if comparison.differing() else 0
