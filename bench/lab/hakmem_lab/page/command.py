"""`lab page`: the page from a run's folder, or from a run of its own."""

import json
import sys
import time
from pathlib import Path

from .. import allocators as finder
from .. import bench, compare, counters, judge
from ..errors import LabError
from ..paths import PAGE, ROOT
from ..suites import knobs, results
from ..summaries import without_false_intervals
from ..tables import OWN_BUILDS, SUBJECT
from ..workloads import choose_rows
from . import markdown, published

GUARD = f"{SUBJECT}:larson_guard"
GUARD_OPTION = "TINY_PROFILE"
COUNTED_GROUPS = ("mixed",)  # whose instructions and misses are counted, too
BUILDS = ("hakmem-pgo", "hakmem-nolto")


def load(folder) -> dict:
    """A comparison's summary.json."""
    path = folder / "summary.json"
    try:
        summary = json.loads(path.read_text())
    except OSError as error:
        raise LabError(f"{path}: {error.strerror}") from None
    except ValueError:
        raise LabError(f"{path} is not JSON") from None
    if not summary.get("rows") or "allocators" not in summary or "verdict" not in summary:
        raise LabError(f"{path} is not the summary of a comparison")
    if not any(SUBJECT in row["allocators"] for row in summary["rows"]):
        raise LabError(f"{path}: HAKMEM was not measured")
    return without_false_intervals(summary)


def _variants(session) -> list:
    """HAKMEM in its other forms, as far as they are there."""
    found = [name for name in BUILDS if (ROOT / OWN_BUILDS[name].library).exists()]
    library = session.allocators([SUBJECT])[0].library
    try:
        knobs.check_names(session, library, [GUARD_OPTION])
    except LabError as error:
        session.console.print(f"no row for larson_guard: {error}", highlight=False, soft_wrap=True)
        return found
    return [GUARD, *found]


def measure(options) -> Path:
    """Runs the comparison; its folder."""
    session = compare.Session(options.build, finder.parse_libraries(options.lib))
    rows = choose_rows(options.rows, options.size)
    compared = session.allocators(options.alloc.split(",") if options.alloc else None)
    if not options.alloc:
        compared += session.allocators(_variants(session))
    folder = results.SCRATCH / f"{results.stamp()}_REPORT"
    kept = {"command": " ".join(["make bench-report", *sys.argv[2:]])}
    counted = counters.instructions_of(COUNTED_GROUPS)
    summary = session.run(rows, compared, bench.settings_of(options), folder, options=kept,
                          counters=counted)  # fmt: skip
    if summary["interrupted"]:
        raise KeyboardInterrupt
    return folder


def place(options, summary):
    """Where the page goes: a smaller run than that of the page that is there goes elsewhere."""
    here = options.to.resolve()
    kept = judge.size_of(here.read_text()) if here.is_file() and not options.replace else None
    now = judge.size_of(judge.made_of(summary))
    less = [f"{now[what]} {what} instead of {count}" for what, count in (kept or {}).items()
            if now[what] < count]  # fmt: skip
    if not less:
        return here, options.table, ""
    folder = results.SCRATCH / f"{results.stamp()}_PAGE"
    said = f"{options.to.name} is left as it is: this run has {', '.join(less)}; --replace replaces it"
    return folder / here.name, options.table or folder, said


def run(options) -> int:
    source = options.source or measure(options)
    summary = load(source)
    target, folder, said = place(options, summary)
    day = time.strftime("%Y-%m-%d", time.localtime((source / "summary.json").stat().st_mtime))
    folder = folder or results.BENCHMARKS / f"{day}_ALLOCATORS"
    results.writable(folder)
    results.writable(target.parent)
    table = folder / published.NAME
    table.write_text(published.text(summary))
    target.write_text(markdown.page(summary, table.resolve(), target.resolve()))
    if said:
        print(said)
    print(f"{target}, {table}; from {source}")
    return 0
