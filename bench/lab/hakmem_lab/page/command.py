"""`lab page`: the page from a run's folder, or from a run of its own."""

import json
import time
from pathlib import Path

from .. import allocators as finder
from .. import bench, compare
from ..errors import LabError
from ..paths import PAGE, ROOT
from ..suites import knobs, results
from ..tables import OWN_BUILDS, SUBJECT
from ..workloads import choose_rows
from . import charts, markdown

GUARD = f"{SUBJECT}:larson_guard"
GUARD_OPTION = "TINY_PROFILE"
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
    return summary


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
    kept = {"command": "make bench-report"}
    summary = session.run(rows, compared, bench.settings_of(options), folder, options=kept)
    if summary["interrupted"]:
        raise KeyboardInterrupt
    return folder


def without_places(text) -> str:
    """A summary as it may be published: no folder of the machine it was made on."""
    summary = json.loads(text)
    summary.get("machine", {}).get("environment", {}).pop("HAKMEM_BENCH_SUITE", None)
    words = summary.get("command", "").split(" ")
    if "--out" in words:
        del words[words.index("--out") : words.index("--out") + 2]
    summary["command"] = " ".join(words)
    for allocator in summary.get("allocators", {}).values():
        allocator["library"] = allocator.get("library") and Path(allocator["library"]).name
    return json.dumps(summary, indent=1) + "\n"


def run(options) -> int:
    results.writable(options.to.resolve().parent)
    source = options.source or measure(options)
    summary = load(source)
    day = time.strftime("%Y-%m-%d", time.localtime((source / "summary.json").stat().st_mtime))
    folder = options.charts or results.BENCHMARKS / f"{day}_ALLOCATORS"
    results.writable(folder)
    drawn = charts.draw(summary, folder.resolve())
    (folder / "summary.json").write_text(without_places((source / "summary.json").read_text()))
    options.to.write_text(markdown.page(summary, drawn, options.to.resolve()))
    print(f"{options.to}, {', '.join(str(file) for file in drawn.values())}; from {source}")
    return 0
