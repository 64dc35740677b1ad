"""Profiles HAKMEM and the system allocator and writes the pages."""

from .. import allocators as finder
from .. import compare, machine, parse, stats
from ..errors import LabError
from ..suites import results
from ..tables import SUBJECT, SYSTEM
from . import annotate, hardware, text, tools, valgrind, work
from .shapes import TIMED

RUNS = 5  # without a profiler
LIMIT = 60.0
TOOLS = {"perf": hardware.profile, "callgrind": valgrind.profile}


def timed(launcher, pair, job) -> dict:
    """{allocator: medians of plain runs}, in turn so that a disturbance meets both."""
    taken = {allocator.name: [] for allocator in pair}
    for _ in range(RUNS):
        for allocator in pair:
            outcome = launcher.run(job.command(), allocator.library, LIMIT, allocator.environment)
            if not outcome.good:
                raise LabError(f"{job.name} on {allocator.title}: {outcome.reason()}")
            found = parse.throughput(outcome.stdout.decode(errors="replace"))
            rss = parse.peak_rss_kb(outcome.stderr.decode(errors="replace"))
            taken[allocator.name].append({**outcome.cost, **found, "rss_kb": rss})
    return {
        name: {**{key: stats.median([run[key] for run in runs]) for key in TIMED}, "runs": RUNS}
        for name, runs in taken.items()
    }


def annotations(profiles, functions) -> str:
    """The listings of these functions, of one allocator after the other."""
    return "\n".join(
        "\n".join([f"=== {p.title}\n", *(p.annotated.get(name, "") for name in functions)])
        for p in profiles
    )


def write(folder, profiles, job, facts) -> list:
    """All files of the report; returns their names."""
    ours, theirs = profiles
    pages = {
        "PERF_ANALYSIS_EXECUTIVE_SUMMARY.md": text.executive(ours, theirs, job, facts),
        "perf_analysis_summary.md": text.details(ours, theirs, job),
        "perf_comparison_chart.txt": text.bars(ours, theirs),
        "perf_annotate_malloc.txt": annotations(profiles, annotate.FUNCTIONS),
        **{f"perf_{name}_annotate.txt": annotations(profiles, [name])
           for name in annotate.FUNCTIONS},
    }  # fmt: skip
    for p in profiles:
        pages[f"perf_{p.name}_stats.txt"] = text.stats(p)
        pages[f"perf_{p.name}_hotspots.txt"] = p.hotspots
        pages[f"perf_{p.name}_callgraph.txt"] = p.callgraph
    for name, page in pages.items():
        (folder / name).write_text(page)
    return sorted(pages)


def run(options) -> int:
    tool = options.tool or ("perf" if tools.counters_work() else "callgrind")
    session = compare.Session(options.build, finder.parse_libraries(options.lib))
    job = work.find(options.workload, session.build)
    found = {a.name: a for a in session.allocators([SUBJECT, SYSTEM])}
    pair = [found[SUBJECT], found[SYSTEM]]
    folder = options.out or results.BENCHMARKS / f"{results.stamp()}_PERF"
    with results.folder(folder):
        profiles = [TOOLS[tool](session.launcher, allocator, job, folder) for allocator in pair]
        plain = timed(session.launcher, pair, job)
        for profile in profiles:
            profile.timed = plain[profile.name]
        names = write(folder, profiles, job, machine.describe())
    print((folder / names[0]).read_text())
    print(f"files: {folder}: {', '.join(names)}")
    return 0
