"""`lab published`: what is made from the table of a published run: the README's table, and drawings."""

from pathlib import Path

from ..errors import LabError
from ..paths import ROOT
from ..suites import results
from ..suites.notes import table
from ..tables import SUBJECT
from . import charts, figures, published

README = ROOT / "README.md"
RIVALS = ("mimalloc", "jemalloc", "tcmalloc", "system")
BEGIN, END = "<!-- made by scripts/lab published --readme -->", "<!-- end of what was made -->"


def newest() -> Path:
    """The table of the newest published run."""
    found = sorted(results.BENCHMARKS.glob(f"*_ALLOCATORS/{published.NAME}"))
    if not found:
        raise LabError(f"no published run is in {results.BENCHMARKS}")
    return found[-1]


def _head(about) -> str:
    title, version = about["title"], about["version"]
    return version if version.startswith(title) else f"{title} {version}".removesuffix(" -")


def _cell(rows, name) -> str:
    """Where the rival lacks rows that HAKMEM has: of how many both have."""
    speed, memory = (figures.means(rows, name, field) for field in ("ops_per_s", "rss_kb"))
    if not speed or not memory:
        return "-"
    both = sum(name in row["allocators"] for row in rows)
    return f"{1 / speed:.2f}, {100 / memory:.0f} %" + (f" ({both})" if both < len(rows) else "")


def text(found) -> str:
    """HAKMEM beside each rival: how many times as fast, and its share of the rival's memory. A group has the number of
    rows in which HAKMEM was measured."""
    names = [name for name in RIVALS if name in found["allocators"]]
    lines = []
    for title, rows in figures.groups(found).items():
        rows = [row for row in rows if SUBJECT in row["allocators"]]
        if rows:
            lines.append([f"{title.split(' (')[0]}, {len(rows)}", *(_cell(rows, name) for name in names)])
    heads = [_head(found["allocators"][name]) for name in names]
    return f"{table(['group, rows', *heads], lines)}\n\n{found['run']} {found['machine']}."


def put(page, made) -> str:
    """The page with what stands between the marks replaced."""
    before, mark, rest = page.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not mark or not end:
        raise LabError(f"{README.name} has no place for the table: {BEGIN}")
    return f"{before}{BEGIN}\n\n{made}\n\n{END}{after}"


def run(options) -> int:
    found = published.read(options.table or newest())
    if options.draw:
        options.draw.mkdir(parents=True, exist_ok=True)
        print(", ".join(str(file) for file in charts.draw(found, options.draw).values()))
    if options.readme:
        README.write_text(put(README.read_text(), text(found)))
    elif not options.draw:
        print(text(found))
    return 0
