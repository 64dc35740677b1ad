"""A profile by callgrind, with the cache and branch simulation that it shares with cachegrind."""

from .. import parse
from ..errors import LabError
from . import annotate, cgfile, tools
from .shapes import Profile

SOURCE = (
    "callgrind with cachegrind's simulation of caches and branches: exact counts of instructions, "
    "modelled misses; this machine gives perf no hardware counters"
)
NO_WARM_UP = {"HAKMEM_BENCH_PREFAULT": "0"}  # its steps would be counted, and are no operations
LIMIT = 300.0  # seconds; callgrind is some fifty times slower than the machine
OPTIONS = ("--tool=callgrind", "--dump-instr=yes", "--cache-sim=yes", "--branch-sim=yes")

# our counters as sums of callgrind's events
SUMS = {
    "instructions": ("Ir",),
    "reads": ("Dr",),
    "writes": ("Dw",),
    "l1_misses": ("D1mr", "D1mw"),
    "last_misses": ("ILmr", "DLmr", "DLmw"),
    "branches": ("Bc", "Bi"),
    "mispredicted": ("Bcm", "Bim"),
}


def _shares(costs) -> list:
    """[(function, object, share of the instructions)], the largest first."""
    whole = costs.event("Ir", costs.total) or 1
    ranked = sorted(costs.functions.items(), key=lambda item: -costs.event("Ir", item[1]))
    return [
        (name.split("'")[0], where.rsplit("/", 1)[-1], costs.event("Ir", c) / whole)
        for (where, name), c in ranked
    ]


def _listing(path, *options) -> str:
    return tools.output(["callgrind_annotate", *options, str(path)])


def profile(launcher, allocator, work, folder) -> Profile:
    """Runs the work once under callgrind."""
    tools.need("valgrind", "callgrind_annotate", "objdump", "readelf")
    path = folder / f"callgrind.out.{allocator.name}"
    outcome = launcher.run(
        ["valgrind", *OPTIONS, f"--callgrind-out-file={path}", *work.command(short=True)],
        allocator.library, LIMIT, {**NO_WARM_UP, **allocator.environment},
    )  # fmt: skip
    if not outcome.good:
        raise LabError(f"{work.name} on {allocator.title} under callgrind: {outcome.reason()}")
    if not path.exists():
        raise LabError(f"callgrind wrote nothing for {allocator.title}")
    found = parse.throughput(outcome.stdout.decode(errors="replace"))
    costs, ops = cgfile.read(path), found["ops_per_s"] * found["seconds"]
    totals = {
        key: sum(costs.event(event, costs.total) for event in events)
        for key, events in SUMS.items()
    }
    result = Profile(
        allocator.name, allocator.title, SOURCE, ops, totals=totals,
        counters={key: value / ops for key, value in totals.items()},
        functions=_shares(costs),
        hotspots=_listing(path, "--auto=no", "--show-percs=yes"),
        callgraph=_listing(path, "--auto=no", "--inclusive=yes", "--tree=both", "--threshold=95"),
        annotated=annotate.both(costs, allocator.library or work.libc),
    )  # fmt: skip
    path.unlink()
    return result
