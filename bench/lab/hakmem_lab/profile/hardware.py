"""A profile by perf: hardware counters, or at least samples by the clock."""

from .. import parse
from ..errors import LabError
from . import tools
from .shapes import Profile

HARDWARE = "perf with this machine's hardware counters"
CLOCK = "perf by the clock only: this machine gives it no hardware counters"
LIMIT = 120.0
SAMPLES = 40  # functions listed
FAMILY = ("malloc", "free", "cfree")  # with or without a prefix

# our counters as perf's events
EVENTS = {
    "instructions": "instructions:u",
    "cycles": "cycles:u",
    "branches": "branches:u",
    "mispredicted": "branch-misses:u",
    "l1_misses": "L1-dcache-load-misses:u",
    "last_misses": "LLC-load-misses:u",
}


def _preloaded(allocator, command) -> list:
    """The command with the allocator in it alone, not in perf."""
    if allocator.library is None:
        return list(command)
    return ["env", f"LD_PRELOAD={allocator.library}", *command]


def _run(launcher, allocator, work, words):
    outcome = launcher.run(
        [*words, "--", *_preloaded(allocator, work.command())], None, LIMIT, allocator.environment
    )
    if not outcome.good:
        raise LabError(f"{work.name} on {allocator.title} under perf: {outcome.reason()}")
    return outcome


def counts(text) -> dict:
    """{our counter: value} from perf stat -x,; what is not counted is left out."""
    found = {}
    for line in text.splitlines():
        words = line.split(",")
        for key, event in EVENTS.items():
            if len(words) > 2 and words[2].split(":")[0] == event.split(":")[0]:
                if words[0].strip().isdigit():
                    found[key] = int(words[0])
    return found


def shares(text) -> list:
    """[(function, object, share)] from perf report's plain table."""
    found = []
    for line in text.splitlines():
        words = line.split()
        if len(words) >= 4 and words[0].endswith("%") and words[-2] in ("[.]", "[k]"):
            found.append((words[-1], words[-3], float(words[0][:-1]) / 100))
    return sorted(found, key=lambda item: -item[2])


def _report(data, *options) -> str:
    return tools.output(["perf", "report", "--stdio", "-i", data, *options])


def _annotated(data, functions) -> dict:
    """malloc and free under whatever name perf knows them by."""
    found = dict.fromkeys(FAMILY, "")
    for name, _, _ in functions:
        plain = name.split("@")[0].rpartition("_")[2]
        if plain in FAMILY:
            found[plain] += tools.output(["perf", "annotate", "--stdio", "-i", data, "-s", name])
    return {name: text or f"{name} has no sample\n" for name, text in found.items()}


def profile(launcher, allocator, work, folder) -> Profile:
    """perf stat, then perf record, of the same work."""
    tools.need("perf")
    real, data = tools.counters_work(), folder / f"perf.data.{allocator.name}"
    statistics = folder / f"stat.{allocator.name}"
    words = ["perf", "stat", "-x", ",", "-o", str(statistics), "-e", ",".join(EVENTS.values())]
    outcome = _run(launcher, allocator, work, words)
    found = parse.throughput(outcome.stdout.decode(errors="replace"))
    ops, totals = found["ops_per_s"] * found["seconds"], counts(statistics.read_text())
    event = "cycles:u" if real else "cpu-clock:u"
    _run(launcher, allocator, work, ["perf", "record", "-q", "-g", "-e", event, "-o", str(data)])
    flat = _report(data, "--no-children", "-g", "none")
    listed = shares(flat)[:SAMPLES]
    result = Profile(
        allocator.name, allocator.title, HARDWARE if real else CLOCK, ops, totals=totals,
        counters={key: value / ops for key, value in totals.items()},
        functions=listed, hotspots=flat,
        callgraph=_report(data, "--children", "-g", "caller"), annotated=_annotated(data, listed),
    )  # fmt: skip
    statistics.unlink()
    data.unlink()
    return result
